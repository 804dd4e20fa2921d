//! Control groups.

use std::fmt;

use crate::Nanoseconds;

/// Number of a control group within one run, in order of creation without gaps; the root has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// The name, place and settings of a control group. Sent before any task is said to be in it, and whenever any of it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupInfo {
    /// Its path from the root group, such as `/a/x`.
    pub path: String,
    /// The group that it is in, described before; `None` for the root.
    pub parent: Option<GroupId>,
    /// Its part relative to its siblings and to the tasks beside it, on the scale where a task of nice 0 and a group of `cpu.weight` 100 have
    /// 1024 (`task_group.shares`).
    pub shares: u32,
    /// How its part grows with the machine.
    pub mode: CgroupMode,
    /// How much CPU time it may use; `None` for any.
    pub quota: Option<Quota>,
}

/// How much CPU time a control group may use (`cpu.max`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// CPU time per period, in nanoseconds.
    pub runtime: Nanoseconds,
    /// Length of a period, in nanoseconds, more than 0.
    pub period: Nanoseconds,
    /// How much of unused quota may be used later, in nanoseconds.
    pub burst: Nanoseconds,
}

impl Quota {
    /// The CPUs that the group may use on average.
    pub fn cpus(self) -> f64 {
        self.runtime as f64 / self.period as f64
    }
}

/// Use of a group's quota since the group was made: the figures of `cpu.stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaUse {
    /// Periods that have ended while the group used CPU time (`nr_periods`).
    pub periods: u64,
    /// Those in which it was throttled (`nr_throttled`).
    pub throttled_periods: u64,
    /// For how long, summed over CPUs, in nanoseconds (`throttled_usec`).
    pub throttled: Nanoseconds,
}

/// How the shares of control groups grow with CPUs and tasks: `cgroup_mode` of Linux 7.3, for all groups of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CgroupMode {
    /// On each CPU, a group has all its shares.
    Up,
    /// The CPUs divide its shares among them.
    Smp,
    /// They divide its shares times its runnable tasks, as many as there are CPUs at most. The kernel's default.
    #[default]
    Concur,
    /// They divide its shares times the number of CPUs, and none gets more than a task of nice -20 has.
    Max,
    /// They divide its shares times its runnable tasks.
    Tasks,
}

impl CgroupMode {
    /// All modes, in the kernel's order.
    pub const ALL: [Self; 5] = [Self::Up, Self::Smp, Self::Concur, Self::Max, Self::Tasks];

    /// The kernel's name of the mode.
    pub fn name(self) -> &'static str {
        ["up", "smp", "concur", "max", "tasks"][self as usize]
    }

    /// The mode with this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

impl fmt::Display for CgroupMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
