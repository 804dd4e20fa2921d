//! A cell: one simulation with everything it needs. Comparisons, experiments and comparisons with a kernel are lists of cells.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter};
use std::net::Shutdown;
use std::num::NonZero;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairground_bpf::Loader;
use fairground_companion::Prepared;
use fairground_contract::exit;
use fairground_events::{FanOut, Nanoseconds, PerfettoWriter, Renumbered, Sink, SwitchWriter};
use fairground_files::Unfinished;
use fairground_machine::Online;
use fairground_metrics::{MachineFacts, Metrics};
use fairground_results::format::{seconds, time};
use fairground_results::{
    Breach, CpuChange, DUE, Hashes, LEFT_BEHIND, Labels, Lack, Patience, Recipe, Requirement, Run,
    Starvation, Status,
};
use fairground_simulator::{
    CostModel, ExitKind, GIVEN, Hotplug, Options, Outcome, Surroundings, simulate_beside,
};
use fairground_workload::{Event, Phase, Workload};
use serde::{Deserialize, Serialize};

use crate::contender::{Contender, Unloadable};
use crate::crash;
use crate::error::Error;
use crate::isolation::{self, Inherited};
use crate::noise::Noise;
use crate::parallel;
use crate::recorded::Replay;
use crate::remote::{Remote, Site, Waiting};

/// Length of a run whose workload has neither a duration nor an end.
pub const DEFAULT_DURATION: Nanoseconds = 10_000_000_000;

/// Maximum number of a scheduler's output lines that become notes of its run.
const NOTED_LINES: usize = 10;

/// The form of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceForm {
    /// For the Perfetto UI.
    Perfetto,
    /// The switches as text.
    Switches,
}

impl TraceForm {
    /// The ending of its files.
    pub(crate) fn ending(self) -> &'static str {
        match self {
            Self::Perfetto => "perfetto-trace",
            Self::Switches => "switches",
        }
    }

    /// Whether the file of a trace is to be text.
    fn is_text(file: &Path) -> bool {
        file.extension().is_some_and(|ending| ending == Self::Switches.ending())
    }
}

/// One simulation.
#[derive(Clone)]
pub struct Cell {
    /// The scheduler with its tunables.
    pub contender: Contender,
    /// Machine, workload, costs, seed and everything else that the simulator takes. The values of the scheduler's variables come from the contender.
    pub options: Options,
    /// Measures beyond the usual.
    pub metrics: fairground_metrics::Options,
    /// How long a task may wait before the run is starved. Experiments measure how long, so a new cell has endless patience.
    pub patience: Patience,
    /// The requirements on the run.
    pub requirements: Vec<Requirement>,
    /// The schedulers with which requirements compare it, by the names that requirements give them.
    pub(crate) references: Vec<(String, Cell)>,
    /// Which repetition this is, from 0.
    pub repeat: u32,
    /// File for a trace; its ending tells the [`TraceForm`].
    pub trace: Option<PathBuf>,
    /// The load by the kernel's own threads.
    pub(crate) noise: Noise,
    /// The surroundings and variations of its workload if that is a recording, which its seed varies.
    pub replay: Option<Arc<Replay>>,
    /// Its exact inputs, if they are to be part of the result.
    pub(crate) hashes: Option<Hashes>,
    /// Its identity; for a template of others, that of all that they have in common.
    pub(crate) identity: Option<String>,
    /// Notes on the scheduler's loader for the result.
    pub(crate) loader_notes: Vec<String>,
    /// Why the loader's actions are impossible on this machine.
    pub(crate) unprepared: Option<String>,
}

/// The result of a cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CellResult {
    /// The run, as far as it came.
    pub run: Run,
    /// CPU time of each task by name, as the kernel accounts it: all the time that its CPU spent on it, including overhead.
    pub charged: Vec<(String, Nanoseconds)>,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
    /// The requirements that it does not meet, in their order.
    pub breaches: Vec<Breach>,
    /// The requirements that it neither meets nor breaks, and why.
    pub undecided: Vec<(String, Lack)>,
    /// How near it is to falling short of each requirement ([`Requirement::nearness`]); empty if there is nothing to judge.
    pub(crate) nearness: Vec<f64>,
    /// What befell tasks that no figure shows: the scheduler refused forks, or had none of the tasks.
    pub(crate) untold: Vec<Failure>,
    /// The system's error number if its trace could not be written to the end.
    pub(crate) untraced: Option<i32>,
    /// CPU time that the simulation took in this process; little if the scheduler had one of its own.
    #[serde(skip)]
    pub(crate) cost: Nanoseconds,
}

/// The kind of fault that a scheduler had none of the tasks.
pub(crate) const NO_TASKS: &str = "no_tasks";

/// The forks that the scheduler refused, by the error.
fn refused_forks(outcome: &Outcome) -> impl Iterator<Item = String> {
    outcome.refused_forks.iter().map(|(error, count)| {
        let forks = if *count == 1 { "fork" } else { "forks" };
        format!("ops.init_task() refused {count} {forks} ({error}), and the parent went on without the child")
    })
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Name of the workload.
    pub workload: String,
    /// Description of the machine; empty if that is the one that this program runs on.
    pub machine: String,
    /// Name of the scheduler, and its settings.
    pub scheduler: String,
    /// Its sort.
    pub status: Status,
    /// The kind, as in [`fairground_results::Failure`].
    pub kind: String,
    /// When and why: `failed after 3 s: the kernel ejected it ...`.
    pub message: String,
    /// When, if known.
    pub after_ns: Option<Nanoseconds>,
    /// The kernel's debug dump; empty if there is none.
    pub dump: String,
}

/// Runs the cells, at most `threads` at a time (`None` for one per CPU of this machine), and passes each result to `finish`, from any thread.
/// Returns the results of `finish`, in the order of the cells. `progress` is called with the number of finished runs and the total.
///
/// # Errors
///
/// The first trace for which there can be no file. A failed run is not an error: see [`CellResult::failure`].
pub fn run_cells<T: Send>(
    cells: &[Cell],
    threads: Option<NonZero<usize>>,
    progress: &(dyn Fn(usize, usize) + Sync),
    finish: impl Fn(usize, CellResult) -> T + Sync,
) -> Result<Vec<T>, Error> {
    let effort = |index: &usize| {
        let options = &cells[*index].options;
        Reverse(effort(&options.workload, options.duration))
    };
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_by_cached_key(effort);
    run_in_order(&order, threads, progress, |index| {
        let begin = parallel::cpu_time();
        let mut result = cells[index].run()?;
        result.cost = parallel::cpu_time() - begin;
        Ok(finish(index, result))
    })
}

/// Calls `run` for each index, in this order, as [`run_cells`] does.
pub(crate) fn run_in_order<T: Send>(
    order: &[usize],
    threads: Option<NonZero<usize>>,
    progress: &(dyn Fn(usize, usize) + Sync),
    run: impl Fn(usize) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let done = AtomicUsize::new(0);
    let results = parallel::map(order, threads, |index| {
        let result = run(index);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, order.len());
        result
    });
    results.into_iter().collect()
}

/// A number that grows with the time that a simulation of `workload` takes: with the time that it simulates and with its tasks. Those that
/// take longest begin first: if one of them began last, a single thread would work on it while the others wait.
pub(crate) fn effort(workload: &Workload, duration: Option<Nanoseconds>) -> u64 {
    let length = length_of(workload, duration).unwrap_or(Nanoseconds::MAX);
    length.saturating_mul(workload.tasks.len() as u64)
}

/// Whether neither a run nor its workload has a duration or an end, so that the default length applies.
fn has_no_length(workload: &Workload, duration: Option<Nanoseconds>) -> bool {
    duration.is_none() && workload.duration.is_none() && is_endless(workload)
}

/// Length of a run of `workload`, with another `duration` than its own if there is one; `None` for until its tasks end.
pub fn length_of(workload: &Workload, duration: Option<Nanoseconds>) -> Option<Nanoseconds> {
    let given = duration.or(workload.duration);
    given.or(has_no_length(workload, duration).then_some(DEFAULT_DURATION))
}

impl Cell {
    /// A cell of `contender` under `options`.
    pub fn new(mut contender: Contender, mut options: Options) -> Self {
        options.variables = contender.variables();
        options.cost = contender.costs(options.cost);
        let mut offline = options.offline();
        let at_first = Online::without(&options.machine, &offline[0]);
        let (prepared, unprepared) = match contender.prepare(&at_first, options.release) {
            Ok(prepared) => (prepared, None),
            Err(error) => (Prepared::default(), Some(error.to_string())),
        };
        options.setup = Arc::new(prepared.setup);
        offline.remove(0);
        options.later_setups = contender.prepare_later(&options.machine, options.release, offline);
        contender.load_for(&options);
        let mut loader_notes = prepared.notes;
        loader_notes.extend(contender.left_out(options.release));
        Self {
            loader_notes,
            unprepared,
            contender,
            options,
            metrics: fairground_metrics::Options::default(),
            patience: Patience::Off,
            requirements: Vec::new(),
            references: Vec::new(),
            repeat: 0,
            trace: None,
            noise: Noise::None,
            replay: None,
            hashes: None,
            identity: None,
        }
    }

    /// Whether neither the cell nor its workload has a duration or an end, so that the default length applies.
    fn has_no_length(&self) -> bool {
        has_no_length(&self.options.workload, self.options.duration)
    }

    /// Length of the run; `None` for until its tasks end.
    pub(crate) fn length(&self) -> Option<Nanoseconds> {
        length_of(&self.options.workload, self.options.duration)
    }

    /// Runs the cell.
    pub fn run(&self) -> Result<CellResult, Error> {
        self.run_with(&mut [])
    }

    /// Runs the cell, with additional consumers of its events.
    pub fn run_with(&self, others: &mut [&mut dyn Sink]) -> Result<CellResult, Error> {
        let Some(path) = &self.trace else { return self.judged(self.run_traced(None, others)) };
        let trace = Unfinished::create(path).map_err(|cause| unwritten(path, cause))?;
        let result = self.judged(self.run_traced(Some(trace.file()), others))?;
        // Without a run a trace would be empty.
        if result.run.metrics.is_some() && result.untraced.is_none() {
            trace.finish().map_err(|cause| unwritten(path, cause))?;
        }
        Ok(result)
    }

    /// The result, with the requirements that it does not meet.
    fn judged(&self, mut result: CellResult) -> Result<CellResult, Error> {
        let Some(metrics) = &result.run.metrics else { return Ok(result) };
        let mut references = Vec::new();
        for (name, reference) in &self.references {
            let is_needed =
                |one: &Requirement| one.reference() == Some(name) && one.needs_reference(metrics);
            if self.requirements.iter().any(is_needed) {
                // What one has that failed is no measure for others.
                let run = self.under(reference).run()?.run;
                references.push((name.as_str(), run.metrics.filter(|_| run.status == Status::Ok)));
            }
        }
        for requirement in &self.requirements {
            // Nobody has to be better than itself.
            if requirement.reference().is_some_and(|name| self.is_reference(name)) {
                result.nearness.push(0.0);
                continue;
            }
            let reference = requirement.reference().and_then(|wanted| {
                let found = references.iter().find(|(name, _)| *name == wanted);
                found?.1.as_deref()
            });
            let nearness = requirement.nearness(metrics, reference);
            result.nearness.push(nearness);
            result.breaches.extend(requirement.breach(metrics, reference));
            let lack = requirement.undecided(metrics, reference);
            result.undecided.extend(lack.map(|lack| (requirement.to_string(), lack)));
        }
        let unmet = self.unmet(&result.breaches);
        if let (None, Some(failure)) = (&result.failure, unmet) {
            result.run.status = failure.status;
            result.run.failure = Some(failure.as_result());
            result.failure = Some(failure);
        }
        Ok(result)
    }

    /// Whether its scheduler is the one that requirements call so.
    fn is_reference(&self, name: &str) -> bool {
        let mut named = self.references.iter().filter(|(other, _)| other == name);
        named.any(|(_, reference)| reference.contender.is(&self.contender))
    }

    /// The same simulation with the scheduler of another cell.
    fn under(&self, other: &Self) -> Self {
        let options = Options {
            cost: other.options.cost.clone(),
            hz: other.options.hz,
            ..self.options.clone()
        };
        Self {
            metrics: self.metrics,
            noise: self.noise,
            replay: self.replay.clone(),
            ..Self::new(other.contender.clone(), options)
        }
    }

    /// The failure of a run that does not meet these requirements, of the kind of the first.
    pub(crate) fn unmet(&self, breaches: &[Breach]) -> Option<Failure> {
        let sentences: Vec<String> = breaches.iter().map(Breach::sentence).collect();
        Some(Failure {
            kind: breaches.first()?.measure.clone(),
            ..self.failure(Status::Unmet, sentences.join("; "))
        })
    }

    /// Runs the cell, with a Perfetto trace into the file if there is one.
    fn run_traced(&self, trace: Option<&File>, others: &mut [&mut dyn Sink]) -> CellResult {
        if !self.contender.is_foreign() {
            let mut sinks: Vec<&mut dyn Sink> = Vec::new();
            for other in others {
                sinks.push(&mut **other);
            }
            return self.run_here(trace, sinks, None);
        }
        let mut fan_out = FanOut::new();
        let wants_events = !others.is_empty();
        for other in others {
            fan_out.add(&mut **other);
        }
        let capacities: Vec<u32> = self.capacities();
        let events = wants_events.then_some(&mut fan_out as &mut dyn Sink);
        let is_accepted = self.contender.scheduler().is_ok();
        let ended = match self.contender.loader().filter(|_| is_accepted) {
            Some(command) => match Waiting::start(command, &self.options.machine) {
                Ok(mut loader) => self.run_beside(&mut loader, trace, &capacities, events),
                Err(error) => {
                    return self.nothing(Status::Refused, format!("before it began: {error}"));
                }
            },
            None => {
                let kept = Inherited { file: trace, ..Inherited::default() };
                isolation::run(&kept, &capacities, events, |events| {
                    self.run_here(trace, events.into_iter().collect(), None)
                })
            }
        };
        match ended {
            Ok(Ok(result)) => result,
            Ok(Err(crash)) => self.nothing(Status::Crashed, format!("in a crash: {crash}")),
            Err(error) => {
                let message = format!("before it began: no process for it: {error}");
                self.nothing(Status::Crashed, message)
            }
        }
    }

    fn site(&self) -> Site<'_> {
        Site {
            contender: &self.contender,
            release: self.options.release,
            machine: &self.options.machine,
        }
    }

    /// Runs the cell in its own process, with the loader in this one.
    fn run_beside(
        &self,
        loader: &mut Waiting,
        trace: Option<&File>,
        capacities: &[u32],
        events: Option<&mut dyn Sink>,
    ) -> io::Result<Result<CellResult, String>> {
        let (here, there) = UnixStream::pair()?;
        let memory = std::mem::take(&mut loader.memory);
        let kept = Inherited {
            file: trace,
            memory: memory.iter().map(|one| &one.file).collect(),
            socket: Some(&there),
        };
        std::thread::scope(|scope| {
            let site = self.site();
            // The thread ends when the other end of the socket is closed: at the end of the simulation, however it ends.
            scope.spawn(move || loader.serve(&site, here));
            let ended = isolation::run(&kept, capacities, events, |events| {
                let call_cost = self.options.cost.system_call + self.options.cost.loader_call;
                let mut remote = Remote::new(&there, &memory, call_cost);
                self.run_here(trace, events.into_iter().collect(), Some(&mut remote))
            });
            let _ = there.shutdown(Shutdown::Both);
            ended
        })
    }

    /// Lets `loader` continue until it attaches its scheduler. No task runs.
    pub(crate) fn attach(&self, loader: &mut Waiting) -> Result<(), Error> {
        let ended = self.run_beside(loader, None, &[], None);
        let problem = match ended {
            _ if loader.is_attached() => return Ok(()),
            Ok(Ok(result)) => result.failure.map(|failure| failure.message),
            Ok(Err(message)) => Some(message),
            Err(error) => Some(error.to_string()),
        };
        Err(Error::NotFollowed {
            command: self.contender.name().to_owned(),
            message: problem.unwrap_or_default(),
        })
    }

    fn capacities(&self) -> Vec<u32> {
        let cpus = &self.options.machine.cpus;
        cpus.iter().map(|cpu| cpu.capacity).collect()
    }

    /// Runs the cell in this process.
    fn run_here(
        &self,
        trace: Option<&File>,
        others: Vec<&mut dyn Sink>,
        loader: Option<&mut dyn Loader>,
    ) -> CellResult {
        let _reporter = crash::Reporter::install();
        let mut options = Options { duration: self.length(), ..self.options.clone() };
        if let Some(replay) = &self.replay {
            replay.vary(&mut options);
        }
        self.noise.vary(&mut options);
        number_cpus(&mut options);
        let facts = MachineFacts { capacities: self.capacities() };
        let mut metrics = Metrics::new(facts, self.metrics);
        let mut sinks: Vec<&mut dyn Sink> = vec![&mut metrics];
        sinks.extend(others.into_iter().map(|sink| sink as &mut dyn Sink));
        let loader = loader.map(|loader| loader as &mut dyn Loader);
        let (outcome, traced) = match trace {
            Some(file) => self.simulate_with_trace(&options, sinks, file, loader),
            None => (self.simulate(&options, sinks, loader), Ok(())),
        };
        let result = match outcome {
            Ok(mut outcome) => {
                // The length is only the default, so a standstill was not intended.
                if self.has_no_length()
                    && let Some(reasons) = outcome.stuck.take()
                {
                    outcome.failure = Some(format!("deadlock: {reasons}"));
                }
                self.result(&metrics, &outcome)
            }
            Err(failure) => self.unbegun(*failure),
        };
        let number = |error: io::Error| error.raw_os_error().unwrap_or(libc::EIO);
        CellResult { untraced: traced.err().map(number), ..result }
    }

    /// The result of a run that left no results.
    pub fn nothing(&self, status: Status, message: String) -> CellResult {
        self.unbegun(self.failure(status, message))
    }

    /// The result of a run of which there is nothing but why.
    fn unbegun(&self, failure: Failure) -> CellResult {
        CellResult {
            run: Run {
                labels: self.labels(),
                status: failure.status,
                failure: Some(failure.as_result()),
                ..Run::default()
            },
            failure: Some(failure),
            ..CellResult::default()
        }
    }

    fn simulate<'a>(
        &self,
        options: &Options,
        sinks: Vec<&'a mut dyn Sink>,
        loader: Option<&'a mut dyn Loader>,
    ) -> Result<Outcome, Box<Failure>> {
        let never_began = |status: Status, problem: &dyn Display| {
            Box::new(self.failure(status, format!("before it began: {problem}")))
        };
        let scheduler = match self.contender.scheduler() {
            Ok(scheduler) => scheduler,
            Err(Unloadable::Refused(reason)) => return Err(never_began(Status::Refused, reason)),
            Err(Unloadable::Invalid(error)) => {
                return Err(Box::new(self.invalid(&error.to_string())));
            }
        };
        if let Some(problem) = &self.unprepared {
            return Err(never_began(Status::Refused, problem));
        }
        crash::while_running(self.contender.name(), scheduler, || {
            simulate_beside(scheduler, options, sinks, loader)
        })
        .map_err(|error| never_began(Status::Refused, &error))
    }

    /// Like [`simulate`](Self::simulate), with a trace.
    fn simulate_with_trace(
        &self,
        options: &Options,
        sinks: Vec<&mut dyn Sink>,
        file: &File,
        loader: Option<&mut dyn Loader>,
    ) -> (Result<Outcome, Box<Failure>>, io::Result<()>) {
        let simulate = |trace: &mut dyn Sink| {
            let mut numbered = Renumbered::new(&options.machine.numbers, trace);
            let mut all: Vec<&mut dyn Sink> = vec![&mut numbered];
            all.extend(sinks.into_iter().map(|sink| sink as &mut dyn Sink));
            let loader = loader.map(|loader| loader as &mut dyn Loader);
            self.simulate(options, all, loader)
        };
        let output = BufWriter::new(file);
        if self.trace.as_deref().is_some_and(TraceForm::is_text) {
            let mut trace = SwitchWriter::new(output);
            return (simulate(&mut trace), trace.close().map(drop));
        }
        let cpus = options.machine.cpu_count();
        let mut trace = PerfettoWriter::new(output, &options.workload.name, cpus);
        (simulate(&mut trace), trace.close().map(drop))
    }

    fn result(&self, metrics: &Metrics, outcome: &Outcome) -> CellResult {
        let mut metrics = metrics.result();
        metrics.number_cpus(&self.options.machine.numbers);
        if !self.options.surroundings.threads.is_empty() {
            metrics.cpu_time.others_wanted_ns = Some(outcome.wanted_by_other_threads);
            metrics.cpu_time.others_work_ns = Some(outcome.done_by_other_threads);
        }
        let failure = self.failure_of(outcome).or_else(|| {
            let starvation = self.patience.exceeded_in(&metrics)?;
            Some(self.starved(&starvation, metrics.duration_ns))
        });
        let run = Run {
            labels: self.labels(),
            status: failure.as_ref().map_or(Status::Ok, |failure| failure.status),
            failure: failure.as_ref().map(Failure::as_result),
            counters: self.contender.name_counters(&outcome.statistics),
            notes: self.notes(failure.as_ref(), outcome).into(),
            metrics: Some(Box::new(metrics)),
            ..Run::default()
        };
        let charged = outcome.tasks.iter();
        CellResult {
            run,
            charged: charged.map(|task| (task.name.clone(), task.cpu_time)).collect(),
            failure,
            untold: self.untold(outcome),
            ..CellResult::default()
        }
    }

    /// What befell tasks that no figure shows.
    fn untold(&self, outcome: &Outcome) -> Vec<Failure> {
        let fault = |kind: &str, message| Failure {
            kind: kind.to_owned(),
            ..self.failure(Status::Unmet, message)
        };
        let refused = refused_forks(outcome)
            .map(|message| fault("refused_forks", format!("'no fork is refused': {message}")));
        let mut tasks = outcome.tasks.iter();
        let has_none = tasks.len() > 0 && tasks.all(|task| task.is_fair);
        let none = has_none.then(|| {
            let message = "'it has tasks': none was its own, so that nothing is known of it: with SCX_OPS_SWITCH_PARTIAL a scheduler has \
                           those of SCHED_EXT only; --set ops.flags= with its other flags, or 0, gives it all";
            fault(NO_TASKS, message.to_owned())
        });
        refused.chain(none).collect()
    }

    /// The CPUs that come and go, by the machine's own numbers: the options have them as schedulers see them.
    pub(crate) fn changes(&self) -> Vec<CpuChange> {
        let change = |change: &Hotplug| CpuChange {
            at_ns: change.at,
            cpu: self.options.machine.numbers[change.cpu],
            online: change.online,
        };
        self.options.hotplug.iter().map(change).collect()
    }

    fn labels(&self) -> Labels {
        let options = &self.options;
        let recipe = Recipe {
            workload: options.workload.name.clone(),
            scheduler: self.contender.name().to_owned(),
            reference: { Some(self.contender.reference()) }
                .filter(|reference| *reference != self.contender.name())
                .map(str::to_owned),
            machine: options.machine.description.clone(),
            cost_model: Some(options.cost.name.clone()),
            tunables: self.contender.tunables().clone(),
            numbers: self.contender.numbers(),
            hz: Some(options.hz),
            duration_ns: self.length(),
            noise: Some(self.noise.to_string()),
            hotplug: self.changes(),
            hashes: self.hashes.clone(),
        };
        Labels {
            recipe: recipe.into(),
            seed: Some(options.seed),
            repeat: self.repeat,
            cell: self.identity.clone(),
        }
    }

    /// Remarks for the reader of the result.
    fn notes(&self, failure: Option<&Failure>, outcome: &Outcome) -> Vec<String> {
        let workload = &self.options.workload;
        let mut notes = workload.notes.clone();
        notes.extend(self.options.machine.notes.iter().cloned());
        let hardware = self.options.machine.hardware.to_string();
        if !hardware.is_empty() {
            notes.push(format!("the machine has {hardware} (docs/machines.md)"));
        }
        if self.has_no_length() {
            notes.push(format!(
                "{} has neither a duration nor an end and was run for {} s; --duration sets another length",
                workload.name,
                DEFAULT_DURATION / 1_000_000_000
            ));
        }
        let hz = self.options.hz;
        if let Some(native) = self.contender.native_hz().filter(|native| *native != hz) {
            notes.push(format!(
                "{} was made for {native} ticks a second and ran at {hz}; --hz native gives each scheduler its own",
                self.contender.name()
            ));
        }
        if failure.is_none() {
            notes.extend(self.changes_after(outcome.end));
        }
        notes.extend(self.lacking_cpus());
        let name = self.contender.name();
        notes.extend(self.contender.linked().map(|sources| {
            format!("{name}: linked with {sources}, which define functions that it needs")
        }));
        notes.extend(self.contender.assumption());
        if let Some(companion) = self.contender.own_companion() {
            let from = match companion.from() {
                "" => String::new(),
                from => format!(" ({from})"),
            };
            notes.push(format!("{name}: its loader is {}{from}", companion.name()));
            if failure.is_some() && self.contender.is_of_another_revision() {
                notes.push(format!(
                    "{name}: {} is for another revision of it, which may be why it failed: try --with none, or a companion of its own \
                     (docs/companions.md)",
                    companion.name()
                ));
            }
        } else if failure.is_some_and(|failure| failure.status == Status::Ejected)
            && self.contender.is_foreign()
        {
            notes.push(format!(
                "{name}: what its loader sets, if it has one of its own, is not known: a companion file says it, or 'exec:' finds it out \
                 (docs/companions.md)"
            ));
        }
        notes.extend(self.loader_notes.iter().map(|note| format!("{name}: {note}")));
        if self.contender.loader().is_some() {
            let cost = &self.options.cost;
            notes.push(format!(
                "{name}: its loader keeps running beside it, as tasks that no task metric includes; each of its system calls, with what it computes \
                 before it, is charged {} + {} ns of CPU time (costs system_call and loader_call)",
                cost.system_call, cost.loader_call
            ));
        }
        notes.extend(outcome.restarts.iter().map(|restart| {
            let (at, message) = (seconds(restart.at), &restart.message);
            if self.contender.restart_after() == 0 {
                return format!(
                    "{name} began anew after {at} ({message}): a kernel's own scheduler goes on, but what stands for it here forgets averages and virtual times"
                );
            }
            let needed = match (self.contender.loader().is_some(), restart.pause) {
                (true, Some(pause)) => format!("needed {}", seconds(pause / 1000 * 1000)),
                (true, None) => "had not enough time".to_owned(),
                (false, _) => format!("is taken to need {}", seconds(self.contender.restart_after())),
            };
            format!(
                "{name} asked to be loaded again after {at} ({message}); its loader {needed} for that, in which the kernel's own class ran the tasks"
            )
        }));
        notes.extend(self.not_under_the_scheduler(outcome));
        notes.extend(outcome.shortfalls.iter().map(ToString::to_string));
        notes.extend(self.background(outcome));
        notes.extend(outcome.stuck.as_ref().map(|reasons| {
            format!("{name}: the machine was idle to the end because every task waits: {reasons}")
        }));
        notes.extend(refused_forks(outcome).map(|refused| format!("{name}: {refused}")));
        let messages = outcome.messages.iter().take(NOTED_LINES);
        notes.extend(messages.map(|message| format!("{name} says: {}", message.trim_end())));
        if outcome.messages.len() > NOTED_LINES {
            let more = outcome.messages.len() - NOTED_LINES;
            notes.push(format!("{name} says {more} more lines"));
        }
        notes.extend(given_costs(&self.options.cost));
        notes
    }

    /// How much the kernel's own threads did, if there were any.
    fn background(&self, outcome: &Outcome) -> Option<String> {
        let threads = self.options.surroundings.threads.len();
        let machine = outcome.end.max(1) as f64 * self.options.machine.cpu_count() as f64;
        let part = 100.0 * outcome.time_of_other_threads as f64 / machine;
        (self.noise == Noise::Default).then(|| {
            format!(
                "{threads} threads of the kernel (--noise {}) had {part:.3} % of the CPU time, which is neither idle nor possible for the tasks, and are in no other figure",
                self.noise
            )
        })
    }

    /// CPUs that the workload asks for and the machine lacks, beside those that it has.
    fn lacking_cpus(&self) -> Option<String> {
        let (machine, workload) = (&self.options.machine, &self.options.workload);
        let of_tasks = workload.tasks.iter().flat_map(|task| {
            let phases = task.phases.iter().filter_map(|phase| phase.cpus.as_ref());
            task.cpus.iter().chain(phases)
        });
        let of_arrivals = workload.arrivals.iter().filter_map(|one| one.cpus.as_ref());
        let named = of_tasks.chain(of_arrivals).flatten();
        let lacking: BTreeSet<&u32> = named.filter(|cpu| machine.find(**cpu).is_none()).collect();
        let lacking: Vec<String> = lacking.into_iter().map(u32::to_string).collect();
        (!lacking.is_empty()).then(|| {
            format!(
                "{}: \"cpus\" names CPU {}, and the machine has {}",
                workload.name,
                lacking.join(", "),
                machine.told_numbers(),
            )
        })
    }

    /// CPUs that were to go or come, and groups that were to change, after the end of the run.
    fn changes_after(&self, end: Nanoseconds) -> impl Iterator<Item = String> {
        let Options { hotplug, machine, workload, .. } = &self.options;
        let of_cpus = hotplug.iter().map(|change| {
            let state = if change.online { "online" } else { "offline" };
            (change.at, format!("CPU {} was to be {state}", machine.numbers[change.cpu]))
        });
        let of_groups = workload.groups.iter().filter_map(move |group| {
            let mut late = group.changes.iter().filter(|change| change.at > end);
            let first = late.next()?.at;
            let again = match late.count() {
                0 => String::new(),
                more => format!(", and {more} more times later"),
            };
            Some((first, format!("the settings of group {} were to change{again}", group.path)))
        });
        let late = of_cpus.chain(of_groups).filter(move |(at, _)| *at > end);
        late.map(move |(at, what)| {
            let (name, end, at) = (&workload.name, seconds(end), seconds(at));
            format!("{name} ended after {end}, before the time when {what}, {at}")
        })
    }

    /// Parts of the run that the scheduler does not control: tasks of another class, and programs that only a real kernel runs.
    fn not_under_the_scheduler(&self, outcome: &Outcome) -> Vec<String> {
        let name = self.contender.name();
        let mut notes = Vec::new();
        let fair = outcome.tasks.iter().filter(|task| task.is_fair).count();
        if fair > 0 {
            notes.push(format!(
                "{name}: {fair} of {} tasks are not its own and ran in a stand-in for the kernel's fair class: with SCX_OPS_SWITCH_PARTIAL \
                 a scheduler has those with \"policy\" : \"SCHED_EXT\"",
                outcome.tasks.len()
            ));
        }
        let scheduler = self.contender.scheduler();
        let others = scheduler.map_or_else(|_| Vec::new(), |scheduler| scheduler.unattached());
        if !others.is_empty() {
            notes.push(format!(
                "{name}: a kernel also runs its {}; the simulator does not have these events",
                others.join(", ")
            ));
        }
        notes
    }

    /// Whether the run ended early, and why.
    fn failure_of(&self, outcome: &Outcome) -> Option<Failure> {
        let exit = &outcome.exit;
        let (status, kind, what) = match (exit.kind, &outcome.failure) {
            (ExitKind::Unregistered, None) => return None,
            (ExitKind::Unregistered, Some(failure)) => {
                (Status::Deadlock, Status::Deadlock.name(), failure.clone())
            }
            (_, _) if exit.endless => {
                let status = Status::TimedOut;
                (status, status.name(), format!("it does not end: {}", exit.message))
            }
            (kind, _) => {
                let verb = if kind.is_error() { "ejected" } else { "unloaded" };
                let why = exit::describe(kind.name(), &exit.reason, &exit.message);
                let what = format!("the kernel {verb} the scheduler: {why}");
                (Status::Ejected, kind.name(), what)
            }
        };
        let message = format!("after {}: {what}", seconds(outcome.end));
        Some(Failure {
            kind: kind.to_owned(),
            after_ns: Some(outcome.end),
            dump: exit.dump.clone(),
            ..self.failure(status, message)
        })
    }

    /// The same with the kernel's own threads, if nothing runs beside the workload.
    pub(crate) fn with_background(&self) -> Option<Self> {
        if self.noise == Noise::Default || self.replay.is_some() {
            return None;
        }
        let noise = Noise::Default;
        let threads = noise.threads(&self.options.machine, self.options.seed);
        let surroundings = Surroundings { threads, ..self.options.surroundings.clone() };
        let options = Options { surroundings, ..self.options.clone() };
        Some(Self { options, noise, trace: None, identity: None, ..self.clone() })
    }

    /// The run went on, but not for this task.
    fn starved(&self, starvation: &Starvation, end: Nanoseconds) -> Failure {
        let Starvation { task, wait, beside_idle_ns } = starvation;
        let (kind, until) = match wait.ended {
            true => ("late", String::new()),
            false => ("lost", format!(", to the end of the run at {}", seconds(end))),
        };
        let due = match (self.patience, beside_idle_ns) {
            (Patience::Wait(_), _) => String::new(),
            (_, Some(idle)) => {
                format!(", while a CPU that it may use was idle for {}", time(*idle))
            }
            _ if wait.entitled_ns <= DUE => {
                format!(", more than {LEFT_BEHIND} times as long as any of its equals ever did")
            }
            _ => format!(", and was due {} of CPU time meanwhile", time(wait.entitled_ns)),
        };
        let message = format!(
            "after {}: {task} waited from then on for {}{until}{due}",
            seconds(wait.from_ns),
            time(wait.length_ns)
        );
        Failure { kind: kind.to_owned(), ..self.failure(Status::Starved, message) }
    }

    /// There is no scheduler. `problem` may be the compiler's message, in many lines, of which the first that names an error goes on the first,
    /// as does what is to be done, behind the compiler's last line.
    fn invalid(&self, problem: &str) -> Failure {
        let (first, rest) = problem.split_once('\n').unwrap_or((problem, ""));
        let mut message = format!("before it began: {first}");
        if let Some(error) = rest.lines().find(|line| line.contains("error:")) {
            message.push_str(&format!(" {}", error.trim()));
        }
        let end = rest.find("generated.\n").map_or(rest.len(), |at| at + "generated.\n".len());
        let (said, remedies) = rest.split_at(end);
        for remedy in remedies.lines() {
            message.push_str(&format!(". {remedy}"));
        }
        Failure { dump: said.to_owned(), ..self.failure(Status::Invalid, message) }
    }

    fn failure(&self, status: Status, message: String) -> Failure {
        let workload = &self.options.workload.name;
        Failure {
            machine: self.options.machine.description.clone(),
            ..Failure::new(workload, &self.contender.title(), status, message)
        }
    }
}

impl Failure {
    /// A failure of this sort at an unknown time.
    pub(crate) fn new(workload: &str, scheduler: &str, status: Status, message: String) -> Self {
        Self {
            workload: workload.to_owned(),
            machine: String::new(),
            scheduler: scheduler.to_owned(),
            status,
            kind: status.name().to_owned(),
            message,
            after_ns: None,
            dump: String::new(),
        }
    }

    /// The run in words: its workload, its machine and its scheduler.
    pub fn place(&self) -> String {
        let machine = match self.machine.as_str() {
            "" => String::new(),
            machine => format!(" on {machine}"),
        };
        format!("{}{machine} under {}", self.workload, self.scheduler)
    }

    /// The event, behind the scheduler's name.
    pub fn sentence(&self) -> String {
        let verb = match self.status {
            Status::Starved => "starved a task",
            Status::Unmet => "did not meet",
            _ => "failed",
        };
        format!("{verb} {}", self.message)
    }

    /// The failure as part of a result.
    pub fn as_result(&self) -> fairground_results::Failure {
        fairground_results::Failure {
            kind: self.kind.clone(),
            message: self.sentence(),
            at_ns: self.after_ns,
            explain: None,
        }
    }

    /// Whether this failure is of the same kind as another and at the same place, no matter for which task, on which CPU and after what time.
    /// Whether a starved task still waits at the end depends on when that is.
    pub fn is_like(&self, other: &Self) -> bool {
        self.status == other.status
            && match self.status {
                Status::Starved => true,
                Status::Unmet => self.kind == other.kind,
                _ => essence(&self.message) == essence(&other.message),
            }
    }

    /// Whether this kind and sentence tell of this failure, in whatever run. Rules have kinds of their own, other reasons to stop have their messages.
    pub fn was_told(&self, kind: &str, sentence: &str) -> bool {
        kind == self.kind
            && match self.status {
                Status::Starved | Status::Unmet => true,
                _ => kind == STALL || essence(sentence) == essence(&self.sentence()),
            }
    }
}

/// The kernel's name for the end of a scheduler under which a task waited too long.
pub(crate) const STALL: &str = "SCX_EXIT_ERROR_STALL";

/// The part of a message that is the same in every run: without the time, task names, and numbers other than source lines.
fn essence(message: &str) -> String {
    let what = message.split_once(": ").map_or(message, |(_, what)| what);
    let word = |word: &str| {
        if word.contains(".c:") || word.contains(".h:") {
            return word.to_owned();
        }
        // A task with its number, as the kernel writes it.
        let task = word.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        if task.is_some_and(|(number, _)| number.parse::<u32>().is_ok()) {
            return "TASK".to_owned();
        }
        let letters: String = word.split(|one: char| one.is_ascii_digit()).collect();
        letters.trim_start_matches(['-', '.']).to_owned()
    };
    what.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

fn unwritten(path: &Path, cause: io::Error) -> Error {
    Error::Write { path: path.to_owned(), cause }
}

/// Whether a task of the workload loops forever.
fn is_endless(workload: &Workload) -> bool {
    let goes_on = |phase: &Phase| {
        let is_endless = |event| event == Event::Run(Event::ENDLESS);
        phase.loops.is_none() || phase.events.iter().any(is_endless)
    };
    let mut tasks = workload.tasks.iter();
    tasks.any(|task| !task.daemon && (task.loops.is_none() || task.phases.iter().any(goes_on)))
}

/// Turns the machine's own CPU numbers, with which files are written, into those of the schedulers, which have no gaps.
fn number_cpus(options: &mut Options) {
    let machine = options.machine.clone();
    if !machine.has_gaps() {
        return;
    }
    let number = |cpus: &mut Option<Vec<u32>>| {
        let found = |cpu: &u32| machine.find(*cpu).map(|cpu| cpu as u32);
        if let Some(cpus) = cpus {
            *cpus = cpus.iter().filter_map(found).collect();
        }
    };
    let workload = Arc::make_mut(&mut options.workload);
    for task in &mut workload.tasks {
        number(&mut task.cpus);
        task.phases.iter_mut().for_each(|phase| number(&mut phase.cpus));
    }
    workload.arrivals.iter_mut().for_each(|arrivals| number(&mut arrivals.cpus));
    for thread in &mut options.surroundings.threads {
        number(&mut thread.cpus);
    }
}

/// Names the costs that are plain numbers without an origin.
fn given_costs(cost: &CostModel) -> Option<String> {
    let given: Vec<&str> =
        cost.origins.iter().filter(|(_, origin)| *origin == GIVEN).map(|(name, _)| *name).collect();
    (!given.is_empty()).then(|| format!("costs {GIVEN}, without an origin: {}", given.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_alike_that_differ_in_times_tasks_and_cpus() {
        let alike = |a: &str, b: &str| essence(a) == essence(b);
        let stall = |task, time| {
            format!(
                "after {time}: the kernel ejected it (SCX_EXIT_ERROR_STALL): {task} failed to run for {time}"
            )
        };
        assert!(alike(&stall("hog-1[1002]", "3 s"), &stall("a[1001]", "2.5 s")));
        let place =
            |line| format!("after 1 s: ejected: access beyond a value, at mine.bpf.c:{line}:4");
        assert!(!alike(&place(7), &place(8)));
        assert!(!alike(&stall("a[1]", "1 s"), &place(7)));
        assert!(alike("after 1 s: invalid CPU 5", "after 2 s: invalid CPU -1"));
    }

    #[test]
    fn a_starved_task_is_like_one_that_waits_to_the_end() {
        let failure = |status, kind: &str| Failure {
            kind: kind.to_owned(),
            ..Failure::new("", "", status, String::new())
        };
        let is_like = |status, one, other| failure(status, one).is_like(&failure(status, other));
        assert!(is_like(Status::Starved, "late", "lost"));
        assert!(!is_like(Status::Unmet, "lag", "longest_wait"));
    }
}
