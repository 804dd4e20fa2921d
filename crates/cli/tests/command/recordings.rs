//! Recordings: `show`, `compare` and `advise` take them, and report the faults of files that are none.

use std::fs;

use fairground_recording::{Description, Ending, Entry, EntryKind, Header, Roots, Writer};

use crate::support::{fairground, folder, json, refuse, succeed};

const BUILD: &str = "../../../workloads/build.recording";

#[test]
fn a_recording_says_what_is_in_it() {
    let text = succeed(&format!("show {BUILD}"));
    for part in [
        "build: make -s -j4",
        "As a workload",
        "exact",
        "cc1#1",
        "2123 wake-ups, 7190 context switches",
        "disks",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let said = ["leaves out the 11 other threads that were recorded, which used 0.066 s"];
    let text = refuse(&format!("show {BUILD} --rt-app"), 0, &said).stdout;
    let read =
        fairground_workload::Workload::parse("build.json", &text).expect("rt-app's language");
    assert!(read.tasks.iter().any(|task| task.name == "make"));
}

#[test]
fn a_recording_is_described_for_programs_too() {
    let shown = json(&format!("show {BUILD} --format json"));
    assert_eq!(shown["version"], 1);
    assert_eq!(shown["cpus"], 1);
    assert_eq!(shown["loss"]["reliable"], true);
    let tasks = shown["tasks"].as_array().unwrap();
    let times: Vec<u64> = tasks.iter().map(|task| task["cpu_time_ns"].as_u64().unwrap()).collect();
    assert!(times.is_sorted_by(|one, next| one >= next), "{times:?}");
    refuse("show o1 --tasks", 2, &["o1: --tasks is for recordings, and this is a scheduler"]);
}

/// A recording of forty tasks, the last of which is seen leaving a CPU that the one before it had, which so has not run.
fn with_a_gap() -> Vec<u8> {
    let header = Header { cpus: 1, ..Header::default() };
    let mut entries = Vec::new();
    let mut add = |time: u64, kind: EntryKind| Entry { time, cpu: 0, kind }.write(&mut entries);
    for task in 1..=40 {
        let description =
            Description { process: task, name: format!("task{task}"), ..Description::default() };
        add(0, EntryKind::Task { task, description });
    }
    let switch = |task: u32, next: u32| EntryKind::Switch {
        task,
        next,
        state: 1,
        preempted: false,
        disk: false,
        call: -1,
        first: 0,
        second: 0,
    };
    for task in 0..39 {
        add(1_000_000 * u64::from(task), switch(task, task + 1));
    }
    add(1_000_000_000, switch(40, 0));
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &header).unwrap();
    writer.add(&entries).unwrap();
    let (end, lost) = (1_000_000_000, 0);
    writer.finish(&Ending { end, lost }).unwrap();
    file
}

#[test]
fn gaps_are_never_silent() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("gap.recording");
    fs::write(&path, with_a_gap()).unwrap();
    let path = path.display();
    let (gap, warning) =
        ("1 gap in 40 switches, where an entry is missing", "DO NOT RELY on this recording");
    for line in [
        format!("show {path}"),
        format!("compare {path} -s bfs"),
        format!("advise {path} -s bfs --repeat 2"),
    ] {
        let text = succeed(&line).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(gap) && text.contains(warning), "{line}:\n{text}");
    }
    let shown = json(&format!("show {path} --format json"));
    assert_eq!(shown["loss"]["reliable"], false);
}

#[test]
fn all_tasks_are_listed_on_request() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("many.recording");
    fs::write(&path, with_a_gap()).unwrap();
    let path = path.display();
    let most = succeed(&format!("show {path}"));
    assert!(most.contains("and 9 more; --tasks lists all"), "{most}");
    let all = succeed(&format!("show {path} --tasks"));
    let listed = all.lines().filter(|line| line.starts_with("  task"));
    // And the line of heads.
    assert_eq!(listed.count(), 40, "{all}");
    assert!(!all.contains("more; "), "{all}");
}

#[test]
fn a_recording_is_a_workload_and_results_repeat_how_sure_it_is() {
    let result = json(&format!("compare {BUILD} -s o1,cfs -m 2 --format json"));
    for run in result["runs"].as_array().unwrap() {
        assert!(run["metrics"]["makespan_ns"].as_u64().unwrap() > 1_000_000);
        let notes = run["notes"].to_string();
        assert!(notes.contains(" s of CPU time ("), "{notes}");
    }
}

#[test]
fn the_page_of_an_advice_begins_with_who_is_first() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("advice.html");
    succeed(&format!("advise {BUILD} -s o1,cfs --repeat 2 --report {}", page.display()));
    let page = fs::read_to_string(page).unwrap();
    let place = |text: &str| {
        let found = page.find(text);
        found.unwrap_or_else(|| panic!("no {text} on the page"))
    };
    assert!(place("build on 1 CPU: Makespan.") < place("No clear winner: "));
    assert!(place("No clear winner: ") < place("Load nothing: "));
    assert!(place("Load nothing: ") < place("Ranking"));
    assert!(place("Ranking") < place("Equal places, and "));
}

#[test]
fn advice_is_a_ranking_beside_the_kernels_own() {
    let text = succeed(&format!("advise {BUILD} -s o1,cfs,bfs --repeat 3"));
    for part in [
        "on 1 CPU: Makespan",
        "beside the kernel's own",
        // All of them wait for the disk.
        "No clear winner: ",
        "3 replays under each scheduler, varied as another recording would be.",
        "Load nothing: no other is known to be better than the kernel's own",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    // A scheduler that differs only by chance is never recommended.
    assert!(!text.contains("fairground run"), "{text}");
    let failed = format!("advise {BUILD} -s schedulers/broken.bpf.c --repeat 2");
    let ended = fairground(&failed.split(' ').collect::<Vec<_>>());
    assert_eq!(ended.code, Some(1));
    for told in [
        "broken is not ranked: it failed before it began",
        "kernel alone has a result, so nothing was compared.",
        "Load nothing: nothing was compared with the kernel's own",
    ] {
        assert!(ended.stdout.contains(told), "{}", ended.stdout);
    }
    let text = succeed(&format!("advise {BUILD} -s o1,cfs --repeat 2 --for latency:make"));
    assert!(text.contains("Wakeup latency, 99 %, of make"), "{text}");
    // Each wakes up a hundred times at most.
    let text = succeed(&format!("advise {BUILD} -s o1,cfs --repeat 2 --for latency:cc1"));
    assert_eq!(text.matches("undecided: too few samples").count(), 2, "{text}");
    assert!(!text.contains("WORSE"), "{text}");
    refuse(
        &format!("advise {BUILD} -s o1 --repeat 2 --for latency:nobody"),
        2,
        &["no run has a task nobody, but ar-0, "],
    );
    refuse(
        &format!("advise {BUILD} --for speed"),
        2,
        &["not latency, latency:TASK, throughput or fairness"],
    );
}

/// A recording of a player that is woken every 20 ms beside four hogs on one CPU, in which the player waited for up to 12 ms.
fn player_beside_hogs() -> Vec<u8> {
    player_beside_hogs_of(Roots::All)
}

fn player_beside_hogs_of(roots: Roots) -> Vec<u8> {
    const MS: u64 = 1_000_000;
    let header = Header { cpus: 1, roots, command: vec!["play".to_owned()], ..Header::default() };
    let mut entries = Vec::new();
    let mut add = |time: u64, kind: EntryKind| Entry { time, cpu: 0, kind }.write(&mut entries);
    for (task, name) in [(1, "player"), (2, "hog"), (3, "hog"), (4, "hog"), (5, "hog")] {
        let description = Description {
            process: task,
            name: name.to_owned(),
            first_allowed: 1,
            allowed: 1,
            ..Description::default()
        };
        add(0, EntryKind::Task { task, description });
    }
    let switch = |task: u32, next: u32, state: u32| EntryKind::Switch {
        task,
        next,
        state,
        preempted: false,
        disk: false,
        call: 230,
        first: 1,
        second: 0,
    };
    add(0, switch(0, 1, 0));
    for turn in 0..100 {
        let begin = turn * 20 * MS;
        add(begin + 2 * MS, switch(1, 2, 1));
        for hog in 2..5 {
            add(begin + 4 * MS * u64::from(hog - 1) + 2 * MS, switch(hog, hog + 1, 0));
        }
        let (task, by) = (1, 5);
        let context = fairground_recording::Context::Timer;
        add(begin + 18 * MS, EntryKind::Waking { task, by, context });
        add(begin + 20 * MS, switch(5, 1, 0));
    }
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &header).unwrap();
    writer.add(&entries).unwrap();
    let (end, lost) = (2_000 * MS, 0);
    writer.finish(&Ending { end, lost }).unwrap();
    file
}

#[test]
fn what_a_scheduler_costs_stands_beside_what_it_gives() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("player.recording");
    fs::write(&path, player_beside_hogs()).unwrap();
    let line = format!("advise {} -s linux12,bfs,bsd4 --repeat 4 --for fairness", path.display());
    let text = succeed(&line);
    let advice = json(&format!("{line} --format json"));
    assert_eq!(advice["version"], 2);
    assert_eq!(advice["aim"]["measure"], "jain_index");
    assert_eq!(advice["replays"], 4);
    let ranking = advice["ranking"].as_array().unwrap();
    assert_eq!(ranking.len(), 4);
    for rank in ranking {
        let is_kernel = rank["scheduler"] == "kernel";
        assert_eq!(rank["difference"].is_null(), is_kernel, "{rank}");
    }
    // The same seeds under all: the replays differ from each other.
    assert!(
        ranking.iter().any(|rank| rank["summary"]["min"] != rank["summary"]["max"]),
        "{ranking:?}"
    );
    let recommended = &advice["recommended"];
    assert_eq!(recommended.is_null(), advice["command"].is_null());
    assert_eq!(text.contains("Load it: sudo fairground run"), !recommended.is_null(), "{text}");
}

/// The same, of the first hog alone: all else is surroundings.
#[test]
fn time_that_others_had_is_neither_idle_nor_wasted_nor_given_away() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("busy.recording");
    fs::write(&path, player_beside_hogs_of(Roots::Tasks(vec![2]))).unwrap();
    let path = path.display();
    let result = json(&format!("compare {path} -s eevdf,linux12 --seed 1 --format json"));
    for run in result["runs"].as_array().unwrap() {
        let time = &run["metrics"]["cpu_time"];
        let of = |part: &str| time[part].as_u64().unwrap();
        let parts = of("busy_ns") + of("overhead_ns") + of("others_ns") + of("idle_ns");
        assert_eq!(parts, of("available_ns"));
        assert!(of("others_ns") > of("available_ns") / 2, "{time}");
        assert!(of("others_ns") <= of("others_wanted_ns"), "{time}");
        assert!(of("idle_while_runnable_ns") <= of("idle_ns"), "{time}");
        assert!(of("idle_while_runnable_ns") < of("available_ns") / 100, "{time}");
    }
    let text = succeed(&format!("explain {path} -s eevdf --seed 1"));
    assert!(text.contains("other programs"), "{text}");
    assert!(!text.contains("was idle for"), "{text}");
    refuse(&format!("show {path} --rt-app"), 0, &["the file leaves out the 4 other threads"]);
    let text = succeed(&format!("advise {path} -s linux12,bfs,cfs,dwrr --repeat 3"));
    assert!(text.contains("others got"), "{text}");
    assert!(text.contains("Other programs had "), "{text}");
    assert_ne!(text.contains("No clear winner"), text.contains("Load it: "), "{text}");
    // What they lose is a price.
    let result = json(&format!("rank {path} -s linux12,bfs --repeat 3 --format json"));
    let ranking = &result["rankings"][0]["ranking"];
    let measures = ranking["measures"].as_array().unwrap();
    let place = measures.iter().position(|measure| measure == "others_served").unwrap();
    assert!(ranking["places"][1]["by_measure"][place].as_f64().unwrap() > 1.5, "{ranking}");
}

#[test]
fn advice_takes_schedulers_of_ones_own_with_settings() {
    let text = succeed(&format!(
        "advise {BUILD} -s cfs --set cfs.sched_latency=12ms --repeat 2 --for fairness"
    ));
    assert!(text.contains("cfs"), "{text}");
    refuse(
        &format!("advise {BUILD} -s cfs --set cfs.sched_latenzy=12ms --repeat 2"),
        2,
        &["sched_latenzy"],
    );
    refuse(
        &format!("advise {BUILD} -s cfs -I /nowhere"),
        2,
        &["-I /nowhere: there is no such folder"],
    );
}

#[test]
fn a_recording_replays_on_as_many_cpus_as_it_had() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("bound.recording");
    fs::write(&path, bound_to_the_last_cpu()).unwrap();
    let path = path.display();
    let cpus = |line: &str| -> Vec<u64> {
        let text = fairground(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(text.code, Some(0), "{}", text.stderr);
        let result: serde_json::Value = serde_json::from_str(&text.stdout).unwrap();
        let runs = result["runs"].as_array().unwrap().iter();
        runs.map(|run| run["metrics"]["cpus"].as_u64().unwrap()).collect()
    };
    assert_eq!(cpus(&format!("compare {BUILD} -s o1 --format json")), [1]);
    assert_eq!(cpus(&format!("compare {BUILD} -s o1 -m 2 --format json")), [2]);
    let mixed = format!("compare {BUILD} ../../../workloads/mix-two.json -s o1 -d 1s");
    assert_eq!(cpus(&format!("{mixed} --format json")), [1, 1]);
    let ended = fairground(&mixed.split(' ').collect::<Vec<_>>());
    let note =
        "all workloads run on the number of CPUs that was recorded, 1; --machine sets another";
    assert!(ended.stderr.contains(note), "{}", ended.stderr);
    refuse(
        &format!("compare {BUILD} {path} -s o1"),
        2,
        &[
            "the recordings are of machines with different numbers of CPUs; choose one for all with --machine",
        ],
    );
}

#[test]
fn seeds_of_a_replay_are_different_times_of_the_same_load() {
    let text = succeed(&format!("compare {BUILD} -s cfs --repeat 4 --format json"));
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    let spans: Vec<u64> = { result["runs"].as_array().unwrap().iter() }
        .map(|run| run["metrics"]["makespan_ns"].as_u64().unwrap())
        .collect();
    for (place, span) in spans.iter().enumerate() {
        assert!(!spans[..place].contains(span), "{spans:?}");
        assert!(span.abs_diff(spans[0]) < spans[0] / 20, "{spans:?}");
    }
    assert_eq!(
        text,
        succeed(&format!("compare {BUILD} -s cfs --repeat 4 --format json --threads 1"))
    );
}

#[test]
fn the_kernels_own_scheduler_is_ranked_too_without_what_callbacks_cost() {
    let text = succeed(&format!("advise {BUILD} -s kernel,linux12 --repeat 2"));
    for part in [
        "kernel: the kernel's own scheduler, for which eevdf of Linux ",
        "Load nothing: no other is known to be better than the kernel's own",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    // No sched_ext loads it, so it is there for releases that lack functions of its stand-in.
    succeed("compare mix-two -s kernel -m 2 -d 50ms --kernel 6.12");
    let scratch = tempfile::tempdir().unwrap();
    let dear = scratch.path().join("dear.toml");
    fs::write(&dear, "callback = 50000\nkfunc = 5000\nkilo_instructions = 50000\n").unwrap();
    let overheads = |cost: &str| -> Vec<u64> {
        let result = json(&format!(
            "compare ../../../workloads/wakeup-chain.json -s kernel,eevdf -m 1 -d 1s --format json --cost {cost}"
        ));
        let runs = result["runs"].as_array().unwrap().iter();
        runs.map(|run| run["metrics"]["overhead"]["total_ns"].as_u64().unwrap()).collect()
    };
    let (usual, dear) = (overheads("default"), overheads(dear.to_str().unwrap()));
    assert_eq!(usual[0], dear[0]);
    assert!(usual[0] < usual[1] && usual[1] < dear[1], "{usual:?} {dear:?}");
}

#[test]
fn what_is_no_recording_is_said_in_one_line() {
    let scratch = tempfile::tempdir().unwrap();
    let whole = fs::read(folder().join(BUILD)).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 0x55;
    let cases: [(&str, &[u8], &str); 3] = [
        ("cut.recording", &whole[..whole.len() / 2], "is cut off after"),
        ("damaged.recording", &damaged, "is damaged at byte"),
        ("foreign.recording", b"PERFILE2", "not a recording"),
    ];
    for (name, bytes, message) in cases {
        let path = scratch.path().join(name);
        fs::write(&path, bytes).unwrap();
        let path = path.to_str().unwrap();
        for command in ["advise", "compare", "show"] {
            if name.starts_with("foreign") && command != "advise" {
                continue;
            }
            let ended = fairground(&[command, path]);
            assert_eq!(ended.code, Some(2), "{command} {name}: {}", ended.stderr);
            assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
            assert!(ended.stderr.contains(message), "{}", ended.stderr);
            assert_eq!(ended.stdout, "");
        }
    }
}

/// Runs `fairground` with a pipe that holds these bytes in the place of FILE.
fn with_pipe(line: &str, bytes: Vec<u8>) -> crate::support::Ended {
    let scratch = tempfile::tempdir().unwrap();
    let pipe = scratch.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let writer = {
        let pipe = pipe.clone();
        // If a reader closes it before its end, the test tells of that, not the writer.
        std::thread::spawn(move || fs::write(pipe, bytes).is_ok())
    };
    let line = line.replace("FILE", pipe.to_str().unwrap());
    let ended = fairground(&line.split(' ').collect::<Vec<_>>());
    assert!(writer.join().unwrap(), "{line} has not read the pipe");
    ended
}

#[test]
fn recordings_and_workloads_come_through_pipes_too() {
    let recording = fs::read(folder().join(BUILD)).unwrap();
    let workload = fs::read(folder().join("../../../workloads/wakeup-chain.json")).unwrap();
    for (line, bytes) in [
        ("show FILE", &recording),
        ("show FILE --tasks", &recording),
        ("advise FILE -s o1,cfs --repeat 2", &recording),
        ("compare FILE -s o1", &recording),
        ("compare FILE -s o1 -d 100ms", &workload),
    ] {
        let ended = with_pipe(line, bytes.clone());
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{line}");
    }
}

#[test]
fn what_perf_has_recorded_is_imported() {
    let folder = tempfile::tempdir().unwrap();
    let (perf, recording) = (folder.path().join("perf.data"), folder.path().join("x"));
    fs::write(&perf, perf_file()).unwrap();
    let (from, to) = (perf.display().to_string(), recording.display().to_string());
    let ended = fairground(&["import", &from, "-o", &to]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""));
    assert!(ended.stderr.starts_with("fairground: imported 1.298 s, "), "{}", ended.stderr);
    let text = succeed(&format!("show {to}"));
    assert!(text.contains("by perf sched record"), "{text}");
    let text = succeed(&format!("compare {to} -s bfs,cfs"));
    assert!(text.contains("imported: without system calls"), "{text}");
    refuse(
        &format!("import {BUILD} -o {to}"),
        2,
        &["build.recording: it is a recording of fairground already"],
    );
}

#[test]
fn a_text_is_imported_with_what_it_does_not_tell() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("trace.txt"), folder.path().join("x.recording"));
    let lines: String = (0..20)
        .map(|number| {
            let side = |prefix: &str, task: &str| {
                format!("{prefix}comm={task} {prefix}pid={} {prefix}prio=120", 7 * usize::from(task == "app"))
            };
            let switch = |from: &str, to: &str| {
                format!("sched_switch: {} prev_state=S ==> {}", side("prev_", from), side("next_", to))
            };
            let (on, off) = (switch("idle", "app"), switch("app", "idle"));
            let waking = format!("sched_waking: {}", side("", "app"));
            format!("idle 0 [000] 1.{number:02}1: {waking}\nidle 0 [000] 1.{number:02}2: {on}\napp 7 [000] 1.{number:02}4: {off}\n")
        })
        .collect();
    fs::write(&from, lines).unwrap();
    let (from, to) = (from.display(), to.display());
    let line = format!("import {from} -o {to}");
    refuse(&line, 0, &["known by their names", "the text has no flags"]);
    refuse(&format!("{line} --pid 4242"), 2, &["no task of the chosen process"]);
    let text = succeed(&format!("show {to}"));
    assert!(text.contains("on 1 CPU, by text of ftrace"), "{text}");
    assert!(text.contains("Note: the text has no flags"), "{text}");
}

#[test]
fn an_import_that_fails_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let perf = folder.path().join("perf.data");
    let mut bytes = perf_file();
    fs::write(&perf, &bytes).unwrap();
    let perf = perf.display();
    refuse(&format!("import {perf} -o /proc/x"), 1, &["cannot write /proc/x: "]);
    // An event without an end.
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4096].fill(0xff);
    fs::write(folder.path().join("perf.data"), &bytes).unwrap();
    refuse(
        &format!("import {perf} -o {}/x", folder.path().display()),
        2,
        &["perf.data: cannot be imported: "],
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// A file of `perf sched record`.
fn perf_file() -> Vec<u8> {
    let compressed = folder().join("../../../lib/recording/tests/recordings/sched.data.zst");
    zstd::decode_all(fs::read(compressed).unwrap().as_slice()).unwrap()
}

/// A recording of a machine with four CPUs, on which a task ran that may use the last of them alone.
fn bound_to_the_last_cpu() -> Vec<u8> {
    let header = Header { cpus: 4, ..Header::default() };
    let switch = |task: u32, next: u32, state: u32| EntryKind::Switch {
        task,
        next,
        state,
        preempted: false,
        disk: false,
        call: -1,
        first: 0,
        second: 0,
    };
    let description = Description {
        process: 7,
        name: "bound".to_owned(),
        first_allowed: 1 << 3,
        allowed: 1,
        ..Description::default()
    };
    let kinds = [EntryKind::Task { task: 7, description }, switch(0, 7, 0), switch(7, 0, 0x80)];
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &header).unwrap();
    for (kind, time) in kinds.into_iter().zip([0, 0, 5_000_000]) {
        let mut bytes = Vec::new();
        Entry { time, cpu: 3, kind }.write(&mut bytes);
        writer.add(&bytes).unwrap();
    }
    let ending = Ending { end: 5_000_000, lost: 0 };
    writer.finish(&ending).unwrap();
    file
}

#[test]
fn a_machine_without_the_cpus_of_a_task_is_refused_in_one_line() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("bound.recording");
    fs::write(&path, bound_to_the_last_cpu()).unwrap();
    let path = path.display();
    succeed(&format!("compare {path} -s bfs -m 4"));
    for line in
        [format!("compare {path} -s bfs -m 2"), format!("advise {path} -s bfs,cfs --repeat 2 -m 2")]
    {
        refuse(&line, 2, &["bound may only use CPUs [3], and the machine has CPUs 0 to 1"]);
    }
}

#[test]
fn what_people_paste_is_read_or_named() {
    let folder = tempfile::tempdir().unwrap();
    let import = |text: &[u8], code: i32, messages: &[&str]| {
        let (from, to) = (folder.path().join("pasted.txt"), folder.path().join("out"));
        fs::write(&from, text).unwrap();
        let line = format!("import {} -o {}", from.display(), to.display());
        refuse(&line, code, messages);
    };
    let journal = "Mar 02 10:11:12 desk scx_lavd[8]: ";
    let dump = "CPU states\n----------\nCPU 0   : nr_run=1 flags=0x1\n  R render[2001] -31250ms\n      cpus=1\n";
    let pasted: String = dump.lines().map(|line| format!("{journal}{line}\n")).collect();
    import(pasted.as_bytes(), 0, &["1 task, of which 1 waited", "render waited 31250 ms on CPU 0"]);
    import(b"\x17\x08\x44tracing6\0", 2, &["trace-cmd report trace.dat"]);
    import(b"Architecture: x86_64\nCPU(s): 4\n", 2, &["text of lscpu"]);
    import(b"sched_ext: BPF scheduler \"a\" disabled (runnable task stall)\n", 2, &["DEBUG DUMP"]);
    import(b"{ \"tasks\": {} }", 2, &["an rt-app file"]);
    import(b" a-1 [000] 1.0: sched_waking: comm=b pid=2 prio=120\n", 2, &["no sched_switch"]);
    // One byte of a name is no text.
    let damaged = [
        dump.as_bytes(),
        b"  R \xff[7] -1ms\nCPU 1 : nr_run=1\n  curr=dl[9] class=dl_sched_class\n",
    ]
    .concat();
    import(&damaged, 0, &["2 tasks, of which 2 waited", "1 CPU had a task of another class"]);
    import(b"nothing of all this", 2, &["not a file of `perf record`"]);
    import(b"\n", 2, &["it is empty"]);
    import(b"CPU 0 : nr_run=1\nCPU states\n", 2, &["lines as the kernel writes them"]);
    let twice: String = [dump, dump].concat();
    import(twice.as_bytes(), 0, &["1 task, of which 1 waited", "1 other dump in the same file"]);
    fs::write(folder.path().join("out"), dump).unwrap();
    let out = folder.path().join("out").display().to_string();
    refuse(&format!("import {out} -o {out}"), 2, &["it would replace what it is made from"]);
    refuse("import . -o x", 2, &["cannot read .: Is a directory", "name a file, not a folder"]);
    let mut piped = std::process::Command::new("sh");
    let line = format!(
        "printf '%s\\n' \"$TEXT\" | {} import /dev/stdin -o {out}.json",
        env!("CARGO_BIN_EXE_fairground")
    );
    let ended = crate::support::end_of(piped.args(["-c", &line]).env("TEXT", pasted));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let imported = fs::read_to_string(format!("{out}.json")).unwrap();
    assert!(imported.contains("render-2001"), "{imported}");
    assert_eq!(fs::read_to_string(&out).unwrap(), dump);
    refuse(&format!("compare hogs-three -s bfs -m {out}"), 2, &["has to end in .xml"]);
}
