//! The surroundings of a run's threads on a kernel: the process that created them, and other threads of the machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The past of the process that created the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Creator {
    /// How long it had existed.
    pub age_ns: u64,
    /// CPU time that its first thread had used in this time.
    pub cpu_time_ns: u64,
    /// How often it had waited.
    pub waits: u64,
    /// CPU time that a thread of the run used before it waited for the common start, on average.
    pub preparation_ns: u64,
}

/// A thread that is not part of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OtherThread {
    /// The kernel's name for it.
    pub name: String,
    /// Whether it is one of the kernel's own.
    pub kernel: bool,
    /// -20 to 19.
    pub nice: i32,
    /// 1 to 99 for real-time policies, otherwise 0.
    pub rt_priority: u32,
    /// CPUs that it may use; empty for all.
    pub cpus: Vec<u32>,
    /// Its actions, in order of time.
    pub turns: Vec<Turn>,
}

/// From being woken to going to sleep: when it was woken, since the start of the run, and the CPU time that it used; nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Turn(pub u64, pub u64);
