//! The Parquet files of many commands as one data set, read with the libraries that people use (Python packages `pyarrow`, `polars` and
//! `duckdb`).
//!
//! The Python environment is the one that the project's install script makes. Without it the test is skipped and says so; with `CI=true` in
//! the environment that is an error.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{end_of, fairground, folder};

fn python() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let environment = std::env::var_os("FAIRGROUND_VENV")
        .map_or_else(|| root.join("target/testbench/venv"), PathBuf::from);
    let has_them = |python: &PathBuf| {
        let mut command = Command::new(python);
        let tried = command.args(["-c", "import pyarrow, polars, duckdb"]).output();
        tried.is_ok_and(|tried| tried.status.success())
    };
    let python = Some(environment.join("bin/python")).filter(has_them);
    let lacks = format!(
        "{} lacks pyarrow, polars or duckdb; run scripts/install test",
        environment.display()
    );
    let is_required = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(python.is_some() || !is_required, "{lacks}");
    if python.is_none() {
        eprintln!("skipped: {lacks}");
    }
    python
}

/// Commands with all kinds of loads and ends.
const COMMANDS: [&str; 4] = [
    "compare workloads/hogs.json workloads/pipes.json -m 4 -d 3s --set forgetful.ops.timeout_ms=30000 -s \
     schedulers/rotation.bpf.c,schedulers/forgetful.bpf.c,schedulers/broken.bpf.c,schedulers/futuristic.bpf.c,schedulers/wild.bpf.c",
    "compare mix-two ../../../workloads/build.recording -m 2 -s cfs,o1 -d 2s --set cfs.sched_latency=12ms --repeat 2 --noise default",
    "compare workloads/hogs.json -m 1 -d 10s -s schedulers/forgetful.bpf.c",
    "compare workloads/deadlock.json -m 2 -s cfs --cost zero",
];

#[test]
fn runs_of_all_kinds_and_ends_are_one_data_set() {
    let Some(python) = python() else { return };
    let data = tempfile::tempdir().unwrap();
    let (mut runs, mut json) = (Vec::new(), Vec::new());
    for (number, line) in COMMANDS.iter().enumerate() {
        let part = data.path().join(number.to_string());
        let line = format!("{line} --format json -o {}", part.display());
        let ended = fairground(&line.split_whitespace().collect::<Vec<_>>());
        let result: Value = serde_json::from_str(&ended.stdout)
            .unwrap_or_else(|error| panic!("{line}: {error}: {}", ended.stderr));
        json.extend(result["runs"].as_array().unwrap().iter().cloned());
        runs.push(part);
    }
    let read = |name: &str| -> Value {
        let files = runs.iter().map(|part| part.join(name));
        let script = folder().join("data_sets/read.py");
        let ended = end_of(Command::new(&python).arg(script).args(files));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        serde_json::from_str(&ended.stdout).unwrap()
    };
    let of_runs = read("runs/runs.parquet");
    let of_tasks = read("tasks/tasks.parquet");
    for all in [&of_runs, &of_tasks] {
        assert_eq!(all["pyarrow"], all["polars"]);
        assert_eq!(all["pyarrow"], all["duckdb"]);
    }
    // They hold the same as the JSON.
    let found = &of_runs["duckdb"];
    let number = |run: &Value, place: &str| run.pointer(place).and_then(Value::as_u64);
    let durations = json.iter().filter_map(|run| number(run, "/metrics/duration_ns"));
    assert_eq!(found["duration"], durations.sum::<u64>());
    let counters = json.iter().flat_map(|run| run["counters"].as_object().unwrap().values());
    let counted: u64 = counters.filter_map(Value::as_u64).sum();
    assert!(counted > 0);
    assert_eq!(found["counted"], counted);
    for status in ["ok", "starved", "ejected", "deadlock", "refused", "invalid", "crashed"] {
        let count = json.iter().filter(|run| run["status"] == status).count();
        assert!(count > 0, "no run is {status}");
        assert_eq!(found["statuses"][status], count, "{status}");
    }
    assert_eq!(found["settings"], json!([["sched_latency", 12_000_000]]));
    // The same workload has the same hash in all of them.
    let workloads = found["workloads"].as_array().unwrap();
    assert_eq!(workloads.len(), 5, "{workloads:?}");
    assert_eq!(found["hashes"].as_array().unwrap().len(), 5);
    assert!(of_tasks["duckdb"]["share"].as_f64().unwrap() > 1.0);
}
