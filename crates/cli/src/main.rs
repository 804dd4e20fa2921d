//! The `fairground` command.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

mod advise;
mod annotations;
mod board;
mod calibrate;
mod capture;
mod check;
mod compare;
mod contents;
mod ending;
mod explain;
mod failures;
mod finding;
mod gauntlet;
mod generate;
mod hunt;
mod import;
mod list;
mod loads;
mod new;
mod on_kernel;
mod output;
mod play;
mod quantity;
mod rank;
mod record;
mod recording;
mod reproduce;
mod run;
mod scalar;
mod schedulers;
mod scratch;
mod service;
mod settings;
mod show;
mod shrink;
mod simulation;
mod sweep;
mod task;
mod work;

use output::{Stop, UNUSABLE};

/// The version, with the commit.
const VERSION: &str = env!("FAIRGROUND_VERSION");

/// Thirty years of Linux schedulers, on the kernel you have and in a simulator.
#[derive(Debug, Parser)]
#[command(version = VERSION, propagate_version = true, max_term_width = 100)]
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
    Check(check::Arguments),
    Explain(explain::Arguments),
    Rank(rank::Arguments),
    Sweep(sweep::Arguments),
    Work(work::Arguments),
    Record(record::Arguments),
    Import(import::Arguments),
    Advise(advise::Arguments),
    Capture(capture::Arguments),
    Run(run::Arguments),
    Play(play::Arguments),
    Task(task::Arguments),
    Enable(service::EnableArguments),
    Disable(service::DisableArguments),
    Status(service::StatusArguments),
    Reproduce(reproduce::Arguments),
    Calibrate(calibrate::Arguments),
    #[command(hide = true)]
    Generate(generate::Arguments),
}

impl Command {
    /// Whether the command may need temporary files: for schedulers of the user's own, or for the files that loaders see.
    fn may_compile(&self) -> bool {
        !matches!(
            self,
            Self::List(_)
                | Self::Import(_)
                | Self::Play(_)
                | Self::Task(_)
                | Self::Disable(_)
                | Self::Status(_)
                | Self::Generate(_)
                | Self::New(_)
        )
    }
}

/// The subcommands by purpose, as `--help` lists them; those in no group come last.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Schedulers", &["list", "show"]),
    (
        "In the simulator",
        &["compare", "check", "explain", "rank", "reproduce", "capture", "sweep", "work"],
    ),
    ("Loads of your own", &["record", "import", "advise"]),
    ("On this kernel", &["run", "enable", "disable", "status", "play", "task", "calibrate"]),
];

/// The meanings of a subcommand's exit codes.
fn exit_status(subcommand: &str) -> &'static str {
    match subcommand {
        "compare" => {
            "0 if all went well, 1 if a run failed, starved a task or does not meet --require, or a condition of --fail-if is met, 2 if nothing could be run or an argument cannot be used"
        }
        "check" => {
            "0 if nothing is wrong, 1 if something is, 2 if nothing could be run or an argument cannot be used"
        }
        "explain" | "rank" => {
            "0 if all runs came to their end, 1 if one did not, 2 if the input is unusable and nothing ran"
        }
        "reproduce" => {
            "0 if all simulations came to their end and no line that a document states (S) failed, unless --allow-failing is given; otherwise 1; 2 if the input is unusable or this kernel cannot run them"
        }
        "advise" => {
            "0; 1 if --confirm refutes the ranking or cannot be done; 2 if the input is unusable"
        }
        "sweep" => {
            "0 success, for run however the cells ended; 1 if something cannot be read or written, for status if cells are left; 2 if the input is unusable; 75 if run was asked to end before its part was done"
        }
        "work" => "0, however the cells ended; 1 if results cannot be written",
        "run" | "record" => {
            "that of COMMAND; without one 0, or 1 if it failed on the way; 2 if the input is unusable or this kernel cannot do it"
        }
        "status" => "0 if a scheduler is in charge, 1 if it is the kernel's own",
        _ => "0 success, 1 it ran and failed, 2 the input is unusable",
    }
}

/// The command, with its subcommands in groups and the meaning of their exit codes.
fn whole_command() -> clap::Command {
    let command = Cli::command().mut_subcommands(|subcommand| {
        let examples = subcommand.get_after_help().map(ToString::to_string);
        let status = exit_status(subcommand.get_name());
        subcommand.after_help(format!("{}\n\nExit status: {status}.", examples.unwrap_or_default()))
    });
    let visible = command.get_subcommands().filter(|one| !one.is_hide_set());
    let rest: Vec<&str> = visible
        .map(clap::Command::get_name)
        .filter(|name| !GROUPS.iter().any(|(_, names)| names.contains(name)))
        .collect();
    let mut text = String::new();
    for (title, names) in GROUPS.iter().chain(&[("More", rest.as_slice())]) {
        if !names.is_empty() {
            text.push_str(&format!("\n{title}:\n"));
        }
        for name in *names {
            let about = command.find_subcommand(name).and_then(|one| one.get_about());
            let about = about.map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {name:9}  {about}\n"));
        }
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{text}\nOptions:\n{{options}}{{after-help}}"
    ))
    .after_help(
        "Each subcommand has --help with examples. Exit status: 0 success, 1 it ran and failed, 2 the input is unusable.",
    )
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
    let parsed = whole_command().try_get_matches();
    let command = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(arguments) => arguments.command,
        Err(told) if !told.use_stderr() => {
            return output::finish(&told.render().to_string()).unwrap_or_else(Stop::tell);
        }
        Err(error) => {
            if let Some(word) = negative_value(&error) {
                let message = "no value can be negative; --help says what an option takes";
                return output::fail(UNUSABLE, format_args!("{word}: {message}")).tell();
            }
            if error.kind() == ErrorKind::InvalidUtf8 {
                let mut words = std::env::args_os();
                let word = words.find(|word| word.to_str().is_none()).unwrap_or_default();
                let message = "it is not UTF-8, as all must be but names of workloads, recordings and results; rename it";
                let word = word.display();
                return output::fail(UNUSABLE, format_args!("{word}: {message}")).tell();
            }
            error.exit()
        }
    };
    let _scratch = command.may_compile().then(scratch::Scratch::new);
    let ended = match command {
        Command::List(arguments) => list::main(&arguments),
        Command::Show(arguments) => show::main(&arguments),
        Command::New(arguments) => new::main(&arguments),
        Command::Compare(arguments) => compare::main(arguments),
        Command::Rank(arguments) => rank::main(arguments),
        Command::Check(arguments) => check::main(&arguments),
        Command::Explain(arguments) => explain::main(&arguments),
        Command::Sweep(arguments) => sweep::main(&arguments),
        Command::Work(arguments) => work::main(&arguments),
        Command::Record(arguments) => record::main(&arguments),
        Command::Import(arguments) => import::main(&arguments),
        Command::Advise(arguments) => advise::main(&arguments),
        Command::Capture(arguments) => capture::main(&arguments),
        Command::Run(arguments) => run::main(&arguments),
        Command::Play(arguments) => play::main(&arguments),
        Command::Task(arguments) => task::main(&arguments),
        Command::Enable(arguments) => service::enable(&arguments),
        Command::Disable(_) => service::disable(),
        Command::Status(_) => service::status(),
        Command::Reproduce(arguments) => reproduce::main(&arguments),
        Command::Calibrate(arguments) => calibrate::main(&arguments),
        Command::Generate(arguments) => generate::main(&arguments, whole_command()),
    };
    ended.unwrap_or_else(Stop::tell)
}
