//! What happened while a task waited: what ran instead, what the scheduler did with the task, and where it was queued.

use fairground_events::{Nanoseconds, Queue};
use serde::Serialize;

/// What happened while a task waited.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// Name of the task.
    pub task: String,
    /// When it began to wait.
    pub from_ns: Nanoseconds,
    /// When it ran at last, or the run ended.
    pub to_ns: Nanoseconds,
    /// Whether it ran at last.
    pub ran: bool,
    /// Why it waited so long.
    pub cause: Cause,
    /// Where it lay, in the order in which it came there first.
    pub places: Vec<Stay>,
    /// What the CPUs did that it may use.
    pub cpus: Vec<CpuUse>,
    /// What was done with it, from what made it wait on.
    pub steps: Vec<Step>,
    /// How many steps are left out, behind the first ones.
    pub steps_left_out: u64,
}

/// Where a runnable task is while it does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Place {
    /// In a class of the kernel's own, or on its way.
    Kernel,
    /// In the scheduler's own data: it was enqueued and is in no dispatch queue.
    Scheduler,
    /// In the local dispatch queue of a CPU.
    Local {
        /// The CPU.
        cpu: u32,
    },
    /// In the global dispatch queue of a node.
    Global,
    /// In a dispatch queue that the scheduler made.
    Queue {
        /// Its id.
        id: u64,
    },
}

impl From<Queue> for Place {
    fn from(queue: Queue) -> Self {
        match queue {
            Queue::Local(cpu) => Self::Local { cpu: cpu.0 },
            Queue::Global => Self::Global,
            Queue::User(id) => Self::Queue { id },
        }
    }
}

/// How long a task was in a place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stay {
    /// The place.
    pub place: Place,
    /// For how long in all.
    pub duration_ns: Nanoseconds,
    /// Tasks that CPUs took from there meanwhile.
    pub taken: Vec<Taken>,
    /// Calls of `dispatch` on CPUs that the task may use meanwhile.
    pub dispatches: u64,
}

/// Other tasks that a CPU took from a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Taken {
    /// The CPU.
    pub cpu: u32,
    /// How many.
    pub tasks: u64,
}

/// What a CPU did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CpuUse {
    /// The CPU.
    pub cpu: u32,
    /// The tasks that it ran, those that ran longest first.
    pub ran: Vec<Ran>,
    /// How long it ran none of the run's tasks.
    pub idle_ns: Nanoseconds,
}

/// How long a task ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ran {
    /// Name of the task.
    pub task: String,
    /// Whether it is a real-time task, which goes before all of the scheduler's.
    pub real_time: bool,
    /// For how long.
    pub duration_ns: Nanoseconds,
}

/// What mainly made a task wait.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Cause {
    /// Real-time tasks had its CPUs for most of the time.
    RealTime {
        /// How long they ran, on all of these CPUs.
        duration_ns: Nanoseconds,
        /// The CPU in whose local queue the task lay; `None`: all that it may use.
        cpu: Option<u32>,
    },
    /// It lay in a place.
    Lay {
        /// Which.
        place: Place,
    },
}

/// Something that was done with a task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// When.
    pub time_ns: Nanoseconds,
    /// What.
    #[serde(flatten)]
    pub action: Action,
}

/// What was done with a task.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Action {
    /// It became runnable.
    Woken {
        /// The CPU selected for it.
        cpu: u32,
        /// Name of the task that woke it, if a task did.
        by: Option<String>,
    },
    /// The scheduler's callback has returned.
    Callback {
        /// Name of the callback.
        callback: &'static str,
        /// The CPU on which it ran.
        cpu: u32,
        /// The CPU that it chose.
        chosen_cpu: Option<u32>,
        /// How long it took.
        duration_ns: Nanoseconds,
    },
    /// It was put on a dispatch queue.
    Inserted {
        /// Which.
        queue: Place,
        /// With which slice; `None` is one without end.
        slice_ns: Option<Nanoseconds>,
        /// With which virtual time, where the queue is ordered by it.
        vtime: Option<u64>,
    },
    /// It was taken off a dispatch queue.
    Removed {
        /// Which.
        queue: Place,
    },
    /// It lost its CPU.
    Preempted {
        /// The CPU.
        cpu: u32,
    },
    /// It runs.
    Runs {
        /// The CPU.
        cpu: u32,
    },
}
