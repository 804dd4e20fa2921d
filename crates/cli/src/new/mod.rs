//! `fairground new`: a scheduler to begin with.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::output::{self, Stop, UNUSABLE};

/// A complete scheduler, with `NAME` wherever its name belongs.
const TEMPLATE: &str = include_str!("template.bpf.c");

/// The kernel's limit for the name of a scheduler (`SCX_OPS_NAME_LEN`) is larger, but this one stays whole in tables.
const LONGEST_NAME: usize = 32;

/// Write a small scheduler of your own to begin with
///
/// It is complete: one queue for all CPUs, ordered by the CPU time that tasks have had. Change it, and see the effects.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground new mine
  fairground compare mix-two -s ./mine.bpf.c,eevdf -m 2
  fairground check ./mine.bpf.c
  sudo fairground run ./mine.bpf.c")]
pub struct Arguments {
    /// Name of the scheduler; the file is NAME.bpf.c in the current folder
    #[arg(value_name = "NAME")]
    name: String,
}

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    let name = &arguments.name;
    if !is_name(name) {
        let message = format!(
            "it names functions in C: take letters, digits and _, a letter first, {LONGEST_NAME} at most"
        );
        return Err(output::fail(UNUSABLE, format_args!("{name:?}: {message}")));
    }
    let file = PathBuf::from(format!("{name}.bpf.c"));
    if file.exists() {
        let message = "it is there already; choose another name, or move it away";
        return Err(output::fail(UNUSABLE, format_args!("{}: {message}", file.display())));
    }
    output::write(&file, TEMPLATE.replace("NAME", name))?;
    let next = format!(
        "{file} is written. What it does beside Linux's own, whether something is wrong with it, and why a task waited:\n\n  \
         fairground compare mix-two -s ./{file},eevdf -m 2\n  \
         fairground check ./{file}\n  \
         fairground explain mix-two -s ./{file} -m 2\n\n\
         mix-two is one of the loads that come with fairground; fairground list --loads has all.\n",
        file = file.display()
    );
    output::finish(&next)
}

/// Whether functions of a C source can begin with it.
fn is_name(name: &str) -> bool {
    let is_part = |one: char| one.is_ascii_alphanumeric() || one == '_';
    name.starts_with(|one: char| one.is_ascii_alphabetic())
        && name.chars().all(is_part)
        && name.len() <= LONGEST_NAME
}
