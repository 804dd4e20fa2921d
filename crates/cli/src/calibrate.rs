//! `fairground calibrate`: the costs of scheduling on this machine, or its description.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fairground_kernel::calibrate::{self, Pairs};
use fairground_lab::{Measured, cost_file};
use fairground_machine::{Distance, Machine};

use crate::output::{FAILED, Place, Stop, fail, print};

/// Measure the costs of scheduling on this machine
///
/// Writes a file for `fairground compare --cost` with the origin of each number. It takes about ten seconds, during which the
/// machine should otherwise be idle. With root and a kernel with sched_ext, small schedulers are loaded for a moment to measure
/// the costs of callbacks; otherwise those costs keep their defaults. With --machine it measures nothing, and describes the machine instead.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground calibrate
  sudo fairground calibrate -o this-machine.toml
  fairground compare workload.json --machine host --cost this-machine.toml
  sudo fairground calibrate --machine -o this-machine.toml")]
pub struct Arguments {
    /// Write a file for `fairground compare --machine` instead: CPUs, caches, nodes, idle states, frequencies and, for root, power
    #[arg(long)]
    machine: bool,

    /// Write to this file instead of standard output
    #[arg(short, long)]
    output: Option<PathBuf>,
}

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    let place = arguments.output.as_deref().map(Place::at).transpose()?;
    let (text, notes) = if arguments.machine { describe()? } else { calibrate()? };
    for note in &notes {
        crate::output::say!("fairground: {note}");
    }
    match place {
        Some(place) => place.write(text)?,
        None => print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What machine this is, and notes about that.
fn describe() -> Result<(String, Vec<String>), Stop> {
    let found = fairground_machine::capture(&calibrate::machine_name());
    let found = found.map_err(|error| fail(FAILED, error))?;
    Ok((found.text, found.notes))
}

/// What scheduling costs on it, and notes about that.
fn calibrate() -> Result<(String, Vec<String>), Stop> {
    let machine = Machine::parse("host").map_err(|error| fail(FAILED, error))?;
    let found = calibrate::calibrate(&pairs(&machine))?;
    let measured: Vec<Measured<'_>> = found
        .costs
        .iter()
        .map(|cost| (cost.name, cost.ns.as_slice(), cost.origin.as_str()))
        .collect();
    let head = format!(
        "What scheduling costs on {}, in nanoseconds; fairground calibrate made this.",
        calibrate::machine_name()
    );
    Ok((cost_file(&head, &measured), found.notes))
}

/// The first pair of CPUs at each distance, by the kernel's numbers.
fn pairs(machine: &Machine) -> Pairs {
    let distances = [Distance::Sibling, Distance::Cache, Distance::Node, Distance::Remote];
    distances.map(|distance| {
        let other = (1..machine.cpus.len()).find(|&cpu| machine.distance(0, cpu) == distance)?;
        Some((machine.numbers[0], machine.numbers[other]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_measured_on_cpus_with_the_kernels_numbers() {
        let machine =
            Machine { numbers: vec![2, 3, 8, 9], ..Machine::parse("l3:2 core:1 pu:2").unwrap() };
        assert_eq!(pairs(&machine), [Some((2, 3)), None, Some((2, 8)), None]);
    }
}
