//! `fairground import`: makes a recording from the file of another recorder.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fairground_recording::{Error, counted, import_perf};

use crate::output::{FAILED, UNUSABLE, fail};

/// Make a recording from a perf file
///
/// Reads files of `perf sched record`, also those that went through a pipe (`-o -`). They do not say in which system calls tasks wait, which tasks yield, or which CPUs tasks
/// may use, so mutexes, disks, timers and arrivals from outside are distinguished less well than in a file of `fairground
/// record`; `fairground show` says how much this matters.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sudo perf sched record -o perf.data make -j8
  fairground import perf.data -o build.recording
  fairground show build.recording")]
pub struct Arguments {
    /// A file of `perf sched record`
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The recording to write
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "fairground.recording"
    )]
    output: PathBuf,

    /// Choose this process and those it creates [default: all but the kernel's own]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> ExitCode {
    match import_perf(&arguments.file, &arguments.output, arguments.pid) {
        Ok(imported) => {
            crate::output::say!(
                "fairground: imported {:.3} s, {} entries, in {}",
                imported.length as f64 / 1e9,
                imported.entries,
                arguments.output.display()
            );
            if imported.lost > 0 {
                crate::output::say!(
                    "fairground: perf has lost {}; the recording has gaps there",
                    counted(imported.lost, "event", "events")
                );
            }
            crate::recording::tell_gaps(&arguments.output);
            ExitCode::SUCCESS
        }
        Err(error @ Error::Write { .. }) => fail(FAILED, error),
        Err(error) => fail(UNUSABLE, error),
    }
}
