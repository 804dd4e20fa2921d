//! `fairground compare`: workloads under several schedulers in the simulator.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fairground_lab::{Plan, Results};
use fairground_report::{Style, TaskTables};
use fairground_results::Patience;

use crate::failures;
use crate::output::{self, FAILED, Format, Place, Progress};
use crate::quantity::nanoseconds;
use crate::shrink::shrink;
use crate::simulation::Simulation;

/// Compare schedulers in the simulator
///
/// Every workload runs under every scheduler in virtual time, and the metrics are printed side by side. The same arguments give
/// the same output, on any machine and for any number of threads.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground compare video.json
  fairground compare hogs.json -s o1,cfs -m 'numa:2 core:4 pu:2' -d 30s --report hogs.html
  fairground compare hogs.json -s linux24,./mine.bpf.c --set linux24.hz=1000 --repeat 5
  fairground compare hogs.json -s ./main.bpf.c --with mine.toml --set mine.slice_us=5000
  fairground compare hogs.json -s 'cfs,exec:scx_bpfland --slice-us 5000' -m 'numa:2 core:4 pu:2'
  fairground compare hogs.json --cost zero --trace traces --format json
  fairground compare hogs.json -s ./mine.bpf.c --shrink failures")]
pub struct Arguments {
    /// Ids (see `fairground list`), paths of sched_ext sources (.bpf.c) or objects (.o) of your own, or all; may be given several
    /// times
    ///
    /// A folder, or sources joined by '+', are linked into one scheduler. FILE#TABLE picks the scheduler with this table of
    /// callbacks from an object with several.
    ///
    /// `kernel` is the kernel's own scheduler: eevdf stands for it, without what callbacks cost.
    ///
    /// 'exec:LOADER ARGUMENTS' runs a scheduler's real loader, captures what it sets for the machine of --machine, and compares its scheduler.
    #[arg(
        short,
        long,
        value_name = "ID|PATH|exec:LOADER,...",
        default_value = "all"
    )]
    schedulers: Vec<String>,

    #[command(flatten)]
    simulation: Simulation,

    /// Repeat every run this many times; tables show the median and the spread
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,

    /// Also write the comparison as HTML
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,

    /// Write runs.parquet and tasks.parquet into this folder: a row for each run, and one for each task of each run
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,

    /// Write a Perfetto trace of every run into this folder
    #[arg(long, value_name = "FOLDER")]
    trace: Option<PathBuf>,

    /// How long a task may wait, such as 2s, before its run counts as starved, or off
    ///
    /// Without it, the bound is not a length of time but what the task misses: 500 ms of CPU time that a fair machine would have given it in
    /// this one wait. Starved runs take no part in rankings, and the exit status is 1.
    #[arg(long, value_name = "TIME|off", value_parser = patience)]
    starved: Option<Patience>,

    /// Shrink the runs that fail or starve a task: for each, write the smallest workload found that fails in the same way into this folder, and
    /// print the command that runs it on the smallest machine for the shortest time
    #[arg(long, value_name = "FOLDER")]
    shrink: Option<PathBuf>,

    /// Form of the result
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Show the tasks' shares even if there are many tasks
    #[arg(long)]
    tasks: bool,
}

fn patience(text: &str) -> Result<Patience, String> {
    match text {
        "off" => Ok(Patience::Off),
        _ => nanoseconds(text).map(Patience::Wait),
    }
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> ExitCode {
    run(arguments).unwrap_or_else(|code| code)
}

fn run(arguments: &Arguments) -> Result<ExitCode, ExitCode> {
    let plan = arguments.simulation.plan(&arguments.schedulers);
    let plan = Plan {
        repeats: arguments.repeat,
        patience: arguments.starved.unwrap_or_default(),
        traces: arguments.trace.clone(),
        ..plan?
    };
    let page = arguments.report.as_deref().map(Place::at).transpose()?;
    if let Some(folder) = &arguments.out {
        Place::at(&folder.join("runs.parquet"))?;
    }
    let progress = Progress::new("runs".into());
    let results = fairground_lab::compare(&plan, &|done, total| progress.tell(done, total));
    progress.clear();
    let mut results = results.map_err(|error| output::fail(error.exit_code(), error))?;
    failures::explain(&arguments.simulation, &plan, &mut results);
    let failed = failures::of(&results.failures);
    failures::tell(&failed, arguments.format == Format::Table);
    print(arguments, &results)?;
    failures::tell_details(&failed);
    let mut ended = failures::exit_code(&results.comparison.runs);
    if let Some(error) = &results.untraced {
        ended = output::fail(FAILED, error);
    }
    if let Some(folder) = &arguments.shrink {
        let starved = match arguments.starved {
            Some(Patience::Wait(bound)) => format!(" --starved {bound}ns"),
            Some(Patience::Off) => " --starved off".to_owned(),
            _ => String::new(),
        };
        shrink(&arguments.simulation, &plan, &results, folder, &starved)?;
    }
    if let Some(folder) = &arguments.out {
        let written = results.comparison.write_parquet(folder);
        written.map_err(|(path, cause)| output::unwritten(&path, cause))?;
    }
    if let Some(page) = page {
        write_page(page, &plan, &results)?;
    }
    Ok(ended)
}

fn write_page(page: Place<'_>, plan: &Plan, results: &Results) -> Result<(), ExitCode> {
    let comparison = &results.comparison;
    let moments = plan
        .moments(comparison)
        .map_err(|error| output::fail(FAILED, error))?;
    page.write(comparison.page(&moments).html())
}

fn print(arguments: &Arguments, results: &Results) -> Result<(), ExitCode> {
    let comparison = &results.comparison;
    output::print(&match arguments.format {
        Format::Table => comparison.table(Style {
            tasks: match arguments.tasks {
                true => TaskTables::Always,
                false => TaskTables::WhenFew,
            },
            colours: output::has_colours(),
        }),
        Format::Json => comparison.json(),
        Format::Csv => comparison.csv(),
    })
}
