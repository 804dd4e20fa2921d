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

/// An experiment's part that is the same for every run: all of its file but the columns, the lines that judge them, the column that others are
/// divided by, and the baseline that values were fitted to.
fn common_part(value: &toml::Value) -> toml::Value {
    match value {
        toml::Value::Table(table) => {
            let judged = ["column", "accept", "headline", "over", "target", "to", "caveats"];
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
        // Verdicts of runs on a kernel, which are no part of a run.
        if path.ends_with("kernel.json") {
            continue;
        }
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

/// A column or point with fewer seeds than the experiment is for lines that do not count.
#[test]
fn lines_of_documents_are_judged_by_all_seeds() {
    let mut found = 0;
    for path in files(&root().join("experiments"), "experiment.toml") {
        let file: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
        let text = |value: &toml::Value| value.as_str().unwrap().to_owned();
        let mut fewer = Vec::new();
        for (list, all) in [("column", "columns"), ("point", "points")] {
            let ones = file.get(list).and_then(toml::Value::as_array).into_iter();
            let few = { ones.flatten() }.filter(|one| one.get("seeds").is_some());
            let names: Vec<String> = few.map(|one| format!("\"{}\"", text(&one["name"]))).collect();
            if !names.is_empty() {
                fewer.extend(names);
                fewer.push(format!("{all}."));
            }
        }
        found += fewer.len();
        for line in file["accept"].as_array().unwrap() {
            if !["S", "D"].contains(&text(&line["level"]).as_str()) {
                continue;
            }
            let holds = text(&line["holds"]);
            let used: Vec<&String> = fewer.iter().filter(|one| holds.contains(*one)).collect();
            assert!(used.is_empty(), "{}: {line} uses {used:?}", path.display());
        }
    }
    assert!(found > 0, "no experiment has fewer seeds anywhere");
}

#[test]
fn every_experiment_has_what_the_document_prints_and_a_description() {
    for path in files(&root().join("experiments"), "experiment.toml") {
        let folder = path.parent().unwrap();
        for file in ["document.toml", "README.md"] {
            assert!(folder.join(file).is_file(), "{} has no {file}", folder.display());
        }
    }
}

/// The part of a file that `scripts/documents` writes.
fn results_in(file: &str) -> String {
    let readme = fs::read_to_string(root().join(file)).unwrap();
    let (_, rest) =
        readme.split_once("<!-- begin: scripts/documents -->\n").expect("it has the marker");
    let (part, _) = rest.split_once("<!-- end: scripts/documents -->").expect("it has the marker");
    part.to_owned()
}

#[test]
fn the_readme_has_a_row_for_each_experiment() {
    let results = results_in("experiments/README.md");
    assert_eq!(results.lines().next(), results_in("README.md").lines().next());
    let mut rows = 0;
    for path in files(&root().join("experiments"), "experiment.toml") {
        let text = fs::read_to_string(&path).unwrap();
        let file: toml::Table = text.parse().unwrap();
        let id = path.parent().unwrap().file_name().unwrap();
        let text = |value: &toml::Value| value.as_str().unwrap().to_owned();
        let headline = &file["headline"];
        let row = format!(
            "| [`{0}`]({0}): {1} | {2} | {3} | ",
            id.display(),
            text(&file["title"]),
            text(&headline["says"]),
            text(&headline["document"])
        );
        assert!(results.contains(&row), "experiments/README.md lacks {row}");
        rows += 1;
    }
    assert_eq!(results.matches("\n| [`").count(), rows);
}

/// The script language refuses to walk a list in a function that it is captured by: `many.all(|p| many.all(|q| ...))`.
#[test]
fn no_line_reads_a_list_within_the_function_that_walks_it() {
    let mut walks = 0;
    for path in files(&root().join("experiments"), "experiment.toml") {
        let text = fs::read_to_string(&path).unwrap();
        for (at, _) in text.match_indices("(|") {
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            let before = text[..at].trim_end_matches(is_part);
            let Some(before) = before.strip_suffix('.') else { continue };
            let list = &before[before.trim_end_matches(is_part).len()..];
            let mut depth = 0;
            let end = text[at..].find(|c| {
                depth += i32::from(c == '(') - i32::from(c == ')');
                depth == 0
            });
            let function = &text[at..at + end.expect("brackets are closed")];
            let reads = |(place, _): (usize, &str)| !function[..place].ends_with(is_part);
            let own = !list.is_empty() && function.match_indices(&format!("{list}.")).any(reads);
            assert!(!own, "{}: {list} is read within {function}", path.display());
            walks += 1;
        }
    }
    assert!(walks > 0, "no experiment walks a list");
}
