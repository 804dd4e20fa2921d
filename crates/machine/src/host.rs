//! The machine this program runs on, from the kernel's files under `/sys`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fairground_events::CgroupMode;

use crate::assemble::{Facts, NodeDistances, assemble};
use crate::capacity;
use crate::error::Error;
use crate::model::Machine;

/// The description of this machine.
const DESCRIPTION: &str = "host";

/// Reads the machine from a tree such as `/sys`. CPUs that are offline are left out.
pub(crate) fn read(sys: &Path) -> Result<Machine, Error> {
    let folder = sys.join("devices/system/cpu");
    let file = folder.join("online");
    let error = |message: String| {
        Error::new(DESCRIPTION, format!("{message}; describe the machine instead, for example `4`"))
    };
    let text = fs::read_to_string(&file)
        .map_err(|cause| error(format!("{} cannot be read: {cause}", file.display())))?;
    let online = cpu_list(&text)
        .filter(|online| (1..=Machine::CPUS_MAX).contains(&online.len()))
        .ok_or_else(|| {
        error(format!("{} is not a list of 1 to {} CPUs", file.display(), Machine::CPUS_MAX))
    })?;
    let nodes = nodes(sys);
    let cpus = online
        .iter()
        .map(|&cpu| {
            let folder = folder.join(format!("cpu{cpu}"));
            // The kernel gives unknown packages as -1; then there is only one.
            let package = number(&folder.join("topology/physical_package_id")).unwrap_or(0);
            let core = first_cpu(&folder.join("topology/core_cpus_list"))
                .or_else(|| first_cpu(&folder.join("topology/thread_siblings_list")));
            let node = nodes.iter().find(|(_, node)| node.cpus.contains(&cpu));
            Facts {
                number: cpu,
                core: u64::from(core.unwrap_or(cpu)),
                // Without cache files, the package is the best guess.
                llc: u64::from(last_level_cache(&folder.join("cache")).unwrap_or_else(|| {
                    first_cpu(&folder.join("topology/package_cpus_list"))
                        .or_else(|| first_cpu(&folder.join("topology/core_siblings_list")))
                        .unwrap_or(0)
                })),
                node: node.map_or(0, |(number, _)| *number),
                package: u64::from(package),
                capacity: number(&folder.join("cpu_capacity")).unwrap_or(capacity::FULL),
            }
        })
        .collect();
    let mut distances = NodeDistances::new();
    for (&from, node) in &nodes {
        for (&to, &distance) in nodes.keys().zip(&node.distances) {
            distances.insert((from, to), distance);
        }
    }
    let memory: Vec<u32> = nodes.keys().copied().collect();
    let mut machine = assemble(DESCRIPTION, cpus, &memory, &distances);
    // On x86, a counter of its own for each kind of CPU tells of kinds whose capacities the kernel does not know.
    let is_hybrid = sys.join("devices/cpu_atom/cpus").exists();
    machine.unknown_speeds =
        is_hybrid && machine.cpus.iter().all(|cpu| cpu.capacity == capacity::FULL);
    machine.cgroup_mode = cgroup_mode(sys).unwrap_or_default();
    Ok(machine)
}

/// How the kernel lets the shares of control groups grow, which only root may read: of all modes, the one in brackets.
fn cgroup_mode(sys: &Path) -> Option<CgroupMode> {
    let modes = fs::read_to_string(sys.join("kernel/debug/sched/cgroup_mode")).ok()?;
    let current = modes.split(['(', ')']).nth(1)?;
    CgroupMode::find(current)
}

struct Node {
    cpus: Vec<u32>,
    /// To all online nodes, in order.
    distances: Vec<u32>,
}

/// The online nodes; none if the kernel has no nodes.
fn nodes(sys: &Path) -> BTreeMap<u32, Node> {
    let folder = sys.join("devices/system/node");
    let online = list(&folder.join("online")).unwrap_or_default();
    let node = |number| {
        let folder = folder.join(format!("node{number}"));
        let distances = fs::read_to_string(folder.join("distance")).unwrap_or_default();
        Node {
            cpus: list(&folder.join("cpulist")).unwrap_or_default(),
            distances: distances.split_whitespace().map_while(|word| word.parse().ok()).collect(),
        }
    };
    online.into_iter().map(|number| (number, node(number))).collect()
}

/// The first CPU of the last-level cache, which identifies the cache.
fn last_level_cache(folder: &Path) -> Option<u32> {
    (0..)
        .map(|index| folder.join(format!("index{index}")))
        .take_while(|folder| folder.is_dir())
        .filter_map(|folder| {
            let kind = fs::read_to_string(folder.join("type")).ok()?;
            let cpu = first_cpu(&folder.join("shared_cpu_list"))?;
            let level = number(&folder.join("level"))?;
            (kind.trim() != "Instruction").then_some((level, cpu))
        })
        .max_by_key(|(level, _)| *level)
        .map(|(_, cpu)| cpu)
}

pub(crate) fn number(file: &Path) -> Option<u32> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

pub(crate) fn list(file: &Path) -> Option<Vec<u32>> {
    cpu_list(&fs::read_to_string(file).ok()?)
}

/// The numbers of the folders whose names are `name` with a number.
pub(crate) fn folders(folder: &Path, name: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| {
        let file = entry.file_name();
        file.to_str()?.strip_prefix(name)?.parse().ok()
    };
    entries.filter_map(number).collect()
}

/// The text of a file without blanks around it.
pub(crate) fn text(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

fn first_cpu(file: &Path) -> Option<u32> {
    list(file)?.first().copied()
}

/// Reads a list such as `0-3,8`.
pub(crate) fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if last < first || last - first > 1 << 20 {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::model::Distance;

    /// A made-up `/sys` that is removed when dropped.
    pub(crate) struct Tree(std::path::PathBuf);

    impl Tree {
        pub(crate) fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let name = format!("fairground-sys-{name}-{}", std::process::id());
            let tree = Self(std::env::temp_dir().join(name));
            for (path, text) in files {
                tree.write(path, text);
            }
            tree
        }

        /// The folder that stands for `/sys`.
        pub(crate) fn sys(&self) -> &Path {
            &self.0
        }

        pub(crate) fn write(&self, path: &str, text: &str) {
            let path = self.0.join("devices/system").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn reads_cores_caches_nodes_distances_and_capacities() {
        // Two packages of two cores with two threads each, numbered as by x86 firmware: siblings are n and n + 4. CPU 5 is offline.
        let tree = Tree::new(
            "full",
            &[
                ("cpu/online", "0-4,6-7"),
                ("node/online", "0,2"),
                ("node/node0/cpulist", "0-1,4"),
                ("node/node0/distance", "10 21"),
                ("node/node2/cpulist", "2-3,6-7"),
                ("node/node2/distance", "22 11"),
            ],
        );
        for cpu in [0, 1, 2, 3, 4, 6, 7] {
            let path = |file: &str| format!("cpu/cpu{cpu}/{file}");
            let core = cpu % 4;
            let siblings = if core == 1 { "1".into() } else { format!("{core},{}", core + 4) };
            let package = core / 2;
            tree.write(&path("topology/physical_package_id"), &(package * 7).to_string());
            tree.write(&path("topology/core_cpus_list"), &siblings);
            let caches = [
                ("1", "Data", siblings.as_str()),
                ("1", "Instruction", siblings.as_str()),
                ("3", "Unified", if package == 0 { "0-1,4" } else { "2-3,6-7" }),
                ("2", "Unified", siblings.as_str()),
            ];
            for (index, (level, kind, cpus)) in caches.into_iter().enumerate() {
                tree.write(&path(&format!("cache/index{index}/level")), level);
                tree.write(&path(&format!("cache/index{index}/type")), kind);
                tree.write(&path(&format!("cache/index{index}/shared_cpu_list")), cpus);
            }
            if core == 1 {
                tree.write(&path("cpu_capacity"), "512");
            }
        }
        let machine = read(&tree.0).unwrap();
        assert_eq!(
            machine.to_string(),
            "7 CPUs, 4 cores, 2 last-level caches, 2 nodes, 2 packages, capacities 6x1024, 1x512"
        );
        // The kernel's CPU 6 has become CPU 5.
        assert_eq!(machine.siblings(2).collect::<Vec<_>>(), [2, 5]);
        assert_eq!(machine.node_members(1).collect::<Vec<_>>(), [2, 3, 5, 6]);
        assert_eq!(machine.cpus[1].capacity, 512);
        assert_eq!(machine.node_distances, [10, 21, 22, 11]);
        assert_eq!(machine.distance(0, 4), Distance::Sibling);
        assert_eq!(machine.distance(0, 1), Distance::Cache);
        assert_eq!(machine.distance(0, 2), Distance::Remote);
    }

    #[test]
    fn little_is_enough() {
        let tree = Tree::new("little", &[("cpu/online", "0-1")]);
        let machine = read(&tree.0).unwrap();
        assert_eq!(machine.to_string(), "2 CPUs, 2 cores, 1 last-level cache, 1 node, 1 package");
    }

    #[test]
    fn kinds_of_cpus_may_be_known_without_their_speeds() {
        let tree = Tree::new("hybrid", &[("cpu/online", "0-1")]);
        assert!(!read(&tree.0).unwrap().unknown_speeds);
        tree.write("../cpu_atom/cpus", "1");
        assert!(read(&tree.0).unwrap().unknown_speeds);
        tree.write("cpu/cpu1/cpu_capacity", "512");
        assert!(!read(&tree.0).unwrap().unknown_speeds);
    }

    #[test]
    fn errors_name_the_file() {
        let missing = read(Path::new("/nonexistent")).unwrap_err().to_string();
        assert!(
            missing.starts_with("machine `host`: /nonexistent/devices/system/cpu/online cannot"),
            "{missing}"
        );
        for (name, text) in [("backwards", "3-1"), ("words", "all"), ("empty", "")] {
            let tree = Tree::new(name, &[("cpu/online", text)]);
            let error = read(&tree.0).unwrap_err().to_string();
            assert!(error.contains("is not a list of 1 to 4096 CPUs"), "{error}");
        }
    }
}
