//! Files of /sys, /proc and /boot as loaders find them on a machine.

use std::fmt::Display;
use std::path::PathBuf;

use fairground_bpf::{ExternKind, Object};
use fairground_machine::Machine;

use crate::KernelFacts;
use crate::error::{Error, system};

/// Process ids, as systemd sets it on 64-bit machines.
const PIDS: u32 = 1 << 22;

/// What `uname` says.
pub(crate) const RELEASE: &str = "7.3.0-fairground";

/// What loaders find under these names is not this machine's.
const PLACES: [&str; 15] = [
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
    "/proc/sys/kernel/ftrace_enabled",
    "/proc/sys/kernel/pid_max",
    "/proc/schedstat",
    "/proc/stat",
];

/// The files, in a folder of their own.
pub(crate) struct Tree {
    folder: tempfile::TempDir,
}

impl Tree {
    pub(crate) fn make(
        machine: &Machine,
        btf: &[u8],
        object: &Object,
        kernel: &dyn KernelFacts,
    ) -> Result<Self, Error> {
        let folder = system("make a folder for the machine's files", tempfile::tempdir())?;
        let tree = Self { folder };
        let made = tree.fill(machine, btf, object, kernel);
        system("write the machine's files", made)?;
        Ok(tree)
    }

    /// Where `path` is found instead; `None` if it is this machine's own.
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

    fn fill(
        &self,
        machine: &Machine,
        btf: &[u8],
        object: &Object,
        kernel: &dyn KernelFacts,
    ) -> std::io::Result<()> {
        let count = machine.cpus.len();
        let all = ranges((0..count).collect());
        let cpus = "sys/devices/system/cpu";
        for name in ["online", "possible", "present"] {
            self.write(&format!("{cpus}/{name}"), &all)?;
        }
        let smt = machine.cores().len() < count;
        self.write(&format!("{cpus}/offline"), "")?;
        self.write(&format!("{cpus}/kernel_max"), Machine::CPUS_MAX - 1)?;
        self.write(&format!("{cpus}/smt/active"), u8::from(smt))?;
        self.write(
            &format!("{cpus}/smt/control"),
            if smt { "on" } else { "notsupported" },
        )?;
        for cpu in 0..count {
            self.write_cpu(machine, cpu)?;
        }
        let nodes = "sys/devices/system/node";
        let numbers = ranges(machine.nodes().map(|node| node as usize).collect());
        for name in ["online", "possible", "has_cpu"] {
            self.write(&format!("{nodes}/{name}"), &numbers)?;
        }
        for node in machine.nodes() {
            let folder = format!("{nodes}/node{node}");
            let members: Vec<usize> = machine.node_members(node).collect();
            let distances: Vec<String> = machine
                .nodes()
                .map(|other| machine.node_distance(node, other).to_string())
                .collect();
            self.write(&format!("{folder}/distance"), distances.join(" "))?;
            self.write(&format!("{folder}/cpumap"), mask(&members, count))?;
            for cpu in &members {
                std::fs::create_dir_all(self.folder.path().join(format!("{folder}/cpu{cpu}")))?;
            }
            self.write(&format!("{folder}/cpulist"), ranges(members))?;
        }
        let sched_ext = "sys/kernel/sched_ext";
        self.write(&format!("{sched_ext}/state"), "disabled")?;
        for name in ["hotplug_seq", "nr_rejected", "enable_seq", "switch_all"] {
            self.write(&format!("{sched_ext}/{name}"), 0)?;
        }
        let types = self.folder.path().join("sys/kernel/btf");
        std::fs::create_dir_all(&types)?;
        std::fs::write(types.join("vmlinux"), btf)?;
        self.write("proc/sys/kernel/ftrace_enabled", 1)?;
        self.write("proc/sys/kernel/pid_max", PIDS)?;
        self.write(
            &format!("boot/config-{RELEASE}"),
            configuration(object, kernel),
        )?;
        self.write("proc/kallsyms", symbols(object, kernel))?;
        let per_cpu = |line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
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

    fn write_cpu(&self, machine: &Machine, number: usize) -> std::io::Result<()> {
        let cpu = &machine.cpus[number];
        let folder = format!("sys/devices/system/cpu/cpu{number}");
        let siblings = ranges(machine.siblings(number).collect());
        let package = ranges(machine.package_members(cpu.package).collect());
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
        self.write(&format!("{folder}/online"), 1)?;
        self.write(&format!("{folder}/power/pm_qos_resume_latency_us"), 0)?;
        let llc = ranges(machine.llc_members(cpu.llc).collect());
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

    /// Makes the kernel say that the scheduler called `name` is attached.
    pub(crate) fn enable(&self, name: &str) {
        // A loader that reads it and finds the old state only waits.
        let _ = self.write("sys/kernel/sched_ext/state", "enabled");
        let _ = self.write("sys/kernel/sched_ext/root/ops", name);
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
                let value = if value == 1 {
                    "y".to_owned()
                } else {
                    value.to_string()
                };
                text.push_str(&format!("{}={value}\n", one.name));
            }
        }
    }
    text
}

/// The kernel functions that there are, as symbols.
fn symbols(object: &Object, kernel: &dyn KernelFacts) -> String {
    let mut text = String::new();
    let known = object.externs().iter().filter(|one| match one.kind {
        ExternKind::Function { .. } => kernel.has_function(one.essential_name()),
        _ => matches!(one.kind, ExternKind::Variable { .. }),
    });
    for (number, one) in known.enumerate() {
        let address = 0xffff_ffff_8100_0000_u64 + number as u64 * 64;
        text.push_str(&format!("{address:016x} T {}\n", one.essential_name()));
    }
    text
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
    let words: Vec<String> = (0..words)
        .rev()
        .map(|index| format!("{:08x}", word(index)))
        .collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_masks_are_as_the_kernel_prints_them() {
        assert_eq!(ranges(vec![0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(ranges(Vec::new()), "");
        assert_eq!(mask(&[0, 33], 40), "00000002,00000001");
    }
}
