//! What the tests of Linux 1.2 and 2.2 share: hogs of some nice values, and the ticks that a task has left.

use fairground_simulator::Outcome;

use super::{History, MS, Run, SECOND, assert_near, run};

/// One task that never sleeps for each nice value, created in this order: hog0, hog1 and so on.
pub fn hogs(nices: &[i32]) -> String {
    let task = |(number, nice)| format!(r#""hog{number}": {{ "priority": {nice}, "run": 1000 }}"#);
    let tasks: Vec<String> = nices.iter().enumerate().map(task).collect();
    format!(
        r#"{{ "tasks": {{ {} }}, "global": {{ "duration": 60 }} }}"#,
        tasks.join(", ")
    )
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
        assert_near(run.length() as f64 / MS as f64, expected as f64, 10.0, task);
    }
}

/// Ticks that a task has left at the end, as it last paid: the first member of the scheduler's record of it.
#[track_caller]
pub fn ticks_left(outcome: &Outcome, task: &str) -> i32 {
    let found = outcome.tasks.iter().find(|one| one.name == task).unwrap();
    let (_, bytes) = found
        .storage
        .iter()
        .find(|(map, _)| map == "task_data")
        .unwrap();
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
