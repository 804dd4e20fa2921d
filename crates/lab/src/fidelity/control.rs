//! Negative controls: models with a known mistake, which a comparison that is worth something rejects.

use std::sync::Arc;

use fairground_simulator::Options;
use fairground_workload::{Policy, Task, Workload};

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Ticks are four times as long.
    LongTicks,
    /// Locks cost nothing, wherever they come from.
    FreeLocks,
    /// There are no control groups.
    NoGroups,
    /// All real-time tasks stay on the first CPU.
    BoundRealTime,
}

impl Control {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::LongTicks, Self::FreeLocks, Self::NoGroups, Self::BoundRealTime];

    /// The mistake, in a few words.
    pub fn name(self) -> &'static str {
        match self {
            Self::LongTicks => "ticks four times as long",
            Self::FreeLocks => "no cost of locks",
            Self::NoGroups => "no control groups",
            Self::BoundRealTime => "real-time tasks on the first CPU only",
        }
    }

    /// Whether it changes runs of a workload on so many CPUs at all.
    pub fn applies(self, workload: &Workload, cpus: u32) -> bool {
        match self {
            Self::LongTicks | Self::FreeLocks => true,
            Self::NoGroups => !workload.groups.is_empty(),
            Self::BoundRealTime => cpus > 1 && workload.tasks.iter().any(is_real_time),
        }
    }

    /// Makes the mistake.
    pub fn spoil(self, options: &mut Options) {
        match self {
            Self::LongTicks => options.hz /= 4,
            Self::FreeLocks => {
                options.cost.lock = 0;
                options.cost.lock_transfer = [0; 4];
            }
            Self::NoGroups => {
                let workload = Arc::make_mut(&mut options.workload);
                workload.groups.clear();
                for task in &mut workload.tasks {
                    task.taskgroup = None;
                    for phase in &mut task.phases {
                        phase.taskgroup = None;
                    }
                }
            }
            Self::BoundRealTime => {
                let workload = Arc::make_mut(&mut options.workload);
                for task in workload.tasks.iter_mut().filter(|task| is_real_time(task)) {
                    task.cpus = Some(vec![0]);
                    for phase in &mut task.phases {
                        phase.cpus = None;
                    }
                }
            }
        }
    }
}

fn is_real_time(task: &Task) -> bool {
    let policies = task.phases.iter().filter_map(|phase| phase.policy);
    std::iter::once(task.policy)
        .chain(policies)
        .any(|policy| matches!(policy, Policy::Fifo { .. } | Policy::RoundRobin { .. }))
}
