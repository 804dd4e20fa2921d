//! O(1) shows the features by which it is recognised: slices by nice value, two arrays, sleep credit and its defects, fork, yield, balancing.

use std::sync::Arc;

use crate::support::overhead::Cost;
use crate::support::{
    self, History, MS, Run, SECOND, assert_affinity_and_no_starvation, assert_near,
    assert_nothing_is_lost, assert_shares, assert_wakes_behind_itself, find, gaps, hogs, lengths,
    statistic, two_hogs,
};
use fairground_events::{Event, EventKind, Nanoseconds, OverheadKind, Sink, TaskId, TaskInfo};
use fairground_machine::Machine;
use fairground_simulator::{Options, Outcome, simulate};
use fairground_workload::Workload;

const ID: &str = "o1";

/// [`support::run`] at a thousand ticks a second, unless told otherwise, so that times are whole milliseconds.
fn run(
    id: &str,
    machine: &str,
    json: &str,
    seconds: u64,
    settings: &[(&str, &str)],
) -> (History, Outcome) {
    let settings = match settings.iter().any(|(name, _)| *name == "hz") {
        true => settings.to_vec(),
        false => [&[("hz", "1000")][..], settings].concat(),
    };
    support::run(id, machine, json, seconds, &settings)
}

/// Share of the first of two hogs on one CPU after the start has been forgotten, in percent.
fn share(first: i32, second: i32, settings: &[(&str, &str)]) -> f64 {
    let (history, _) = run(ID, "1", &two_hogs(first, second), 42, settings);
    let (from, to) = (2 * SECOND, 42 * SECOND);
    let (one, other) = (history.percent("first", from, to), history.percent("second", from, to));
    assert_near(one + other, 100.0, 0.1, "both together");
    one
}

#[test]
fn two_hogs_alternate_every_100_ms() {
    let (history, outcome) = run(ID, "1", &two_hogs(0, 0), 23, &[]);
    for task in ["first", "second"] {
        let runs = history.runs_of(task, 2 * SECOND, 22 * SECOND);
        assert!(runs.len() >= 95, "{task} ran {} times", runs.len());
        for run in &runs {
            assert_near(run.milliseconds(), 100.0, 0.1, task);
        }
    }
    assert_eq!(statistic(ID, &outcome, "reinserted_active"), 0);
    // One switch of the arrays for each pair of slices.
    assert_near(statistic(ID, &outcome, "array_switches") as f64, 115.0, 2.0, "array switches");
}

#[test]
fn a_slice_has_the_length_of_the_nice_value() {
    for (pair, expected) in [((-1, 0), (420, 100)), ((0, 19), (100, 5)), ((-20, 10), (800, 50))] {
        let (history, _) = run(ID, "1", &two_hogs(pair.0, pair.1), 23, &[]);
        for (task, length) in [("first", expected.0), ("second", expected.1)] {
            let runs = history.runs_of(task, 2 * SECOND, 22 * SECOND);
            assert!(runs.len() > 10, "{task} of {pair:?}");
            for run in lengths(&runs) {
                assert_eq!(run, length, "{task} of {pair:?}");
            }
        }
    }
}

#[test]
fn nice_pairs_get_the_shares_of_their_slices() {
    for (pair, expected) in [
        ((0, 1), 51.3),
        ((0, 5), 57.1),
        ((0, 10), 66.7),
        ((0, 19), 95.2),
        ((-10, 0), 85.7),
        ((-1, 0), 80.8),
        ((18, 19), 66.7),
    ] {
        assert_near(share(pair.0, pair.1, &[]), expected, 0.6, &format!("{pair:?}"));
    }
}

#[test]
fn the_slices_of_2_6_2_are_linear() {
    for (pair, expected) in [
        ((0, 1), 51.3),
        ((0, 5), 56.7),
        ((0, 10), 65.8),
        ((0, 19), 91.1),
        ((-10, 0), 59.7),
        ((-1, 0), 51.2),
        ((18, 19), 58.3),
    ] {
        let share = share(pair.0, pair.1, &[("release", "2.6.2")]);
        assert_near(share, expected, 0.6, &format!("{pair:?}"));
    }
}

/// A tenth of a millisecond: bursts are shorter by it than a whole number of ticks, so that the end of a burst never meets
/// the end of a slice.
const SHORTER: u64 = MS / 10;

/// A task that runs for not quite `run` and then sleeps for not quite `sleep` ms, and a hog.
fn periodic(run: u64, sleep: u64) -> String {
    format!(
        r#"{{ "tasks": {{
            "periodic": {{ "run": {}, "sleep": {} }},
            "hog": {{ "run": 1000 }} }} }}"#,
        (run * MS - SHORTER) / 1000,
        (sleep * MS + SHORTER) / 1000
    )
}

/// The same, but another task wakes it, and not the interrupt of a timer.
fn periodic_woken_by_task(run: u64, sleep: u64) -> String {
    format!(
        r#"{{ "tasks": {{
            "periodic": {{ "run": {}, "resume": "bell", "suspend": "periodic" }},
            "bell": {{ "policy": "SCHED_FIFO", "priority": 50,
                "suspend": "bell", "sleep": {}, "resume": "periodic" }},
            "hog": {{ "run": 1000 }} }} }}"#,
        (run * MS - SHORTER) / 1000,
        (sleep * MS + SHORTER) / 1000
    )
}

/// How long each burst of "periodic" had to wait after it woke up, with the time of the wake-up.
fn waits(history: &History, run: u64, sleep: u64, to: u64) -> Vec<(u64, u64)> {
    let (work, sleep) = (run * MS - SHORTER, sleep * MS + SHORTER);
    let mut waits = Vec::new();
    let (mut done, mut wake) = (0, 0);
    for run in history.runs_of("periodic", 0, to) {
        if run.length() == 0 {
            // It suspends itself.
            continue;
        }
        if done == 0 {
            waits.push((wake, run.start - wake));
        }
        done += run.length();
        if done == work {
            done = 0;
            wake = run.end + sleep;
        }
    }
    waits
}

#[test]
fn an_interactive_task_waits_no_more_after_the_first_second() {
    let (history, _) = run(ID, "1", &periodic(20, 80), 22, &[]);
    let share = history.percent("periodic", 2 * SECOND, 22 * SECOND);
    assert_near(share, 20.0, 0.5, "20 ms of 100");
    let waits = waits(&history, 20, 80, 22 * SECOND);
    assert!(waits.len() > 200);
    for (wake, wait) in waits {
        let limit = if wake > SECOND { 0 } else { 21 * MS };
        assert!(wait <= limit, "woken at {wake}, waited {wait}");
    }
}

/// A hog, and a task that rests (each rest a sleep of `sleep` ms and a tenth of a ms of work) and then spins.
fn sleeper(rests: u32, sleep: u32) -> String {
    format!(
        r#"{{ "tasks": {{
            "hog": {{ "run": 1000 }},
            "sleeper": {{ "phases": {{
                "rest": {{ "sleep": {}, "run": 100, "loop": {rests} }},
                "spin": {{ "run": 1000, "loop": -1 }} }} }} }} }}"#,
        sleep * 1000
    )
}

/// Length of the first run of "sleeper" that is longer than 50 ms, in milliseconds.
fn first_spin(json: &str, settings: &[(&str, &str)]) -> f64 {
    let (history, _) = run(ID, "1", json, 20, settings);
    let spin = history
        .bursts("sleeper", 0, 20 * SECOND)
        .into_iter()
        .find(|(start, end)| end - start > 50 * MS);
    let (start, end) = spin.expect("it spins");
    (end - start) as f64 / MS as f64
}

#[test]
fn one_long_sleep_is_worth_0_8_seconds_and_0_3_in_2_6_2() {
    let json = sleeper(1, 3000);
    assert_near(first_spin(&json, &[]), 800.0, 101.0, "2.6.22");
    let old = first_spin(&json, &[("release", "2.6.2")]);
    // One sleep proves nothing yet, so 2.6.2 charges its run in full
    assert_near(old, 306.0, 2.0, "2.6.2");
}

/// Length of the first long run of a task that 30 times has slept until another task woke it, and then spins, in milliseconds.
fn spin_after_being_woken(release: &str, wait: &str, wake: &str) -> f64 {
    let json = format!(
        r#"{{ "tasks": {{
            "hog0": {{ "run": 1000, "cpus": [0] }},
            "hog1": {{ "run": 1000, "cpus": [1] }},
            "waker": {{ "loop": 30, "sleep": 300000, {wake} }},
            "sleeper": {{ "phases": {{
                "rest": {{ {wait}, "run": 100, "loop": 30 }},
                "spin": {{ "run": 1000, "loop": -1 }} }} }} }} }}"#
    );
    let (history, _) = run(ID, "2", &json, 20, &[("release", release)]);
    let spin = history
        .bursts("sleeper", 9 * SECOND, 20 * SECOND)
        .into_iter()
        .find(|(start, end)| end - start > 50 * MS);
    let (start, end) = spin.expect("it spins");
    (end - start) as f64 / MS as f64
}

#[test]
fn who_is_woken_by_a_task_that_is_about_to_sleep_earns_no_credit_in_2_6_2() {
    let pipe = (
        r#""fairground1": { "pipe_read": { "pipe": "p", "bytes": 4 } }"#,
        r#""fairground1": { "pipe_write": { "pipe": "p", "bytes": 4 } }"#,
    );
    let semaphore = (r#""sem_wait": "s""#, r#""sem_post": "s""#);
    let credited = spin_after_being_woken("2.6.22", pipe.0, pipe.1);
    assert!(credited > 300.0, "2.6.22: {credited}");
    let credited = spin_after_being_woken("2.6.2", semaphore.0, semaphore.1);
    assert!(credited > 300.0, "2.6.2, not synchronous: {credited}");
    let spin = spin_after_being_woken("2.6.2", pipe.0, pipe.1);
    assert!(spin < 110.0, "2.6.2, synchronous: {spin}");
}

#[test]
fn sixty_of_a_hundred_milliseconds_is_interactive_only_in_2_6_2() {
    let json = periodic(60, 40);
    let (to, from) = (42 * SECOND, 12 * SECOND);
    let (old, _) = run(ID, "1", &json, 42, &[("release", "2.6.2")]);
    assert_near(old.percent("periodic", from, to), 59.6, 1.0, "2.6.2");

    // Each burst waits for a slice of the hog at its start, and for another when its own slice ends within it. (30 % would be
    // if slices never ended before a burst that ends at the same moment.)
    let (new, _) = run(ID, "1", &periodic_woken_by_task(60, 40), 42, &[]);
    let share = new.percent("periodic", from, to);
    assert_near(share, 100.0 * 60.0 / 220.0, 0.5, "2.6.22");
    // Woken by an interrupt it is credited with all of its waiting, and does better.
    let (interrupted, _) = run(ID, "1", &json, 42, &[]);
    let share = interrupted.percent("periodic", from, to);
    assert!((36.0..50.0).contains(&share), "{share}");
    let waits = waits(&new, 60, 40, to);
    let late: Vec<u64> =
        waits.iter().filter(|(wake, _)| *wake > from).map(|(_, wait)| wait / MS).collect();
    assert!(late.len() > 100, "{late:?}");
    let mean = late.iter().sum::<u64>() as f64 / late.len() as f64;
    assert_near(mean, 60.0, 5.0, "mean wait after a wake-up");
}

#[test]
fn nice_19_expires_even_after_sleeping() {
    let json = |nice: i32| {
        format!(
            r#"{{ "tasks": {{
                "hog": {{ "priority": 19, "run": 1000 }},
                "sleeper": {{ "priority": {nice}, "phases": {{
                    "rest": {{ "sleep": 500000, "run": 100, "loop": 20 }},
                    "spin": {{ "run": 1000, "loop": -1 }} }} }} }} }}"#
        )
    };
    let (_, weak) = run(ID, "1", &json(19), 15, &[]);
    assert_eq!(statistic(ID, &weak, "reinserted_active"), 0);
    let (_, ordinary) = run(ID, "1", &json(0), 15, &[]);
    assert!(statistic(ID, &ordinary, "reinserted_active") > 0);
}

#[test]
fn two_interactive_tasks_take_turns_within_their_slices() {
    // Both come out of the same sleeps with full credit and spin: turns of 10 ms while the bonus is 10 or 9.
    let json = r#"{ "tasks": { "sleeper": { "instance": 2, "phases": {
        "rest": { "sleep": 300000, "run": 100, "loop": 30 },
        "spin": { "run": 1000, "loop": -1 } } } } }"#;
    let (history, outcome) = run(ID, "1", json, 12, &[]);
    assert!(statistic(ID, &outcome, "round_robins") > 10);
    let first: Vec<u64> = history
        .runs_of("sleeper-0", 9 * SECOND, 12 * SECOND)
        .iter()
        .filter(|run| run.length() > MS)
        .skip(1)
        .take(4)
        .map(|run| run.length() / MS)
        .collect();
    for length in &first {
        assert_eq!(*length, 10, "{first:?}");
    }
}

#[test]
fn starving_tasks_end_the_reign_of_an_interactive_one() {
    let (history, outcome) = run(ID, "1", &sleeper(30, 300), 20, &[]);
    assert!(statistic(ID, &outcome, "expired_starving") > 0);
    // Two runnable tasks: the hog waits for at most two seconds and the rest of a slice.
    let runs = history.runs_of("hog", 0, 20 * SECOND);
    for gap in gaps(&runs) {
        assert!(gap <= 2300 * MS, "the hog waited for {gap} ns");
    }
}

/// A parent in the middle of its slice forks a thread; a hog waits for the CPU meanwhile.
fn fork(child: &str) -> String {
    format!(
        r#"{{ "tasks": {{
            "parent": {{ "phases": {{
                "alone": {{ "run": 40000, "loop": 1 }},
                "forking": {{ "fork": "child", "run": 1000, "loop": 1 }},
                "on": {{ "run": 1000, "loop": -1 }} }} }},
            "child": {{ "instance": 0, {child} }} }} }}"#
    )
}

#[test]
fn fork_splits_what_is_left_of_the_slice() {
    let (history, _) = run(ID, "1", &fork(r#""run": 1000"#), 3, &[]);
    let parent = lengths(&history.runs_of("parent", 0, 3 * SECOND));
    let child_name = &history.child().task;
    let child = lengths(&history.runs_of(child_name, 0, 3 * SECOND));
    // 60 ms are left: 30 each. A thread queues behind its parent, and both have ordinary slices afterwards.
    assert_eq!(parent[0], 70, "parent {parent:?}");
    assert_eq!(child[0], 30, "child {child:?}");
    assert_eq!((parent[1], child[1]), (100, 100));
}

#[test]
fn a_child_that_exits_early_gives_the_rest_back() {
    let json = fork(r#""run": 10000, "loop": 1"#);
    // A hog at nice 10 shows where the parent's slice ends.
    let json = json.replacen(
        r#"{ "tasks": {"#,
        r#"{ "tasks": { "hog": { "priority": 10, "run": 1000 },"#,
        1,
    );
    let (history, outcome) = run(ID, "1", &json, 3, &[]);
    assert_eq!(statistic(ID, &outcome, "slices_returned"), 1);
    let parent = lengths(&history.runs_of("parent", 0, SECOND));
    assert!(parent.iter().all(|length| *length <= 100), "{parent:?}");
}

#[test]
fn yield_goes_behind_everybody_in_the_expired_array() {
    let json = r#"{ "tasks": {
        "hog": { "instance": 3, "run": 1000 },
        "yielder": { "run": 1000, "yield": "" } } }"#;
    let (history, outcome) = run(ID, "1", json, 20, &[]);
    assert!(statistic(ID, &outcome, "yields") > 10);
    let runs = history.runs_of("yielder", 2 * SECOND, 20 * SECOND);
    assert!(runs.len() > 20);
    for pair in runs.windows(2) {
        // The whole rotation of three slices of 100 ms lies between two runs.
        let gap = (pair[1].start - pair[0].end) as f64 / MS as f64;
        assert_near(gap, 300.0, 1.0, "between two yields");
    }
}

#[test]
fn a_pick_costs_the_same_for_a_thousand_tasks() {
    let per_switch = |number: u32| {
        let json = hogs(number);
        let (_, scheduler) = find(ID);
        let workload = Arc::new(Workload::parse("test.json", &json).unwrap());
        let mut options = Options::new(Machine::parse("1").unwrap(), workload);
        options.hz = 1000;
        let mut cost = |seconds: u64| {
            options.duration = Some(seconds * SECOND);
            let mut cost = Cost::default();
            let outcome = simulate(&scheduler, &options, vec![&mut cost]).unwrap();
            (cost.scheduling as f64, outcome.context_switches as f64)
        };
        // The difference of two durations: starting a thousand tasks is not measured, nor are the events when some
        // have waited for starvation_limit.
        let (short, long) = (cost(4), cost(14));
        (long.0 - short.0) / (long.1 - short.1)
    };
    let (ten, thousand) = (per_switch(10), per_switch(1000));
    assert_near(thousand / ten, 1.0, 0.1, "a switch among 1000 to one among 10");
}

#[test]
fn hogs_spread_over_idle_cpus_at_once() {
    let (history, outcome) = run(ID, "4", &hogs(4), 3, &[]);
    assert_shares(&history, 4, SECOND, 3 * SECOND, 100.0, 0.1);
    assert!(statistic(ID, &outcome, "pulled_periodic") >= 3);
}

#[test]
fn a_machine_with_one_hog_too_many_is_left_alone() {
    // Moving one of two tasks to a CPU with one task would gain nothing: 2.6.22 waits for the loads to differ by more.
    let (history, _) = run(ID, "2", &hogs(3), 22, &[]);
    let mut shares: Vec<f64> = (0..3)
        .map(|index| history.percent(&format!("hog-{index}"), 2 * SECOND, 22 * SECOND))
        .collect();
    shares.sort_by(f64::total_cmp);
    assert_near(shares[2], 100.0, 1.0, "the one that has a CPU for itself");
    assert_near(shares[0], 50.0, 1.0, "one of the other two");
}

#[test]
fn a_cpu_that_becomes_idle_pulls_a_waiting_task() {
    let json = r#"{ "tasks": {
        "short": { "cpus": [1], "run": 3000, "sleep": 4000 },
        "hog": { "instance": 2, "phases": {
            "placed": { "loop": 1, "cpus": [0], "run": 20000 },
            "free": { "loop": 1, "cpus": [0, 1], "run": 20000 } } } } }"#;
    let (_, outcome) = run(ID, "2", json, 4, &[]);
    assert!(statistic(ID, &outcome, "pulled_newly_idle") > 0);
    // All have been spread by then, but for tasks that are too cache-hot to be moved at once.
    assert_nothing_is_lost(ID, 100, &[("hz", "1000")]);
}

#[test]
fn a_renice_keeps_the_bonus_except_in_the_old_releases() {
    // A sleeper with full bonus becomes nice 6 when it has worked for the last time and goes on to spin.
    let json = r#"{ "tasks": {
        "hog": { "run": 1000 },
        "sleeper": { "phases": {
            "rest": { "sleep": 300000, "run": 100, "loop": 30 },
            "spin": { "priority": 6, "run": 1000, "loop": -1 } } } } }"#;
    let pause = |release| {
        let (history, _) = run(ID, "1", json, 12, &[("release", release)]);
        let bursts = history.bursts("sleeper", 0, 12 * SECOND);
        let spin = bursts.iter().position(|(start, end)| end - start > 20 * MS);
        let spin = spin.expect("it spins");
        bursts[spin].0 - bursts[spin - 1].1
    };
    // Priority 121 is better than the hog's 125: it spins on from its last wake-up.
    assert_eq!(pause("2.6.22") / MS, 300);
    // Priority 126 is worse: the hog uses up its slice first.
    let old = pause("2.6.2");
    assert!(old > 0 && old <= 100 * MS, "{old} ns");
}

#[test]
fn heavy_tasks_weigh_more() {
    // A task of nice -10 (weight 768) and four of nice 0 (128 each): the strong one ends up alone.
    let json = r#"{ "tasks": {
        "strong": { "priority": -10, "run": 1000 },
        "hog": { "instance": 4, "run": 1000 } } }"#;
    let (history, _) = run(ID, "2", json, 22, &[]);
    assert_near(
        history.percent("strong", 2 * SECOND, 22 * SECOND),
        100.0,
        1.0,
        "nice -10 among nice 0",
    );
    // 2.6.2 counts tasks: two or three of the five share a CPU with the strong one.
    let json = r#"{ "tasks": {
        "strong": { "priority": -10, "run": 1000 },
        "hog": { "instance": 4, "run": 1000 } } }"#;
    let (history, _) = run(ID, "2", json, 22, &[("release", "2.6.2")]);
    assert!(history.percent("strong", 2 * SECOND, 22 * SECOND) < 95.0);
}

#[test]
fn a_hog_is_pushed_from_a_busy_core_to_an_idle_one() {
    // Two hogs that may not choose at first share a core; the other core idles. Only active balancing can move a running task.
    let json = r#"{ "tasks": { "hog": { "instance": 2, "phases": {
        "together": { "cpus": [0, 1], "run": 500000, "loop": 1 },
        "free": { "cpus": [0, 1, 2, 3], "run": 1000, "loop": -1 } } } } }"#;
    let (history, outcome) = run(ID, "core:2 pu:2", json, 5, &[]);
    let on_other_core =
        history.runs.iter().filter(|run| run.cpu >= 2).map(Run::length).sum::<u64>();
    assert!(statistic(ID, &outcome, "pushed") > 0);
    assert!(on_other_core > 3 * SECOND, "{on_other_core} ns on the idle core");
}

#[test]
fn who_is_moved_for_its_affinity_comes_to_the_active_array() {
    // Better than the others, it runs at once wherever it comes to; not behind all that the active array of that CPU holds.
    let json = r#"{ "tasks": {
        "hog": { "instance": 3, "cpus": [0], "run": 1000 },
        "other": { "instance": 2, "cpus": [1], "run": 1000 },
        "mover": { "priority": -10, "phases": {
            "here": { "cpus": [0], "loop": 37, "run": 1000 },
            "there": { "cpus": [1], "loop": 37, "run": 1000 } } } } }"#;
    let (history, _) = run(ID, "2", json, 20, &[]);
    let mut moves = history
        .runs_of("mover", SECOND, 20 * SECOND)
        .windows(2)
        .filter(|pair| pair[0].cpu != pair[1].cpu)
        .map(|pair| pair[1].start - pair[0].end)
        .collect::<Vec<_>>();
    moves.sort_unstable();
    assert!(moves.len() > 100, "{moves:?}");
    assert!(*moves.last().unwrap() < 5 * MS, "{moves:?}");
}

#[test]
fn who_would_starve_runs_for_a_tick() {
    // STARVATION_LIMIT is ten slices for each running task, 30 s and more here: so long interactive tasks may keep the CPU.
    let json = r#"{ "tasks": {
        "sleeper": { "instance": 4, "run": 10000, "sleep": 20000 },
        "hog": { "instance": 2, "run": 1000 } } }"#;
    let long = ("def_timeslice", "1000ms");
    let (history, outcome) = run(ID, "1", json, 100, &[long]);
    let rescued = statistic(ID, &outcome, "rescued");
    for hog in ["hog-0", "hog-1"] {
        let wait = history.longest_wait(hog, 0, 100 * SECOND);
        assert!(wait > 14 * SECOND && wait < 17 * SECOND, "{wait} ns");
    }
    assert!(rescued >= 2, "{rescued} rescued");
    let (history, _) = run(ID, "1", json, 35, &[long, ("starvation_limit", "0")]);
    assert_eq!(history.cpu_time("hog-0", 12 * SECOND, 35 * SECOND), 0);
}

#[test]
fn no_slice_is_too_long_for_the_watchdog() {
    let hogs = |number: u32, nice: i32| {
        format!(
            r#"{{ "tasks": {{ "hog": {{ "instance": {number}, "priority": {nice}, "run": 1000 }} }} }}"#
        )
    };
    // Eight slices of 8 s
    let (history, outcome) = run(ID, "1", &hogs(8, -20), 60, &[("def_timeslice", "1000ms")]);
    assert!(statistic(ID, &outcome, "rescued") > 0);
    for index in 0..8 {
        let wait = history.longest_wait(&format!("hog-{index}"), 0, 60 * SECOND);
        assert!(wait < 18 * SECOND, "hog-{index} waited for {wait} ns");
    }
    // A thousand of 0.1 s
    run(ID, "1", &hogs(1000, 0), 60, &[]);
}

/// Counts interrupts that cost something, by the second.
#[derive(Default)]
struct Interrupts {
    seconds: Vec<u64>,
}

impl Sink for Interrupts {
    fn task(&mut self, _: Nanoseconds, _: TaskId, _: &TaskInfo) {}
    fn event(&mut self, event: &Event) {
        if let EventKind::Overhead { kind: OverheadKind::Interrupt, .. } = event.kind {
            let second = (event.time / SECOND) as usize;
            self.seconds.resize(self.seconds.len().max(second + 1), 0);
            self.seconds[second] += 1;
        }
    }
    fn finish(&mut self, _: Nanoseconds) {}
}

#[test]
fn an_idle_machine_is_left_alone_and_balances_again_afterwards() {
    let json = r#"{ "tasks": { "hog": { "instance": 3, "phases": {
        "before": { "loop": 1, "run": 1500000, "sleep": 7000000 },
        "after": { "loop": 1, "cpus": [0], "run": 1000 },
        "free": { "loop": -1, "cpus": [0, 1, 2], "run": 1000 } } } } }"#;
    let (_, scheduler) = find(ID);
    let workload = Arc::new(Workload::parse("test.json", json).unwrap());
    let mut options = Options::new(Machine::parse("3").unwrap(), workload);
    options.duration = Some(12 * SECOND);
    let (mut interrupts, mut history) = (Interrupts::default(), History::default());
    let sinks: Vec<&mut dyn Sink> = vec![&mut interrupts, &mut history];
    simulate(&scheduler, &options, sinks).unwrap();
    let seconds = &interrupts.seconds;
    assert!(seconds[0] > 250 && seconds[10] > 250, "{seconds:?}");
    assert_eq!(seconds[3..8].iter().sum::<u64>(), 0, "{seconds:?}");
    // All three sat on one CPU.
    for hog in ["hog-0", "hog-1", "hog-2"] {
        let share = history.percent(hog, 10 * SECOND, 12 * SECOND);
        assert!(share > 99.0, "{hog} got {share} %");
    }
}

#[test]
fn hogs_spread_over_caches_first() {
    // 2.6.22 gives a cache the power of one CPU, so two hogs on one cache are one too many there; without the level they stay
    let json = r#"{ "tasks": { "hog": { "instance": 2, "phases": {
            "placed": { "loop": 1, "cpus": [0, 1], "run": 50000 },
            "free": { "loop": -1, "cpus": [0, 1, 2, 3], "run": 1000 } } } } }"#;
    let caches = |sched_mc: &str| {
        let (history, _) = run(ID, "pack:1 l3:2 core:2 pu:1", json, 10, &[("sched_mc", sched_mc)]);
        let last = |task| history.runs_of(task, 0, u64::MAX).last().unwrap().cpu / 2;
        last("hog-0") != last("hog-1")
    };
    assert!(caches("true"));
    assert!(!caches("false"));
}

#[test]
fn who_becomes_a_batch_task_loses_its_credit_and_goes_behind() {
    let json = r#"{ "tasks": {
            "sleeper": { "phases": {
                "earns": { "loop": 40, "run": 10000, "sleep": 90000 },
                "spins": { "loop": 1, "policy": "SCHED_BATCH", "run": 1000000 } } },
            "hog": { "run": 1000 } } }"#;
    let (history, _) = run(ID, "1", json, 8, &[]);
    // As an interactive task it would keep the CPU for its whole second; it keeps its priority for the slice that it has
    let longest = history
        .runs_of("sleeper", SECOND, 8 * SECOND)
        .iter()
        .map(|run| run.length())
        .max()
        .unwrap();
    assert!(longest <= 201 * MS, "{longest} ns");
}

/// The experiment of 2008: a parent forks `jobs` children, which wait for it; when all are there it wakes them, and each computes for
/// `length` microseconds. Seconds from a child's first computing to its end.
fn equal_jobs(id: &str, jobs: usize, length: u64) -> Vec<f64> {
    let forks: String =
        (0..jobs).map(|index| format!(r#""fork{index}": "child", "run{index}": 200, "#)).collect();
    let json = format!(
        r#"{{ "tasks": {{
            "parent": {{ "loop": 1, {forks} "sleep": 100000, "resume": "go" }},
            "child": {{ "instance": 0, "loop": 1, "run": 300, "suspend": "go", "run1": {length} }} }} }}"#
    );
    let (history, _) = support::run(id, "1", &json, 2 + jobs as u64 * length / 1_000_000, &[]);
    let names: std::collections::BTreeSet<_> = history
        .runs
        .iter()
        .filter(|run| run.task.starts_with("child"))
        .map(|run| run.task.clone())
        .collect();
    assert_eq!(names.len(), jobs);
    names
        .iter()
        .map(|name| {
            let runs: Vec<_> = history.runs.iter().filter(|run| run.task == *name).collect();
            let begin = runs.windows(2).find(|pair| pair[1].start - pair[0].end > 50 * MS);
            let begin = begin.map_or(runs[0].start, |pair| pair[1].start);
            (runs.last().unwrap().end - begin) as f64 / SECOND as f64
        })
        .collect()
}

fn deviation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / values.len() as f64).sqrt()
}

#[test]
fn equal_jobs_end_farther_apart_than_under_cfs() {
    for jobs in [8, 16, 32] {
        let (o1, cfs) = (equal_jobs(ID, jobs, 537_000), equal_jobs("cfs", jobs, 537_000));
        let (o1, cfs) = (deviation(&o1), deviation(&cfs));
        assert!(cfs <= 0.5 * o1, "{jobs} jobs: {o1:.3} s and {cfs:.3} s under cfs");
    }
}

#[test]
fn who_is_worse_than_an_expired_task_expires_however_interactive() {
    // While one hog of nice 0 has expired and the other has its slice, an interactive task of nice 5 uses up slices.
    let json = r#"{ "tasks": {
        "hog": { "instance": 2, "run": 1000 },
        "interactive": { "priority": 5, "run": 10000, "sleep": 20000 } } }"#;
    let (_, outcome) = run(ID, "1", json, 20, &[]);
    assert!(statistic(ID, &outcome, "expired_starving") > 5);
}

#[test]
fn a_hundred_proofs_of_interactivity_make_credit_last_in_2_6_2() {
    let old = [("release", "2.6.2")];
    let spin = |rests: u32| {
        let json = sleeper(rests, 1000);
        let (history, _) = run(ID, "1", &json, u64::from(rests) + 20, &old);
        history
            .bursts("sleeper", 0, (u64::from(rests) + 20) * SECOND)
            .iter()
            .map(|(start, end)| (end - start) / MS)
            .find(|length| *length > 50)
            .expect("it spins")
    };
    let (few, many) = (spin(20), spin(130));
    assert!(many > 2 * few, "{few} ms after 20 sleeps, {many} after 130");
}

#[test]
fn a_batch_task_wakes_behind_all_and_sleep_earns_it_nothing() {
    let json = |policy: &str| {
        format!(
            r#"{{ "tasks": {{
                "hog": {{ "instance": 2, "run": 1000 }},
                "sleeper": {{ "policy": "{policy}", "priority": -5, "loop": -1, "phases": {{
                    "rest": {{ "sleep": 1000000, "run": 100, "loop": 5 }},
                    "spin": {{ "run": 500000, "loop": 1 }} }} }} }} }}"#
        )
    };
    let (history, outcome) = run(ID, "1", &json("SCHED_BATCH"), 20, &[]);
    assert_eq!(statistic(ID, &outcome, "reinserted_active"), 0);
    // The second sleep ends a second after the end of the first piece of work.
    let runs = history.runs_of("sleeper", 0, 6 * SECOND);
    let work: Vec<&&Run> = runs.iter().filter(|run| run.length() > 0).collect();
    for pair in work.windows(2) {
        let wait = pair[1].start - pair[0].end - SECOND;
        assert!(wait > 5 * MS, "waits {wait} ns for hogs that it would preempt");
    }
    let (_, outcome) = run(ID, "1", &json("SCHED_OTHER"), 20, &[]);
    assert!(statistic(ID, &outcome, "reinserted_active") > 0);
}

#[test]
fn an_equal_does_not_preempt() {
    let json = r#"{ "tasks": {
        "first": { "run": 10000, "loop": 1 },
        "second": { "delay": 5000, "run": 10000, "loop": 1 } } }"#;
    let (history, _) = run(ID, "1", json, 1, &[]);
    let first = history.runs_of("first", 0, SECOND);
    assert_eq!(lengths(&first), [10], "{first:?}");
}

#[test]
fn who_is_woken_by_a_task_that_is_about_to_sleep_lets_it_finish() {
    let json = r#"{ "tasks": {
        "hog": { "cpus": [0], "run": 1000 },
        "sleeper": { "fairground1": { "pipe_read": { "pipe": "p", "bytes": 4 } }, "run": 100 },
        "waker": { "cpus": [1], "priority": 5, "sleep": 9000,
            "fairground1": { "pipe_write": { "pipe": "p", "bytes": 4 } }, "run": 1000 } } }"#;
    let (history, _) = run(ID, "2", json, 5, &[]);
    assert_wakes_behind_itself(&history);
}

#[test]
fn a_parent_that_has_forked_its_slice_away_is_ticked() {
    // 10 ticks of 10 ms: 5, 2, 1 and none are left.
    let json = r#"{ "tasks": {
        "hog": { "run": 1000, "delay": 500 },
        "parent": { "phases": {
            "alone": { "run": 1000, "loop": 1 },
            "forking": { "fork": "child", "loop": 4 },
            "on": { "run": 1000, "loop": -1 } } },
        "child": { "instance": 0, "run": 1000 } } }"#;
    let (history, _) = run(ID, "1", json, 1, &[("hz", "100")]);
    let parent = history.runs_of("parent", 0, SECOND);
    assert!(parent[0].length() < 3 * MS, "{:?}", parent[0]);
}

#[test]
fn a_child_has_most_of_its_parents_bonus() {
    let json = r#"{ "tasks": {
        "hog": { "run": 1000 },
        "parent": { "phases": {
            "rest": { "sleep": 990000, "run": 100, "loop": 8 },
            "forking": { "fork": "child", "loop": 1 },
            "end": { "sleep": 900000000 } } },
        "child": { "instance": 0, "run": 30000, "loop": 1 } } }"#;
    let (history, _) = run(ID, "1", json, 10, &[]);
    let parent = history.runs_of("parent", 0, 10 * SECOND);
    let forked = parent.last().unwrap().end;
    let child = history.child();
    assert!(child.start < forked + MS && child.length() > 25 * MS, "forked at {forked}, {child:?}");
}

#[test]
fn children_without_credit_spoil_that_of_their_parent() {
    let spin = |children: &str| {
        let json = format!(
            r#"{{ "tasks": {{
                "hog": {{ "delay": 9060000, "run": 1000 }},
                "sleeper": {{ "phases": {{
                    "rest": {{ "sleep": 300000, "run": 100, "loop": 30 }},
                    {children}
                    "pause": {{ "sleep": 10000, "loop": 1 }},
                    "spin": {{ "run": 1000, "loop": -1 }} }} }},
                "child": {{ "instance": 0, "policy": "SCHED_BATCH", "run": 1000, "loop": 1 }} }} }}"#
        );
        first_spin(&json, &[])
    };
    let alone = spin("");
    let with = spin(r#""forking": { "fork": "child", "sleep": 5000, "loop": 8 },"#);
    assert!(with < 0.8 * alone, "{alone} ms alone, {with} with children");
}

#[test]
fn yield_makes_way_for_worse_tasks_too() {
    let json = r#"{ "tasks": {
        "hog": { "instance": 3, "run": 1000 },
        "yielder": { "priority": -10, "run": 1000, "yield": "" } } }"#;
    let (history, _) = run(ID, "1", json, 10, &[]);
    let runs = history.runs_of("yielder", 2 * SECOND, 10 * SECOND);
    let gap = gaps(&runs).min();
    assert!(gap.unwrap() > 250 * MS, "{gap:?}");
    let longest = lengths(&runs).into_iter().max();
    assert!(longest.unwrap() <= 2, "{longest:?} ms");
}

/// How often "sleeper" woke up on CPU 1 after the first second, percent: it goes to CPU 0 for its first run after that, and waits as
/// `wait` says for the second.
fn wakes_on_cpu_1(machine: &str, hogs: u32, wait: &str) -> f64 {
    let json = format!(
        r#"{{ "tasks": {{
            "hog": {{ "instance": {hogs}, "priority": 10, "cpus": [0], "run": 1000 }},
            "sleeper": {{ "phases": {{
                "back": {{ "cpus": [0], "run": 100, "loop": 1 }},
                "anywhere": {{ "cpus": [0, 1], {wait}, "run": 100, "loop": 1 }} }} }},
            "waker": {{ "cpus": [1], "sleep": 9000, "sem_post": "s", "run": 300 }} }} }}"#
    );
    let (history, _) = run(ID, machine, &json, 5, &[]);
    let runs = history.runs_of("sleeper", SECOND, 5 * SECOND);
    let there = runs.iter().filter(|run| run.cpu == 1).count();
    assert!(runs.len() > 200, "{} runs", runs.len());
    200.0 * there as f64 / runs.len() as f64
}

#[test]
fn a_woken_task_comes_to_the_cpu_of_its_waker() {
    let wait = r#""sem_wait": "s""#;
    // Four hogs of nice 10 weigh as much as it and its waker.
    assert!(wakes_on_cpu_1("2", 4, wait) > 90.0);
    assert!(wakes_on_cpu_1("2", 1, wait) < 10.0);
    // Between nodes only if the load is that much lower there.
    assert!(wakes_on_cpu_1("numa:2 core:1", 4, wait) > 90.0);
}

#[test]
fn a_task_wakes_on_the_idle_thread_of_its_core() {
    assert!(wakes_on_cpu_1("core:1 pu:2", 1, r#""sleep": 5100"#) > 90.0);
}

#[test]
fn a_child_begins_on_an_idle_node() {
    let json = r#"{ "tasks": {
        "parent": { "phases": {
            "alone": { "run": 20300, "loop": 1 },
            "forking": { "fork": "child", "loop": 1 },
            "on": { "run": 1000, "loop": -1 } } },
        "child": { "instance": 0, "run": 30000, "loop": 1 } } }"#;
    let (history, _) = run(ID, "numa:2 core:1", json, 1, &[]);
    let child = history.child();
    let parent = history.runs.iter().find(|run| run.task == "parent");
    assert_ne!(child.cpu, parent.unwrap().cpu);
    assert!(child.start < 20 * MS + MS / 2, "at {} ns", child.start);
}

#[test]
fn a_child_with_an_address_space_of_its_own_goes_first() {
    let json = r#"{ "tasks": {
        "parent": { "phases": {
            "alone": { "run": 20300, "loop": 1 },
            "forking": { "fork": "child", "loop": 1 },
            "on": { "run": 1000, "loop": -1 } } },
        "child": { "instance": 0, "run": 3000, "loop": 1, "fairground": { "process": "own" } } } }"#;
    let (history, outcome) = run(ID, "1", json, 1, &[]);
    assert_eq!(statistic(ID, &outcome, "children_first"), 1);
    let child = history.child();
    let start = child.start;
    assert!(start < 20 * MS + MS / 2, "at {start} ns");
}

#[test]
fn waiting_for_a_disk_makes_nobody_interactive() {
    let json = |rest: &str| {
        format!(
            r#"{{ "tasks": {{
                "hog": {{ "run": 1000 }},
                "sleeper": {{ "phases": {{
                    "rest": {{ {rest}, "run": 100, "loop": 30 }},
                    "spin": {{ "run": 1000, "loop": -1 }} }} }} }} }}"#
        )
    };
    let timer = first_spin(&json(r#""sleep": 300000"#), &[]);
    let disk = first_spin(&json(r#""fairground1": { "disk": 300000 }"#), &[]);
    assert!(disk < 0.6 * timer, "{disk} ms after disks, {timer} after timers");
}

#[test]
fn busy_cpus_balance_much_more_rarely_than_idle_ones() {
    let balances = |number: u32| {
        let json = hogs(number);
        let (_, outcome) = run(ID, "2", &json, 5, &[]);
        statistic(ID, &outcome, "balances")
    };
    let (idle, busy) = (balances(1), balances(2));
    assert!(idle > 10 * busy, "{idle} with an idle CPU, {busy} without");
}

#[test]
fn who_has_more_takes_nothing_from_who_has_less() {
    let json = hogs(5);
    let (history, _) = run(ID, "2", &json, 20, &[]);
    let late = history.migrations.iter().filter(|(time, _)| *time > 2 * SECOND);
    assert_eq!(late.count(), 0);
}

#[test]
fn who_ran_a_moment_ago_is_taken_to_another_cache_only_after_failures() {
    let json = r#"{ "tasks": { "hog": { "instance": 2, "phases": {
        "placed": { "loop": 41, "cpus": [0], "run": 500, "yield": "" },
        "free": { "loop": -1, "cpus": [0, 1], "run": 500, "yield": "" } } } } }"#;
    let first_move = |machine: &str| {
        let (history, _) = run(ID, machine, json, 1, &[]);
        history.migrations[0].0
    };
    let (other, same) = (first_move("l3:2 core:1"), first_move("l3:1 core:2"));
    assert!(other >= same + 8 * MS, "after {same} ns, to another cache after {other} ns");
}

#[test]
fn a_cpu_that_becomes_idle_and_sees_no_work_for_it_forgets_its_failures() {
    // Each tick CPU 1 finds two tasks on CPU 0, of which the waiting one is cache-hot; in between one of them sleeps, and CPU 1 becomes idle.
    // So it never fails twice in a row. CPU 2 has two tasks that may not leave, or is not there, and no CPU has two then.
    for (machine, pinned) in [
        ("l3:2 core:1", ""),
        ("l3:3 core:1", r#""pinned": { "instance": 2, "cpus": [2], "run": 1000 },"#),
    ] {
        let json = format!(
            r#"{{ "tasks": {{ {pinned}
                "stays": {{ "priority": 1, "phases": {{
                    "placed": {{ "loop": 1, "cpus": [0], "run": 3000 }},
                    "free": {{ "loop": -1, "cpus": [0, 1], "run": 1000 }} }} }},
                "comes": {{ "delay": 700, "phases": {{
                    "placed": {{ "loop": 3, "cpus": [0], "timer": {{ "ref": "c", "period": 1000 }}, "run": 600 }},
                    "free": {{ "loop": -1, "cpus": [0, 1], "timer": {{ "ref": "c", "period": 1000 }}, "run": 600 }} }} }},
                "short": {{ "delay": 400, "cpus": [1], "timer": {{ "ref": "s", "period": 1000 }}, "run": 100 }} }} }}"#
        );
        let (history, _) = run(ID, machine, &json, 1, &[]);
        // Before a slice of theirs has ended.
        for task in ["stays", "comes"] {
            let runs = history.runs_of(task, 10 * MS, 90 * MS);
            assert!(runs.len() > 50, "{task} ran {} times", runs.len());
            assert!(runs.iter().all(|run| run.cpu == 0), "{task} on {machine}");
        }
    }
}

#[test]
fn the_power_of_a_cpu_that_is_left_out_counts_in_the_average() {
    // CPU 0 has the most tasks, and none of them may leave. Without their load but with its power, 4 and 2 tasks are a mean of 2 for a CPU,
    // so the other two stay as they are
    let placed = |cpu: u32| {
        format!(
            r#"{{ "phases": {{
                "placed": {{ "loop": 1, "cpus": [{cpu}], "run": 100000 }},
                "free": {{ "loop": -1, "cpus": [1, 2], "run": 1000 }} }} }}"#
        )
    };
    let tasks: Vec<String> = [1, 1, 1, 1, 2, 2]
        .iter()
        .enumerate()
        .map(|(number, cpu)| format!(r#""free-{number}": {}"#, placed(*cpu)))
        .collect();
    let json = format!(
        r#"{{ "tasks": {{
            "pinned": {{ "instance": 8, "cpus": [0], "run": 1000 }},
            {} }} }}"#,
        tasks.join(",\n            ")
    );
    let (history, _) = run(ID, "3", &json, 20, &[]);
    for (name, share) in [("free-0", 25.0), ("free-3", 25.0), ("free-4", 50.0)] {
        assert_near(history.percent(name, 5 * SECOND, 20 * SECOND), share, 2.0, name);
    }
}

#[test]
fn who_wakes_does_not_interrupt_an_equal() {
    // Neither has a credit for sleep
    let json = r#"{ "tasks": {
        "hog": { "policy": "SCHED_BATCH", "run": 1000 },
        "sleeper": { "policy": "SCHED_BATCH", "run": 100, "sleep": 20000 } } }"#;
    let (_, outcome) = run(ID, "1", json, 10, &[]);
    assert!(statistic(ID, &outcome, "wakeups") > 50);
    assert_eq!(statistic(ID, &outcome, "preemptions"), 0);
}

shows! {
    a_full_credit_holds_the_cpu_for_2_2_seconds:
        assert_near(first_spin(&sleeper(30, 300), &[]), 2200.0, 110.0, "full credit");
    decides_as_its_original: crate::originals::assert_decides_as_original(ID);
    affinity_is_kept_and_nobody_starves: assert_affinity_and_no_starvation(ID, &[("hz", "1000")]);
}
