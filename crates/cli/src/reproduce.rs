//! `fairground reproduce`: the experiments of the documents.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use fairground_catalog::Build;
use fairground_lab::{
    Error, Experiment, Experiments, Failure, Reproduced, Request, reproduce_on_kernel,
};
use fairground_report::Unit;
use fairground_report::page::{Axis, Moment, Plot};
use fairground_results::{Claim, Level, Reproduction};

use crate::on_kernel::{Runner, is_program};
use crate::output::{self, DocumentForm, FAILED, Place, Progress, Stop, UNUSABLE};
use crate::quantity::nanoseconds;
use crate::{failures, schedulers};

/// Reproduce the tables and figures of the documents
///
/// Runs experiments of the documents in the simulator, or on this kernel with real threads and programs, and prints the document's
/// results beside those measured here, with a verdict on each claim: S is stated in the document, D derived from its numbers, X
/// expected of the algorithm. A line holds, or does not, only if the 95 % intervals over the seeds leave no doubt; else it is not shown.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground reproduce --list
  fairground reproduce
  fairground reproduce o1cfs_fairness_pi -s eevdf,bfs
  fairground reproduce ./mine --repeat 40 --format json
  fairground reproduce --allow-failing --format markdown
  sudo fairground reproduce --on kernel o1cfs_fairness_pi")]
pub struct Arguments {
    /// Names of experiments, or folders with an experiment.toml of your own [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Where to run. On a kernel, schedulers are loaded one after the other as by `fairground run`, and the kernel's own scheduler
    /// takes part; needs root and sched_ext
    #[arg(long, value_enum, default_value_t = On::Simulator)]
    on: On,

    /// List the experiments
    #[arg(long)]
    list: bool,

    /// Additional schedulers, which run without a verdict
    #[arg(short, long, value_name = "ID|PATH,...", value_delimiter = ',')]
    schedulers: Vec<String>,

    /// Folder with headers for schedulers of your own; may be given several times
    #[arg(short = 'I', value_name = "FOLDER")]
    include: Vec<PathBuf>,

    /// Macro for schedulers of your own; may be given several times
    #[arg(short = 'D', value_name = "NAME[=VALUE]", value_parser = NonEmptyStringValueParser::new())]
    defines: Vec<String>,

    /// Repeat every run this many times, each with its own seed, instead of the experiment's own number of times
    #[arg(long = "repeat", alias = "seeds", value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: Option<u32>,

    /// Only this point of the x axis; may be given several times
    #[arg(long, value_name = "NAME")]
    point: Vec<String>,

    /// Length of each run, such as 500ms or 10s, instead of the experiment's own
    #[arg(short, long, value_parser = nanoseconds)]
    duration: Option<u64>,

    /// Fit the values that were fitted to the baseline column again, and print only these
    #[arg(long)]
    fit: bool,

    /// Form of the result; markdown has a row for each experiment, and how many lines hold: the tables in experiments/README.md
    #[arg(long, value_enum, default_value_t = DocumentForm::Table)]
    format: DocumentForm,

    /// End with exit status 0 even if a line that the document states (S) does not hold
    #[arg(long)]
    allow_failing: bool,

    /// Print only the verdicts
    #[arg(long)]
    brief: bool,

    /// Also tell on standard error how much CPU time the simulations of each experiment took, the most first
    #[arg(long)]
    times: bool,

    /// Simulations at once [default: one for each CPU of this machine]
    #[arg(long)]
    threads: Option<NonZero<usize>>,

    /// Also write the result as HTML
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

impl Arguments {
    fn request(&self, experiments: &[Experiment]) -> Result<Request, Stop> {
        let build = schedulers::build(&self.include, &self.defines)?;
        let columns = experiments.iter().flat_map(Experiment::schedulers);
        let mut named = columns.chain(self.schedulers.iter().map(String::as_str));
        if build != Build::default() && named.all(schedulers::is_compiled) {
            let message = "-I and -D are for sources of your own, and nothing here names one; add it with -s, or leave them out";
            return Err(output::fail(UNUSABLE, message));
        }
        Ok(Request {
            schedulers: self.schedulers.clone(),
            build,
            seeds: self.seeds,
            points: self.point.clone(),
            duration: self.duration,
            threads: self.threads,
            moments: self.report.is_some(),
        })
    }
}

/// Where experiments run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum On {
    /// The simulator
    Simulator,
    /// The kernel of this machine
    Kernel,
}

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    let names =
        if arguments.names.is_empty() { Experiments::names() } else { arguments.names.clone() };
    let mut experiments = Vec::new();
    for name in &names {
        experiments.push(Experiments::open(name).map_err(|error| output::fail(UNUSABLE, error))?);
    }
    if arguments.on == On::Kernel && arguments.names.is_empty() {
        experiments.retain(Experiment::has_kernel);
    }
    if arguments.list {
        return output::finish(&list(&experiments));
    }
    if arguments.fit {
        return print_fits(arguments, &experiments);
    }
    let place = arguments.report.as_deref().map(Place::at).transpose()?;
    let (outcomes, all_ran) = match arguments.on {
        On::Simulator => (outcomes(arguments, &experiments)?, true),
        On::Kernel => outcomes_on_kernel(arguments, &experiments)?,
    };
    if outcomes.is_empty() {
        return Ok(ExitCode::from(UNUSABLE));
    }
    if arguments.times {
        tell_times(&outcomes);
    }
    let reproductions: Vec<&Reproduction> =
        outcomes.iter().map(|outcome| &outcome.reproduction).collect();
    output::print(&match arguments.format {
        DocumentForm::Table => {
            fairground_report::reproductions_table(&reproductions, arguments.brief)
        }
        DocumentForm::Json => fairground_report::reproductions_json(&reproductions, crate::VERSION),
        DocumentForm::Csv => fairground_report::reproductions_csv(&reproductions),
        DocumentForm::Markdown => {
            fairground_report::reproductions_markdown(&reproductions, &Experiments::names())
        }
    })?;
    // Failures are reported first, because writing the page may fail.
    let mut ended = tell_failures(&outcomes);
    if !arguments.allow_failing && tell_contradicted(&reproductions) {
        ended = ExitCode::from(FAILED);
    }
    if let Some(place) = place {
        let page = page(&outcomes, &reproductions);
        place.write(page.map_err(|error| output::fail(FAILED, error))?)?;
    }
    if ended == ExitCode::SUCCESS && !all_ran {
        return Ok(ExitCode::from(UNUSABLE));
    }
    Ok(ended)
}

/// Tells how much CPU time each experiment took.
fn tell_times(outcomes: &[Reproduced]) {
    let mut costs: Vec<(u64, &str)> = { outcomes.iter() }
        .map(|outcome| (outcome.cost, outcome.reproduction.id.as_str()))
        .collect();
    costs.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
    let all: u64 = costs.iter().map(|(cost, _)| cost).sum();
    for (cost, name) in costs.into_iter().chain([(all, "in all")]) {
        output::say!("{:8.1} s of CPU time: {name}", cost as f64 / 1e9);
    }
}

/// Runs the experiments in the simulator.
fn outcomes(arguments: &Arguments, experiments: &[Experiment]) -> Result<Vec<Reproduced>, Stop> {
    let progress = Progress::new(match experiments {
        [one] => one.id.clone(),
        several => format!("{} experiments", several.len()),
    });
    let outcomes =
        fairground_lab::reproduce(experiments, &arguments.request(experiments)?, &|done, total| {
            progress.tell(done, total);
        });
    progress.clear();
    outcomes.map_err(|error| output::fail(UNUSABLE, error))
}

/// Runs those experiments that can run on this kernel; also returns whether all that were named could run.
fn outcomes_on_kernel(
    arguments: &Arguments,
    experiments: &[Experiment],
) -> Result<(Vec<Reproduced>, bool), Stop> {
    let request = arguments.request(experiments)?;
    let mut runner = Runner::new(request.build.clone())?;
    let mut able = Vec::new();
    for experiment in experiments {
        match experiment.obstacle_on_kernel(runner.machine().cpus, is_program) {
            Some(obstacle) => crate::output::say!("fairground: {} {obstacle}", experiment.id),
            None => able.push(experiment),
        }
    }
    let machine = runner.machine().clone();
    let mut outcomes = Vec::new();
    for (number, experiment) in able.iter().enumerate() {
        let progress =
            Progress::new(format!("{} ({} of {})", experiment.id, number + 1, able.len()));
        let run = &mut |run: &_| runner.run(run);
        let outcome = reproduce_on_kernel(experiment, &request, &machine, run, &|done, total| {
            progress.tell(done, total);
        });
        progress.clear();
        outcomes.push(outcome?);
    }
    let all_ran = arguments.names.is_empty() || able.len() == experiments.len();
    Ok((outcomes, all_ran))
}

/// The distributions of samples, one plot per point.
fn curves(outcome: &Reproduced) -> Vec<Plot> {
    let mut plots = Vec::new();
    for histogram in &outcome.histograms {
        for (number, point) in outcome.reproduction.points.iter().enumerate() {
            let series = histogram.series.iter().filter(|(at, _, _)| at == point);
            let samples: Vec<(String, Vec<f64>)> =
                series.map(|(_, column, samples)| (column.clone(), samples.clone())).collect();
            let mut title = match point.as_str() {
                "" => histogram.title.clone(),
                point => format!("{}: {point} {}", histogram.title, outcome.reproduction.axis),
            };
            if let Some(label) = histogram.labels.get(number) {
                title = format!("{label}: {title}");
            }
            let axis = Axis { label: histogram.x.clone(), unit: Unit::Plain, log: false };
            plots.push(Plot::histogram(title, axis, histogram.bin, &samples));
        }
    }
    plots
}

/// The page with all outcomes.
fn page(outcomes: &[Reproduced], reproductions: &[&Reproduction]) -> Result<String, Error> {
    let moments: Result<BTreeMap<String, Vec<Moment>>, Error> = { outcomes.iter() }
        .map(|outcome| Ok((outcome.reproduction.id.clone(), outcome.moments()?)))
        .collect();
    let curves =
        outcomes.iter().map(|outcome| (outcome.reproduction.id.clone(), curves(outcome))).collect();
    let mut page = fairground_report::reproductions_page(reproductions, &moments?, &curves);
    crate::VERSION.clone_into(&mut page.version);
    Ok(page.html())
}

/// Fits the experiments' values again and prints them.
fn print_fits(arguments: &Arguments, experiments: &[Experiment]) -> Result<ExitCode, Stop> {
    for experiment in experiments {
        let fits = fairground_lab::fit(experiment, arguments.threads)
            .map_err(|error| output::fail(UNUSABLE, error))?;
        if fits.is_empty() && !arguments.names.is_empty() {
            output::say!("fairground: {}: no value of it is fitted", experiment.id);
        }
        for fit in fits {
            output::print(&format!(
                "{}: {} = {:.4} {} ({})\n",
                experiment.id, fit.name, fit.value, fit.unit, fit.to
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The experiments, one per line.
fn list(experiments: &[Experiment]) -> String {
    let rows: Vec<[String; 3]> = experiments
        .iter()
        .map(|experiment| {
            [
                experiment.id.clone(),
                experiment.schedulers().join(", "),
                experiment.title().to_owned(),
            ]
        })
        .collect();
    fairground_report::list_table(&["experiment", "schedulers", "what"], &rows)
}

/// Says which lines that the documents state do not hold, and whether there are any.
fn tell_contradicted(reproductions: &[&Reproduction]) -> bool {
    let of_one = |one: &&Reproduction| {
        let stated = one.verdicts.iter().filter(|line| line.level == Level::S);
        let failing = stated.filter(|line| line.holds == Claim::Fails);
        let ids: Vec<&str> = failing.map(|line| line.id.as_str()).collect();
        (!ids.is_empty()).then(|| format!("{} {}", one.id, ids.join(", ")))
    };
    let lines: Vec<String> = reproductions.iter().filter_map(of_one).collect();
    if !lines.is_empty() {
        output::say!(
            "fairground: stated by the documents but not so here: {}; --allow-failing ends with 0 all the same",
            lines.join("; ")
        );
    }
    !lines.is_empty()
}

/// Reports which simulations failed and why.
fn tell_failures(outcomes: &[Reproduced]) -> ExitCode {
    let mut failed = false;
    for outcome in outcomes {
        let failures: Vec<&Failure> = outcome.failures.iter().collect();
        failed |= !failures.is_empty();
        for (_, text) in failures::in_words(&failures) {
            crate::output::say!("fairground: {}: {text}", outcome.reproduction.id);
        }
    }
    if failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS }
}
