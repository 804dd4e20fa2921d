//! The event stream: the one place where the simulator and the real kernel meet.
//!
//! A producer (the simulator, the kernel recorder, a trace file) calls a [`Sink`] in order of time. Metrics and exporters are sinks
//! and cannot tell where the stream comes from. A [`FanOut`] feeds several sinks, a [`TraceWriter`] stores the stream for a [`TraceReader`]
//! to replay, a [`PerfettoWriter`] writes a trace for the Perfetto UI, and a [`SwitchWriter`] the switches as text.

mod callback;
mod fan_out;
mod group;
mod perfetto;
mod renumbered;
mod switches;
pub mod trace_file;
mod weight;

pub use callback::Callback;
pub use fan_out::FanOut;
pub use group::{CgroupMode, GroupId, GroupInfo, Quota, QuotaUse};
pub use perfetto::PerfettoWriter;
pub use renumbered::Renumbered;
pub use switches::SwitchWriter;
pub use trace_file::{TraceError, TraceReader, TraceWriter};
pub use weight::load_weight;

/// Virtual or real time in nanoseconds since the start of the run.
pub type Nanoseconds = u64;

/// Number of a task within one run, in order of creation without gaps. Not a pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

impl TaskId {
    /// Any thread that is no task of the run, in [`EventKind::Insert`] and [`EventKind::Remove`].
    pub const OUTSIDER: Self = Self(u32::MAX);
}

/// Number of a CPU within one run, without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(pub u32);

/// Kernel scheduling policy of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// `SCHED_NORMAL` (`SCHED_OTHER`), weighted by nice.
    Normal,
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_EXT`, distinct from `Normal` only if the scheduler does not take over all tasks (a partial switch).
    Ext,
    /// `SCHED_FIFO`, above sched_ext.
    Fifo,
    /// `SCHED_RR`, above sched_ext.
    RoundRobin,
    /// `SCHED_DEADLINE`, above sched_ext.
    Deadline,
}

impl Policy {
    /// The policy with this number in the kernel; unknown numbers count as normal.
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

/// A task's name, policy and other attributes. Sent when the task appears and whenever any of it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    /// Name as in the workload, with the number of the instance if there are several (`hog-0`, `hog-1`).
    pub name: String,
    /// Current scheduling policy.
    pub policy: Policy,
    /// Nice value, -20 to 19.
    pub nice: i32,
    /// Real-time priority, 1 to 99 for `Fifo` and `RoundRobin`, else 0.
    pub rt_priority: u32,
    /// The task's share relative to others: its load weight, or the weight that the workload sets, on the scale where nice 0 is 1024.
    pub weight: u32,
    /// CPUs that the task may use, ascending; empty means all.
    pub allowed: Vec<CpuId>,
    /// The task that forked it, if it was forked during the run.
    pub parent: Option<TaskId>,
    /// Whether the run does not wait for it to end.
    pub daemon: bool,
    /// The control group that it is in; `None` for the root.
    pub group: Option<GroupId>,
}

impl TaskInfo {
    /// A normal task of nice 0 that may run everywhere.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            policy: Policy::Normal,
            nice: 0,
            rt_priority: 0,
            weight: 1024,
            allowed: Vec::new(),
            parent: None,
            daemon: false,
            group: None,
        }
    }
}

/// Kinds of work that take CPU time away from tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OverheadKind {
    /// Scheduler callbacks, including their kfuncs and locks.
    Scheduling,
    /// Switching from one task to another.
    Switch,
    /// Refilling caches after a migration.
    Migration,
    /// Interrupts: ticks, wake-ups, kicks.
    Interrupt,
}

/// A kind of threads that are no tasks of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outsider {
    /// The scheduler's loader, which keeps running in user space: its time is charged to the scheduler.
    Loader,
    /// Other programs and the kernel's own threads, of the policies that schedulers serve.
    Other,
    /// The same with real-time policies, which come before all tasks of the scheduler.
    RealTime,
}

/// A dispatch queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Queue {
    /// The local queue of a CPU.
    Local(CpuId),
    /// The global queue of this node.
    Global(u32),
    /// A queue that the scheduler created, by its id.
    User(u64),
}

/// A condition of a task that decides how long it runs or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// It is in the scheduler's class.
    Ext,
    /// It runs with a slice that never ends (`SCX_SLICE_INF`).
    Endless,
    /// Its `SCHED_DEADLINE` runtime is used up, and it waits for its next period.
    UsedUp,
    /// A deadline server has it run before tasks of more important classes; lasts until it leaves the CPU.
    Served,
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub time: Nanoseconds,
    /// The event itself.
    pub kind: EventKind,
}

/// An event without its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// `task` became runnable: it was woken, or is new. `cpu` is where it was first queued, `waker` the task that woke it (`None` for an
    /// interrupt or a timer).
    Wake {
        /// The task that became runnable.
        task: TaskId,
        /// The CPU selected for it.
        cpu: CpuId,
        /// The task that woke it, if a task did.
        waker: Option<TaskId>,
    },
    /// `task` stopped being runnable: it sleeps, blocks or waits. Comes before the `Switch` away from it.
    Sleep {
        /// The task that went to sleep.
        task: TaskId,
    },
    /// `cpu` stopped running `prev` and starts running `next` (`None` for idle or a task outside the run).
    Switch {
        /// The CPU that switches.
        cpu: CpuId,
        /// The task that leaves the CPU, if it is part of the run.
        prev: Option<TaskId>,
        /// The task that gets the CPU, if it is part of the run.
        next: Option<TaskId>,
    },
    /// `task` moved between CPUs.
    Migrate {
        /// The task that moved.
        task: TaskId,
        /// The CPU it was on.
        from: CpuId,
        /// The CPU it is on now.
        to: CpuId,
    },
    /// `task` ended. Comes before the `Switch` away from it.
    Exit {
        /// The task that ended.
        task: TaskId,
    },
    /// A job of a periodic task is released at `due`. That may be in the future: the event comes as soon as the time is known, but after
    /// the completion of the previous job.
    JobRelease {
        /// The periodic task.
        task: TaskId,
        /// Nominal release time.
        due: Nanoseconds,
        /// Nominal end of its period, as far as known; the completion may correct it.
        deadline: Nanoseconds,
    },
    /// The job released last is complete: the task reached its next timer. `deadline` is the nominal end of its period.
    JobComplete {
        /// The periodic task.
        task: TaskId,
        /// Nominal end of the period.
        deadline: Nanoseconds,
    },
    /// The task skipped whole periods because it was late; the first began at `due`.
    JobSkip {
        /// The periodic task.
        task: TaskId,
        /// Nominal start of the first skipped period.
        due: Nanoseconds,
        /// Length of a period.
        period: Nanoseconds,
        /// How many.
        count: u64,
    },
    /// The task started or stopped its own stopwatch.
    Lap {
        /// The task.
        task: TaskId,
        /// When, as the task itself sees it: the time of this event, or later if its CPU has other things to do first. The lap of a request from
        /// outside begins when that came, which is earlier.
        at: Nanoseconds,
        /// Whether the task started it.
        begins: bool,
    },
    /// `cpu` spends the next `duration` on something other than its task, beginning when earlier overhead ends if that still lasts.
    /// No task is charged for the time, whichever is switched in meanwhile.
    Overhead {
        /// The CPU that lost the time.
        cpu: CpuId,
        /// The kind of work that took the time.
        kind: OverheadKind,
        /// How long, in nanoseconds.
        duration: Nanoseconds,
    },
    /// `cpu` has just passed through its scheduler: from the entry until the next task is chosen, including waits for locks but not the
    /// switch that may follow.
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
    /// A thread that is no task of the run gets `cpu`, or such a thread has left it. Comes after the `Switch` away from a task of the run, and
    /// before the one to it. No other event names these threads, but for [`TaskId::OUTSIDER`] in insertions and removals.
    Outside {
        /// The CPU.
        cpu: CpuId,
        /// Who has it from now on; `None` if the CPU is idle or about to get a task of the run.
        who: Option<Outsider>,
    },
    /// `task`, which is runnable, may not run from now on because a control group that it is in has used its quota, or may run again. One
    /// that goes on a CPU or to sleep may.
    Throttle {
        /// The task.
        task: TaskId,
        /// Whether it may not run.
        begins: bool,
    },
    /// The use of a group's quota since the group was made. Comes at the end of a run, from the program that enforces the quota.
    QuotaUse {
        /// The group.
        group: GroupId,
        /// The figures.
        used: QuotaUse,
    },
    /// The energy that a CPU has consumed since the run began. Comes at the end, from machines whose power is known.
    Energy {
        /// The CPU.
        cpu: CpuId,
        /// Nanojoules.
        nanojoules: u64,
    },
    /// A callback of the scheduler has just returned. Only streams with details have this event and the next three.
    Callback {
        /// The CPU on which it ran.
        cpu: CpuId,
        /// Which.
        callback: Callback,
        /// The task it was called for, if any.
        task: Option<TaskId>,
        /// The CPU it chose (`select_cpu`).
        chosen: Option<CpuId>,
        /// How long it took, in nanoseconds.
        duration: Nanoseconds,
    },
    /// `task` was put on a dispatch queue.
    Insert {
        /// The task.
        task: TaskId,
        /// The queue.
        queue: Queue,
        /// Its slice, in nanoseconds; the largest number means an infinite one.
        slice: Nanoseconds,
        /// Its virtual time, if the queue is ordered by that.
        vtime: Option<u64>,
    },
    /// `task` left its dispatch queue.
    Remove {
        /// The task.
        task: TaskId,
        /// The queue.
        queue: Queue,
    },
    /// A condition of `task` begins or ends.
    Condition {
        /// The task.
        task: TaskId,
        /// Which condition.
        condition: Condition,
        /// Whether it begins.
        begins: bool,
    },
}

/// A consumer of the event stream.
pub trait Sink {
    /// A task appeared, or its attributes changed. Comes before every event that names the task.
    fn task(&mut self, time: Nanoseconds, task: TaskId, info: &TaskInfo);
    /// A control group appeared, or its settings changed. Comes before every task that is in it.
    fn group(&mut self, _time: Nanoseconds, _group: GroupId, _info: &GroupInfo) {}
    /// Something happened. Times never decrease.
    fn event(&mut self, event: &Event);
    /// All of these happened, in this order. Saves a producer with many events a call for each.
    fn events(&mut self, events: &[Event]) {
        for event in events {
            self.event(event);
        }
    }
    /// The run ended at `end`; no call follows.
    fn finish(&mut self, end: Nanoseconds);
}

/// Ignores everything.
impl Sink for () {
    fn task(&mut self, _: Nanoseconds, _: TaskId, _: &TaskInfo) {}
    fn event(&mut self, _: &Event) {}
    fn finish(&mut self, _: Nanoseconds) {}
}
