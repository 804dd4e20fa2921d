//! Policy, nice and allowed CPUs of the calling thread.

use std::io;

use fairground_workload::Policy;
use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Priority of the threads that watch and end a run. They do very little, but do it at once.
pub(crate) const WATCHERS: Policy = Policy::Fifo { priority: 99 };

/// Version 0 of the kernel's `struct sched_attr`, which every kernel accepts.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

impl SchedulingAttributes {
    fn of(policy: &Policy) -> Self {
        let mut attributes = Self { size: 48, ..Self::default() };
        match *policy {
            Policy::Other { nice, slice } => {
                attributes.nice = nice;
                attributes.runtime = slice.unwrap_or(0);
            }
            Policy::Batch { nice, slice } => {
                attributes.policy = 3;
                attributes.nice = nice;
                attributes.runtime = slice.unwrap_or(0);
            }
            Policy::Idle => attributes.policy = 5,
            Policy::Ext { nice } => {
                attributes.policy = 7;
                attributes.nice = nice;
            }
            Policy::Fifo { priority } => {
                attributes.policy = 1;
                attributes.priority = priority;
            }
            Policy::RoundRobin { priority } => {
                attributes.policy = 2;
                attributes.priority = priority;
            }
            Policy::Deadline { runtime, period, deadline } => {
                attributes.policy = 6;
                attributes.runtime = runtime;
                attributes.deadline = deadline;
                attributes.period = period;
            }
        }
        attributes
    }
}

/// Sets the policy of the calling thread.
///
/// # Errors
/// The kernel's error, usually that the thread lacks the permission.
pub fn set_policy(policy: &Policy) -> io::Result<()> {
    let attributes = SchedulingAttributes::of(policy);
    // SAFETY: the structure has the length that it states and outlives the call, which only reads it.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether a thread needs root for the policy.
pub fn needs_root(policy: &Policy) -> bool {
    match policy {
        Policy::Other { nice, .. } | Policy::Batch { nice, .. } | Policy::Ext { nice } => *nice < 0,
        Policy::Idle => false,
        Policy::Fifo { .. } | Policy::RoundRobin { .. } | Policy::Deadline { .. } => true,
    }
}

/// Sets the CPUs that the calling thread may use; `None` for the set `all`.
///
/// # Errors
/// The kernel's error, usually that none of the CPUs is online.
pub fn set_cpus(cpus: Option<&[u32]>, all: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus.unwrap_or(all) {
        set.set(*cpu as usize)?;
    }
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// The CPUs that the calling thread may use, ascending.
pub fn cpus() -> io::Result<Vec<u32>> {
    let set = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count())
        .filter(|cpu| set.is_set(*cpu).unwrap_or(false))
        .filter_map(|cpu| u32::try_from(cpu).ok())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_takes_policies_that_need_no_rights() {
        std::thread::spawn(|| {
            set_policy(&Policy::Batch { nice: 5, slice: None })
                .expect("batch and nicer is allowed");
            // SAFETY: the call takes a number and returns one.
            assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_BATCH);
            // SAFETY: as above.
            assert_eq!(unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }, 5);
            set_policy(&Policy::Idle).expect("idle is allowed");
            // SAFETY: as above.
            assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_IDLE);
        })
        .join()
        .expect("no assertion fails");
    }

    #[test]
    fn affinity_can_be_narrowed_and_widened() {
        std::thread::spawn(|| {
            let all = cpus().expect("they can be read");
            set_cpus(Some(&all[..1]), &all).expect("one of the allowed ones is allowed");
            assert_eq!(cpus().expect("they can be read"), all[..1]);
            set_cpus(None, &all).expect("all are allowed again");
            assert_eq!(cpus().expect("they can be read"), all);
        })
        .join()
        .expect("no assertion fails");
    }

    #[test]
    fn rights_that_are_needed() {
        assert!(needs_root(&Policy::Fifo { priority: 1 }));
        assert!(needs_root(&Policy::Other { nice: -1, slice: None }));
        assert!(!needs_root(&Policy::Batch { nice: 19, slice: None }));
    }
}
