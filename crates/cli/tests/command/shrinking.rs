//! Failures in their smallest form.

use std::fs;

use crate::support::{Ended, fairground};

/// Compares with --shrink into a new folder; returns the output, and the file that was written.
fn shrink(arguments: &[&str]) -> (Ended, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let mut all = vec!["compare"];
    all.extend(arguments);
    all.extend(["--shrink", &path]);
    let ended = fairground(&all);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(files.len(), 1, "{}", ended.stderr);
    let text = fs::read_to_string(files[0].as_ref().unwrap().path()).unwrap();
    (ended, text, folder)
}

/// The command that was printed, as words.
fn command(ended: &Ended) -> Vec<String> {
    let (_, rest) = ended.stderr.split_once("To reproduce it:\n  ").expect(&ended.stderr);
    let line = rest.lines().next().unwrap();
    let mut words = line.split(' ').map(str::to_owned);
    assert_eq!(words.next().as_deref(), Some("fairground"));
    words.collect()
}

const LOST: [&str; 8] = [
    "workloads/hogs.json",
    "-s",
    "schedulers/forgetful.bpf.c",
    "-m",
    "numa:2 core:2",
    "-d",
    "20s",
    "--seed=3",
];

#[test]
fn a_stall_is_shown_by_one_task_on_one_cpu() {
    let (ended, text, _folder) = shrink(&LOST);
    assert!(ended.stderr.contains("nothing smaller was found"), "{}", ended.stderr);
    let command = command(&ended);
    let machine = command.iter().position(|word| word == "-m").unwrap() + 1;
    assert_eq!(command[machine], "1", "{command:?}");
    assert_eq!(command[command.len() - 2..], ["--seed", "3"]);
    let workload: serde_json::Value = serde_json::from_str(&text).unwrap();
    let tasks = workload["tasks"].as_object().unwrap();
    assert_eq!(tasks.len(), 1, "{text}");
    assert!(workload.as_object().unwrap().len() == 1, "{text}");
    let again = fairground(&command);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("(SCX_EXIT_ERROR_STALL)"), "{}", again.stderr);
}

#[test]
fn the_same_failure_ends_in_the_same_file() {
    let texts = [(); 2].map(|()| shrink(&LOST).1);
    assert_eq!(texts[0], texts[1]);
}

#[test]
fn a_crash_is_shown_by_one_task_on_one_cpu_in_no_time() {
    let load = ["workloads/hogs.json", "-s", "schedulers/wild.bpf.c", "-m", "4"];
    let (ended, text, _folder) = shrink(&load);
    assert!(ended.stderr.contains("nothing smaller was found"), "{}", ended.stderr);
    let command = command(&ended);
    assert_eq!(command[command.len() - 4..], ["-m", "1", "-d", "1ms"]);
    let workload: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(workload["tasks"].as_object().unwrap().len(), 1, "{text}");
    let again = fairground(&command);
    assert!(again.stderr.contains("wild.bpf.c:11"), "{}", again.stderr);
}

#[test]
fn what_a_failure_needs_is_kept() {
    // Forgotten is the first task that comes to the second CPU.
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("shy.bpf.c");
    fs::write(
        &source,
        r#"#include "fairground.bpf.h"
void BPF_STRUCT_OPS(shy_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (p->nr_cpus_allowed == 1 && scx_bpf_task_cpu(p) == 1)
		scx_bpf_error("a task on its own at CPU %d", 1);
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}
DEFINE_SCHEDULER(shy, .enqueue = (void *)shy_enqueue, .name = "shy");
"#,
    )
    .unwrap();
    let load = folder.path().join("load.json");
    let text = r#"{ "tasks" : {
        "one" : { "instance" : 4, "run" : 3000, "sleep" : 1000 },
        "two" : { "cpus" : [1, 2], "run" : 10000 },
        "bound" : { "cpus" : [1], "instance" : 2, "phases" : {
            "a" : { "loop" : 7, "run" : 100, "sleep" : 50 }, "b" : { "run" : 4321 } } } },
        "global" : { "duration" : 3 } }"#;
    fs::write(&load, text).unwrap();
    let (load, source) = (load.display().to_string(), source.display().to_string());
    let (ended, text, _folder) = shrink(&[&load, "-s", &source, "-m", "8"]);
    let command = command(&ended);
    let machine = command.iter().position(|word| word == "-m").unwrap() + 1;
    assert_eq!(command[machine], "2", "{command:?}");
    let workload: serde_json::Value = serde_json::from_str(&text).unwrap();
    let tasks = workload["tasks"].as_object().unwrap();
    assert_eq!(tasks.keys().collect::<Vec<_>>(), ["bound"], "{text}");
    assert_eq!(tasks["bound"]["cpus"], serde_json::json!([1]));
    assert!(!text.contains("4321") && !text.contains("\"loop\" : 7"), "{text}");
    let again = fairground(&command);
    assert!(again.stderr.contains("a task on its own at CPU 1"), "{}", again.stderr);
}

/// A scheduler that loses a task, for less time than the kernel takes to notice.
const STARVING: [&str; 9] = [
    "workloads/hogs.json",
    "-s",
    "schedulers/forgetful.bpf.c",
    "--set",
    "forgetful.ops.timeout_ms=30000",
    "-m",
    "4",
    "-d",
    "3s",
];

#[test]
fn a_starved_task_is_shown_with_no_more_than_it_takes() {
    let (ended, text, _folder) = shrink(&STARVING);
    let workload: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(workload["tasks"].get("nice").is_none(), "{text}");
    let command = command(&ended);
    let again = fairground(&command);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains(" starved a task after "), "{}", again.stderr);
}

#[test]
fn what_cannot_be_shrunk_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    for (scheduler, code, told) in [
        ("linux24", 0, "nothing failed and no task was starved"),
        ("schedulers/broken.bpf.c", 2, "never began, so it cannot be shrunk"),
    ] {
        let line =
            ["compare", "workloads/hogs.json", "-d", "100ms", "-s", scheduler, "--shrink", &path];
        let ended = fairground(&line);
        assert!(ended.stderr.contains(told), "{}", ended.stderr);
        assert_eq!(ended.code, Some(code));
    }
}
