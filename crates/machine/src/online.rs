//! The part of a machine that is online.

use std::path::Path;

use crate::error::Error;
use crate::frequencies;
use crate::hardware::{Clock, Hardware};
use crate::host;
use crate::model::{Cpu, Machine};

/// The CPUs of a machine that are online, as a scheduler's loader finds them. Their kernel still has numbers for the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Online {
    /// These CPUs, in groups of their own that are numbered without gaps.
    pub machine: Machine,
    /// The kernel's number of each, in ascending order.
    pub ids: Vec<usize>,
    /// The number of numbers that the kernel has for CPUs (`nr_cpu_ids`).
    pub id_count: usize,
}

impl Online {
    /// The whole machine.
    pub fn whole(machine: &Machine) -> Self {
        Self {
            machine: machine.clone(),
            ids: (0..machine.cpus.len()).collect(),
            id_count: machine.cpus.len(),
        }
    }

    /// The machine without the CPUs that are offline.
    pub fn without(machine: &Machine, offline: &[usize]) -> Self {
        if offline.is_empty() {
            return Self::whole(machine);
        }
        let ids: Vec<usize> =
            (0..machine.cpus.len()).filter(|cpu| !offline.contains(cpu)).collect();
        let dense = |group: fn(&Cpu) -> u32| {
            let mut groups: Vec<u32> = ids.iter().map(|id| group(&machine.cpus[*id])).collect();
            groups.sort_unstable();
            groups.dedup();
            groups
        };
        let place = |groups: &[u32], group| groups.binary_search(&group).unwrap_or(0) as u32;
        let cores = dense(|cpu| cpu.core);
        let llcs = dense(|cpu| cpu.llc);
        let packages = dense(|cpu| cpu.package);
        let cpus = ids.iter().map(|id| {
            let cpu = &machine.cpus[*id];
            Cpu {
                core: place(&cores, cpu.core),
                llc: place(&llcs, cpu.llc),
                // A node has memory without CPUs too.
                node: cpu.node,
                package: place(&packages, cpu.package),
                capacity: cpu.capacity,
            }
        });
        let clocks = machine.hardware.clocks.iter().filter_map(|clock| {
            let of_id = |id: &usize| ids.binary_search(id).ok();
            let cpus: Vec<usize> = clock.cpus.iter().filter_map(of_id).collect();
            (!cpus.is_empty()).then(|| Clock { cpus, ..clock.clone() })
        });
        Self {
            machine: Machine {
                cpus: cpus.collect(),
                numbers: ids.iter().map(|id| machine.numbers[*id]).collect(),
                hardware: Hardware { clocks: clocks.collect(), ..Hardware::default() },
                ..machine.clone()
            },
            id_count: machine.cpus.len(),
            ids,
        }
    }

    /// The machine that this program runs on, with the clocks of its CPUs.
    pub fn host() -> Result<Self, Error> {
        Self::read(Path::new("/sys"))
    }

    pub(crate) fn read(sys: &Path) -> Result<Self, Error> {
        let mut machine = host::read(sys)?;
        machine.hardware.clocks = frequencies::clocks(sys, &machine);
        let ids: Vec<usize> = machine.numbers.iter().map(|cpu| *cpu as usize).collect();
        let possible = host::list(&sys.join("devices/system/cpu/possible"));
        let last = possible.and_then(|cpus| cpus.last().copied()).map_or(0, |cpu| cpu as usize);
        Ok(Self { id_count: ids.iter().fold(last, |last, cpu| last.max(*cpu)) + 1, ids, machine })
    }

    /// The numbers of the CPUs that are offline.
    pub fn offline(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.id_count).filter(|id| self.ids.binary_search(id).is_err())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::Tree;

    #[test]
    fn groups_of_the_remaining_cpus_have_no_gaps() {
        // CPUs 2 and 3 are a core, as are 4 and 5, and 4 to 7 share a cache.
        let machine = Machine::parse("numa:2 l3:1 core:2 pu:2").unwrap();
        let online = Online::without(&machine, &[2, 3, 5]);
        assert_eq!(online.ids, [0, 1, 4, 6, 7]);
        assert_eq!(online.id_count, 8);
        assert_eq!(online.offline().collect::<Vec<_>>(), [2, 3, 5]);
        let cores: Vec<u32> = online.machine.cpus.iter().map(|cpu| cpu.core).collect();
        assert_eq!(cores, [0, 0, 1, 2, 2]);
        let llcs: Vec<u32> = online.machine.cpus.iter().map(|cpu| cpu.llc).collect();
        assert_eq!(llcs, [0, 0, 1, 1, 1]);

        let online = Online::without(&machine, &[0, 1, 2, 3]);
        assert!(online.machine.cpus.iter().all(|cpu| cpu.node == 1 && cpu.llc == 0));
        assert_eq!(online.machine.nodes(), 0..2);
    }

    #[test]
    fn the_kernels_numbers_count_cpus_that_are_offline() {
        let tree = Tree::new("offline", &[("cpu/online", "0,2-3"), ("cpu/possible", "0-5")]);
        let online = Online::read(tree.sys()).unwrap();
        assert_eq!(online.ids, [0, 2, 3]);
        assert_eq!(online.id_count, 6);

        let without = Tree::new("possible", &[("cpu/online", "0,2")]);
        assert_eq!(Online::read(without.sys()).unwrap().id_count, 3);
    }
}
