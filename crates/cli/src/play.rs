//! `fairground play`: a workload with real threads on this kernel.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use fairground_kernel::play::{self, OnlineCpu, Report};
use fairground_kernel::supervise::Signals;
use fairground_kernel::{Error, host};
use fairground_machine::Machine;
use fairground_metrics::{Options as Metrics, RunMetrics};
use fairground_recording::Source;
use fairground_report::{Comparison, Document, Labels, Run, Style, comparison_table, csv_of};
use fairground_results::{Breach, Recipe, Requirement};
use fairground_workload::{Template, Workload};
use schemars::JsonSchema;
use serde::Serialize;

use crate::VERSION;
use crate::loads::Wanted;
use crate::output::{FAILED, Format, Stop, print};
use crate::quantity::{nanoseconds, window};

/// Run a workload with real threads on this kernel
///
/// The tasks of an rt-app file run as threads under the scheduler in charge: the kernel's own, or one that `fairground run` has
/// loaded. With root, the kernel's scheduler events are recorded and the metrics are those of `fairground compare`; without root,
/// they are CPU times and the threads' own measurements.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground play workload.json
  sudo fairground run o1 --user root -- fairground play workload.json --duration 10s --format json")]
pub struct Arguments {
    /// An rt-app file, the name of a load (`fairground list --loads`), or a recording (`fairground record`); NAME:PARAMETER=VALUE,... sets
    /// the parameters of a load or file
    workload: PathBuf,

    /// End after this time, such as 500ms or 10s, instead of the file's own duration
    #[arg(short, long, value_parser = nanoseconds)]
    duration: Option<u64>,

    /// Seed of the random numbers of events that vary
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Length of the windows in which shares are compared [default: 3s]
    #[arg(long, value_name = "TIME", value_parser = window)]
    window: Option<u64>,

    /// List every lap, job, window and the like of each task in the JSON
    #[arg(long)]
    records: bool,

    /// A requirement of the run, as for compare, such as 'idle_beside_waiting < 5ms'; fail if it is not met. Needs root. May be given several
    /// times
    #[arg(long, value_name = "REQUIREMENT", value_parser = requirement)]
    require: Vec<Requirement>,

    /// Form of the result
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    let (report, breaches) = played(arguments)?;
    if arguments.format != Format::Json {
        for note in &report.notes {
            crate::output::say!("fairground: {note}");
        }
    }
    print(&match arguments.format {
        Format::Table => table(&report),
        Format::Csv => csv_of(lines(&report)),
        Format::Json => Played::of(&report, &breaches).text(),
    })?;
    for breach in &breaches {
        let (scheduler, sentence) = (report.scheduler_name(), breach.sentence());
        crate::output::say!("fairground: {scheduler} did not meet {sentence}");
    }
    Ok(ended(&breaches))
}

/// The exit code of a run that went on to its end.
fn ended(breaches: &[Breach]) -> ExitCode {
    match breaches {
        [] => ExitCode::SUCCESS,
        _ => ExitCode::from(FAILED),
    }
}

/// A requirement that needs no other run.
fn requirement(text: &str) -> Result<Requirement, String> {
    let requirement: Requirement = text.parse()?;
    match requirement.reference() {
        None => Ok(requirement),
        Some(other) => Err(format!(
            "{other} does not run here; only compare and check hold schedulers against each other"
        )),
    }
}

/// Plays the workload; returns the report, and where it falls short of what is required.
fn played(arguments: &Arguments) -> Result<(Report, Vec<Breach>), Error> {
    if !arguments.require.is_empty() {
        host::check_root("measuring what --require is about")?;
    }
    let workload = read(&arguments.workload).map_err(|reason| Error::Usage { reason })?;
    let mut signals = Signals::take()?;
    let options = play::Options {
        duration: arguments.duration,
        seed: arguments.seed,
        metrics: Metrics {
            window: arguments.window.unwrap_or(Metrics::default().window),
            records: arguments.records,
        },
    };
    let report = play::play(&workload, &options, &online_cpus(), tunables, &mut signals)?;
    let breaches =
        judged(report.metrics.as_ref(), &arguments.require, &report.notes, report.cpus_changed)?;
    Ok((report, breaches))
}

/// Where a run falls short of what is required. One whose CPUs changed decides nothing: the metrics count those of its start.
fn judged(
    metrics: Option<&RunMetrics>,
    required: &[Requirement],
    notes: &[String],
    cpus_changed: bool,
) -> Result<Vec<Breach>, Error> {
    match (metrics, required) {
        (_, []) => Ok(Vec::new()),
        (Some(metrics), required) => {
            for one in required {
                let changed = cpus_changed.then(|| "CPUs went offline or came online".to_owned());
                let lack = || one.undecided(metrics, None).map(|lack| lack.words());
                if let Some(lack) = changed.or_else(lack) {
                    crate::output::say!("fairground: '{one}' is undecided: {lack}");
                }
            }
            let decided = required.iter().filter(|_| !cpus_changed);
            Ok(decided.filter_map(|one| one.breach(metrics, None)).collect())
        }
        (None, _) => Err(Error::Usage {
            reason: format!("--require: nothing was measured: {}", notes.join("; ")),
        }),
    }
}

/// The CPUs of this machine; all count as equal if it cannot be described.
fn online_cpus() -> Vec<OnlineCpu> {
    match Machine::parse("host") {
        Ok(machine) => {
            let capacities = machine.cpus.iter().map(|cpu| cpu.capacity);
            machine.numbers.iter().copied().zip(capacities).collect()
        }
        Err(_) => (0..).map(|cpu| (cpu, 1024)).take(host::online_cpus()).collect(),
    }
}

/// The tunables of the catalogue's `scheduler` whose `values` are not the defaults, as a user writes them; `None` for any other scheduler.
fn tunables(scheduler: &str, values: &BTreeMap<String, i128>) -> Option<BTreeMap<String, String>> {
    let known = fairground_catalog::find(scheduler).ok()?;
    let mut set = BTreeMap::new();
    for tunable in &known.manifest.tunables {
        let value = *values.get(&tunable.name)?;
        if value != tunable.default {
            set.insert(tunable.name.clone(), tunable.format_value(value));
        }
    }
    Some(set)
}

/// Reads an rt-app file, a load with a name, or a recording.
fn read(written: &Path) -> Result<Workload, String> {
    let wanted = Wanted::parse(written)?;
    let template = match wanted.named() {
        Some(named) => named,
        None => match Source::open(wanted.path).map_err(|error| error.to_string())? {
            Source::Recording(recording) => {
                wanted.check_none()?;
                let load = recording.load().map_err(|error| error.to_string())?;
                return Ok(load.for_threads());
            }
            Source::Other(rest) => Template::read_rest(&wanted.path.display().to_string(), rest),
        },
    };
    let host = Machine::parse("host").ok();
    let filled = template.and_then(|template| {
        template.workload(&fairground_workload::Arguments {
            cpus: host.map(|host| host.cpu_count() as u32),
            values: wanted.values,
        })
    });
    filled.map_err(|error| error.to_string())
}

/// The document that `fairground play --format json` prints. Times are in nanoseconds.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "Run with real threads", extend("unevaluatedProperties" = false))]
pub struct Played<'a> {
    /// Version of this form.
    version: u32,
    /// Version of fairground, with its commit.
    fairground: &'static str,
    #[serde(flatten)]
    report: &'a Report,
    /// The requirements that the run does not meet.
    breaches: &'a [Breach],
}

impl Document for Played<'_> {
    const COMMAND: &'static str = "play";
    const VERSION: u32 = 1;
}

impl<'a> Played<'a> {
    fn of(report: &'a Report, breaches: &'a [Breach]) -> Self {
        Self { version: Self::VERSION, fairground: VERSION, report, breaches }
    }
}

/// A task's line in the CSV.
#[derive(Serialize)]
struct Line<'a> {
    workload: &'a str,
    scheduler: Option<&'a str>,
    tunables: String,
    task: &'a str,
    cpu_time_ns: u64,
    share: f64,
    voluntary_switches: u64,
    involuntary_switches: u64,
    jobs_completed: Option<u64>,
    jobs_missed: Option<u64>,
}

fn lines(report: &Report) -> impl Iterator<Item = Line<'_>> {
    report.tasks.iter().map(|task| Line {
        workload: &report.workload,
        scheduler: report.scheduler.as_deref(),
        tunables: report.settings().join(" "),
        task: &task.name,
        cpu_time_ns: task.cpu_time_ns,
        share: task.share,
        voluntary_switches: task.voluntary_switches,
        involuntary_switches: task.involuntary_switches,
        jobs_completed: task.periods.map(|periods| periods.completed),
        jobs_missed: task.periods.map(|periods| periods.missed),
    })
}

/// The threads' measurements, followed by the metrics as `fairground compare` prints them.
fn table(report: &Report) -> String {
    let mut text = report.table();
    if let Some(metrics) = &report.metrics {
        let recipe = Recipe {
            workload: report.workload.clone(),
            scheduler: report.scheduler_name().to_owned(),
            machine: "host".to_owned(),
            tunables: report.tunables.clone().unwrap_or_default(),
            duration_ns: Some(report.duration_ns),
            ..Recipe::default()
        };
        let comparison = Comparison {
            runs: vec![Run {
                labels: Labels { recipe: recipe.into(), ..Labels::default() },
                metrics: Some(Box::new(metrics.clone())),
                ..Run::default()
            }],
            ..Comparison::default()
        };
        text.push('\n');
        text.push_str(&comparison_table(&comparison, Style::default()));
    }
    text
}

#[cfg(test)]
mod tests {
    use fairground_metrics::{MachineFacts, Metrics};

    use super::*;

    #[test]
    fn a_run_is_judged_by_its_own_measures_only() {
        assert!(requirement("longest_wait < 5ms").is_ok());
        let error = requirement("wakeup_p99 < 3x eevdf").unwrap_err();
        assert!(error.starts_with("eevdf does not run here"), "{error}");
        let error = requirement("longest_weight < 5ms").unwrap_err();
        assert!(error.contains("there is no measure"), "{error}");
    }

    #[test]
    fn a_requirement_that_is_not_met_is_told_and_ends_with_1() {
        let facts = MachineFacts { capacities: vec![1024] };
        let metrics = RunMetrics {
            longest_wait_ns: Some(7_000_000),
            ..Metrics::new(facts, Default::default()).result()
        };
        let judge = |text: &str| {
            let required = [requirement(text).unwrap()];
            judged(Some(&metrics), &required, &[], false).unwrap()
        };
        assert_eq!(judge("longest_wait < 8ms"), []);
        let unmet = judge("longest_wait < 5ms");
        assert_eq!(unmet[0].sentence(), "'longest_wait < 5ms' with 7.00 ms");
        let code = |breaches: &[Breach]| format!("{:?}", ended(breaches));
        assert_eq!(code(&unmet), format!("{:?}", ExitCode::from(FAILED)));
        assert_eq!(code(&[]), format!("{:?}", ExitCode::SUCCESS));
        let required = [requirement("longest_wait < 5ms").unwrap()];
        let changed = judged(Some(&metrics), &required, &[], true).unwrap();
        assert_eq!(changed, [], "it is undecided");
    }

    #[test]
    fn what_was_not_measured_cannot_be_judged() {
        let required = [requirement("longest_wait < 5ms").unwrap()];
        let notes = ["the kernel has no tracepoints".to_owned()];
        let error = judged(None, &required, &notes, false).unwrap_err().to_string();
        assert!(
            error.contains("--require: nothing was measured: the kernel has no tracepoints"),
            "{error}"
        );
        assert_eq!(judged(None, &[], &notes, false).unwrap(), []);
    }

    #[test]
    fn tunables_are_named_that_are_not_at_their_defaults() {
        let o1 = fairground_catalog::find("o1").expect("it is built in");
        let mut values: BTreeMap<String, i128> = o1
            .manifest
            .tunables
            .iter()
            .map(|tunable| (tunable.name.clone(), tunable.default))
            .collect();
        values.insert("nr_cpu_ids".to_owned(), 4);
        assert_eq!(tunables("o1", &values), Some(BTreeMap::new()));
        values.insert("hz".to_owned(), 100);
        let set = BTreeMap::from([("hz".to_owned(), "100 Hz".to_owned())]);
        assert_eq!(tunables("o1", &values), Some(set));
    }

    #[test]
    fn nothing_is_said_of_tunables_that_are_not_known() {
        assert_eq!(tunables("own", &BTreeMap::new()), None);
        // A scheduler of the user's own that is also named o1.
        assert_eq!(tunables("o1", &BTreeMap::new()), None);
    }
}
