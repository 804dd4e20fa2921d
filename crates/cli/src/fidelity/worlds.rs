//! `fairground fidelity worlds`: compares runs on a kernel with runs in the simulator.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fairground_catalog::Build;
use fairground_lab::{Contender, Costs, Recording, confront, read_cost_model};

use crate::output::{self, FAILED, UNUSABLE};
use crate::simulation::accompany;

/// Compare runs on a kernel with the simulator
///
/// Simulates the workloads that `testbench/worlds` has run on the testbench's kernel, and prints kernel and simulator side by side:
/// CPU time and 99th percentile of the wakeup latency of every task. The exit status is 1 if they disagree by the rules of
/// docs/worlds.md.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  testbench/worlds --keep recordings
  fairground fidelity worlds recordings/*.json
  fairground fidelity worlds --cost 1=recordings/costs-1.toml recordings/*.json
  fairground fidelity worlds -s mine.bpf.o recordings/*.mine.*.json
  fairground fidelity worlds --workloads mine mine/recordings/*.json")]
pub struct Arguments {
    /// Results of `fairground play --format json` on a kernel
    #[arg(required = true, value_name = "RECORDING")]
    recordings: Vec<PathBuf>,

    /// Folder with the rt-app files of the recordings, NAME.json for each workload
    #[arg(long, value_name = "FOLDER", default_value = "workloads")]
    workloads: PathBuf,

    /// Cost model of the recordings' machine with that many CPUs: a file that `fairground calibrate` wrote there, or the name of a
    /// cost model; once for each number of CPUs [default: default]
    #[arg(long, value_name = "CPUS=COSTS", value_parser = cost)]
    cost: Vec<(u32, String)>,

    /// Objects (.bpf.o) or sources of your own that recordings name; may be given several times
    #[arg(short, long, value_name = "PATH", value_delimiter = ',')]
    schedulers: Vec<String>,

    /// Companion file that describes the loader of one of them, or none; may be given several times
    #[arg(long = "with", value_name = "FILE.toml|none")]
    companions: Vec<String>,

    /// Also compare with models that have a known mistake, each of which must be rejected
    #[arg(long)]
    controls: bool,
}

/// Parses a number of CPUs and the name of a cost model.
fn cost(text: &str) -> Result<(u32, String), String> {
    text.split_once('=')
        .and_then(|(cpus, name)| Some((cpus.parse().ok().filter(|cpus| *cpus > 0)?, name)))
        .filter(|(_, name)| !name.is_empty())
        .map(|(cpus, name)| (cpus, name.to_owned()))
        .ok_or_else(|| "not a number of CPUs and a cost model, such as 1=costs.toml".to_owned())
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> ExitCode {
    run(arguments).unwrap_or_else(|code| code)
}

fn run(arguments: &Arguments) -> Result<ExitCode, ExitCode> {
    let unusable = |error| output::fail(UNUSABLE, error);
    let recordings = arguments
        .recordings
        .iter()
        .map(|path| Recording::read(path))
        .collect::<Result<Vec<_>, _>>()
        .map_err(unusable)?;
    let costs = arguments
        .cost
        .iter()
        .map(|(cpus, name)| Ok((*cpus, read_cost_model(name)?)))
        .collect::<Result<Costs, _>>()
        .map_err(unusable)?;
    let build = Build::default();
    let wanted: Vec<(&str, &Build)> =
        { arguments.schedulers.iter() }.map(|reference| (reference.as_str(), &build)).collect();
    let mut own = Contender::open_all(&wanted, None).map_err(unusable)?;
    for file in &arguments.companions {
        accompany(&mut own, file).map_err(|message| output::fail(UNUSABLE, message))?;
    }
    let agreement = confront(&recordings, &arguments.workloads, &costs, &own, arguments.controls)
        .map_err(unusable)?;
    output::print(&agreement.table())?;
    Ok(if agreement.holds() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}
