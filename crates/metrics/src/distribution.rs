//! Distributions of times in bounded memory.

use std::collections::BTreeMap;

use crate::result::Distribution;
use hdrhistogram::Histogram;

/// Number of samples kept exactly before a histogram takes over.
const EXACT_SAMPLES: usize = 128;

/// Significant decimal digits of the histogram: values are off by at most 1 %. It takes at most about 20 kB per task.
const SIGNIFICANT_DIGITS: u8 = 2;

/// The histogram records larger values as this one (146 years), because its range ends not far above.
const LARGEST_RECORDED: u64 = 1 << 62;

/// Collects times. Up to [`EXACT_SAMPLES`] are kept as they are, so short runs have exact percentiles. Beyond that, a histogram gives
/// percentiles to within 1 %. Count, mean and maximum are always exact.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    /// The latest samples, which are added to the summary in batches.
    latest: Vec<u64>,
    summary: Option<Box<Summary>>,
}

/// A summary of many samples.
#[derive(Clone, Debug)]
struct Summary {
    count: u64,
    sum: u128,
    max: u64,
    histogram: Histogram<u64>,
}

impl Samples {
    /// Adds one sample in nanoseconds.
    #[inline]
    pub(crate) fn add(&mut self, value: u64) {
        if self.latest.len() == EXACT_SAMPLES {
            self.summarize();
        }
        self.latest.push(value);
    }

    /// Moves the latest samples into the summary.
    #[inline(never)]
    fn summarize(&mut self) {
        let summary = self.summary.get_or_insert_with(Box::default);
        summary.add(&self.latest);
        self.latest.clear();
    }

    /// The distribution of the samples; `None` if there are none.
    pub(crate) fn distribution(&self) -> Option<Distribution> {
        Self::distribution_of_all([self])
    }

    /// The distribution of all these samples together.
    pub(crate) fn distribution_of_all<'a>(
        all: impl IntoIterator<Item = &'a Self>,
    ) -> Option<Distribution> {
        let mut latest = Vec::new();
        let mut total: Option<Summary> = None;
        for samples in all {
            latest.extend_from_slice(&samples.latest);
            if let Some(summary) = &samples.summary {
                total.get_or_insert_default().merge(summary);
            }
        }
        if total.is_none() && latest.len() <= EXACT_SAMPLES {
            return Distribution::of(&mut latest);
        }
        let mut total = total.unwrap_or_default();
        total.add(&latest);
        let mean_ns = total.sum as f64 / total.count as f64;
        let at = |quantile| total.histogram.value_at_quantile(quantile).min(total.max);
        Some(Distribution::with(total.count, mean_ns, total.max, at))
    }

    /// The mean of the slowest hundredth of all these samples together, rounded up to whole samples.
    pub(crate) fn slowest_of_all<'a>(all: impl IntoIterator<Item = &'a Self>) -> Option<f64> {
        let mut counts = BTreeMap::new();
        for samples in all {
            for value in &samples.latest {
                *counts.entry(*value).or_insert(0) += 1;
            }
            if let Some(summary) = &samples.summary {
                for bucket in summary.histogram.iter_recorded() {
                    let value = bucket.value_iterated_to().min(summary.max);
                    *counts.entry(value).or_insert(0) += bucket.count_at_value();
                }
            }
        }
        let samples: u64 = counts.values().sum();
        let slowest = samples.div_ceil(100);
        let (mut left, mut sum) = (slowest, 0.0);
        for (value, count) in counts.into_iter().rev() {
            let part = left.min(count);
            sum += value as f64 * part as f64;
            left -= part;
        }
        (samples > 0).then(|| sum / slowest as f64)
    }
}

impl Default for Summary {
    fn default() -> Self {
        let mut histogram =
            Histogram::new(SIGNIFICANT_DIGITS).expect("0 to 5 significant digits are valid");
        histogram.auto(true);
        Self { count: 0, sum: 0, max: 0, histogram }
    }
}

impl Summary {
    fn add(&mut self, samples: &[u64]) {
        self.count += samples.len() as u64;
        for &sample in samples {
            self.sum += u128::from(sample);
            self.max = self.max.max(sample);
            record(&mut self.histogram, sample);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        self.histogram
            .add(&other.histogram)
            .expect("a histogram that resizes itself takes every other");
    }
}

/// Adds a value; the histogram grows as needed.
fn record(histogram: &mut Histogram<u64>, value: u64) {
    histogram
        .record(value.min(LARGEST_RECORDED))
        .expect("a histogram that resizes itself takes every value in its range");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(values: impl IntoIterator<Item = u64>) -> Samples {
        let mut samples = Samples::default();
        for value in values {
            samples.add(value);
        }
        samples
    }

    #[test]
    fn nothing_is_absent() {
        assert_eq!(Samples::default().distribution(), None);
    }

    #[test]
    fn few_samples_are_exact() {
        let distribution = collect([40, 10, 30, 20]).distribution().unwrap();
        assert_eq!(distribution.samples, 4);
        assert_eq!(distribution.mean_ns, 25.0);
        assert_eq!(distribution.p1_ns, 10);
        assert_eq!(distribution.p50_ns, 20);
        assert_eq!(distribution.p99_ns, 40);
        assert_eq!(distribution.max_ns, 40);
    }

    #[test]
    fn percentiles_are_samples_of_their_rank() {
        let distribution = Distribution::of(&mut (1..=200).rev().collect::<Vec<_>>()).unwrap();
        let seen = [
            distribution.p1_ns,
            distribution.p5_ns,
            distribution.p50_ns,
            distribution.p95_ns,
            distribution.p99_ns,
            distribution.p999_ns,
        ];
        assert_eq!(seen, [2, 10, 100, 190, 198, 200]);
        assert_eq!(distribution.mean_ns, 100.5);
        assert_eq!(Distribution::of(&mut []), None);
    }

    #[test]
    fn many_samples_are_within_one_percent() {
        let distribution = collect((1..=100_000).map(|n| n * 1000)).distribution().unwrap();
        assert_eq!(distribution.samples, 100_000);
        assert_eq!(distribution.max_ns, 100_000_000);
        assert_eq!(distribution.mean_ns, 50_000_500.0);
        let off = |value: u64, truth: f64| (value as f64 / truth - 1.0).abs();
        assert!(off(distribution.p50_ns, 50_000_000.0) <= 0.01);
        assert!(off(distribution.p99_ns, 99_000_000.0) <= 0.01);
    }

    #[test]
    fn what_is_collected_apart_is_as_if_it_were_collected_together() {
        for counts in [[3, 4, 0], [100, 100, 0], [128, 1, 0], [2000, 50, 700]] {
            let mut next = 0;
            let parts = counts.map(|count| {
                let first = next;
                next += count;
                collect((first..next).map(|n| n * n))
            });
            let together = collect((0..next).map(|n| n * n));
            assert_eq!(Samples::distribution_of_all(&parts), together.distribution(), "{counts:?}");
        }
    }

    #[test]
    fn the_largest_value_is_exact_and_percentiles_do_not_exceed_it() {
        let distribution = collect(std::iter::repeat_n(1_234_567, 1000)).distribution().unwrap();
        assert_eq!(distribution.max_ns, 1_234_567);
        assert_eq!(distribution.p50_ns, 1_234_567);
        let huge = collect(std::iter::repeat_n(u64::MAX, 200)).distribution().unwrap();
        assert_eq!(huge.max_ns, u64::MAX);
    }
}
