//! Records of single laps, jobs and windows, kept on request. Memory grows with the length of the run.

use std::collections::BTreeMap;

use crate::distribution::Samples;
use crate::result::{Bucket, JobRecord, LapRecord, TaskRecords, WindowRecord};
use fairground_events::Nanoseconds;

/// Bounds of histograms, to be multiplied by powers of ten.
const BOUNDS: [u64; 6] = [10, 15, 20, 30, 50, 70];

/// The records of one task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    pub(crate) laps: Vec<LapRecord>,
    /// Completed or skipped jobs.
    pub(crate) jobs: Vec<JobRecord>,
    pub(crate) windows: Vec<WindowRecord>,
    pub(crate) stretches: Samples,
    pub(crate) wakeup_latency: Histogram,
    pub(crate) response_time: Histogram,
}

impl Records {
    /// The records, including the `open` job if there is one.
    pub(crate) fn result(&self, open: Option<JobRecord>) -> TaskRecords {
        TaskRecords {
            laps: self.laps.clone(),
            jobs: self.jobs.iter().copied().chain(open).collect(),
            windows: self.windows.clone(),
            stretches: self.stretches.distribution(),
            wakeup_latency_histogram: self.wakeup_latency.buckets(),
            response_time_histogram: self.response_time.buckets(),
        }
    }

    /// Adds `count` skipped periods, the first of which began at `due`.
    pub(crate) fn skip(&mut self, due: Nanoseconds, period: Nanoseconds, count: u64) {
        self.jobs.extend((0..count).map(|number| JobRecord {
            due_ns: due + number * period,
            first_run_ns: None,
            completed_ns: None,
            deadline_ns: due + (number + 1) * period,
            skipped: true,
        }));
    }
}

/// A coarse histogram of times; all histograms have the same bounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram(BTreeMap<u64, u64>);

impl Histogram {
    /// Adds a sample in nanoseconds.
    pub(crate) fn add(&mut self, value: u64) {
        *self.0.entry(bound(value)).or_default() += 1;
    }

    fn buckets(&self) -> Vec<Bucket> {
        let bucket = |(&up_to_ns, &samples): (&u64, &u64)| Bucket { up_to_ns, samples };
        self.0.iter().map(bucket).collect()
    }
}

/// The smallest bound not below a value.
fn bound(value: u64) -> u64 {
    let mut unit = 1;
    loop {
        for digits in BOUNDS {
            match u64::checked_mul(digits, unit) {
                Some(bound) if bound >= value => return bound,
                Some(_) => {}
                None => return u64::MAX,
            }
        }
        unit *= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_the_next_that_are_not_below() {
        let cases = [
            (0, 10),
            (10, 10),
            (11, 15),
            (71, 100),
            (100, 100),
            (1_234, 1_500),
            (7_000_001, 10_000_000),
        ];
        for (value, expected) in cases {
            assert_eq!(bound(value), expected, "{value}");
        }
        assert_eq!(bound(u64::MAX), u64::MAX);
    }
}
