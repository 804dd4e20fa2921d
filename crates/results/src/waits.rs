//! Why tasks of a run waited.

use fairground_metrics::Explanation;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Labels;

/// The longest waits of a run, explained.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Waits {
    /// The parts of the run.
    pub labels: Labels,
    /// The waits, the longest first.
    pub waits: Vec<Explanation>,
    /// Remarks about the run, one sentence each.
    pub notes: Vec<String>,
}
