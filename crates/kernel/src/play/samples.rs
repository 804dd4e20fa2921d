//! The threads' own measurements.

use fairground_metrics::Distribution;

/// Times, one by one.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<u64>);

impl Samples {
    /// Adds a time in nanoseconds.
    pub fn add(&mut self, nanoseconds: u64) {
        self.0.push(nanoseconds);
    }

    /// The distribution; `None` without samples.
    pub fn distribution(mut self) -> Option<Distribution> {
        Distribution::of(&mut self.0)
    }
}
