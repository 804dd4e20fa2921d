//! The decisions of original schedulers, beside those of their counterparts here.
//!
//! `schedulers/<id>/originals.tar.zst` has workloads, logs of every switch that the original made of them, and `index.jsonl`, a line for each log;
//! docs/originals.md describes them. `FAIRGROUND_ORIGINALS` names a folder with others: FOLDER/<id>/index.jsonl and the files that it names.
//!
//! `schedulers/<id>/originals.toml` lists the logs that differ, with the number of the first switch that does, below the number of the
//! departure in the scheduler's README that explains it:
//!
//! ```toml
//! [6]
//! "two-3.switch-first" = 121
//!
//! [unexplained]
//! "two-9" = 12
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairground_events::{
    CpuId, Event, EventKind, Nanoseconds, Sink, SwitchWriter, TaskId, TaskInfo,
};
use fairground_machine::Machine;
use fairground_simulator::{CostModel, Options, simulate};
use fairground_workload::Workload;
use serde::Deserialize;
use serde_json::Value;

use crate::support::{SECOND, find};

/// Names a folder of logs that takes the place of the project's.
const ORIGINALS: &str = "FAIRGROUND_ORIGINALS";

/// Events that the account of a difference has at most.
const MOST_EVENTS: usize = 40;

#[derive(Deserialize)]
struct Entry {
    workload: String,
    log: String,
    machine: String,
    settings: Settings,
    original: Original,
}

#[derive(Deserialize)]
struct Settings {
    hz: u64,
    /// FreeBSD's second clock, at which its slices end.
    stathz: Option<u64>,
    duration_s: f64,
    #[serde(default)]
    tunables: Value,
}

#[derive(Deserialize)]
struct Original {
    name: String,
    release: String,
}

/// A switch, `TIME CPU NEXT`.
type Switch = (Nanoseconds, u32, String);

/// A log beside the run of the same workload here.
struct Comparison {
    name: String,
    original: String,
    cpus: usize,
    switches: usize,
    /// Number of the first switch that differs, from 0, and what a reader wants to know about it.
    difference: Option<(usize, String)>,
}

fn schedulers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schedulers")
}

/// The files with a scheduler's logs, by name; none if there are no logs.
fn files(id: &str) -> BTreeMap<String, Vec<u8>> {
    if let Some(folder) = std::env::var_os(ORIGINALS) {
        let entries = fs::read_dir(Path::new(&folder).join(id)).into_iter().flatten();
        let files = entries.map(|entry| entry.unwrap());
        let named = files.map(|file| (file.file_name().into_string().unwrap(), file.path()));
        return named.map(|(name, path)| (name, fs::read(path).unwrap())).collect();
    }
    let Ok(packed) = fs::read(schedulers().join(id).join("originals.tar.zst")) else {
        return BTreeMap::new();
    };
    let mut archive = Vec::new();
    zstd::Decoder::new(&packed[..]).unwrap().read_to_end(&mut archive).unwrap();
    let text = |bytes: &[u8]| {
        let text = bytes.split(|byte| *byte == 0).next().unwrap();
        String::from_utf8(text.to_vec()).unwrap()
    };
    let mut files = BTreeMap::new();
    let mut rest = &archive[..];
    // A header of 512 bytes for each file, then its content, filled up to as many; empty headers at the end
    while rest.len() > 512 && rest[0] != 0 {
        let (header, content) = rest.split_at(512);
        let length = usize::from_str_radix(text(&header[124..136]).trim(), 8).unwrap();
        files.insert(text(&header[..100]), content[..length].to_vec());
        rest = &content[length.next_multiple_of(512)..];
    }
    files
}

/// Reads `TIME CPU NEXT` or `+TIME CPU NEXT`, since the line before.
fn switches(text: &str) -> Vec<Switch> {
    let mut time = 0;
    let line = |line: &str| {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_else(|| panic!("{line:?} is no switch"));
        let (at, cpu, next) = (word(), word(), word());
        time = match at.strip_prefix('+') {
            Some(later) => time + later.parse::<Nanoseconds>().unwrap(),
            None => at.parse().unwrap(),
        };
        (time, cpu.parse().unwrap(), next.to_owned())
    };
    text.lines().filter(|line| !line.is_empty()).map(line).collect()
}

/// The settings of a run like that of the log.
fn options(entry: &Entry, id: &str, files: &BTreeMap<String, Vec<u8>>) -> Options {
    let (scheduler, _) = find(id);
    let text = str::from_utf8(&files[&entry.workload]).unwrap();
    let workload = Arc::new(Workload::parse(&entry.workload, text).unwrap());
    let mut options = Options::new(Machine::parse(&entry.machine).unwrap(), workload);
    options.duration = Some((entry.settings.duration_s * SECOND as f64) as Nanoseconds);
    options.cost = CostModel::zero();
    // When the clocks of the originals begin.
    options.uptime = 0;
    options.hz = entry.settings.stathz.unwrap_or(entry.settings.hz);
    for (name, value) in entry.settings.tunables.as_object().into_iter().flatten() {
        let tunable = scheduler.tunable(name).unwrap();
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let bytes = tunable.encode(tunable.parse_value(&text).unwrap());
        options.variables.push((name.clone(), bytes));
    }
    options
}

fn compare(entry: &Entry, id: &str, files: &BTreeMap<String, Vec<u8>>) -> Comparison {
    let (_, loaded) = find(id);
    let options = options(entry, id, files);
    let end = options.duration.unwrap();
    let original = switches(str::from_utf8(&files[&entry.log]).unwrap());
    let mut writer = SwitchWriter::new(Vec::new());
    let outcome = simulate(&loaded, &options, vec![&mut writer]).unwrap();
    assert_eq!(outcome.failure, None, "{}", entry.log);
    let mut here = switches(str::from_utf8(&writer.close().unwrap()).unwrap());
    here.retain(|(time, ..)| *time < end);
    let name = entry.log.rsplit_once('.').map_or(&entry.log[..], |(name, _)| name).to_owned();
    let differs = |index: &usize| original.get(*index) != here.get(*index);
    let difference = (0..original.len().max(here.len())).find(differs).map(|index| {
        let options = Options { details: true, ..options.clone() };
        let mut story = Story::default();
        simulate(&loaded, &options, vec![&mut story]).unwrap();
        let last_common = index.checked_sub(1).map_or(0, |last| here[last].0);
        (index, story.tell(index, last_common, original.get(index), here.get(index)))
    });
    Comparison {
        name,
        original: format!("{} {}", entry.original.name, entry.original.release),
        cpus: options.machine.cpu_count(),
        switches: original.len(),
        difference,
    }
}

/// Compares all logs of a scheduler.
fn compare_all(id: &str) -> Vec<Comparison> {
    let files = files(id);
    let index = files.get("index.jsonl").map_or(&b""[..], Vec::as_slice);
    let entries = str::from_utf8(index).unwrap().lines().filter(|line| !line.is_empty());
    let entries = entries.map(|line| serde_json::from_str::<Entry>(line).unwrap());
    entries.map(|entry| compare(&entry, id, &files)).collect()
}

/// What a run did, with the callbacks of the scheduler.
#[derive(Default)]
struct Story {
    names: Vec<String>,
    events: Vec<Event>,
}

impl Sink for Story {
    fn task(&mut self, _: Nanoseconds, task: TaskId, info: &TaskInfo) {
        let number = task.0 as usize;
        if number >= self.names.len() {
            self.names.resize(number + 1, String::new());
        }
        self.names[number].clone_from(&info.name);
    }

    fn event(&mut self, event: &Event) {
        self.events.push(*event);
    }

    fn finish(&mut self, _: Nanoseconds) {}
}

fn seconds(time: Nanoseconds) -> String {
    let text = format!("{:.9}", time as f64 / SECOND as f64);
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

impl Story {
    /// Tells the first difference, switch `index`, and what happened since the last common switch.
    fn tell(
        &self,
        index: usize,
        since: Nanoseconds,
        original: Option<&Switch>,
        here: Option<&Switch>,
    ) -> String {
        let at = |switch: Option<&Switch>| switch.map_or(Nanoseconds::MAX, |switch| switch.0);
        let first = at(original).min(at(here));
        let cpu =
            [original, here].into_iter().flatten().find(|switch| switch.0 == first).unwrap().1;
        let mut text = format!("switch {index} at {} on CPU {cpu}:", seconds(first));
        for (who, switch) in [("original", original), ("here", here)] {
            let _ = match switch {
                None => write!(text, " {who} none follows"),
                Some((time, other, next)) => {
                    let prev = self.running_on(*other, first);
                    let _ = write!(text, " {who} {prev} -> {next}");
                    if *time != first {
                        let _ = write!(text, " at {}", seconds(*time));
                    }
                    if *other != cpu {
                        let _ = write!(text, " on CPU {other}");
                    }
                    text.push(if who == "here" { ';' } else { ',' });
                    Ok(())
                }
            };
        }
        let names = [original, here].into_iter().flatten().map(|switch| switch.2.as_str());
        let mut told: Vec<&str> = Vec::new();
        for name in names.filter(|name| *name != "idle") {
            if !told.contains(&name) {
                let _ = write!(text, " {name} {};", self.state_of(name, first));
                told.push(name);
            }
        }
        let until = if at(here) == Nanoseconds::MAX { first } else { at(here).max(first) };
        let events = self.events.iter().filter(|event| (since..=until).contains(&event.time));
        for line in events.filter_map(|event| self.line(event)).take(MOST_EVENTS) {
            let _ = write!(text, "\n    {line}");
        }
        text
    }

    fn name(&self, task: Option<TaskId>) -> &str {
        task.map_or("idle", |task| self.names.get(task.0 as usize).map_or("", String::as_str))
    }

    /// The task on a CPU just before a time.
    fn running_on(&self, on: u32, before: Nanoseconds) -> &str {
        let mut running = None;
        for event in self.events.iter().take_while(|event| event.time < before) {
            match event.kind {
                EventKind::Switch { cpu: CpuId(cpu), next, .. } if cpu == on => running = next,
                _ => {}
            }
        }
        self.name(running)
    }

    /// What a task does just before a time, and wake-ups at that time.
    fn state_of(&self, name: &str, at: Nanoseconds) -> String {
        let mut state = "has not begun".to_owned();
        for event in self.events.iter().take_while(|event| event.time <= at) {
            let is = |task: Option<TaskId>| task.is_some() && self.name(task) == name;
            let begins = match event.kind {
                EventKind::Wake { task, .. } if is(Some(task)) => "waits",
                _ if event.time == at => continue,
                EventKind::Sleep { task } if is(Some(task)) => "sleeps",
                EventKind::Exit { task } if is(Some(task)) => "has ended,",
                EventKind::Switch { next, .. } if is(next) => "runs",
                EventKind::Switch { prev, .. } if is(prev) && state.starts_with("runs") => "waits",
                _ => continue,
            };
            state = format!("{begins} since {}", seconds(event.time));
        }
        state
    }

    fn line(&self, event: &Event) -> Option<String> {
        let text = match event.kind {
            EventKind::Wake { task, .. } => format!("{} wakes up", self.name(Some(task))),
            EventKind::Sleep { task } => format!("{} sleeps", self.name(Some(task))),
            EventKind::Exit { task } => format!("{} ends", self.name(Some(task))),
            EventKind::Switch { cpu, prev, next } => {
                format!("CPU {}: {} -> {}", cpu.0, self.name(prev), self.name(next))
            }
            EventKind::Migrate { task, from, to } => {
                format!("{} moves from CPU {} to {}", self.name(Some(task)), from.0, to.0)
            }
            EventKind::Callback { cpu, callback, task, .. } => {
                let task = task.map_or("", |task| self.name(Some(task)));
                format!("CPU {}: ops.{}({task})", cpu.0, callback.name())
            }
            _ => return None,
        };
        Some(format!("{}: {text}", seconds(event.time)))
    }
}

/// Asserts that a scheduler decides as its original did in all logs, but for those that are known to differ.
#[track_caller]
pub fn assert_decides_as_original(id: &str) {
    let known = known_differences(id);
    let compared = compare_all(id);
    assert!(!compared.is_empty(), "{id} has no logs");
    let (mut problems, mut list) = (String::new(), String::new());
    for one in &compared {
        let expected = known.get(&one.name).copied();
        match &one.difference {
            Some((index, _)) if expected == Some(*index) => {}
            None if expected.is_none() => {}
            None => {
                let _ = writeln!(problems, "{}: identical, but listed as different", one.name);
            }
            Some((index, told)) => {
                let _ = writeln!(problems, "{}: {told}", one.name);
                let _ = writeln!(list, "{:?} = {index}", one.name);
            }
        }
    }
    for name in known.keys() {
        assert!(compared.iter().any(|one| one.name == *name), "{id} has no log {name}");
    }
    assert!(problems.is_empty(), "{id} decides differently:\n{problems}\n{list}");
}

/// The logs that differ, and their first switches that do. Departures are those of the README.
fn known_differences(id: &str) -> BTreeMap<String, usize> {
    let folder = schedulers().join(id);
    let Ok(text) = fs::read_to_string(folder.join("originals.toml")) else {
        return BTreeMap::new();
    };
    if std::env::var_os(ORIGINALS).is_some() {
        return BTreeMap::new();
    }
    let readme = fs::read_to_string(folder.join("README.md")).unwrap();
    let reasons: BTreeMap<String, BTreeMap<String, usize>> = toml::from_str(&text).unwrap();
    for reason in reasons.keys().filter(|reason| *reason != "unexplained") {
        let departure = format!("\n{reason}. ");
        assert!(readme.contains(&departure), "{id}: README.md has no departure {reason}");
    }
    reasons.into_values().flatten().collect()
}

#[test]
#[ignore = "prints a table: make originals"]
fn originals_table() {
    println!("| scheduler | original | CPUs | logs identical | of | switches |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let mut told = String::new();
    for scheduler in fairground_catalog::all() {
        let id = scheduler.id();
        let mut rows: BTreeMap<(String, usize), [usize; 3]> = BTreeMap::new();
        for one in compare_all(id) {
            let row = rows.entry((one.original.clone(), one.cpus)).or_default();
            let same = usize::from(one.difference.is_none());
            for (sum, value) in row.iter_mut().zip([same, 1, one.switches]) {
                *sum += value;
            }
            if let Some((_, difference)) = one.difference {
                let _ = writeln!(told, "{id}, {}: {difference}", one.name);
            }
        }
        for ((original, cpus), [same, all, switches]) in rows {
            println!("| `{id}` | {original} | {cpus} | {same} | {all} | {switches} |");
        }
    }
    println!("\n{told}");
}
