//! What is to be run.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use fairground_events::Nanoseconds;
use fairground_machine::Machine;
use fairground_simulator::{CostModel, Surroundings};
use fairground_workload::Workload;

use crate::contender::Contender;
use crate::error::Error;

/// Length of a run of a workload that neither has a duration nor an end.
pub const DEFAULT_DURATION: Nanoseconds = 10_000_000_000;

/// An experiment: every workload under every scheduler, repeated.
pub struct Plan {
    /// The workloads, in the order of the result.
    pub workloads: Vec<Arc<Workload>>,
    /// The schedulers, in the order of the result.
    pub contenders: Vec<Contender>,
    /// The machine.
    pub machine: Machine,
    /// Length of every run; `None` leaves it to each workload.
    pub duration: Option<Nanoseconds>,
    /// Seed of the first repetition; each further one adds 1.
    pub seed: u64,
    /// How often each workload runs under each scheduler.
    pub repeats: u32,
    /// What scheduling costs.
    pub cost: CostModel,
    /// Timer ticks a second.
    pub hz: u64,
    /// CPUs that come or go: time, CPU, online.
    pub hotplug: Vec<(Nanoseconds, usize, bool)>,
    /// What there is besides the workloads' tasks.
    pub surroundings: Surroundings,
    /// Folder for a Perfetto trace of each run.
    pub traces: Option<PathBuf>,
    /// Simulations at once; `None` is one for each CPU of this machine.
    pub threads: Option<NonZero<usize>>,
}

/// One simulation of a plan.
pub(crate) struct Job<'a> {
    pub(crate) workload: &'a Arc<Workload>,
    pub(crate) contender: &'a Contender,
    pub(crate) repeat: u32,
    /// Whether there are other repetitions.
    pub(crate) repeated: bool,
}

impl Plan {
    /// Checks what the parts of the plan cannot check by themselves.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let mut names = BTreeSet::new();
        for workload in &self.workloads {
            if !names.insert(workload.name.as_str()) {
                return Err(Error::Plan(format!(
                    "two workloads are called {}; their results could not be told apart, so rename a file or leave one out",
                    workload.name
                )));
            }
        }
        let mut names = BTreeSet::new();
        for contender in &self.contenders {
            if !names.insert(contender.name()) {
                return Err(Error::Plan(format!(
                    "scheduler {} is given twice; leave one out",
                    contender.name()
                )));
            }
        }
        let cpus = self.machine.cpu_count();
        for (_, cpu, _) in &self.hotplug {
            if *cpu >= cpus {
                return Err(Error::Plan(format!(
                    "CPU {cpu} cannot come or go: the machine has CPUs 0 to {}",
                    cpus - 1
                )));
            }
        }
        Ok(())
    }

    /// All simulations, in the order of the result.
    pub(crate) fn jobs(&self) -> Vec<Job<'_>> {
        let mut jobs = Vec::new();
        for workload in &self.workloads {
            for contender in &self.contenders {
                for repeat in 0..self.repeats {
                    jobs.push(Job {
                        workload,
                        contender,
                        repeat,
                        repeated: self.repeats > 1,
                    });
                }
            }
        }
        jobs
    }

    /// How long `workload` runs (`None`: until its tasks end), and what to say of it.
    pub(crate) fn duration_of(&self, workload: &Workload) -> (Option<Nanoseconds>, Option<String>) {
        match self.duration.or(workload.duration) {
            None if is_endless(workload) => (
                Some(DEFAULT_DURATION),
                Some(format!(
                    "{} has neither a duration nor an end and was run for {} s; --duration sets another length",
                    workload.name,
                    DEFAULT_DURATION / 1_000_000_000
                )),
            ),
            duration => (duration, None),
        }
    }
}

/// Whether a task of the workload goes round for ever.
fn is_endless(workload: &Workload) -> bool {
    workload
        .tasks
        .iter()
        .any(|task| task.loops.is_none() || task.phases.iter().any(|phase| phase.loops.is_none()))
}

impl Job<'_> {
    /// Name of its trace.
    pub(crate) fn trace_name(&self) -> String {
        let mut name = format!("{}-{}", self.workload.name, self.contender.name());
        if self.repeated {
            name.push_str(&format!("-{}", self.repeat));
        }
        // A scheduler may be a path; its trace lies in the folder for traces all the same.
        name.replace('/', "_") + ".perfetto-trace"
    }
}
