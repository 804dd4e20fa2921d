//! Control groups of a run: a folder of its own in cgroup v2, whose groups are threaded, since all tasks are threads of this process.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use fairground_contract::quota;
use fairground_metrics::GroupMetrics;
use fairground_workload::{Group, GroupSettings, Share, Workload};

use crate::{Error, clock, quotas};

/// Where cgroup v2 is mounted.
const MOUNT: &str = "/sys/fs/cgroup";

/// Begins the name of a run's folder, before the number of its process.
const PREFIX: &str = "fairground-";

/// How often the removal of a group is tried, 10 ms apart: threads leave it some time after they have ended.
const ATTEMPTS: u32 = 100;

/// The groups of a run; removed when this is dropped.
#[derive(Debug)]
pub struct Groups {
    /// The folder of the run, which stands for the root of the workload.
    top: PathBuf,
    /// The group that this process was in before.
    home: PathBuf,
    /// The folders that have been made, each after the one that it is in.
    made: Vec<PathBuf>,
    /// Whether the controller was handed down from the root for this run.
    handed_down: bool,
}

/// Writes settings that change during the run, until it is dropped.
pub struct Changes {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

fn write(folder: &Path, file: &str, text: &str) -> Result<(), String> {
    let path = folder.join(file);
    fs::write(&path, text)
        .map_err(|error| format!("{}: cannot write {text}: {error}", path.display()))
}

fn write_settings(folder: &Path, settings: &GroupSettings) -> Result<(), String> {
    match settings.share {
        Share::Idle => write(folder, "cpu.idle", "1")?,
        Share::Weight(weight) => {
            write(folder, "cpu.idle", "0")?;
            write(folder, "cpu.weight", &weight.to_string())?;
        }
        Share::Nice(nice) => {
            write(folder, "cpu.idle", "0")?;
            write(folder, "cpu.weight.nice", &nice.to_string())?;
        }
    }
    let bandwidth = settings.bandwidth;
    let quota = bandwidth.quota.map_or("max".to_owned(), |quota| (quota / 1000).to_string());
    // The burst must not exceed the quota at any time.
    write(folder, "cpu.max.burst", "0")?;
    write(folder, "cpu.max", &format!("{quota} {}", bandwidth.period / 1000))?;
    write(folder, "cpu.max.burst", &(bandwidth.burst / 1000).to_string())
}

/// The contents of `cpu.stat`.
struct CpuStat(String);

impl CpuStat {
    /// The number that stands behind a name, if it does.
    fn value(&self, name: &str) -> Option<u64> {
        let mut lines = self.0.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    /// The use of the quota, if the kernel tells it.
    fn quota(&self) -> Option<quota::CpuStat> {
        Some(quota::CpuStat {
            cgroup: 0,
            periods: self.value("nr_periods")?,
            throttled_periods: self.value("nr_throttled")?,
            throttled: self.value("throttled_usec")? * 1000,
        })
    }
}

/// Removes the folders of runs whose processes live no more, as those that were killed.
fn remove_left_over(mount: &Path, lives: impl Fn(u32) -> bool) {
    for folder in folders(mount) {
        let name = folder.file_name().and_then(|name| name.to_str());
        let process = name.and_then(|name| name.strip_prefix(PREFIX)?.parse().ok());
        if process.is_some_and(|process| !lives(process)) {
            remove_with_inner(&folder);
        }
    }
}

/// Removes a group with those in it. One that still has tasks stays, and so do those around it.
fn remove_with_inner(group: &Path) {
    for inner in folders(group) {
        remove_with_inner(&inner);
    }
    let _ = fs::remove_dir(group);
}

/// The folders in one; none if it cannot be read.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

impl Groups {
    /// Makes the groups of a workload and moves this process into their folder. The error says why there are none.
    pub fn set_up(workload: &Workload) -> Result<Self, String> {
        let mount = Path::new(MOUNT);
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let Some(own) = own.lines().find_map(|line| line.strip_prefix("0::/")) else {
            return Err(format!("this process is in no group of cgroup v2 ({MOUNT})"));
        };
        let handed = fs::read_to_string(mount.join("cgroup.subtree_control"))
            .map_err(|error| format!("{MOUNT}/cgroup.subtree_control: {error}"))?;
        let mut groups = Self {
            top: mount.join(format!("{PREFIX}{}", std::process::id())),
            home: mount.join(own),
            made: Vec::new(),
            handed_down: !handed.split_whitespace().any(|controller| controller == "cpu"),
        };
        if groups.handed_down {
            write(mount, "cgroup.subtree_control", "+cpu")?;
        }
        remove_left_over(mount, |process| {
            process != std::process::id() && Path::new(&format!("/proc/{process}")).exists()
        });
        groups.make(groups.top.clone())?;
        let mut parents = vec![groups.top.clone()];
        for group in &workload.groups {
            let folder = groups.folder(&group.path);
            groups.make(folder.clone())?;
            write(&folder, "cgroup.type", "threaded")?;
            parents.push(folder);
        }
        for (folder, group) in parents[1..].iter().zip(&workload.groups) {
            let parent = groups.folder(group.parent());
            write(&parent, "cgroup.subtree_control", "+cpu")?;
            write_settings(folder, &group.settings)?;
        }
        write(&groups.top, "cgroup.procs", "0")?;
        Ok(groups)
    }

    fn make(&mut self, folder: PathBuf) -> Result<(), String> {
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        self.made.push(folder);
        Ok(())
    }

    /// The folder of the group at `path` of the workload.
    fn folder(&self, path: &str) -> PathBuf {
        self.top.join(path.trim_matches('/'))
    }

    /// Moves the calling thread to the group at `path`.
    pub fn join(&self, path: &str) -> Result<(), String> {
        write(&self.folder(path), "cgroup.threads", "0")
    }

    /// The remark on them for users.
    pub fn note(&self) -> String {
        format!(
            "the control groups of the workload are in {}, which has the weight of a new group beside the rest of this machine",
            self.top.display()
        )
    }

    /// The figures of each group: its CPU time, and the use of its quota if it has one, as the scheduler in charge counts it, and without one the
    /// kernel.
    pub fn usage(&self, workload: &Workload) -> Result<Vec<GroupMetrics>, Error> {
        let told = quotas::told()?;
        let usage = |group: &Group| {
            let folder = self.folder(&group.path);
            let stat = CpuStat(fs::read_to_string(folder.join("cpu.stat")).unwrap_or_default());
            let quota = match &told {
                _ if group.quotas().next().is_none() => None,
                None => stat.quota(),
                Some(told) => {
                    let id = fs::metadata(&folder).map_or(0, |metadata| metadata.ino());
                    told.iter().find(|one| one.cgroup == id).copied()
                }
            };
            GroupMetrics {
                path: group.path.clone(),
                cpu_time_ns: stat.value("usage_usec").unwrap_or_default() * 1000,
                nr_periods: quota.map(|quota| quota.periods),
                nr_throttled: quota.map(|quota| quota.throttled_periods),
                throttled_ns: quota.map(|quota| quota.throttled),
            }
        };
        Ok(workload.groups.iter().map(usage).collect())
    }

    /// Begins to write the settings that change after `start`, `CLOCK_MONOTONIC`.
    pub fn follow(&self, workload: &Workload, start: u64) -> Result<Changes, Error> {
        let mut changes = Vec::new();
        for group in &workload.groups {
            let folder = self.folder(&group.path);
            let later = group.changes.iter();
            changes
                .extend(later.map(|change| (start + change.at, folder.clone(), change.settings)));
        }
        changes.sort_by_key(|(at, ..)| *at);
        let (stop, stopped) = channel::<()>();
        let follow = move || {
            for (at, folder, settings) in changes {
                let left = Duration::from_nanos(at.saturating_sub(clock::monotonic()));
                if stopped.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                // The kernel accepts all settings that the reader of workloads accepts.
                let _ = write_settings(&folder, &settings);
            }
        };
        let thread = Builder::new()
            .name("groups".into())
            .spawn(follow)
            .map_err(Error::system("cannot start a thread"))?;
        Ok(Changes { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let _ = write(&self.home, "cgroup.procs", "0");
        for folder in self.made.iter().rev() {
            for _ in 0..ATTEMPTS {
                match fs::remove_dir(folder) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    _ => break,
                }
            }
        }
        if self.handed_down {
            let _ = write(Path::new(MOUNT), "cgroup.subtree_control", "-cpu");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_cpu_stat_are_found_by_their_whole_names() {
        let stat = CpuStat("usage_usec 1519\nnr_periods 12\nnr_throttled 7\n".to_owned());
        assert_eq!(stat.value("nr_throttled"), Some(7));
        assert_eq!(stat.value("usage_usec"), Some(1519));
        assert_eq!(stat.value("nr"), None);
        assert_eq!(stat.quota(), None, "not told for how long");
        let whole = CpuStat(stat.0 + "throttled_usec 9\n");
        let quota = whole.quota().map(|quota| quota.throttled);
        assert_eq!(quota, Some(9_000));
    }

    #[test]
    fn what_killed_runs_left_is_removed() {
        let mount = tempfile::tempdir().unwrap();
        for path in ["fairground-7/a/x", "fairground-8/a", "fairground-more", "others"] {
            fs::create_dir_all(mount.path().join(path)).unwrap();
        }
        remove_left_over(mount.path(), |process| process == 8);
        let mut left: Vec<PathBuf> = folders(mount.path());
        left.sort();
        let expected = ["fairground-8", "fairground-more", "others"];
        assert_eq!(left, expected.map(|name| mount.path().join(name)));
        assert!(mount.path().join("fairground-8/a").exists());
    }
}
