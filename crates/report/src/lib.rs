//! Comparisons of schedulers: tables for the terminal, JSON and CSV for programs, HTML for people.
//!
//! A [`Comparison`] is a list of [`Run`]s. Runs that differ only in their seed or repetition are repeats of one another: tables
//! and HTML show the median of each metric over the repeats, with its spread, while JSON and CSV hold every run.

mod chart;
mod csv_format;
mod format;
mod groups;
mod html;
mod json;
mod measures;
mod table;

pub use json::{JSON_VERSION, ParseError};
pub use table::TaskTables;

use fairground_metrics::RunMetrics;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Runs to compare, in the order in which they are shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// The runs.
    pub runs: Vec<Run>,
}

/// One run: what was run, and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// What was run.
    pub labels: Labels,
    /// What was measured.
    pub metrics: RunMetrics,
    /// What the reader should know of the result (for example what was only approximated), one sentence each.
    pub notes: Vec<String>,
}

/// Everything that determines a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Labels {
    /// Name of the workload.
    pub workload: String,
    /// Id of the scheduler, or the path of the user's own source.
    pub scheduler: String,
    /// Description of the machine.
    pub machine: String,
    /// Name of the cost model; `None` for a run on a real kernel.
    pub cost_model: Option<String>,
    /// Seed of the simulation; `None` for a run on a real kernel.
    pub seed: Option<u64>,
    /// Which repetition this is, from 0.
    pub repeat: u32,
    /// Tunables that were not at their defaults, with values as written by the user.
    pub tunables: BTreeMap<String, String>,
    /// Length of the run that was asked for; `None` means until all tasks end.
    pub duration_ns: Option<u64>,
}
