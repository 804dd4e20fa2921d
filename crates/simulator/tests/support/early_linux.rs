//! The parts that the tests of Linux 1.2, 2.2 and 2.4 share: hogs of some nice values, the ticks that a task has left, tasks bound to a CPU.

use fairground_simulator::Outcome;

use super::{History, MS, Run, SECOND, assert_near, outcome_storage, run, statistic};

/// One task that never sleeps for each nice value, created in this order: hog0, hog1 and so on.
pub fn hogs(nices: &[i32]) -> String {
    let task = |(number, nice)| format!(r#""hog{number}": {{ "priority": {nice}, "run": 1000 }}"#);
    let tasks: Vec<String> = nices.iter().enumerate().map(task).collect();
    format!(r#"{{ "tasks": {{ {} }} }}"#, tasks.join(", "))
}

/// The hogs' history after some seconds on one CPU, under the scheduler `id`.
pub fn run_hogs(id: &str, nices: &[i32], seconds: u64) -> History {
    run(id, "1", &hogs(nices), seconds, &[]).0
}

/// Asserts that all complete runs of a task after the first second last `expected` milliseconds.
#[track_caller]
pub fn assert_runs(history: &History, task: &str, expected: u64, until: u64) {
    let runs = history.runs_of(task, SECOND, until);
    assert!(runs.len() > 10, "{task} ran {} times", runs.len());
    for run in runs {
        assert_near(run.milliseconds(), expected as f64, 10.0, task);
    }
}

/// Ticks that a task has left at the end, as it last paid: the first member of the scheduler's record of it.
#[track_caller]
pub fn ticks_left(outcome: &Outcome, task: &str) -> i32 {
    let bytes = outcome_storage(outcome, task, "task_ctx_map");
    i32::from_ne_bytes(bytes[..4].try_into().unwrap())
}

/// The first run of a task that begins at or after `from`.
#[track_caller]
pub fn first_run<'h>(history: &'h History, task: &str, from: u64) -> &'h Run {
    let found = history
        .runs
        .iter()
        .find(|run| run.task.starts_with(task) && run.start >= from && run.length() > MS);
    found.unwrap_or_else(|| panic!("{task} does not run after {} ms", from / MS))
}

/// A task bound to one CPU that loses every comparison there is rescued after its patience of 2 s.
#[track_caller]
pub fn assert_weak_bound_task_is_rescued(id: &str) {
    // The strong task is refilled before it has used up its quantum, and has more ticks than the other at any time.
    let json = r#"{ "tasks": {
        "strong": { "cpus": [0], "priority": -20, "run": 1000 },
        "weak": { "cpus": [0], "priority": 19, "run": 1000 },
        "refills": { "cpus": [1], "priority": 19, "run": 1000 } } }"#;
    let (history, outcome) = run(id, "2", json, 60, &[("starvation_limit", "2000ms")]);
    assert!(statistic(id, &outcome, "rescues") > 10);
    assert_waits_below(&history, "weak", 3100 * MS);
}

/// Two tasks bound to one CPU, of which the weak task on the other one has the first refilled every 20 ms, wait no longer than
/// `longest` with a patience of 2 s. Returns that run.
#[track_caller]
pub fn assert_bound_tasks_wait_below(id: &str, longest: u64) -> History {
    const BOUND: &str = r#"{ "tasks": {
        "first": { "cpus": [0], "run": 1000 },
        "second": { "cpus": [0], "run": 1000 },
        "weak": { "cpus": [1], "priority": 19, "run": 1000 } } }"#;
    let (history, _) = run(id, "2", BOUND, 60, &[("starvation_limit", "2000ms")]);
    for task in ["first", "second"] {
        assert_waits_below(&history, task, longest);
    }
    // With the default, too, the watchdog has nothing to complain about; nor with several that wait.
    run(id, "2", BOUND, 60, &[]);
    let more = BOUND.replace("\"first\": {", "\"first\": { \"instance\": 6,");
    run(id, "2", &more, 60, &[]);
    history
}

#[track_caller]
fn assert_waits_below(history: &History, task: &str, longest: u64) {
    for pair in history.runs_of(task, 0, 60 * SECOND).windows(2) {
        assert!(pair[1].start - pair[0].end < longest, "{pair:?}");
    }
}

/// How often another process gets the CPU in 36 s, of two tasks each of `process` and of another one, that always run and were created
/// in turns.
fn changes_of_process(id: &str, process: &str, settings: &[(&str, &str)]) -> usize {
    let hog = |name: &str, process: &str| {
        format!(r#""{name}": {{ "run": 1000, "fairground": {{ "process": "{process}" }} }}"#)
    };
    let tasks = [hog("a0", process), hog("b0", "b"), hog("a1", process), hog("b1", "b")];
    let json = format!(r#"{{ "tasks": {{ {} }} }}"#, tasks.join(", "));
    let (history, _) = run(id, "1", &json, 40, settings);
    let mut runs: Vec<_> = history.runs.iter().filter(|run| run.start > 4 * SECOND).collect();
    runs.sort_by_key(|run| run.start);
    let changes = runs.windows(2).filter(|pair| pair[0].task[..1] != pair[1].task[..1]);
    changes.count()
}

/// Of tasks with equal counters, the one whose address space is loaded comes before one that is earlier on the list.
#[track_caller]
pub fn assert_the_loaded_address_space_is_preferred(id: &str) {
    let without = changes_of_process(id, "a", &[("mm_bonus", "0")]);
    assert!(without > 100, "{without}");
    let with = changes_of_process(id, "a", &[]);
    assert!(
        (without / 8..=without / 2 + 2).contains(&with),
        "{with} changes of the process, {without} without the bonus"
    );
    // In one process it is the same for all.
    assert_eq!(changes_of_process(id, "b", &[]), without);
}

/// The CPU that takes a task of this nice value at 1 s, which has run on CPU `home` first.
#[track_caller]
pub fn cpu_of_the_woken(id: &str, machine: &str, nice: i32, home: u32, others: &str) -> u32 {
    let json = format!(
        r#"{{ "tasks": {{ {others},
            "woken": {{ "priority": {nice}, "phases": {{
                "home": {{ "cpus": [{home}], "run": 1, "loop": 1 }},
                "rest": {{ "cpus": [0, 1, 2, 3], "loop": 1, "sleep": 1000000 }},
                "work": {{ "cpus": [0, 1, 2, 3], "loop": -1, "run": 1000 }} }} }} }} }}"#
    );
    let (history, _) = run(id, machine, &json, 2, &[]);
    let woken = history.runs.iter().filter(|run| run.task == "woken" && run.start >= SECOND);
    woken.min_by_key(|run| run.start).unwrap().cpu
}

/// A task that always runs on one CPU, once the others have found theirs.
pub fn hog_on(cpu: u32, nice: i32) -> String {
    format!(
        r#""hog{cpu}": {{ "priority": {nice}, "cpus": [{cpu}], "delay": 100000, "run": 1000 }}"#
    )
}

/// One that runs on a CPU just before 1 s.
pub fn late_on(cpu: u32) -> String {
    format!(
        r#""late{cpu}": {{ "cpus": [{cpu}], "phases": {{
            "rest": {{ "sleep": 950000, "loop": 1 }},
            "work": {{ "run": 1000, "loop": 1 }},
            "end": {{ "sleep": 100000000, "loop": -1 }} }} }}"#
    )
}

/// Asserts that a weak task that wakes up while a hog runs on the waking CPU and its own last one is idle goes there, and that no other
/// CPU has to look for it.
#[track_caller]
pub fn assert_only_the_idle_last_cpu_looks(id: &str, settings: &[(&str, &str)]) {
    let json = r#"{ "tasks": {
            "waker": { "cpus": [0], "run": 3000, "sem_post": "s" },
            "woken": { "priority": 19, "phases": {
                "home": { "cpus": [1], "run": 1, "loop": 1 },
                "work": { "cpus": [0, 1, 2, 3], "loop": -1, "sem_wait": "s", "run": 1000 } } } } }"#;
    let (history, _) = run(id, "4", json, 5, settings);
    let woken = history.runs_of("woken", SECOND, 5 * SECOND);
    assert!(woken.len() > 1000 && woken.iter().all(|run| run.cpu == 1));
    let passes = history.passes.iter();
    let others = passes.filter(|(time, cpu)| *time > SECOND && *cpu > 1).count();
    assert_eq!(others, 0, "passes of CPUs that have nothing to run");
}

/// Before the first tick three tasks that yield have as much left, and take turns.
#[track_caller]
pub fn assert_yielders_take_turns(id: &str) {
    let json = r#"{ "tasks": { "yielder": { "instance": 3, "run": 1000, "yield": "" } } }"#;
    let (history, _) = run(id, "1", json, 5, &[]);
    let runs = history.runs.iter().filter(|run| run.end < 10 * MS);
    let names: Vec<&str> = runs.map(|run| run.task.as_str()).collect();
    assert!(names.len() >= 8, "{names:?}");
    for three in names.windows(3) {
        assert!(three[0] != three[1] && three[0] != three[2], "{names:?}");
    }
}
