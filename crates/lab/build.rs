//! Tells the crate a hash of the sources on which the results of a simulation depend.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

/// The crates whose code takes part in a simulation or in its measures.
const CRATES: [&str; 12] = [
    "crates/contract",
    "crates/events",
    "crates/lab",
    "crates/linux",
    "crates/machine",
    "crates/metrics",
    "crates/results",
    "crates/simulator",
    "crates/workload",
    "lib/bpf",
    "lib/companion",
    "lib/recording",
];

fn main() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = CRATES.map(|name| project.join(name).join("src"));
    let mut found = BTreeSet::from([project.join("Cargo.lock")]);
    for folder in &folders {
        println!("cargo::rerun-if-changed={}", folder.display());
        add_files(folder, &mut found);
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", project.join("Cargo.lock").display());
    let mut hasher = DefaultHasher::new();
    for path in &found {
        let name = path.strip_prefix(&project).unwrap_or(path);
        (name, fs::read(path).unwrap_or_default()).hash(&mut hasher);
    }
    println!("cargo::rustc-env=FAIRGROUND_ENGINE={:016x}", hasher.finish());
}

/// Adds all files of a folder and of those in it.
fn add_files(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => add_files(&path, found),
            false => {
                found.insert(path);
            }
        }
    }
}
