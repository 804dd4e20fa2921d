//! Events that vary from one time to the next, and the numbers drawn for them.

use rand_distr::{Distribution, Exp1, StandardNormal};
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};

use crate::events::Event;

/// How an event varies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Variation {
    /// The factor of its duration; `None` leaves that unchanged.
    pub factor: Option<Factor>,
    /// Probability that it happens at all, above 0 and up to 1; `None` for always.
    pub chance: Option<f64>,
}

/// A random factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Factor {
    /// Uniform from the first to the second number, which is above 0.
    Uniform(f64, f64),
    /// Lognormal with mean 1 and this shape, the standard deviation of its logarithm.
    LogNormal(f64),
    /// Exponential with this mean.
    Exponential(f64),
}

/// The random numbers of one task: the same for the same seed, independent of other tasks and the scheduler.
#[derive(Clone, Debug)]
pub struct Draws(Xoshiro256PlusPlus);

impl Draws {
    /// The numbers for an instance of a task definition.
    pub fn new(seed: u64, definition: usize, instance: u32) -> Self {
        let parts = [seed, definition as u64, u64::from(instance)];
        let mixed = parts
            .into_iter()
            .fold(0, |state, part| SplitMix64::seed_from_u64(state ^ part).next_u64());
        Self(Xoshiro256PlusPlus::seed_from_u64(mixed))
    }

    /// Whether an event happens this time.
    pub fn happens(&mut self, variation: &Variation) -> bool {
        variation.chance.is_none_or(|chance| self.unit() < chance)
    }

    /// The event as it is this time, rounded to nanoseconds.
    pub fn vary(&mut self, mut event: Event, variation: &Variation) -> Event {
        if let (Some(duration), Some(factor)) = (event.duration_mut(), variation.factor) {
            *duration = (*duration as f64 * self.factor(factor)).round() as u64;
        }
        event
    }

    /// A random factor.
    pub fn factor(&mut self, factor: Factor) -> f64 {
        match factor {
            Factor::Uniform(least, most) => self.between(least, most),
            Factor::LogNormal(shape) => {
                let normal: f64 = StandardNormal.sample(&mut self.0);
                // Gives the same result on every processor, which the system's exponential function need not.
                libm::exp(shape * normal - shape * shape / 2.0)
            }
            Factor::Exponential(mean) => {
                let unit: f64 = Exp1.sample(&mut self.0);
                mean * unit
            }
        }
    }

    /// Uniform from `least` to just below `most`.
    pub fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.unit()
    }

    /// Uniform from 0 to just below 1.
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: u32 = 200_000;

    /// Mean and standard deviation of a factor.
    fn moments(factor: Factor) -> (f64, f64) {
        let mut draws = Draws::new(1, 2, 3);
        let variation = Variation { factor: Some(factor), chance: None };
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..SAMPLES {
            let Event::Run(time) = draws.vary(Event::Run(1_000_000), &variation) else {
                panic!("it became another event");
            };
            let value = time as f64 / 1e6;
            sum += value;
            squares += value * value;
        }
        let mean = sum / f64::from(SAMPLES);
        (mean, (squares / f64::from(SAMPLES) - mean * mean).sqrt())
    }

    fn near(value: f64, expected: f64) -> bool {
        (value - expected).abs() < 0.02
    }

    #[test]
    fn factors_have_the_moments_of_their_distributions() {
        let (mean, deviation) = moments(Factor::Uniform(0.5, 1.5));
        assert!(near(mean, 1.0) && near(deviation, 1.0 / 12f64.sqrt()), "{mean} {deviation}");
        let (mean, deviation) = moments(Factor::Exponential(1.0));
        assert!(near(mean, 1.0) && near(deviation, 1.0), "{mean} {deviation}");
        let (mean, deviation) = moments(Factor::LogNormal(0.8));
        let expected = (libm::exp(0.64) - 1.0).sqrt();
        assert!(near(mean, 1.0), "{mean}");
        assert!((deviation - expected).abs() < 0.05, "{deviation} {expected}");
    }

    #[test]
    fn a_chance_is_a_relative_frequency() {
        let mut draws = Draws::new(0, 0, 0);
        let variation = Variation { factor: None, chance: Some(0.05) };
        let times = (0..SAMPLES).filter(|_| draws.happens(&variation)).count();
        assert!(near(times as f64 / f64::from(SAMPLES), 0.05), "{times}");
    }

    #[test]
    fn every_instance_and_seed_has_numbers_of_its_own() {
        let first = |seed, definition, instance| Draws::new(seed, definition, instance).unit();
        assert_eq!(first(1, 2, 3), first(1, 2, 3));
        let all = [first(1, 2, 3), first(2, 2, 3), first(1, 3, 3), first(1, 2, 4), first(2, 1, 3)];
        for (place, one) in all.iter().enumerate() {
            assert!(!all[..place].contains(one), "{all:?}");
        }
    }
}
