//! Machines: CPUs, caches, nodes, distances, capacities.

/// One logical CPU. All group numbers are dense, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Physical core; CPUs that share it are SMT siblings.
    pub core: u32,
    /// Last-level cache domain.
    pub llc: u32,
    /// NUMA node.
    pub node: u32,
    /// Socket.
    pub package: u32,
    /// Relative capacity, 1024 for the fastest CPU.
    pub capacity: u32,
}

/// How far two CPUs are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// The same CPU.
    Same,
    /// SMT siblings.
    Sibling,
    /// They share the last-level cache.
    Cache,
    /// The same node, different last-level cache.
    Node,
    /// Different nodes.
    Remote,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The description it was made from (`8`, `numa:2 core:4 pu:2`, a file, `host`).
    pub description: String,
    /// Its CPUs; the index is the CPU number.
    pub cpus: Vec<Cpu>,
    /// ACPI-style distances between nodes (10 = local), row by row; `nodes * nodes` entries.
    pub node_distances: Vec<u32>,
}
