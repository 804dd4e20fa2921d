//! How a run ended and, if its figures cannot be relied on, why.

use std::fmt::{self, Display, Formatter};

use fairground_metrics::{LongWait, RunMetrics, TaskMetrics};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a run ended. Only runs that are [`Status::Ok`] take part in rankings and statistics.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It went on to its end, and every task that was due CPU time got some.
    #[default]
    Ok,
    /// It went on to its end, but a task waited longer than the bound allows.
    Starved,
    /// It went on to its end, but did not meet a requirement.
    Unmet,
    /// The kernel unloaded the scheduler before the end.
    Ejected,
    /// The workload could not go on, for example because tasks wait for each other.
    Deadlock,
    /// The kernel does not take the scheduler.
    Refused,
    /// There is no scheduler to load: its source does not compile, or its object is not that of a scheduler.
    Invalid,
    /// The process that simulated it crashed.
    Crashed,
    /// It would have gone on for ever: a callback or a loop did not end, or no time passed.
    TimedOut,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Ok,
        Self::Starved,
        Self::Unmet,
        Self::Ejected,
        Self::Deadlock,
        Self::Refused,
        Self::Invalid,
        Self::Crashed,
        Self::TimedOut,
    ];

    /// Whether there was no scheduler to run, so that nothing is known of it.
    pub const fn never_began(self) -> bool {
        matches!(self, Self::Invalid | Self::Refused)
    }

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Starved => "starved",
            Self::Unmet => "unmet",
            Self::Ejected => "ejected",
            Self::Deadlock => "deadlock",
            Self::Refused => "refused",
            Self::Invalid => "invalid",
            Self::Crashed => "crashed",
            Self::TimedOut => "timed-out",
        }
    }
}

impl Display for Status {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// The failure of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The exact kind, for programs: the kernel's name for the kind of exit, such as `SCX_EXIT_ERROR_STALL`; for a starved run `lost` if the
    /// task still waits at the end and otherwise `late`; for an unmet requirement the measure; else the name of the status.
    pub kind: String,
    /// The fault, the task that suffers and the reason, as a sentence behind the scheduler's name.
    pub message: String,
    /// When; `None` if the run never began or the time is not known.
    pub at_ns: Option<u64>,
    /// The command that shows more, if there is one.
    pub explain: Option<String>,
}

/// How long a task may wait before its run counts as starved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patience {
    /// Until it would have got [`DUE`] of CPU time in this one wait, had the machine been fair, or was left behind by its equals
    /// ([`LEFT_BEHIND`]).
    #[default]
    Due,
    /// This long, in nanoseconds, regardless of the share that it is due.
    Wait(u64),
    /// For ever.
    Off,
}

/// In one wait, the ideal fluid processor gives a task at most this much CPU time, in nanoseconds, or its run is starved.
///
/// Where n equal tasks take turns of length s, each waits (n - 1) s at a rate of 1/n, so it is due less than one turn, however many there
/// are and however long it waits. The longest turns of a documented scheduler are o1's of 800 ms for nice -20, of which two such tasks are
/// due half; all others are of at most 210 ms. A task that waits for the rescue of starving tasks (15 s in Linux 2.6, 20 s in EBS) has a low weight
/// and is due 290 ms.
pub const DUE: u64 = 500_000_000;

/// A task that still waits at the end, for more than a second and this many times as long as each of its equals ever did, is left behind,
/// even if it is due little, as among many equals ([`TaskMetrics::longest_wait_of_equals_ns`]).
///
/// Under the documented schedulers equals take turns, so at the end no wait is longer than 1.01 times the longest of an equal, on one CPU, on
/// four and on eight in two nodes, with the workloads that come with fairground and with sixty equal tasks.
pub const LEFT_BEHIND: u64 = 3;

/// The wait of a task that is left behind; `None` if it is not.
fn left_behind(task: &TaskMetrics) -> Option<LongWait> {
    let most = LEFT_BEHIND.saturating_mul(task.longest_wait_of_equals_ns?);
    task.longest_wait.filter(|wait| wait.length_ns > most)
}

/// The wait of a task that lasts to the end beside a CPU that it may use and that was idle for more than [`DUE`], so that it was due as much,
/// however many wait with it; and for how long that CPU was idle.
fn beside_idle_cpu(task: &TaskMetrics) -> Option<(LongWait, u64)> {
    let (wait, beside) = (task.longest_wait?, task.idle_beside?);
    let is_part = beside.wait_from_ns == wait.from_ns && !wait.ended;
    (is_part && beside.length_ns > DUE).then_some((wait, beside.length_ns))
}

/// The wait of a task that makes a run starved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starvation {
    /// Name of the task.
    pub task: String,
    /// Its wait.
    pub wait: LongWait,
    /// For how long a CPU was idle beside it, if that is what makes the run starved, in nanoseconds.
    pub beside_idle_ns: Option<u64>,
}

impl Patience {
    /// How near a run is to being starved: the longest wait, or the service due to a task in one, as a part of the allowed maximum; left-behind tasks,
    /// which have no bound of their own, count as far as they are due.
    pub fn nearness(self, run: &RunMetrics) -> f64 {
        let tasks = run.tasks.iter();
        let most =
            |of: fn(&TaskMetrics) -> Option<u64>| tasks.filter_map(of).max().unwrap_or(0) as f64;
        match self {
            Self::Due => most(|task| Some(task.worst_wait?.entitled_ns)) / DUE as f64,
            Self::Wait(bound) => most(|task| task.longest_wait_ns) / bound.max(1) as f64,
            Self::Off => 0.0,
        }
    }

    /// The wait of a task that exceeds the bound, if one does and the ideal fluid processor gave the task anything.
    pub fn exceeded_by(self, task: &TaskMetrics) -> Option<Starvation> {
        let exceeds = |wait: &LongWait| match self {
            Self::Wait(bound) => wait.length_ns > bound,
            _ => wait.entitled_ns > DUE,
        };
        let wait = match self {
            Self::Wait(_) => task.longest_wait.filter(exceeds),
            Self::Due => task.worst_wait.filter(exceeds).or_else(|| left_behind(task)),
            Self::Off => None,
        };
        let beside = beside_idle_cpu(task).filter(|_| self == Self::Due && wait.is_none());
        let wait = wait.or(beside.map(|(wait, _)| wait));
        Some(Starvation {
            task: task.name.clone(),
            wait: wait.filter(|wait| wait.entitled_ns > 0)?,
            beside_idle_ns: beside.map(|(_, idle)| idle),
        })
    }

    /// The worst wait of a run that exceeds the bound: that in which the ideal fluid processor gave the task most. Tasks to which it gave
    /// nothing are not considered.
    pub fn exceeded_in(self, run: &RunMetrics) -> Option<Starvation> {
        let rank = |one: &Starvation| match self {
            Self::Wait(_) => one.wait.length_ns,
            _ => one.wait.entitled_ns,
        };
        let mut found: Option<Starvation> = None;
        for one in run.tasks.iter().filter_map(|task| self.exceeded_by(task)) {
            if found.as_ref().is_none_or(|found| rank(&one) > rank(found)) {
                found = Some(one);
            }
        }
        found
    }
}
