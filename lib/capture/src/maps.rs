//! The maps that a loader has created.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use fairground_bpf::{Map as Definition, Object, Section, TypeKind, map_kind};

/// The kind of a map that is a table of callbacks: no object defines one as a map.
pub(crate) const STRUCT_OPS: u32 = 26;

/// A map that the loader created.
pub(crate) struct Map {
    /// Its name, cut to 15 characters.
    pub name: String,
    pub kind: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub flags: u32,
    pub extra: u64,
    /// Type of its values among the types given with it: for global variables, their section.
    pub value_type: u32,
    pub types: u32,
    pub kernel_value_type: u32,
    pub frozen: bool,
    /// The loader's entries, in the order of first writes.
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// A table of callbacks.
    pub table: Vec<u8>,
}

impl Map {
    /// The section whose variables it holds.
    pub(crate) fn section<'a>(&self, object: &'a Object) -> Option<&'a Section> {
        let one = object.btf().types().get(self.value_type as usize)?;
        if !matches!(one.kind, TypeKind::DataSection { .. }) {
            return None;
        }
        object.sections().iter().find(|section| section.name == one.name)
    }

    /// The object's definition of it.
    pub(crate) fn definition<'a>(&self, object: &'a Object) -> Option<&'a Definition> {
        object.maps().iter().find(|one| {
            let cut = &one.name.as_bytes()[..one.name.len().min(15)];
            cut == self.name.as_bytes() && one.kind == self.kind
        })
    }

    /// Bytes of a value in a call; some maps have one per CPU.
    pub(crate) fn value_length(&self, cpus: usize) -> usize {
        let size = self.value_size as usize;
        if is_per_cpu(self.kind) { size.next_multiple_of(8) * cpus } else { size }
    }

    /// An element of an array, whose elements are in `file`.
    pub(crate) fn element(&self, file: &File, index: u64) -> io::Result<Vec<u8>> {
        let mut value = vec![0; self.value_size as usize];
        let stride = u64::from(self.value_size).next_multiple_of(8);
        file.read_exact_at(&mut value, index * stride)?;
        Ok(value)
    }

    /// The value of an array with one element, which is how sections of global variables are kept; nothing for other maps.
    pub(crate) fn contents(&self, file: &File) -> io::Result<Vec<u8>> {
        match (self.kind, self.max_entries) {
            (map_kind::ARRAY, 1) => self.element(file, 0),
            _ => Ok(Vec::new()),
        }
    }
}

/// Whether a map of this kind has one value per CPU.
pub(crate) fn is_per_cpu(kind: u32) -> bool {
    let per_cpu = [map_kind::PERCPU_HASH, map_kind::PERCPU_ARRAY, map_kind::LRU_PERCPU_HASH];
    per_cpu.contains(&kind)
}

/// Whether a map of this kind holds maps.
pub(crate) fn holds_maps(kind: u32) -> bool {
    [map_kind::ARRAY_OF_MAPS, map_kind::HASH_OF_MAPS].contains(&kind)
}

/// The values of all CPUs, one after another in `bytes` and each padded to whole words.
pub(crate) fn by_cpu(value_size: usize, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(value_size.next_multiple_of(8).max(8))
}
