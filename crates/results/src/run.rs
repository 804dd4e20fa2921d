//! A run.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use fairground_metrics::RunMetrics;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Failure, Status};

/// One run: what was run, and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// What was run.
    pub labels: Labels,
    /// How it ended.
    pub status: Status,
    /// What went wrong; `None` if it is [`Status::Ok`].
    pub failure: Option<Failure>,
    /// What was measured, until the run ended or failed; `None` if it never began.
    pub metrics: Option<RunMetrics>,
    /// The scheduler's own counters (steals, promotions, recalculations) by the names that its manifest gives them.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// What the reader should know about the result (for example what was only approximated), one sentence each.
    pub notes: Vec<String>,
}

impl Run {
    /// Whether it went on to its end and starved no task, so that its figures can be compared.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.status == Status::Ok
    }
}

/// The scheduler's name in tables: its id, or the file's name without folders and extensions if it was given as a path. For sources joined by
/// `+` it is that of the first. A file `main`, or a folder with a meaningless name, gets the name of the next folder above.
#[must_use]
pub fn short_name(reference: &str) -> &str {
    let first = reference.split('+').next().unwrap_or(reference);
    let endings = [".bpf.c", ".bpf.o", ".c", ".o"];
    let mut parts = first.rsplit('/').filter(|part| !part.is_empty());
    let name = parts.next().unwrap_or(reference);
    let stem = endings.iter().find_map(|ending| name.strip_suffix(ending));
    let name = stem.filter(|stem| !stem.is_empty()).unwrap_or(name);
    let says_nothing = |name: &&str| ["main", ".", "..", "assets", "bpf", "src"].contains(name);
    if !says_nothing(&name) {
        return name;
    }
    parts.find(|part| !says_nothing(part)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::short_name;

    #[test]
    fn names_are_short_and_say_something() {
        for (reference, name) in [
            ("o1", "o1"),
            ("./mine.bpf.c", "mine"),
            ("a/mine.bpf.c+a/lib.bpf.c", "mine"),
            ("scx/scx_flash/src/bpf/main.bpf.c", "scx_flash"),
            ("scx/scx_lavd/src/bpf/+scx/lib/arena.bpf.c", "scx_lavd"),
            ("main.bpf.c", "main"),
        ] {
            assert_eq!(short_name(reference), name);
        }
    }
}

/// Everything that determines a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Labels {
    /// Name of the workload.
    pub workload: String,
    /// Name of the scheduler: its id, the short name of the user's own source, or the name that the user gave it.
    pub scheduler: String,
    /// What the name stands for if it is not an id: a path, a loader's command, or the id that was given another name.
    #[serde(default)]
    pub reference: Option<String>,
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
    /// Those that are numbers, switches or have numbered choices, as numbers: times in nanoseconds, everything else in the tunable's unit.
    #[serde(default)]
    pub numbers: BTreeMap<String, i64>,
    /// Timer ticks per second; `None` if not known.
    #[serde(default)]
    pub hz: Option<u64>,
    /// The requested length of the run; `None` for until all tasks end.
    pub duration_ns: Option<u64>,
    /// What the kernel's own threads did: `none`, or the name of their model; `None` for a run on a real kernel.
    #[serde(default)]
    pub noise: Option<String>,
    /// CPUs that came and went.
    #[serde(default)]
    pub hotplug: Vec<CpuChange>,
    /// What exactly was run; `None` for a run on a real kernel.
    #[serde(default)]
    pub hashes: Option<Hashes>,
}

/// A CPU that goes offline, or comes online.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuChange {
    /// When, since the start of the run.
    pub at_ns: u64,
    /// The machine's own number of the CPU.
    pub cpu: u32,
    /// Whether it comes.
    pub online: bool,
}

impl Display for CpuChange {
    /// As `--hotplug` takes it.
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let state = if self.online { "on" } else { "off" };
        write!(formatter, "{}:{state}@{}ns", self.cpu, self.at_ns)
    }
}

/// SHA-256 of what a run was made from, in hexadecimal digits. The same workload, machine or costs have the same hash, whatever their file is called
/// and however they are written; another version of fairground may give them another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hashes {
    /// Of everything that determines the result, seed included: 32 of the digits. Runs with the same one are the same if the same program
    /// computed them.
    pub cell: String,
    /// Of the scheduler's object file, which holds the path of its source as it was given; `None` if there is none.
    pub scheduler: Option<String>,
    /// Of the workload, without its name.
    pub workload: String,
    /// Of the machine, without its description.
    pub machine: String,
    /// Of the costs of scheduling, without their origins.
    pub costs: String,
}

impl Labels {
    /// Whether the runs differ in nothing but their seeds.
    #[must_use]
    pub fn is_repeat_of(&self, other: &Self) -> bool {
        self.scheduler == other.scheduler
            && self.tunables == other.tunables
            && self.has_conditions_of(other)
    }

    /// Whether the runs are of the same workload on the same machine, for the same time and with the same costs, whatever the scheduler.
    #[must_use]
    pub fn has_conditions_of(&self, other: &Self) -> bool {
        self.workload == other.workload
            && self.machine == other.machine
            && self.cost_model == other.cost_model
            && self.duration_ns == other.duration_ns
    }
}
