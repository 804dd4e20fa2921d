//! Files in /sys, /proc and /boot as loaders find them on a machine.

use std::fmt::Display;
use std::path::PathBuf;

use fairground_bpf::{ExternKind, Object};
use fairground_machine::Machine;

use crate::KernelFacts;
use crate::error::{Error, system};

/// Number of process ids, as systemd sets it on 64-bit machines.
const PIDS: u32 = 1 << 22;

/// The kernel release in `uname`.
pub(crate) const RELEASE: &str = "7.3.0-fairground";

/// Files under these paths do not come from this machine.
const PLACES: [&str; 18] = [
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/sys/kernel/btf",
    "/sys/kernel/sched_ext",
    "/sys/kernel/debug",
    "/sys/kernel/tracing",
    "/sys/fs/bpf",
    "/boot/config-",
    "/proc/config.gz",
    "/proc/cpuinfo",
    "/proc/kallsyms",
    "/proc/mounts",
    "/proc/self/mountinfo",
    "/proc/self/mounts",
    "/proc/sys/kernel/ftrace_enabled",
    "/proc/sys/kernel/pid_max",
    "/proc/schedstat",
    "/proc/stat",
];

/// The mounts: the kind of each file system, and where.
const MOUNTS: [(&str, &str); 8] = [
    ("tmpfs", "/"),
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("cgroup2", "/sys/fs/cgroup"),
    ("bpf", "/sys/fs/bpf"),
    ("debugfs", "/sys/kernel/debug"),
    ("tracefs", "/sys/kernel/tracing"),
    ("tmpfs", "/run"),
];

/// Functions that tell loaders that this kernel has a callback.
const TELLING: [&str; 1] = ["scx_group_set_bandwidth"];

/// The files, in their own folder.
pub(crate) struct Tree {
    folder: tempfile::TempDir,
    machine: Machine,
    /// CPUs that are offline, in ascending order.
    offline: Vec<usize>,
    /// Number of times that CPUs came or went.
    changes: u64,
}

impl Tree {
    pub(crate) fn make(
        machine: &Machine,
        btf: &[u8],
        object: &Object,
        kernel: &dyn KernelFacts,
    ) -> Result<Self, Error> {
        let folder = system("create a folder for the machine's files", tempfile::tempdir())?;
        let tree = Self { folder, machine: machine.clone(), offline: Vec::new(), changes: 0 };
        let made = tree.fill(btf, object, kernel);
        system("write the machine's files", made)?;
        Ok(tree)
    }

    /// The replacement for `path`; `None` if it comes from this machine.
    pub(crate) fn redirect(&self, path: &str) -> Option<PathBuf> {
        let applies = PLACES.iter().any(|place| {
            path.strip_prefix(place).is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('/') || place.ends_with('-')
            })
        });
        applies.then(|| self.folder.path().join(path.trim_start_matches('/')))
    }

    fn write(&self, path: &str, contents: impl Display) -> std::io::Result<()> {
        let path = self.folder.path().join(path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, format!("{contents}\n"))
    }

    fn fill(&self, btf: &[u8], object: &Object, kernel: &dyn KernelFacts) -> std::io::Result<()> {
        self.write_machine()?;
        let sched_ext = "sys/kernel/sched_ext";
        self.write(&format!("{sched_ext}/state"), "disabled")?;
        for name in ["nr_rejected", "enable_seq", "switch_all"] {
            self.write(&format!("{sched_ext}/{name}"), 0)?;
        }
        let types = self.folder.path().join("sys/kernel/btf");
        std::fs::create_dir_all(&types)?;
        std::fs::write(types.join("vmlinux"), btf)?;
        self.write("proc/sys/kernel/ftrace_enabled", 1)?;
        self.write_file_systems()?;
        self.write("proc/sys/kernel/pid_max", PIDS)?;
        self.write(&format!("boot/config-{RELEASE}"), configuration(object, kernel))?;
        self.write("proc/kallsyms", symbols(object, kernel))
    }

    /// Takes these CPUs offline, and all others online.
    pub(crate) fn set_offline(&mut self, offline: Vec<usize>) -> std::io::Result<()> {
        self.offline = offline;
        self.changes += 1;
        for folder in ["sys/devices/system/cpu", "sys/devices/system/node"] {
            std::fs::remove_dir_all(self.folder.path().join(folder))?;
        }
        self.write_machine()
    }

    /// Number of CPUs, online or not.
    pub(crate) fn cpus(&self) -> usize {
        self.machine.cpus.len()
    }

    /// Whether a CPU is online.
    pub(crate) fn is_online(&self, cpu: usize) -> bool {
        !self.offline.contains(&cpu)
    }

    /// The files that change when a CPU comes or goes.
    fn write_machine(&self) -> std::io::Result<()> {
        let count = self.machine.cpus.len();
        let all = ranges((0..count).collect());
        let online = self.online(0..count);
        let cpus = "sys/devices/system/cpu";
        self.write(&format!("{cpus}/online"), ranges(online.clone()))?;
        for name in ["possible", "present"] {
            self.write(&format!("{cpus}/{name}"), &all)?;
        }
        let smt = online.iter().any(|cpu| self.online(self.machine.siblings(*cpu)).len() > 1);
        self.write(&format!("{cpus}/offline"), ranges(self.offline.clone()))?;
        self.write(&format!("{cpus}/kernel_max"), Machine::CPUS_MAX - 1)?;
        self.write(&format!("{cpus}/smt/active"), u8::from(smt))?;
        let has_smt = self.machine.cores().len() < count;
        let control = if has_smt { "on" } else { "notsupported" };
        self.write(&format!("{cpus}/smt/control"), control)?;
        for cpu in 0..count {
            let is_online = self.is_online(cpu);
            self.write(&format!("{cpus}/cpu{cpu}/online"), u8::from(is_online))?;
            if is_online {
                self.write_cpu(cpu)?;
            }
        }
        self.write_nodes()?;
        self.write("sys/kernel/sched_ext/hotplug_seq", self.changes)?;
        let per_cpu = |line: &dyn Fn(usize) -> String| {
            let lines = online.iter().map(|cpu| line(*cpu));
            lines.collect::<String>()
        };
        let information = |cpu| {
            format!("processor\t: {cpu}\nmodel name\t: fairground\ncpu MHz\t\t: 3000.000\n\n")
        };
        self.write("proc/cpuinfo", per_cpu(&information))?;
        let zeros = " 0".repeat(10);
        let times = |cpu| format!("cpu{cpu}{zeros}\n");
        self.write(
            "proc/stat",
            format!("cpu {zeros}\n{}intr 0\nctxt 0\nbtime 1800000000\nprocesses 1\nprocs_running 1\nprocs_blocked 0\nsoftirq 0", per_cpu(&times)),
        )
    }

    fn write_nodes(&self) -> std::io::Result<()> {
        let machine = &self.machine;
        let nodes = "sys/devices/system/node";
        let numbers = ranges(machine.nodes().map(|node| node as usize).collect());
        for name in ["online", "possible"] {
            self.write(&format!("{nodes}/{name}"), &numbers)?;
        }
        let members = |node: usize| self.online(machine.node_members(node as u32));
        let with_cpus = machine.nodes().map(|node| node as usize);
        let with_cpus = with_cpus.filter(|node| !members(*node).is_empty());
        self.write(&format!("{nodes}/has_cpu"), ranges(with_cpus.collect()))?;
        for node in machine.nodes() {
            let folder = format!("{nodes}/node{node}");
            let members = members(node as usize);
            let distances: Vec<String> = machine
                .nodes()
                .map(|other| machine.node_distance(node, other).to_string())
                .collect();
            self.write(&format!("{folder}/distance"), distances.join(" "))?;
            let count = machine.cpus.len();
            self.write(&format!("{folder}/cpumap"), mask(&members, count))?;
            for cpu in &members {
                std::fs::create_dir_all(self.folder.path().join(format!("{folder}/cpu{cpu}")))?;
            }
            self.write(&format!("{folder}/cpulist"), ranges(members))?;
        }
        Ok(())
    }

    /// Those of these CPUs that are online.
    fn online(&self, cpus: impl Iterator<Item = usize>) -> Vec<usize> {
        cpus.filter(|cpu| self.is_online(*cpu)).collect()
    }

    /// The mount table in its two forms, and the files that loaders look for in the mounted file systems.
    fn write_file_systems(&self) -> std::io::Result<()> {
        let (mut table, mut details) = (String::new(), String::new());
        for (number, (kind, place)) in MOUNTS.iter().enumerate() {
            table.push_str(&format!("{kind} {place} {kind} rw,relatime 0 0\n"));
            let id = number + 20;
            details.push_str(&format!(
                "{id} 20 0:{id} / {place} rw,relatime shared:{id} - {kind} {kind} rw\n"
            ));
        }
        for name in ["proc/mounts", "proc/self/mounts"] {
            self.write(name, table.trim_end())?;
        }
        self.write("proc/self/mountinfo", details.trim_end())?;
        self.write("sys/kernel/tracing/available_tracers", "function nop")
    }

    fn write_cpu(&self, number: usize) -> std::io::Result<()> {
        let machine = &self.machine;
        let cpu = &machine.cpus[number];
        let folder = format!("sys/devices/system/cpu/cpu{number}");
        let siblings = ranges(self.online(machine.siblings(number)));
        let package = ranges(self.online(machine.package_members(cpu.package)));
        let topology = format!("{folder}/topology");
        self.write(&format!("{topology}/physical_package_id"), cpu.package)?;
        self.write(&format!("{topology}/core_id"), cpu.core)?;
        self.write(&format!("{topology}/cluster_id"), cpu.core)?;
        self.write(&format!("{topology}/die_id"), 0)?;
        for name in ["thread_siblings_list", "core_cpus_list"] {
            self.write(&format!("{topology}/{name}"), &siblings)?;
        }
        for name in ["core_siblings_list", "package_cpus_list"] {
            self.write(&format!("{topology}/{name}"), &package)?;
        }
        self.write(&format!("{folder}/cpu_capacity"), cpu.capacity)?;
        self.write(&format!("{folder}/power/pm_qos_resume_latency_us"), 0)?;
        let llc = ranges(self.online(machine.llc_members(cpu.llc)));
        let caches = [
            (1, "Data", "32K", &siblings, cpu.core),
            (1, "Instruction", "32K", &siblings, cpu.core),
            (2, "Unified", "1024K", &siblings, cpu.core),
            (3, "Unified", "16384K", &llc, cpu.llc),
        ];
        for (index, (level, kind, size, shared, id)) in caches.into_iter().enumerate() {
            let cache = format!("{folder}/cache/index{index}");
            self.write(&format!("{cache}/level"), level)?;
            self.write(&format!("{cache}/type"), kind)?;
            self.write(&format!("{cache}/size"), size)?;
            self.write(&format!("{cache}/shared_cpu_list"), shared)?;
            self.write(&format!("{cache}/id"), id)?;
        }
        Ok(())
    }

    /// Makes the kernel report that the scheduler called `name` is attached.
    pub(crate) fn enable(&self, name: &str) {
        // A loader that still finds the old state only waits.
        let _ = self.write("sys/kernel/sched_ext/state", "enabled");
        let _ = self.write("sys/kernel/sched_ext/root/ops", name);
    }

    /// Makes the kernel report that no scheduler is attached.
    pub(crate) fn disable(&self) {
        let _ = self.write("sys/kernel/sched_ext/state", "disabled");
        let _ = std::fs::remove_dir_all(self.folder.path().join("sys/kernel/sched_ext/root"));
    }
}

/// The configuration options that the object asks for.
fn configuration(object: &Object, kernel: &dyn KernelFacts) -> String {
    let mut text = String::new();
    for one in object.externs() {
        if let (ExternKind::Configuration { .. }, Some(value)) =
            (one.kind, kernel.kconfig(&one.name))
        {
            if one.name.starts_with("CONFIG_") {
                let value = if value == 1 { "y".to_owned() } else { value.to_string() };
                text.push_str(&format!("{}={value}\n", one.name));
            }
        }
    }
    text
}

/// The kernel functions that exist, as symbols: those that the object calls, and those that its programs attach to.
fn symbols(object: &Object, kernel: &dyn KernelFacts) -> String {
    let mut text = String::new();
    let known = object.externs().iter().filter(|one| match one.kind {
        ExternKind::Function { .. } => kernel.has_function(one.essential_name()),
        _ => matches!(one.kind, ExternKind::Variable { .. }),
    });
    let mut names: Vec<&str> = known.map(|one| one.essential_name()).collect();
    names.extend(TELLING);
    for program in object.programs() {
        if let Some(name) = traced_function(&program.section)
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    for (number, name) in names.into_iter().enumerate() {
        let address = 0xffff_ffff_8100_0000_u64 + number as u64 * 64;
        text.push_str(&format!("{address:016x} T {name}\n"));
    }
    text
}

/// The function that a program of this section attaches to.
fn traced_function(section: &str) -> Option<&str> {
    let (kind, target) = section.split_once('/')?;
    let kind = kind.split('.').next()?;
    ["fentry", "fexit", "kprobe", "kretprobe"].contains(&kind).then_some(target)
}

/// Numbers in ascending order as the kernel prints them: `0-3,8`.
fn ranges(numbers: Vec<usize>) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        })
        .collect();
    parts.join(",")
}

/// A CPU mask as the kernel prints it: 32 bits at a time, the highest first.
fn mask(members: &[usize], count: usize) -> String {
    let words = count.div_ceil(32).max(1);
    let word = |index: usize| {
        let bits = members.iter().filter(|cpu| **cpu / 32 == index);
        bits.fold(0_u32, |word, cpu| word | 1 << (cpu % 32))
    };
    (0..words).rev().map(|index| format!("{:08x}", word(index))).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(machine: &str) -> Tree {
        Tree {
            folder: tempfile::tempdir().unwrap(),
            machine: Machine::parse(machine).unwrap(),
            offline: Vec::new(),
            changes: 0,
        }
    }

    #[test]
    fn a_cpu_that_goes_is_no_longer_among_the_others() {
        let mut tree = tree("numa:2 core:1 pu:2");
        tree.write_machine().unwrap();
        tree.set_offline(vec![1, 2, 3]).unwrap();
        let read = |path: &str| {
            let path = tree.redirect(path).unwrap();
            std::fs::read_to_string(path).map(|text| text.trim().to_owned())
        };
        let cpus = "/sys/devices/system/cpu";
        for (file, text) in [
            ("online", "0"),
            ("offline", "1-3"),
            ("possible", "0-3"),
            ("smt/active", "0"),
            ("cpu1/online", "0"),
            ("cpu0/topology/thread_siblings_list", "0"),
            ("../node/has_cpu", "0"),
            ("../node/node1/cpulist", ""),
        ] {
            assert_eq!(read(&format!("{cpus}/{file}")).unwrap(), text, "{file}");
        }
        assert!(read(&format!("{cpus}/cpu1/topology/core_id")).is_err());
        assert_eq!(read("/sys/kernel/sched_ext/hotplug_seq").unwrap(), "1");

        tree.set_offline(Vec::new()).unwrap();
        let siblings = "/sys/devices/system/cpu/cpu3/topology/thread_siblings_list";
        let siblings = std::fs::read_to_string(tree.redirect(siblings).unwrap());
        assert_eq!(siblings.unwrap(), "2-3\n");
    }

    #[test]
    fn loaders_find_the_file_system_of_traces_and_its_tracers() {
        let tree = tree("1");
        tree.write_file_systems().unwrap();
        let read = |path: &str| std::fs::read_to_string(tree.redirect(path).unwrap()).unwrap();
        for path in ["/proc/mounts", "/proc/self/mounts"] {
            let table = read(path);
            let mut lines = table.lines().map(|line| line.split(' ').collect::<Vec<_>>());
            let traces = lines.find(|fields| fields[2] == "tracefs").unwrap();
            assert_eq!(traces[1], "/sys/kernel/tracing");
            assert!(lines.all(|fields| fields.len() == 6), "{table}");
        }
        let details = read("/proc/self/mountinfo");
        let traces = details.lines().find(|line| line.contains("- tracefs "));
        assert!(traces.unwrap().contains(" / /sys/kernel/tracing rw"), "{details}");
        let tracers = read("/sys/kernel/tracing/available_tracers");
        assert!(tracers.split_whitespace().any(|tracer| tracer == "function"));
    }

    #[test]
    fn functions_with_programs_are_symbols() {
        assert_eq!(traced_function("fexit/futex_wake"), Some("futex_wake"));
        assert_eq!(traced_function("fentry.s/do_exit"), Some("do_exit"));
        assert_eq!(traced_function("tp_btf/sched_switch"), None);
    }

    #[test]
    fn lists_and_masks_are_as_the_kernel_prints_them() {
        assert_eq!(ranges(vec![0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(ranges(Vec::new()), "");
        assert_eq!(mask(&[0, 33], 40), "00000002,00000001");
    }
}
