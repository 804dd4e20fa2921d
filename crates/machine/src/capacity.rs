//! The word of a description that gives the capacities of the CPUs.

use crate::error::Error;
use crate::model::Machine;

/// Capacity of the fastest CPU.
pub(crate) const FULL: u32 = 1024;

/// The beginning of the word.
pub(crate) const WORD: &str = "capacity:";

/// Sets the capacities of the machine's CPUs to those that `word` lists, in CPU order.
pub(crate) fn apply(word: &str, machine: &mut Machine) -> Result<(), Error> {
    let error = |message: String| {
        let example = match machine.cpus.len() {
            1 => format!("{WORD}{FULL}"),
            cpus => format!("{WORD}{}x{FULL},{}x512", cpus - cpus / 2, cpus / 2),
        };
        Error::new(&machine.description, format!("`{word}`: {message}; for example `{example}`"))
    };
    let mut capacities: Vec<u32> = Vec::new();
    for part in word[WORD.len()..].split(',') {
        let (count, capacity) = part.split_once('x').unwrap_or(("1", part));
        let (Ok(count), Ok(capacity)) = (count.parse::<usize>(), capacity.parse::<u32>()) else {
            return Err(error(format!("`{part}` is not a count times a capacity")));
        };
        if !(1..=FULL).contains(&capacity) {
            return Err(error(format!("capacities are from 1 to {FULL}")));
        }
        if count == 0 || capacities.len() + count.min(Machine::CPUS_MAX + 1) > machine.cpus.len() {
            return Err(error(format!(
                "the counts must add up to the {} CPUs of the machine",
                machine.cpus.len()
            )));
        }
        capacities.extend(std::iter::repeat_n(capacity, count));
    }
    if capacities.len() != machine.cpus.len() {
        return Err(error(format!(
            "it lists {} CPUs, but the machine has {}",
            capacities.len(),
            machine.cpus.len()
        )));
    }
    if !capacities.contains(&FULL) {
        return Err(error(format!("the fastest CPU has {FULL}")));
    }
    for (cpu, capacity) in machine.cpus.iter_mut().zip(capacities) {
        cpu.capacity = capacity;
    }
    Ok(())
}
