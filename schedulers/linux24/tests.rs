//! Linux 2.4 shows the features by which it is recognised: quanta, nice staircase, sleeper credit, fork, yield, walk over one list.

use crate::support::early_linux::{
    assert_bound_tasks_wait_below, assert_only_the_idle_last_cpu_looks,
    assert_the_loaded_address_space_is_preferred, assert_weak_bound_task_is_rescued,
    assert_yielders_take_turns, cpu_of_the_woken, hog_on, late_on, ticks_left,
};
use crate::support::{
    MS, Run, SECOND, assert_near, assert_shares, assert_synchronous_waker_finishes,
    assert_the_displaced_move, hogs, lengths, run, statistic, two_hogs,
};

const ID: &str = "linux24";

/// Shares of two hogs on one CPU after the start has been forgotten, in percent.
fn shares(first: i32, second: i32) -> (f64, f64) {
    let (history, _) = run(ID, "1", &two_hogs(first, second), 22, &[]);
    let (from, to) = (2 * SECOND, 22 * SECOND);
    (history.percent("first", from, to), history.percent("second", from, to))
}

#[test]
fn two_hogs_alternate_every_60_ms() {
    let (history, _) = run(ID, "1", &two_hogs(0, 0), 10, &[]);
    for task in ["first", "second"] {
        let runs = history.runs_of(task, SECOND, 10 * SECOND);
        assert!(runs.len() > 60, "{task} ran {} times", runs.len());
        for run in runs {
            assert_near(run.milliseconds(), 60.0, 10.0, task);
        }
    }
    let (first, second) = shares(0, 0);
    assert_near(first, 50.0, 0.7, "first");
    assert_near(second, 50.0, 0.7, "second");
}

#[test]
fn four_neighbouring_nice_values_share_one_quantum() {
    let (first, second) = shares(0, -3);
    assert_near(first, 50.0, 1.0, "nice 0");
    assert_near(second, 50.0, 1.0, "nice -3");
}

#[test]
fn nice_1_gets_five_ticks_for_six() {
    let (first, second) = shares(0, 1);
    assert_near(first, 54.5, 0.7, "nice 0");
    assert_near(second, 45.5, 0.7, "nice 1");
}

#[test]
fn nice_pairs_get_the_shares_of_their_quanta() {
    for (pair, expected) in [((0, 19), 85.7), ((0, 10), 66.7), ((0, 5), 60.0), ((-10, 0), 57.1)] {
        let (first, _) = shares(pair.0, pair.1);
        assert_near(first, expected, 1.0, &format!("{pair:?}"));
    }
}

#[test]
fn the_strongest_nice_runs_110_ms_and_gets_65_percent() {
    let (history, _) = run(ID, "1", &two_hogs(-20, 0), 22, &[]);
    let (from, to) = (2 * SECOND, 22 * SECOND);
    assert_near(history.percent("first", from, to), 64.7, 0.7, "nice -20");
    for run in history.runs_of("first", from, to) {
        assert_near(run.milliseconds(), 110.0, 10.0, "nice -20");
    }
    for run in history.runs_of("second", from, to) {
        assert_near(run.milliseconds(), 60.0, 10.0, "nice 0");
    }
}

#[test]
fn a_sleeper_preempts_and_runs_up_to_110_ms() {
    let json = r#"{ "tasks": {
        "hog": { "run": 1000 },
        "sleeper": { "sleep": 1000000, "run": 200000, "loop": 4 } } }"#;
    let (history, outcome) = run(ID, "1", json, 6, &[]);
    assert!(statistic(ID, &outcome, "preemptions") > 0);
    let bursts: Vec<&Run> = history
        .runs_of("sleeper", SECOND / 2, 6 * SECOND)
        .into_iter()
        .filter(|burst| {
            let before = history.runs_of("sleeper", 0, burst.start);
            before.last().is_none_or(|last| burst.start - last.end > 500 * MS)
        })
        .collect();
    assert!(bursts.len() >= 3, "{bursts:?}");
    for burst in &bursts {
        // Awake within the tick, and the credit of the sleep is used in one go: 11 ticks, the first one partly over.
        assert!(burst.length() > 90 * MS && burst.length() <= 111 * MS, "{burst:?}");
    }
}

/// The hog begins epochs while the parent sleeps, so that the parent has 11 ticks when it forks: the child gets 6 and the
/// parent keeps 5.
const FORK: &str = r#"{ "tasks": {
    "hog": { "run": 1500000, "loop": 1 },
    "parent": { "phases": {
        "asleep": { "sleep": 3000000, "loop": 1 },
        "forking": { "run": 2000, "fork": "child", "loop": 1 },
        "running": { "run": 1000, "loop": -1 } } },
    "child": { "instance": 0, "run": 1000 } } }"#;

/// Lengths of the runs of parent and child after the fork, in milliseconds.
fn runs_after_fork() -> (Vec<u64>, Vec<u64>) {
    let (history, _) = run(ID, "1", FORK, 4, &[]);
    let (from, to) = (3 * SECOND, 4 * SECOND);
    let child = history.child().task.clone();
    (lengths(&history.runs_of("parent", from, to)), lengths(&history.runs_of(&child, from, to)))
}

#[test]
fn fork_shares_what_the_parent_has_left() {
    let (parent, child) = runs_after_fork();
    let what = format!("parent {parent:?}, child {child:?}");
    // The child has one tick more and preempts; then the parent runs its five out and an epoch begins, in which the parent, first
    // on the list, runs on for six.
    assert!(parent[0] <= 3, "{what}");
    assert!(child[0].abs_diff(58) <= 2, "{what}");
    assert!(parent[1].abs_diff(110) <= 1, "{what}");
    assert!(child[1].abs_diff(60) <= 1, "{what}");
}

#[test]
fn yield_without_another_waiting_task_does_nothing() {
    let (history, outcome) =
        run(ID, "1", r#"{ "tasks": { "yielder": { "run": 1000, "yield": "" } } }"#, 2, &[]);
    assert_eq!(statistic(ID, &outcome, "yields"), 0);
    assert_near(history.percent("yielder", 0, 2 * SECOND), 100.0, 0.1, "yielder");
}

#[test]
fn yield_hands_over_at_once_and_begins_no_epoch_while_the_other_has_ticks() {
    let json = r#"{ "tasks": {
        "hog": { "run": 1000 },
        "yielder": { "run": 1000, "yield": "" } } }"#;
    let (history, outcome) = run(ID, "1", json, 10, &[]);
    for burst in history.runs_of("yielder", SECOND, 10 * SECOND) {
        assert!(burst.length() <= MS, "{burst:?}");
    }
    // Each epoch gives the hog its 60 ms; the yielder does not shorten them.
    let epochs = statistic(ID, &outcome, "recalculations");
    assert!((100..=167).contains(&epochs), "{epochs} epochs in 10 s");
    assert!(history.percent("hog", SECOND, 10 * SECOND) > 90.0);
}

#[test]
fn three_hogs_on_two_cpus_and_six_on_four_get_two_thirds_each() {
    for (machine, number) in [("2", 3), ("4", 6)] {
        let (history, _) = run(ID, machine, &hogs(number), 22, &[]);
        assert_shares(&history, number, 2 * SECOND, 22 * SECOND, 66.7, 2.0);
        if number == 3 {
            let moves = history.migrations.iter().filter(|(time, _)| *time >= 2 * SECOND);
            let rate = moves.count() as f64 / 20.0 / 3.0;
            assert_near(rate, 4.4, 1.5, "migrations per second and task");
        }
    }
}

#[test]
fn the_walk_is_as_long_as_the_list() {
    let steps = |number: u32| {
        let json = hogs(number);
        let (_, outcome) = run(ID, "1", &json, 20, &[]);
        statistic(ID, &outcome, "list_steps") as f64 / statistic(ID, &outcome, "schedules") as f64
    };
    let (ten, hundred) = (steps(10), steps(100));
    assert_near(ten, 10.0, 1.0, "steps with 10 hogs");
    assert_near(hundred, 100.0, 10.0, "steps with 100 hogs");
}

#[test]
fn an_epoch_visits_every_task_asleep_or_not() {
    let json = r#"{ "tasks": {
        "sleeper": { "instance": 98, "sleep": 1000000000 },
        "hog": { "instance": 2, "run": 1000 } } }"#;
    let (_, outcome) = run(ID, "1", json, 10, &[]);
    let epochs = statistic(ID, &outcome, "recalculations");
    let visited = statistic(ID, &outcome, "recalculated_tasks");
    assert!(epochs > 50, "{epochs} epochs");
    assert_near(visited as f64 / epochs as f64, 101.0, 1.0, "tasks visited by an epoch");
}

#[test]
fn a_woken_task_goes_to_the_cpu_that_idles() {
    let json = r#"{ "tasks": {
        "hog": { "run": 1000 },
        "sleeper": { "sleep": 10000, "run": 1000 } } }"#;
    let (history, outcome) = run(ID, "2", json, 5, &[]);
    assert!(statistic(ID, &outcome, "idle_reschedules") > 400);
    assert_near(history.percent("hog", SECOND, 5 * SECOND), 100.0, 0.1, "hog");
    for burst in history.runs_of("sleeper", SECOND, 5 * SECOND) {
        assert_eq!(burst.length(), MS, "{burst:?}");
    }
}

#[test]
fn a_bound_task_that_chose_a_busy_cpu_waits_beside_an_idle_one() {
    let bound = |apart: u32| {
        format!(
            r#"{{ "tasks": {{
                "first": {{ "run": 1000 }}, "second": {{ "delay": {apart}, "run": 1000 }},
                "bound": {{ "cpus": [3, 5], "delay": {}, "run": 1000 }} }} }}"#,
            2 * apart
        )
    };
    let (history, _) = run(ID, "8", &bound(0), 18, &[]);
    assert_eq!(history.cpu_time("bound", 0, 15 * SECOND), 0);
    assert!(history.cpu_time("bound", 16 * SECOND, 18 * SECOND) > SECOND);
    let (history, _) = run(ID, "8", &bound(100), 3, &[]);
    assert!(history.cpu_time("bound", SECOND, 3 * SECOND) > 1900 * MS);
}

/// The part of eight CPUs that 16 hogs leave unused in the first 300 ms, percent, if they begin `apart` microseconds apart.
fn unused_at_the_start(apart: u32) -> f64 {
    let hogs: Vec<String> = (0..16)
        .map(|hog| format!(r#""hog-{hog}": {{ "delay": {}, "run": 1000 }}"#, (hog + 1) * apart))
        .collect();
    let json = format!(r#"{{ "tasks": {{ {} }} }}"#, hogs.join(", "));
    let (history, _) = run(ID, "8", &json, 1, &[]);
    let used: u64 = (0..16).map(|hog| history.cpu_time(&format!("hog-{hog}"), 0, 300 * MS)).sum();
    100.0 - 100.0 * used as f64 / (8 * 300 * MS) as f64
}

#[test]
fn tasks_that_wake_at_one_instant_tell_the_same_cpu_and_others_do_not() {
    assert_near(unused_at_the_start(0), 42.5, 5.0, "at one instant");
    let unused = unused_at_the_start(100);
    assert!(unused < 1.0, "{unused} % when they are 0.1 ms apart");
}

/// Ticks that a parent has left when its child has ended: parent and child each sleep for `epochs` microseconds, in which a hog begins
/// epochs.
fn inherited(epochs: u32) -> i32 {
    let json = format!(
        r#"{{ "tasks": {{
            "hog": {{ "run": {epochs}, "loop": 1 }},
            "parent": {{ "phases": {{
                "forking": {{ "fork": "child", "loop": 1 }},
                "waiting": {{ "sleep": 100000000, "loop": -1 }} }} }},
            "child": {{ "instance": 0, "loop": 1, "fairground": {{ "process": "own" }}, "phases": {{
                "asleep": {{ "sleep": 2000000, "loop": 1 }},
                "ending": {{ "run": 100, "loop": 1 }} }} }} }} }}"#
    );
    let (_, outcome) = run(ID, "1", &json, 3, &[]);
    ticks_left(&outcome, "parent")
}

#[test]
fn a_parent_inherits_what_its_child_has_left_up_to_a_limit() {
    // Three ticks of each; eleven of each.
    assert_eq!(inherited(1), 6);
    assert_eq!(inherited(1_500_000), 20);
}

#[test]
fn the_first_on_the_list_runs_first_among_equals() {
    let json = &hogs(3);
    let (history, _) = run(ID, "1", json, 10, &[]);
    let mut runs: Vec<&Run> = history.runs.iter().filter(|run| run.start > SECOND).collect();
    runs.sort_by_key(|run| run.start);
    for pair in runs.windows(2) {
        let next = match pair[0].task.as_str() {
            "hog-0" => "hog-1",
            "hog-1" => "hog-2",
            _ => "hog-0",
        };
        assert_eq!(pair[1].task, next);
    }
}

#[test]
fn a_woken_task_takes_its_last_cpu_then_the_longest_idle_one_then_the_weakest() {
    let three = [late_on(1), late_on(2), hog_on(0, 0)].join(", ");
    assert_eq!(cpu_of_the_woken(ID, "4", 0, 2, &three), 2);
    assert_eq!(cpu_of_the_woken(ID, "4", 0, 0, &three), 3);
    let busy = [hog_on(0, 5), hog_on(1, 10), hog_on(2, -20), hog_on(3, 5)].join(", ");
    assert_eq!(cpu_of_the_woken(ID, "4", -10, 2, &busy), 1);
}

#[test]
fn of_two_siblings_an_idle_core_comes_before_the_longest_idle_cpu() {
    let others = [late_on(2), late_on(3), hog_on(0, 0)].join(", ");
    assert_eq!(cpu_of_the_woken(ID, "core:2 pu:2", 0, 0, &others), 2);
}

#[test]
fn of_equal_quanta_the_better_nice_value_runs_first() {
    // Nice -3 and 0 share a quantum of six ticks.
    let json = r#"{ "tasks": {
        "a": { "run": 1000 },
        "b": { "priority": -3, "run": 1000 },
        "c": { "run": 1000 } } }"#;
    let (history, _) = run(ID, "1", json, 10, &[]);
    let mut runs: Vec<&Run> = history.runs.iter().filter(|run| run.start > SECOND).collect();
    runs.sort_by_key(|run| run.start);
    for pair in runs.windows(2).filter(|pair| pair[0].task == "b") {
        assert_eq!(pair[1].task, "a");
    }
}

shows! {
    a_bound_task_waits_no_longer_than_its_patience: assert_bound_tasks_wait_below(ID, 2900 * MS);
    a_bound_task_that_loses_every_comparison_is_rescued: assert_weak_bound_task_is_rescued(ID);
    a_task_whose_address_space_is_loaded_is_preferred: assert_the_loaded_address_space_is_preferred(ID);
    a_task_displaced_by_real_time_goes_on_at_an_idle_cpu: assert_the_displaced_move(ID, 0);
    a_waker_that_is_about_to_sleep_finishes_first: assert_synchronous_waker_finishes(ID);
    only_the_idle_last_cpu_looks_for_a_woken_task: assert_only_the_idle_last_cpu_looks(ID, &[]);
    decides_as_its_original: crate::originals::assert_decides_as_original(ID);
    three_yielders_take_turns: assert_yielders_take_turns(ID);
}
