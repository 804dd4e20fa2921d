//! The real-time class: which CPU a task wakes on, which tasks are pushed away and which are pulled, and whose turn it is among equals. The expected
//! times are those that `rt.c` and `cpupri.c` of Linux 7.3 give when scheduling costs nothing.

mod common;
mod support;

use common::{free, scheduler};
use fairground_simulator::simulate;
use support::{History, MS};

const US: u64 = 1000;

/// The history of a workload's tasks on `machine`, under the kernel's defaults.
fn play(machine: &str, tasks: &str) -> History {
    let text = format!(r#"{{ "tasks": {{ {tasks} }}, "global": {{ "duration": 2 }} }}"#);
    let mut history = History::default();
    let outcome = simulate(&scheduler("bare", &[]), &free(machine, &text), vec![&mut history]);
    let outcome = outcome.unwrap();
    assert_eq!(outcome.failure, None);
    assert!(!outcome.exit.kind.is_error(), "{}", outcome.exit.message);
    history
}

/// The runs of a task: CPU, start and end in microseconds; without those that took no time, in which it went to sleep.
fn runs(history: &History, task: &str) -> Vec<(u32, u64, u64)> {
    let runs = history.runs.iter();
    let runs = runs.filter(|run| run.task == task && run.length() > 0);
    runs.map(|run| (run.cpu, run.start / US, run.end / US)).collect()
}

fn migrations(history: &History, task: &str) -> usize {
    history.migrations.iter().filter(|(_, name)| name == task).count()
}

/// A free task that begins on CPU 0 and sleeps there until `wakes`, and then runs for `work`; all in microseconds.
fn sleeper(name: &str, priority: u32, wakes: u64, work: u64) -> String {
    format!(
        r#""{name}": {{ "policy": "SCHED_FIFO", "priority": {priority}, "delay": {wakes}, "run": {work}, "loop": 1 }}"#
    )
}

/// The same for a task that may only use one CPU.
fn pinned(name: &str, cpu: u32, priority: u32, wakes: u64, work: u64) -> String {
    format!(
        r#""{name}": {{ "policy": "SCHED_FIFO", "priority": {priority}, "cpus": [{cpu}], "delay": {wakes}, "run": {work}, "loop": 1 }}"#
    )
}

/// Hogs of sched_ext, each on its CPU.
fn hogs(cpus: &[u32]) -> String {
    let hog = |cpu| format!(r#""hog{cpu}": {{ "cpus": [{cpu}], "run": 1000000 }}"#);
    cpus.iter().map(hog).collect::<Vec<_>>().join(", ")
}

/// rt-app's threads are born as ordinary ones, which spreads them, and then become real-time ones. A task that may go elsewhere does not begin behind
/// bound ones, where a push would stop at the first of these.
#[test]
fn who_begins_beside_bound_tasks_has_a_cpu_of_its_own() {
    let history = play(
        "8",
        r#""bound": { "instance": 6, "policy": "SCHED_FIFO", "priority": 20, "cpus": [0, 1], "run": 50000, "sleep": 50000 },
           "free": { "instance": 2, "policy": "SCHED_FIFO", "priority": 20, "run": 2000, "sleep": 8000 }"#,
    );
    for free in ["free-0", "free-1"] {
        // Its sleep.
        assert_eq!(history.longest_wait(free, 0, 2000 * MS), 8 * MS);
    }
}

#[test]
fn more_tasks_than_cpus_begin_on_all_of_them() {
    let history = play(
        "8",
        r#""bound": { "instance": 2, "policy": "SCHED_FIFO", "priority": 9, "cpus": [0], "run": 100000, "loop": 1 },
           "free": { "instance": 22, "policy": "SCHED_FIFO", "priority": 9, "run": 100000, "loop": 1 }"#,
    );
    let end = history.runs.iter().map(|run| run.end).max();
    assert_eq!(end, Some(300 * MS));
}

#[test]
fn who_waits_behind_a_long_task_is_pushed_to_another_cpu() {
    let history = play(
        "2",
        r#""movable": { "policy": "SCHED_FIFO", "priority": 5, "run": 1000, "sleep": 9000 },
           "long": { "cpus": [0], "policy": "SCHED_FIFO", "priority": 10, "run": 400000, "sleep": 100000 }"#,
    );
    // Linux 7.3.4: 1.4 ms, and one change of CPU.
    let waits = history.longest_wait("movable", 0, 2000 * MS);
    assert!(waits < 10 * MS + 100 * US, "{waits}");
    assert_eq!(migrations(&history, "movable"), 1);
}

#[test]
fn of_three_on_two_cpus_only_the_lowest_priority_moves() {
    for others in ["", r#", "hogs": { "instance": 2, "run": 1000000 }"#] {
        let history = play(
            "2",
            &format!(
                r#""audio": {{ "policy": "SCHED_FIFO", "priority": 20, "run": 2000, "timer": {{ "ref": "a", "period": 10000 }} }},
                "video": {{ "policy": "SCHED_FIFO", "priority": 10, "delay": 400, "run": 6000, "timer": {{ "ref": "b", "period": 16000 }} }},
                "batch": {{ "policy": "SCHED_FIFO", "priority": 5, "delay": 800, "run": 9000, "timer": {{ "ref": "c", "period": 30000 }} }}
                {others}"#
            ),
        );
        // The highest one stays where it began, and keeps nobody waiting that may go. Linux 7.3.4: 0, 0 and 26 changes of CPU in 3 s.
        assert_eq!(migrations(&history, "audio"), 0, "{others}");
        assert!(migrations(&history, "video") <= 1, "{others}");
        assert!(migrations(&history, "batch") >= 2, "{others}");
        for (task, work) in [("audio", 2000), ("video", 6000)] {
            let whole = runs(&history, task);
            let whole = whole.iter().filter(|(_, from, to)| to - from == work);
            assert!(whole.count() > 100, "{task} is interrupted");
        }
    }
}

#[test]
fn a_wake_up_stays_if_no_cpu_does_less_important_work() {
    let history = play(
        "2",
        r#""x": { "policy": "SCHED_FIFO", "priority": 5, "run": 3000, "timer": { "ref": "a", "period": 10000 } },
           "y": { "policy": "SCHED_FIFO", "priority": 5, "delay": 400, "run": 3000, "timer": { "ref": "b", "period": 10000 } },
           "pin1": { "policy": "SCHED_FIFO", "priority": 10, "cpus": [1], "delay": 100, "run": 5000, "timer": { "ref": "c", "period": 10000 } }"#,
    );
    // Linux 7.3.4: 2.5 ms in the median, 3.1 at most.
    let starts = runs(&history, "y").into_iter().skip(1);
    let delays: Vec<u64> = starts.map(|(_, from, _)| (from - 400) % 10_000).collect();
    assert!(delays.len() > 150, "{delays:?}");
    assert!(delays.iter().all(|delay| (2500..=3100).contains(delay)), "{delays:?}");
}

#[test]
fn idle_cpus_and_those_of_ordinary_tasks_are_the_same_level() {
    // The next CPU in turn is 1, and it is taken although CPU 2 is idle.
    let tasks = [hogs(&[1]), pinned("first", 0, 10, 1000, 5000), sleeper("second", 5, 2000, 1000)];
    let history = play("3", &tasks.join(", "));
    assert_eq!(runs(&history, "second"), [(1, 2000, 3000)]);
}

#[test]
fn a_wake_up_preempts_where_it_slept_and_the_preempted_task_is_pushed() {
    let tasks = [
        hogs(&[1]),
        r#""low": { "policy": "SCHED_FIFO", "priority": 5, "loop": 1, "phases": {
            "home": { "cpus": [0], "sleep": 1000 }, "free": { "cpus": [0, 1], "run": 5000 } } }"#
            .to_owned(),
        sleeper("high", 10, 2000, 2000),
    ];
    let history = play("2", &tasks.join(", "));
    assert_eq!(runs(&history, "high"), [(0, 2000, 4000)]);
    assert_eq!(runs(&history, "low"), [(0, 1000, 2000), (1, 2000, 6000)]);
}

#[test]
fn who_may_not_move_is_not_moved() {
    let tasks = [pinned("low", 0, 5, 1000, 3000), pinned("high", 0, 10, 2000, 2000)];
    let history = play("2", &tasks.join(", "));
    assert_eq!(runs(&history, "low"), [(0, 1000, 2000), (0, 4000, 6000)]);
}

#[test]
fn a_cpu_whose_task_sleeps_pulls_the_highest_that_waits_elsewhere() {
    let tasks = [
        pinned("a", 0, 10, 1000, 9000),
        pinned("b", 1, 8, 1000, 2000),
        sleeper("low", 4, 1500, 1000),
        sleeper("high", 5, 1600, 1000),
        hogs(&[1]),
    ];
    let history = play("2", &tasks.join(", "));
    assert_eq!(runs(&history, "high"), [(1, 3000, 4000)]);
    assert_eq!(runs(&history, "low"), [(1, 4000, 5000)]);
}

#[test]
fn a_cpu_whose_task_falls_pulls_what_is_higher_now() {
    for (phase, back) in [
        (r#""policy": "SCHED_FIFO", "priority": 3"#, "lower priority"),
        (r#""policy": "SCHED_OTHER""#, "another class"),
    ] {
        let tasks = [
            pinned("a", 0, 10, 1000, 9000),
            format!(
                r#""b": {{ "policy": "SCHED_FIFO", "priority": 8, "cpus": [1], "delay": 1000, "loop": 1,
                    "phases": {{ "one": {{ "run": 2000 }}, "two": {{ {phase}, "run": 2000 }} }} }}"#
            ),
            sleeper("waits", 5, 1500, 1000),
        ];
        let history = play("2", &tasks.join(", "));
        assert_eq!(runs(&history, "waits"), [(1, 3000, 4000)], "{back}");
    }
}

#[test]
fn an_equal_that_cannot_move_runs_at_once_if_the_other_can() {
    for (free, expected) in [(true, 2000), (false, 6000)] {
        let other = match free {
            true => sleeper("other", 5, 1000, 5000),
            false => pinned("other", 0, 5, 1000, 5000),
        };
        let tasks = [other, pinned("bound", 0, 5, 2000, 1000)];
        let history = play("2", &tasks.join(", "));
        assert_eq!(runs(&history, "bound")[0].1, expected);
    }
    // Nor does an equal that can move itself: it goes elsewhere.
    let tasks = [sleeper("other", 5, 1000, 5000), sleeper("moves", 5, 2000, 1000)];
    let history = play("2", &tasks.join(", "));
    assert_eq!(runs(&history, "moves"), [(1, 2000, 3000)]);
    assert_eq!(runs(&history, "other"), [(0, 1000, 6000)]);
}

#[test]
fn a_preempted_task_comes_before_its_equals_and_one_that_yields_behind_them() {
    let tasks = [
        pinned("one", 0, 5, 1000, 3000),
        pinned("two", 0, 5, 1100, 1000),
        pinned("high", 0, 10, 2000, 1000),
    ];
    let history = play("1", &tasks.join(", "));
    assert_eq!(runs(&history, "one"), [(0, 1000, 2000), (0, 3000, 5000)]);
    let yields = r#""one": { "policy": "SCHED_FIFO", "priority": 5, "delay": 1000, "loop": 1,
        "phases": { "a": { "run": 1000, "yield": "" }, "b": { "run": 1000 } } }"#;
    let tasks = [yields.to_owned(), pinned("two", 0, 5, 1100, 1000)];
    let history = play("1", &tasks.join(", "));
    assert_eq!(runs(&history, "one"), [(0, 1000, 2000), (0, 3000, 4000)]);
}

#[test]
fn round_robin_changes_at_ticks_and_only_among_equals() {
    // The quantum of 100 ms is 25 ticks of 4 ms, counted while the task runs.
    let robin = |name: &str| {
        format!(
            r#""{name}": {{ "policy": "SCHED_RR", "priority": 5, "delay": 1000, "run": 300000, "loop": 1 }}"#
        )
    };
    let text = format!(r#"{{ "tasks": {{ {}, {} }} }}"#, robin("one"), robin("two"));
    let mut options = free("1", &text);
    options.hz = 250;
    let mut history = History::default();
    simulate(&scheduler("bare", &[]), &options, vec![&mut history]).unwrap();
    let first: Vec<_> = runs(&history, "one").into_iter().take(2).collect();
    assert_eq!(first, [(0, 1000, 100_000), (0, 200_000, 300_000)]);
    let tasks = [robin("one"), pinned("low", 0, 3, 1000, 1000)];
    let history = play("1", &tasks.join(", "));
    assert_eq!(runs(&history, "one"), [(0, 1000, 301_000)]);
}

#[test]
fn on_unequal_cpus_a_real_time_task_looks_for_a_large_one() {
    let machine = "3 capacity:1x512,1x512,1x1024";
    let tasks = [hogs(&[2]), sleeper("task", 5, 1000, 1000)];
    let history = play(machine, &tasks.join(", "));
    assert_eq!(runs(&history, "task"), [(2, 1000, 2000)]);
    // If the task there is more important, any other will do.
    let tasks = [pinned("high", 2, 9, 500, 5000), sleeper("task", 5, 1000, 1000)];
    let history = play(machine, &tasks.join(", "));
    assert_eq!(runs(&history, "task"), [(0, 1000, 3000)]);
}

#[test]
fn the_nearest_cpu_is_chosen() {
    // CPU 1 shares a core with CPU 0, CPUs 2 and 3 its cache, the others nothing.
    let machine = "l3:2 core:2 pu:2";
    let tasks = [
        pinned("a", 0, 10, 1000, 5000),
        sleeper("one", 5, 2000, 2000),
        sleeper("two", 5, 2100, 2000),
        sleeper("three", 5, 2200, 2000),
        sleeper("four", 5, 2300, 2000),
    ];
    let history = play(machine, &tasks.join(", "));
    let cpu = |task| runs(&history, task)[0].0;
    assert_eq!(cpu("one"), 1);
    let mut next = [cpu("two"), cpu("three")];
    next.sort_unstable();
    assert_eq!(next, [2, 3]);
    assert!(cpu("four") >= 4, "{}", cpu("four"));
}
