//! Linux 1.2 shows the features by which it is recognised: quanta of 160 ms, the oldest task first, sleepers up to 29 ticks, children for free.

use crate::support::early_linux::{
    assert_bound_tasks_wait_below, assert_runs, assert_weak_bound_task_is_rescued, first_run, hogs,
    run_hogs, ticks_left,
};
use crate::support::{MS, SECOND, assert_near, assert_the_displaced_move, gaps, run, statistic};

const ID: &str = "linux12";

#[test]
fn two_hogs_alternate_every_160_ms() {
    let history = run_hogs(ID, &[0, 0], 22);
    for task in ["hog0", "hog1"] {
        assert_runs(&history, task, 160, 22 * SECOND);
        assert_near(history.percent(task, 2 * SECOND, 22 * SECOND), 50.0, 0.8, task);
    }
}

#[test]
fn nice_10_gets_3_of_11_in_runs_of_60_ms() {
    let history = run_hogs(ID, &[0, 10], 22);
    assert_runs(&history, "hog0", 160, 22 * SECOND);
    assert_runs(&history, "hog1", 60, 22 * SECOND);
    assert_near(history.percent("hog0", 2 * SECOND, 22 * SECOND), 72.7, 0.8, "nice 0");
}

#[test]
fn nice_pairs_get_the_shares_of_their_quanta_and_a_tick_each() {
    for (pair, expected) in [
        ([0, 1], 51.6),
        ([0, 5], 59.3),
        ([0, 10], 72.7),
        ([0, 19], 88.9),
        ([-10, 0], 61.9),
        ([-1, 0], 51.5),
        ([18, 19], 50.0),
    ] {
        let history = run_hogs(ID, &pair, 52);
        let share = history.percent("hog0", 2 * SECOND, 52 * SECOND);
        assert_near(share, expected, 0.5, &format!("{pair:?}"));
    }
}

#[test]
fn nice_14_to_19_are_the_same() {
    let history = run_hogs(ID, &[14, 16, 19], 12);
    for task in ["hog0", "hog1", "hog2"] {
        let share = history.percent(task, 2 * SECOND, 12 * SECOND);
        assert_near(share, 33.3, 1.0, task);
        for run in history.runs_of(task, SECOND, 12 * SECOND) {
            assert_eq!(run.length(), 20 * MS, "{run:?}");
        }
    }
}

#[test]
fn the_weakest_task_runs_first_if_it_is_the_oldest() {
    let history = run_hogs(ID, &[19, 0], 22);
    assert_near(history.percent("hog0", 2 * SECOND, 22 * SECOND), 11.1, 0.7, "nice 19");
    for run in history.runs_of("hog0", SECOND, 22 * SECOND) {
        assert_eq!(run.length(), 20 * MS, "{run:?}");
    }
    assert_runs(&history, "hog1", 160, 22 * SECOND);
}

#[test]
fn a_new_epoch_begins_with_the_oldest_task_and_goes_on_with_the_strongest() {
    // Were there a second search after the refill, nice -5 would run before nice 0.
    let history = run_hogs(ID, &[0, 19, -5], 22);
    let order: Vec<&str> = history
        .runs
        .iter()
        .filter(|run| run.start > SECOND)
        .map(|run| run.task.as_str())
        .skip_while(|task| *task != "hog1")
        .collect();
    assert!(order.len() > 100);
    for turn in order.chunks_exact(3) {
        assert_eq!(turn, ["hog1", "hog0", "hog2"]);
    }
}

/// A hog that wakes a task which has slept for many epochs, after `run` milliseconds of its own.
fn woken_by_hog(run: u64, nice: i32) -> String {
    format!(
        r#"{{ "tasks": {{
            "hog": {{ "phases": {{
                "before": {{ "run": {}, "resume": "sleeper", "loop": 1 }},
                "after": {{ "run": 1000, "loop": -1 }} }} }},
            "sleeper": {{ "priority": {nice}, "phases": {{
                "asleep": {{ "suspend": "sleeper", "loop": 1 }},
                "awake": {{ "run": 1000, "loop": -1 }} }} }} }} }}"#,
        run * 1000
    )
}

#[test]
fn a_long_sleeper_holds_the_cpu_for_300_ms() {
    let (history, outcome) = run(ID, "1", &woken_by_hog(2005, 0), 4, &[]);
    let burst = first_run(&history, "sleeper", SECOND);
    assert_eq!(burst.start, 2005 * MS);
    assert_near(burst.milliseconds(), 295.0, 5.0, "sleeper");
    assert_eq!(statistic(ID, &outcome, "preemptions"), 1);
}

#[test]
fn a_sleeper_gains_up_to_29_ticks() {
    // 15, 22, 26, 28, 29, 29: after three epochs of 310 ms and after six of 160.
    for (nice, epochs, expected) in [(-15, 3, 28), (0, 6, 29)] {
        let json = format!(
            r#"{{ "tasks": {{
                "hog": {{ "priority": {nice}, "run": 1000 }},
                "sleeper": {{ "sleep": 10000000 }} }} }}"#
        );
        let (_, outcome) = run(ID, "1", &json, 1, &[]);
        assert_eq!(statistic(ID, &outcome, "recalculations"), epochs);
        assert_eq!(ticks_left(&outcome, "sleeper"), expected);
    }
}

// An epoch of a single hog begins every 160 ms, so at 1280 ms. A sleeper of nice 10 has 9 ticks by then.

#[test]
fn a_wakeup_preempts_with_four_ticks_more_and_not_with_three() {
    // 95 ms into the epoch the hog has 6 ticks.
    let (history, outcome) = run(ID, "1", &woken_by_hog(1280 + 95, 10), 4, &[]);
    assert_eq!(first_run(&history, "sleeper", SECOND).start, 1440 * MS);
    assert_eq!(statistic(ID, &outcome, "preemptions"), 0);
    // 105 ms into it, 5.
    let (history, outcome) = run(ID, "1", &woken_by_hog(1280 + 105, 10), 4, &[]);
    let burst = first_run(&history, "sleeper", SECOND);
    assert_eq!(burst.start, 1385 * MS);
    assert_near(burst.milliseconds(), 95.0, 5.0, "sleeper");
    assert_eq!(statistic(ID, &outcome, "preemptions"), 1);
}

#[test]
fn the_child_gets_half_and_the_parent_keeps_all() {
    // 15 ms into the epoch the parent has 14 ticks.
    let json = r#"{ "tasks": {
        "parent": { "phases": {
            "alone": { "run": 1295000, "fork": "child", "loop": 1 },
            "then": { "run": 1000, "loop": -1 } } },
        "child": { "instance": 0, "run": 1000 } } }"#;
    let (history, _) = run(ID, "1", json, 4, &[]);
    let child = first_run(&history, "child", 0);
    assert_eq!(child.start, 1440 * MS, "{child:?}");
    assert_eq!(child.length(), 80 * MS, "{child:?}");
}

#[test]
fn the_longest_wait_is_a_quantum_of_each_of_the_others() {
    for number in [6, 10] {
        let history = run_hogs(ID, &vec![0; number], 22);
        for task in 0..number {
            let runs = history.runs_of(&format!("hog{task}"), 3 * SECOND, 22 * SECOND);
            let waits = gaps(&runs);
            let longest = waits.max().unwrap() / MS;
            let others = (number - 1) as f64;
            assert_near(longest as f64, others * 160.0, number as f64 * 10.0, "longest wait");
        }
    }
}

const TIMED: &str = r#"{ "tasks": {
    "hog": { "run": 1000 },
    "sleeper": { "sleep": 920000, "run": 20000 } } }"#;

#[test]
fn a_timeout_takes_effect_only_at_the_next_selection() {
    let (history, outcome) = run(ID, "1", TIMED, 20, &[]);
    // Every run of the sleeper begins an epoch; the hog's sixth quantum after that is over 960 ms later.
    let bursts = history.runs_of("sleeper", SECOND, 20 * SECOND);
    assert!(bursts.len() > 10);
    for pair in bursts.windows(2) {
        assert_eq!(pair[1].start - pair[0].end, 960 * MS, "{pair:?}");
    }
    assert!(statistic(ID, &outcome, "polled_wakeups") >= bursts.len() as u64);
    assert_eq!(statistic(ID, &outcome, "preemptions"), 0);
}

#[test]
fn an_interval_timer_calls_for_a_selection_at_its_tick() {
    let (history, outcome) = run(ID, "1", TIMED, 20, &[("timed_sleep", "interval_timer")]);
    let bursts = history.runs_of("sleeper", SECOND, 20 * SECOND);
    assert!(bursts.len() > 15);
    for pair in bursts.windows(2) {
        let waited = pair[1].start - pair[0].end - 920 * MS;
        assert!(waited <= 10 * MS, "waited {waited} ns: {:?}", pair[1]);
    }
    assert!(statistic(ID, &outcome, "timer_selections") >= bursts.len() as u64);
}

#[test]
fn there_is_no_yield() {
    let json = r#"{ "tasks": {
        "hog": { "run": 1000 },
        "yielder": { "run": 1000, "yield": "" } } }"#;
    let (history, _) = run(ID, "1", json, 12, &[]);
    assert_runs(&history, "yielder", 160, 12 * SECOND);
}

/// Ring steps per selection and tasks per refill, with one hog and this number of sleepers.
fn walk(sleepers: u32) -> (f64, f64) {
    let json = format!(
        r#"{{ "tasks": {{
            "sleeper": {{ "instance": {sleepers}, "sleep": 1000000000 }},
            "hog": {{ "run": 1000 }} }} }}"#
    );
    let (_, outcome) = run(ID, "1", &json, 10, &[]);
    let of = |name| statistic(ID, &outcome, name) as f64;
    (of("list_steps") / of("schedules"), of("recalculated_tasks") / of("recalculations"))
}

#[test]
fn selections_and_refills_visit_every_task_asleep_or_not() {
    // The process that starts the tasks and the hog are in the ring, too.
    let (steps, refilled) = walk(20);
    assert_near(steps, 22.0, 6.0, "steps with 20 sleepers");
    assert_near(refilled, 22.0, 1.0, "refilled with 20 sleepers");
    let (steps, refilled) = walk(200);
    assert_near(steps, 202.0, 120.0, "steps with 200 sleepers");
    assert_near(refilled, 202.0, 1.0, "refilled with 200 sleepers");
}

#[test]
fn one_ring_serves_several_cpus() {
    let (history, _) = run(ID, "2", &hogs(&[0, 0, 0]), 32, &[]);
    let share = |task| history.percent(task, 2 * SECOND, 32 * SECOND);
    // The oldest one runs first in every epoch, and is refilled while the others still run.
    assert_near(share("hog0"), 75.0, 2.0, "hog0");
    assert_near(share("hog1"), 62.5, 2.0, "hog1");
    assert_near(share("hog2"), 62.5, 2.0, "hog2");
}

#[test]
fn a_wakeup_takes_the_idle_cpu_and_disturbs_nobody() {
    let json = r#"{ "tasks": {
        "hog": { "run": 1000 },
        "sleeper": { "sleep": 10000, "run": 1000 } } }"#;
    let (history, outcome) = run(ID, "2", json, 5, &[]);
    assert_near(history.percent("hog", SECOND, 5 * SECOND), 100.0, 0.1, "hog");
    for burst in history.runs_of("sleeper", SECOND, 5 * SECOND) {
        assert_eq!(burst.length(), MS, "{burst:?}");
    }
    assert_eq!(statistic(ID, &outcome, "preemptions"), 0);
}

#[test]
fn a_bound_task_waits_no_longer_than_its_patience() {
    let history = assert_bound_tasks_wait_below(ID, 2600 * MS);
    for task in ["first", "second"] {
        assert!(history.percent(task, 0, 60 * SECOND) > 10.0, "{task}");
    }
}

shows! {
    the_strongest_nice_runs_360_ms: assert_runs(&run_hogs(ID, &[-20, 0], 22), "hog0", 360, 22 * SECOND);
    a_bound_task_that_loses_every_comparison_is_rescued: assert_weak_bound_task_is_rescued(ID);
    a_task_displaced_by_real_time_goes_on_at_an_idle_cpu: assert_the_displaced_move(ID, 10);
    decides_as_its_original: crate::originals::assert_decides_as_original(ID);
}
