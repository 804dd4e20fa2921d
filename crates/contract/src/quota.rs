//! A scheduler's figures of the quotas (`cpu.max`) that it enforces. Under sched_ext the kernel enforces none, so it has no figures.

/// Tasks in a dispatch queue whose id has this bit are held back because a control group that they are in has used its quota.
pub const THROTTLED: u64 = 1 << 61;

/// Name of the array map with a [`CpuStat`] for each control group that has a quota. Other records are zero.
pub const CPU_STAT: &str = "cpu_stat";

/// The figures of `cpu.stat` for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuStat {
    /// The kernel's id of the group.
    pub cgroup: u64,
    /// `nr_periods`.
    pub periods: u64,
    /// `nr_throttled`.
    pub throttled_periods: u64,
    /// `throttled_usec`, but in nanoseconds.
    pub throttled: u64,
}

impl CpuStat {
    /// Reads a record of the map; `None` if it has another size or is of no group.
    pub fn read(record: &[u64]) -> Option<Self> {
        let &[cgroup, periods, throttled_periods, throttled] = record else { return None };
        (cgroup != 0).then_some(Self { cgroup, periods, throttled_periods, throttled })
    }
}
