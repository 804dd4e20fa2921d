//! The event stream: the one place where the simulator and the real kernel meet.
//!
//! A producer (the simulator, the kernel recorder, a trace file) calls a [`Sink`] in time order; metrics and exporters are sinks
//! and cannot tell which of them produced the stream. A [`FanOut`] feeds several sinks, a [`TraceWriter`] stores the stream for a
//! [`TraceReader`] to play again, a [`PerfettoWriter`] writes a trace that the Perfetto UI opens.

mod callback;
mod fan_out;
mod perfetto;
pub mod trace_file;
mod weight;

pub use callback::Callback;
pub use fan_out::FanOut;
pub use perfetto::PerfettoWriter;
pub use trace_file::{TraceError, TraceReader, TraceWriter};
pub use weight::load_weight;

/// Virtual or real time in nanoseconds since the start of the run.
pub type Nanoseconds = u64;

/// Dense number of a task within one run, in order of creation. Not a pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

/// Dense number of a CPU within one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(pub u32);

/// Kernel scheduling policy of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// `SCHED_NORMAL` (`SCHED_OTHER`), ordered by nice.
    Normal,
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_EXT`, only distinct from `Normal` when a scheduler switches partially.
    Ext,
    /// `SCHED_FIFO`, above sched_ext.
    Fifo,
    /// `SCHED_RR`, above sched_ext.
    RoundRobin,
    /// `SCHED_DEADLINE`, above sched_ext.
    Deadline,
}

impl Policy {
    /// The policy with the kernel's number; an unknown one counts as normal.
    #[must_use]
    pub fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Fifo,
            2 => Self::RoundRobin,
            3 => Self::Batch,
            5 => Self::Idle,
            6 => Self::Deadline,
            7 => Self::Ext,
            _ => Self::Normal,
        }
    }
}

/// What is known of a task; sent when the task appears and whenever something in it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    /// Name as in the workload, with an instance suffix where there are several (`hog-0`, `hog-1`).
    pub name: String,
    /// Current scheduling policy.
    pub policy: Policy,
    /// Nice value, -20 to 19.
    pub nice: i32,
    /// Real-time priority, 1 to 99 for `Fifo` and `RoundRobin`, else 0.
    pub rt_priority: u32,
    /// What the task shall have beside others: its load weight, or what the workload gives it, in the scale where nice 0 is 1024.
    pub weight: u32,
    /// CPUs that the task may use, ascending; empty means all.
    pub allowed: Vec<CpuId>,
    /// The task that forked it, if it was forked during the run.
    pub parent: Option<TaskId>,
}

/// Where CPU time went that no task could use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OverheadKind {
    /// Scheduler callbacks, with the kfuncs and locks they use.
    Scheduling,
    /// Switching from one task to another.
    Switch,
    /// Refilling caches after a migration.
    Migration,
    /// Interrupts: ticks, wake-ups, kicks.
    Interrupt,
}

/// A dispatch queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Queue {
    /// The local queue of a CPU.
    Local(CpuId),
    /// The global queue of a node.
    Global,
    /// A queue that the scheduler made, by its id.
    User(u64),
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub time: Nanoseconds,
    /// What.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// `task` became runnable (woken, or new). `cpu` is where it was queued first, `waker` the task that woke it (`None`: an
    /// interrupt or timer).
    Wake {
        /// The task that became runnable.
        task: TaskId,
        /// The CPU selected for it.
        cpu: CpuId,
        /// The task that woke it, if a task did.
        waker: Option<TaskId>,
    },
    /// `task` stopped being runnable: it sleeps, blocks or waits. Comes before the `Switch` that leaves it.
    Sleep {
        /// The task that went to sleep.
        task: TaskId,
    },
    /// `cpu` stopped running `prev` and starts to run `next` (`None`: idle, or a task outside the run).
    Switch {
        /// The CPU that switches.
        cpu: CpuId,
        /// The task that leaves, if it is part of the run.
        prev: Option<TaskId>,
        /// The task that comes, if it is part of the run.
        next: Option<TaskId>,
    },
    /// `task` moved between CPUs.
    Migrate {
        /// The task that moved.
        task: TaskId,
        /// Where it was.
        from: CpuId,
        /// Where it is now.
        to: CpuId,
    },
    /// `task` ended. Comes before the `Switch` that leaves it.
    Exit {
        /// The task that ended.
        task: TaskId,
    },
    /// A job of a periodic task is released at `due`, which may still be to come: it is told as soon as it is known. Comes after
    /// the completion of the job before.
    JobRelease {
        /// The periodic task.
        task: TaskId,
        /// Nominal activation time.
        due: Nanoseconds,
        /// Nominal end of its period, as far as is known now; the completion may correct it.
        deadline: Nanoseconds,
    },
    /// The job released last is complete (the task reached its next timer). `deadline` is the nominal end of
    /// its period.
    JobComplete {
        /// The periodic task.
        task: TaskId,
        /// Nominal end of the period.
        deadline: Nanoseconds,
    },
    /// The task left out whole periods because it was late: the first began at `due`.
    JobSkip {
        /// The periodic task.
        task: TaskId,
        /// Nominal beginning of the first that was left out.
        due: Nanoseconds,
        /// Length of a period.
        period: Nanoseconds,
        /// How many.
        count: u64,
    },
    /// The task started or stopped its own watch.
    Lap {
        /// The task.
        task: TaskId,
        /// When, as the task itself sees it: the time of this event, or later by what its CPU has to do before.
        at: Nanoseconds,
        /// Whether it started it.
        begins: bool,
    },
    /// `cpu` spends `duration` from now on something other than its task; if earlier overhead still lasts, from its end.
    /// The time is in no task's share, whichever task is switched in meanwhile.
    Overhead {
        /// The CPU that lost the time.
        cpu: CpuId,
        /// What for.
        kind: OverheadKind,
        /// How long, in nanoseconds.
        duration: Nanoseconds,
    },
    /// `cpu` has just gone through its scheduler: from the entry to the end of the choice of the next task, waits for locks
    /// included, the switch that may follow not.
    Pass {
        /// The CPU.
        cpu: CpuId,
        /// How long it took, in nanoseconds.
        duration: Nanoseconds,
    },
    /// A CPU came online or went offline.
    CpuOnline {
        /// The CPU.
        cpu: CpuId,
        /// Whether it is online now.
        online: bool,
    },
    /// The scheduler's loader, which goes on beside it in user space, has `cpu` from now on, or has it no more. No other event names its
    /// threads: the time is the scheduler's.
    Loader {
        /// The CPU.
        cpu: CpuId,
        /// Whether it has just got it.
        begins: bool,
    },
    /// The scheduler's callback has just returned. This and the next two are only in streams with details.
    Callback {
        /// The CPU on which it ran.
        cpu: CpuId,
        /// Which.
        callback: Callback,
        /// The task that it was about, if it was about one.
        task: Option<TaskId>,
        /// The CPU that it chose (`select_cpu`).
        chosen: Option<CpuId>,
        /// How long it took, in nanoseconds.
        duration: Nanoseconds,
    },
    /// `task` is on a dispatch queue from now on.
    Insert {
        /// The task.
        task: TaskId,
        /// The queue.
        queue: Queue,
        /// The slice that it has, in nanoseconds; the largest number is no end.
        slice: Nanoseconds,
        /// Its place in the order of virtual time, where the queue is ordered so.
        vtime: Option<u64>,
    },
    /// `task` has left the dispatch queue that it was on.
    Remove {
        /// The task.
        task: TaskId,
        /// The queue.
        queue: Queue,
    },
}

/// A consumer of the event stream.
pub trait Sink {
    /// A task appeared, or its attributes changed. Comes before every event that names the task.
    fn task(&mut self, time: Nanoseconds, task: TaskId, info: &TaskInfo);
    /// Something happened. Times never decrease.
    fn event(&mut self, event: &Event);
    /// All this happened, one after the other. A producer with many events spares itself a call for each.
    fn events(&mut self, events: &[Event]) {
        for event in events {
            self.event(event);
        }
    }
    /// The run ended at `end`; no call follows.
    fn finish(&mut self, end: Nanoseconds);
}

/// Takes no notice.
impl Sink for () {
    fn task(&mut self, _: Nanoseconds, _: TaskId, _: &TaskInfo) {}
    fn event(&mut self, _: &Event) {}
    fn finish(&mut self, _: Nanoseconds) {}
}
