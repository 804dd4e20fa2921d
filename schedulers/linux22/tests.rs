//! Linux 2.2 shows the features by which it is recognised: quanta of 210 ms, latest first, real time by goodness, fork that splits, wake-ups that
//! look for idle CPUs.

use crate::support::early_linux::{
    assert_bound_tasks_wait_below, assert_only_the_idle_last_cpu_looks, assert_runs,
    assert_the_loaded_address_space_is_preferred, assert_weak_bound_task_is_rescued,
    assert_yielders_take_turns, cpu_of_the_woken, first_run, hog_on, hogs, run_hogs, ticks_left,
};
use crate::support::{
    History, MS, Run, SECOND, assert_near, assert_the_displaced_move, gaps, run, statistic,
};

const ID: &str = "linux22";

#[test]
fn two_hogs_alternate_every_210_ms() {
    let history = run_hogs(ID, &[0, 0], 32);
    for task in ["hog0", "hog1"] {
        assert_runs(&history, task, 210, 32 * SECOND);
        let share = history.percent(task, 2 * SECOND, 32 * SECOND);
        assert_near(share, 50.0, 0.8, task);
    }
}

#[test]
fn nice_19_gets_8_7_percent_in_runs_of_20_ms() {
    let history = run_hogs(ID, &[0, 19], 32);
    assert_runs(&history, "hog0", 210, 32 * SECOND);
    for run in history.runs_of("hog1", SECOND, 32 * SECOND) {
        assert_eq!(run.length(), 20 * MS, "{run:?}");
    }
    let share = history.percent("hog0", 2 * SECOND, 32 * SECOND);
    assert_near(share, 91.3, 0.7, "nice 0");
}

#[test]
fn the_strongest_nice_runs_410_ms_and_nice_10_runs_110() {
    assert_runs(&run_hogs(ID, &[-20, 0], 32), "hog0", 410, 32 * SECOND);
    assert_runs(&run_hogs(ID, &[0, 10], 32), "hog1", 110, 32 * SECOND);
}

#[test]
fn nice_pairs_get_the_shares_of_their_quanta() {
    for (pair, expected) in [
        ([0, 1], 51.2),
        ([0, 5], 56.8),
        ([0, 10], 65.6),
        ([0, 19], 91.3),
        ([-10, 0], 59.6),
        ([-1, 0], 51.2),
        ([18, 19], 60.0),
    ] {
        let history = run_hogs(ID, &pair, 62);
        let share = history.percent("hog0", 2 * SECOND, 62 * SECOND);
        assert_near(share, expected, 0.6, &format!("{pair:?}"));
    }
}

#[test]
fn the_longest_wait_is_a_quantum_of_each_of_the_others() {
    let history = run_hogs(ID, &[0; 10], 32);
    for task in 0..10 {
        let runs = history.runs_of(&format!("hog{task}"), 3 * SECOND, 32 * SECOND);
        let waits = gaps(&runs);
        let longest = waits.max().unwrap() / MS;
        assert_near(longest as f64, 1890.0, 100.0, "longest wait");
    }
}

#[test]
fn a_new_epoch_begins_with_the_latest_task_and_goes_on_with_the_strongest() {
    // hog2 came last and is in front. Were there a second search after the refill, nice -5 would run before nice 0.
    let history = run_hogs(ID, &[-5, 19, 0], 22);
    let order: Vec<&str> = history
        .runs
        .iter()
        .filter(|run| run.start > SECOND)
        .map(|run| run.task.as_str())
        .skip_while(|task| *task != "hog1")
        .collect();
    assert!(order.len() > 100);
    for turn in order.chunks_exact(3) {
        assert_eq!(turn, ["hog1", "hog2", "hog0"]);
    }
}

#[test]
fn a_change_of_policy_moves_a_task_to_the_front() {
    // hog2 is in front and begins every epoch, until hog0 becomes a batch task.
    let json = r#"{ "tasks": {
        "hog0": { "phases": {
            "before": { "run": 3000000, "loop": 1 },
            "after": { "policy": "SCHED_BATCH", "run": 1000, "loop": -1 } } },
        "hog1": { "priority": 19, "run": 1000 },
        "hog2": { "priority": -5, "run": 1000 } } }"#;
    let (history, _) = run(ID, "1", json, 22, &[]);
    let order = |from, to| -> Vec<&str> {
        let runs = history.runs.iter();
        runs.filter(|run| run.length() > 0 && run.start > from && run.end < to)
            .map(|run| run.task.as_str())
            .skip_while(|task| *task != "hog1")
            .collect()
    };
    let (before, after) = (order(SECOND, 5 * SECOND), order(10 * SECOND, 22 * SECOND));
    assert!(before.len() > 15 && after.len() > 50);
    for turn in before.chunks_exact(3) {
        assert_eq!(turn, ["hog1", "hog2", "hog0"]);
    }
    for turn in after.chunks_exact(3) {
        assert_eq!(turn, ["hog1", "hog0", "hog2"]);
    }
}

#[test]
fn ten_yields_of_a_lone_task_give_sleepers_39_ticks() {
    let json = r#"{ "tasks": {
        "yielder": { "run": 1000, "yield": "", "loop": 10 },
        "sleeper": { "instance": 3, "sleep": 1000000, "run": 5000000, "loop": 1 } } }"#;
    let (history, outcome) = run(ID, "1", json, 2, &[]);
    assert_eq!(statistic(ID, &outcome, "yields"), 10);
    assert_eq!(statistic(ID, &outcome, "recalculations"), 10);
    let sleeping = r#"{ "tasks": {
        "yielder": { "run": 1000, "yield": "", "loop": 10 },
        "sleeper": { "instance": 3, "sleep": 10000000 } } }"#;
    let (_, after) = run(ID, "1", sleeping, 1, &[]);
    for task in ["sleeper-0", "sleeper-1", "sleeper-2"] {
        assert_eq!(ticks_left(&after, task), 39);
    }
    // 40 ticks each, one after the other: the third is cut off by the end.
    let full = history.runs.iter().filter(|run| run.start >= SECOND && run.length() == 400 * MS);
    assert_eq!(full.count(), 2);
}

#[test]
fn yield_hands_over_to_a_waiting_task() {
    let json = r#"{ "tasks": {
        "hog": { "run": 1000 },
        "yielder": { "run": 1000, "yield": "" } } }"#;
    let (history, outcome) = run(ID, "1", json, 10, &[]);
    for burst in history.runs_of("yielder", SECOND, 10 * SECOND) {
        assert!(burst.length() <= 2 * MS, "{burst:?}");
    }
    assert!(statistic(ID, &outcome, "yields") > 30);
    assert!(history.percent("hog", SECOND, 10 * SECOND) > 95.0);
}

// An epoch of a single hog begins every 210 ms, so at 1050 ms.

/// Runs of the parent and the child after a fork at `run_ms` milliseconds.
fn fork_at(run_ms: u64) -> (Run, Run) {
    let json = format!(
        r#"{{ "tasks": {{
            "parent": {{ "phases": {{
                "alone": {{ "run": {}, "fork": "child", "loop": 1 }},
                "then": {{ "run": 1000, "loop": -1 }} }} }},
            "child": {{ "instance": 0, "run": 1000 }} }} }}"#,
        run_ms * 1000
    );
    let (history, _) = run(ID, "1", &json, 4, &[]);
    (first_run(&history, "parent", 0).clone(), first_run(&history, "child", 0).clone())
}

#[test]
fn fork_splits_the_counter_and_loses_an_odd_tick() {
    // At 20 ticks both get 10, which last 11. The child is in front and goes on with the 20 of the new epoch.
    let (parent, child) = fork_at(1050 + 5);
    assert_eq!(parent.end, (1050 + 110) * MS, "{parent:?}");
    assert_eq!(child.length(), (110 + 210) * MS, "{child:?}");
    // At 15, 50 ms later, both get 7.
    let (parent, child) = fork_at(1050 + 55);
    assert_eq!(parent.end, (1050 + 50 + 80) * MS, "{parent:?}");
    assert_eq!(child.length(), (80 + 210) * MS, "{child:?}");
}

/// Two tasks with the attribute realtime; the second one wakes up at 1005 ms.
fn realtime(first: u32, second: u32, seconds: u64, policy: &str) -> History {
    let json = format!(
        r#"{{ "tasks": {{
            "a": {{ "run": 1000, "fairground": {{ "realtime": "global", "realtime_priority": {first} }} }},
            "b": {{ "phases": {{
                "asleep": {{ "sleep": 1005000, "loop": 1 }},
                "awake": {{ "run": 1000, "loop": -1 }} }},
                "fairground": {{ "realtime": "global", "realtime_priority": {second} }} }},
            "ordinary": {{ "priority": -20, "run": 1000 }} }} }}"#
    );
    run(ID, "1", &json, seconds, &[("realtime_policy", policy)]).0
}

#[test]
fn a_woken_fifo_task_of_equal_priority_preempts() {
    let history = realtime(50, 50, 3, "fifo");
    let start = first_run(&history, "b", 0).start;
    assert!(start <= 1015 * MS, "{start}");
    // And keeps the CPU: it is nearer the front.
    assert_near(history.percent("b", 2 * SECOND, 3 * SECOND), 100.0, 0.1, "b");
    assert_eq!(history.cpu_time("ordinary", SECOND, 3 * SECOND), 0);
    // One of lower priority does not.
    let history = realtime(50, 40, 3, "fifo");
    assert_eq!(history.cpu_time("b", 0, 3 * SECOND), 0);
}

#[test]
fn round_robin_tasks_alternate_every_210_ms() {
    let history = realtime(50, 50, 12, "rr");
    for task in ["a", "b"] {
        let runs = history.runs_of(task, 2 * SECOND, 12 * SECOND);
        assert!(runs.len() > 20, "{runs:?}");
        assert!(runs.iter().all(|run| run.length() == 210 * MS), "{runs:?}");
    }
    assert_eq!(history.cpu_time("ordinary", SECOND, 12 * SECOND), 0);
}

/// On CPU 0 a hog that wakes a task, which slept on CPU 1, after 825 ms: with nice -20, 5 ms into an epoch.
fn woken_on(other: &str, waker_nice: i32) -> String {
    format!(
        r#"{{ "tasks": {{
            "waker": {{ "cpus": [0], "priority": {waker_nice}, "phases": {{
                "before": {{ "run": 825000, "resume": "sleeper", "loop": 1 }},
                "after": {{ "run": 1000, "loop": -1 }} }} }},
            "sleeper": {{ "phases": {{
                "placed": {{ "cpus": [1], "run": 10, "loop": 1 }},
                "asleep": {{ "cpus": [0, 1], "suspend": "sleeper", "loop": 1 }},
                "awake": {{ "run": 500000, "loop": 1 }} }} }}
            {other} }} }}"#
    )
}

#[test]
fn a_woken_task_starts_at_once_on_its_idle_last_cpu() {
    let (history, outcome) = run(ID, "2", &woken_on("", -20), 4, &[]);
    let burst = first_run(&history, "sleeper", SECOND / 2);
    assert_eq!((burst.start, burst.cpu), (825 * MS, 1));
    assert_eq!(statistic(ID, &outcome, "preemptions"), 0);
    assert_near(history.percent("waker", 2 * SECOND, 4 * SECOND), 100.0, 0.1, "waker");
}

#[test]
fn running_tasks_of_other_cpus_are_never_displaced() {
    let other = r#", "weak": { "cpus": [1], "priority": 19, "run": 1000 }"#;
    let (history, outcome) = run(ID, "2", &woken_on(other, -20), 4, &[]);
    // The weak hog has a tick or none, the sleeper 20 and more. It gets the CPU when the hog's quantum is over.
    let burst = first_run(&history, "sleeper", SECOND / 2);
    assert!(burst.start > 825 * MS && burst.start.is_multiple_of(10 * MS), "{burst:?}");
    assert_eq!(burst.cpu, 1);
    assert_eq!(statistic(ID, &outcome, "preemptions"), 0);
}

#[test]
fn a_preempted_task_is_found_by_the_tick_of_the_idle_cpu() {
    // Nothing binds the waker to CPU 0; the sleeper, with four ticks more, takes that CPU although its last one is idle.
    let json = woken_on("", 10).replacen(r#""cpus": [0], "#, "", 1);
    let (history, outcome) = run(ID, "2", &json, 4, &[]);
    let burst = first_run(&history, "sleeper", SECOND / 2);
    assert_eq!(burst.start, 825 * MS, "{burst:?}");
    assert_eq!(statistic(ID, &outcome, "preemptions"), 1);
    let waker = first_run(&history, "waker", SECOND / 2);
    assert_eq!(waker.start, 830 * MS, "{waker:?}");
    assert_ne!(waker.cpu, burst.cpu);
}

/// A task that runs 30 us at a time and each time wakes another one, which is never more than a tick better.
const SHORT: &str = r#"{ "tasks": {
    "waker": { "cpus": [0], "run": 30, "resume": "sleeper", "run1": 10, "sleep": 5000 },
    "sleeper": { "suspend": "sleeper", "run": 1000 } } }"#;

#[test]
fn short_runs_in_the_kernel_lock_keep_the_woken_task_waiting() {
    let (history, outcome) = run(ID, "2", SHORT, 4, &[]);
    assert!(statistic(ID, &outcome, "related_wakeups") > 500);
    // It waits the 10 us until the waker sleeps, and takes over its CPU, unless the idle CPU's tick comes meanwhile.
    let bursts = history.runs_of("sleeper", SECOND, 4 * SECOND);
    let elsewhere = bursts.iter().filter(|burst| burst.cpu != 0).count();
    assert!(bursts.len() > 400 && elsewhere < 10, "{elsewhere}");
    // Out of the lock, or with caches that are quickly filled, it goes to the idle CPU.
    for setting in [("big_kernel_lock", "0"), ("cache_size", "8")] {
        let (history, outcome) = run(ID, "2", SHORT, 4, &[setting]);
        // A task that has not run yet has no slice to speak of.
        assert!(statistic(ID, &outcome, "related_wakeups") <= 1);
        for burst in history.runs_of("sleeper", SECOND, 4 * SECOND) {
            assert_eq!(burst.cpu, 1, "{setting:?}: {burst:?}");
        }
    }
}

#[test]
fn a_long_sleeper_runs_400_ms() {
    let json = r#"{ "tasks": {
        "hog": { "instance": 2, "run": 1000 },
        "sleeper": { "phases": {
            "asleep": { "sleep": 5005000, "loop": 1 },
            "awake": { "run": 1000, "loop": -1 } } } } }"#;
    let (history, _) = run(ID, "1", json, 8, &[]);
    let burst = first_run(&history, "sleeper", SECOND);
    assert_eq!(burst.start, 5005 * MS);
    assert_near(burst.milliseconds(), 400.0, 5.1, "sleeper");
}

#[test]
fn a_wakeup_preempts_with_four_ticks_more_and_not_with_three() {
    // A sleeper of nice 10 has 19 ticks, a single hog 16 from 40 to 50 ms of its epoch, then 15, and none from 200 to 210 ms.
    for (run_ms, preemptions, start) in [(1095, 0, 1260), (1105, 1, 1260), (1255, 1, 1255)] {
        let json = format!(
            r#"{{ "tasks": {{
                "hog": {{ "phases": {{
                    "before": {{ "run": {}, "resume": "sleeper", "loop": 1 }},
                    "after": {{ "run": 1000, "loop": -1 }} }} }},
                "sleeper": {{ "priority": 10, "phases": {{
                    "asleep": {{ "suspend": "sleeper", "loop": 1 }},
                    "awake": {{ "run": 1000, "loop": -1 }} }} }} }} }}"#,
            run_ms * 1000
        );
        let (history, outcome) = run(ID, "1", &json, 4, &[]);
        assert_eq!(statistic(ID, &outcome, "preemptions"), preemptions);
        // schedule() decides by goodness: at first the hog's is 15 + 20 against 19 + 10, in its last tick 0.
        let burst = first_run(&history, "sleeper", SECOND);
        assert_eq!(burst.start, start * MS, "{burst:?}");
    }
}

#[test]
fn the_bonus_of_the_last_cpu_keeps_tasks_where_they_are() {
    let migrations = |penalty| {
        let setting = [("proc_change_penalty", penalty)];
        let (history, _) = run(ID, "2", &hogs(&[0, 0, 0, 0]), 32, &setting);
        let moves = |task: &str| {
            let share = history.percent(task, 2 * SECOND, 32 * SECOND);
            assert_near(share, 50.0, 5.0, task);
            let runs = history.runs_of(task, 0, 32 * SECOND);
            runs.windows(2).filter(|two| two[0].cpu != two[1].cpu).count()
        };
        ["hog0", "hog1", "hog2", "hog3"].map(moves).iter().sum::<usize>()
    };
    let (with, without) = (migrations("15"), migrations("0"));
    assert!(with * 3 < without, "{with} and {without}");
}

#[test]
fn three_hogs_on_two_cpus_get_about_two_thirds_each() {
    let (history, _) = run(ID, "2", &hogs(&[0, 0, 0]), 62, &[]);
    let tasks = ["hog0", "hog1", "hog2"];
    let share = |task: &&str| history.percent(task, 2 * SECOND, 62 * SECOND);
    for task in &tasks {
        assert_near(share(task), 66.7, 10.0, task);
    }
    assert_near(tasks.iter().map(share).sum(), 200.0, 0.5, "all");
}

#[test]
fn the_walk_is_as_long_as_the_list_and_an_epoch_visits_all() {
    let steps = |hogs: u32| {
        let json = format!(
            r#"{{ "tasks": {{
                "hog": {{ "instance": {hogs}, "run": 1000 }},
                "sleeper": {{ "instance": 50, "delay": 100000, "sleep": 1000000000 }} }} }}"#
        );
        let (_, outcome) = run(ID, "1", &json, 60, &[]);
        let of = |name| statistic(ID, &outcome, name) as f64;
        let visited = of("recalculated_tasks") / of("recalculations");
        assert_near(visited, f64::from(hogs) + 51.0, 1.0, "tasks of an epoch");
        of("list_steps") / of("schedules")
    };
    let (ten, hundred) = (steps(10), steps(100));
    assert_near(ten, 10.0, 10.0, "steps with 10 hogs");
    assert_near(hundred, 100.0, 25.0, "steps with 100 hogs");
}

#[test]
fn a_bound_task_waits_no_longer_than_its_patience() {
    let history = assert_bound_tasks_wait_below(ID, 2900 * MS);
    for task in ["first", "second"] {
        assert!(history.percent(task, 0, 60 * SECOND) > 10.0, "{task}");
    }
}

#[test]
fn a_woken_task_goes_to_its_last_cpu_if_that_is_idle_and_else_to_the_last_idle_one() {
    assert_eq!(cpu_of_the_woken(ID, "4", 0, 1, &hog_on(0, 0)), 1);
    assert_eq!(cpu_of_the_woken(ID, "4", 19, 1, &hog_on(1, -20)), 3);
}

#[test]
fn a_real_time_task_preempts_with_fewer_ticks() {
    let json = r#"{ "tasks": {
        "hog": { "run": 1000 },
        "urgent": { "priority": 19, "fairground": { "realtime": "local", "realtime_priority": 1 }, "run": 100, "sleep": 9900 } } }"#;
    let (history, _) = run(ID, "1", json, 5, &[]);
    let wait = history.longest_wait("urgent", SECOND, 5 * SECOND);
    assert!(wait <= 10 * MS, "{wait}");
}

shows! {
    a_bound_task_that_loses_every_comparison_is_rescued: assert_weak_bound_task_is_rescued(ID);
    a_task_whose_address_space_is_loaded_is_preferred: assert_the_loaded_address_space_is_preferred(ID);
    a_task_displaced_by_real_time_goes_on_at_an_idle_cpu: assert_the_displaced_move(ID, 20);
    only_the_idle_last_cpu_looks_for_a_woken_task: assert_only_the_idle_last_cpu_looks(ID, &[("big_kernel_lock", "0")]);
    decides_as_its_original: crate::originals::assert_decides_as_original(ID);
    three_yielders_take_turns: assert_yielders_take_turns(ID);
}
