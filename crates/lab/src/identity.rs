//! The inputs of a run, as hashes: a result tells whether two runs were of the same things, whatever the names of their files.

use std::fmt::{self, Debug, Write as _};

use fairground_bpf::Object;
use fairground_companion::Companion;
use fairground_events::Nanoseconds;
use fairground_machine::{Hardware, Machine};
use fairground_simulator::CostModel;
use fairground_workload::Workload;
use sha2::{Digest as _, Sha256};

use crate::noise::Noise;
use crate::recorded::Replay;

/// Digits of an identity: of 10^9 simulations, two are mistaken for each other with a probability of 10^-21.
const IDENTITY: usize = 32;

/// The hash of a workload, without its name, and with the other parts of a recording.
pub(crate) fn of_workload(workload: &Workload, replay: Option<&Replay>) -> String {
    let Workload {
        name: _,
        notes: _,
        duration,
        tasks,
        mutexes,
        conditions,
        barriers,
        semaphores,
        timers,
        pipes,
        disks,
        drives,
        memories,
        services,
        choices,
        arrivals,
        groups,
    } = workload;
    let resources = (conditions, barriers, semaphores, timers, pipes, disks, memories);
    let resources = (resources, services, choices, arrivals, groups);
    let rest = (duration, tasks, mutexes, resources, replay);
    if drives.is_empty() { of(&rest) } else { of(&(rest, drives)) }
}

/// The hash of a machine, without its description.
pub(crate) fn of_machine(machine: &Machine) -> String {
    let Machine {
        description: _,
        notes: _,
        origins: _,
        cpus,
        node_distances,
        unknown_speeds,
        numbers,
        cgroup_mode,
        hardware,
    } = machine;
    let rest = (cpus, node_distances, unknown_speeds, numbers, cgroup_mode);
    if *hardware == Hardware::default() { of(&rest) } else { of(&(rest, hardware)) }
}

/// The hash of costs, without their origins.
pub(crate) fn of_costs(costs: &CostModel) -> String {
    of(&costs.values())
}

/// The identity of a simulation: the hash of the parts that it has in common with others, of its workload, and of the rest.
pub(crate) fn of_cell(
    template: &str,
    workload: &str,
    length: Option<Nanoseconds>,
    noise: Noise,
    seed: u64,
) -> String {
    let mut identity = of(&(template, workload, length, noise, seed));
    identity.truncate(IDENTITY);
    identity
}

/// The hash of these bytes, as `sha256sum` prints it.
pub fn of_bytes(bytes: &[u8]) -> String {
    hexadecimal(Sha256::new_with_prefix(bytes))
}

/// The hash of the parts of an object that a kernel sees.
pub(crate) fn of_object(object: &Object) -> String {
    let mut text = Text(Sha256::new());
    let written = object.write_essence(&mut text);
    written.expect("a hash takes any text");
    hexadecimal(text.0)
}

/// The hash of a companion file, as `sha256sum` prints it.
pub(crate) fn of_companion(companion: &Companion) -> String {
    hexadecimal(Sha256::new_with_prefix(companion.text()))
}

/// The hash of a value as it has been read: its fields with their names, which do not depend on the machine that this program runs on.
pub(crate) fn of(value: &impl Debug) -> String {
    let mut text = Text(Sha256::new());
    write!(text, "{value:?}").expect("a hash takes any text");
    hexadecimal(text.0)
}

struct Text(Sha256);

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text);
        Ok(())
    }
}

fn hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(text: &str) -> String {
        of_workload(&Workload::parse("one.json", text).unwrap(), None)
    }

    #[test]
    fn the_same_workload_has_the_same_hash_however_it_is_written() {
        let one =
            workload(r#"{"tasks": {"hog": {"loop": 1, "run": 2000}}, "global": {"duration": 3}}"#);
        let other = workload(
            r#"{
                "global" : { "duration" : 3 },
                "tasks" : { "hog" : { "run" : 2000, "loop" : 1 } }
            }"#,
        );
        assert_eq!(one, other);
        let shorter =
            workload(r#"{"tasks": {"hog": {"loop": 1, "run": 1999}}, "global": {"duration": 3}}"#);
        assert_ne!(one, shorter);
    }

    #[test]
    fn the_same_machine_has_the_same_hash_whatever_it_is_called() {
        let hash = |description: &str| of_machine(&Machine::parse(description).unwrap());
        assert_eq!(hash("4"), hash("numa:1 core:4 pu:1"));
        assert_ne!(hash("4"), hash("numa:2 core:2 pu:1"));
        assert_ne!(hash("core:2 pu:2"), hash("core:2 pu:2 smt:1.15"));
    }

    #[test]
    fn the_hash_of_a_companion_is_that_of_its_file() {
        let companion = Companion::parse("any.toml", "scheduler = \"abc\"\n").unwrap();
        let hash = "c96810022c48170ba357f5d7f7b9a9efe583207d3841a18617ddbf2e809a3a36";
        assert_eq!(of_companion(&companion), hash);
    }
}
