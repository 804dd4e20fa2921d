//! `fairground fidelity`: how far the simulator is from a kernel. The testbench's scripts make the recordings.

mod foresee;
mod worlds;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Compare the simulator with a kernel
///
/// For developers of fairground: testbench/worlds and testbench/recordings make the recordings and call it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground fidelity worlds recordings/*.json
  fairground fidelity foresee recordings/*.recording")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Worlds(worlds::Arguments),
    Foresee(foresee::Arguments),
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> ExitCode {
    match &arguments.command {
        Command::Worlds(arguments) => worlds::main(arguments),
        Command::Foresee(arguments) => foresee::main(arguments),
    }
}
