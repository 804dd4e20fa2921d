//! The process that creates the threads of a run.
//!
//! Threads inherit some of its history, and many schedulers decide by that. A simulation that is compared with the run needs to know it.

use std::fs;

use fairground_results::Creator;
use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::{SysconfVar, sysconf};

use crate::clock;

/// The past of the calling thread, the first of its process. [`Creator::preparation_ns`] is not known yet.
pub fn creator_so_far() -> Creator {
    let cpu_time_ns = clock::thread_cpu_time();
    let waits = getrusage(UsageWho::RUSAGE_THREAD)
        .map(|usage| usage.voluntary_context_switches())
        .unwrap_or(0);
    Creator {
        age_ns: age().unwrap_or(0).max(cpu_time_ns),
        cpu_time_ns,
        waits: u64::try_from(waits).unwrap_or(0),
        preparation_ns: 0,
    }
}

/// The age of this process, to the hundredth of a second that the kernel gives.
fn age() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let second = u64::try_from(sysconf(SysconfVar::CLK_TCK).ok()??).ok()?;
    let start: u64 = fairground_files::stat_field(&text, 22)?.parse().ok()?;
    Some(clock::since_boot().saturating_sub(start * (1_000_000_000 / second.max(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_older_than_what_it_used() {
        let creator = creator_so_far();
        assert!(creator.age_ns >= creator.cpu_time_ns);
        assert!(creator.age_ns < clock::since_boot(), "{creator:?}");
    }
}
