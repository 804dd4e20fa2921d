//! `fairground compare`: workloads under several schedulers in the simulator.

use fairground_report::Forms as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use fairground_lab::{Contender, Kept, Plan, Results};
use fairground_report::{Comparison, FEW_TASKS, Style, TaskTables};
use fairground_results::{Condition, Difference, Patience, Requirement, differences};

use crate::VERSION;
use crate::annotations;
use crate::failures;
use crate::output::{self, DocumentForm, FAILED, Place, Progress};
use crate::quantity::patience;
use crate::shrink::shrink;
use crate::simulation::{Simulation, quoted};

/// Compare schedulers in the simulator
///
/// Every workload runs under every scheduler in virtual time, and the metrics are printed side by side. The same arguments give
/// the same output, on any machine and for any number of threads.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground compare video.json
  fairground compare hogs.json -s o1,cfs -m 'numa:2 core:4 pu:2' -d 30s --report hogs.html
  fairground compare hogs.json -s linux24,./mine.bpf.c --set linux24.hz=1000 --repeat 5
  fairground compare *.json -s old=v1/mine.bpf.c,new=mine.bpf.c -m 4 -m 'numa:2 core:4 pu:2'
  fairground compare hogs.json -s cfs --set sched_latency=6ms,12ms,24ms
  fairground compare hogs.json -s ./main.bpf.c --with mine.toml --set mine.slice_us=5000
  fairground compare hogs.json -s 'cfs,exec:scx_bpfland --slice-us 5000' -m 'numa:2 core:4 pu:2'
  fairground compare hogs.json --cost zero --trace traces --format json
  fairground compare hogs.json -s ./mine.bpf.c --shrink failures
  fairground compare *.json -s old.bpf.c,new.bpf.c --baseline old --fail-if worse")]
pub struct Arguments {
    /// Ids (see `fairground list`), paths of sched_ext sources (.bpf.c) or objects (.o) of your own, or all; may be given several
    /// times
    ///
    /// A folder, or sources joined by '+', are linked into one scheduler. FILE#TABLE picks the scheduler with this table of
    /// callbacks from an object with several.
    ///
    /// `kernel` is the kernel's own scheduler: eevdf stands for it, without the costs of callbacks.
    ///
    /// 'exec:LOADER ARGUMENTS' runs a scheduler's real loader, captures its settings for the machine of --machine, and compares its scheduler.
    ///
    /// NAME=PATH gives a scheduler another name in results, so that the same one can take part several times, and PATH{...} settings
    /// and macros of its own: 'old=v1/mine.bpf.c,new=mine.bpf.c', 'cfs,fine=cfs{sched_min_granularity=0.25ms}',
    /// 'a=mine.bpf.c,b=mine.bpf.c{-DVARIANT=2}'.
    #[arg(short, long, value_name = "[NAME=]ID|PATH|exec:LOADER,...", default_value = "all")]
    schedulers: Vec<String>,

    #[command(flatten)]
    simulation: Simulation,

    /// Repeat every run this many times; tables show the median and the spread [default: 10 with --baseline or --report, else 1]
    #[arg(long, value_name = "TIMES", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: Option<u32>,

    /// Compare each scheduler with this one, run by run with the same seeds: for each measure the difference with its 95 % interval, and
    /// whether it is better, worse, the same, or undecided
    #[arg(long, value_name = "ID|PATH")]
    baseline: Option<String>,

    /// End with exit status 1 if a scheduler is worse than the baseline, or if a measure differs from it by more than this, such as
    /// 'wakeup_p99 > +10 %' or 'throughput < -1 %'; may be given several times
    #[arg(long, value_name = "worse|CONDITION", requires = "baseline", allow_hyphen_values = true)]
    fail_if: Vec<Condition>,

    /// Requirement on every run, such as 'idle_beside_waiting < 5ms' or 'throughput > 99 %'; may be given several times
    ///
    /// On the left is a measure of docs/metrics.md, with 'of TASK' that of a task: 'longest_wait of audio < 2ms'. On the right is a number with its
    /// unit, or a multiple of another scheduler's value under the same conditions, 'wakeup_p99 < 3x eevdf', or of another measure of the run,
    /// 'wakeup_p50 of s < 0.5x longest_wait of h'. Runs that are otherwise take no part in rankings, and the exit status is 1.
    #[arg(long, value_name = "REQUIREMENT")]
    require: Vec<Requirement>,

    /// Also write the result as JUnit XML: a test for each run, and for each measure that is compared with the baseline
    #[arg(long, value_name = "FILE.xml")]
    junit: Option<PathBuf>,

    /// Also write the comparison as HTML
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,

    /// Write runs/runs.parquet and tasks/tasks.parquet into this folder: a row for each run, and one for each task of each run
    #[arg(short, long, alias = "out", value_name = "FOLDER")]
    output: Option<PathBuf>,

    /// Write a trace of every run into this folder
    #[arg(long, value_name = "FOLDER")]
    trace: Option<PathBuf>,

    /// Form of the traces
    #[arg(long, value_enum, default_value_t = TraceForm::Perfetto, requires = "trace")]
    trace_form: TraceForm,

    /// How long a task may wait, such as 2s, before its run counts as starved, or off
    ///
    /// Without it, the bound is not a length of time but a missed service: 500 ms of CPU time that a fair machine would have given it in
    /// this one wait. Starved runs take no part in rankings, and the exit status is 1.
    #[arg(long, value_name = "TIME|off", value_parser = patience)]
    starved: Option<Patience>,

    /// Shrink the runs that fail or starve a task: for each, write the smallest workload found that fails in the same way into this folder, and
    /// print the command that runs it on the smallest machine for the shortest time
    #[arg(long, value_name = "FOLDER")]
    shrink: Option<PathBuf>,

    /// Form of the result
    #[arg(long, value_enum, default_value_t = DocumentForm::Table)]
    format: DocumentForm,

    /// Show the tasks' shares even if there are many tasks
    #[arg(long)]
    tasks: bool,
}

/// Form of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TraceForm {
    /// For ui.perfetto.dev
    Perfetto,
    /// The switches as text, a line "TIME CPU NEXT" each, in nanoseconds: to be compared with those of others
    Switches,
}

impl From<TraceForm> for fairground_lab::TraceForm {
    fn from(form: TraceForm) -> Self {
        match form {
            TraceForm::Perfetto => Self::Perfetto,
            TraceForm::Switches => Self::Switches,
        }
    }
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> ExitCode {
    run(arguments).unwrap_or_else(|code| code)
}

fn run(arguments: &Arguments) -> Result<ExitCode, ExitCode> {
    let plan = arguments.simulation.plan(&arguments.schedulers);
    let mut plan = Plan {
        repeats: arguments.repeats(),
        patience: arguments.starved.unwrap_or_default(),
        kept: arguments.kept(),
        traces: arguments.trace.clone().map(|folder| (folder, arguments.trace_form.into())),
        ..plan?
    };
    let required = arguments.simulation.require(&arguments.require, &mut plan);
    required.map_err(|error| output::fail(error.exit_code(), error))?;
    let baseline = baseline(arguments, &plan)?;
    let junit = arguments.junit.as_deref().map(Place::at).transpose()?;
    let page = arguments.report.as_deref().map(Place::at).transpose()?;
    let folders = [&arguments.output, &arguments.trace, &arguments.shrink];
    for folder in folders.into_iter().flatten() {
        output::make_folder(folder)?;
    }
    let progress = Progress::new("runs".into());
    let results = fairground_lab::compare(&plan, &|done, total| progress.tell(done, total));
    progress.clear();
    let mut results = results.map_err(|error| output::fail(error.exit_code(), error))?;
    VERSION.clone_into(&mut results.comparison.version);
    failures::explain(&arguments.simulation, &plan, &mut results);
    if let Some(baseline) = &baseline {
        results.comparison.differences = differences(&results.comparison.runs, baseline);
    }
    let failed = failures::of(&results.failures);
    failures::tell(&plan, &failed, arguments.format == DocumentForm::Table);
    print(arguments, &results)?;
    failures::tell_details(&failed);
    let mut ended = failures::exit_code(&results.comparison.runs);
    if tell_conditions(&plan, &arguments.fail_if, &results.comparison.differences) {
        ended = ExitCode::from(FAILED);
    }
    if let Some(error) = &results.untraced {
        ended = output::fail(FAILED, error);
    }
    if let Some(folder) = &arguments.shrink {
        let kept = arguments.judging_options();
        shrink(&arguments.simulation, &plan, &results, folder, &kept)?;
    }
    if let Some(folder) = &arguments.output {
        let written = results.comparison.write_parquet(folder);
        written.map_err(|(path, cause)| output::unwritten(&path, cause))?;
    }
    if let Some(place) = junit {
        place.write(results.comparison.junit())?;
    }
    if let Some(page) = page {
        write_page(page, &plan, &results)?;
    }
    Ok(ended)
}

impl Arguments {
    /// The options that say when a run fails, as part of a command.
    fn judging_options(&self) -> String {
        let mut text = match self.starved {
            Some(Patience::Wait(bound)) => format!(" --starved {bound}ns"),
            Some(Patience::Off) => " --starved off".to_owned(),
            _ => String::new(),
        };
        for requirement in &self.require {
            let requirement = requirement.to_string();
            text.push_str(&format!(" --require {}", quoted(&requirement)));
        }
        text
    }

    /// The data that the result needs of runs: nothing of tasks but their shares, if it has only tables.
    fn kept(&self) -> Kept {
        let tables = matches!(self.format, DocumentForm::Table | DocumentForm::Markdown);
        let everything = self.report.is_some() || self.output.is_some() || self.tasks;
        match tables && !everything {
            true => Kept::Shares(FEW_TASKS),
            false => Kept::All,
        }
    }

    /// How often every run is repeated. From a few runs nothing follows about a difference.
    fn repeats(&self) -> u32 {
        let concludes = self.baseline.is_some() || self.report.is_some();
        self.repeat.unwrap_or(if concludes { 10 } else { 1 })
    }
}

/// The baseline, by its name and settings.
///
/// # Errors
///
/// The exit code, after a message, if it is not among the schedulers, or is the only one.
fn baseline(arguments: &Arguments, plan: &Plan) -> Result<Option<String>, ExitCode> {
    let Some(wanted) = &arguments.baseline else {
        return Ok(None);
    };
    let contenders = plan.sites.first().map_or(&[][..], |site| &site.contenders);
    let ways: [fn(&Contender) -> String; 3] =
        [|one| one.title(), |one| one.name().to_owned(), |one| one.reference().to_owned()];
    let found = ways.iter().map(|way| {
        let called = contenders.iter().filter(|one| way(one) == *wanted);
        called.map(Contender::title).collect::<Vec<_>>()
    });
    let found = { found.into_iter() }.find(|titles| !titles.is_empty());
    let problem = match found.unwrap_or_default().as_slice() {
        [] => {
            let names: Vec<&str> = contenders.iter().map(Contender::name).collect();
            format!("it is not among the schedulers compared: {}", names.join(", "))
        }
        [_] if contenders.len() == 1 => "there is no other scheduler to compare with it".to_owned(),
        [title] => return Ok(Some(title.clone())),
        [title, ..] => format!(
            "several schedulers are called so; name one with its settings, such as {title:?}, or give them names: -s one=...,other=..."
        ),
    };
    Err(output::fail(output::UNUSABLE, format_args!("--baseline {wanted}: {problem}")))
}

/// Says which conditions are met, and whether any is.
fn tell_conditions(plan: &Plan, conditions: &[Condition], differences: &[Difference]) -> bool {
    let mut met = false;
    for difference in differences {
        let reasons = conditions.iter();
        if let Some(reason) = reasons.filter_map(|one| one.met_by(difference)).next() {
            let message = format!("fails, because {reason}");
            annotations::tell(plan, &difference.scheduler, &message);
            met = true;
        }
    }
    met
}

fn write_page(page: Place<'_>, plan: &Plan, results: &Results) -> Result<(), ExitCode> {
    let comparison = &results.comparison;
    let evidence = plan.evidence(comparison).map_err(|error| output::fail(FAILED, error))?;
    page.write(comparison.page(&evidence).html())
}

fn print(arguments: &Arguments, results: &Results) -> Result<(), ExitCode> {
    let comparison = &results.comparison;
    output::print(&match arguments.format {
        DocumentForm::Table => table(arguments, comparison),
        DocumentForm::Markdown => comparison.markdown(),
        DocumentForm::Json => comparison.json(),
        DocumentForm::Csv => comparison.csv(),
    })
}

fn table(arguments: &Arguments, comparison: &Comparison) -> String {
    let colours = output::has_colours();
    let mut text = comparison.table(Style {
        tasks: match arguments.tasks {
            true => TaskTables::Always,
            false => TaskTables::WhenFew,
        },
        colours,
    });
    text.push_str(&comparison.differences_table(colours));
    text.push_str(&comparison.overall_table(colours));
    text
}
