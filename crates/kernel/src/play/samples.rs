//! What threads measure themselves.

use serde::Serialize;

/// Jobs of a periodic task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Periods {
    /// Jobs released.
    pub released: u64,
    /// Jobs completed.
    pub completed: u64,
    /// Completed jobs that were late: completed after the end of their period.
    pub missed: u64,
}

/// Times, one by one.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<u64>);

impl Samples {
    /// Adds a time in nanoseconds.
    pub fn add(&mut self, nanoseconds: u64) {
        self.0.push(nanoseconds);
    }

    /// The distribution; `None` without samples.
    #[must_use]
    pub fn distribution(mut self) -> Option<Distribution> {
        self.0.sort_unstable();
        let samples = &self.0;
        let max_ns = *samples.last()?;
        // The smallest sample that at least so many percent of the samples do not exceed.
        let percentile =
            |percent: usize| samples[(samples.len() * percent).div_ceil(100).max(1) - 1];
        Some(Distribution {
            samples: samples.len() as u64,
            mean_ns: mean(samples),
            p50_ns: percentile(50),
            p99_ns: percentile(99),
            max_ns,
        })
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "times of a run are far from 2^52 ns"
)]
fn mean(samples: &[u64]) -> f64 {
    samples.iter().map(|sample| *sample as f64).sum::<f64>() / samples.len() as f64
}

/// A distribution of times; the fields mean the same as in the metrics of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Distribution {
    /// Number of samples, at least 1.
    pub samples: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Half of the samples are at most this.
    pub p50_ns: u64,
    /// 99 of 100 samples are at most this.
    pub p99_ns: u64,
    /// The largest sample.
    pub max_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let mut samples = Samples::default();
        for time in (1..=200).rev() {
            samples.add(time);
        }
        let distribution = samples.distribution().expect("there are samples");
        assert_eq!(
            (
                distribution.p50_ns,
                distribution.p99_ns,
                distribution.max_ns
            ),
            (100, 198, 200)
        );
        assert!((distribution.mean_ns - 100.5).abs() < 1e-9);
    }

    #[test]
    fn no_samples_are_no_distribution() {
        assert_eq!(Samples::default().distribution(), None);
    }
}
