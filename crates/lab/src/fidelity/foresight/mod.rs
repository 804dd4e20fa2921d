//! How far to believe a recording: its replay's prediction for a scheduler, beside a kernel's behaviour under that scheduler.

mod spans;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairground_events::Nanoseconds;
use fairground_machine::Machine;
use fairground_metrics::RunMetrics;
use fairground_recording::Recording;
use fairground_results::median;
use fairground_simulator::{CostModel, Options, Surroundings};
use fairground_workload::Workload;

use crate::cell::{Cell, CellResult, run_cells};
use crate::contender::{Contender, KERNEL};
use crate::error::Error;
use crate::plan::DEFAULT_HZ;
use crate::recorded::{load_recording, recorded_metrics};

pub use spans::Span;

/// Simulations of each kind; their medians count.
const SEEDS: u64 = 5;
/// Fewer wake-ups have no 99th percentile.
const ENOUGH: u64 = 500;
/// How far a prediction of a task's CPU time may be off, as a fraction of the run: without and with mutexes.
const BOUNDS: [f64; 2] = [0.015, 0.03];

/// The figures of a run: CPU time of each task as a fraction of it, and the 99th percentile of wakeup latency.
#[derive(Clone, Debug, Default, PartialEq)]
struct Figures {
    shares: BTreeMap<String, f64>,
    latency: Option<f64>,
}

/// A prediction and the outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The workload.
    pub workload: String,
    /// The scheduler under which it was recorded.
    pub source: String,
    /// The scheduler that it is about.
    pub scheduler: String,
    /// Largest difference of a task's CPU time between replay and kernel, as a fraction of the run, and that task.
    pub error: (f64, String),
    /// The same for a simulation of the workload itself.
    pub of_truth: Option<f64>,
    /// The 99th percentile of wakeup latency: kernel, replay, workload itself.
    pub latency: [Option<f64>; 3],
    /// The largest error allowed.
    pub bound: f64,
}

/// All predictions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Foresight {
    /// Of CPU times, in the order of workloads.
    pub predictions: Vec<Prediction>,
    /// Of how long programs take, in the order of workloads.
    pub spans: Vec<Span>,
    /// Why simulations failed.
    pub failures: Vec<String>,
}

/// A recording with its place in the comparison.
struct Made {
    workload: String,
    scheduler: String,
    metrics: RunMetrics,
    recording: Recording,
}

/// Replays recordings called WORKLOAD.SCHEDULER.recording or WORKLOAD.SCHEDULER.TURN.recording: those made under the kernel's own scheduler
/// are replayed under the schedulers of the others, and the others under the kernel's own. For workloads that end, it compares how long
/// they take; for others, the CPU time of each task, also with simulations of the workloads themselves, WORKLOAD.json in `folder`.
///
/// # Errors
///
/// If a recording, a workload or a scheduler cannot be used.
pub fn foresee(paths: &[PathBuf], folder: &Path, cost: &CostModel) -> Result<Foresight, Error> {
    let mut workloads: BTreeMap<String, Vec<Made>> = BTreeMap::new();
    for path in paths {
        let made = Made::read(path)?;
        workloads.entry(made.workload.clone()).or_default().push(made);
    }
    let mut foresight = Foresight::default();
    for (workload, made) in &workloads {
        let spans: Vec<Option<Nanoseconds>> =
            made.iter().map(|one| one.metrics.makespan_ns).collect();
        match spans.into_iter().collect::<Option<Vec<_>>>() {
            Some(spans) => foresight.spans(workload, made, &spans, cost)?,
            None => foresight.shares(workload, made, folder, cost)?,
        }
    }
    if foresight.predictions.is_empty()
        && foresight.spans.is_empty()
        && foresight.failures.is_empty()
    {
        return Err(Error::Plan(format!(
            "there is nothing to predict: give a recording called WORKLOAD.{KERNEL}.recording and others of the same workload, \
             such as WORKLOAD.o1.recording"
        )));
    }
    Ok(foresight)
}

impl Made {
    fn read(path: &Path) -> Result<Self, Error> {
        let recording = Recording::read(path)?;
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let name = match recording.name.rsplit_once('.') {
            Some((name, turn)) if is_number(turn) => name,
            _ => recording.name.as_str(),
        };
        let (workload, scheduler) = name.rsplit_once('.').ok_or_else(|| {
            Error::Plan(format!(
                "{}: not called WORKLOAD.SCHEDULER.recording or WORKLOAD.SCHEDULER.TURN.recording",
                path.display()
            ))
        })?;
        Ok(Self {
            workload: workload.to_owned(),
            scheduler: scheduler.to_owned(),
            metrics: recorded_metrics(&recording),
            recording,
        })
    }
}

/// Whether a recording made under one scheduler predicts another: one of the two is the kernel's own.
fn is_asked(source: &str, scheduler: &str) -> bool {
    (source == KERNEL) != (scheduler == KERNEL)
}

/// The schedulers under which these were made, each once.
fn schedulers(made: &[Made]) -> BTreeSet<&str> {
    made.iter().map(|one| one.scheduler.as_str()).collect()
}

impl Foresight {
    /// Predicts CPU times.
    fn shares(
        &mut self,
        workload: &str,
        made: &[Made],
        folder: &Path,
        cost: &CostModel,
    ) -> Result<(), Error> {
        let path = folder.join(format!("{workload}.json"));
        let truth = path.exists().then(|| Workload::read(&path)).transpose()?.map(Arc::new);
        for source in made {
            let replayed = source.replay(cost)?;
            for scheduler in schedulers(made) {
                if !is_asked(&source.scheduler, scheduler) {
                    continue;
                }
                let targets: Vec<&Made> =
                    made.iter().filter(|one| one.scheduler == scheduler).collect();
                let contender = Contender::open(scheduler, &Default::default())?;
                let seen =
                    Figures::medians(&targets.iter().map(|one| one.figures()).collect::<Vec<_>>());
                let target = targets[0];
                let replay = Simulated {
                    length: Some(target.recording.length()),
                    ..replayed.simulated(cost)
                };
                let mut predicted = match replay.figures(&contender)? {
                    Ok(figures) => figures,
                    Err(failure) => {
                        self.failures.push(failure);
                        continue;
                    }
                };
                predicted.shares.retain(|name, _| seen.shares.contains_key(name));
                let of_truth = match &truth {
                    Some(truth) => replay.of_truth(truth, &target.recording, &contender)?,
                    None => None,
                };
                self.predictions.push(Prediction {
                    workload: workload.to_owned(),
                    source: source.scheduler.clone(),
                    scheduler: scheduler.to_owned(),
                    error: largest(&seen, &predicted),
                    latency: [
                        seen.latency,
                        predicted.latency,
                        of_truth.as_ref().and_then(|figures| figures.latency),
                    ],
                    of_truth: of_truth.map(|figures| largest(&seen, &figures).0),
                    bound: BOUNDS[usize::from(!replayed.workload.mutexes.is_empty())],
                });
            }
        }
        Ok(())
    }
}

/// A recording, ready to be replayed.
struct Replayed {
    workload: Arc<Workload>,
    surroundings: Surroundings,
    cpus: u32,
}

impl Replayed {
    /// Simulates it for as long as it takes.
    fn simulated<'a>(&'a self, cost: &'a CostModel) -> Simulated<'a> {
        Simulated {
            workload: &self.workload,
            surroundings: &self.surroundings,
            length: None,
            cpus: self.cpus,
            cost,
        }
    }
}

impl Made {
    fn replay(&self, cost: &CostModel) -> Result<Replayed, Error> {
        let (workload, replay) = load_recording(&self.recording, cost)?;
        Ok(Replayed {
            workload: Arc::new(workload),
            surroundings: replay.surroundings,
            cpus: self.recording.header.cpus,
        })
    }

    fn figures(&self) -> Figures {
        let length = self.recording.length().max(1) as f64;
        let tasks = self.metrics.tasks.iter();
        let latency = &self.metrics.wakeup_latency;
        Figures {
            shares: ordered(
                tasks.map(|task| (short(&task.name), task.cpu_time_ns as f64 / length)),
            ),
            latency: latency
                .as_ref()
                .filter(|latency| latency.samples >= ENOUGH)
                .map(|latency| latency.p99_ns as f64),
        }
    }
}

/// The largest difference, and its task, among the tasks that both have.
fn largest(kernel: &Figures, other: &Figures) -> (f64, String) {
    let differences = other.shares.iter().filter_map(|(name, share)| {
        let seen = kernel.shares.get(name)?;
        Some(((share - seen).abs(), name.clone()))
    });
    differences.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default()
}

/// Renames interchangeable tasks to their common name and a number, in the order of their shares, largest first.
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
    /// The median of each figure.
    fn medians(all: &[Self]) -> Self {
        let names: BTreeSet<&String> = all.iter().flat_map(|one| one.shares.keys()).collect();
        let shares = names.into_iter().map(|name| {
            let value = median(all.iter().filter_map(|one| one.shares.get(name).copied()));
            (name.clone(), value.unwrap_or(0.0))
        });
        Self { shares: shares.collect(), latency: median(all.iter().filter_map(|one| one.latency)) }
    }

    fn of_simulation(result: &CellResult, length: f64) -> Self {
        let charged = result.charged.iter();
        let metrics = result.run.metrics.as_ref();
        let latency = metrics.and_then(|metrics| metrics.wakeup_latency);
        Self {
            shares: ordered(charged.map(|(name, time)| (short(name), *time as f64 / length))),
            latency: latency
                .filter(|latency| latency.samples >= ENOUGH)
                .map(|latency| latency.p99_ns as f64),
        }
    }
}

/// A workload, ready to be simulated.
#[derive(Clone, Copy)]
struct Simulated<'a> {
    workload: &'a Arc<Workload>,
    surroundings: &'a Surroundings,
    /// `None`: until its tasks have ended.
    length: Option<Nanoseconds>,
    cpus: u32,
    cost: &'a CostModel,
}

impl Simulated<'_> {
    /// The results of several seeds; or why one failed.
    fn results(&self, contender: &Contender) -> Result<Result<Vec<CellResult>, String>, Error> {
        let machine = Machine::parse(&self.cpus.to_string())
            .map_err(|error| Error::Plan(error.to_string()))?;
        let machine = Arc::new(machine);
        let cells: Vec<Cell> = (0..SEEDS)
            .map(|seed| {
                let options = Options {
                    duration: self.length,
                    cost: while_recorded(self.cost.clone()),
                    seed,
                    hz: DEFAULT_HZ,
                    surroundings: self.surroundings.clone(),
                    ..Options::new(machine.clone(), self.workload.clone())
                };
                Cell::new(contender.clone(), options)
            })
            .collect();
        let results = run_cells(&cells, None, &|_, _| {}, |_, result| result)?;
        Ok(match results.iter().find_map(|result| result.failure.as_ref()) {
            Some(failure) => Err(format!(
                "{} under {} failed {}",
                failure.workload, failure.scheduler, failure.message
            )),
            None => Ok(results),
        })
    }

    /// Medians of several seeds.
    fn figures(&self, contender: &Contender) -> Result<Result<Figures, String>, Error> {
        let length = self.length.unwrap_or(0).max(1) as f64;
        let figures = |results: Vec<CellResult>| {
            let all = results.iter();
            let all = all.map(|result| Figures::of_simulation(result, length));
            Figures::medians(&all.collect::<Vec<_>>())
        };
        Ok(self.results(contender)?.map(figures))
    }

    /// The figures of the workload itself over the time of a recording of it, in which it begins when the recorded tasks do; `None` if it
    /// fails.
    fn of_truth(
        self,
        truth: &Arc<Workload>,
        recording: &Recording,
        contender: &Contender,
    ) -> Result<Option<Figures>, Error> {
        let begin = truth.first_tasks().count() as u64;
        let begin = begin.min(1) * recording.last_birth();
        let length = recording.length().saturating_sub(begin);
        let simulated = Simulated {
            workload: truth,
            surroundings: &Surroundings::default(),
            length: Some(length),
            ..self
        };
        let part = length as f64 / recording.length().max(1) as f64;
        Ok(simulated.figures(contender)?.ok().map(|mut figures| {
            figures.shares.values_mut().for_each(|share| *share *= part);
            figures
        }))
    }
}

/// The costs while `fairground record` is running, as it was when the recordings to compare with were made.
fn while_recorded(mut cost: CostModel) -> CostModel {
    cost.wakeup += cost.capture_wakeup;
    cost.wakeup_remote += cost.capture_wakeup;
    cost.context_switch += cost.capture_switch;
    cost
}

impl Foresight {
    /// Whether all predictions are within their bounds.
    pub fn holds(&self) -> bool {
        let near = |one: &Prediction| one.error.0 <= one.bound;
        self.failures.is_empty()
            && self.predictions.iter().all(near)
            && self.spans.iter().all(Span::holds)
            && self.orders().iter().all(|order| order.wrong.is_empty())
    }

    /// A line for each prediction, and closing lines.
    pub fn table(&self) -> String {
        let mut text = String::new();
        if !self.predictions.is_empty() {
            self.table_of_shares(&mut text);
        }
        if !self.spans.is_empty() {
            self.table_of_spans(&mut text);
        }
        for failure in &self.failures {
            let _ = writeln!(text, "out of bounds: {failure}");
        }
        text
    }

    fn table_of_shares(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "{:16} {:10} {:10} {:>9} {:10} {:>9}   {:>10} {:>10} {:>10}",
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
                one.of_truth.map_or("-".to_owned(), |error| format!("{:.2}", 100.0 * error)),
                if one.error.0 > one.bound { "   out of bounds" } else { "" }
            );
        }
        let near = self.predictions.iter().filter(|one| one.error.0 <= one.bound);
        let _ = writeln!(
            text,
            "\nLargest difference of a task's CPU time in % of the run, and 99th percentiles of wakeup latency in ms.\n\
             {} of {} predictions are within {} %, {} % with mutexes",
            near.count(),
            self.predictions.len(),
            100.0 * BOUNDS[0],
            100.0 * BOUNDS[1]
        );
    }
}
