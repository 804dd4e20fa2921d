//! Random choices that depend on nothing but a seed and a number.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The choices for one case.
pub(crate) struct Dice(Xoshiro256PlusPlus);

impl Dice {
    /// The choices for the case with this number in a hunt with this seed.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        let mut of_hunt = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self(Xoshiro256PlusPlus::seed_from_u64(of_hunt.next_u64().wrapping_add(number)))
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = bound.max(1) as u64;
        (self.0.next_u64() % bound) as usize
    }

    /// Whether something happens that happens once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of these, of which there is at least one.
    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// A number from `low` to `high`, of all magnitudes equally often, with one digit other than 0, or two.
    pub(crate) fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let (low, high) = (low.max(1), high.max(low).max(1));
        let part = self.below(1 << 20) as f64 / f64::from(1 << 20);
        let exact = low as f64 * (high as f64 / low as f64).powf(part);
        let step = 10_f64.powf((exact.log10().floor() - 1.0).max(0.0));
        ((exact / step).round() * step).clamp(low as f64, high as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_depend_on_the_seed_and_the_number() {
        let of = |seed, number| {
            let mut dice = Dice::new(seed, number);
            [(); 8].map(|()| dice.below(1000))
        };
        assert_eq!(of(1, 2), of(1, 2));
        assert_ne!(of(1, 2), of(1, 3));
        assert_ne!(of(1, 2), of(2, 2));
    }

    #[test]
    fn magnitudes_keep_their_bounds_and_are_round() {
        let mut dice = Dice::new(0, 0);
        let drawn: Vec<u64> = (0..1000).map(|_| dice.magnitude(3, 50_000)).collect();
        assert!(drawn.iter().all(|one| (3..=50_000).contains(one)));
        assert!(drawn.iter().any(|one| *one < 30) && drawn.iter().any(|one| *one > 5_000));
        assert!(drawn.iter().all(|one| *one < 100 || one % 10 == 0));
    }
}
