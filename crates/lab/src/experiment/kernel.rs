//! Experiments on a real kernel: the runs to make there, and how to read the output.
//!
//! This module starts nothing. The caller makes the runs and returns their output.

use std::collections::BTreeSet;

use fairground_events::Nanoseconds;
use fairground_metrics::RunMetrics;
use fairground_results::{Status, Where};
use serde::Deserialize;

use super::file::{ColumnFile, CpusFile, ExperimentFile, KernelFile, PointFile};
use super::load::Experiment;
use super::reproduce::{Measured, Measures, Reproduced, Request, Setup, World, keep};
use super::script;
use crate::cell::Failure;
use crate::error::Error;

/// Name of the column of the kernel's own scheduler.
const OWN: &str = "kernel";

/// The machine and its kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelMachine {
    /// In words: the kernel, the processor and everything else that affects a result.
    pub description: String,
    /// CPUs that tasks may use.
    pub cpus: usize,
}

/// One run on a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRun {
    /// Id or path of the scheduler; `None` is the kernel's own.
    pub scheduler: Option<String>,
    /// Its tunables, as `TUNABLE=VALUE`.
    pub settings: Vec<String>,
    /// The load to run under it.
    pub load: KernelLoad,
}

/// A load to run under a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelLoad {
    /// A workload with real threads; its output is the JSON of `fairground play`.
    Play {
        /// Name of the workload.
        name: String,
        /// The rt-app file.
        workload: String,
        /// Length of the run, if not the workload's.
        duration: Option<Nanoseconds>,
        /// Seed for everything that varies.
        seed: u64,
        /// How it is measured.
        metrics: fairground_metrics::Options,
    },
    /// A shell script, with any output.
    Command {
        /// The script.
        script: String,
        /// Variables of its environment.
        variables: Vec<(&'static str, String)>,
    },
}

/// The output of a run, or why it failed.
pub type KernelOutput = Result<String, String>;

/// The part of `fairground play`'s output that is read.
#[derive(Deserialize)]
struct Played {
    scheduler: Option<String>,
    metrics: Option<RunMetrics>,
    notes: Vec<String>,
}

impl ExperimentFile {
    /// The experiment with its `[kernel]` table applied.
    fn on_kernel(&self, kernel: &KernelFile) -> Result<Self, String> {
        let mut file = self.clone();
        file.kernel = None;
        file.seeds = kernel.repeats;
        file.duration = kernel.duration.or(file.duration);
        file.window = kernel.window.or(file.window);
        file.workload = kernel.workload.clone().or(file.workload);
        file.set.extend(kernel.set.clone());
        file.axis = kernel.axis.clone().unwrap_or(file.axis);
        if let Some(points) = &kernel.points {
            keep(&mut file.point, points, |point| &point.name)?;
        }
        if !kernel.point.is_empty() {
            file.point.clone_from(&kernel.point);
        } else if kernel.duration.is_some() {
            file.point.iter_mut().for_each(|point| point.duration = None);
        }
        // A run on a kernel is repeated as often as any other.
        file.column.iter_mut().for_each(|one| one.seeds = None);
        // The machine is the one that is there.
        file.column.retain(|one| one.machine.is_none());
        file.point.iter_mut().for_each(|one| one.seeds = None);
        if kernel.command.is_some() {
            file.measure.clear();
            file.plot.clear();
            file.fit.clear();
        } else if let Some(measures) = &kernel.measures {
            keep(&mut file.measure, measures, |measure| &measure.name)?;
        }
        for measure in &kernel.measure {
            file.measure.retain(|one| one.name != measure.name);
            file.measure.push(measure.clone());
        }
        if let Some(lines) = &kernel.lines {
            keep(&mut file.accept, lines, |line| &line.id)?;
        }
        // Reasons are about simulations, so they do not apply.
        for line in &mut file.accept {
            (line.reason, line.cause) = (None, None);
        }
        for line in &kernel.accept {
            let mut ours = self.accept.iter().filter(|one| one.id == line.id);
            if ours.any(|one| (one.level, &one.claim) != (line.level, &line.claim)) {
                return Err(format!(
                    "kernel: line {0} claims something else than the experiment's line {0}; give it a name of its own",
                    line.id
                ));
            }
        }
        file.accept.extend(kernel.accept.iter().cloned());
        if let Some(headline) = &mut file.headline {
            let accept = &file.accept;
            headline.lines.retain(|id| accept.iter().any(|line| line.id == *id));
        }
        file.caveats.clone_from(&kernel.caveats);
        Ok(file)
    }
}

impl Experiment {
    /// Whether the experiment has a `[kernel]` table.
    pub fn has_kernel(&self) -> bool {
        self.file.kernel.is_some()
    }

    /// The experiment as it runs on a real kernel.
    pub(super) fn on_kernel(&self) -> Result<Option<Self>, Error> {
        let Some(kernel) = &self.file.kernel else { return Ok(None) };
        Ok(Some(Self {
            id: self.id.clone(),
            place: self.place.clone(),
            file: self.file.on_kernel(kernel).map_err(|error| self.wrong(error))?,
            document: self.document.clone(),
            kernel: None,
        }))
    }

    /// Why the experiment cannot run on a machine with this many CPUs; `None` if it can.
    pub fn obstacle_on_kernel(
        &self,
        cpus: usize,
        has_program: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let Some(kernel) = &self.file.kernel else {
            return Some("runs in the simulator only".to_owned());
        };
        let wanted = match kernel.cpus {
            Some(CpusFile::Exactly(number)) if number != cpus => Some(("exactly", number)),
            Some(CpusFile::AtLeast(number)) if number > cpus => Some(("at least", number)),
            _ => None,
        };
        if let Some((bound, number)) = wanted {
            return Some(format!(
                "needs a machine with {bound} {number} CPU{}, and this one has {cpus}; \
                 testbench/boot --cpus {number} boots a virtual one",
                if number == 1 { "" } else { "s" }
            ));
        }
        let programs = kernel.programs.iter();
        let missing: Vec<_> = programs.filter(|(name, _)| !has_program(name)).collect();
        if missing.is_empty() {
            return None;
        }
        let names: Vec<&str> = missing.iter().map(|(name, _)| name.as_str()).collect();
        let packages: BTreeSet<&str> = missing.iter().map(|(_, one)| one.as_str()).collect();
        let packages: Vec<&str> = packages.into_iter().collect();
        Some(format!(
            "needs {}; on Debian: apt install {}",
            names.join(" and "),
            packages.join(" ")
        ))
    }
}

/// Runs `experiment` on a kernel: `run` makes one run and returns its output, or why it failed. `progress` is called with the number of
/// finished runs and the total.
///
/// # Errors
///
/// If a file of the experiment cannot be used, or if `run` returns an error. A failed run is not an error: see [`Reproduced::failures`].
pub fn reproduce_on_kernel(
    experiment: &Experiment,
    request: &Request,
    machine: &KernelMachine,
    run: &mut dyn FnMut(&KernelRun) -> Result<KernelOutput, Error>,
    progress: &dyn Fn(usize, usize),
) -> Result<Reproduced, Error> {
    let (Some(kernel), Some(experiment)) = (&experiment.file.kernel, experiment.on_kernel()?)
    else {
        return Err(experiment.wrong("has no [kernel] table".to_owned()));
    };
    let mut setup = Setup::new(&experiment, request)?;
    setup.columns.push(ColumnFile { scheduler: OWN.to_owned(), ..ColumnFile::default() });
    setup.fits.insert("cpus".to_owned(), machine.cpus as f64);
    let measures = Measures::compile(&experiment)?;
    let runs = Runs { setup, kernel, measures };
    let results = runs.make(run, progress)?;
    let mut notes = Vec::new();
    if let Some(duration) = request.duration {
        let seconds = duration as f64 / 1e9;
        notes.push(format!("runs of {seconds} s were asked for"));
    }
    if runs.setup.seeds == 1 {
        notes.push("a single run does not show how much of it is chance".to_owned());
    }
    runs.setup.outcome(
        results,
        World { name: Where::Kernel, machine: machine.description.clone(), notes },
    )
}

/// The results of a run: its measures, why it failed, its notes.
type Given = (Measured, Option<Failure>, Vec<String>);

/// The runs of an experiment.
struct Runs<'a> {
    setup: Setup<'a>,
    kernel: &'a KernelFile,
    measures: Measures,
}

impl Runs<'_> {
    /// Makes all runs. Repetitions are the outermost loop, so that a change of the machine in between affects all columns alike.
    fn make(
        &self,
        run: &mut dyn FnMut(&KernelRun) -> Result<KernelOutput, Error>,
        progress: &dyn Fn(usize, usize),
    ) -> Result<Vec<Given>, Error> {
        let (points, columns) = (&self.setup.points, &self.setup.columns);
        let repeats = self.setup.seeds as usize;
        let places = points.len() * columns.len();
        let mut given: Vec<Vec<Given>> = (0..places).map(|_| Vec::new()).collect();
        for repeat in 0..repeats {
            for place in 0..places {
                let (point, column) =
                    (&points[place / columns.len()], &columns[place % columns.len()]);
                // A figure needs all of its runs: after one has failed, the others are useless.
                let failed = given[place].iter().any(|(_, failure, _)| failure.is_some());
                let one = if failed {
                    (self.measures.none("a run failed"), None, Vec::new())
                } else {
                    let wanted = self.run(point, column, repeat as u64)?;
                    self.read(&wanted, point, column, repeat, run(&wanted)?)
                };
                given[place].push(one);
                progress(repeat * places + place + 1, repeats * places);
            }
        }
        Ok(given.into_iter().flatten().collect())
    }

    /// The run for a point and column.
    fn run(&self, point: &PointFile, column: &ColumnFile, seed: u64) -> Result<KernelRun, Error> {
        let setup = &self.setup;
        let duration = setup.duration(point);
        let load = match &self.kernel.command {
            Some(script) => {
                let mut variables =
                    vec![("point", point.name.clone()), ("cpus", setup.fits["cpus"].to_string())];
                if let Some(duration) = duration {
                    variables.push(("seconds", (duration as f64 / 1e9).to_string()));
                }
                KernelLoad::Command { script: script.clone(), variables }
            }
            None => KernelLoad::Play {
                name: setup.experiment.id.clone(),
                workload: setup.experiment.workload_text(point, &setup.fits)?.1,
                duration,
                seed,
                metrics: setup.metrics(),
            },
        };
        let settings = column.settings();
        Ok(KernelRun {
            scheduler: (column.scheduler != OWN).then(|| column.scheduler.clone()),
            settings: settings.map(|(tunable, value)| format!("{tunable}={value}")).collect(),
            load,
        })
    }

    /// Reads the output of a run.
    fn read(
        &self,
        run: &KernelRun,
        point: &PointFile,
        column: &ColumnFile,
        repeat: usize,
        output: KernelOutput,
    ) -> Given {
        let attached = |name: &str| {
            let settings = match run.settings.as_slice() {
                [] => String::new(),
                settings => format!(" with {}", settings.join(", ")),
            };
            format!("{} is {name}{settings}", column.name())
        };
        let read = output.and_then(|output| {
            if let KernelLoad::Command { .. } = run.load {
                let scope = script::scope_of_output(&output, &point.name, &self.setup.fits);
                let name = match &run.scheduler {
                    Some(scheduler) => format!("the sched_ext scheduler {scheduler}"),
                    None => "the kernel's own scheduler".to_owned(),
                };
                return Ok((self.measures.of(Ok(scope)), vec![attached(&name)]));
            }
            let played: Played = serde_json::from_str(&output)
                .map_err(|error| format!("not the JSON of fairground play: {error}"))?;
            let name = match (&played.scheduler, &run.scheduler) {
                (Some(name), Some(_)) => format!("the sched_ext scheduler {name}"),
                (None, None) => "the kernel's own scheduler".to_owned(),
                (Some(name), None) => return Err(format!("{name} was in charge")),
                (None, Some(_)) => return Err("the scheduler was not in charge".to_owned()),
            };
            let mut notes = vec![attached(&name)];
            let metrics = played.metrics.ok_or_else(|| played.notes.join("; "))?;
            notes.extend(played.notes);
            let scope = script::scope_of_metrics(metrics, &point.name, &self.setup.fits);
            Ok((self.measures.of(scope), notes))
        });
        match read {
            Ok((measured, notes)) => (measured, None, notes),
            Err(reason) => {
                let place = match point.name.as_str() {
                    "" => String::new(),
                    point => format!(" at {point}"),
                };
                let message = format!("in run {}{place}: {reason}", repeat + 1);
                let experiment = &self.setup.experiment.id;
                let failure = Failure::new(experiment, column.name(), Status::Ejected, message);
                (self.measures.none("a run failed"), Some(failure), Vec::new())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::load::Experiments;
    use super::*;

    const PLAYED: &str = r#"
        title = "t"
        document = "d"
        section = "s"
        machine = "none"
        workload = "workload.json"
        duration = 300
        axis = "threads"
        set = { "/tasks/a/run" = 5 }
        [[point]]
        name = "1"
        duration = 200
        [[point]]
        name = "2"
        [[column]]
        scheduler = "o1"
        set = { hz = 100, release = "2.6.2" }
        [[measure]]
        name = "time"
        title = "Time"
        value = "run.duration_ns / s"
        [[measure]]
        name = "other"
        title = "Other"
        value = "1"
        [[accept]]
        id = "A1"
        level = "S"
        claim = "c"
        holds = "true"
        reason = "in the simulator"
        [[accept]]
        id = "A2"
        level = "S"
        claim = "c"
        holds = "true"
        "#;

    /// Opens an experiment with this file.
    fn open(text: &str) -> Result<Experiment, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine");
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("experiment.toml"), text).unwrap();
        Experiments::open(path.to_str().unwrap())
    }

    #[test]
    fn the_kernels_table_changes_what_it_names() {
        let kernel = r#"
            [kernel]
            duration = 3
            points = ["1"]
            set = { "/tasks/a/instance" = "= cpus + 1" }
            lines = ["A1"]
            [[kernel.measure]]
            name = "time"
            title = "Shorter"
            value = "2"
            [[kernel.accept]]
            id = "K1"
            level = "X"
            claim = "c"
            holds = "true"
            "#;
        let experiment = open(&format!("{PLAYED}{kernel}")).unwrap();
        let file = experiment.on_kernel().unwrap().unwrap().file;
        assert_eq!((file.seeds, file.duration), (5, Some(3.0)));
        assert_eq!((file.point.len(), file.point[0].duration), (1, None));
        assert_eq!(file.set.len(), 2);
        let lines: Vec<&str> = file.accept.iter().map(|line| line.id.as_str()).collect();
        assert_eq!(lines, ["A1", "K1"]);
        assert_eq!(file.accept[0].reason, None);
        let titles: Vec<&str> = file.measure.iter().map(|one| one.title.as_str()).collect();
        assert_eq!(titles, ["Other", "Shorter"]);

        let error = open(&format!("{PLAYED}[kernel]\nlines = [\"A3\"]")).err().unwrap();
        assert!(error.to_string().contains(r#"there is no "A3""#), "{error}");
        let other = kernel.replace("K1", "A2");
        let error = open(&format!("{PLAYED}{other}")).err().unwrap();
        assert!(error.to_string().contains("line A2 claims something else"), "{error}");
        let same = other.replace("\"X\"", "\"S\"");
        assert!(open(&format!("{PLAYED}{same}")).is_ok());
        let error = open(&format!("{PLAYED}[kernel]\nhz = 3")).err().unwrap();
        assert!(error.to_string().contains("unknown field `hz`"), "{error}");
    }

    #[test]
    fn what_is_missing_is_said() {
        let obstacle = |kernel: &str, cpus| {
            let experiment = open(&format!("{PLAYED}{kernel}")).unwrap();
            let obstacle = experiment.obstacle_on_kernel(cpus, |name| name == "sh");
            obstacle.unwrap_or_default()
        };
        assert!(obstacle("", 1).contains("in the simulator only"));
        let one = "[kernel]\ncpus = { exactly = 1 }";
        assert_eq!(obstacle(one, 1), "");
        assert!(obstacle(one, 2).contains("exactly 1 CPU, and this one has 2"));
        let two = "[kernel]\ncpus = { at_least = 2 }";
        assert_eq!(obstacle(two, 4), "");
        assert!(obstacle(two, 1).contains("at least 2 CPUs"));
        let programs = "[kernel]\nprograms = { sh = \"dash\", node = \"nodejs\" }";
        assert_eq!(obstacle(programs, 1), "needs node; on Debian: apt install nodejs");
    }

    #[test]
    fn measures_of_a_command_are_read_from_its_output() {
        let kernel = r#"
            [kernel]
            repeats = 2
            command = "echo"
            points = ["2"]
            lines = []
            [[kernel.measure]]
            name = "total"
            title = "Total"
            unit = "s"
            value = 'output.number(`total:\s+([0-9.]+)s`) * x'
            [[kernel.measure]]
            name = "sum"
            title = "Sum"
            value = 'output.numbers(`([0-9.]+)s`).sum()'
            [[kernel.measure]]
            name = "none"
            title = "None"
            value = 'output.number(`nothing ([0-9]+)`)'
            [[kernel.accept]]
            id = "K1"
            level = "S"
            claim = "o1 is faster than the kernel's own"
            holds = 'below(at("o1", "2", "total"), at("kernel", "2", "total")) && columns.len() == 1'
            "#;
        let experiment = open(&format!("{PLAYED}{kernel}")).unwrap();
        let request = Request {
            schedulers: vec!["broken".into()],
            duration: Some(1_500_000_000),
            ..Request::default()
        };
        let machine = KernelMachine { description: "here".into(), cpus: 3 };
        let mut runs = Vec::new();
        let mut run = |run: &KernelRun| {
            runs.push(run.clone());
            Ok(match run.scheduler.as_deref() {
                Some("broken") => Err("no way".to_owned()),
                Some(_) => Ok("total:  1.5s".to_owned()),
                None => Ok(format!("total:  {}s", 2 * runs.len())),
            })
        };
        let outcome =
            reproduce_on_kernel(&experiment, &request, &machine, &mut run, &|_, _| {}).unwrap();

        assert_eq!(runs.len(), 5, "a column that failed is left alone");
        assert_eq!(runs[0].settings, ["hz=100", "release=2.6.2"]);
        let expected = [("point", "2"), ("cpus", "3"), ("seconds", "1.5")];
        let KernelLoad::Command { variables, .. } = &runs[0].load else {
            panic!("it is a command");
        };
        assert!(variables.iter().map(|(name, value)| (*name, value.as_str())).eq(expected));

        let reproduction = &outcome.reproduction;
        assert_eq!(reproduction.columns, ["o1", "broken", "kernel"]);
        let total = &reproduction.figures[0].here[0];
        assert_eq!(total[0].unwrap().mean, 3.0);
        assert_eq!(total[1], None);
        assert_eq!(total[2].unwrap().samples, 2);
        assert_eq!(reproduction.figures[1].here[0][0].unwrap().mean, 1.5);
        assert_eq!(reproduction.figures[2].here[0][0], None);
        assert_eq!(reproduction.verdicts.len(), 1);
        let messages: Vec<&str> = outcome.failures.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(messages, ["in run 1 at 2: no way"]);
        let told = |text: &str| reproduction.notes.iter().any(|note| note.contains(text));
        assert!(told("o1 is the sched_ext scheduler o1 with hz=100"));
        assert!(told("kernel is the kernel's own scheduler"));
        assert!(told("nothing in the output matches"));
    }

    #[test]
    fn a_run_under_another_scheduler_is_a_failure() {
        let experiment = open(&format!("{PLAYED}[kernel]\nrepeats = 1")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let experiment = Experiment {
            place: super::super::load::Place::Folder(folder.path().to_owned()),
            ..experiment
        };
        std::fs::create_dir(folder.path().join("mine")).unwrap();
        let workload = r#"{ "tasks": { "a": { "run": 1 } } }"#;
        std::fs::write(folder.path().join("mine/workload.json"), workload).unwrap();
        let machine = KernelMachine { description: "here".into(), cpus: 1 };
        let mut run = |run: &KernelRun| {
            let KernelLoad::Play { workload, duration, .. } = &run.load else {
                panic!("it is a workload");
            };
            assert!(workload.contains(r#""run":5"#), "{workload}");
            assert!(duration.is_some());
            Ok(Ok(r#"{ "scheduler": null, "metrics": null, "notes": ["no recorder"] }"#.to_owned()))
        };
        let request = Request::default();
        let outcome =
            reproduce_on_kernel(&experiment, &request, &machine, &mut run, &|_, _| {}).unwrap();
        let messages: Vec<&str> = outcome.failures.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "in run 1 at 1: the scheduler was not in charge",
                "in run 1 at 1: no recorder",
                "in run 1 at 2: the scheduler was not in charge",
                "in run 1 at 2: no recorder"
            ]
        );
    }
}
