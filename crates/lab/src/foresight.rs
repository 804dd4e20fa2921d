//! How far to believe a recording: what its replay says of a scheduler, beside what a kernel did under that scheduler.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairground_events::Nanoseconds;
use fairground_machine::Machine;
use fairground_recording::Recording;
use fairground_simulator::{CostModel, Options, Surroundings};
use fairground_workload::Workload;

use crate::cell::{Cell, CellResult, run_cells};
use crate::contender::Contender;
use crate::error::Error;
use crate::plan::DEFAULT_HZ;
use crate::recorded::{load_recording, recorded_metrics};

/// Name of the kernel's own scheduler in the names of recordings.
const KERNEL: &str = "kernel";
/// The scheduler of the catalogue that is most like it.
const STANDS_FOR_KERNEL: &str = "eevdf";
/// Simulations of each kind, of which the medians count.
const SEEDS: u64 = 5;
/// Fewer wake-ups have no 99th percentile.
const ENOUGH: u64 = 500;
/// CPU time of a task: how far a prediction may be off, as a fraction of the run; with mutexes.
const BOUNDS: [f64; 2] = [0.015, 0.03];

/// What is known of a run: CPU time of each task as a fraction of it, and the 99th percentile of wakeup latency.
#[derive(Clone, Debug, Default, PartialEq)]
struct Figures {
    shares: BTreeMap<String, f64>,
    latency: Option<f64>,
}

/// A prediction beside what happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The workload.
    pub workload: String,
    /// The scheduler under which it was recorded.
    pub source: String,
    /// The scheduler of which it says something.
    pub scheduler: String,
    /// Largest difference of a task's CPU time between replay and kernel, as a fraction of the run, and the task.
    pub error: (f64, String),
    /// The same for a simulation of the workload itself.
    pub of_truth: Option<f64>,
    /// The 99th percentile of wakeup latency: kernel, replay, workload itself.
    pub latency: [Option<f64>; 3],
    /// How far it may be off.
    pub bound: f64,
}

/// All predictions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Foresight {
    /// In the order of workloads.
    pub predictions: Vec<Prediction>,
    /// Simulations that failed, in words.
    pub failures: Vec<String>,
}

/// A recording with its place in the comparison.
struct Made {
    workload: String,
    scheduler: String,
    recording: Recording,
}

/// Replays those of the recordings, called WORKLOAD.SCHEDULER.recording, that were made under the kernel's own scheduler under the
/// schedulers of all others, and the others under what stands for the kernel's own; and the workloads, WORKLOAD.json in `folder`, as well.
///
/// # Errors
///
/// If a recording, a workload or a scheduler cannot be used.
pub fn foresee(paths: &[PathBuf], folder: &Path, cost: &CostModel) -> Result<Foresight, Error> {
    let made = paths
        .iter()
        .map(|path| read(path))
        .collect::<Result<Vec<_>, _>>()?;
    // What is compared was recorded, too, and has the recorder's part in it.
    let without_recorder = CostModel {
        record_wakeup: 0,
        record_switch: 0,
        ..cost.clone()
    };
    let mut foresight = Foresight::default();
    for source in &made {
        let (workload, surroundings) = load_recording(&source.recording, &without_recorder)?;
        let workload = Arc::new(workload);
        let path = folder.join(format!("{}.json", source.workload));
        let truth = path
            .exists()
            .then(|| Workload::read(&path))
            .transpose()?
            .map(Arc::new);
        let locks = !workload.mutexes.is_empty();
        for target in &made {
            let kernels = [source, target].map(|one| one.scheduler == KERNEL);
            if target.workload != source.workload || kernels[0] == kernels[1] {
                continue;
            }
            let scheduler = if kernels[1] {
                STANDS_FOR_KERNEL
            } else {
                &target.scheduler
            };
            let contender = Contender::open(scheduler, &Default::default())?;
            let replay = Simulated {
                workload: &workload,
                surroundings: &surroundings,
                length: target.recording.length(),
                cpus: target.recording.header.cpus,
                cost,
            };
            let seen = Figures::of(&target.recording);
            let mut predicted = match replay.figures(&contender)? {
                Ok(figures) => figures,
                Err(failure) => {
                    foresight.failures.push(failure);
                    continue;
                }
            };
            predicted
                .shares
                .retain(|name, _| seen.shares.contains_key(name));
            let mut of_truth = None;
            let mut latency = [seen.latency, predicted.latency, None];
            if let Some(truth) = &truth {
                // Its tasks begin where those of the recording do.
                let begin = truth.first_tasks().count() as u64;
                let begin = begin.min(1) * target.recording.last_birth();
                let simulated = Simulated {
                    workload: truth,
                    surroundings: &Surroundings::default(),
                    length: target.recording.length().saturating_sub(begin),
                    ..replay
                };
                if let Ok(mut figures) = simulated.figures(&contender)? {
                    let part = simulated.length as f64 / target.recording.length() as f64;
                    figures.shares.values_mut().for_each(|share| *share *= part);
                    latency[2] = figures.latency;
                    of_truth = Some(largest(&seen, &figures).0);
                }
            }
            foresight.predictions.push(Prediction {
                workload: source.workload.clone(),
                source: source.scheduler.clone(),
                scheduler: target.scheduler.clone(),
                error: largest(&seen, &predicted),
                of_truth,
                latency,
                bound: BOUNDS[usize::from(locks)],
            });
        }
    }
    if foresight.predictions.is_empty() && foresight.failures.is_empty() {
        return Err(Error::Plan(format!(
            "there is nothing to predict: it takes a recording called WORKLOAD.{KERNEL}.recording and others of the same workload, \
             such as WORKLOAD.o1.recording"
        )));
    }
    Ok(foresight)
}

fn read(path: &Path) -> Result<Made, Error> {
    let recording = Recording::read(path)?;
    let (workload, scheduler) = recording.name.rsplit_once('.').ok_or_else(|| {
        Error::Plan(format!(
            "{}: not called WORKLOAD.SCHEDULER.recording",
            path.display()
        ))
    })?;
    Ok(Made {
        workload: workload.to_owned(),
        scheduler: scheduler.to_owned(),
        recording: recording.clone(),
    })
}

/// The task that differs most, of those that both have.
fn largest(kernel: &Figures, other: &Figures) -> (f64, String) {
    let differences = other.shares.iter().filter_map(|(name, share)| {
        let seen = kernel.shares.get(name)?;
        Some(((share - seen).abs(), name.clone()))
    });
    differences
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap_or_default()
}

/// Names of tasks that are interchangeable are replaced by that of all of them and a number, in the order of what they got, most first.
fn ordered(tasks: impl Iterator<Item = (String, f64)>) -> BTreeMap<String, f64> {
    let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, share) in tasks {
        let group = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '#' || c == '-');
        groups.entry(group.to_owned()).or_default().push(share);
    }
    let mut shares = BTreeMap::new();
    for (group, mut values) in groups {
        values.sort_by(|a, b| b.total_cmp(a));
        for (place, value) in values.into_iter().enumerate() {
            shares.insert(format!("{group}-{place}"), value);
        }
    }
    shares
}

/// The kernel keeps 15 bytes of a name.
fn short(name: &str) -> String {
    name.chars().take(15).collect()
}

impl Figures {
    fn of(recording: &Recording) -> Self {
        let metrics = recorded_metrics(recording);
        let length = recording.length().max(1) as f64;
        let tasks = metrics.tasks.iter();
        Self {
            shares: ordered(
                tasks.map(|task| (short(&task.name), task.cpu_time_ns as f64 / length)),
            ),
            latency: metrics
                .wakeup_latency
                .filter(|latency| latency.samples >= ENOUGH)
                .map(|latency| latency.p99_ns as f64),
        }
    }

    fn of_simulation(result: &CellResult, length: f64) -> Self {
        let charged = result.charged.iter();
        let latency = result
            .run
            .as_ref()
            .and_then(|run| run.metrics.wakeup_latency);
        Self {
            shares: ordered(charged.map(|(name, time)| (short(name), *time as f64 / length))),
            latency: latency
                .filter(|latency| latency.samples >= ENOUGH)
                .map(|latency| latency.p99_ns as f64),
        }
    }
}

/// A workload as it is simulated.
#[derive(Clone, Copy)]
struct Simulated<'a> {
    workload: &'a Arc<Workload>,
    surroundings: &'a Surroundings,
    length: Nanoseconds,
    cpus: u32,
    cost: &'a CostModel,
}

impl Simulated<'_> {
    /// Medians of several seeds; why it failed, if it did.
    fn figures(&self, contender: &Contender) -> Result<Result<Figures, String>, Error> {
        let machine = Machine::parse(&self.cpus.to_string())
            .map_err(|error| Error::Plan(error.to_string()))?;
        let machine = Arc::new(machine);
        let cells: Vec<Cell> = (0..SEEDS)
            .map(|seed| {
                let options = Options {
                    duration: Some(self.length),
                    cost: self.cost.clone(),
                    seed,
                    hz: DEFAULT_HZ,
                    surroundings: self.surroundings.clone(),
                    ..Options::new(machine.clone(), self.workload.clone())
                };
                Cell::new(contender.clone(), options)
            })
            .collect();
        let results = run_cells(&cells, None, &|_, _| {}, |_, result| result)?;
        if let Some(failure) = results.iter().find_map(|result| result.failure.as_ref()) {
            return Ok(Err(format!(
                "{} under {} failed {}",
                failure.workload, failure.scheduler, failure.message
            )));
        }
        let length = self.length.max(1) as f64;
        let all: Vec<Figures> = results
            .iter()
            .map(|result| Figures::of_simulation(result, length))
            .collect();
        let names = all[0].shares.keys().cloned();
        let shares = names.map(|name| {
            let value = median(all.iter().filter_map(|one| one.shares.get(&name).copied()));
            (name, value.unwrap_or(0.0))
        });
        Ok(Ok(Figures {
            shares: shares.collect(),
            latency: median(all.iter().filter_map(|one| one.latency)),
        }))
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

impl Foresight {
    /// Whether all predictions are within their bounds.
    pub fn holds(&self) -> bool {
        let near = |one: &Prediction| one.error.0 <= one.bound;
        self.failures.is_empty() && self.predictions.iter().all(near)
    }

    /// A line for each prediction, and a closing one.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{:16} {:10} {:10} {:>9} {:10} {:>9}   {:>10} {:>10} {:>10}\n",
            "workload",
            "from",
            "scheduler",
            "replay",
            "of task",
            "true file",
            "p99 kernel",
            "replay",
            "true file"
        );
        let latency = |value: Option<f64>| match value {
            Some(value) => format!("{:.2}", value / 1e6),
            None => "-".to_owned(),
        };
        for one in &self.predictions {
            let [kernel, replay, truth] = one.latency.map(latency);
            let _ = writeln!(
                text,
                "{:16} {:10} {:10} {:>9.2} {:10} {:>9}   {kernel:>10} {replay:>10} {truth:>10}{}",
                one.workload,
                one.source,
                one.scheduler,
                100.0 * one.error.0,
                one.error.1,
                one.of_truth
                    .map_or("-".to_owned(), |error| format!("{:.2}", 100.0 * error)),
                if one.error.0 > one.bound {
                    "   out of bounds"
                } else {
                    ""
                }
            );
        }
        for failure in &self.failures {
            let _ = writeln!(text, "out of bounds: {failure}");
        }
        let near = self
            .predictions
            .iter()
            .filter(|one| one.error.0 <= one.bound);
        let _ = writeln!(
            text,
            "\nLargest difference of a task's CPU time in % of the run, and 99th percentiles of wakeup latency in ms.\n\
             {} of {} predictions are within {} %, {} % with mutexes",
            near.count(),
            self.predictions.len(),
            100.0 * BOUNDS[0],
            100.0 * BOUNDS[1]
        );
        text
    }
}
