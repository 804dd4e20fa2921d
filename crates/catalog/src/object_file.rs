//! The bytes of a BPF object.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// A BPF object as it is in a file, as which it is used: `&[u8]`. Those that come with the program are compressed until then.
#[derive(Clone, Debug)]
pub struct ObjectFile {
    packed: &'static [u8],
    bytes: Arc<OnceLock<Vec<u8>>>,
}

impl ObjectFile {
    /// One that the build script has embedded.
    pub(crate) fn embedded(packed: &'static [u8]) -> Self {
        Self { packed, bytes: Arc::default() }
    }

    /// One that was compiled or read.
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self { packed: &[], bytes: Arc::new(OnceLock::from(bytes)) }
    }

    /// Whether it comes with the program.
    pub fn is_built_in(&self) -> bool {
        !self.packed.is_empty()
    }
}

impl Deref for ObjectFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let unpack = || miniz_oxide::inflate::decompress_to_vec(self.packed);
        self.bytes.get_or_init(|| unpack().expect("the build script has packed it"))
    }
}
