//! Explaining why tasks waited.

use serde_json::Value;

use crate::support::{fairground, json, succeed};

/// The lines of a text about the wait of `task`.
fn wait_of<'a>(text: &'a str, task: &str) -> &'a str {
    let begin = text.find(&format!("\n{task} waited ")).expect(text) + 1;
    let rest = &text[begin..];
    let end = rest.find("\n\n").expect("an empty line behind the cause");
    &rest[..end]
}

/// The steps of the first wait, without times.
fn steps(text: &str) -> Vec<&str> {
    let steps = text.split("What happened to it\n").nth(1).expect(text);
    let lines = steps.lines().take_while(|line| line.starts_with("    "));
    lines.filter_map(|line| Some(line.split_once(" s  ")?.1)).collect()
}

#[test]
fn a_wait_in_a_queue_is_told_with_who_was_taken_from_it() {
    let text = succeed("explain workloads/hogs.json -s cfs -m 1 --most 1");
    let heading = text.lines().next().unwrap();
    assert_eq!(heading, "hogs under cfs (machine 1, 1.00 s, cost model default, seed 0)");
    let wait = text.lines().nth(2).unwrap();
    assert!(wait.contains(" waited ") && wait.contains(" ms, from 0."), "{wait}");
    assert!(text.contains("\n  lay in the DSQ 0 for "), "{text}");
    assert!(text.contains(", from which CPU 0 took "), "{text}");
    assert!(text.contains("\n    CPU 0    hog-"), "{text}");
    let steps = steps(&text);
    let has = |expected: &str| steps.iter().any(|step| step.starts_with(expected));
    for expected in [
        "enqueue on CPU 0: ",
        "into the DSQ 0, slice ",
        "out of the DSQ 0",
        "into the local DSQ of CPU 0, slice ",
        "runs on CPU 0",
    ] {
        assert!(has(expected), "no {expected:?} in {steps:#?}");
    }
}

#[test]
fn a_task_that_the_scheduler_forgets_is_held_in_its_own_data() {
    let line = "explain workloads/hogs.json -s schedulers/forgetful.bpf.c -m 2 -d 10s --most 1";
    let ended = fairground(&line.split(' ').collect::<Vec<_>>());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("failed to run for"), "{}", ended.stderr);
    let text = ended.stdout;
    assert!(
        wait_of(&text, "player")
            .contains("held in the scheduler's own data (a map, a list, an arena) for "),
        "{text}"
    );
    assert!(text.contains(", when the run ended\n"), "{text}");
    assert!(!text.contains("into the"), "{text}");
}

#[test]
fn a_wait_behind_a_real_time_task_names_it() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("urgent.json");
    let load = r#"{ "tasks" : {
        "urgent" : { "policy" : "SCHED_FIFO", "priority" : 10, "run" : 60000, "sleep" : 40000 },
        "hog" : { "run" : 10000 } }, "global" : { "duration" : 2 } }"#;
    std::fs::write(&file, load).unwrap();
    let line = format!("explain {} -s linux24 -m 1 --longer 20ms", file.display());
    let text = succeed(&line);
    let wait = wait_of(&text, "hog");
    assert!(
        wait.contains(
            "behind real-time tasks: urgent (priority 10) had the CPUs that it may use for 60"
        ),
        "{text}"
    );
    assert!(text.contains("urgent (real-time 10) 60"), "{text}");
    let none = succeed(&format!("{line} --task urgent"));
    assert!(none.contains("\nNo task waited that long.\n"), "{none}");
}

#[test]
fn json_has_the_waits_and_what_was_measured() {
    let line = "workloads/hogs.json -s schedulers/rotation.bpf.c -m 2";
    let text = succeed(&format!("explain {line} --task player --most 2 --format json"));
    assert_eq!(
        text,
        succeed(&format!("explain {line} --task player --most 2 --format json")),
        "the same arguments give the same bytes"
    );
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told["version"], 2);
    let waits = told["runs"][0]["waits"].as_array().unwrap();
    assert_eq!(waits.len(), 2);
    let length = |wait: &Value| wait["to_ns"].as_u64().unwrap() - wait["from_ns"].as_u64().unwrap();
    assert!(length(&waits[0]) >= length(&waits[1]));
    let compared = json(&format!("compare {line} --format json"));
    let tasks = compared["runs"][0]["metrics"]["tasks"].as_array().unwrap();
    let player = tasks.iter().find(|task| task["name"] == "player").unwrap();
    assert_eq!(player["longest_wait_ns"], length(&waits[0]));
    // A wait is where the task was, all of it.
    for wait in waits {
        assert_eq!(wait["task"], "player");
        let places = wait["places"].as_array().unwrap().iter();
        let sum: u64 = places.map(|one| one["duration_ns"].as_u64().unwrap()).sum();
        assert_eq!(sum, length(wait));
        for cpu in wait["cpus"].as_array().unwrap() {
            let ran = cpu["ran"].as_array().unwrap().iter();
            let ran: u64 = ran.map(|one| one["duration_ns"].as_u64().unwrap()).sum();
            let nobody = ["idle_ns", "overhead_ns", "offline_ns"];
            let nobody: u64 = nobody.iter().map(|of| cpu[*of].as_u64().unwrap()).sum();
            assert_eq!(ran + nobody, length(wait));
        }
    }
}

#[test]
fn tasks_that_are_moved_from_queue_to_queue_are_told() {
    let text = succeed("explain mix-two -s eevdf -m 2 -d 1s --most 1");
    assert!(text.contains(", from which 3 other tasks were moved on to the DSQ 2\n"), "{text}");
}

#[test]
fn only_an_infinite_slice_never_ends() {
    let load = "explain workloads/hogs.json -s schedulers/rotation.bpf.c -m 1 --most 1";
    // A slice ends at a tick, which may be late.
    let finite = succeed(&format!("{load} --hz 10"));
    assert!(wait_of(&finite, "player").ends_with(" other tasks"), "{finite}");
    let infinite = succeed(&format!("{load} --set slice_ns=18446744073709551615"));
    assert!(infinite.contains("; hog-0 ran, whose slice never ends\n"), "{infinite}");
}

#[test]
fn tasks_of_other_classes_wait_for_what_they_really_wait_for() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("classes.json");
    let load = r#"{ "tasks" : {
        "rt" : { "policy" : "SCHED_FIFO", "priority" : 50, "run" : 1000,
            "timer" : { "ref" : "a", "period" : 10000 } },
        "dl" : { "policy" : "SCHED_DEADLINE", "dl-runtime" : 3000, "dl-period" : 20000, "run" : 1000,
            "timer" : { "ref" : "b", "period" : 23000 } },
        "over" : { "policy" : "SCHED_DEADLINE", "dl-runtime" : 1000, "dl-period" : 20000, "run" : 3000,
            "timer" : { "ref" : "c", "period" : 90000 } },
        "hog" : { "run" : 100000 } }, "global" : { "duration" : 1 } }"#;
    std::fs::write(&file, load).unwrap();
    let explain = |task: &str| {
        let text =
            succeed(&format!("explain {} -s eevdf -m 1 --task {task} --most 90", file.display()));
        let waits: Vec<&str> = text.split("\n\n").filter(|one| one.contains(" waited ")).collect();
        let causes =
            waits.iter().filter_map(|one| one.lines().nth(1)?.split(&[' ', ':'][..]).nth(2));
        causes.map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    assert!(!explain("dl").contains("throttled"));
    assert!(explain("over").contains("throttled"));
    assert!(!explain("hog").contains("outside"), "it is the scheduler's");
    let of_rt = succeed(&format!("explain {} -s eevdf -m 1 --task rt --most 90", file.display()));
    assert!(!of_rt.contains("the deadline server gives"), "{of_rt}");
}

#[test]
fn cpus_that_are_offline_hide_no_cause() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("urgent.json");
    let load = r#"{ "tasks" : {
        "urgent" : { "policy" : "SCHED_FIFO", "priority" : 50, "run" : 300000, "sleep" : 5000 },
        "other" : { "run" : 1000, "sleep" : 1000 } }, "global" : { "duration" : 2 } }"#;
    std::fs::write(&file, load).unwrap();
    let line =
        format!("explain {} -s cfs -m 2 --hotplug 1:off@1ns --task other --most 1", file.display());
    let text = succeed(&line);
    let wait = wait_of(&text, "other");
    assert!(
        wait.contains("behind real-time tasks: urgent (priority 50) had the CPUs that "),
        "{text}"
    );
    assert!(text.contains("\n    CPU 1    offline 300 ms\n"), "{text}");
}

/// What another process tells of threads that are not of the run arrives here as if it were this one.
#[test]
fn waits_beside_the_kernels_own_threads_are_explained_under_schedulers_of_ones_own() {
    // The last one takes a CPU away while the tasks are still being woken for the first time.
    for of_load in [
        "rotation.bpf.c -m 2 --noise default",
        "rotation.bpf.c -m 2",
        "sound.bpf.c -m 4 --hotplug 2:off@100ns",
    ] {
        let line = format!("workloads/hogs.json -d 1s -s schedulers/{of_load}");
        let compared = json(&format!("compare {line} --repeat 1 --format json"));
        let longest = compared["runs"][0]["metrics"]["longest_wait_ns"].as_u64().unwrap();
        let explained = json(&format!("explain {line} --most 1 --format json"));
        let wait = &explained["runs"][0]["waits"][0];
        let time = |key: &str| wait[key].as_u64().expect("it has a time");
        assert_eq!(time("to_ns") - time("from_ns"), longest, "{of_load}");
    }
}
