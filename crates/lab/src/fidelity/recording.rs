//! Reads measurements of a kernel.

use std::collections::BTreeMap;
use std::path::Path;

use fairground_events::Nanoseconds;
use fairground_metrics::RunMetrics;
use fairground_results::{Creator, OtherThread, Turn};
use serde::Deserialize;

use crate::error::Error;

/// The longest time in a recording.
const LONGEST: Nanoseconds = 86_400_000_000_000;
/// Maximum number of waits of the creator.
const MOST_WAITS: u64 = 10_000_000;

/// A run on a kernel: the JSON of `fairground play`, or of a real rt-app observed by the testbench. Other fields are ignored.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Recording {
    /// Name of the workload: its file's name without `.json`.
    pub workload: String,
    /// The scheduler in charge; `None` for the kernel's own.
    pub scheduler: Option<String>,
    /// Its tunables that were not at their defaults; `None` if not recorded, which counts as all at their defaults.
    #[serde(default)]
    pub tunables: Option<BTreeMap<String, String>>,
    /// The player of the workload.
    #[serde(default)]
    pub player: Player,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Common start of the threads on the kernel's clock, on which ticks are at multiples of their length; `None` if not recorded.
    #[serde(default)]
    pub start_ns: Option<Nanoseconds>,
    /// The same on the clock that schedulers see.
    #[serde(default)]
    pub scheduler_start_ns: Option<Nanoseconds>,
    /// Length of the run.
    pub duration_ns: Nanoseconds,
    /// The past of the process that created the threads; `None` if not recorded.
    #[serde(default)]
    pub creator: Option<Creator>,
    /// Activities of other threads during the run.
    #[serde(default)]
    pub others: Vec<OtherThread>,
    /// The CPU time of each task.
    pub tasks: Vec<TaskTime>,
    /// The metrics; `None` if no scheduler events were recorded.
    pub metrics: Option<RunMetrics>,
}

/// A player of workloads on a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Player {
    /// `fairground play`.
    #[default]
    Play,
    /// The real rt-app.
    RtApp,
}

impl Player {
    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Player::Play => "play",
            Player::RtApp => "rt-app",
        }
    }
}

/// CPU time of a task.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TaskTime {
    /// Name, with an instance suffix if there are several.
    pub name: String,
    /// CPU time used.
    pub cpu_time_ns: Nanoseconds,
}

impl Recording {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is not such a recording, or no simulation of it would end.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let unusable = |message: String| Error::Recording { path: path.to_owned(), message };
        let text = fairground_files::read_text(path).map_err(|cause| {
            let remedy = fairground_files::remedy(&cause);
            unusable(format!("cannot be read: {cause}; {remedy}"))
        })?;
        let recording: Self = serde_json::from_str(&text).map_err(|cause| {
            unusable(format!(
                "not the JSON of fairground play ({cause}); testbench/worlds collects it"
            ))
        })?;
        if recording.duration_ns == 0 {
            return Err(unusable("the run has no length; play it again".to_owned()));
        }
        recording.check().map_err(unusable)?;
        Ok(recording)
    }

    /// Checks that a simulation of it would end.
    fn check(&self) -> Result<(), String> {
        let times = self.others.iter().flat_map(|other| &other.turns);
        let mut times: Vec<(&str, Nanoseconds)> = times
            .flat_map(|Turn(at, length)| {
                [("a turn of another thread", *at), ("a turn's CPU time", *length)]
            })
            .collect();
        times.push(("duration_ns", self.duration_ns));
        if let Some(creator) = &self.creator {
            times.push(("creator.age_ns", creator.age_ns));
            times.push(("creator.cpu_time_ns", creator.cpu_time_ns));
            times.push(("creator.preparation_ns", creator.preparation_ns));
            if creator.waits > MOST_WAITS {
                return Err(format!(
                    "the creator waited {} times; at most {MOST_WAITS} are simulated",
                    creator.waits
                ));
            }
        }
        match times.into_iter().find(|(_, time)| *time > LONGEST) {
            Some((name, time)) => Err(format!(
                "{name} is {time} ns; the longest that is simulated is {LONGEST} ns, a day"
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Recording, Error> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.json");
        std::fs::write(&path, text).expect("a file");
        Recording::read(&path)
    }

    const RUN: &str = r#"{ "version": 1, "workload": "hogs", "kernel": "7.3.4", "scheduler": "o1", "cpus": 1,
        "duration_ns": 1000, "tasks": [ { "name": "hog", "cpu_time_ns": 990, "share": 0.99 } ], "metrics": null }"#;

    #[test]
    fn the_player_is_play_unless_told() {
        assert_eq!(read(RUN).expect("sound").player, Player::Play);
        let other = RUN.replacen("{", r#"{ "player": "rt-app","#, 1);
        assert_eq!(read(&other).expect("sound").player, Player::RtApp);
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let endless = read(&RUN.replace("1000", "1000000000000000000")).expect_err("too long");
        assert!(endless.to_string().contains("a day"), "{endless}");
        let empty = read(&RUN.replace("1000", "0")).expect_err("no length");
        assert!(empty.to_string().contains("no length"), "{empty}");
        let broken = read("{}").expect_err("nothing in it");
        assert!(broken.to_string().contains("run.json"), "{broken}");
    }
}
