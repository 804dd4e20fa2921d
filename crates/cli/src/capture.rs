//! `fairground capture`: the actions of a scheduler's real loader, as a companion file.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fairground_lab::capture_loader;
use fairground_machine::Machine;

use crate::output::{self, Stop, UNUSABLE};

/// Run a scheduler's real loader and record its actions
///
/// The loader runs unmodified and without privileges; until it has attached its scheduler, its system calls are answered as the
/// simulated kernel would answer them. The object that it carries, its settings and its program runs are written to NAME.bpf.o and
/// NAME.companion.toml in the same folder, so that `fairground compare -s NAME.bpf.o` finds both.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground capture -- scx_bpfland --slice-us 5000
  fairground capture -m 'numa:2 l3:2 core:4 pu:2' -o captured -- scx_rusty
  fairground compare hogs.json -m 'numa:2 l3:2 core:4 pu:2' -s captured/rusty.bpf.o")]
pub struct Arguments {
    /// The machine that the loader finds, as for compare
    #[arg(short, long, value_name = "DESCRIPTION", default_value = "4")]
    machine: String,

    /// Folder for the two files
    #[arg(short, long, alias = "out", value_name = "FOLDER", default_value = ".")]
    output: PathBuf,

    /// The scheduler's object, for a loader that does not carry it
    #[arg(long, value_name = "FILE.bpf.o")]
    object: Option<PathBuf>,

    /// The loader and its arguments
    #[arg(last = true, required = true, value_name = "LOADER")]
    command: Vec<String>,
}

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    let machine =
        Machine::parse(&arguments.machine).map_err(|error| output::fail(UNUSABLE, error))?;
    let captured = capture_loader(&arguments.command, &machine, arguments.object.as_deref())?;
    let name = &captured.scheduler;
    for (file, bytes) in [
        (format!("{name}.bpf.o"), captured.object.as_slice()),
        (format!("{name}.companion.toml"), captured.companion.as_bytes()),
    ] {
        let path = arguments.output.join(file);
        output::write(&path, bytes)?;
        output::print(&format!("{}\n", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
