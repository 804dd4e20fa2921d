//! The elements of a hash map.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use crate::dsq_table::FixedState;

/// Keys and values in order of insertion.
///
/// Deleting an element leaves a gap, so that it costs the same in maps of any size. Gaps are closed when they are the greater part.
#[derive(Default)]
pub struct Elements {
    places: IndexMap<Box<[u8]>, usize, FixedState>,
    elements: Vec<Option<Element>>,
    /// All places before this one are gaps.
    first: usize,
    /// Places by the addresses of the values, once one has been looked up.
    addresses: Option<BTreeMap<u64, usize>>,
}

struct Element {
    key: Box<[u8]>,
    value: Box<[u64]>,
}

impl Elements {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// The value for a key.
    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut Box<[u64]>> {
        let place = *self.places.get(key)?;
        Some(&mut self.elements[place].as_mut()?.value)
    }

    /// Adds an element after all others. The key must be new.
    pub fn push(&mut self, key: Box<[u8]>, value: Box<[u64]>) {
        self.places.insert(key.clone(), self.elements.len());
        if let Some(addresses) = &mut self.addresses {
            addresses.insert(value.as_ptr() as u64, self.elements.len());
        }
        self.elements.push(Some(Element { key, value }));
    }

    /// Removes the element with this key.
    pub fn remove(&mut self, key: &[u8]) -> Option<Box<[u64]>> {
        let place = self.places.swap_remove(key)?;
        let element = self.elements[place].take()?;
        Some(self.taken(element))
    }

    /// Removes the oldest element.
    pub fn remove_oldest(&mut self) -> Option<Box<[u64]>> {
        while self.elements.get(self.first)?.is_none() {
            self.first += 1;
        }
        let element = self.elements[self.first].take()?;
        self.places.swap_remove(&element.key);
        Some(self.taken(element))
    }

    /// The value of an element that was just removed.
    fn taken(&mut self, element: Element) -> Box<[u64]> {
        if let Some(addresses) = &mut self.addresses {
            addresses.remove(&(element.value.as_ptr() as u64));
        }
        self.close_gaps();
        element.value
    }

    /// The key of the value that contains `address`.
    pub fn key_at(&mut self, address: u64) -> Option<&[u8]> {
        let elements = &self.elements;
        let addresses = self.addresses.get_or_insert_with(|| {
            let places = elements.iter().enumerate();
            places
                .filter_map(|(place, one)| Some((one.as_ref()?.value.as_ptr() as u64, place)))
                .collect()
        });
        let (start, place) = addresses.range(..=address).next_back()?;
        let element = elements[*place].as_ref()?;
        let size = size_of_val(&*element.value) as u64;
        (address - start < size).then_some(&*element.key)
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
        self.addresses = None;
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

    #[test]
    fn addresses_lead_to_keys_while_elements_come_and_go() {
        let mut elements = Elements::default();
        for number in 0..200_u8 {
            elements.push(key(number), Box::new([0; 3]));
            let inside = elements.get_mut(&key(number)).unwrap().as_ptr() as u64 + 8;
            assert_eq!(elements.key_at(inside), Some(&[number][..]));
            if number >= 100 {
                let gone = elements.remove(&key(number - 100)).unwrap();
                assert_eq!(elements.key_at(gone.as_ptr() as u64), None);
            }
        }
        let last = elements.get_mut(&key(150)).unwrap().as_ptr() as u64;
        assert_eq!(elements.key_at(last + 16), Some(&[150][..]));
        assert_ne!(elements.key_at(last + 24), Some(&[150][..]));
    }
}
