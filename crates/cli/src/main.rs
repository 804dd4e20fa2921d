//! The `fairground` command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod calibrate;
mod compare;
mod list;
mod on_kernel;
mod output;
mod play;
mod quantity;
mod reproduce;
mod run;
mod show;
mod task;
mod worlds;

/// Linux schedulers of thirty years, on the kernel you have and in a simulator.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::Arguments),
    Show(show::Arguments),
    Compare(compare::Arguments),
    Run(run::Arguments),
    Play(play::Arguments),
    Task(task::Arguments),
    Reproduce(reproduce::Arguments),
    Worlds(worlds::Arguments),
    Calibrate(calibrate::Arguments),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::List(arguments) => list::main(&arguments),
        Command::Show(arguments) => show::main(&arguments),
        Command::Compare(arguments) => compare::main(&arguments),
        Command::Run(arguments) => run::main(&arguments),
        Command::Play(arguments) => play::main(&arguments),
        Command::Task(arguments) => task::main(&arguments),
        Command::Reproduce(arguments) => reproduce::main(&arguments),
        Command::Worlds(arguments) => worlds::main(&arguments),
        Command::Calibrate(arguments) => calibrate::main(&arguments),
    }
}
