//! The values that loaders write into the variables of `schedulers/include/topology.h` and `schedulers/eevdf/clocks.h`.

use fairground_machine::{Clock, Cpu, Machine, Online};

/// A read-only variable of a scheduler, and the bytes it is to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name in the object.
    pub name: &'static str,
    /// The section that it is in.
    pub section: &'static str,
    /// Its bytes. For arrays, they are longer than the variable in the object: the array is alone in its section, and the section has to grow
    /// to the length of these bytes.
    pub bytes: Vec<u8>,
}

/// The variables that describe a machine. An object that has none of them does not use topology; a loader sets those that it finds.
pub fn variables(online: &Online) -> Vec<Variable> {
    let machine = &online.machine;
    let order = Order::of(machine);
    let narrow_count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let count = |group: fn(&Cpu) -> u32| {
        let largest = machine.cpus.iter().map(group).max();
        largest.map_or(0, |largest| largest + 1)
    };
    let number = |name, value: u32| Variable {
        name,
        section: ".rodata",
        bytes: value.to_ne_bytes().to_vec(),
    };
    let array = |name, section, values: Vec<u16>| Variable {
        name,
        section,
        bytes: values.into_iter().flat_map(u16::to_ne_bytes).collect(),
    };
    let clocks = Clocks::of(online);
    vec![
        number("topology_nr_cpus", narrow_count(online.id_count)),
        number("topology_nr_online", narrow_count(machine.cpus.len())),
        number("topology_nr_cores", count(|cpu| cpu.core)),
        number("topology_nr_llcs", count(|cpu| cpu.llc)),
        number("topology_nr_nodes", narrow_count(machine.nodes().len())),
        number("topology_nr_packages", count(|cpu| cpu.package)),
        number("topology_cgroup_mode", machine.cgroup_mode as u32),
        array("cpu_topology", ".rodata.cpu_topology", order.records(online)),
        array(
            "node_distance",
            ".rodata.node_distance",
            machine.node_distances.iter().map(|d| narrow(*d)).collect(),
        ),
        number("topology_nr_clocks", narrow_count(machine.hardware.clocks.len())),
        number("topology_nr_clock_cpus", narrow_count(clocks.cpus.len())),
        number("topology_nr_clock_steps", narrow_count(clocks.steps.len())),
        array("cpu_clocks", ".rodata.cpu_clocks", clocks.records),
        array("clock_cpus", ".rodata.clock_cpus", clocks.cpus),
        Variable {
            name: "clock_steps",
            section: ".rodata.clock_steps",
            bytes: clocks.steps.into_iter().flatten().flat_map(u32::to_ne_bytes).collect(),
        },
    ]
}

/// The clocks of a machine and their frequencies.
#[derive(Default)]
struct Clocks {
    /// `struct cpu_clock` of each.
    records: Vec<u16>,
    /// The CPUs of the first clock, then those of the second one, and so on.
    cpus: Vec<u16>,
    /// `struct clock_step` of each frequency, in the same order.
    steps: Vec<[u32; 2]>,
}

impl Clocks {
    /// With the numbers of the kernel's energy model (`em_init_performance()`, `em_compute_costs()`). It has none for CPUs of different capacities.
    fn of(online: &Online) -> Self {
        let mut all = Self::default();
        for Clock { cpus, steps, .. } in &online.machine.hardware.clocks {
            let record = [all.cpus.len(), cpus.len(), all.steps.len(), steps.len()];
            all.records.extend(record.map(narrow));
            all.cpus.extend(cpus.iter().map(|cpu| narrow(online.ids[*cpu])));
            let capacity = |cpu: &usize| u64::from(online.machine.cpus[*cpu].capacity);
            let most = cpus.iter().map(capacity).max().unwrap_or(0);
            let is_uniform = cpus.iter().all(|cpu| capacity(cpu) == most);
            let highest = steps.last().map_or(1, |step| step.frequency);
            all.steps.extend(steps.iter().map(|step| {
                let performance = most * step.frequency / highest;
                let power = step.power.filter(|_| is_uniform).unwrap_or(0);
                let cost = 10 * power / performance.max(1);
                [performance, cost].map(|number| u32::try_from(number).unwrap_or(u32::MAX))
            }));
        }
        all
    }
}

/// The levels of the topology that have a span in a record, in record order.
const LEVELS: [fn(&Cpu) -> u32; 4] =
    [|cpu| cpu.core, |cpu| cpu.llc, |cpu| cpu.node, |cpu| cpu.package];

/// Numbers of a `struct cpu_topology`.
const RECORD: usize = 7 + 2 * LEVELS.len();

/// CPUs in the depth-first order of the topology tree.
struct Order {
    /// The CPU at each position.
    cpus: Vec<usize>,
}

impl Order {
    /// Levels with fewer groups are further out in the tree, so CPUs are sorted by the groups of the coarsest level first. That is right
    /// whether a package contains several nodes or a node several packages.
    fn of(machine: &Machine) -> Self {
        let mut levels = LEVELS.to_vec();
        levels.sort_by_key(|group| {
            let mut groups: Vec<u32> = machine.cpus.iter().map(group).collect();
            groups.sort_unstable();
            groups.dedup();
            groups.len()
        });
        let mut cpus: Vec<usize> = (0..machine.cpus.len()).collect();
        cpus.sort_by_key(|cpu| {
            let groups: Vec<u32> = levels.iter().map(|g| g(&machine.cpus[*cpu])).collect();
            (groups, *cpu)
        });
        Self { cpus }
    }

    /// The first position of the CPUs around `position` that are in the same group, and their number.
    fn span(&self, machine: &Machine, position: usize, group: fn(&Cpu) -> u32) -> (usize, usize) {
        let group_at = |position: usize| group(&machine.cpus[self.cpus[position]]);
        let mine = group_at(position);
        let first = (0..position)
            .rev()
            .take_while(|other| group_at(*other) == mine)
            .last()
            .unwrap_or(position);
        let end = (position..self.cpus.len())
            .take_while(|other| group_at(*other) == mine)
            .last()
            .unwrap_or(position);
        (first, end - first + 1)
    }

    /// `struct cpu_topology` of every number that the kernel has for CPUs: [`RECORD`] numbers each. The CPUs that are offline come last in the
    /// order.
    fn records(&self, online: &Online) -> Vec<u16> {
        let Online { machine, ids, .. } = online;
        let by_position = self.cpus.iter().map(|cpu| ids[*cpu]);
        let by_position: Vec<usize> = by_position.chain(online.offline()).collect();
        let mut values = vec![0; online.id_count * RECORD];
        for (record, cpu) in values.chunks_mut(RECORD).zip(&by_position) {
            record[6] = narrow(*cpu);
        }
        for (position, cpu) in by_position.iter().enumerate() {
            let record = &mut values[cpu * RECORD..][..RECORD];
            record[5] = narrow(position);
            let Some(cpu) = self.cpus.get(position).map(|cpu| &machine.cpus[*cpu]) else {
                continue;
            };
            let place = [cpu.core, cpu.llc, cpu.node, cpu.package, cpu.capacity];
            record[..5].copy_from_slice(&place.map(narrow));
            for (span, group) in record[7..].chunks_mut(2).zip(LEVELS) {
                let (first, count) = self.span(machine, position, group);
                span.copy_from_slice(&[first, count].map(narrow));
            }
        }
        values
    }
}

/// A number as the 16 bits that records have; there are no machines with more than 65,535 CPUs.
fn narrow<T: TryInto<u16>>(value: T) -> u16 {
    value.try_into().unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two packages of two cores with two siblings each, numbered as by firmware: CPUs 0 to 3 are the first siblings.
    fn machine() -> Machine {
        let cpu = |core: u32| Cpu {
            core,
            llc: core / 2,
            node: core / 2,
            package: core / 2,
            capacity: 1024,
        };
        Machine {
            description: "test".to_owned(),
            cpus: (0..8).map(|index| cpu(index % 4)).collect(),
            node_distances: vec![10, 21, 21, 10],
            unknown_speeds: false,
            cgroup_mode: Default::default(),
            hardware: Default::default(),
            origins: Vec::new(),
            numbers: (0..8).collect(),
            notes: Vec::new(),
        }
    }

    fn words(variables: &[Variable], name: &str) -> Vec<u16> {
        let variable = variables.iter().find(|v| v.name == name).unwrap();
        variable.bytes.chunks_exact(2).map(|pair| u16::from_ne_bytes([pair[0], pair[1]])).collect()
    }

    #[test]
    fn counts_and_distances() {
        let variables = variables(&Online::whole(&machine()));
        let number = |name: &str| words(&variables, name)[0];
        assert_eq!(number("topology_nr_cpus"), 8);
        assert_eq!(number("topology_nr_cores"), 4);
        assert_eq!(number("topology_nr_llcs"), 2);
        assert_eq!(number("topology_nr_nodes"), 2);
        assert_eq!(number("topology_nr_packages"), 2);
        assert_eq!(words(&variables, "node_distance"), [10, 21, 21, 10]);
    }

    #[test]
    fn clocks_have_the_numbers_of_the_energy_model() {
        let phone = Machine::parse("phone").unwrap();
        let all = variables(&Online::whole(&phone));
        let number = |name: &str| words(&all, name)[0];
        assert_eq!(number("topology_nr_clocks"), 3);
        assert_eq!(words(&all, "cpu_clocks"), [0, 4, 0, 11, 4, 2, 11, 14, 6, 2, 25, 17]);
        assert_eq!(words(&all, "clock_cpus"), [0, 1, 2, 3, 4, 5, 6, 7]);
        let steps = all.iter().find(|one| one.name == "clock_steps").unwrap();
        let steps = steps.bytes.chunks_exact(4);
        let steps: Vec<u32> =
            steps.map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect();
        assert_eq!(steps.len(), 2 * 42);
        // 300 of 1803 MHz are 26 of 160, at 6.067 mW; all is 1024 at 2031.959 mW.
        assert_eq!(steps[..2], [26, 2333]);
        assert_eq!(steps[82..], [1024, 19843]);

        let all = variables(&Online::without(&phone, &[1, 6, 7]));
        assert_eq!(words(&all, "cpu_clocks"), [0, 3, 0, 11, 3, 2, 11, 14]);
        assert_eq!(words(&all, "clock_cpus"), [0, 2, 3, 4, 5]);
        let none = variables(&Online::whole(&machine()));
        assert_eq!(words(&none, "clock_cpus"), [0; 0]);
    }

    #[test]
    fn siblings_lie_side_by_side_in_the_order() {
        let records = words(&variables(&Online::whole(&machine())), "cpu_topology");
        let order: Vec<u16> = records.chunks_exact(15).map(|record| record[6]).collect();
        assert_eq!(order, [0, 4, 1, 5, 2, 6, 3, 7]);
        // CPU 6: core 2, cache, node and package 1, position 5; core span 4+2, the others 4+4.
        assert_eq!(records[6 * 15..7 * 15], [2, 1, 1, 1, 1024, 5, 3, 4, 2, 4, 4, 4, 4, 4, 4]);
    }

    #[test]
    fn cpus_that_are_offline_have_no_capacity_and_come_last() {
        let variables = variables(&Online::without(&machine(), &[1, 7]));
        let number = |name: &str| words(&variables, name)[0];
        assert_eq!(number("topology_nr_cpus"), 8);
        assert_eq!(number("topology_nr_online"), 6);
        assert_eq!(number("topology_nr_cores"), 4);
        let records = words(&variables, "cpu_topology");
        let order: Vec<u16> = records.chunks_exact(15).map(|record| record[6]).collect();
        assert_eq!(order, [0, 4, 5, 2, 6, 3, 1, 7]);
        let of = |cpu: usize| &records[cpu * 15..][..15];
        assert_eq!(of(1), [0, 0, 0, 0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
        // The second thread of core 1 is alone there.
        assert_eq!(of(5), [1, 0, 0, 0, 1024, 2, 3, 2, 1, 0, 3, 0, 3, 0, 3]);
    }

    #[test]
    fn a_node_may_hold_several_packages() {
        let mut machine = machine();
        for cpu in &mut machine.cpus {
            cpu.node = 0;
        }
        let records = words(&variables(&Online::whole(&machine)), "cpu_topology");
        // CPU 6: node span 0+8, package span 4+4.
        assert_eq!(records[6 * 15 + 11..7 * 15], [0, 8, 4, 4]);
    }
}
