//! Writes a TOML file of the machine that this program runs on, from the kernel's files under `/sys`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::frequencies::{self, Policy};
use crate::hardware::Step;
use crate::host::{self, folders, number, text};
use crate::model::{Machine, ranges};

/// A machine as a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The file's text, TOML.
    pub text: String,
    /// Facts that could not be found out, and why.
    pub notes: Vec<String>,
}

/// Describes the machine that this program runs on, as far as the kernel tells; `name` says what machine it is. The energy model is for root only.
pub fn capture(name: &str) -> Result<Captured, Error> {
    Capture::of(Path::new("/sys"), name)
}

struct Capture<'a> {
    sys: &'a Path,
    captured: Captured,
}

impl Capture<'_> {
    fn of(sys: &Path, name: &str) -> Result<Captured, Error> {
        let machine = host::read(sys)?;
        let text = format!("# {name}; fairground calibrate --machine made this.\n");
        let mut capture =
            Capture { sys, captured: Captured { text, notes: machine.notes.clone() } };
        capture.topology(&machine);
        capture.caches(&machine);
        capture.idle_states(&machine);
        capture.clocks(&machine);
        Ok(capture.captured)
    }

    fn note(&mut self, note: impl Into<String>) {
        self.captured.notes.push(note.into());
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.captured.text, "{line}");
    }

    /// Begins a table.
    fn table(&mut self, head: &str, origin: &str) {
        self.line(format_args!("\n{head}\norigin = {}", quoted(origin)));
    }

    fn topology(&mut self, machine: &Machine) {
        self.table("[topology]", "/sys/devices/system/cpu and node");
        self.line(format_args!("cpus = {}", quoted(&ranges(&machine.numbers))));
        let packages =
            { machine.packages() }.map(|one| machine.package_members(one).collect::<Vec<_>>());
        let nodes = { machine.nodes() }.map(|one| machine.node_members(one).collect::<Vec<_>>());
        let caches = { machine.llcs() }.map(|one| machine.llc_members(one).collect::<Vec<_>>());
        let cores = { machine.cores() }.map(|one| machine.core_members(one).collect::<Vec<_>>());
        let groups: [(&str, Vec<Vec<usize>>); 4] = [
            ("packages", packages.collect()),
            ("nodes", nodes.collect()),
            ("caches", caches.collect()),
            ("cores", cores.collect()),
        ];
        for (key, groups) in groups {
            let groups = groups.iter().map(|cpus| quoted(&numbers(machine, cpus)));
            let list: Vec<String> = groups.collect();
            self.line(format_args!("{key} = [{}]", list.join(", ")));
        }
        let distances = &machine.node_distances;
        if distances.len() > 1 {
            self.line(format_args!("distances = {distances:?}"));
        }
        if machine.cores().len() < machine.cpus.len() {
            self.note("no kernel knows how much busy SMT siblings do together; a table [smt] says it, and without one each computes at full speed");
        }
        if machine.unknown_speeds {
            self.note("the kernel does not say how fast each kind of CPU is; a table [capacity] says it, and without one all are equally fast");
        }
        self.capacities(machine);
    }

    fn capacities(&mut self, machine: &Machine) {
        let capacities: Vec<u32> = machine.cpus.iter().map(|cpu| cpu.capacity).collect();
        if capacities.iter().all(|capacity| *capacity == capacities[0]) {
            return;
        }
        let runs = capacities.chunk_by(|one, next| one == next);
        let runs: Vec<String> = runs.map(|run| format!("{}x{}", run.len(), run[0])).collect();
        self.table("[capacity]", "/sys/devices/system/cpu/cpu*/cpu_capacity");
        self.line(format_args!("list = {}", quoted(&runs.join(","))));
    }

    /// The size of the last-level caches is only half of the matter: how long memory takes has to be measured.
    fn caches(&mut self, machine: &Machine) {
        let sizes = { machine.numbers.iter() }.map(|cpu| {
            let folder = self.cpu_folder(*cpu).join("cache");
            let sizes = folders(&folder, "index").into_iter().filter_map(|index| {
                let folder = folder.join(format!("index{index}"));
                Some((number(&folder.join("level"))?, text(&folder.join("size"))?))
            });
            sizes.max_by_key(|(level, _)| *level)
        });
        let sizes: BTreeSet<Option<String>> = sizes.map(|size| Some(size?.1)).collect();
        let note = match sizes.first() {
            Some(Some(size)) if sizes.len() == 1 => format!(
                "a table [cache] says how long memory takes, which no kernel knows; the caches of the last level have {size} each, and without the table tasks \
                 displace nothing from them"
            ),
            _ => "the kernel does not say how large the caches of the last level are, or they differ; a table [cache] says it, and without one tasks displace \
                  nothing from them".to_owned(),
        };
        self.note(note);
    }

    fn cpu_folder(&self, number: u32) -> PathBuf {
        self.sys.join(format!("devices/system/cpu/cpu{number}"))
    }

    /// The idle states of all CPUs, one table for all CPUs with the same ones.
    fn idle_states(&mut self, machine: &Machine) {
        let mut tables: BTreeMap<Vec<(String, u64, u64)>, Vec<usize>> = BTreeMap::new();
        for (cpu, number) in machine.numbers.iter().enumerate() {
            let states = states(&self.cpu_folder(*number).join("cpuidle"));
            tables.entry(states).or_default().push(cpu);
        }
        if let Some(cpus) = tables.remove(&Vec::new()) {
            self.note(format!(
                "the kernel has no idle states for CPUs {}; leaving idleness costs the same whatever the CPU did before",
                numbers(machine, &cpus)
            ));
        }
        for (states, cpus) in tables {
            self.table("[[idle]]", "/sys/devices/system/cpu/cpu*/cpuidle");
            self.line(format_args!("cpus = {}", quoted(&numbers(machine, &cpus))));
            self.line(format_args!("states = ["));
            for (name, latency, residency) in states {
                self.line(format_args!(
                    "\t{{ name = {}, exit_us = {latency}, residency_us = {residency} }},",
                    quoted(&name)
                ));
            }
            self.line(format_args!("]"));
        }
    }

    /// The frequencies of all CPUs, one table for each policy, or that the hardware sets them.
    fn clocks(&mut self, machine: &Machine) {
        let policies = frequencies::policies(self.sys, machine);
        if let Some(policy) = policies.iter().find(|policy| policy.is_up_to_hardware()) {
            let origin =
                format!("/sys/devices/system/cpu/cpufreq: the driver is {}", policy.driver);
            self.table("[speed]", &origin);
            self.line(format_args!("set_by = \"hardware\""));
            return;
        }
        if policies.is_empty() {
            self.note("the kernel does not set the frequencies of this machine's CPUs");
        }
        let (mut has_clocks, mut has_power) = (false, false);
        for Policy { number, governor, cpus, steps, rate_limit, .. } in policies {
            if governor != "schedutil" {
                self.note(format!(
                    "the governor of policy{number} is {governor}; simulations have schedutil"
                ));
            }
            if steps.is_empty() || cpus.is_empty() {
                self.note(format!(
                    "policy{number} has no list of frequencies, so its CPUs have one frequency"
                ));
                continue;
            }
            has_clocks = true;
            let origin = "/sys/devices/system/cpu/cpufreq, and the energy model in debugfs for mw";
            self.table("[[clock]]", origin);
            self.line(format_args!("cpus = {}", quoted(&numbers(machine, &cpus))));
            if let Some(limit) = rate_limit {
                self.line(format_args!("rate_limit_us = {limit}"));
            }
            self.line(format_args!("steps = ["));
            for Step { frequency, power } in steps {
                has_power |= power.is_some();
                let power = power
                    .map_or(String::new(), |power| format!(", mw = {}", power as f64 / 1000.0));
                self.line(format_args!("\t{{ khz = {frequency}{power} }},"));
            }
            self.line(format_args!("]"));
        }
        if has_clocks && !has_power {
            self.note("the kernel's energy model cannot be read, so the energy is not known; root reads it in debugfs where there is one");
        }
    }
}

/// The idle states in a folder such as `cpu0/cpuidle`: name, exit latency and residency in microseconds. Polling is none, and a state that is
/// shallower than one before it is left out.
fn states(folder: &Path) -> Vec<(String, u64, u64)> {
    let mut numbers = folders(folder, "state");
    numbers.sort_unstable();
    let mut states: Vec<(String, u64, u64)> = Vec::new();
    for state in numbers {
        let folder = folder.join(format!("state{state}"));
        let value = |file: &str| number(&folder.join(file)).map(u64::from);
        let Some((name, latency, residency)) = text(&folder.join("name"))
            .zip(value("latency"))
            .zip(value("residency"))
            .map(|((name, latency), residency)| (name, latency, residency))
        else {
            continue;
        };
        let is_deeper =
            { states.last() }.is_none_or(|last| latency >= last.1 && residency >= last.2);
        if name != "POLL" && is_deeper {
            states.push((name, latency, residency));
        }
    }
    states
}

/// A list of CPUs with the machine's own numbers.
fn numbers(machine: &Machine, cpus: &[usize]) -> String {
    let numbers: Vec<u32> = cpus.iter().map(|cpu| machine.numbers[*cpu]).collect();
    ranges(&numbers)
}

/// A text as TOML, which has the escapes of Rust that names of the kernel can need.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::Tree;
    use crate::online::Online;

    /// A tree of four CPUs: two cores with two threads, and numbers with a gap.
    fn tree(name: &str) -> Tree {
        let tree = Tree::new(
            name,
            &[
                ("cpu/online", "0-1,4-5"),
                ("node/online", "0"),
                ("node/node0/cpulist", "0-1,4-5"),
                ("node/node0/distance", "10"),
            ],
        );
        for cpu in [0, 1, 4, 5] {
            let core = cpu % 4;
            let path = |file: &str| format!("cpu/cpu{cpu}/{file}");
            tree.write(&path("topology/core_cpus_list"), &format!("{core},{}", core + 4));
            tree.write(&path("cache/index0/level"), "3");
            tree.write(&path("cache/index0/type"), "Unified");
            tree.write(&path("cache/index0/shared_cpu_list"), "0-1,4-5");
            tree.write(&path("cpu_capacity"), if core == 0 { "512" } else { "1024" });
            for (state, name, latency, residency) in
                [(0, "POLL", "0", "0"), (1, "C1", "1", "2"), (2, "C6", "85", "200")]
            {
                let path = |file: &str| path(&format!("cpuidle/state{state}/{file}"));
                tree.write(&path("name"), name);
                tree.write(&path("latency"), latency);
                tree.write(&path("residency"), residency);
            }
        }
        tree
    }

    #[test]
    fn a_captured_machine_is_the_machine() {
        let tree = tree("capture");
        for (policy, cpus) in [(0, "0 4"), (1, "1 5")] {
            let path = |file: &str| format!("cpu/cpufreq/policy{policy}/{file}");
            tree.write(&path("affected_cpus"), cpus);
            tree.write(&path("scaling_driver"), "cpufreq-dt");
            tree.write(&path("scaling_governor"), "schedutil");
            tree.write(&path("scaling_available_frequencies"), "500000 1000000 ");
            tree.write(&path("schedutil/rate_limit_us"), "750");
            let path = |file: &str| format!("../../kernel/debug/energy_model/cpu{policy}/{file}");
            tree.write(&path("flags"), "0x1");
            tree.write(&path("cpus"), &cpus.replace(' ', ","));
            tree.write(&path("ps:500000/power"), "20250");
            tree.write(&path("ps:1000000/power"), "70000");
        }
        let captured = Capture::of(tree.sys(), "A test").unwrap();
        let machine = Machine::parse_toml("test.toml", &captured.text).unwrap();
        let host = host::read(tree.sys()).unwrap();
        assert_eq!(machine.cpus, host.cpus);
        assert_eq!(machine.numbers, host.numbers);
        assert_eq!(machine.node_distances, host.node_distances);
        let hardware = &machine.hardware;
        assert_eq!(hardware.idle_states(3).len(), 2);
        assert_eq!(hardware.idle_states(3)[1].exit_latency, 85_000);
        assert_eq!(hardware.clocks[1].cpus, [1, 3]);
        assert_eq!(hardware.clocks[1].rate_limit, 750_000);
        assert_eq!(hardware.clocks[1].steps[0].power, Some(20_250));
        let seen_by_loaders = Online::read(tree.sys()).unwrap().machine.hardware;
        assert_eq!(seen_by_loaders.clocks, hardware.clocks);
        let notes = captured.notes.join("\n");
        assert!(notes.contains("no kernel knows how much busy SMT siblings do"), "{notes}");
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_said() {
        let tree = tree("hardware");
        tree.write("cpu/cpufreq/policy0/scaling_driver", "intel_pstate");
        let captured = Capture::of(tree.sys(), "A test").unwrap();
        let machine = Machine::parse_toml("test.toml", &captured.text).unwrap();
        assert!(machine.hardware.sets_speed && machine.hardware.clocks.is_empty());
        tree.write("cpu/cpufreq/policy0/affected_cpus", "0");
        tree.write("cpu/cpufreq/policy0/scaling_available_frequencies", "500000");
        assert!(Online::read(tree.sys()).unwrap().machine.hardware.clocks.is_empty());
        let bare = Tree::new("bare", &[("cpu/online", "0-1")]);
        let captured = Capture::of(bare.sys(), "A \"test\"").unwrap();
        assert!(Machine::parse_toml("test.toml", &captured.text).is_ok());
        let notes = captured.notes.join("\n");
        assert!(notes.contains("no idle states for CPUs 0-1"), "{notes}");
        assert!(notes.contains("does not set the frequencies"), "{notes}");
    }
}
