//! What scheduling costs: a small, explicit model in virtual time.

use fairground_machine::Distance;

/// Costs of one machine, all in nanoseconds unless named otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct CostModel {
    /// Name shown in results: `default`, `zero`, or the file it came from.
    pub name: String,
    /// Entering and leaving one scheduler callback.
    pub callback: u64,
    /// One kfunc or helper call.
    pub kfunc: u64,
    /// One thousand BPF instructions.
    pub kilo_instructions: u64,
    /// Taking a dispatch-queue lock that this CPU took last.
    pub lock: u64,
    /// Fetching a lock's cache line from a sibling, from the same cache, from the same node, from another node.
    pub lock_transfer: [u64; 4],
    /// Switching from one task to another.
    pub context_switch: u64,
    /// Leaving the idle state.
    pub idle_exit: u64,
    /// An interrupt from one CPU to another, from sending to handling.
    pub interrupt: u64,
    /// Handling a timer tick.
    pub tick: u64,
    /// Handling a timer interrupt that wakes a task, beside the wake-up itself.
    pub timer: u64,
    /// Largest lateness of a timer of an ordinary task (timer slack); each expiry draws from 0 to this.
    pub timer_slack: u64,
    /// Any system call of a task's program.
    pub system_call: u64,
    /// Refilling caches after a migration: to a sibling, in the same cache, the same node, another node.
    pub migration: [u64; 4],
}

impl CostModel {
    /// Costs of a current server CPU, rounded; where they come from is in `docs/cost-model.md`.
    pub fn default_model() -> Self {
        CostModel {
            name: "default".into(),
            callback: 30,
            kfunc: 10,
            kilo_instructions: 350,
            lock: 15,
            lock_transfer: [20, 50, 90, 180],
            context_switch: 1_000,
            idle_exit: 1_000,
            interrupt: 1_000,
            tick: 1_000,
            timer: 500,
            timer_slack: 50_000,
            system_call: 150,
            migration: [500, 3_000, 15_000, 40_000],
        }
    }

    /// Nothing costs anything.
    pub fn zero() -> Self {
        CostModel {
            name: "zero".into(),
            callback: 0,
            kfunc: 0,
            kilo_instructions: 0,
            lock: 0,
            lock_transfer: [0; 4],
            context_switch: 0,
            idle_exit: 0,
            interrupt: 0,
            tick: 0,
            timer: 0,
            timer_slack: 0,
            system_call: 0,
            migration: [0; 4],
        }
    }

    /// Cost of `distance` from one of the four-step tables.
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

/// A spin lock in virtual time: who had it last and when it is free, so that contention and cache-line transfer emerge.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lock {
    /// The CPU that had it last.
    pub owner: u32,
    /// When it is free again.
    pub free_at: u64,
}
