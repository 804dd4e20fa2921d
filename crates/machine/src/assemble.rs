//! Builds a machine from the properties of each CPU in a description.

use std::collections::BTreeMap;

use fairground_events::CgroupMode;

use crate::hardware::Hardware;
use crate::model::{Cpu, Machine};

/// Distance of a node from itself if nothing else is known.
const LOCAL_DISTANCE: u32 = 10;
/// Distance between nodes if nothing else is known.
const REMOTE_DISTANCE: u32 = 20;

/// The place and properties of a CPU in a description. Any distinct numbers may identify groups, which are renumbered in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Number of the CPU, unique but possibly with gaps.
    pub number: u32,
    pub core: u64,
    pub llc: u64,
    pub node: u32,
    pub package: u64,
    pub capacity: u32,
}

/// Distances between nodes, by their numbers in [`Facts`].
pub(crate) type NodeDistances = BTreeMap<(u32, u32), u32>;

/// Makes the machine. `memory` are the nodes that have memory; CPUs need not be in any of them. Distances that are not given get defaults.
pub(crate) fn assemble(
    description: &str,
    mut cpus: Vec<Facts>,
    memory: &[u32],
    distances: &NodeDistances,
) -> Machine {
    cpus.sort_by_key(|cpu| cpu.number);
    let cores = dense(cpus.iter().map(|cpu| cpu.core));
    let llcs = dense(cpus.iter().map(|cpu| cpu.llc));
    // As in the kernel, a node without CPUs counts.
    let nodes = dense(cpus.iter().map(|cpu| cpu.node).chain(memory.iter().copied()));
    let packages = dense(cpus.iter().map(|cpu| cpu.package));
    let distance = |a: &u32, b: &u32| {
        let default = if a == b { LOCAL_DISTANCE } else { REMOTE_DISTANCE };
        *distances.get(&(*a, *b)).unwrap_or(&default)
    };
    let node_distances =
        nodes.keys().flat_map(|a| nodes.keys().map(move |b| distance(a, b))).collect();
    let mut machine = Machine {
        description: description.into(),
        numbers: cpus.iter().map(|cpu| cpu.number).collect(),
        notes: Vec::new(),
        origins: Vec::new(),
        cpus: cpus
            .iter()
            .map(|cpu| Cpu {
                core: cores[&cpu.core],
                llc: llcs[&cpu.llc],
                node: nodes[&cpu.node],
                package: packages[&cpu.package],
                capacity: cpu.capacity,
            })
            .collect(),
        node_distances,
        unknown_speeds: false,
        cgroup_mode: CgroupMode::default(),
        hardware: Hardware::default(),
    };
    if machine.has_gaps() {
        machine.notes.push(format!(
            "the machine's {} are CPUs 0 to {} for schedulers, whose kernel messages and debug dumps have those numbers; all else has the machine's own",
            machine.told_numbers(),
            machine.cpus.len() - 1
        ));
    }
    machine
}

/// Numbers the distinct values from 0 in ascending order.
fn dense<T: Ord>(values: impl Iterator<Item = T>) -> BTreeMap<T, u32> {
    let mut numbers: BTreeMap<T, u32> = values.map(|value| (value, 0)).collect();
    for (number, index) in numbers.values_mut().zip(0..) {
        *number = index;
    }
    numbers
}
