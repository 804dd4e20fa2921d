//! The course of a wait: which tasks ran instead, how the scheduler treated the waiting task, and where it was queued.

use fairground_events::{Nanoseconds, Queue};
use schemars::JsonSchema;
use serde::Serialize;

/// The course of a task's wait.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Explanation {
    /// Name of the task.
    pub task: String,
    /// When it began to wait.
    pub from_ns: Nanoseconds,
    /// When it finally ran, or the run ended.
    pub to_ns: Nanoseconds,
    /// Whether it finally ran.
    pub ran: bool,
    /// Why it waited so long.
    pub cause: Cause,
    /// Where it was, in order of first arrival.
    pub places: Vec<Stay>,
    /// The activities of its allowed CPUs.
    pub cpus: Vec<CpuUse>,
    /// The steps of its treatment, beginning with the one that made it wait.
    pub steps: Vec<Step>,
    /// How many steps are left out between the first and the last ones.
    pub steps_left_out: u64,
}

impl Explanation {
    /// Gives all CPUs the numbers that the machine has for them.
    pub fn number_cpus(&mut self, numbers: &[u32]) {
        let number = |cpu: &mut u32| *cpu = numbers.get(*cpu as usize).copied().unwrap_or(*cpu);
        let in_place = |place: &mut Place| {
            if let Place::Local { cpu } = place {
                number(cpu);
            }
        };
        match &mut self.cause {
            Cause::RealTime { cpu, .. } | Cause::Server { cpu, .. } | Cause::Others { cpu, .. } => {
                cpu.iter_mut().for_each(number);
            }
            Cause::Lay { place } => in_place(place),
            Cause::Throttled { .. } | Cause::Quota { .. } => {}
        }
        for stay in &mut self.places {
            in_place(&mut stay.place);
            stay.taken.iter_mut().for_each(|taken| number(&mut taken.cpu));
            stay.moved.iter_mut().for_each(|moved| in_place(&mut moved.to));
        }
        self.cpus.iter_mut().for_each(|one| number(&mut one.cpu));
        for step in &mut self.steps {
            match &mut step.action {
                Action::Woken { cpu, .. } | Action::Preempted { cpu } | Action::Runs { cpu } => {
                    number(cpu);
                }
                Action::Callback { cpu, chosen_cpu, .. } => {
                    number(cpu);
                    chosen_cpu.iter_mut().for_each(number);
                }
                Action::Inserted { queue, .. } | Action::Removed { queue } => in_place(queue),
            }
        }
    }
}

/// Where a runnable task is while it is not running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Place {
    /// In one of the kernel's own scheduling classes.
    Kernel,
    /// On its way: being woken, moved from one place to another, or switched to.
    Way,
    /// In the scheduler's own data: enqueued, but on no dispatch queue.
    Scheduler,
    /// On the local dispatch queue of a CPU.
    Local {
        /// The CPU.
        cpu: u32,
    },
    /// On the global dispatch queue of a node.
    Global {
        /// The node.
        node: u32,
    },
    /// On a dispatch queue that the scheduler created.
    Queue {
        /// Its id.
        id: u64,
    },
}

impl From<Queue> for Place {
    fn from(queue: Queue) -> Self {
        match queue {
            Queue::Local(cpu) => Self::Local { cpu: cpu.0 },
            Queue::Global(node) => Self::Global { node },
            Queue::User(id) => Self::Queue { id },
        }
    }
}

/// How long a task was in a place.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stay {
    /// The place.
    pub place: Place,
    /// Total time.
    pub duration_ns: Nanoseconds,
    /// Other tasks that CPUs took from there meanwhile.
    pub taken: Vec<Taken>,
    /// Other tasks that were moved from there to a dispatch queue that is no CPU's own, by falling number.
    pub moved: Vec<Moved>,
    /// Calls of `dispatch` on the task's allowed CPUs that began meanwhile and left the task where it was.
    pub dispatches: u64,
}

/// Other tasks that a CPU took from a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Taken {
    /// The CPU.
    pub cpu: u32,
    /// How many.
    pub tasks: u64,
}

/// Other tasks that were moved from a queue to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    /// The other queue.
    pub to: Place,
    /// How many.
    pub tasks: u64,
}

/// A CPU's activities during a wait.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuUse {
    /// The CPU.
    pub cpu: u32,
    /// The tasks that it ran, by falling run time.
    pub ran: Vec<Ran>,
    /// How long it ran nothing.
    pub idle_ns: Nanoseconds,
    /// How long it ran nothing because it was waking from an idle state, switching or serving interrupts.
    pub overhead_ns: Nanoseconds,
    /// How long it was offline.
    pub offline_ns: Nanoseconds,
}

/// How long a task ran.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ran {
    /// Name of the task; a description of threads that are no tasks of the run.
    pub task: String,
    /// Whether it is a real-time task, which takes precedence over all tasks of the scheduler.
    pub real_time: bool,
    /// Whether it had a slice that never ends for more than half of this time: nothing interrupted it but the scheduler.
    pub endless: bool,
    /// Its real-time priority, 1 to 99, if it has one that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Whether these are threads that are no tasks of the run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub outside: bool,
    /// How long.
    pub duration_ns: Nanoseconds,
    /// How often it came to run, or ran already when the wait began.
    pub turns: u64,
}

/// The main reason why a task waited.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Cause {
    /// Real-time tasks occupied its CPUs for at least half of the time; if it is one itself, those that are as important or more so.
    RealTime {
        /// How long they ran, summed over these CPUs.
        duration_ns: Nanoseconds,
        /// The CPU on whose queue the task was; `None` stands for all its allowed CPUs.
        cpu: Option<u32>,
    },
    /// A real-time task was preempted for ordinary tasks, which a deadline server guarantees a part of each CPU.
    Server {
        /// How long they ran, summed over these CPUs.
        duration_ns: Nanoseconds,
        /// The CPU on whose queue the task was; `None` stands for all its allowed CPUs.
        cpu: Option<u32>,
    },
    /// Threads that are no tasks of the run had its CPUs for at least half of the time.
    Others {
        /// How long they ran, summed over these CPUs.
        duration_ns: Nanoseconds,
        /// The CPU on whose queue the task was; `None` stands for all its allowed CPUs.
        cpu: Option<u32>,
    },
    /// The deadline task had used up its runtime, and waited for its next period for at least half of the time.
    Throttled {
        /// How long.
        duration_ns: Nanoseconds,
    },
    /// A control group had used its quota for at least half of the time.
    Quota {
        /// How long.
        duration_ns: Nanoseconds,
    },
    /// It was stuck in a place.
    Lay {
        /// Which.
        place: Place,
    },
}

/// A step in the treatment of a task.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(extend("unevaluatedProperties" = false))]
pub struct Step {
    /// When.
    pub time_ns: Nanoseconds,
    /// The action.
    #[serde(flatten)]
    pub action: Action,
}

/// An action on a task.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Action {
    /// It became runnable.
    Woken {
        /// The CPU selected for it.
        cpu: u32,
        /// Name of the task that woke it, if a task did.
        by: Option<String>,
    },
    /// A callback of the scheduler returned.
    Callback {
        /// Name of the callback.
        callback: &'static str,
        /// The CPU on which it ran.
        cpu: u32,
        /// The CPU it chose.
        chosen_cpu: Option<u32>,
        /// How long it took.
        duration_ns: Nanoseconds,
    },
    /// It was put on a dispatch queue.
    Inserted {
        /// Which.
        queue: Place,
        /// Its slice; `None` if infinite.
        slice_ns: Option<Nanoseconds>,
        /// Its virtual time, if the queue is ordered by that.
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
