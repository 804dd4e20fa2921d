//! The invariants of `ARCHITECTURE.md`: what must be absent.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, suffix));
        } else if path.to_string_lossy().ends_with(suffix) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The code of a file without comments.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| line.split("//").next().unwrap_or(""))
        .collect::<Vec<_>>()
        .join("\n")
}

fn engine() -> Vec<PathBuf> {
    let found = files(&root().join("crates/simulator/src"), ".rs");
    assert!(found.len() > 15, "the engine's sources were not found");
    found
}

#[test]
fn the_engine_reads_no_wall_clock_and_no_environment() {
    for path in engine() {
        let code = code(&path);
        for word in [
            "Instant",
            "SystemTime",
            "std::time",
            "std::env",
            "thread_rng",
            "getrandom",
        ] {
            assert!(!code.contains(word), "{} uses {word}", path.display());
        }
    }
}

#[test]
fn the_engine_iterates_no_unordered_map() {
    for path in engine() {
        let code = code(&path);
        // Hash maps are for look-ups, with a fixed hasher, in one place that offers no iteration.
        let may = ["dsq_table.rs"];
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if may.contains(&name.as_str()) {
            for method in [".iter()", ".values()", ".keys()", ".drain("] {
                assert!(!code.contains(method), "{} iterates", path.display());
            }
        } else {
            assert!(
                !code.contains("HashMap") && !code.contains("HashSet"),
                "{} uses an unordered map",
                path.display()
            );
        }
    }
}

#[test]
fn the_engine_names_no_scheduler() {
    let folder = root().join("schedulers");
    let mut ids = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.path().join("scheduler.toml").is_file() {
            ids.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    assert!(ids.len() >= 3);
    for path in engine() {
        let text = fs::read_to_string(&path).unwrap();
        for id in &ids {
            let names_it = text
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .any(|word| word == id);
            assert!(!names_it, "{} names {id}", path.display());
        }
    }
}

#[test]
fn metrics_and_engine_do_not_know_each_other() {
    let manifest =
        |name: &str| fs::read_to_string(root().join(format!("crates/{name}/Cargo.toml"))).unwrap();
    assert!(!manifest("metrics").contains("fairground-simulator"));
    assert!(!manifest("report").contains("fairground-simulator"));
    let engine = manifest("simulator");
    let dependencies = engine.split("[dev-dependencies]").next().unwrap();
    assert!(!dependencies.contains("fairground-metrics"));
    assert!(!manifest("events").contains("fairground-simulator"));
}

/// The crates of the project that a crate's manifest names, without those of its tests.
fn used_by(name: &str) -> BTreeSet<String> {
    let path = root().join(format!("crates/{name}/Cargo.toml"));
    let text = fs::read_to_string(path).unwrap();
    let ours = text.split("[dev-dependencies]").next().unwrap().lines();
    ours.filter_map(|line| line.strip_prefix("fairground-")?.split('.').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn crates_use_each_other_as_the_table_says() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut above = BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with("| `crates/")) {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let name = columns[1]
            .trim_matches('`')
            .strip_prefix("crates/")
            .unwrap();
        let told: BTreeSet<String> = match columns[3] {
            "all above but kernel" => above
                .iter()
                .filter(|one| *one != "kernel")
                .cloned()
                .collect(),
            uses => uses
                .split(", ")
                .filter(|one| !one.is_empty())
                .map(str::to_owned)
                .collect(),
        };
        assert_eq!(used_by(name), told, "{name}");
        above.insert(name.to_owned());
    }
    let all = fs::read_dir(root().join("crates")).unwrap().count();
    assert_eq!(above.len(), all, "a crate has no room in the table");
}

#[test]
fn none_but_the_command_prints() {
    for path in files(&root().join("crates"), ".rs") {
        let place = path.display().to_string();
        let is_source = place.contains("/src/") && !place.contains("crates/cli/");
        for word in ["println!", "print!(", "dbg!("] {
            assert!(!is_source || !code(&path).contains(word), "{place}: {word}");
        }
    }
}

#[test]
fn schedulers_do_not_know_their_world() {
    let mut seen = 0;
    for path in files(&root().join("schedulers"), ".bpf.c") {
        seen += 1;
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines() {
            let line = line.trim();
            assert!(
                !line.starts_with("#ifdef") && !line.starts_with("#ifndef"),
                "{}: {line}",
                path.display()
            );
            if let Some(header) = line.strip_prefix("#include ") {
                assert!(header.starts_with('"'), "{}: {line}", path.display());
            }
        }
    }
    assert!(seen >= 3);
}
