//! The elements of a hash map.

use indexmap::IndexMap;

use crate::dsq_table::FixedState;

/// Keys and values in the order of insertion.
///
/// To delete an element leaves a gap, so that it costs the same in maps of any size. Gaps are closed when they are the
/// greater part.
#[derive(Default)]
pub struct Elements {
    places: IndexMap<Box<[u8]>, usize, FixedState>,
    elements: Vec<Option<Element>>,
    /// All places before this one are gaps.
    first: usize,
}

struct Element {
    key: Box<[u8]>,
    value: Box<[u64]>,
}

impl Elements {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// The value for a key.
    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut Box<[u64]>> {
        let place = *self.places.get(key)?;
        Some(&mut self.elements[place].as_mut()?.value)
    }

    /// Adds an element behind all others. There must be none with this key.
    pub fn push(&mut self, key: Box<[u8]>, value: Box<[u64]>) {
        self.places.insert(key.clone(), self.elements.len());
        self.elements.push(Some(Element { key, value }));
    }

    /// Takes the element with this key out.
    pub fn remove(&mut self, key: &[u8]) -> Option<Box<[u64]>> {
        let place = self.places.swap_remove(key)?;
        let element = self.elements[place].take()?;
        self.close_gaps();
        Some(element.value)
    }

    /// Takes the oldest element out.
    pub fn remove_oldest(&mut self) -> Option<Box<[u64]>> {
        while self.elements.get(self.first)?.is_none() {
            self.first += 1;
        }
        let element = self.elements[self.first].take()?;
        self.places.swap_remove(&element.key);
        self.close_gaps();
        Some(element.value)
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Box<[u8]>, &[u64])> {
        let elements = self.elements[self.first..].iter().flatten();
        elements.map(|element| (&element.key, &*element.value))
    }

    fn close_gaps(&mut self) {
        if self.elements.len() <= 2 * self.places.len() + 16 {
            return;
        }
        self.elements.retain(Option::is_some);
        self.first = 0;
        for (place, element) in self.elements.iter().enumerate() {
            if let Some(kept) = element
                && let Some(known) = self.places.get_mut(&kept.key)
            {
                *known = place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Elements;

    fn key(number: u8) -> Box<[u8]> {
        Box::new([number])
    }

    #[test]
    fn elements_keep_their_order_over_gaps() {
        let mut elements = Elements::default();
        for number in 0..100 {
            elements.push(key(number), Box::new([u64::from(number)]));
        }
        for number in 10..95 {
            let value = elements.remove(&key(number)).unwrap();
            assert_eq!(*value, [u64::from(number)]);
            assert!(elements.remove(&key(number)).is_none());
        }
        elements.push(key(50), Box::new([1]));
        assert_eq!(*elements.remove_oldest().unwrap(), [0]);
        assert_eq!(elements.len(), 15);
        let keys: Vec<u8> = elements.iter().map(|(key, _)| key[0]).collect();
        assert_eq!(keys, [1, 2, 3, 4, 5, 6, 7, 8, 9, 95, 96, 97, 98, 99, 50]);
        assert_eq!(**elements.get_mut(&key(97)).unwrap(), [97]);
        assert!(elements.get_mut(&key(20)).is_none());
    }
}
