//! The description of a machine.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use fairground_events::CgroupMode;

use crate::hardware::Hardware;

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

/// How far apart two CPUs are.
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
    /// Whether its CPUs are known to be of several kinds, but not how fast each kind is; they all have the full capacity then.
    pub unknown_speeds: bool,
    /// How its kernel lets the shares of control groups grow.
    pub cgroup_mode: CgroupMode,
    /// How its CPUs share cores, sleep and change speed.
    pub hardware: Hardware,
    /// The machine's own number of each CPU, in ascending order; people and files use these numbers. They differ from the CPU numbers where the
    /// machine leaves some out.
    pub numbers: Vec<u32>,
    /// Parts of the description that were left out, and assumptions in their place, in words.
    pub notes: Vec<String>,
    /// The sources of its parts, if the description has them.
    pub origins: Vec<(String, String)>,
}

impl Machine {
    /// Maximum number of CPUs of a machine.
    pub const CPUS_MAX: usize = 4096;

    /// Says where something comes from.
    pub(crate) fn origin(&mut self, what: &str, origin: &str) {
        self.origins.push((what.to_owned(), origin.to_owned()));
    }

    /// Number of CPUs.
    #[inline]
    pub fn cpu_count(&self) -> usize {
        self.cpus.len()
    }

    /// The CPU with this number of the machine's own.
    #[inline]
    pub fn find(&self, number: u32) -> Option<usize> {
        self.numbers.binary_search(&number).ok()
    }

    /// Whether the machine itself leaves out CPU numbers.
    #[inline]
    pub fn has_gaps(&self) -> bool {
        (0..).zip(&self.numbers).any(|(cpu, number)| cpu != *number)
    }

    /// The machine's own CPU numbers, in words: `CPUs 0 to 7`, `CPUs 0-1,8-9`.
    pub fn told_numbers(&self) -> String {
        match self.has_gaps() {
            true => format!("CPUs {}", ranges(&self.numbers)),
            false => format!("CPUs 0 to {}", self.cpus.len() - 1),
        }
    }

    /// How far apart two CPUs are. CPUs that share a cache across nodes count as sharing it.
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
    #[inline]
    pub fn distance(&self, a: usize, b: usize) -> Distance {
        let (first, second) = (&self.cpus[a], &self.cpus[b]);
        if a == b {
            Distance::Same
        } else if first.core == second.core {
            Distance::Sibling
        } else if first.llc == second.llc {
            Distance::Cache
        } else if first.node == second.node {
            Distance::Node
        } else {
            Distance::Remote
        }
    }

    /// ACPI-style distance between two nodes (10 = local).
    ///
    /// # Panics
    ///
    /// If there is no such node.
    #[inline]
    pub fn node_distance(&self, a: u32, b: u32) -> u32 {
        let nodes = self.nodes().len();
        assert!((a as usize) < nodes && (b as usize) < nodes, "no such node");
        self.node_distances[a as usize * nodes + b as usize]
    }

    /// The cores.
    #[inline]
    pub fn cores(&self) -> Range<u32> {
        self.groups(|cpu| cpu.core)
    }

    /// The last-level caches.
    #[inline]
    pub fn llcs(&self) -> Range<u32> {
        self.groups(|cpu| cpu.llc)
    }

    /// The nodes, including those that have memory but no CPUs.
    #[inline]
    pub fn nodes(&self) -> Range<u32> {
        0..self.node_distances.len().isqrt() as u32
    }

    /// The packages.
    #[inline]
    pub fn packages(&self) -> Range<u32> {
        self.groups(|cpu| cpu.package)
    }

    /// CPUs of the same core in ascending order, including the CPU itself.
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
    #[inline]
    pub fn siblings(&self, cpu: usize) -> impl Iterator<Item = usize> + '_ {
        self.members(|cpu| cpu.core, self.cpus[cpu].core)
    }

    /// CPUs of a core in ascending order.
    #[inline]
    pub fn core_members(&self, core: u32) -> impl Iterator<Item = usize> + '_ {
        self.members(|cpu| cpu.core, core)
    }

    /// CPUs of a last-level cache in ascending order.
    #[inline]
    pub fn llc_members(&self, llc: u32) -> impl Iterator<Item = usize> + '_ {
        self.members(|cpu| cpu.llc, llc)
    }

    /// CPUs of a node in ascending order.
    #[inline]
    pub fn node_members(&self, node: u32) -> impl Iterator<Item = usize> + '_ {
        self.members(|cpu| cpu.node, node)
    }

    /// CPUs of a package in ascending order.
    #[inline]
    pub fn package_members(&self, package: u32) -> impl Iterator<Item = usize> + '_ {
        self.members(|cpu| cpu.package, package)
    }

    #[inline]
    fn groups(&self, group: impl Fn(&Cpu) -> u32) -> Range<u32> {
        0..self.cpus.iter().map(|cpu| group(cpu) + 1).max().unwrap_or(0)
    }

    #[inline]
    fn members<'a>(
        &'a self,
        group: impl Fn(&Cpu) -> u32 + 'a,
        number: u32,
    ) -> impl Iterator<Item = usize> + 'a {
        let cpus = self.cpus.iter().enumerate();
        cpus.filter(move |(_, cpu)| group(cpu) == number).map(|(index, _)| index)
    }
}

/// Ascending numbers as in the kernel's lists, such as `0-3,8`.
pub(crate) fn ranges(numbers: &[u32]) -> String {
    let parts = numbers.chunk_by(|one, next| one + 1 == *next);
    let parts: Vec<String> = parts
        .map(|part| match part {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => String::new(),
        })
        .collect();
    parts.join(",")
}

/// Writes a summary, such as `16 CPUs, 8 cores, 4 last-level caches, 2 nodes, 2 packages`,
/// with the capacities if they differ, and how CPUs share cores, sleep and change speed.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |number: usize, what: &str| match number {
            1 => format!("1 {what}"),
            _ => format!("{number} {what}s"),
        };
        write!(
            f,
            "{}, {}, {}, {}, {}",
            count(self.cpus.len(), "CPU"),
            count(self.cores().len(), "core"),
            count(self.llcs().len(), "last-level cache"),
            count(self.nodes().len(), "node"),
            count(self.packages().len(), "package"),
        )?;
        let without = |node: &u32| self.node_members(*node).next().is_none();
        match self.nodes().filter(without).count() {
            0 => {}
            1 => f.write_str(", 1 of the nodes without CPUs")?,
            several => write!(f, ", {several} of the nodes without CPUs")?,
        }
        let mut capacities: BTreeMap<u32, usize> = BTreeMap::new();
        for cpu in &self.cpus {
            *capacities.entry(cpu.capacity).or_default() += 1;
        }
        if capacities.len() > 1 {
            let list: Vec<_> = capacities
                .iter()
                .rev()
                .map(|(capacity, cpus)| format!("{cpus}x{capacity}"))
                .collect();
            write!(f, ", capacities {}", list.join(", "))?;
        }
        match self.hardware.to_string() {
            none if none.is_empty() => Ok(()),
            some => write!(f, ", {some}"),
        }
    }
}
