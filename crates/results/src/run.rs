//! A run.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::ops::Deref;
use std::sync::Arc;

use fairground_metrics::{RunMetrics, Share, TaskMetrics};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Failure, Figures, Measured, Shared, Status};

/// One run: its parts, and its outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The parts of the run.
    pub labels: Labels,
    /// How it ended.
    pub status: Status,
    /// The failure; `None` if it is [`Status::Ok`].
    pub failure: Option<Failure>,
    /// The metrics until the run ended or failed; `None` if it never began.
    pub metrics: Option<Box<RunMetrics>>,
    /// The figures of a run that was read from a data set, instead of its metrics, of which that has not all.
    #[serde(skip)]
    pub figures: Option<Box<Figures>>,
    /// The shares that are kept of tasks in a run that was [reduced](Self::reduce).
    #[serde(skip)]
    pub shares: Option<Box<[TaskShare]>>,
    /// The scheduler's own counters (steals, promotions, recalculations) by the names that its manifest gives them.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// Remarks about the result (for example on features that were only approximated), one sentence each.
    pub notes: Shared<Vec<String>>,
}

/// A task's share of the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskShare {
    /// Its name.
    pub task: Arc<str>,
    /// Its nice value at the end.
    pub nice: i32,
    /// Its share; `None` if it never wanted a CPU.
    pub share: Option<Share>,
}

impl Run {
    /// Whether it went on to its end and starved no task, so that its figures can be compared.
    pub fn is_ok(&self) -> bool {
        self.status == Status::Ok
    }

    /// Its numbers, if it began.
    pub fn measured(&self) -> Option<&dyn Measured> {
        match &self.figures {
            Some(figures) => Some(&**figures),
            None => self.metrics.as_deref().map(|metrics| metrics as &dyn Measured),
        }
    }

    /// Whether it is another one again: what differs between them, such as the seed, has changed nothing.
    pub fn is_as(&self, other: &Self) -> bool {
        self.metrics == other.metrics && self.figures == other.figures
    }

    /// The tasks with their nice values and shares, as far as these are kept.
    pub fn tasks(&self) -> Vec<(&str, i32, Option<Share>)> {
        if let Some(shares) = &self.shares {
            return shares.iter().map(|one| (&*one.task, one.nice, one.share)).collect();
        }
        let tasks = self.metrics.iter().flat_map(|metrics| &metrics.tasks);
        tasks.map(|task| (task.name.as_str(), task.nice, task.share)).collect()
    }

    /// Takes the parts that are equal in both from another run, a repeat of this one, so that it is in memory only once.
    pub fn share(&mut self, other: &Self) {
        self.labels.recipe.share(&other.labels.recipe);
        self.notes.share(&other.notes);
        let own = self.shares.iter_mut().flatten();
        for (own, other) in own.zip(other.shares.iter().flatten()) {
            if own.task == other.task {
                own.task.clone_from(&other.task);
            }
        }
    }

    /// Keeps only the data that the measures of whole runs need, and the shares of the tasks if these are wanted: a tenth of the memory.
    pub fn reduce(&mut self, shares: bool) {
        self.counters.clear();
        let Some(metrics) = &mut self.metrics else { return };
        let tasks = metrics.tasks.iter().filter(|_| shares);
        let share = |task: &TaskMetrics| TaskShare {
            task: task.name.as_str().into(),
            nice: task.nice,
            share: task.share,
        };
        self.shares = Some(tasks.map(share).collect());
        crate::measure::keep_for_runs(metrics);
        metrics.groups = Vec::new();
    }
}

/// Whether the repeats under each scheduler are one run, as no seed changes anything. Those of schedulers that never began count for nothing.
pub fn are_one(rows: &[&[&Run]]) -> bool {
    let began = |runs: &&&[&Run]| runs.iter().any(|run| run.measured().is_some());
    let mut rows = rows.iter().filter(began).peekable();
    rows.peek().is_some()
        && rows.all(|runs| runs.len() > 1 && runs.iter().all(|run| run.is_as(runs[0])))
}

/// The scheduler's name in tables: its id, or the file's name without folders and extensions if it was given as a path. For sources joined by
/// `+` it is that of the first. A file `main`, or a folder with a meaningless name, gets the name of the next folder above.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Labels {
    /// The part that it has in common with its repeats, which share it in memory.
    #[serde(flatten)]
    pub recipe: Shared<Recipe>,
    /// Seed of the simulation; `None` for a run on a real kernel.
    pub seed: Option<u64>,
    /// Which repetition this is, from 0.
    pub repeat: u32,
    /// Hash of everything that determines the result, seed included: 32 hexadecimal digits of SHA-256. Runs with the same one are the same if the
    /// same program computed them. `None` for a run on a real kernel.
    #[serde(default)]
    pub cell: Option<String>,
}

impl Deref for Labels {
    type Target = Recipe;

    fn deref(&self) -> &Recipe {
        &self.recipe
    }
}

/// The part that repeats of a run have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recipe {
    /// Name of the workload.
    pub workload: String,
    /// Name of the scheduler: its id, the short name of the user's own source, or the name that the user gave it.
    pub scheduler: String,
    /// The scheduler's source if the name is not an id: a path, a loader's command, or the id that was given another name.
    #[serde(default)]
    pub reference: Option<String>,
    /// Description of the machine.
    pub machine: String,
    /// Name of the cost model; `None` for a run on a real kernel.
    pub cost_model: Option<String>,
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
    /// The load by the kernel's own threads: `none`, or the name of their model; `None` for a run on a real kernel.
    #[serde(default)]
    pub noise: Option<String>,
    /// CPUs that came and went.
    #[serde(default)]
    pub hotplug: Vec<CpuChange>,
    /// The exact inputs of the run; `None` for a run on a real kernel.
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

/// SHA-256 of the inputs of a run, in hexadecimal digits. The same workload, machine or costs have the same hash, whatever the name of their file
/// and however they are written; another version of fairground may give them another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hashes {
    /// Of the parts of the scheduler's object that a kernel sees, which are the same wherever its source lies; `None` if there is none.
    pub scheduler: Option<String>,
    /// Of the companion file that describes its loader's actions; `None` if there is none.
    #[serde(default)]
    pub companion: Option<String>,
    /// Of the workload, without its name.
    pub workload: String,
    /// Of the machine, without its description.
    pub machine: String,
    /// Of the costs of scheduling, without their origins.
    pub costs: String,
}

impl Labels {
    /// Whether the runs differ in nothing but their seeds.
    pub fn is_repeat_of(&self, other: &Self) -> bool {
        self.scheduler == other.scheduler
            && self.tunables == other.tunables
            && self.has_conditions_of(other)
    }

    /// Whether the runs are of the same workload on the same machine, for the same time, with the same costs, ticks and noise, if those are known,
    /// while the same CPUs come and go, under any scheduler. What has the same name may be another one.
    pub fn has_conditions_of(&self, other: &Self) -> bool {
        let inputs = self.hashes.as_ref().zip(other.hashes.as_ref());
        let has_same = |(one, other): (&Hashes, &Hashes)| {
            (&one.workload, &one.machine) == (&other.workload, &other.machine)
        };
        self.workload == other.workload
            && self.machine == other.machine
            && self.cost_model == other.cost_model
            && self.duration_ns == other.duration_ns
            && self.hz.zip(other.hz).is_none_or(|(one, other)| one == other)
            && self.noise.as_ref().zip(other.noise.as_ref()).is_none_or(|(one, other)| one == other)
            && self.hotplug == other.hotplug
            && inputs.is_none_or(has_same)
    }
}
