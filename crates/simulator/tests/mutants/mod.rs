//! Small changes to a scheduler's source that its tests must notice.
//!
//! `schedulers/<id>/mutants.toml` lists them, one or more for each mechanism in the table of the README beside it:
//!
//! ```toml
//! [[mutant]]
//! mechanism = "exit: the parent inherits the counter, at most 20"  # first column of the README's table
//! replace = "parent_data->counter.left += data->counter.left;"     # occurs once in the file
//! with = ""
//! file = "include/tick_counter.h"                 # without it <id>.bpf.c
//! tests = ["the_parent_inherits"]                 # that have to notice; without it all tests of the scheduler
//! survives = "why no test can notice"             # expected to survive
//!
//! [[unmutated]]
//! mechanism = "no balancer"
//! reason = "there is no code to change"
//! ```

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::support::SCHEDULERS;

/// Names the schedulers whose mutants are run, separated by commas; without it all of them.
const SELECTED: &str = "FAIRGROUND_MUTANTS";

struct Mutant {
    id: String,
    mechanism: String,
    file: String,
    replace: String,
    with: String,
    tests: Vec<String>,
    survives: Option<String>,
}

fn schedulers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schedulers")
}

fn text_of(entry: &toml::Table, key: &str, place: &str) -> String {
    let value = entry.get(key).and_then(toml::Value::as_str);
    value.unwrap_or_else(|| panic!("{place}: {key} is missing")).to_owned()
}

/// The mutants of a scheduler, and the mechanisms that have none on purpose.
fn read(id: &str) -> (Vec<Mutant>, Vec<String>) {
    let place = format!("schedulers/{id}/mutants.toml");
    let text = std::fs::read_to_string(schedulers().join(id).join("mutants.toml")).unwrap();
    let file: toml::Table = text.parse().unwrap_or_else(|error| panic!("{place}: {error}"));
    let entries = |name: &str| -> Vec<toml::Table> {
        let list = file.get(name).and_then(toml::Value::as_array);
        let tables = list.into_iter().flatten();
        tables.map(|entry| entry.as_table().unwrap().clone()).collect()
    };
    let mutants = entries("mutant").into_iter().map(|entry| {
        let optional = |key: &str| entry.contains_key(key).then(|| text_of(&entry, key, &place));
        let tests = entry.get("tests").and_then(toml::Value::as_array);
        Mutant {
            id: id.to_owned(),
            mechanism: text_of(&entry, "mechanism", &place),
            file: optional("file").unwrap_or_else(|| format!("{id}/{id}.bpf.c")),
            replace: text_of(&entry, "replace", &place),
            with: text_of(&entry, "with", &place),
            tests: tests
                .into_iter()
                .flatten()
                .map(|test| test.as_str().unwrap().to_owned())
                .collect(),
            survives: optional("survives"),
        }
    });
    let mutants = mutants.collect();
    let unmutated = entries("unmutated").into_iter().map(|entry| {
        text_of(&entry, "reason", &place);
        text_of(&entry, "mechanism", &place)
    });
    (mutants, unmutated.collect())
}

/// Schedulers that have mutants, sorted.
fn mutated() -> Vec<String> {
    let folders = std::fs::read_dir(schedulers()).unwrap();
    let mut ids: Vec<String> = folders
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("mutants.toml").is_file())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    ids.sort();
    ids
}

impl Mutant {
    /// The file with the change in it.
    fn apply(&self) -> String {
        let text = std::fs::read_to_string(schedulers().join(&self.file)).unwrap();
        let found = text.matches(&self.replace).count();
        assert!(
            found == 1,
            "{}, {:?}: {:?} occurs {found} times in {}",
            self.id,
            self.mechanism,
            self.replace,
            self.file
        );
        text.replace(&self.replace, &self.with)
    }

    /// A folder of schedulers with nothing in it but this one, changed.
    fn folder(&self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for part in ["include", &self.id] {
            std::fs::create_dir(folder.path().join(part)).unwrap();
            for entry in std::fs::read_dir(schedulers().join(part)).unwrap() {
                let entry = entry.unwrap();
                let target = folder.path().join(part).join(entry.file_name());
                std::fs::copy(entry.path(), target).unwrap();
            }
        }
        std::fs::write(folder.path().join(&self.file), self.apply()).unwrap();
        folder
    }

    /// The name of the test that fails with the change; `None` if all of them pass.
    fn noticed_by(&self) -> Option<String> {
        let folder = self.folder();
        let source = folder.path().join(format!("{0}/{0}.bpf.c", self.id));
        if let Err(error) = fairground_catalog::open(&source.to_string_lossy(), &Default::default())
        {
            panic!("{}, {:?}: {error}", self.id, self.mechanism);
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .env(SCHEDULERS, folder.path())
            .args(["--test-threads", "1"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if self.tests.is_empty() {
            command.arg(format!("tests::{}::", self.id));
        } else {
            command.arg("--exact");
        }
        for test in &self.tests {
            command.arg(format!("tests::{}::{test}", self.id));
        }
        let mut child = command.spawn().unwrap();
        let (mut failed, mut ran) = (None, false);
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap_or_default();
            ran |= line.starts_with("test ") && line.contains(" ... ");
            if line.starts_with("test ") && line.ends_with(" ... FAILED") {
                let name = line.split(' ').nth(1).unwrap_or("");
                failed = name.rsplit("::").next().map(str::to_owned);
                let _ = child.kill();
                break;
            }
        }
        let status = child.wait().unwrap();
        assert!(ran, "{}, {:?}: no test {:?}", self.id, self.mechanism, self.tests);
        // Ended without a word, by a signal for instance.
        failed.or_else(|| (!status.success()).then(|| format!("{status}")))
    }
}

/// The first column of the README's first table with a column "mechanism".
fn mechanisms(id: &str) -> Vec<String> {
    let readme = std::fs::read_to_string(schedulers().join(id).join("README.md")).unwrap();
    let mut lines = readme.lines().skip_while(|line| !line.starts_with("| mechanism"));
    lines.next();
    lines
        .take_while(|line| line.starts_with('|'))
        .skip(1)
        .map(|line| line.split('|').nth(1).unwrap().trim().to_owned())
        .collect()
}

#[test]
fn every_mechanism_has_a_mutant_that_can_be_made() {
    let mut problems = String::new();
    for id in mutated() {
        let (mutants, unmutated) = read(&id);
        let rows = mechanisms(&id);
        for mutant in &mutants {
            mutant.apply();
        }
        let named: Vec<&String> =
            mutants.iter().map(|mutant| &mutant.mechanism).chain(&unmutated).collect();
        for name in &named {
            if !rows.contains(name) {
                let _ = writeln!(problems, "{id}: the README has no mechanism {name:?}");
            }
        }
        for row in &rows {
            if !named.contains(&row) {
                let _ = writeln!(problems, "{id}: {row:?} has no mutant");
            }
        }
    }
    assert!(problems.is_empty(), "\n{problems}");
}

#[test]
#[ignore = "takes minutes; `make mutants` runs it"]
fn every_mutant_is_noticed() {
    let selected = std::env::var(SELECTED).unwrap_or_default();
    let wanted = |id: &String| selected.is_empty() || selected.split(',').any(|one| one == id);
    let ids: Vec<String> = mutated().into_iter().filter(wanted).collect();
    assert!(!ids.is_empty(), "no mutants for {SELECTED}={selected}");
    let all: Vec<Mutant> = ids.iter().flat_map(|id| read(id).0).collect();
    let (number, queue) = (all.len(), Mutex::new(VecDeque::from(all)));
    let survivors = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap().pop_front();
                    let Some(mutant) = next else { break };
                    let (verdict, bad) = match (mutant.noticed_by(), &mutant.survives) {
                        (Some(test), None) => (format!("caught by {test}"), false),
                        (None, Some(reason)) => (format!("survives: {reason}"), false),
                        (Some(test), Some(_)) => {
                            (format!("caught by {test}, should survive"), true)
                        }
                        (None, None) => ("SURVIVES".to_owned(), true),
                    };
                    let (id, what) = (&mutant.id, mutant.replace.trim());
                    let line = format!("{id}: {}: {what:?}: {verdict}", mutant.mechanism);
                    println!("{line}");
                    if bad {
                        survivors.lock().unwrap().push(line);
                    }
                }
            });
        }
    });
    let survivors = survivors.into_inner().unwrap();
    println!(
        "{number} mutants of {}: {} as expected, {} not",
        ids.join(", "),
        number - survivors.len(),
        survivors.len()
    );
    assert!(survivors.is_empty(), "\n{}", survivors.join("\n"));
}
