//! CPU masks of the machine's groups, computed once.

use std::ops::Range;

use fairground_machine::Machine;

use crate::structures::CpuMask;

/// Masks by CPU, cache and node.
pub struct Topology {
    /// SMT siblings of each CPU, including itself.
    pub siblings: Vec<CpuMask>,
    /// The 64-bit words of a mask that hold the siblings of each CPU.
    pub sibling_words: Vec<Range<usize>>,
    /// CPUs of each core, ascending.
    cores: Vec<Vec<usize>>,
    /// Core of each CPU.
    pub core_of: Vec<usize>,
    /// CPUs of each last-level cache.
    pub caches: Vec<CpuMask>,
    /// CPUs of each node.
    pub nodes: Vec<CpuMask>,
    /// Whether any core has more than one CPU.
    pub smt: bool,
    /// Whether CPUs differ in capacity.
    pub unequal: bool,
    /// 64-bit words that masks of this machine need.
    pub words: usize,
    /// Cache of each CPU.
    pub cache_of: Vec<usize>,
    /// Node of each CPU.
    pub node_of: Vec<usize>,
    /// Nodes by distance from each node, nearest first, without the node itself.
    pub nodes_by_distance: Vec<Vec<usize>>,
    /// Whether the default CPU selection considers caches (`scx_selcpu_topo_llc`).
    pub select_by_cache: bool,
    /// Whether it considers nodes (`scx_selcpu_topo_numa`).
    pub select_by_node: bool,
}

impl Topology {
    /// SMT siblings of a CPU, including itself, in ascending order.
    pub fn siblings_of(&self, cpu: usize) -> &[usize] {
        &self.cores[self.core_of[cpu]]
    }

    /// The masks of `machine`.
    pub fn new(machine: &Machine) -> Topology {
        let count = machine.cpus.len();
        let groups = |number: usize, group: &dyn Fn(usize) -> u32| {
            let mut masks = vec![CpuMask::default(); number];
            for cpu in 0..count {
                masks[group(cpu) as usize].set(cpu);
            }
            masks
        };
        let cores = groups(machine.cores().len(), &|cpu| machine.cpus[cpu].core);
        let caches = groups(machine.llcs().len(), &|cpu| machine.cpus[cpu].llc);
        let nodes = groups(machine.nodes().len(), &|cpu| machine.cpus[cpu].node);
        let siblings: Vec<CpuMask> =
            machine.cpus.iter().map(|cpu| cores[cpu.core as usize]).collect();
        let words_of = |mask: &CpuMask| {
            let mut words = mask.iter().map(|cpu| cpu / 64);
            let first = words.next().unwrap_or(0);
            first..words.last().unwrap_or(first) + 1
        };
        let sibling_words = siblings.iter().map(words_of).collect();
        let smt = cores.iter().any(|core| core.weight() > 1);
        let cache_of: Vec<usize> = machine.cpus.iter().map(|cpu| cpu.llc as usize).collect();
        let node_of: Vec<usize> = machine.cpus.iter().map(|cpu| cpu.node as usize).collect();
        let nodes_by_distance = (0..nodes.len())
            .map(|node| {
                let mut others: Vec<usize> =
                    (0..nodes.len()).filter(|other| *other != node).collect();
                others.sort_by_key(|other| machine.node_distances[node * nodes.len() + other]);
                others
            })
            .collect();
        let first_cache = caches[cache_of[0]].weight() as usize;
        let mismatch =
            (0..count).any(|cpu| caches[cache_of[cpu]].weight() != nodes[node_of[cpu]].weight());
        let select_by_cache = first_cache < count;
        let select_by_node = (nodes[node_of[0]].weight() as usize) < count && mismatch;
        Topology {
            siblings,
            cores: cores.iter().map(|core| core.iter().collect()).collect(),
            core_of: machine.cpus.iter().map(|cpu| cpu.core as usize).collect(),
            sibling_words,
            caches,
            smt,
            unequal: machine.cpus.iter().any(|cpu| cpu.capacity != machine.cpus[0].capacity),
            words: count.div_ceil(64),
            cache_of,
            node_of,
            nodes_by_distance,
            select_by_cache,
            select_by_node,
            nodes,
        }
    }
}
