//! The experiments of the documents, as files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

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

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The ids of schedulers among the words of a text.
fn named(text: &str, ids: &BTreeSet<&str>) -> Vec<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| ids.contains(word))
        .map(str::to_owned)
        .collect()
}

/// What an experiment does with every run alike: all of its file but the columns, the lines that judge them and the baseline that
/// values were fitted to.
fn common_part(value: &toml::Value) -> toml::Value {
    match value {
        toml::Value::Table(table) => {
            let judged = ["column", "accept", "target", "to", "caveats"];
            let rest = table
                .iter()
                .filter(|(key, _)| !judged.contains(&key.as_str()))
                .map(|(key, value)| (key.clone(), common_part(value)));
            toml::Value::Table(rest.collect())
        }
        toml::Value::Array(values) => toml::Value::Array(values.iter().map(common_part).collect()),
        other => other.clone(),
    }
}

#[test]
fn no_workload_cost_machine_or_measure_names_a_scheduler() {
    let all = fairground_catalog::all();
    let ids: BTreeSet<&str> = all.iter().map(|scheduler| scheduler.id()).collect();
    let experiments = root().join("experiments");
    let mut checked = 0;
    for path in [
        files(&root().join("workloads"), ".json"),
        files(&experiments, ".json"),
        files(&experiments.join("machines"), ".toml"),
    ]
    .concat()
    {
        let names = named(&fs::read_to_string(&path).unwrap(), &ids);
        assert!(names.is_empty(), "{} names {names:?}", path.display());
        checked += 1;
    }
    for path in files(&experiments, "experiment.toml") {
        let text = fs::read_to_string(&path).unwrap();
        let file: toml::Value = toml::Value::Table(text.parse().unwrap());
        let names = named(&common_part(&file).to_string(), &ids);
        assert!(names.is_empty(), "{} names {names:?}", path.display());
        checked += 1;
    }
    assert!(checked > 60, "only {checked} files were found");
}

#[test]
fn every_experiment_has_what_the_document_prints_and_a_description() {
    for path in files(&root().join("experiments"), "experiment.toml") {
        let folder = path.parent().unwrap();
        for file in ["document.toml", "README.md"] {
            assert!(
                folder.join(file).is_file(),
                "{} has no {file}",
                folder.display()
            );
        }
    }
}
