//! The same workloads on a kernel and in the simulator, side by side.
//!
//! [`confront`] simulates the runs that [`Recording`]s describe and judges how far simulator and kernel are apart. If there are several
//! recordings of a run, the median counts, on both sides. Instances of a task are interchangeable: they are compared in the order of their
//! CPU time, most first.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use fairground_events::Nanoseconds;
use fairground_machine::Machine;
use fairground_metrics::{Distribution, GroupMetrics, RunMetrics};
use fairground_results::{Turn as TurnRecord, median};
use fairground_simulator::{CostModel, Creator, Options, Surroundings, Thread, Turn};
use fairground_workload::{Policy, Workload};

use super::control::Control;
use super::recording::{Player, Recording};
use super::verdict::{self, Figure, Verdict};
use crate::cell::{Cell, Failure, run_cells};
use crate::contender::{Contender, KERNEL};
use crate::error::Error;

/// Latencies of two schedulers that differ by more than this fraction of the smaller one must be in the same order.
const DISTINCT: f64 = 0.25;
/// Differences in latency up to this, in nanoseconds, come from parts that the simulator lacks: the kernel's own threads, interrupts, and an
/// emulated CPU that takes 2 ns for every instruction.
const INDISTINCT: f64 = 1e6;
/// With fewer samples than this, the 99th percentile does not rank schedulers: it would be one of the few long waits of the first moments.
const LEAST_SAMPLES: u64 = 500;
/// A task with fewer samples never woke up: it was only created and started.
const LEAST_SAMPLES_OF_TASK: u64 = 3;
/// Lengths of runs count as equal if they round to the same multiple of this: a kernel ends a run a little late, and on a busy host even later.
const LENGTH_GRAIN: Nanoseconds = 500_000_000;
/// The kernel's timer ticks per second.
const HZ: u64 = 250;
/// When the tasks of each simulation start, in sevenths of a tick after one. Schedulers that charge whole ticks are sensitive to this; with
/// sevenths, the periods of the workloads do not coincide with ticks. All sevenths occur, spread over 20 ms, after which the ticks of the
/// kernel and of schedulers with 100 ticks per second coincide again. If the recording says when its run began, all simulations begin then,
/// and only the time before differs.
const STARTS: [u64; 7] = [1, 6, 11, 16, 21, 26, 31];

/// Kernel and simulator side by side.
pub struct Agreement {
    /// One comparison per workload, number of CPUs, scheduler and player, in this order.
    pub runs: Vec<Pair>,
    /// Schedulers that the simulator orders differently from the kernel.
    pub disorders: Vec<Disorder>,
    /// Simulations that failed.
    pub failures: Vec<Failure>,
    /// The figures that the mistakes of the negative controls change, if they were asked for.
    pub controls: Vec<(Control, Rejection)>,
}

/// Whether a comparison rejects a model with a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// So many figures that agree do not with the mistake.
    Rejected(usize),
    /// All that agree still do: these recordings would not show such a mistake.
    Missed,
    /// None of the runs has the feature that it is about.
    NotApplicable,
}

/// A run on the kernel and in the simulator.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The parts of the run.
    pub key: Key,
    /// Length of the simulated run.
    pub duration_ns: Nanoseconds,
    /// Number of recordings on the kernel.
    pub recordings: usize,
    /// 99th percentile of the wakeup latency of all tasks, in nanoseconds; `None` with too few wakeups.
    pub latency: Both<Option<f64>>,
    /// The shortest and the longest one of the kernel's recordings.
    pub latency_spread: Option<[f64; 2]>,
    /// CPU time of all tasks of the recording that has most, as a fraction of the time of all CPUs.
    pub load: f64,
    /// Per task, in the order of the file.
    pub tasks: Vec<TaskPair>,
    /// Of the control groups, in the order of the file.
    pub groups: Vec<GroupPair>,
}

/// The parts of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// CPUs of the machine.
    pub cpus: u32,
    /// Name of the workload.
    pub workload: String,
    /// Id of the scheduler, or `kernel` for the kernel's own.
    pub scheduler: String,
    /// Its tunables that were not at their defaults.
    pub tunables: BTreeMap<String, String>,
    /// The player of the workload on the kernel.
    pub player: Player,
}

impl Key {
    /// The scheduler and its tunables that were set.
    pub fn scheduler_with_tunables(&self) -> String {
        let tunables = self.tunables.iter();
        let tunables = tunables.map(|(name, value)| format!(" {name}={value}"));
        std::iter::once(self.scheduler.clone()).chain(tunables).collect()
    }
}

/// A task's figures on the kernel and in the simulator.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskPair {
    /// Name, with an instance suffix if there are several.
    pub name: String,
    /// CPU time as a fraction of the run's length.
    pub cpu_time: Figure,
    /// 99th percentile of the wakeup latency in nanoseconds; `None` if it only started.
    pub latency: Both<Option<f64>>,
}

/// A kind of figure of a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupMeasure {
    /// CPU time of its tasks, as a fraction of the run's length.
    CpuTime,
    /// Periods of its quota.
    Periods,
    /// Those in which it was throttled.
    Throttled,
}

impl GroupMeasure {
    /// Its name, in a few words.
    pub fn name(self) -> &'static str {
        match self {
            Self::CpuTime => "CPU time",
            Self::Periods => "periods",
            Self::Throttled => "throttled periods",
        }
    }
}

/// A figure of a control group on the kernel and in the simulator.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupPair {
    /// The group's path.
    pub path: String,
    /// The kind of the figure.
    pub measure: GroupMeasure,
    /// Its values.
    pub figure: Figure,
}

/// A figure from the kernel and from the simulator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Both<T> {
    /// On the kernel.
    pub kernel: T,
    /// In the simulator.
    pub simulator: T,
}

/// Two schedulers, of which the kernel favours one and the simulator the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Disorder {
    /// Name of the workload.
    pub workload: String,
    /// The scheduler with the shorter latency on the kernel.
    pub shorter: String,
    /// The one with the longer latency.
    pub longer: String,
}

impl Agreement {
    /// Whether the worlds agree: no figure and no order is known to differ, but for a part of the percentiles, and every control is rejected.
    pub fn holds(&self) -> bool {
        let latencies = self.count(Pair::latency_verdict);
        let judged = latencies[0] + latencies[1];
        self.failures.is_empty()
            && self.disorders.is_empty()
            && self.cpu_times()[1] == 0
            && self.group_figures()[1] == 0
            && latencies[0] as f64 >= verdict::LATENCIES_THAT_AGREE * judged as f64
            && !self.controls.iter().any(|(_, one)| *one == Rejection::Missed)
    }

    /// How many CPU times have each of the verdicts, in the order of [`Verdict::ALL`].
    pub fn cpu_times(&self) -> [usize; 4] {
        let verdicts = { self.runs.iter() }
            .flat_map(|run| run.tasks.iter().map(|task| run.cpu_time_verdict(task)));
        Verdict::count(verdicts)
    }

    /// How many figures of control groups have each of them.
    pub fn group_figures(&self) -> [usize; 4] {
        let verdicts = { self.runs.iter() }
            .flat_map(|run| run.groups.iter().map(|group| run.group_verdict(group)));
        Verdict::count(verdicts)
    }

    /// How many runs have each of the verdicts.
    pub fn count(&self, judge: impl Fn(&Pair) -> Option<Verdict>) -> [usize; 4] {
        Verdict::count(self.runs.iter().filter_map(judge))
    }

    /// How many figures agree here and do not with a mistake.
    fn lost_to(&self, spoilt: &Self) -> usize {
        let key = |run: &Pair| (run.key.clone(), run.tasks.len());
        let mut lost = 0;
        for run in &self.runs {
            // A run that fails with the mistake is lost as a whole.
            let Some(other) = spoilt.runs.iter().find(|one| key(one) == key(run)) else {
                lost += 1;
                continue;
            };
            let is_lost = |before, after| before == Verdict::Agree && after == Verdict::Disagree;
            let tasks = run.tasks.iter().zip(&other.tasks);
            lost += tasks
                .filter(|(before, after)| {
                    is_lost(run.cpu_time_verdict(before), other.cpu_time_verdict(after))
                })
                .count();
            let groups = run.groups.iter().zip(&other.groups);
            lost += groups
                .filter(|(before, after)| {
                    is_lost(run.group_verdict(before), other.group_verdict(after))
                })
                .count();
            let latencies = run.latency_verdict().zip(other.latency_verdict());
            lost += usize::from(latencies.is_some_and(|(before, after)| is_lost(before, after)));
        }
        lost
    }
}

impl Pair {
    /// Tolerance for CPU times, as a fraction of the run's length.
    pub fn tolerance(&self) -> f64 {
        match self.key.cpus {
            1 => verdict::CPU_TIME_ONE_CPU,
            _ => verdict::CPU_TIME_SEVERAL_CPUS,
        }
    }

    /// Whether its CPU times are no measurement: tasks cannot have more than there is, so the kernel charged them for time in which the host ran
    /// something else.
    fn is_void(&self) -> bool {
        self.load > 1.0 + self.tolerance()
    }

    /// Judges the CPU time of one of its tasks.
    pub fn cpu_time_verdict(&self, task: &TaskPair) -> Verdict {
        match self.is_void() {
            true => Verdict::Void,
            false => task.cpu_time.judge(self.tolerance()),
        }
    }

    /// Judges a figure of one of its groups.
    pub fn group_verdict(&self, group: &GroupPair) -> Verdict {
        let tolerance = match group.measure {
            GroupMeasure::CpuTime if self.key.cpus == 1 => verdict::CPU_TIME_OF_GROUP,
            GroupMeasure::CpuTime => self.tolerance(),
            GroupMeasure::Periods | GroupMeasure::Throttled => {
                verdict::PERIODS * group.figure.kernel
            }
        };
        match self.is_void() {
            true => Verdict::Void,
            false => group.figure.judge(tolerance),
        }
    }

    /// Judges the 99th percentile of the wakeup latency of all tasks; `None` where it is not looked at: without records of the kernel's, with
    /// too few wakeups in both worlds, and on several CPUs.
    pub fn latency_verdict(&self) -> Option<Verdict> {
        if self.key.cpus > 1 {
            return None;
        }
        match (self.latency.kernel, self.latency.simulator) {
            (Some(kernel), Some(simulator)) => {
                let spread = self.latency_spread.unwrap_or([kernel; 2]);
                let figure = Figure { kernel, spread, simulator };
                Some(figure.judge(verdict::LATENCY * kernel))
            }
            (None, None) => None,
            _ => Some(Verdict::Void),
        }
    }
}

/// A task's figures in a run.
#[derive(Clone, Debug)]
struct TaskFigures {
    name: String,
    cpu_time: f64,
    latency: Option<f64>,
}

/// A figure of a control group in a run.
#[derive(Clone, Debug)]
struct GroupFigure {
    path: String,
    measure: GroupMeasure,
    value: f64,
}

impl GroupFigure {
    /// The figures of all groups of a run that is so long.
    fn of(groups: &[GroupMetrics], duration: Nanoseconds) -> Vec<Self> {
        let of_group = |group: &GroupMetrics| {
            let share = group.cpu_time_ns as f64 / duration.max(1) as f64;
            let periods = group.nr_periods.map(|number| number as f64);
            let throttled = group.nr_throttled.map(|number| number as f64);
            let values = [
                (GroupMeasure::CpuTime, Some(share)),
                (GroupMeasure::Periods, periods),
                (GroupMeasure::Throttled, throttled),
            ];
            values.map(|(measure, value)| {
                Some(Self { path: group.path.clone(), measure, value: value? })
            })
        };
        groups.iter().flat_map(of_group).flatten().collect()
    }

    /// Its value in another run.
    fn within(&self, run: &Figures) -> Option<f64> {
        let mut groups = run.groups.iter();
        let same = groups.find(|one| one.path == self.path && one.measure == self.measure);
        same.map(|one| one.value)
    }
}

/// The figures of a run.
#[derive(Clone, Debug)]
struct Figures {
    latency: Option<f64>,
    tasks: Vec<TaskFigures>,
    groups: Vec<GroupFigure>,
}

impl Figures {
    fn of_recording(recording: &Recording) -> Self {
        let metrics = recording.metrics.as_ref();
        Self {
            latency: metrics
                .and_then(|metrics| p99(metrics.wakeup_latency.as_ref(), LEAST_SAMPLES)),
            tasks: recording
                .tasks
                .iter()
                .map(|task| TaskFigures {
                    name: task.name.clone(),
                    cpu_time: task.cpu_time_ns as f64 / recording.duration_ns as f64,
                    latency: metrics
                        .and_then(|metrics| metrics.tasks.iter().find(|one| one.name == task.name))
                        .and_then(|one| p99(one.wakeup_latency.as_ref(), LEAST_SAMPLES_OF_TASK)),
                })
                .collect(),
            groups: metrics.map_or(Vec::new(), |metrics| {
                GroupFigure::of(&metrics.groups, recording.duration_ns)
            }),
        }
    }

    /// The CPU time charged to each task in a simulation, and to the groups in which they are, and their latencies.
    fn of_simulation(
        metrics: &RunMetrics,
        charged: &[(String, Nanoseconds)],
        workload: &Workload,
    ) -> Self {
        let charged = |name: &str| {
            let own = charged.iter().find(|(task, _)| task == name);
            own.map_or(0, |(_, time)| *time)
        };
        Self {
            latency: p99(metrics.wakeup_latency.as_ref(), LEAST_SAMPLES),
            tasks: metrics
                .tasks
                .iter()
                .map(|task| TaskFigures {
                    name: task.name.clone(),
                    cpu_time: charged(&task.name) as f64 / metrics.duration_ns.max(1) as f64,
                    latency: p99(task.wakeup_latency.as_ref(), LEAST_SAMPLES_OF_TASK),
                })
                .collect(),
            groups: GroupFigure::of(
                &charged_groups(metrics, &charged, workload),
                metrics.duration_ns,
            ),
        }
    }

    /// Sorts the instances of each task by CPU time, most first, and renames them in this order.
    fn order_instances(mut self, workload: &Workload) -> Self {
        for task in workload.tasks.iter().filter(|task| task.instances > 1) {
            let names: Vec<String> =
                (0..task.instances).map(|instance| task.instance_name(instance)).collect();
            let places: Vec<usize> = (0..self.tasks.len())
                .filter(|&place| names.contains(&self.tasks[place].name))
                .collect();
            let mut instances: Vec<TaskFigures> =
                places.iter().map(|&place| self.tasks[place].clone()).collect();
            instances.sort_by(|a, b| b.cpu_time.total_cmp(&a.cpu_time));
            for ((place, name), figures) in places.into_iter().zip(names).zip(instances) {
                self.tasks[place] = TaskFigures { name, ..figures };
            }
        }
        self
    }
}

/// The groups of a simulation with the time that they were charged, as a kernel counts it: its events leave out the overhead on a task's CPU.
fn charged_groups(
    metrics: &RunMetrics,
    charged: &impl Fn(&str) -> Nanoseconds,
    workload: &Workload,
) -> Vec<GroupMetrics> {
    let path_of = |name: &str| {
        let mut tasks = workload.tasks.iter();
        let task = tasks
            .find(|task| (0..task.instances).any(|instance| task.instance_name(instance) == name));
        task.and_then(|task| task.taskgroup.as_deref())
    };
    let overhead = |group: &str| -> Nanoseconds {
        let tasks = metrics.tasks.iter();
        let members = tasks.filter(|task| {
            path_of(&task.name).is_some_and(|path| Path::new(path).starts_with(group))
        });
        members.map(|task| charged(&task.name).saturating_sub(task.cpu_time_ns)).sum()
    };
    let groups = metrics.groups.iter();
    groups
        .map(|group| GroupMetrics {
            cpu_time_ns: group.cpu_time_ns + overhead(&group.path),
            ..group.clone()
        })
        .collect()
}

/// The 99th percentile, if there are enough samples.
fn p99(latency: Option<&Distribution>, least: u64) -> Option<f64> {
    latency.filter(|latency| latency.samples >= least).map(|latency| latency.p99_ns as f64)
}

/// The medians over several runs, with the tasks and groups in the order of the first run.
fn medians(runs: &[Figures]) -> Figures {
    let of_task = |name: &str| {
        runs.iter()
            .filter_map(|run| run.tasks.iter().find(|task| task.name == name))
            .cloned()
            .collect::<Vec<_>>()
    };
    Figures {
        latency: median(runs.iter().filter_map(|run| run.latency)),
        tasks: runs
            .first()
            .into_iter()
            .flat_map(|run| &run.tasks)
            .map(|task| {
                let all = of_task(&task.name);
                TaskFigures {
                    name: task.name.clone(),
                    cpu_time: median(all.iter().map(|task| task.cpu_time)).unwrap_or(0.0),
                    latency: median(all.iter().filter_map(|task| task.latency)),
                }
            })
            .collect(),
        groups: runs
            .first()
            .into_iter()
            .flat_map(|run| &run.groups)
            .map(|group| GroupFigure {
                value: median(runs.iter().filter_map(|run| group.within(run)))
                    .unwrap_or(group.value),
                ..group.clone()
            })
            .collect(),
    }
}

/// Scheduling costs of the recordings' machines, by number of CPUs; the default model for those that are absent.
pub type Costs = BTreeMap<u32, CostModel>;

/// Simulates the runs that the recordings describe, with the workload files from a folder, and, with `controls`, once more with each of the
/// mistakes. Schedulers are those of the catalogue, and the user's `own`, which the recordings call by their names in the kernel.
///
/// # Errors
///
/// If a workload or scheduler cannot be read, or recordings of a run have different lengths. A failed simulation is not an error: see [`Agreement::failures`].
pub fn confront(
    recordings: &[Recording],
    folder: &Path,
    costs: &Costs,
    own: &[Contender],
    controls: bool,
) -> Result<Agreement, Error> {
    let subjects = Subjects::of(recordings, folder, costs, own)?;
    let mut agreement = subjects.simulate(None)?;
    if controls {
        for control in Control::ALL {
            let rejection = subjects.rejection(control, &agreement)?;
            agreement.controls.push((control, rejection));
        }
    }
    Ok(agreement)
}

/// The recordings and workloads that are compared.
struct Subjects<'a> {
    groups: BTreeMap<Key, Vec<&'a Recording>>,
    workloads: BTreeMap<String, Arc<Workload>>,
    contenders: BTreeMap<Key, Contender>,
    costs: &'a Costs,
}

impl<'a> Subjects<'a> {
    fn of(
        recordings: &'a [Recording],
        folder: &Path,
        costs: &'a Costs,
        own: &[Contender],
    ) -> Result<Self, Error> {
        let mut groups: BTreeMap<Key, Vec<&Recording>> = BTreeMap::new();
        for recording in recordings {
            groups.entry(key_of(recording)).or_default().push(recording);
        }
        let mut workloads = BTreeMap::new();
        let mut opened: BTreeMap<_, Contender> = BTreeMap::new();
        let mut contenders = BTreeMap::new();
        for key in groups.keys() {
            if let Entry::Vacant(missing) = workloads.entry(key.workload.clone()) {
                let path = folder.join(format!("{}.json", key.workload));
                missing.insert(Arc::new(Workload::read(path)?));
            }
            let contender = match opened.entry((&key.scheduler, &key.tunables)) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(missing) => missing.insert(contender(key, own)?).clone(),
            };
            contenders.insert(key.clone(), contender);
        }
        Ok(Self { groups, workloads, contenders, costs })
    }

    /// Compares the recordings with the model, or with one that makes a mistake.
    fn simulate(&self, control: Option<Control>) -> Result<Agreement, Error> {
        let mut cells = Vec::new();
        for (key, recordings) in &self.groups {
            let duration = common_length(key, recordings)?;
            for (start, recording) in STARTS.into_iter().zip(recordings.iter().cycle()) {
                let surroundings = surroundings(recording);
                let workload = &self.workloads[&key.workload];
                let mut options =
                    options(key, duration, start, surroundings, self.costs, workload)?;
                if let Some(control) = control {
                    control.spoil(&mut options);
                }
                cells.push(Cell::new(self.contenders[key].clone(), options));
            }
        }
        let results = run_cells(&cells, None, &|_, _| {}, |_, result| result)?;
        let mut pairs = Vec::new();
        let mut failures = Vec::new();
        for ((key, recordings), results) in self.groups.iter().zip(results.chunks(STARTS.len())) {
            let failed = results.iter().filter_map(|result| result.failure.clone());
            let before = failures.len();
            failures.extend(failed);
            // A simulation that did not finish is among the failures, and gives no other result.
            if failures.len() > before {
                continue;
            }
            let workload = &self.workloads[&key.workload];
            let kernel: Vec<Figures> = recordings
                .iter()
                .map(|recording| Figures::of_recording(recording).order_instances(workload))
                .collect();
            let simulator: Vec<Figures> = results
                .iter()
                .filter_map(|result| Some((result.run.metrics.as_ref()?, &result.charged)))
                .map(|(metrics, charged)| {
                    Figures::of_simulation(metrics, charged, workload).order_instances(workload)
                })
                .collect();
            let duration = length_of(recordings[0]);
            pairs.push(pair(key.clone(), duration, &kernel, &simulator)?);
        }
        Ok(Agreement { disorders: disorders(&pairs), runs: pairs, failures, controls: Vec::new() })
    }

    fn rejection(&self, control: Control, sound: &Agreement) -> Result<Rejection, Error> {
        let mut keys = self.groups.keys();
        if !keys.any(|key| control.applies(&self.workloads[&key.workload], key.cpus)) {
            return Ok(Rejection::NotApplicable);
        }
        Ok(match sound.lost_to(&self.simulate(Some(control))?) {
            0 => Rejection::Missed,
            lost => Rejection::Rejected(lost),
        })
    }
}

/// The scheduler of a run, with its tunables.
fn contender(key: &Key, own: &[Contender]) -> Result<Contender, Error> {
    let mut contender = match own.iter().find(|own| own.is_called(&key.scheduler)) {
        Some(own) => own.clone(),
        None => Contender::open(&key.scheduler, &Default::default())?,
    };
    for (tunable, value) in &key.tunables {
        contender.set(tunable, value)?;
    }
    Ok(contender)
}

/// The length that all recordings of a run have in common.
fn common_length(key: &Key, recordings: &[&Recording]) -> Result<Nanoseconds, Error> {
    let duration = length_of(recordings[0]);
    match recordings.iter().find(|one| length_of(one) != duration) {
        None => Ok(duration),
        Some(other) => Err(Error::Plan(format!(
            "recordings of {} under {} are of different lengths: {} ns and {} ns; leave some out",
            key.workload,
            key.scheduler_with_tunables(),
            recordings[0].duration_ns,
            other.duration_ns
        ))),
    }
}

fn key_of(recording: &Recording) -> Key {
    Key {
        cpus: recording.cpus,
        workload: recording.workload.clone(),
        scheduler: { recording.scheduler.clone() }.unwrap_or_else(|| KERNEL.to_owned()),
        tunables: recording.tunables.clone().unwrap_or_default(),
        player: recording.player,
    }
}

/// The length that was requested.
fn length_of(recording: &Recording) -> Nanoseconds {
    let grains = (recording.duration_ns + LENGTH_GRAIN / 2) / LENGTH_GRAIN;
    grains.max(1) * LENGTH_GRAIN
}

/// The workload, with a later start for all tasks.
fn delayed(workload: &Workload, delay: Nanoseconds) -> Arc<Workload> {
    let mut workload = workload.clone();
    for task in &mut workload.tasks {
        task.delay += delay;
    }
    Arc::new(workload)
}

/// The surroundings on the machine, as far as they were recorded.
fn surroundings(recording: &Recording) -> Surroundings {
    let tick = 1_000_000_000 / HZ;
    let clocks = recording.start_ns.zip(recording.scheduler_start_ns);
    let threads = recording.others.iter().map(|other| Thread {
        name: other.name.clone(),
        kernel: other.kernel,
        policy: match other.rt_priority {
            0 => Policy::Other { nice: other.nice, slice: None },
            priority => Policy::Fifo { priority },
        },
        cpus: (!other.cpus.is_empty()).then(|| other.cpus.clone()),
        group: None,
        turns: other.turns.iter().map(|&TurnRecord(at, cpu_time)| Turn { at, cpu_time }).collect(),
        period: None,
    });
    Surroundings {
        creator: recording.creator.map(|creator| Creator {
            age: creator.age_ns,
            cpu_time: creator.cpu_time_ns,
            waits: creator.waits,
            preparation: creator.preparation_ns,
            begin: clocks.map(|(_, scheduler)| scheduler % 1_000_000_000),
        }),
        threads: threads.collect(),
        // Ticks are at multiples of the tick length on the kernel's clock.
        tick_offset: clocks
            .map_or(0, |(kernel, scheduler)| (scheduler % tick + tick - kernel % tick) % tick),
    }
}

/// A run for `key` whose tasks start this many sevenths of a tick later.
fn options(
    key: &Key,
    duration: Nanoseconds,
    start: u64,
    mut surroundings: Surroundings,
    costs: &Costs,
    workload: &Arc<Workload>,
) -> Result<Options, Error> {
    let delay = start * 1_000_000_000 / HZ / 7;
    let workload = match &mut surroundings.creator {
        Some(creator) => {
            creator.age += delay;
            workload.clone()
        }
        None => delayed(workload, delay),
    };
    let machine =
        Machine::parse(&key.cpus.to_string()).map_err(|error| Error::Plan(error.to_string()))?;
    let cost = costs.get(&key.cpus).cloned();
    Ok(Options {
        duration: Some(duration),
        seed: start,
        hz: HZ,
        surroundings,
        cost: with_recorder(cost.unwrap_or_else(CostModel::default_model)),
        ..Options::new(machine, workload)
    })
}

/// The costs with a recorder running. Its work for a wake-up falls between the wake-up and the switch; its work for a switch falls after the
/// switch and before the next wake-up.
fn with_recorder(mut cost: CostModel) -> CostModel {
    cost.wakeup += cost.record_switch;
    cost.wakeup_remote += cost.record_switch;
    cost.context_switch += cost.record_wakeup;
    cost
}

fn pair(
    key: Key,
    duration_ns: Nanoseconds,
    kernel: &[Figures],
    simulator: &[Figures],
) -> Result<Pair, Error> {
    let recorded = kernel;
    let kernel = medians(recorded);
    let simulator = medians(simulator);
    let of_task = |name: &str| {
        let times = recorded.iter().flat_map(|run| &run.tasks);
        spread(times.filter(|task| task.name == name).map(|task| task.cpu_time))
    };
    let loads = recorded.iter().map(|run| {
        let times = run.tasks.iter().map(|task| task.cpu_time);
        times.sum::<f64>() / f64::from(key.cpus)
    });
    let names = |figures: &Figures| -> BTreeSet<String> {
        figures.tasks.iter().map(|task| task.name.clone()).collect()
    };
    if names(&kernel) != names(&simulator) {
        return Err(Error::Plan(format!(
            "{}: the recording has other tasks than the file; record it again",
            key.workload
        )));
    }
    let tasks = simulator
        .tasks
        .iter()
        .filter_map(|there| {
            let here = kernel.tasks.iter().find(|here| here.name == there.name)?;
            Some(TaskPair {
                name: there.name.clone(),
                cpu_time: Figure {
                    kernel: here.cpu_time,
                    spread: of_task(&there.name).unwrap_or([here.cpu_time; 2]),
                    simulator: there.cpu_time,
                },
                latency: Both { kernel: here.latency, simulator: there.latency },
            })
        })
        .collect();
    let groups = { kernel.groups.iter() }
        .filter_map(|here| {
            Some(GroupPair {
                path: here.path.clone(),
                measure: here.measure,
                figure: Figure {
                    kernel: here.value,
                    spread: spread(recorded.iter().filter_map(|run| here.within(run)))?,
                    simulator: here.within(&simulator)?,
                },
            })
        })
        .collect();
    Ok(Pair {
        load: loads.fold(0.0, f64::max),
        key,
        duration_ns,
        recordings: recorded.len(),
        latency: Both { kernel: kernel.latency, simulator: simulator.latency },
        latency_spread: spread(recorded.iter().filter_map(|run| run.latency)),
        tasks,
        groups,
    })
}

/// The lowest and the highest value; `None` without any.
fn spread(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    values.map(|value| [value; 2]).reduce(|one, other| [one[0].min(other[0]), one[1].max(other[1])])
}

/// Pairs of schedulers on one CPU with distinct latencies on the kernel and another order in the simulator.
fn disorders(pairs: &[Pair]) -> Vec<Disorder> {
    let mut disorders = Vec::new();
    for a in pairs {
        for b in pairs {
            let comparable = a.key.cpus == 1
                && b.key.cpus == 1
                && a.key.workload == b.key.workload
                && a.key.player == b.key.player;
            let (
                Both { kernel: Some(short), simulator: Some(first) },
                Both { kernel: Some(long), simulator: Some(second) },
            ) = (a.latency, b.latency)
            else {
                continue;
            };
            let distinct = long > short * (1.0 + DISTINCT) && long > short + INDISTINCT;
            if comparable && distinct && first >= second {
                disorders.push(Disorder {
                    workload: a.key.workload.clone(),
                    shorter: a.key.scheduler_with_tunables(),
                    longer: b.key.scheduler_with_tunables(),
                });
            }
        }
    }
    disorders
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairground_results::{Creator as CreatorRecord, OtherThread};

    fn figures(tasks: &[(&str, f64)], latency: f64) -> Figures {
        Figures {
            latency: Some(latency),
            tasks: tasks
                .iter()
                .map(|&(name, cpu_time)| TaskFigures {
                    name: name.to_owned(),
                    cpu_time,
                    latency: None,
                })
                .collect(),
            groups: Vec::new(),
        }
    }

    fn key(scheduler: &str, cpus: u32) -> Key {
        Key {
            cpus,
            workload: "hogs".to_owned(),
            scheduler: scheduler.to_owned(),
            tunables: BTreeMap::new(),
            player: Player::Play,
        }
    }

    fn run(scheduler: &str, cpus: u32, kernel: (f64, f64), simulator: (f64, f64)) -> Pair {
        pair(
            key(scheduler, cpus),
            1_000_000_000,
            &[figures(&[("hog", kernel.0)], kernel.1)],
            &[figures(&[("hog", simulator.0)], simulator.1)],
        )
        .expect("the same tasks")
    }

    fn agreement(runs: Vec<Pair>) -> Agreement {
        Agreement { disorders: disorders(&runs), runs, failures: Vec::new(), controls: Vec::new() }
    }

    #[test]
    fn cpu_times_may_differ_by_the_bound() {
        assert!(agreement(vec![run("o1", 1, (0.50, 1.0), (0.51, 1.0))]).holds());
        assert!(!agreement(vec![run("o1", 1, (0.50, 1.0), (0.53, 1.0))]).holds());
        assert!(!agreement(vec![run("o1", 1, (0.53, 1.0), (0.50, 1.0))]).holds());
        assert!(agreement(vec![run("o1", 2, (0.50, 1.0), (0.56, 1.0))]).holds());
    }

    #[test]
    fn three_quarters_of_the_percentiles_have_to_agree() {
        let of = |errors: [f64; 4]| {
            let run = |(number, error): (usize, f64)| {
                let mut run = run("o1", 1, (0.5, 100.0), (0.5, 100.0 * (1.0 + error)));
                run.key.workload = format!("hogs{number}");
                run
            };
            agreement(errors.into_iter().enumerate().map(run).collect())
        };
        let near = of([0.05, -0.09, 0.3, 0.0]);
        assert_eq!(near.count(Pair::latency_verdict), [3, 1, 0, 0]);
        assert!(near.holds(), "{}", near.table());
        assert!(!of([0.05, -0.2, 0.3, 0.0]).holds());
    }

    #[test]
    fn more_cpu_time_than_there_is_is_no_measurement() {
        let disturbed = run("o1", 1, (1.1, 1.0), (0.5, 1.0));
        assert_eq!(disturbed.cpu_time_verdict(&disturbed.tasks[0]), Verdict::Void);
        let none = Pair {
            latency: Both { kernel: Some(5.0), simulator: None },
            ..run("o1", 1, (0.5, 1.0), (0.5, 1.0))
        };
        assert_eq!(none.latency_verdict(), Some(Verdict::Void));
    }

    #[test]
    fn groups_have_bounds_of_their_own() {
        let of = |kernel: [u64; 3], simulator: [u64; 3]| {
            let figures = |[cpu_time_ns, periods, throttled]: [u64; 3]| Figures {
                groups: GroupFigure::of(
                    &[GroupMetrics {
                        path: "/a".to_owned(),
                        cpu_time_ns,
                        nr_periods: Some(periods),
                        nr_throttled: Some(throttled),
                        throttled_ns: None,
                    }],
                    1000,
                ),
                ..figures(&[("hog", 0.5)], 1.0)
            };
            let runs = [kernel, simulator].map(|run| [figures(run)]);
            let pair = pair(key("eevdf", 1), 1000, &runs[0], &runs[1]).expect("the same tasks");
            agreement(vec![pair])
        };
        let near = of([200, 100, 90], [209, 91, 98]);
        assert_eq!(near.group_figures(), [3, 0, 0, 0]);
        assert!(near.holds(), "{}", near.table());
        for (other, said) in [
            (
                [211, 100, 90],
                "/a: CPU time is 20.00 % of the run on the kernel and 21.10 % of the run in the simulator",
            ),
            ([200, 89, 89], "/a: periods are 100 on the kernel and 89 in the simulator"),
            ([200, 100, 80], "/a: throttled periods are 90 on the kernel and 80 in the simulator"),
        ] {
            let far = of([200, 100, 90], other);
            assert!(!far.holds());
            assert!(far.table().contains(said), "{}", far.table());
        }
    }

    #[test]
    fn distinct_latencies_keep_their_order() {
        let both = |cpus, second: f64| {
            agreement(vec![
                run("o1", cpus, (0.5, 10e6), (0.5, 30e6)),
                run("cfs", cpus, (0.5, second), (0.5, 20e6)),
            ])
        };
        assert!(both(1, 12e6).disorders.is_empty(), "too close to tell on the kernel");
        assert!(both(1, 5e6).disorders.is_empty(), "the same order");
        let wrong = both(1, 15e6);
        assert_eq!(wrong.disorders.len(), 1);
        assert!(!wrong.holds());
        assert!(wrong.table().contains("shorter under o1 than under cfs"));
        assert!(both(2, 15e6).disorders.is_empty(), "not looked at on several CPUs");
        let brief = agreement(vec![
            run("o1", 1, (0.5, 0.1e6), (0.5, 2.0)),
            run("cfs", 1, (0.5, 0.9e6), (0.5, 1.0)),
        ]);
        assert!(brief.disorders.is_empty(), "too short to tell on the kernel");
    }

    #[test]
    fn percentiles_need_samples() {
        let latency = Distribution {
            samples: LEAST_SAMPLES - 1,
            mean_ns: 5.0,
            p1_ns: 5,
            p5_ns: 5,
            p50_ns: 5,
            p95_ns: 6,
            p99_ns: 7,
            p999_ns: 7,
            max_ns: 7,
        };
        assert_eq!(p99(Some(&latency), LEAST_SAMPLES), None);
        assert_eq!(p99(Some(&latency), LEAST_SAMPLES_OF_TASK), Some(7.0));
    }

    #[test]
    fn medians_and_instances() {
        let workload = Workload::parse(
            "hogs.json",
            r#"{ "tasks": { "hog": { "instance": 2, "run": 10 }, "other": { "run": 10 } } }"#,
        )
        .expect("a workload");
        let runs: Vec<Figures> = [(0.1, 0.6), (0.8, 0.2), (0.3, 0.7)]
            .iter()
            .map(|&(first, second)| {
                figures(&[("hog-0", first), ("hog-1", second), ("other", 0.5)], 1.0)
                    .order_instances(&workload)
            })
            .collect();
        let result = medians(&runs);
        let times: Vec<(&str, f64)> =
            result.tasks.iter().map(|task| (task.name.as_str(), task.cpu_time)).collect();
        assert_eq!(times, [("hog-0", 0.7), ("hog-1", 0.2), ("other", 0.5)]);
        assert_eq!(median([4.0, 1.0]), Some(2.5));
        assert_eq!(median([]), None);
    }

    #[test]
    fn surroundings_are_what_the_recording_tells() {
        let recording = Recording {
            workload: "hogs".to_owned(),
            scheduler: Some("o1".to_owned()),
            tunables: None,
            player: Player::Play,
            cpus: 2,
            start_ns: Some(9_001_500_000),
            scheduler_start_ns: Some(8_990_200_000),
            duration_ns: 1_000_000_000,
            creator: Some(CreatorRecord {
                age_ns: 500,
                cpu_time_ns: 200,
                waits: 7,
                preparation_ns: 50,
            }),
            others: vec![OtherThread {
                name: "kworker/1:0".to_owned(),
                kernel: true,
                nice: -20,
                rt_priority: 0,
                cpus: vec![1],
                turns: vec![TurnRecord(20, 4), TurnRecord(90, 5)],
            }],
            tasks: Vec::new(),
            metrics: None,
        };
        let found = surroundings(&recording);
        let creator = Creator {
            age: 500,
            cpu_time: 200,
            waits: 7,
            preparation: 50,
            begin: Some(990_200_000),
        };
        assert_eq!(found.creator, Some(creator));
        // The last tick was 1.5 ms before the start, at 8988.7 ms.
        assert_eq!(found.tick_offset, 700_000);
        let thread = Thread {
            name: "kworker/1:0".to_owned(),
            kernel: true,
            policy: Policy::Other { nice: -20, slice: None },
            cpus: Some(vec![1]),
            group: None,
            turns: vec![Turn { at: 20, cpu_time: 4 }, Turn { at: 90, cpu_time: 5 }],
            period: None,
        };
        assert_eq!(found.threads, [thread]);
    }

    /// A folder with a workload of two hogs.
    fn hogs() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(
            folder.path().join("hogs.json"),
            r#"{ "tasks": { "hog": { "instance": 2, "run": 1000 } }, "global": { "duration": 1 } }"#,
        )
        .expect("a file");
        folder
    }

    /// A run of these hogs with the CPU time of each.
    fn recording(first: u64, second: u64) -> Recording {
        Recording {
            workload: "hogs".to_owned(),
            scheduler: Some("o1".to_owned()),
            tunables: None,
            player: Player::Play,
            cpus: 1,
            start_ns: None,
            scheduler_start_ns: None,
            duration_ns: 1_060_000_000,
            creator: None,
            others: Vec::new(),
            tasks: [("hog-0", first), ("hog-1", second)]
                .map(|(name, cpu_time_ns)| crate::fidelity::TaskTime {
                    name: name.to_owned(),
                    cpu_time_ns,
                })
                .to_vec(),
            metrics: None,
        }
    }

    #[test]
    fn a_simulation_has_the_tunables_of_the_recording() {
        let folder = hogs();
        let run = |tunables: Option<(&str, &str)>| {
            let recording = Recording {
                scheduler: Some("bfs".to_owned()),
                tunables: tunables
                    .map(|(name, value)| [(name.to_owned(), value.to_owned())].into()),
                ..recording(1_040_000_000, 20_000_000)
            };
            confront(&[recording], folder.path(), &Costs::new(), &[], false)
        };
        let long = run(Some(("rr_interval", "1000 ms"))).expect("a comparison");
        assert!(long.holds(), "{}", long.table());
        let table = long.table();
        assert!(table.contains("bfs rr_interval=1000 ms"), "{table}");
        let default = run(None).expect("a comparison");
        assert!(!default.holds(), "{}", default.table());
        let unknown = run(Some(("no_such", "1"))).err().expect("no such tunable");
        assert!(unknown.to_string().contains("no_such"), "{unknown}");
    }

    #[test]
    fn recordings_meet_the_simulation_of_the_same_file() {
        let folder = hogs();
        let even = confront(
            &[recording(525_000_000, 534_000_000)],
            folder.path(),
            &Costs::new(),
            &[],
            false,
        );
        let even = even.expect("a comparison");
        assert_eq!(even.runs[0].duration_ns, 1_000_000_000);
        assert!(even.holds(), "{}", even.table());
        let near = "1 CPU: 2 CPU times: 2 agree\n";
        assert!(even.table().contains(near), "{}", even.table());
        let uneven = confront(
            &[recording(100_000_000, 899_000_000)],
            folder.path(),
            &Costs::new(),
            &[],
            false,
        );
        let uneven = uneven.expect("a comparison");
        assert!(!uneven.holds());
        assert!(uneven.table().contains("disagree: hogs, o1, play, hog-0"));
    }

    #[test]
    fn a_control_is_rejected_where_a_run_depends_on_what_it_gets_wrong() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(
            folder.path().join("hogs.json"),
            r#"{ "tasks": { "a": { "run": 1000, "taskgroup": "/one" },
                            "b": { "instance": 3, "run": 1000, "taskgroup": "/two" } },
                 "global": { "duration": 1 } }"#,
        )
        .expect("a file");
        let mut recorded = recording(0, 0);
        recorded.scheduler = Some("eevdf".to_owned());
        recorded.tasks = [("a", 530), ("b-0", 177), ("b-1", 177), ("b-2", 176)]
            .map(|(name, ms)| crate::fidelity::TaskTime {
                name: name.to_owned(),
                cpu_time_ns: ms * 1_000_000,
            })
            .to_vec();
        let found = confront(&[recorded], folder.path(), &Costs::new(), &[], true);
        let found = found.expect("a comparison");
        let of = |control| found.controls.iter().find(|(one, _)| *one == control);
        let table = found.table();
        let groups = of(Control::NoGroups).expect("it was run").1;
        assert_eq!(groups, Rejection::Rejected(4), "{table}");
        let real_time = of(Control::BoundRealTime).expect("it was looked at").1;
        assert_eq!(real_time, Rejection::NotApplicable);
        let locks = of(Control::FreeLocks).expect("it was run").1;
        assert_eq!(locks, Rejection::Missed, "{table}");
        assert!(!found.holds(), "a control that is missed is a fault");
        assert!(table.contains("not rejected: no cost of locks"), "{table}");
    }
}
