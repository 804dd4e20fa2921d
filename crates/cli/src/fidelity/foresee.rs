//! `fairground fidelity foresee`: compares replays of recordings with a kernel.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fairground_lab::{foresee, read_cost_model};

use crate::output::{self, FAILED, UNUSABLE};

/// Compare predictions from recordings with a kernel
///
/// Replays recordings of the kernel's own scheduler under the schedulers of the other recordings, and the others under the
/// kernel's own. Prints how far replays are from the kernel: in the time from start to end if all tasks end, otherwise
/// in the CPU time of tasks.
///
/// The exit status is 1 if a replay fails or is outside the bounds in docs/recordings.md, or if schedulers that the recordings
/// tell apart come out in the wrong order.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  testbench/recordings --keep recordings
  fairground fidelity foresee --cost recordings/costs-1.toml recordings/*.recording")]
pub struct Arguments {
    /// Recordings called WORKLOAD.SCHEDULER.recording or WORKLOAD.SCHEDULER.TURN.recording; `kernel` is the kernel's own scheduler
    #[arg(required = true, value_name = "RECORDING")]
    recordings: Vec<PathBuf>,

    /// Folder with the rt-app files of the workloads, NAME.json for each
    #[arg(long, value_name = "FOLDER", default_value = "workloads")]
    workloads: PathBuf,

    /// Costs of scheduling on the recordings' machine: default, zero, or a TOML file
    #[arg(long, value_name = "MODEL", default_value = "default")]
    cost: String,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> ExitCode {
    run(arguments).unwrap_or_else(|code| code)
}

fn run(arguments: &Arguments) -> Result<ExitCode, ExitCode> {
    let unusable = |error| output::fail(UNUSABLE, error);
    let cost = read_cost_model(&arguments.cost).map_err(unusable)?;
    let foresight =
        foresee(&arguments.recordings, &arguments.workloads, &cost).map_err(unusable)?;
    output::print(&foresight.table())?;
    Ok(if foresight.holds() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}
