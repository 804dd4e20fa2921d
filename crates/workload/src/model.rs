//! The model of a workload that has been read.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use crate::events::{Event, Events};
use crate::variation::{Factor, Variation};

/// A workload: task definitions and the named resources that they share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// File name without folder and suffix, or a name given by the caller.
    pub name: String,
    /// `global.duration` in nanoseconds; `None` means until all tasks end.
    pub duration: Option<u64>,
    /// Task definitions in file order.
    pub tasks: Vec<Task>,
    /// Mutexes; events refer to them by index.
    pub mutexes: Vec<Mutex>,
    /// Names of conditions (wait, signal, broad, sync, suspend, resume).
    pub conditions: Vec<String>,
    /// Barriers with the number of arrivals that open each.
    pub barriers: Vec<Barrier>,
    /// Names of counting semaphores, all starting at 0.
    pub semaphores: Vec<String>,
    /// Timers.
    pub timers: Vec<Timer>,
    /// Pipes.
    pub pipes: Vec<Pipe>,
    /// Names of disks.
    pub disks: Vec<String>,
    /// Drives.
    pub drives: Vec<Drive>,
    /// Names of memories that tasks compete for.
    pub memories: Vec<String>,
    /// Names of services, at which requests wait until a task takes them.
    pub services: Vec<String>,
    /// Sets of services for which `take` events wait, each in the order of the file.
    pub choices: Vec<Vec<usize>>,
    /// Requests that come from outside the machine.
    pub arrivals: Vec<Arrivals>,
    /// All control groups that tasks are in at any time and those above them, except the root, in the order in which they are made.
    pub groups: Vec<Group>,
    /// Things that the reader accepted but the user should know about, one sentence each with file:line:column.
    pub notes: Vec<String>,
}

/// A mutex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutex {
    /// Its name.
    pub name: String,
    /// CPU time for which a task spins before it blocks, nanoseconds; 0 for a plain mutex.
    pub spin: u64,
}

/// A pipe, or one direction of a pair of sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipe {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: PipeKind,
}

impl Pipe {
    /// Capacity of a pipe unless it was changed.
    pub const CAPACITY: u64 = 65536;
    /// Capacity of an early pipe.
    pub const EARLY_CAPACITY: u64 = 4096;
}

impl Display for Pipe {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            PipeKind::Paged { .. } | PipeKind::Early => "pipe",
            PipeKind::Socket => "socket",
        };
        write!(formatter, "{kind} {}", self.name)
    }
}

/// Kinds of pipes, which differ in what they hold and in the wake-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeKind {
    /// That of today, with the bytes that it holds before rounding up to the pages that the kernel gives it.
    Paged {
        /// Number of bytes.
        capacity: u64,
    },
    /// One of Linux 2.6 to 2.6.10: a page of bytes, whose wake-ups are synchronous only in the middle of a transfer.
    Early,
    /// A stream socket of a pair (`AF_UNIX`).
    Socket,
}

/// A disk with a head, which has to move from one file to another. Reads come from an elevator, writes follow in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drive {
    /// Its name.
    pub name: String,
    /// How long it takes to get to another file: the seek and half a revolution, nanoseconds.
    pub positioning: u64,
    /// Bytes per second that pass under the head.
    pub rate: u64,
    /// Largest window of read-ahead, bytes.
    pub read_ahead: u64,
    /// Memory of the machine, of which writes may fill parts before they reach the drive, bytes.
    pub memory: u64,
    /// How the next request is chosen.
    pub elevator: Elevator,
}

/// An elevator of Linux 2.6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Elevator {
    /// It waits a little for the next read of the task whose read it has just served. The default of 2.6.0 to 2.6.17.
    #[default]
    Anticipatory,
    /// It serves the next request of any task.
    Deadline,
}

/// A barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// Its name.
    pub name: String,
    /// Number of arrivals that open it.
    pub parties: u32,
    /// CPU time for which a task spins before it sleeps, nanoseconds; 0 for a plain barrier.
    pub spin: u64,
}

/// Requests that come from outside the machine, whether or not earlier ones have been answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrivals {
    /// Index into `Workload::services`.
    pub service: usize,
    /// Mean time from one arrival to the next, nanoseconds.
    pub interval: u64,
    /// Factor of that time; `None` for a regular stream.
    pub factor: Option<Factor>,
    /// Number of requests that arrive together.
    pub burst: u32,
    /// CPUs whose interrupts bring them, in turn; `None` for all.
    pub cpus: Option<Vec<u32>>,
}

/// A timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timer {
    /// Its reference name.
    pub name: String,
    /// Whether every task instance has its own (`unique...` names).
    pub unique: bool,
}

/// A control group below the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its path from the root group, such as `/a/x`.
    pub path: String,
    /// Its settings when it is made.
    pub settings: GroupSettings,
    /// Later settings, in order of time.
    pub changes: Vec<GroupChange>,
}

/// A change of a group's settings during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupChange {
    /// When, in nanoseconds since the start.
    pub at: u64,
    /// All settings from then on.
    pub settings: GroupSettings,
}

/// Settings of a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSettings {
    /// How it competes with its siblings.
    pub share: Share,
    /// How much CPU time it may use (`cpu.max`, `cpu.max.burst`).
    pub bandwidth: Bandwidth,
}

/// How a control group competes with its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// By `cpu.weight`, 1 to 10000.
    Weight(u32),
    /// By `cpu.weight.nice`, -20 to 19.
    Nice(i32),
    /// With the time that others leave: `cpu.idle` is 1.
    Idle,
}

/// How much CPU time a control group may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// CPU time per period, in nanoseconds; `None` for any.
    pub quota: Option<u64>,
    /// Length of a period, in nanoseconds.
    pub period: u64,
    /// How much of unused quota may be used later, in nanoseconds.
    pub burst: u64,
}

impl Default for GroupSettings {
    /// Those of a new group in the kernel.
    fn default() -> Self {
        Self {
            share: Share::Weight(100),
            bandwidth: Bandwidth { quota: None, period: 100_000_000, burst: 0 },
        }
    }
}

impl Group {
    pub(crate) fn new(path: &str) -> Self {
        Self { path: path.to_owned(), settings: GroupSettings::default(), changes: Vec::new() }
    }

    /// The quotas that it has at any time, in nanoseconds per period.
    pub fn quotas(&self) -> impl Iterator<Item = u64> + '_ {
        let later = self.changes.iter().map(|change| change.settings);
        let all = std::iter::once(self.settings).chain(later);
        all.filter_map(|settings| settings.bandwidth.quota)
    }

    /// The path of the group that this one is in; `/` for the root.
    pub fn parent(&self) -> &str {
        match self.path.rsplit_once('/') {
            None | Some(("", _)) => "/",
            Some((parent, _)) => parent,
        }
    }
}

/// Kernel policy of a task with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_OTHER` with nice.
    Other {
        /// -20 to 19.
        nice: i32,
        /// Slice that the task asks for, nanoseconds; `None` leaves it to the scheduler.
        slice: Option<u64>,
    },
    /// `SCHED_BATCH` with nice.
    Batch {
        /// -20 to 19.
        nice: i32,
        /// As for `Other`.
        slice: Option<u64>,
    },
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_EXT` with nice: such tasks are the sched_ext scheduler's even if it has no others (`SCX_OPS_SWITCH_PARTIAL`).
    Ext {
        /// -20 to 19.
        nice: i32,
    },
    /// `SCHED_FIFO` with priority.
    Fifo {
        /// 1 to 99.
        priority: u32,
    },
    /// `SCHED_RR` with priority.
    RoundRobin {
        /// 1 to 99.
        priority: u32,
    },
    /// `SCHED_DEADLINE`, all in nanoseconds.
    Deadline {
        /// Runtime per period.
        runtime: u64,
        /// Period.
        period: u64,
        /// Relative deadline.
        deadline: u64,
    },
}

impl Display for Policy {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other { nice, .. } => write!(formatter, "SCHED_OTHER with nice {nice}"),
            Self::Batch { nice, .. } => write!(formatter, "SCHED_BATCH with nice {nice}"),
            Self::Idle => formatter.write_str("SCHED_IDLE"),
            Self::Ext { nice } => write!(formatter, "SCHED_EXT with nice {nice}"),
            Self::Fifo { priority } => write!(formatter, "SCHED_FIFO with priority {priority}"),
            Self::RoundRobin { priority } => {
                write!(formatter, "SCHED_RR with priority {priority}")
            }
            Self::Deadline { .. } => formatter.write_str("SCHED_DEADLINE"),
        }
    }
}

/// A task definition; `instances` tasks are started from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its key in the file.
    pub name: String,
    /// Number of tasks to start; 0 for a definition that is only forked.
    pub instances: u32,
    /// Delay before the first event, nanoseconds.
    pub delay: u64,
    /// Number of passes over all phases; `None` for ever.
    pub loops: Option<u64>,
    /// Phases in order.
    pub phases: Vec<Phase>,
    /// Whether the run does not wait for it: the run ends when all other tasks have. From the `fairground` key.
    pub daemon: bool,
    /// How much of a last-level cache it uses, in bytes; 0 if that is not known. From the `fairground` key.
    pub footprint: u64,
    /// Policy at start.
    pub policy: Policy,
    /// Allowed CPUs at start; `None` for all.
    pub cpus: Option<Vec<u32>>,
    /// Attributes from the `fairground` key: name and value as written, in file order.
    pub attributes: Vec<(String, String)>,
    /// Process whose address space it has: tasks that name the same process share it. `None` for that of the task that forked it or, for the
    /// first tasks, of the workload. From the `fairground` key.
    pub process: Option<String>,
    /// `taskgroup` path, if any.
    pub taskgroup: Option<String>,
}

/// A phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Its key in the file.
    pub name: String,
    /// Number of passes over its events; `None` for ever.
    pub loops: Option<u64>,
    /// Policy to switch to on entry, if the phase changes it; otherwise the current one stays.
    pub policy: Option<Policy>,
    /// Affinity of this phase, if it names one. A phase that does not name one does not keep that of the previous phase: it runs on
    /// `Task::cpus` (see [`Task::cpus_in`]).
    pub cpus: Option<Vec<u32>>,
    /// `taskgroup` to move to on entry, if the phase names one; otherwise the task stays in its group.
    pub taskgroup: Option<String>,
    /// Events in order.
    pub events: Events,
    /// How events vary, by index; only for those that do.
    pub variations: BTreeMap<usize, Variation>,
}

impl Task {
    /// Period of the timer that a task reaches next if the event with this index of a phase is its next one, if it has timers.
    pub fn next_period(&self, phase: usize, event: usize) -> Option<u64> {
        let period = |event: Event| match event {
            Event::Timer { period, .. } => Some(period),
            _ => None,
        };
        let (before, from) = self.phases.split_at_checked(phase)?;
        let (current, after) = from.split_first()?;
        let again = (current.loops != Some(1)).then_some(current);
        let others = again.into_iter().chain(after).chain(before).chain([current]);
        let rest = current.events.after(event);
        rest.chain(others.flat_map(|phase| phase.events.iter())).find_map(period)
    }

    /// Whether nothing follows: if the event with this index of a phase is the next one, in these passes of all phases and of that one, counted from 0.
    pub fn ends_at(&self, pass: u64, phase: usize, phase_pass: u64, event: usize) -> bool {
        let is_last = |pass: u64, loops: Option<u64>| loops.is_some_and(|loops| pass + 1 >= loops);
        phase + 1 == self.phases.len()
            && event >= self.phases[phase].events.len()
            && is_last(phase_pass, self.phases[phase].loops)
            && is_last(pass, self.loops)
    }

    /// CPUs allowed during the phase with this index; `None` for all. A phase's own list has precedence over that of the task.
    ///
    /// # Panics
    ///
    /// If the task has no such phase.
    pub fn cpus_in(&self, phase: usize) -> Option<&[u32]> {
        self.phases[phase].cpus.as_deref().or(self.cpus.as_deref())
    }

    /// Name of the instance with this number, with a suffix if there are several.
    pub fn instance_name(&self, instance: u32) -> String {
        if self.instances > 1 { format!("{}-{instance}", self.name) } else { self.name.clone() }
    }
}

impl Workload {
    /// Tasks started at the beginning: all instances of all definitions.
    pub fn task_count(&self) -> usize {
        self.tasks.iter().map(|task| task.instances as usize).sum()
    }

    /// The tasks started at the beginning, in order of creation: index of the definition, and number of the instance.
    pub fn first_tasks(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let definitions = self.tasks.iter().enumerate();
        definitions
            .flat_map(|(index, task)| (0..task.instances).map(move |instance| (index, instance)))
    }
}
