//! `fairground sweep`: many cells, on one machine or many, that survive any end of the processes that run them.

mod collect;
mod file;
mod pack;
mod plan;
mod rank;
mod results;
mod run;
mod score;
mod slurm;
mod status;

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use clap::{Args, Subcommand};
use fairground_lab::Error;

use crate::output::{self, Stop};
pub use plan::LastOpened;
use plan::Sweep;
pub use status::Progress;

/// Exit code of a run that was asked to end before its part was done (`EX_TEMPFAIL` of sysexits.h).
pub const UNFINISHED: u8 = 75;

/// Run many cells: settings, workloads, machines, costs and seeds in all combinations
///
/// A sweep is a TOML file with axes. `plan` makes a folder of it with everything, compiled schedulers included; `run` does the cells that are not done
/// yet, on this machine or as one of many shards, and may be killed at any time; the results are Parquet files that any number of processes
/// add to.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground sweep plan granularity.toml -o S
  fairground sweep run S
  fairground sweep status S
  fairground sweep table S
  fairground sweep slurm S --tasks 64 --cpus 4 --time 1:00:00 | sbatch")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Plan(PlanArguments),
    Run(run::Arguments),
    Status(status::Arguments),
    Table(results::Arguments),
    Rank(rank::Arguments),
    Score(score::Arguments),
    Pack(pack::Arguments),
    Slurm(slurm::Arguments),
}

/// Make a plan of a sweep's file: read and compile everything that it names
///
/// The folder then holds all that the cells need, so that a machine that runs them needs neither sources nor a compiler. Planned again, it
/// keeps its results: only cells that are new are left to do. docs/sweeps.md describes the file.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground sweep plan granularity.toml -o S")]
struct PlanArguments {
    /// The file with the axes
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,

    /// The folder of the sweep
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
}

/// Some of the cells: `3/64` are those of the fourth of 64 shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shard {
    number: usize,
    count: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "not NUMBER/COUNT, such as 0/4 for the first of four and 3/4 for the last".to_owned()
        };
        let (number, count) = text.split_once('/').ok_or_else(wrong)?;
        let number = number.parse().map_err(|_| wrong())?;
        let count = count.parse().map_err(|_| wrong())?;
        if number < count { Ok(Self { number, count }) } else { Err(wrong()) }
    }
}

/// Runs what is left of a shard such as `3/64`, and says how far it then is.
pub fn run_shard(
    folder: &Path,
    shard: &str,
    (threads, until): (NonZero<usize>, Option<Instant>),
    stop: &AtomicBool,
    last: &mut LastOpened,
) -> Result<Progress, Error> {
    let wrong = |message| Error::Plan(format!("shard {shard}: {message}"));
    let shard = Some(shard.parse().map_err(wrong)?);
    let sweep = Sweep::open(folder)?;
    let job = run::Job {
        sweep: &sweep,
        cells: sweep.cells_of(shard),
        threads: threads.get(),
        until,
        stop,
        abandon: None,
    };
    job.run(last, None)?;
    status::progress(&sweep, shard)
}

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    match &arguments.command {
        Command::Plan(arguments) => plan_of(arguments),
        Command::Run(arguments) => run::main(arguments),
        Command::Status(arguments) => status::main(arguments),
        Command::Table(arguments) => results::main(arguments),
        Command::Rank(arguments) => rank::main(arguments),
        Command::Score(arguments) => score::main(arguments),
        Command::Pack(arguments) => pack::main(arguments),
        Command::Slurm(arguments) => slurm::main(arguments),
    }
}

fn plan_of(arguments: &PlanArguments) -> Result<ExitCode, Stop> {
    let sweep = collect::collect(&arguments.file, &arguments.output)?;
    for scheduler in &sweep.planned.schedulers {
        if let Some(problem) = &scheduler.problem {
            output::say!("fairground: all cells of {} will fail: {problem}", scheduler.name);
        }
    }
    let planned = &sweep.planned;
    let variants: usize = { planned.schedulers.iter() }.map(|scheduler| scheduler.variants).sum();
    let parts = [
        counted(variants, "scheduler"),
        counted(planned.workloads.len(), "workload"),
        counted(planned.machines.len(), "machine"),
        counted(planned.conditions.len(), "condition"),
        counted(planned.seeds as usize, "seed"),
    ];
    output::finish(&format!("{}: {}\n", counted(sweep.len(), "cell"), parts.join(" x ")))
}

/// A number of things.
fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}
