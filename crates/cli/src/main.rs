//! The `fairground` command.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};

mod advise;
mod calibrate;
mod capture;
mod compare;
mod explain;
mod failures;
mod foresee;
mod generate;
mod import;
mod list;
mod new;
mod on_kernel;
mod output;
mod play;
mod quantity;
mod record;
mod recording;
mod reproduce;
mod run;
mod schedulers;
mod scratch;
mod settings;
mod show;
mod shrink;
mod simulation;
mod task;
mod worlds;

use output::UNUSABLE;

/// Thirty years of Linux schedulers, on the kernel you have and in a simulator.
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
    New(new::Arguments),
    Compare(compare::Arguments),
    Explain(explain::Arguments),
    Record(record::Arguments),
    Import(import::Arguments),
    Advise(advise::Arguments),
    Capture(capture::Arguments),
    Run(run::Arguments),
    Play(play::Arguments),
    Task(task::Arguments),
    Reproduce(reproduce::Arguments),
    Worlds(worlds::Arguments),
    Foresee(foresee::Arguments),
    Calibrate(calibrate::Arguments),
    #[command(hide = true)]
    Generate(generate::Arguments),
}

impl Command {
    /// Whether the command may need temporary files: for schedulers of the user's own, or for what loaders see.
    fn may_compile(&self) -> bool {
        !matches!(
            self,
            Self::List(_)
                | Self::Show(_)
                | Self::Import(_)
                | Self::Play(_)
                | Self::Task(_)
                | Self::Generate(_)
                | Self::New(_)
        )
    }
}

/// The argument that looks like an option but is a negative number: clap knows no such option and suggests passing it as a file.
fn negative_value(error: &clap::Error) -> Option<String> {
    let is_negative = |word: &str| {
        let number = word.strip_prefix('-');
        number.is_some_and(|rest| rest.starts_with(|one: char| one.is_ascii_digit()))
    };
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) if is_negative(option) => {
            let mut words = std::env::args_os().skip(1);
            words.find_map(|word| word.into_string().ok().filter(|word| is_negative(word)))
        }
        _ => None,
    }
}

// Gives simulations of the user's own schedulers the same memory addresses in every run.
#[global_allocator]
static MEMORY: fairground_lab::Allocator = fairground_lab::Allocator;

fn main() -> ExitCode {
    output::outlive_limits();
    let command = match Cli::try_parse() {
        Ok(arguments) => arguments.command,
        Err(told) if !told.use_stderr() => {
            let printed = output::print(&told.render().to_string());
            return printed.err().unwrap_or(ExitCode::SUCCESS);
        }
        Err(error) => {
            if let Some(word) = negative_value(&error) {
                let message = "no value can be negative; --help says what an option takes";
                return output::fail(UNUSABLE, format_args!("{word}: {message}"));
            }
            if error.kind() == ErrorKind::InvalidUtf8 {
                let mut words = std::env::args_os();
                let word = words.find(|word| word.to_str().is_none());
                let word = word.unwrap_or_default();
                let message = "it is not UTF-8, as all must be but names of workloads, recordings and results; rename it";
                return output::fail(UNUSABLE, format_args!("{}: {message}", word.display()));
            }
            error.exit()
        }
    };
    let _scratch = command.may_compile().then(scratch::Scratch::new);
    match command {
        Command::List(arguments) => list::main(&arguments),
        Command::Show(arguments) => show::main(&arguments),
        Command::New(arguments) => new::main(&arguments),
        Command::Compare(arguments) => compare::main(&arguments),
        Command::Explain(arguments) => explain::main(&arguments),
        Command::Record(arguments) => record::main(&arguments),
        Command::Import(arguments) => import::main(&arguments),
        Command::Advise(arguments) => advise::main(&arguments),
        Command::Capture(arguments) => capture::main(&arguments),
        Command::Run(arguments) => run::main(&arguments),
        Command::Play(arguments) => play::main(&arguments),
        Command::Task(arguments) => task::main(&arguments),
        Command::Reproduce(arguments) => reproduce::main(&arguments),
        Command::Worlds(arguments) => worlds::main(&arguments),
        Command::Foresee(arguments) => foresee::main(&arguments),
        Command::Calibrate(arguments) => calibrate::main(&arguments),
        Command::Generate(arguments) => generate::main(&arguments, Cli::command()),
    }
}
