//! Features that a run asked for and the model does not have: none of that kind may pass in silence.

use std::fmt;

use fairground_bpf::StructOpsValue;
use fairground_events::Nanoseconds;
use fairground_linux::Release;
use fairground_machine::Machine;

use crate::constants::SCX_CPUPERF_ONE;
use crate::kernel::Kernel;
use crate::operations::Op;
use crate::rules;

/// Something that the workload, the machine or the scheduler of a run asked for and that has no effect, or another one than on a real machine.
/// As text, it describes the effect on the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// The workload puts tasks into control groups, and the scheduler does not ask for them.
    Groups {
        /// How many.
        groups: usize,
    },
    /// Control groups of the workload have quotas, and the scheduler, which learns of groups, does not ask for those.
    Quotas {
        /// How many groups have one.
        groups: usize,
    },
    /// The scheduler lowered the performance level of CPUs (`scx_bpf_cpuperf_set`).
    Performance {
        /// The lowest level that it asked for, of [`SCX_CPUPERF_ONE`].
        lowest: u32,
        /// Whether the hardware of the machine sets the frequencies.
        by_hardware: bool,
    },
    /// SMT siblings ran tasks at the same time.
    Siblings {
        /// Part of the time of all cores, in percent, at least 1.
        percent: u64,
    },
    /// Tasks of the workload have footprints, and the machine does not say how large its caches are.
    Footprints,
    /// The CPUs of the machine are of several kinds, and it is not known how fast each is.
    Speeds,
    /// The scheduler lets others be attached below it, and there are none.
    SubSchedulers,
    /// The scheduler says which task goes first under core scheduling, which the model does not have.
    CoreScheduling,
    /// The kernel is older than the one that the model follows.
    Release(Release),
}

impl fmt::Display for Shortfall {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Groups { groups } => write!(
                formatter,
                "{groups} of the workload's control groups have no effect, nor do their weights and quotas: the scheduler does not ask for them, and a kernel \
                 divides no CPU time among groups under sched_ext; its own scheduler would give each group a part according to its weight, however many \
                 tasks that has"
            ),
            Self::Quotas { groups } => write!(
                formatter,
                "{groups} of the workload's control groups have a quota (cpu.max) that has no effect: the scheduler does not ask for it, and under sched_ext a \
                 kernel enforces none"
            ),
            Self::Performance { lowest, by_hardware } => write!(
                formatter,
                "the scheduler slowed down CPUs, to {} % at the lowest (scx_bpf_cpuperf_set), which has no effect {}",
                u64::from(*lowest) * 100 / u64::from(SCX_CPUPERF_ONE),
                match by_hardware {
                    true => "on this machine, whose hardware sets the frequencies; the model does not have those and lets every CPU compute at its full speed",
                    false => "here: every CPU always computes at its full speed, so nothing takes longer and no energy is saved; a machine with frequencies, \
                              such as phone, slows down (docs/machines.md)",
                }
            ),
            // Without the number, which differs from scheduler to scheduler, so that a comparison says it once.
            Self::Siblings { .. } => formatter.write_str(
                "SMT siblings were busy at the same time, and each computed at full speed; on a real core the two together do about 1.15 times (the \
                 kernel's former smt_gain) to 1.3 times the work of one, so throughput is too high here and latencies are too low; `smt:1.15` at the end of the machine's \
                 description says it",
            ),
            Self::Footprints => formatter.write_str(
                "footprints of tasks have no effect: the machine does not say how large its caches are, so nothing is displaced from them, and a task \
                 that returns to a CPU goes on at once; [cache] in the machine's file says it (docs/machines.md)",
            ),
            Self::Speeds => formatter.write_str(
                "the machine has CPUs of several kinds and does not say how fast each is, so all compute at the same speed, and no scheduler can tell \
                 them apart; LinuxCapacity for each cpukind of an hwloc XML file says it",
            ),
            Self::SubSchedulers => formatter.write_str(
                "the scheduler lets others be attached below it (ops.sub_attach), which are not simulated: it holds all CPUs, as on a kernel while nobody \
                 attaches one, and its functions for them find none",
            ),
            Self::CoreScheduling => formatter.write_str(
                "ops.core_sched_before() is never called: core scheduling (prctl PR_SCHED_CORE) is not simulated, and tasks share cores as on a kernel \
                 where nobody has a cookie",
            ),
            Self::Release(release) => write!(
                formatter,
                "Linux {release} is simulated by its kernel functions, fields, callbacks, constants and flags{}; in everything else it is Linux {}",
                rules::differing(*release).map(|rule| format!(", {rule}")).collect::<String>(),
                Release::NEWEST
            ),
        }
    }
}

/// The features of that kind that a run has noticed so far.
pub struct Noticed {
    /// The lowest performance level that was asked for.
    pub lowest_performance: u32,
    /// For each core with siblings, whether more than one of them runs a task, and since when that has been so.
    shared: Vec<(bool, Nanoseconds)>,
    /// How long cores have been shared, summed over all of them.
    shared_time: Nanoseconds,
}

impl Noticed {
    /// Nothing, on this machine.
    pub fn new(machine: &Machine) -> Self {
        let cores = machine.cores().len();
        let has_siblings = cores < machine.cpu_count();
        Self {
            lowest_performance: SCX_CPUPERF_ONE,
            shared: vec![(false, 0); if has_siblings { cores } else { 0 }],
            shared_time: 0,
        }
    }
}

impl Kernel<'_> {
    /// Notices, once `cpu` has switched, whether its siblings run tasks at the same time.
    pub(crate) fn notice_siblings(&mut self, cpu: usize) {
        let now = self.run_queue_clock(cpu).max(self.origin);
        let is_shared = self.busy_siblings(cpu) > 1;
        let core = &mut self.noticed.shared[self.machine.cpus[cpu].core as usize];
        let (was_shared, since) = std::mem::replace(core, (is_shared, now));
        if was_shared {
            self.noticed.shared_time += now.saturating_sub(since);
        }
    }

    /// How much of the time cores were shared, in percent.
    fn shared_percent(&self) -> u64 {
        let end = self.clock.now();
        let cores = &self.noticed.shared;
        let shared = cores.iter().filter(|(is_shared, _)| *is_shared);
        let rest: u64 = shared.map(|(_, since)| end.saturating_sub(*since)).sum();
        let available = u128::from(end - self.origin) * cores.len() as u128;
        let percent = 100 * u128::from(self.noticed.shared_time + rest);
        percent.checked_div(available).unwrap_or(0) as u64
    }

    /// Whether the scheduler has a callback for a scheduler that is attached below it.
    fn takes_sub_schedulers(&self) -> bool {
        let tables = self.scheduler.object.struct_ops().iter();
        let mut members = tables.flat_map(|table| &table.members);
        members
            .any(|one| one.name == "sub_attach" && matches!(one.value, StructOpsValue::Program(_)))
    }

    /// The features that the run asked for and the model does not have.
    pub(crate) fn shortfalls(&self) -> Vec<Shortfall> {
        let groups = self.groups.below_the_root();
        let quotas = self.groups.with_quota();
        let asks = [Op::CgroupInit, Op::CgroupPrepMove, Op::CgroupMove]
            .iter()
            .any(|op| self.operations.has(*op));
        let lowest = self.noticed.lowest_performance;
        let hardware = &self.machine.hardware;
        let is_slowed = lowest < SCX_CPUPERF_ONE && hardware.clocks.is_empty();
        let by_hardware = hardware.sets_speed;
        let percent = self.shared_percent();
        let release = self.settings.release;
        let mut tasks = self.settings.workload.tasks.iter();
        let has_footprints = tasks.any(|task| task.footprint > 0);
        let found = [
            (groups > 0 && !asks).then_some(Shortfall::Groups { groups }),
            (quotas > 0 && asks && !self.operations.has(Op::CgroupSetBandwidth))
                .then_some(Shortfall::Quotas { groups: quotas }),
            is_slowed.then_some(Shortfall::Performance { lowest, by_hardware }),
            (percent > 0).then_some(Shortfall::Siblings { percent }),
            (has_footprints && hardware.cache.is_none()).then_some(Shortfall::Footprints),
            self.machine.unknown_speeds.then_some(Shortfall::Speeds),
            self.takes_sub_schedulers().then_some(Shortfall::SubSchedulers),
            self.operations.has(Op::CoreSchedBefore).then_some(Shortfall::CoreScheduling),
            (release != Release::NEWEST).then_some(Shortfall::Release(release)),
        ];
        found.into_iter().flatten().collect()
    }
}
