//! Dense sets of numbers.

/// A set of numbers, with one bit for each up to the largest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    words: Vec<u64>,
}

impl Numbers {
    fn place(number: u32) -> (usize, u64) {
        (number as usize / 64, 1 << (number % 64))
    }

    /// Adds a number.
    pub fn insert(&mut self, number: u32) {
        let (word, bit) = Self::place(number);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bit;
    }

    /// The numbers that are in both sets.
    pub fn and(&self, other: &Self) -> Self {
        let words = self.words.iter().zip(&other.words);
        Self { words: words.map(|(one, other)| one & other).collect() }
    }

    /// Whether the number is in the set.
    pub fn contains(&self, number: u32) -> bool {
        let (word, bit) = Self::place(number);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_in_it() {
        let mut numbers = Numbers::default();
        for number in [0, 63, 64, 1000] {
            assert!(!numbers.contains(number));
            numbers.insert(number);
            assert!(numbers.contains(number));
        }
        let mut others = Numbers::default();
        others.insert(63);
        others.insert(65);
        let both = numbers.and(&others);
        assert!(both.contains(63) && !both.contains(64) && !both.contains(65));
        assert!(![1, 62, 65, 999, 1001, u32::MAX].iter().any(|number| numbers.contains(*number)));
    }
}
