//! The examples that Debian's rt-app brings run as they are.

use std::path::{Path, PathBuf};

use crate::support::fairground;

const EXAMPLES: &str = "/usr/share/doc/rt-app/examples";

fn workloads(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    found.sort();
    found
}

#[test]
fn debians_examples_run() {
    let folder = Path::new(EXAMPLES);
    if !folder.is_dir() {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "{EXAMPLES} is missing: install Debian's package rt-app"
        );
        eprintln!("skipped: {EXAMPLES} is missing (Debian's package rt-app)");
        return;
    }
    let mut files = workloads(folder);
    files.extend(workloads(&folder.join("tutorial")));
    assert!(files.len() >= 16, "{files:?}");
    let mut arguments = vec!["compare".to_owned()];
    arguments.extend(files.iter().map(|file| file.display().to_string()));
    arguments.extend(["-s", "linux24", "-d", "2s", "--format", "json"].map(String::from));
    let ended = fairground(&arguments);
    assert_eq!(ended.stderr, "");
    assert_eq!(ended.code, Some(0));
    let result: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), files.len());
    for run in runs {
        let busy = run["metrics"]["cpu_time"]["busy_ns"].as_u64().unwrap();
        assert!(busy > 0, "nothing ran in {}", run["labels"]["workload"]);
    }
}
