//! The schemas of the documents that `--format json` prints.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::support::{fairground, succeed};
use crate::validator::{faults, validator};

/// The schemas in a folder by the names of their files.
fn schemas(folder: &Path) -> BTreeMap<String, String> {
    let files = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let named = files.map(|file| {
        let name = file.file_name().into_string().unwrap();
        (name, std::fs::read_to_string(file.path()).unwrap())
    });
    named.collect()
}

#[test]
fn the_schemas_in_the_documentation_are_those_of_the_types() {
    let folder = tempfile::tempdir().unwrap();
    succeed(&format!("generate {}", folder.path().display()));
    let generated = schemas(&folder.path().join("fairground/schema"));
    assert!(
        generated == schemas(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema")),
        "docs/schema is not up to date: `cargo run -- generate target/share && rm docs/schema/* && cp target/share/fairground/schema/* docs/schema`"
    );
    for (name, schema) in generated {
        let schema: Value = serde_json::from_str(&schema).unwrap();
        let valid = jsonschema::meta::validate(&schema);
        assert!(valid.is_ok(), "{name}: {valid:?}");
        // Whatever it refers to is there.
        validator(&name);
    }
}

/// Runs a command, with any exit status, and holds its output against a schema.
fn fits(schema: &str, line: &str) -> Value {
    let ended = fairground(&line.split(' ').collect::<Vec<_>>());
    let document: Value = serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("{line}: {error}: {}", ended.stderr));
    assert_eq!(faults(schema, &document), Vec::<String>::new(), "{line}");
    // Nothing that the schema does not know: a program may rely on it.
    let mut more = document.clone();
    more["surprise"] = 1.into();
    assert!(!faults(schema, &more).is_empty(), "{line}");
    assert!(
        document["fairground"].as_str().is_some_and(|version| version.starts_with("0.")),
        "{line}"
    );
    document
}

#[test]
fn what_is_printed_fits_its_schema() {
    fits("list-1.json", "list --format json");
    fits("list-loads-1.json", "list --loads --format json");
    fits("show-scheduler-1.json", "show cfs --format json");
    fits("show-scheduler-1.json", "show schedulers/rotation.bpf.c --format json");
    fits("show-recording-1.json", "show ../../../workloads/build.recording --format json");
    fits("explain-2.json", "explain mix-two -s cfs,o1 -m 2 -d 1s --format json");
    fits(
        "advise-2.json",
        "advise ../../../workloads/build.recording -s o1,cfs --repeat 2 --format json",
    );
    fits("rank-1.json", "rank mix-two -s cfs,schedulers/broken.bpf.c -m 2 -d 1s --format json");
    fits("reproduce-1.json", "reproduce elc_weight_example --repeat 2 --format json");
    let compared = fits(
        "compare-2.json",
        "compare mix-two hogs-three -s cfs,o1,schedulers/broken.bpf.c -m 2 -d 1s --repeat 2 --baseline cfs \
         --set cfs.sched_latency=12ms --hotplug 1:off@500ms --format json",
    );
    assert_eq!(compared["overall"]["cells"], 2);
    assert_eq!(compared["runs"][0]["labels"]["numbers"]["sched_latency"], 12_000_000);
}

#[test]
fn what_is_played_fits_its_schema() {
    fits("play-1.json", "play workloads/shares.json -d 100ms --format json");
}

#[test]
fn cells_and_their_results_fit_their_schemas() {
    let cells = [
        serde_json::json!({"workload": "mix-two", "scheduler": "cfs", "duration": "1s", "set": {"hz": 100}, "hz": "native"}),
        serde_json::json!({"id": 3, "workload": "mix-two", "scheduler": "nothing"}),
    ];
    for cell in cells {
        assert_eq!(faults("work-cell-1.json", &cell), Vec::<String>::new());
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fairground"));
        let mut child = command
            .arg("work")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, cell.to_string().as_bytes()).unwrap();
        drop(input);
        let printed = child.wait_with_output().unwrap().stdout;
        let answer: Value = serde_json::from_slice(&printed).unwrap();
        assert_eq!(faults("work-1.json", &answer), Vec::<String>::new());
        assert!(answer["run"].is_null() != answer["error"].is_null());
    }
}
