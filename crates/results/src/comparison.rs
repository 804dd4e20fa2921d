//! Runs side by side.

use crate::{Difference, Gate, Run};

/// Runs to compare, in the order in which they are shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// The version of fairground that made them, with its commit.
    pub version: String,
    /// The runs.
    pub runs: Vec<Run>,
    /// How far schedulers are from the baseline, if there is one.
    pub differences: Vec<Difference>,
    /// What the conditions and requirements that were given say.
    pub gates: Vec<Gate>,
}
