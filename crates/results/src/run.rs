//! One run.

use std::collections::BTreeMap;

use fairground_metrics::RunMetrics;
use serde::{Deserialize, Serialize};

/// One run: what was run, and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// What was run.
    pub labels: Labels,
    /// What was measured.
    pub metrics: RunMetrics,
    /// The scheduler's own counters (steals, promotions, recalculations) by the names that its manifest gives them.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// What the reader should know of the result (for example what was only approximated), one sentence each.
    pub notes: Vec<String>,
}

/// What tables call a scheduler: its id, or the file's name without folders and endings if it was given as a path.
#[must_use]
pub fn short_name(reference: &str) -> &str {
    let name = reference.rsplit('/').next().unwrap_or(reference);
    let endings = [".bpf.c", ".bpf.o", ".c", ".o"];
    let stem = endings.iter().find_map(|ending| name.strip_suffix(ending));
    match stem {
        Some(stem) if !stem.is_empty() => stem,
        _ => name,
    }
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
    /// Timer ticks a second; `None` where nobody knows.
    #[serde(default)]
    pub hz: Option<u64>,
    /// Length of the run that was asked for; `None` means until all tasks end.
    pub duration_ns: Option<u64>,
}
