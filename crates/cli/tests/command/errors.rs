//! What is wrong is said once, with its place and the way out, and the exit code tells whose fault it is.

use std::fs;

use crate::support::{fairground, refuse};

/// Runs `compare` on a workload with this text.
fn compare_text(text: &str) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.json");
    fs::write(&path, text).unwrap();
    let ended = fairground(&["compare", path.to_str().unwrap(), "-s", "linux24"]);
    assert_eq!(ended.stdout, "");
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    (ended.code.unwrap(), ended.stderr)
}

#[test]
fn unusable_workloads() {
    for (text, place, what) in [
        (
            "{ \"tasks\" : {\n \"a\" : { \"run\" 5 } } }",
            "bad.json:2:",
            "write a colon",
        ),
        (
            "{ \"tasks\" : {\n \"a\" : { \"jump\" : 5 } } }",
            "bad.json:2:10: tasks.a.jump",
            "jump",
        ),
        (
            "{ \"tasks\" : {\n \"a\" : { \"loop\" : 1, \"fork\" : \"b\" } } }",
            "bad.json:2:",
            "\"b\"",
        ),
    ] {
        let (code, message) = compare_text(text);
        assert_eq!(code, 2, "{message}");
        assert!(message.contains(place), "{message}");
        assert!(message.contains(what), "{message}");
    }
    refuse(
        "compare workloads/none.json",
        2,
        &["none.json", "cannot be read"],
    );
}

#[test]
fn unusable_arguments() {
    for (arguments, message) in [
        (
            "-s bqms",
            "there is no scheduler \"bqms\", did you mean bmqs?",
        ),
        ("-s linux24,linux24", "linux24 is given twice"),
        (
            "-s linux24 --set linux24.hzz=100",
            "no tunable \"hzz\", did you mean hz?",
        ),
        (
            "-s linux24 --set linux24.hz=5",
            "hz: 5 Hz is out of range; it takes 24 to 1200 Hz",
        ),
        (
            "-s linux24 --set linux24.hz=fast",
            "hz: fast is not a number",
        ),
        (
            "-s linux24 --set o1.hz=100",
            "o1 is not among the schedulers compared: linux24",
        ),
        ("-s linux24 --set hz=100", "write ID.TUNABLE=VALUE"),
        ("-s linux24 --set linux24.hz", "not ID.TUNABLE=VALUE"),
        ("-s linux24 -m core:0", "machine `core:0`"),
        ("-s linux24 -m banana", "machine `banana`"),
        ("-s linux24 --cost none.toml", "none.toml: cannot be read"),
        ("-s linux24 -d 0", "out of range"),
        ("-s linux24 -d soon", "is not a time"),
        ("-s linux24 --hz 1", "not a number from 10 to 10000"),
        ("-s linux24 --repeat 0", "0 is not in 1..=10000"),
        ("-s linux24 --hotplug 2:off", "such as 2:off@3s"),
        (
            "-s linux24 --hotplug 9:off@1ms",
            "the machine has CPUs 0 to 3",
        ),
        ("-s linux24 --threads 0", "--threads"),
        ("workloads/hogs.json", "two workloads are called hogs"),
    ] {
        refuse(
            &format!("compare workloads/hogs.json {arguments}"),
            2,
            &[message],
        );
    }
    refuse("compare", 2, &["WORKLOAD"]);
    refuse("show bqms", 2, &["did you mean bmqs?"]);
}

#[test]
fn an_unknown_field_of_a_cost_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("costs.toml");
    fs::write(&path, "tick = 5\nticks = 6\n").unwrap();
    let path = path.to_str().unwrap();
    refuse(
        &format!("compare workloads/hogs.json -s linux24 --cost {path}"),
        2,
        &["costs.toml:2:1: unknown field `ticks`"],
    );
}

#[test]
fn unusable_schedulers() {
    let compare = "compare workloads/hogs.json -s schedulers/";
    refuse(
        &format!("{compare}broken.bpf.c"),
        2,
        &["broken.bpf.c does not compile", "broken.bpf.c:9:24: error"],
    );
    refuse(
        &format!("{compare}futuristic.bpf.c"),
        2,
        &[
            "futuristic.bpf.c: ",
            "scx_bpf_task_foresee",
            "scx_bpf_task_forgive",
        ],
    );
    refuse(
        &format!("{compare}none.bpf.c"),
        2,
        &["cannot read schedulers/none.bpf.c"],
    );
}

#[test]
fn a_scheduler_that_loses_a_task_is_ejected_and_the_others_go_on() {
    let ended = refuse(
        "compare workloads/hogs.json -m 1 -d 10s -s schedulers/forgetful.bpf.c,schedulers/rotation.bpf.c --format json",
        1,
        &[
            "hogs under schedulers/forgetful.bpf.c failed",
            "SCX_EXIT_ERROR_STALL",
            "hog-2[",
            "failed to run for",
        ],
    );
    let result: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    let note = runs[0]["notes"][0].as_str().unwrap();
    assert!(note.contains("FAILED") && note.contains("hog-2["), "{note}");
    assert!(runs[0]["metrics"]["duration_ns"].as_u64().unwrap() < 10_000_000_000);
    assert_eq!(runs[1]["metrics"]["duration_ns"], 10_000_000_000_u64);
    assert_eq!(runs[1]["notes"].as_array().unwrap().len(), 0);
}

#[test]
fn a_scheduler_that_wants_to_be_loaded_again_has_not_run_to_the_end() {
    refuse(
        "compare workloads/hogs.json -s schedulers/forgetful.bpf.c --hotplug 1:off@100ms",
        1,
        &[
            "after 0.1 s: the kernel unloaded the scheduler (SCX_EXIT_UNREG_KERN)",
            "cpu 1 going offline, exiting scheduler",
        ],
    );
}

#[test]
fn a_deadlock_is_explained() {
    let ended = refuse(
        "compare workloads/deadlock.json -s linux24",
        1,
        &[
            "deadlock: first waits for mutex right, held by second; second waits for mutex left, held by first",
        ],
    );
    assert!(ended.stdout.contains("linux24 FAILED"), "{}", ended.stdout);
}

#[test]
fn cpus_that_the_machine_lacks_are_named() {
    refuse(
        "compare workloads/far.json -s linux24",
        1,
        &["far may only use CPUs [40], and the machine has CPUs 0 to 3"],
    );
}

#[test]
fn a_crash_of_a_scheduler_names_the_line() {
    refuse(
        "compare workloads/hogs.json -s schedulers/wild.bpf.c",
        1,
        &[
            "scheduler schedulers/wild.bpf.c touched memory that is not there in wild_enqueue at ",
            "wild.bpf.c:11:",
        ],
    );
}

#[test]
fn results_that_cannot_be_written() {
    let compare = "compare workloads/hogs.json -s linux24 -d 1ms";
    refuse(
        &format!("{compare} --report none/report.html"),
        1,
        &["cannot write none/report.html"],
    );
    refuse(
        &format!("{compare} --trace workloads/hogs.json"),
        1,
        &["cannot write workloads/hogs.json"],
    );
}
