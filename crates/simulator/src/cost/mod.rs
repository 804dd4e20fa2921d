//! The costs of scheduling: a small, explicit model in virtual time. `docs/cost-model.md` says what each cost is and where it is charged.

mod file;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use fairground_machine::Distance;

pub use file::CostError;

/// Origin of a cost that was given as a plain number.
pub const GIVEN: &str = "given by the user";

/// The default model, embedded.
const DEFAULT: &str = include_str!("default.toml");

/// The values of one cost: one number, or four by distance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CostValue {
    /// Nanoseconds.
    One(u64),
    /// Nanoseconds to a sibling, within the last-level cache, within the NUMA node, to another node.
    ByDistance([u64; 4]),
}

impl From<u64> for CostValue {
    fn from(value: u64) -> Self {
        CostValue::One(value)
    }
}

impl From<[u64; 4]> for CostValue {
    fn from(values: [u64; 4]) -> Self {
        CostValue::ByDistance(values)
    }
}

/// Defines the model and everything that covers all of its costs.
macro_rules! costs {
    ($($(#[$meta:meta])* $name:ident: $kind:ty = $zero:expr),* $(,)?) => {
        /// Costs of one machine, all in nanoseconds.
        #[derive(Clone, Debug, PartialEq)]
        pub struct CostModel {
            /// Name shown in results: `default`, `zero`, or the file it came from.
            pub name: String,
            /// Where each number comes from, by the name of its cost.
            pub origins: BTreeMap<&'static str, String>,
            $($(#[$meta])* pub $name: $kind,)*
        }

        impl CostModel {
            /// Names of the costs, in order.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// Nothing costs anything.
            pub fn zero() -> Self {
                CostModel {
                    name: "zero".into(),
                    origins: Self::NAMES.iter().map(|name| (*name, "nothing costs anything".to_owned())).collect(),
                    $($name: $zero,)*
                }
            }

            /// Takes over measurements of the cost called `name`: one number, or four by distance, where `None` keeps the present value. A name
            /// that is not a cost changes nothing.
            pub fn take_over(&mut self, name: &str, values: &[Option<u64>], origin: &str) {
                $(if name == stringify!($name) {
                    file::Value::take_over(&mut self.$name, values);
                    let partly = values.contains(&None);
                    let origin = match self.origins.get(stringify!($name)) {
                        Some(before) if partly => format!("{origin}; at other distances: {before}"),
                        _ => origin.to_owned(),
                    };
                    self.origins.insert(stringify!($name), origin);
                })*
            }

            /// Every cost by name, in order.
            pub fn values(&self) -> Vec<(&'static str, CostValue)> {
                vec![$((stringify!($name), CostValue::from(self.$name))),*]
            }
        }

        /// The contents of a file, field by field.
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            $($name: Option<file::Given<$kind>>,)*
        }

        impl Fields {
            fn apply(self, model: &mut CostModel) {
                $(if let Some(given) = self.$name {
                    model.$name = given.value;
                    model.origins.insert(stringify!($name), given.origin.unwrap_or_else(|| GIVEN.to_owned()));
                })*
            }
        }
    };
}

costs! {
    /// Entering and leaving one scheduler callback.
    callback: u64 = 0,
    /// One kfunc or helper call.
    kfunc: u64 = 0,
    /// One thousand BPF instructions.
    kilo_instructions: u64 = 0,
    /// Visiting one task in a walk over a dispatch queue, while the queue's lock is held.
    scan: u64 = 0,
    /// Visiting one task in a walk over all tasks of the system.
    task_walk: u64 = 0,
    /// Holding the lock of a dispatch queue or run queue for one operation that this CPU also did last.
    lock: u64 = 0,
    /// Fetching a lock's cache line from a sibling, from the same cache, from the same node, from another node.
    lock_transfer: [u64; 4] = [0; 4],
    /// Switching from one task to another, or to idle, apart from callbacks and locks.
    context_switch: u64 = 0,
    /// Waking a task that will run on the waker's CPU, apart from callbacks and locks.
    wakeup: u64 = 0,
    /// Waking a task that will run on another CPU, apart from callbacks and locks.
    wakeup_remote: u64 = 0,
    /// Leaving the idle state.
    idle_exit: u64 = 0,
    /// An interrupt from one CPU to another, from sending to handling.
    interrupt: u64 = 0,
    /// Handling a timer tick.
    tick: u64 = 0,
    /// Handling a timer interrupt that wakes a task, besides the wake-up itself.
    timer: u64 = 0,
    /// How late a timer of an ordinary task comes if no other interrupt of a timer comes before (timer slack).
    timer_slack: u64 = 0,
    /// An interrupt that a CPU sends to itself for work that it may not do under the locks that it holds: kicks.
    irq_work: u64 = 0,
    /// Recording a wake-up for `fairground play`, which is done before the task runs. Simulations are not recorded: only a comparison with a
    /// recording adds this.
    record_wakeup: u64 = 0,
    /// Recording a switch for `fairground play`, when the task is about to run. Only a comparison with a recording adds this.
    record_switch: u64 = 0,
    /// The cost of `fairground record` at a wake-up. Only a comparison with a recording adds this.
    capture_wakeup: u64 = 0,
    /// The cost of `fairground record` at a switch. Only a comparison with a recording adds this.
    capture_switch: u64 = 0,
    /// The cost of the kernel's own scheduler at a switch, besides `context_switch`.
    fair_switch: u64 = 0,
    /// The cost of the kernel's own scheduler at a wake-up, besides `wakeup`.
    fair_wakeup: u64 = 0,
    /// Any system call of a task's program.
    system_call: u64 = 0,
    /// CPU time of a thread of a scheduler's loader between two system calls.
    loader_call: u64 = 0,
    /// Refilling caches after a migration: to a sibling, in the same cache, the same node, another node.
    migration: [u64; 4] = [0; 4],
}

impl CostModel {
    /// The default: costs of a current server CPU, each with its origin.
    pub fn default_model() -> Self {
        static MODEL: LazyLock<CostModel> = LazyLock::new(|| {
            let mut model = CostModel::zero();
            model.origins.clear();
            let fields: Fields = toml::from_str(DEFAULT).expect("the embedded file is sound");
            fields.apply(&mut model);
            model.name = "default".into();
            model
        });
        MODEL.clone()
    }

    /// The costs under the kernel's own scheduler: its code makes wake-ups and switches longer, and it has no callbacks, no dispatch queues and
    /// no interrupts to itself.
    #[must_use]
    pub fn built_in(&self) -> Self {
        Self {
            callback: 0,
            kfunc: 0,
            kilo_instructions: 0,
            scan: 0,
            task_walk: 0,
            lock: 0,
            irq_work: 0,
            context_switch: self.context_switch + self.fair_switch,
            wakeup: self.wakeup + self.fair_wakeup,
            wakeup_remote: self.wakeup_remote + self.fair_wakeup,
            ..self.clone()
        }
    }

    /// The cost at `distance` in a table of four.
    pub(crate) fn by_distance(table: &[u64; 4], distance: Distance) -> u64 {
        match distance {
            Distance::Same => 0,
            Distance::Sibling => table[0],
            Distance::Cache => table[1],
            Distance::Node => table[2],
            Distance::Remote => table[3],
        }
    }
}

/// A spin lock in virtual time: the CPU that held it last, and when it becomes free. Contention and cache-line transfers follow from these.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lock {
    /// The CPU that held it last.
    pub owner: u32,
    /// When it becomes free.
    pub free_at: u64,
}

/// The parts of the account of kernel work that the scheduler's code does not know.
#[derive(Debug, Default)]
pub struct Account {
    /// BPF instructions that were charged so far.
    pub instructions: u64,
    /// What they cost in all, rounded down.
    pub cost: u64,
    /// The part of the work in the current event that is CPU time of the current task, in system calls.
    pub in_calls: u64,
}
