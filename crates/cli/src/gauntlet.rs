//! The cases of `fairground check`: the files of `workloads/check/`, inside this program.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fairground_lab::{Callback, Noise};
use fairground_results::{CpuChange, Requirement};
use serde::Deserialize;

use crate::quantity::{cpu_change, nanoseconds};

/// The requirements on a scheduler in every case that has no other on the measure, beside that no task starves and that the kernel keeps it; `docs/metrics.md` has the reason.
const ALWAYS: [&str; 1] = ["idle_beside_waiting < 200ms"];

/// Folder of the cases' names: `check/fork-storm`.
const FOLDER: &str = "check/";

/// The text of each workload, by its name.
macro_rules! texts {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../workloads/check/", $name, ".json")))),*]
    };
}

const TEXTS: &[(&str, &str)] = texts! {
    "affinity-moves"
    "affinity-storm"
    "ages-at-the-load"
    "barrier-and-hog"
    "batch-policy"
    "bound-and-free"
    "bound-sleepers"
    "bound-sleepers-and-hogs"
    "bound-threads"
    "cpuset-shrinks"
    "crowd"
    "eight-nice-levels"
    "ends-before-the-tick"
    "equal-rights"
    "fast-and-slow-cpus"
    "fewer-than-cpus"
    "fork-and-exit"
    "fork-storm"
    "forks-beside-old-hogs"
    "group-moves"
    "group-quotas"
    "group-weights"
    "groups-in-groups"
    "heavy-among-normal"
    "heavy-beside-normal"
    "herd"
    "high-cpus"
    "hogs-on-one-cpu"
    "hotplug"
    "hotplug-with-bound"
    "idle-policy"
    "idle-policy-among-many"
    "kernel-threads"
    "late-hogs"
    "lock-convoy"
    "long-sleep"
    "long-sleep-on-two-cpus"
    "many-cpus"
    "many-forks"
    "many-groups"
    "many-hogs-on-one-cpu"
    "moves-and-sleeps"
    "moves-between-loads"
    "new-beside-old"
    "nice-changes"
    "nice-extremes"
    "one-more-than-cpus"
    "overlapping-cpu-lists"
    "pair-beside-light"
    "periods-of-a-tick"
    "ping-pong"
    "pinned-everywhere"
    "policy-changes"
    "real-time-bursts"
    "real-time-hog"
    "real-time-hog-and-bound"
    "real-time-theft"
    "released"
    "renice"
    "sections-without-migration"
    "short-sleeps"
    "sleeper-among-hogs"
    "sleepers-between-hogs"
    "sleepers-come-back"
    "sleepers-of-all-kinds"
    "sleepers-that-fill"
    "sleeps-of-a-microsecond"
    "smt-half-loaded"
    "three-weights"
    "two-caches"
    "two-nodes"
    "wakes-and-goes-on"
    "wakeup-chain-of-six"
    "wakeups-on-many-cpus"
    "wakeups-under-load"
    "weights-of-sleepers"
    "weights-on-two-cpus"
    "weights-that-change"
    "yield-storm"
};

/// A case: a workload on a machine, and the requirements there.
pub struct Case {
    /// Its name, which is also that of its workload: `check/fork-storm`.
    pub name: PathBuf,
    /// Description of the machine.
    pub machine: String,
    /// Length of the run, in nanoseconds.
    pub duration: u64,
    /// CPUs that go or come.
    pub hotplug: Vec<CpuChange>,
    /// The kernel's own threads beside the workload.
    pub noise: Noise,
    /// Length of the windows in which shares are compared, in nanoseconds; `None` for the usual one.
    pub window: Option<u64>,
    /// The callback that it is about: a scheduler without it does not go through it.
    pub needs: Option<Callback>,
    /// The requirements.
    pub requirements: Vec<Requirement>,
    /// The rules that known schedulers break here, with their names.
    pub shared: BTreeMap<String, String>,
    /// Why, in a line.
    pub why: String,
}

/// The file of cases.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<Line>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: String,
    machine: String,
    duration: String,
    #[serde(default)]
    hotplug: Vec<String>,
    #[serde(default)]
    noise: Option<String>,
    #[serde(default)]
    window: Option<String>,
    #[serde(default)]
    needs: Option<String>,
    #[serde(default)]
    require: Vec<String>,
    #[serde(default)]
    shared: BTreeMap<String, String>,
    why: String,
}

impl Line {
    fn case(self) -> Result<Case, String> {
        let given = parsed(&self.require)?;
        // Of requirements that one wait breaks, the first is told.
        let mut requirements = on_other_measures(&given, &parsed(&ALWAYS)?);
        requirements.extend(given);
        let changes = self.hotplug.iter();
        let noise = self.noise.map(|noise| noise.parse()).transpose()?;
        let needs = self.needs.map(|name| callback(&name)).transpose()?;
        Ok(Case {
            name: PathBuf::from(format!("{FOLDER}{}", self.name)),
            machine: self.machine,
            duration: nanoseconds(&self.duration)?,
            hotplug: changes.map(|one| cpu_change(one)).collect::<Result<_, _>>()?,
            noise: noise.unwrap_or_default(),
            window: self.window.as_deref().map(nanoseconds).transpose()?,
            needs,
            requirements,
            shared: self.shared,
            why: self.why,
        })
    }
}

/// The callback of this name.
fn callback(name: &str) -> Result<Callback, String> {
    let mut all = Callback::ALL.iter();
    let found = all.find(|one| one.name() == name).copied();
    found.ok_or_else(|| format!("there is no callback {name}"))
}

/// The requirements that these texts are.
pub fn parsed(texts: &[impl AsRef<str>]) -> Result<Vec<Requirement>, String> {
    texts.iter().map(|one| one.as_ref().parse()).collect()
}

/// Those of the usual requirements that none of the given ones replaces: of the same measure, of the same task if of one.
pub fn on_other_measures(given: &[Requirement], usual: &[Requirement]) -> Vec<Requirement> {
    let is_kept = |one: &&Requirement| {
        let mut given = given.iter();
        !given.any(|given| given.quantity() == one.quantity())
    };
    usual.iter().filter(is_kept).cloned().collect()
}

/// The text of the workload of the case with this name.
pub fn text(name: &str) -> Option<&'static str> {
    let name = name.strip_prefix(FOLDER)?;
    TEXTS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// All cases, in their order.
pub fn cases() -> Result<Vec<Case>, String> {
    let text = include_str!("../../../workloads/check/cases.toml");
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    file.case.into_iter().map(Line::case).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_case_has_a_workload_and_every_workload_a_case() {
        let cases = cases().unwrap();
        let names: BTreeSet<&str> = cases.iter().filter_map(|case| case.name.to_str()).collect();
        assert_eq!(names.len(), cases.len());
        assert!(names.iter().all(|name| text(name).is_some()));
        assert_eq!(TEXTS.len(), cases.len());
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/check");
        let files = std::fs::read_dir(folder).unwrap().count();
        assert_eq!(files, cases.len() + 1, "cases.toml has no case of its own");
    }

    #[test]
    fn the_documentation_has_what_is_known_of_others() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/checking.md");
        let text = std::fs::read_to_string(path).unwrap();
        let is_told = |name: &str, rule: &str, scheduler: &str| {
            let mut rows = text.lines().map(|line| line.split('|').map(str::trim).collect());
            rows.any(|row: Vec<&str>| {
                let has = |place: usize, word| {
                    { row.get(place) }.is_some_and(|cell| cell.split(", ").any(|one| one == word))
                };
                has(1, scheduler) && has(2, name) && has(3, rule)
            })
        };
        for case in cases().unwrap() {
            let name = case.name.file_name().unwrap().to_str().unwrap();
            for (rule, schedulers) in &case.shared {
                let told = schedulers.split(", ").all(|one| is_told(name, rule, one));
                assert!(told, "docs/checking.md lacks {schedulers}: {rule} in {name}");
            }
        }
    }
}
