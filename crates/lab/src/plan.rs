//! What to run.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use fairground_contract::attributes::Attributes;
use fairground_events::Nanoseconds;
use fairground_machine::Machine;
use fairground_results::Patience;
use fairground_simulator::{CostModel, Options, Surroundings, check_deadline_tasks};
use fairground_workload::Workload;

use crate::cell::{Cell, seconds};
use crate::contender::Contender;
use crate::error::Error;
use crate::noise::Noise;
use crate::recorded::Replay;

/// The tick rate of Debian's kernels, for schedulers made for no particular rate.
pub const DEFAULT_HZ: u64 = 250;

/// Rejects tasks that could not exist in any run on this machine.
pub(crate) fn check_tasks(workload: &Workload, machine: &Machine) -> Result<(), Error> {
    let cpus = machine.cpu_count();
    for task in &workload.tasks {
        let name = &task.name;
        Attributes::parse(&task.attributes).map_err(|problem| {
            Error::Plan(format!("task {name} of {}: {problem}", workload.name))
        })?;
        for phase in 0..task.phases.len() {
            let Some(allowed) = task.cpus_in(phase) else {
                continue;
            };
            if !allowed.iter().any(|cpu| (*cpu as usize) < cpus) {
                return Err(Error::Plan(format!(
                    "{name} of {} may only use CPUs {allowed:?}, and the machine has CPUs 0 to {}; \
                     choose a larger --machine or change \"cpus\"",
                    workload.name,
                    cpus - 1
                )));
            }
        }
    }
    check_deadline_tasks(workload, machine)
        .map_err(|problem| Error::Plan(format!("{}: {problem}", workload.name)))
}

/// Rejects changes of the machine's CPUs that would change nothing. As in the kernel, the last CPU cannot go offline.
pub(crate) fn check_hotplug(
    changes: &[(Nanoseconds, usize, bool)],
    cpus: usize,
) -> Result<(), Error> {
    let mut changes = changes.to_vec();
    changes.sort_by_key(|(time, ..)| *time);
    let mut online = vec![true; cpus];
    for (time, cpu, comes) in changes {
        let state = if comes { "online" } else { "offline" };
        let before = online.get_mut(cpu).map(|now| std::mem::replace(now, comes));
        let problem = match before {
            None => format!("the machine has CPUs 0 to {}", cpus - 1),
            Some(before) if before == comes => {
                format!("it is {state} then; leave this change out or correct its time")
            }
            Some(_) if online.contains(&true) => continue,
            Some(_) => "it is the last one, and something has to run the tasks".to_owned(),
        };
        let change = if comes { "come" } else { "go" };
        let time = seconds(time);
        return Err(Error::Plan(format!(
            "CPU {cpu} cannot {change} {state} at {time}: {problem}"
        )));
    }
    Ok(())
}

/// An experiment: every workload under every scheduler, repeated.
pub struct Plan {
    /// The workloads, in the order of the result.
    pub workloads: Vec<Arc<Workload>>,
    /// What belongs to those of the workloads that are recordings, by the workload's name; others have the machine to themselves.
    pub replays: BTreeMap<String, Arc<Replay>>,
    /// The schedulers, in the order of the result.
    pub contenders: Vec<Contender>,
    /// The machine.
    pub machine: Arc<Machine>,
    /// Length of every run; `None` for each workload's own.
    pub duration: Option<Nanoseconds>,
    /// Seed of the first repetition; each further one adds 1.
    pub seed: u64,
    /// How often each workload runs under each scheduler.
    pub repeats: u32,
    /// What scheduling costs.
    pub cost: CostModel,
    /// Timer ticks per second; `None` for the rate that each scheduler was made for.
    pub hz: Option<u64>,
    /// CPUs that go offline or come online: time, CPU, online.
    pub hotplug: Vec<(Nanoseconds, usize, bool)>,
    /// How long a task may wait before its run is starved.
    pub patience: Patience,
    /// What the kernel's own threads do meanwhile. Recordings have theirs and get no others.
    pub noise: Noise,
    /// Folder for a Perfetto trace of each run.
    pub traces: Option<PathBuf>,
    /// Simulations at once; `None` for one per CPU of this machine.
    pub threads: Option<NonZero<usize>>,
}

impl Plan {
    /// Checks what the parts of the plan cannot check by themselves.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.check_workloads()?;
        let mut names = BTreeSet::new();
        for contender in &self.contenders {
            if !names.insert(contender.name()) {
                return Err(Error::Plan(format!(
                    "scheduler {} is given twice; leave one out",
                    contender.name()
                )));
            }
            contender.prepare(&self.machine)?;
        }
        Ok(())
    }

    /// Checks whether the workloads and what happens to the machine fit together, whatever the schedulers, which take time to compile.
    ///
    /// # Errors
    ///
    /// The first that does not fit.
    pub fn check_workloads(&self) -> Result<(), Error> {
        let mut names = BTreeSet::new();
        for workload in &self.workloads {
            if !names.insert(workload.name.as_str()) {
                return Err(Error::Plan(format!(
                    "two workloads are called {}; their results could not be told apart, so rename a file or leave one out",
                    workload.name
                )));
            }
        }
        let cpus = self.machine.cpu_count();
        check_hotplug(&self.hotplug, cpus)?;
        for workload in &self.workloads {
            check_tasks(workload, &self.machine)?;
        }
        Ok(())
    }

    /// All simulations, in the order of the result.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for workload in &self.workloads {
            for contender in &self.contenders {
                for repeat in 0..self.repeats {
                    cells.push(self.cell(workload, contender, repeat));
                }
            }
        }
        cells
    }

    fn cell(&self, workload: &Arc<Workload>, contender: &Contender, repeat: u32) -> Cell {
        let replay = self.replays.get(&workload.name);
        let seed = self.seed.wrapping_add(u64::from(repeat));
        let noise = if replay.is_some() {
            Noise::None
        } else {
            self.noise
        };
        let options = Options {
            duration: self.duration,
            cost: self.cost.clone(),
            seed,
            hz: self.hz_for(contender),
            hotplug: self.hotplug.clone(),
            surroundings: match replay {
                Some(replay) => replay.surroundings.clone(),
                None => Surroundings {
                    threads: noise.threads(&self.machine, seed),
                    ..Surroundings::default()
                },
            },
            ..Options::new(self.machine.clone(), workload.clone())
        };
        let trace = self.traces.as_ref().map(|folder| {
            let number = (self.repeats > 1).then_some(repeat);
            folder.join(trace_name(workload, contender, number))
        });
        Cell {
            patience: self.patience,
            repeat,
            trace,
            noise,
            replay: replay.cloned(),
            ..Cell::new(contender.clone(), options)
        }
    }
}

impl Plan {
    /// Timer ticks per second for `contender`.
    fn hz_for(&self, contender: &Contender) -> u64 {
        self.hz
            .or_else(|| contender.native_hz())
            .unwrap_or(DEFAULT_HZ)
    }
}

/// Name of the trace of a run.
fn trace_name(workload: &Workload, contender: &Contender, repeat: Option<u32>) -> String {
    let mut name = format!("{}-{}", workload.name, contender.name());
    if let Some(repeat) = repeat {
        name.push_str(&format!("-{repeat}"));
    }
    // A scheduler may be a path; its trace still goes into the folder for traces.
    name.replace('/', "_") + ".perfetto-trace"
}
