//! The dispatch queues by the ids that schedulers give them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::dispatch_queue::DsqRef;

/// A multiplicative hasher: fast, and the same on every run.
#[derive(Default, Clone)]
pub struct FixedHasher(u64);

impl Hasher for FixedHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 29;
    }
}

/// Hash map builder that gives the same order on every run.
pub type FixedState = BuildHasherDefault<FixedHasher>;

/// Ids below this are looked up in an array.
const DENSE: u64 = 1 << 16;

/// The table; look-ups only, never iterated.
#[derive(Default)]
pub struct DsqTable {
    dense: Vec<Option<DsqRef>>,
    sparse: HashMap<u64, DsqRef, FixedState>,
}

impl DsqTable {
    /// The queue with this id.
    pub fn get(&self, id: u64) -> Option<DsqRef> {
        if id < DENSE { *self.dense.get(id as usize)? } else { self.sparse.get(&id).copied() }
    }

    /// Adds a queue.
    pub fn insert(&mut self, id: u64, queue: DsqRef) {
        if id < DENSE {
            let id = id as usize;
            if self.dense.len() <= id {
                self.dense.resize(id + 1, None);
            }
            self.dense[id] = Some(queue);
        } else {
            self.sparse.insert(id, queue);
        }
    }

    /// Removes a queue.
    pub fn remove(&mut self, id: u64) {
        if id < DENSE {
            if let Some(entry) = self.dense.get_mut(id as usize) {
                *entry = None;
            }
        } else {
            self.sparse.remove(&id);
        }
    }
}
