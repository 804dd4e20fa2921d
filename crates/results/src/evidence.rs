//! Evidence from some runs of a comparison that were run again.

use std::collections::BTreeMap;

use fairground_metrics::Explanation;

use crate::Moment;

/// Evidence from the runs of a workload on a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Moments that show why.
    pub moments: Vec<Moment>,
    /// Why the last scheduler in a measure is the last.
    pub reasons: Vec<Reason>,
}

/// Evidence by workload and machine.
pub type AllEvidence = BTreeMap<(String, String), Evidence>;

/// A wait that shows why a scheduler is worse than the best in a measure by a margin that matters.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// Id of the measure.
    pub measure: &'static str,
    /// The wait: of the task that decides the measure, in the run in which this task does worst.
    pub wait: Explanation,
    /// The seed of that run.
    pub seed: u64,
}
