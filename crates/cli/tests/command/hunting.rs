//! `fairground check --hunt`: mistakes that no case is made for are found, the same ones each time.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::support::{Ended, fairground, folder};

/// A mistake that none of the cases shows: a task that is both of the batch policy and bound is forgotten.
fn forgetful() -> String {
    let sound = fs::read_to_string(folder().join("schedulers/sound.bpf.c")).unwrap();
    let inserted = "	scx_bpf_dsq_insert_vtime(p, QUEUE, slice, vtime, enq_flags);\n";
    assert_eq!(sound.matches(inserted).count(), 1);
    let forgets = "	if (p->policy == SCHED_BATCH && p->nr_cpus_allowed == 1)\n		return;\n";
    sound.replace(inserted, &format!("{forgets}{inserted}"))
}

/// A folder with a source in it.
fn place(source: &str) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("mine.bpf.c"), source).unwrap();
    place
}

/// Hunts in a folder of this name beside the source.
fn hunt(place: &TempDir, name: &str, arguments: &[&str]) -> Ended {
    let source = place.path().join("mine.bpf.c").display().to_string();
    let folder = place.path().join(name).display().to_string();
    let mut all = vec!["check", &source, "--folder", &folder];
    all.extend(arguments);
    let mut ended = fairground(&all);
    ended.stdout = ended.stdout.replace(&folder, "FOLDER");
    ended
}

/// The files of a hunt, with their contents.
fn files(place: &TempDir, name: &str) -> Vec<(String, String)> {
    let folder = place.path().join(name).join("mine");
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    let mut files: Vec<(String, String)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().display().to_string(), read(&path)))
        .collect();
    files.sort();
    files
}

#[test]
fn a_mistake_that_no_case_shows_is_hunted_down_to_its_smallest_case() {
    let place = place(&forgetful());
    let source = place.path().join("mine.bpf.c").display().to_string();
    let mut near = vec!["check", &source];
    for case in ["batch-policy", "bound-threads", "pinned-everywhere"] {
        near.extend(["--case", case]);
    }
    assert_eq!(fairground(&near).code, Some(0));

    let ended = hunt(&place, "hunt", &["--hunt", "32", "--format", "json"]);
    let shown = format!("{} {}", ended.stdout, ended.stderr);
    assert_eq!(ended.code, Some(1), "{shown}");
    let found: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let faults = found["faults"].as_array().unwrap();
    let told = "is never inserted into a dispatch queue";
    let is_it = |fault: &&serde_json::Value| {
        fault["diagnosis"].as_str().is_some_and(|text| text.contains(told))
    };
    let fault = faults.iter().find(is_it).unwrap_or_else(|| panic!("{shown}"));
    let about = fault["about"].as_str().unwrap();
    let tasks = ["one task ", "2 tasks ", "3 tasks ", "4 tasks "];
    assert!(tasks.iter().any(|few| about.starts_with(few)), "{about}");

    // The command shows it again.
    let command = fault["command"].as_str().unwrap();
    let folder = place.path().join("hunt").display().to_string();
    let command = command.replace("FOLDER", &folder).replace('\'', "");
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    // The only word with blanks is the last one, the requirement.
    let (words, required) = match words.iter().position(|word| *word == "--require") {
        Some(at) => (words[..at].to_vec(), Some(words[at + 1..].join(" "))),
        None => (words, None),
    };
    let required = required.iter().flat_map(|text| ["--require", text]);
    let again: Vec<&str> = words.into_iter().chain(required).collect();
    assert_eq!(fairground(&again).code, Some(1), "{again:?}");

    // The mended scheduler begins with the former findings, and so does the mistake when it is back.
    let mended = forgetful().replace("p->nr_cpus_allowed == 1", "p->nr_cpus_allowed == 0");
    fs::write(&source, mended).unwrap();
    let after = hunt(&place, "hunt", &["--hunt", "32"]);
    assert!(after.stderr.contains("began anew, with the cases of that one"));
    assert!(!after.stdout.contains(told), "{}", after.stdout);
    fs::write(&source, forgetful()).unwrap();
    let again = hunt(&place, "hunt", &["--hunt", "32"]);
    assert!(again.stdout.contains(told), "{}", again.stdout);
}

#[test]
fn a_hunt_is_the_same_on_any_number_of_threads_and_goes_on_as_if_it_had_not_ended() {
    let place = place(&forgetful());
    let at_once = hunt(&place, "at-once", &["--hunt", "64", "--threads", "1"]);
    let first = hunt(&place, "parts", &["--hunt", "20", "--threads", "3"]);
    assert!(first.stdout.contains("in 32 runs of a hunt"), "{}", first.stdout);
    let then = hunt(&place, "parts", &["--hunt", "64", "--threads", "2"]);
    assert_eq!(then.stderr, "");
    assert_eq!(then.stdout, at_once.stdout);
    assert_eq!(files(&place, "parts"), files(&place, "at-once"));
}

#[test]
fn what_is_no_budget_or_no_state_is_refused() {
    let ended = fairground(&["check", "cfs", "--hunt", "soon"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("or a number of runs, such as 10000"), "{}", ended.stderr);
    let ended = fairground(&["check", "cfs", "--seed", "3"]);
    assert!(ended.stderr.contains("--hunt"), "{}", ended.stderr);

    let place = place(&forgetful());
    let folder = place.path().join("hunt/mine");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("hunt.json"), "{}").unwrap();
    let ended = hunt(&place, "hunt", &["--hunt", "32"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("hunt.json: it is not the state of a hunt"), "{}", ended.stderr);
}

/// The kernel chooses the CPU of a real-time task, though another one is idle.
#[test]
fn a_task_whose_only_cpu_a_real_time_task_has_is_no_fault_of_the_scheduler() {
    let place = place(&fs::read_to_string(folder().join("schedulers/sound.bpf.c")).unwrap());
    let case = place.path().join("case.json").display().to_string();
    let workload = r#"{"tasks": {
        "rt": {"policy": "SCHED_FIFO", "priority": 50, "loop": -1, "run": 1000},
        "bound": {"cpus": [0], "loop": -1, "run": 1000}
    }}"#;
    fs::write(&case, workload).unwrap();
    let source = place.path().join("mine.bpf.c").display().to_string();
    let starved = fairground(&["compare", &case, "-s", &source, "-m", "2", "-d", "4s"]);
    assert!(starved.stderr.contains("behind real-time tasks"), "{}", starved.stderr);
    let ended = hunt(&place, "hunt", &["--hunt", "32", "--from", &case, "-m", "2"]);
    let told = "has only CPUs that real-time tasks have";
    assert!(!ended.stdout.contains(told), "{}", ended.stdout);
}

#[test]
fn a_debug_dump_becomes_a_workload_from_which_a_hunt_begins() {
    let place = place(&forgetful());
    let path = |name: &str| place.path().join(name).display().to_string();
    let stall = r#"{"tasks": {
        "lost": {"policy": "SCHED_BATCH", "cpus": [1], "loop": -1, "run": 1000000},
        "rt": {"policy": "SCHED_FIFO", "priority": 50, "cpus": [2], "loop": -1, "run": 1000000},
        "hog": {"instance": 3, "priority": 5, "loop": -1, "run": 1000000}
    }}"#;
    fs::write(path("stall.json"), stall).unwrap();
    let ended =
        fairground(&["compare", &path("stall.json"), "-s", &path("mine.bpf.c"), "-d", "50s"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    fs::write(path("log.txt"), &ended.stderr).unwrap();
    let case = path("case.json");
    let ended = fairground(&["import", &path("log.txt"), "-o", &case]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{}", ended.stderr);
    for told in [
        "of which 1 waited, on 4 CPUs; the kernel says: runnable task stall",
        "\n  lost waited 45000 ms",
        "on CPU 1, in no dispatch queue",
        &format!("--from {case} -m 4"),
    ] {
        assert!(ended.stderr.contains(told), "{told}: {}", ended.stderr);
    }
    // The policy is not in a dump, so it is the tasks' companions that a hunt begins with.
    let text = fs::read_to_string(&case).unwrap();
    let workload: serde_json::Value = serde_json::from_str(&text).unwrap();
    let tasks = workload["tasks"].as_object().unwrap();
    assert_eq!(tasks.len(), 5, "{text}");
    let first = tasks.iter().next().unwrap();
    assert!(first.0.starts_with("lost-"), "{text}");
    assert_eq!(first.1["cpus"], serde_json::json!([1]), "{text}");
    let hogs = tasks.iter().filter(|(name, _)| name.starts_with("hog"));
    assert!(hogs.clone().all(|(_, hog)| hog["priority"] == 5), "{text}");

    let ended = hunt(&place, "hunt", &["--hunt", "32", "--from", &case, "-m", "4"]);
    assert!(ended.stdout.contains("32 runs of a hunt"), "{}", ended.stderr);
    let kept = files(&place, "hunt").into_iter().find(|(name, _)| name == "hunt.json");
    assert!(kept.unwrap().1.contains("lost-"));
}
