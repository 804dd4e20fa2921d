//! What there is besides the threads of a run: the process that creates them, and everybody else.
//!
//! What a thread inherits, and who else calls the scheduler, is part of what many schedulers decide by. A simulation that is held
//! against the run has to know it.

use std::fs;

use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::{SysconfVar, sysconf};
use serde::Serialize;

use crate::clock;

/// What the process had done when it created the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Creator {
    /// How long it had lived.
    pub age_ns: u64,
    /// CPU time that its first thread had used of this.
    pub cpu_time_ns: u64,
    /// Times it had waited.
    pub waits: u64,
    /// CPU time that a thread of the run used before it waited for the common start, on average.
    pub preparation_ns: u64,
}

impl Creator {
    /// What the calling thread, the first of its process, has done so far. [`Creator::preparation_ns`] is not known yet.
    pub fn so_far() -> Self {
        let cpu_time_ns = clock::thread_cpu_time();
        let waits = getrusage(UsageWho::RUSAGE_THREAD)
            .map(|usage| usage.voluntary_context_switches())
            .unwrap_or(0);
        Self {
            age_ns: age().unwrap_or(0).max(cpu_time_ns),
            cpu_time_ns,
            waits: u64::try_from(waits).unwrap_or(0),
            preparation_ns: 0,
        }
    }
}

/// A thread that is not part of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OtherThread {
    /// The kernel's name for it.
    pub name: String,
    /// Whether it is one of the kernel's own.
    pub kernel: bool,
    /// -20 to 19.
    pub nice: i32,
    /// 1 to 99 for real-time policies, otherwise 0.
    pub rt_priority: u32,
    /// CPUs that it may use; empty: all.
    pub cpus: Vec<u32>,
    /// What it did, in the order of time.
    pub turns: Vec<Turn>,
}

/// From being woken to falling asleep: when it was woken, since the start of the run, and the CPU time that it used; nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Turn(pub u64, pub u64);

/// How long this process has lived, to the kernel's hundredth of a second.
fn age() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    // proc_pid_stat(5): starttime is field 22, and the text goes on with field 3.
    let start: u64 = fields.split_ascii_whitespace().nth(19)?.parse().ok()?;
    let second = u64::try_from(sysconf(SysconfVar::CLK_TCK).ok()??).ok()?;
    Some(clock::since_boot().saturating_sub(start * (1_000_000_000 / second.max(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_older_than_what_it_used() {
        let creator = Creator::so_far();
        assert!(creator.age_ns >= creator.cpu_time_ns);
        let hour = 3_600_000_000_000;
        assert!(creator.age_ns < hour, "{creator:?}");
    }
}
