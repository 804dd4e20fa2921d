//! Machine code of schedulers, kept in the user's cache folder.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use fairground_catalog::Cache;
use fairground_simulator::Store;

/// The cache for the translation of one object under this program.
struct Translations {
    cache: Cache,
    program: String,
    /// The hash of the object file.
    object: String,
}

/// The place where translations of the object with this hash are kept; `None` if nothing can be.
pub(crate) fn of_object(hash: &str) -> Option<Arc<dyn Store>> {
    Some(Arc::new(Translations {
        cache: Cache::find()?,
        program: program()?,
        object: hash.to_owned(),
    }))
}

/// The stamp that tells this program from all others: machine code fits the one that has made it only.
fn program() -> Option<String> {
    let file = fs::metadata("/proc/self/exe").ok()?;
    let stamp = [
        file.dev().cast_signed(),
        file.ino().cast_signed(),
        file.len().cast_signed(),
        file.mtime(),
        file.mtime_nsec(),
        file.ctime(),
        file.ctime_nsec(),
    ];
    Some(format!("{} {stamp:?}", env!("CARGO_PKG_VERSION")))
}

impl Translations {
    fn parts<'a>(&'a self, key: &'a [u8]) -> [&'a [u8]; 3] {
        [self.program.as_bytes(), self.object.as_bytes(), key]
    }
}

impl Store for Translations {
    fn find(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.content(&self.parts(key))
    }

    fn keep(&self, key: &[u8], content: &[u8]) {
        self.cache.keep_content(&self.parts(key), content);
    }
}
