//! Values by prefixes of bits (`BPF_MAP_TYPE_LPM_TRIE`): a look-up finds the longest prefix of its key.

use std::collections::BTreeMap;

/// A prefix: how many bits it has, and the bytes that they are in, the highest bit of each byte first. The bits after them are 0.
type Prefix = (u32, Box<[u8]>);

/// Values by prefix. A value never moves.
#[derive(Default)]
pub struct Prefixes {
    values: BTreeMap<Prefix, Box<[u64]>>,
}

/// The first `length` bits of `bytes`.
fn prefix(length: u32, bytes: &[u8]) -> Prefix {
    let mut kept: Box<[u8]> = bytes.into();
    for (place, byte) in kept.iter_mut().enumerate() {
        let left = length.saturating_sub(8 * place as u32).min(8);
        *byte &= !0xff_u8.checked_shr(left).unwrap_or(0);
    }
    (length, kept)
}

/// Takes a key apart: the number of bits, then the bytes. `None` if there are fewer bits.
fn parts(key: &[u8]) -> Option<(u32, &[u8])> {
    let (length, bytes) = key.split_first_chunk::<4>()?;
    let length = u32::from_ne_bytes(*length);
    (length as usize <= 8 * bytes.len()).then_some((length, bytes))
}

impl Prefixes {
    /// The value of the longest prefix of the bits of `key`.
    pub fn longest(&mut self, key: &[u8]) -> Option<&mut Box<[u64]>> {
        let (length, bytes) = parts(key)?;
        let known = |length: &u32| self.values.contains_key(&prefix(*length, bytes));
        let longest = (0..=length).rev().find(known)?;
        self.values.get_mut(&prefix(longest, bytes))
    }

    /// The value of exactly this prefix.
    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut Box<[u64]>> {
        let (length, bytes) = parts(key)?;
        self.values.get_mut(&prefix(length, bytes))
    }

    /// Adds or replaces the value of a prefix; returns the one before. Whether `key` is one is the caller's business.
    pub fn insert(&mut self, key: &[u8], value: Box<[u64]>) -> Option<Box<[u64]>> {
        let (length, bytes) = parts(key)?;
        self.values.insert(prefix(length, bytes), value)
    }

    /// Removes the value of exactly this prefix.
    pub fn remove(&mut self, key: &[u8]) -> Option<Box<[u64]>> {
        let (length, bytes) = parts(key)?;
        self.values.remove(&prefix(length, bytes))
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// The keys, shorter prefixes first.
    pub fn keys(&self) -> impl Iterator<Item = Box<[u8]>> {
        let whole = |(length, bytes): &Prefix| [&length.to_ne_bytes(), &bytes[..]].concat().into();
        self.values.keys().map(whole)
    }
}

/// Whether `key` is one that the map can have.
pub fn is_key(key: &[u8]) -> bool {
    parts(key).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(length: u32, bytes: [u8; 4]) -> Vec<u8> {
        [length.to_ne_bytes(), bytes].concat()
    }

    #[test]
    fn the_longest_prefix_is_found() {
        let mut prefixes = Prefixes::default();
        for (number, length, bytes) in [
            (1, 0, [0; 4]),
            (2, 8, [10, 0, 0, 0]),
            (3, 12, [10, 0x1f, 0, 0]),
            (4, 32, [10, 0x10, 0, 7]),
        ] {
            assert!(prefixes.insert(&key(length, bytes), Box::new([number])).is_none());
        }
        let mut found = |length, bytes| prefixes.longest(&key(length, bytes)).map(|value| value[0]);
        assert_eq!(found(32, [10, 0x10, 0, 7]), Some(4));
        assert_eq!(found(32, [10, 0x1e, 9, 9]), Some(3));
        assert_eq!(found(32, [10, 0x20, 9, 9]), Some(2));
        assert_eq!(found(11, [10, 0x10, 0, 7]), Some(2));
        assert_eq!(found(32, [9, 0, 0, 1]), Some(1));
        assert_eq!(found(33, [9, 0, 0, 1]), None);
    }

    #[test]
    fn bits_after_a_prefix_do_not_matter() {
        let mut prefixes = Prefixes::default();
        prefixes.insert(&key(4, [0xa5, 1, 2, 3]), Box::new([1]));
        assert!(prefixes.insert(&key(4, [0xaf, 9, 9, 9]), Box::new([2])).is_some());
        assert_eq!(prefixes.len(), 1);
        assert_eq!(prefixes.keys().next().unwrap()[..], key(4, [0xa0, 0, 0, 0]));
        assert!(prefixes.remove(&key(5, [0xa0, 0, 0, 0])).is_none());
        assert!(prefixes.remove(&key(4, [0xa0, 0, 0, 0])).is_some());
        assert!(!is_key(&key(33, [0; 4])));
    }
}
