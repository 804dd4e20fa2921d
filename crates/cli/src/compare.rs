//! `fairground compare`: workloads under several schedulers in the simulator.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use fairground_lab::{Contender, Error, Kept, Noise, Plan, Results, Settings};
use fairground_metrics::{RunMetrics, is_instance_of};
use fairground_report::{
    Comparison, FEW_TASKS, Style, TaskTables, comparison_csv, comparison_json, comparison_junit,
    comparison_markdown, comparison_page, comparison_table, differences_table, overall_table,
    write_parquet,
};
use fairground_results::{
    Condition, Difference, Gate, GateOutcome, Lack, MAKESPAN, Patience, Quantity, Requirement, Run,
    Status, differences,
};

use crate::VERSION;
use crate::annotations;
use crate::failures;
use crate::output::{self, DocumentForm, FAILED, Place, Progress, Stop};
use crate::quantity::patience;
use crate::shrink::shrink;
use crate::simulation::{MOST_SEED, Simulation, refuse_idle};

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
    ///
    /// With auto, 10 times and then on until each condition of --fail-if, or without one each difference from the baseline, is decided, or 160
    /// runs of each or four hours of virtual time are used up, which is said.
    #[arg(long, value_name = "TIMES|auto", value_parser = repeat)]
    repeat: Option<Repeat>,

    /// Compare each scheduler with this one, run by run with the same seeds: for each measure the difference with its 95 % interval, and
    /// whether it is better, worse, the same, or undecided
    #[arg(long, value_name = "ID|PATH")]
    baseline: Option<String>,

    /// End with exit status 1 if a scheduler is worse than the baseline, or if a measure differs from it by more than this, such as
    /// 'wakeup_p99 > +10 %' or 'longest_wait of audio > 1ms'; may be given several times
    ///
    /// Runs of the baseline that fail or do not meet --require are told, and are no reason to fail. What cannot be judged, for too few runs or samples, is told and passes, unless `undecided` is given, too, which also holds for --require.
    #[arg(long, value_name = "worse|CONDITION|undecided", allow_hyphen_values = true)]
    fail_if: Vec<Condition>,

    /// Requirement on every run, such as 'idle_beside_waiting < 5ms' or 'throughput > 99 %'; may be given several times
    ///
    /// On the left is a measure of docs/metrics.md, with 'of TASK' that of a task: 'longest_wait of audio < 2ms'. On the right is a number with its
    /// unit, or a multiple of another scheduler's value under the same conditions, 'wakeup_p99 < 3x eevdf', or of another measure of the run,
    /// 'wakeup_p50 of s < 0.5x longest_wait of h'. Runs that are otherwise take no part in rankings, and the exit status is 1.
    #[arg(long, value_name = "REQUIREMENT")]
    require: Vec<Requirement>,

    /// Also write the result as JUnit XML: a test for each run, and for each measure that is compared with the baseline, or for each condition of
    /// --fail-if
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

pub fn main(mut arguments: Arguments) -> Result<ExitCode, Stop> {
    arguments.simulation.complete_noise(Noise::usual(arguments.repeats()));
    let mut plan = Plan {
        repeats: arguments.repeats(),
        patience: arguments.starved.unwrap_or_default(),
        kept: arguments.kept(),
        traces: arguments.trace.clone().map(|folder| (folder, arguments.trace_form.into())),
        ..arguments.simulation.plan(&arguments.schedulers)?
    };
    arguments.simulation.require(&arguments.require, &mut plan)?;
    refuse_idle(&arguments.require, &plan)?;
    let baseline = baseline(&arguments, &plan)?;
    if let Some(problem) = arguments.quantities().find_map(|one| unknown_task(one, &plan)) {
        return Err(output::fail(output::UNUSABLE, problem));
    }
    let junit = arguments.junit.as_deref().map(Place::at).transpose()?;
    let page = arguments.report.as_deref().map(Place::at).transpose()?;
    if (arguments.trace.is_some() || arguments.shrink.is_some())
        && let Some(name) = plan.shared_file_name()
    {
        return Err(output::fail(
            output::UNUSABLE,
            format_args!(
                "two runs would write the same file {name}: give the schedulers other names (-s NAME=...), or rename a workload"
            ),
        ));
    }
    let folders = [&arguments.output, &arguments.trace, &arguments.shrink];
    for folder in folders.into_iter().flatten() {
        output::make_folder(folder)?;
    }
    let mut results = simulated(&plan)?;
    arguments.judge(baseline.as_deref(), &mut results);
    let spent = match arguments.repeat {
        Some(Repeat::Auto) => arguments.go_on(baseline.as_deref(), &mut plan, &mut results)?,
        _ => None,
    };
    VERSION.clone_into(&mut results.comparison.version);
    failures::explain(&arguments.simulation, &plan, &mut results);
    let failed = failures::of(&results.failures);
    failures::tell(&plan, &failed, arguments.format == DocumentForm::Table);
    print(&arguments, &results)?;
    failures::tell_details(&failed);
    // A gate is about the others: who mends a scheduler that fails must be able to pass.
    let gated = baseline.as_deref().filter(|_| arguments.has_conditions());
    let excused = failures::of_scheduler(&plan, &results.comparison.runs, gated);
    let mut ended = failures::exit_code(&results.comparison.runs, &excused);
    arguments.simulation.tell_idle_window(&results.comparison.runs);
    if let Some(spent) = spent {
        output::say!("fairground: {spent}");
    }
    if tell_gates(&plan, &arguments.fail_if, &results.comparison.gates) {
        ended = ExitCode::from(FAILED);
    }
    if let Some(problem) = arguments.absent(&results) {
        ended = output::fail(output::UNUSABLE, problem).tell();
    }
    if let Some(error) = &results.untraced {
        ended = output::fail(FAILED, error).tell();
    }
    if let Some(folder) = &arguments.shrink {
        shrink(&arguments.simulation, &plan, &results, folder)?;
    }
    if let Some(folder) = &arguments.output {
        let written = write_parquet(&results.comparison, folder);
        written.map_err(|(path, cause)| output::unwritten(&path, cause))?;
    }
    if let Some(place) = junit {
        place.write(comparison_junit(&results.comparison, &excused, &arguments.fail_if))?;
    }
    if let Some(page) = page {
        write_page(page, &plan, &results)?;
    }
    Ok(ended)
}

impl Arguments {
    /// The data that the result needs of runs: nothing of tasks but their shares, if it has only tables.
    fn kept(&self) -> Kept {
        let tables = matches!(self.format, DocumentForm::Table | DocumentForm::Markdown);
        let names_task = self.quantities().any(|quantity| quantity.task().is_some());
        let everything = self.report.is_some() || self.output.is_some() || self.tasks || names_task;
        if tables && !everything { Kept::Shares(FEW_TASKS) } else { Kept::All }
    }

    /// An option that would have no effect, or not all of its own, beside the others, and the remedy.
    fn without_effect(&self) -> Option<&'static str> {
        let judges = self.has_conditions() || !self.require.is_empty();
        let is_auto = matches!(self.repeat, Some(Repeat::Auto));
        match () {
            () if self.has_conditions() && self.baseline.is_none() => {
                Some("--fail-if compares with a scheduler; name it with --baseline")
            }
            () if !self.fail_if.is_empty() && !judges => {
                Some("--fail-if undecided is about --require and other conditions; give one")
            }
            () if is_auto && self.baseline.is_none() && !judges => {
                Some("--repeat auto runs until something is decided; give --baseline or --require")
            }
            () if self.tasks && self.format != DocumentForm::Table => {
                Some("--tasks is about tables for people; leave it out, or take --format table")
            }
            () if is_auto && self.trace.is_some() => {
                Some("--trace keeps every run; give --repeat a number")
            }
            () if self.simulation.seed + (u64::from(self.repeats()) - 1) > MOST_SEED => Some(
                "--seed: each repetition adds 1, for which there is no room; give a smaller one",
            ),
            () => None,
        }
    }

    /// Whether --fail-if judges differences.
    fn has_conditions(&self) -> bool {
        self.fail_if.iter().any(|one| *one != Condition::Undecided)
    }

    /// How often every run is repeated. From a few runs nothing follows about a difference.
    fn repeats(&self) -> u32 {
        let concludes = self.baseline.is_some() || self.report.is_some();
        match self.repeat {
            Some(Repeat::Times(times)) => times,
            Some(Repeat::Auto) => FIRST_RUNS,
            None if concludes => FIRST_RUNS,
            None => 1,
        }
    }

    /// The quantities of --require and --fail-if.
    fn quantities(&self) -> impl Iterator<Item = &Quantity> {
        let conditions = self.fail_if.iter().filter_map(|condition| match condition {
            Condition::Beyond { quantity, .. } => Some(quantity),
            _ => None,
        });
        conditions.chain(self.require.iter().flat_map(Requirement::quantities))
    }

    /// What no run has, of all that is required, and what there is; `None` if every quantity is somewhere.
    fn absent(&self, results: &Results) -> Option<String> {
        let whole = results
            .comparison
            .runs
            .iter()
            .filter(|run| matches!(run.status, Status::Ok | Status::Starved | Status::Unmet));
        let whole: Vec<_> = whole.filter_map(|run| run.metrics.as_deref()).collect();
        // Of a run that does not end it is known that it takes longer than its length, by which requirements judge it.
        let is_judged = |quantity: &Quantity| {
            let required = || self.require.iter().any(|one| one.quantity() == quantity);
            quantity.measure().id == MAKESPAN && required()
        };
        let mut judged = self.quantities().filter(|quantity| !is_judged(quantity));
        judged.find_map(|quantity| quantity.absent_from(&whole))
    }

    /// Compares with the baseline, and judges conditions and requirements.
    fn judge(&self, baseline: Option<&str>, results: &mut Results) {
        let comparison = &mut results.comparison;
        comparison.gates = doubts(results.undecided.as_slice(), &comparison.runs);
        if let Some(baseline) = baseline {
            comparison.differences = differences(&comparison.runs, baseline);
            for condition in &self.fail_if {
                let (runs, differences) = (&comparison.runs, &comparison.differences);
                let gates = condition.gates(runs, baseline, differences);
                comparison.gates.extend(gates);
            }
        }
    }

    /// Whether more runs could decide something.
    fn is_open(&self, results: &Results) -> bool {
        let is_open =
            |gate: &Gate| matches!(gate.outcome, GateOutcome::Undecided { is_open: true, .. });
        let comparison = &results.comparison;
        comparison.gates.iter().any(is_open)
            || !self.has_conditions() && comparison.differences.iter().any(Difference::is_open)
    }

    /// Runs on with further seeds until all is decided, or says which budget is used up.
    fn go_on(
        &self,
        baseline: Option<&str>,
        plan: &mut Plan,
        results: &mut Results,
    ) -> Result<Option<String>, Error> {
        let first = plan.settings.seed;
        while self.is_open(results) {
            let lengths = results.comparison.runs.iter().filter_map(|run| run.metrics.as_ref());
            let spent: u64 = lengths.map(|metrics| metrics.duration_ns).sum();
            if plan.repeats >= MOST_RUNS {
                return Ok(Some(format!(
                    "undecided after {MOST_RUNS} runs of each, the most of --repeat auto"
                )));
            }
            if spent.saturating_mul(2) > MOST_TIME_NS {
                let seconds = spent / 1_000_000_000;
                return Ok(Some(format!(
                    "undecided after {} runs of each, {seconds} s of virtual time; twice as many would be more than the 14400 s of --repeat auto",
                    plan.repeats
                )));
            }
            let more = Plan {
                repeats: plan.repeats,
                settings: Settings {
                    seed: first.wrapping_add(u64::from(plan.repeats)),
                    ..plan.settings.clone()
                },
                ..plan.clone()
            };
            results.extend(plan.repeats, simulated(&more)?, more.repeats);
            plan.repeats *= 2;
            self.judge(baseline, results);
        }
        Ok(None)
    }
}

/// How often every run is repeated.
#[derive(Clone, Copy, Debug)]
enum Repeat {
    /// So often.
    Times(u32),
    /// Until all is decided.
    Auto,
}

/// The runs of each with which a comparison begins.
const FIRST_RUNS: u32 = 10;
/// The most runs of each under `--repeat auto`: the interval is a quarter as wide as that of the first ones.
const MOST_RUNS: u32 = 16 * FIRST_RUNS;
/// The most virtual time of all runs together, in nanoseconds: four hours, minutes of real time.
const MOST_TIME_NS: u64 = 4 * 3600 * 1_000_000_000;

fn repeat(text: &str) -> Result<Repeat, String> {
    match text.parse() {
        Ok(times) if (1..=10_000).contains(&times) => Ok(Repeat::Times(times)),
        _ if text == "auto" => Ok(Repeat::Auto),
        _ => Err("not a number from 1 to 10000, nor auto".to_owned()),
    }
}

/// That no workload has the task of a quantity, in which case no run needs to end before that is said.
fn unknown_task(quantity: &Quantity, plan: &Plan) -> Option<String> {
    let of = quantity.task()?;
    let tasks = plan.sites.iter().flat_map(|site| &site.workloads).flat_map(|one| &one.tasks);
    let names: BTreeSet<&str> = tasks.map(|task| &*task.name).collect();
    let is_it = |name: &&str| is_instance_of(name, of) || is_instance_of(of, name);
    let names = (!names.iter().any(is_it)).then(|| Vec::from_iter(names))?;
    Some(format!("no workload has a task {of}, but {}", names.join(", ")))
}

/// All runs of a plan.
fn simulated(plan: &Plan) -> Result<Results, Error> {
    let progress = Progress::new("runs".into());
    let results = fairground_lab::compare(plan, &|done, total| progress.tell(done, total));
    progress.clear();
    results
}

/// Requirements that runs neither meet nor break, once for each scheduler under the same conditions. Samples of different runs are counted together.
fn doubts(undecided: &[(usize, String, Lack)], runs: &[Run]) -> Vec<Gate> {
    let mut doubts: Vec<(Gate, Vec<&RunMetrics>, u64)> = Vec::new();
    for (number, text, lack) in undecided {
        let run = &runs[*number];
        let outcome = GateOutcome::Undecided { why: lack.words(), is_open: false };
        let gate = Gate::new(text, &run.labels, outcome);
        let known = doubts.iter().position(|(one, ..)| one.is_same(&gate));
        let place = known.unwrap_or(doubts.len());
        if known.is_none() {
            doubts.push((gate, Vec::new(), 0));
        }
        let (gate, counted, sum) = &mut doubts[place];
        if let (Lack::Samples(samples, least), Some(metrics)) = (lack, run.metrics.as_deref()) {
            let is_new = !counted.contains(&metrics);
            counted.push(metrics);
            *sum += if is_new { *samples } else { 0 };
            gate.outcome = match *sum >= *least {
                true => GateOutcome::Passed,
                false => GateOutcome::Undecided {
                    why: Lack::Samples(*sum, *least).words(),
                    is_open: is_new,
                },
            };
        }
    }
    doubts.into_iter().map(|(gate, ..)| gate).collect()
}

/// The baseline, by its name and settings.
fn baseline(arguments: &Arguments, plan: &Plan) -> Result<Option<String>, Stop> {
    if let Some(problem) = arguments.without_effect() {
        return Err(output::fail(output::UNUSABLE, problem));
    }
    let Some(wanted) = &arguments.baseline else { return Ok(None) };
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
            let titles: Vec<String> = contenders.iter().map(Contender::title).collect();
            format!("it is not among the schedulers compared: {}", titles.join(", "))
        }
        [_] if contenders.len() == 1 => "there is no other scheduler to compare with it".to_owned(),
        [title] => return Ok(Some(title.clone())),
        [title, others @ ..] if others.iter().all(|other| other == title) => {
            "several schedulers are called so; give them names: -s one=...,other=...".to_owned()
        }
        [title, ..] => format!(
            "several schedulers are called so; name one with its settings, such as {title:?}, or give them names: -s one=...,other=..."
        ),
    };
    Err(output::fail(output::UNUSABLE, format_args!("--baseline {wanted}: {problem}")))
}

/// Says which conditions are met and which could not be judged, in one line for each scheduler under the same conditions, and whether that fails.
fn tell_gates(plan: &Plan, conditions: &[Condition], gates: &[Gate]) -> bool {
    let is_strict = conditions.contains(&Condition::Undecided);
    let mut fails = false;
    let mut undecided: Vec<(&Gate, Vec<&str>)> = Vec::new();
    for gate in gates {
        match &gate.outcome {
            GateOutcome::Passed => {}
            GateOutcome::Failed(reason) => {
                annotations::tell(plan, &gate.scheduler, &format!("fails, because {reason}"));
                fails = true;
            }
            GateOutcome::Undecided { why, .. } => {
                match undecided.iter_mut().find(|(one, _)| one.is_same(gate)) {
                    Some((_, whys)) => whys.push(why),
                    None => undecided.push((gate, vec![why])),
                }
            }
        }
    }
    for (gate, whys) in &undecided {
        let (text, scheduler, whys) = (&gate.text, &gate.scheduler, whys.join("; "));
        let place = format!("{} on {}", gate.workload, gate.machine);
        let message = format!("'{text}' is undecided for {scheduler} with {place}: {whys}");
        let say = if is_strict { annotations::tell } else { annotations::warn };
        say(plan, scheduler, &message);
    }
    fails || is_strict && !undecided.is_empty()
}

fn write_page(page: Place<'_>, plan: &Plan, results: &Results) -> Result<(), Stop> {
    let comparison = &results.comparison;
    let evidence = plan.evidence(comparison).map_err(|error| output::fail(FAILED, error))?;
    page.write(comparison_page(comparison, &evidence).html())
}

fn print(arguments: &Arguments, results: &Results) -> Result<(), Stop> {
    let comparison = &results.comparison;
    output::print(&match arguments.format {
        DocumentForm::Table => table(arguments, comparison),
        DocumentForm::Markdown => comparison_markdown(comparison),
        DocumentForm::Json => comparison_json(comparison),
        DocumentForm::Csv => comparison_csv(comparison),
    })
}

fn table(arguments: &Arguments, comparison: &Comparison) -> String {
    let colours = output::has_colours();
    let style = Style {
        tasks: if arguments.tasks { TaskTables::Always } else { TaskTables::WhenFew },
        colours,
    };
    let mut text = comparison_table(comparison, style);
    text.push_str(&differences_table(&comparison.differences, colours));
    text.push_str(&overall_table(comparison, colours));
    text
}
