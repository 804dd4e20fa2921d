//! ULE shows the features by which it is recognised: the interactivity score, a calendar of batch threads, slices of the statistics clock,
//! placement by warm caches and load, stealing, and a balancer that moves one thread at a time.

use std::collections::BTreeSet;

use crate::support::{
    MS, SECOND, assert_idle_gets_leftovers, assert_kernel_threads_come_first, assert_near,
    assert_shares, assert_the_displaced_move, gaps, hogs, outcome_at, ping_pong, run, statistic,
    two_hogs,
};
use fairground_events::Nanoseconds;

const ID: &str = "ule";

/// Length of a tick of the statistics clock, 1/127 s, in milliseconds.
const STAT_TICK: f64 = 1000.0 / 127.0;

/// Average of a sum that is taken at every tick, between two times.
fn average(
    json: &str,
    from: Nanoseconds,
    to: Nanoseconds,
    settings: &[(&str, &str)],
    sum: &str,
) -> f64 {
    let before = outcome_at(ID, "1", json, from, settings);
    let after = outcome_at(ID, "1", json, to, settings);
    let difference =
        |name| statistic(ID, &after, name) as f64 - statistic(ID, &before, name) as f64;
    difference(sum) / difference("ticks")
}

/// A task that runs for `run` and sleeps for `sleep` milliseconds in turn.
fn periodic(run: u32, sleep: u32) -> String {
    format!(
        r#"{{ "tasks": {{ "periodic": {{ "run": {}, "sleep": {} }} }} }}"#,
        run * 1000,
        sleep * 1000
    )
}

#[test]
fn the_score_is_fifty_times_running_over_sleeping() {
    for (times, expected) in [((10, 90), 5.0), ((30, 70), 21.0), ((40, 60), 33.0)] {
        let json = periodic(times.0, times.1);
        let score = average(&json, 20 * SECOND, 80 * SECOND, &[], "scores");
        assert_near(score, expected, 1.0, &format!("score of {times:?}"));
    }
    let priority = average(&periodic(10, 90), 20 * SECOND, 80 * SECOND, &[], "priorities");
    assert_near(priority, 125.0, 1.0, "priority of 10/90");
}

#[test]
fn below_thirty_is_interactive() {
    let interactive = |run, sleep| {
        average(&periodic(run, sleep), 20 * SECOND, 80 * SECOND, &[], "interactive_ticks")
    };
    assert_near(interactive(35, 65), 1.0, 0.05, "35/65");
    assert_near(interactive(40, 60), 0.0, 0.05, "40/60");
    // Where the border is.
    let border = interactive(37, 63);
    assert!(border > 0.3, "37/63: {border}");
}

#[test]
fn an_editor_is_told_from_a_compiler() {
    let json = r#"{ "tasks": {
        "editor": { "run": 4000, "sleep": 60000 },
        "compiler": { "run": 150000, "sleep": 5000 } } }"#;
    let (history, outcome) = run(ID, "1", json, 40, &[]);
    // Interactive ticks saw the editor's run time.
    let editor = history.cpu_time("editor", 0, 40 * SECOND) as f64 / (STAT_TICK * MS as f64);
    let interactive = statistic(ID, &outcome, "interactive_ticks") as f64;
    assert_near(interactive / editor, 1.0, 0.15, "interactive ticks");
    // It never waits: each sleep lasts 60 ms, and the next run begins at once.
    let runs = history.runs_of("editor", 5 * SECOND, 40 * SECOND);
    assert!(runs.len() > 400, "{}", runs.len());
    for gap in gaps(&runs) {
        assert_eq!(gap, 60 * MS, "{gap} ns");
    }
    // The compiler's bursts are interrupted and go on.
    assert!(history.percent("compiler", 5 * SECOND, 40 * SECOND) > 85.0);
}

#[test]
fn interactive_tasks_starve_a_batch_hog() {
    // Each of the five would use a quarter of the CPU, and waiting counts as neither running nor sleeping.
    let json = r#"{ "tasks": {
        "hog": { "run": 1000 },
        "interactive": { "instance": 5, "phases": {
            "rest": { "sleep": 1000000, "loop": 1 },
            "work": { "run": 20000, "sleep": 60000, "loop": -1 } } } } }"#;
    let (history, outcome) = run(ID, "1", json, 65, &[]);
    let share = history.percent("hog", 5 * SECOND, 65 * SECOND);
    assert!(share < 1.0, "the hog got {share} %");
    // It gets only the slices that keep it from starving for ever.
    assert!(statistic(ID, &outcome, "rescues") >= 3);
    let (history, _) = run(ID, "1", json, 25, &[("starvation_limit", "0")]);
    let share = history.percent("hog", 5 * SECOND, 25 * SECOND);
    assert!(share < 0.1, "without help the hog got {share} %");
}

#[test]
fn two_batch_hogs_switch_every_twelve_ticks() {
    let (history, _) = run(ID, "1", &two_hogs(0, 0), 22, &[]);
    let (from, to) = (2 * SECOND, 22 * SECOND);
    let mut slices = 0;
    for task in ["first", "second"] {
        let runs = history.runs_of(task, from, to);
        slices += runs.len();
        for run in runs {
            assert_near(run.milliseconds(), 12.0 * STAT_TICK, 1.1, task);
        }
    }
    assert_near(slices as f64 / 20.0, 10.6, 0.2, "switches a second");
}

#[test]
fn nice_values_matter_little_among_batch_hogs() {
    for (pair, expected) in [
        ((0, 0), 50.0),
        ((0, 5), 50.0),
        ((0, 10), 50.0),
        ((0, 19), 59.0),
        ((-20, 0), 59.0),
        ((-20, 19), 69.0),
    ] {
        let (history, _) = run(ID, "1", &two_hogs(pair.0, pair.1), 120, &[]);
        let share = history.percent("first", 20 * SECOND, 120 * SECOND);
        assert_near(share, expected, 3.0, &format!("{pair:?}"));
    }
}

#[test]
fn no_batch_hog_starves_another() {
    let json = r#"{ "tasks": {
        "strong": { "instance": 4, "priority": -20, "run": 1000 },
        "weak": { "priority": 19, "run": 1000 } } }"#;
    let (history, outcome) = run(ID, "1", json, 60, &[]);
    let runs = history.runs_of("weak", 2 * SECOND, 60 * SECOND);
    let longest = gaps(&runs).max().unwrap();
    assert!(longest < 3 * SECOND, "{longest} ns");
    assert_eq!(statistic(ID, &outcome, "rescues"), 0);
}

#[test]
fn a_sleeper_that_begins_to_loop_is_interactive_for_two_seconds() {
    let json = r#"{ "tasks": {
        "hog": { "run": 1000 },
        "sleeper": { "phases": {
            "rest": { "sleep": 12000000, "loop": 1 },
            "spin": { "run": 1000, "loop": -1 } } } } }"#;
    let (history, _) = run(ID, "1", json, 20, &[]);
    let first = history.bursts("sleeper", 11 * SECOND, 20 * SECOND)[0];
    let length = (first.1 - first.0) as f64 / SECOND as f64;
    assert_near(length, 2.1, 0.15, "seconds");

    // Alone, its priority can be seen to jump.
    let alone = r#"{ "tasks": { "sleeper": { "phases": {
        "rest": { "sleep": 12000000, "loop": 1 },
        "spin": { "run": 1000, "loop": -1 } } } } }"#;
    let priority = |ms: u64| average(alone, (ms - 20) * MS, ms * MS, &[], "priorities");
    let before = priority(13_900);
    assert!((140.0..=149.0).contains(&before), "{before}");
    let after = priority(14_300);
    assert!((172.0..=203.0).contains(&after), "{after}");
}

#[test]
fn a_batch_priority_follows_cpu_use_and_nice_value() {
    let priority = |nice: i32| {
        let json = format!(r#"{{ "tasks": {{ "hog": {{ "priority": {nice}, "run": 1000 }} }} }}"#);
        average(&json, 20 * SECOND, 21 * SECOND, &[], "priorities")
    };
    assert_near(priority(0), 203.0, 0.1, "172 + 31");
    assert_near(priority(10), 213.0, 0.1, "172 + 31 + 10");
}

/// Seven free hogs on CPU 0, as long as CPU 1 has as much to do; there all tasks but one soon come to an end.
const SEVEN_TO_ONE: &str = r#"{ "tasks": {
    "stays": { "cpus": [1], "run": 1000 },
    "ends": { "instance": 6, "cpus": [1], "run": 200000, "loop": 1 },
    "hog": { "instance": 7, "phases": {
        "there": { "cpus": [0], "run": 100000, "loop": 1 },
        "anywhere": { "cpus": [0, 1], "run": 1000, "loop": -1 } } } } }"#;

/// When threads moved after the last of those tasks had come to its end.
fn moves_after_end(settings: &[(&str, &str)]) -> Vec<Nanoseconds> {
    let (history, _) = run(ID, "2", SEVEN_TO_ONE, 12, settings);
    let ends = history.runs.iter().filter(|run| run.task.starts_with("ends"));
    let end = ends.map(|run| run.end).max().unwrap();
    history.migrations.iter().map(|(time, _)| *time).filter(|time| *time > end).collect()
}

#[test]
fn the_balancer_moves_one_thread_in_each_pass() {
    let moves = moves_after_end(&[("slice", "1")]);
    assert_eq!(moves.len(), 3, "{moves:?}");
    for pair in moves.windows(2) {
        let apart = (pair[1] - pair[0]) as f64 / SECOND as f64;
        assert_near(apart, 1.0, 0.55, "seconds between moves");
    }
}

#[test]
fn an_idle_cpu_steals_at_once() {
    let json = r#"{ "tasks": {
        "ends": { "instance": 2, "cpus": [1], "run": 500000, "loop": 1 },
        "hog-0": { "delay": 100000, "run": 1000 },
        "hog-1": { "delay": 400000, "run": 1000 } } }"#;
    let (history, outcome) = run(ID, "2", json, 5, &[("balance", "false")]);
    assert_eq!(statistic(ID, &outcome, "steals"), 1);
    let end = history.runs.iter().filter(|run| run.task.starts_with("ends"));
    let end = end.map(|run| run.end).max().unwrap();
    for index in 0..2 {
        let name = format!("hog-{index}");
        let share = history.percent(&name, end, 5 * SECOND);
        assert!(share > 99.9, "{name} got {share} %");
    }
    // Without stealing they share one CPU.
    let settings = [("balance", "false"), ("steal_idle", "false")];
    let (history, _) = run(ID, "2", json, 5, &settings);
    assert_near(history.percent("hog-0", end, 5 * SECOND), 50.0, 5.0, "without stealing");
}

#[test]
fn one_of_three_hogs_changes_sides_in_each_pass() {
    let (history, outcome) = run(ID, "2", &hogs(3), 122, &[]);
    assert_shares(&history, 3, 2 * SECOND, 122 * SECOND, 66.7, 10.0);
    let passes = statistic(ID, &outcome, "balance_passes") as f64;
    assert_near(passes, 122.0, 15.0, "passes");
    assert_near(statistic(ID, &outcome, "balanced") as f64 / passes, 1.0, 0.05, "moves in each");
    // Between two passes one has a CPU for itself.
    let shares: Vec<f64> = (0..3)
        .map(|index| {
            let name = format!("hog-{index}");
            (10..110)
                .map(|step| history.percent(&name, step * SECOND, step * SECOND + 400 * MS))
                .fold(0.0, f64::max)
        })
        .collect();
    assert!(shares.iter().all(|share| *share > 99.0), "{shares:?}");
}

#[test]
fn a_sleeper_returns_to_its_last_cpu_if_all_are_idle() {
    for (sleep, affinity) in [(1000, true), (1_000_000, false)] {
        let json = format!(r#"{{ "tasks": {{ "sleeper": {{ "run": 500, "sleep": {sleep} }} }} }}"#);
        let (history, outcome) = run(ID, "4", &json, 60, &[]);
        let cpus: BTreeSet<u32> = history.runs.iter().map(|run| run.cpu).collect();
        assert_eq!(cpus.len(), 1, "sleeping {sleep} us: {cpus:?}");
        // First because the cache is warm, later because its CPU is preferred at equal loads.
        let warm = statistic(ID, &outcome, "pick_affinity");
        assert_eq!(warm > 30, affinity, "sleeping {sleep} us: {warm}");
    }
}

#[test]
fn a_sleeper_whose_cpu_is_busy_goes_to_any_idle_one() {
    let json = r#"{ "tasks": {
        "hog": { "cpus": [0], "run": 1000 },
        "sleeper": { "phases": {
            "there": { "cpus": [0], "run": 100, "loop": 1 },
            "anywhere": { "cpus": [0, 1, 2, 3], "sleep": 5000, "run": 1000, "loop": 1 } } } } }"#;
    let (history, _) = run(ID, "4", json, 30, &[]);
    let runs = history.runs_of("sleeper", SECOND, 30 * SECOND);
    let mut used = [0; 4];
    for run in runs.iter().filter(|run| run.length() >= MS / 2) {
        used[run.cpu as usize] += 1;
    }
    assert_eq!(used[0], 0, "{used:?}");
    let all: u32 = used.iter().sum();
    assert!(all > 100, "{used:?}");
    assert!(used[1..].iter().all(|times| *times > all / 6), "{used:?}");
}

#[test]
fn a_child_knows_half_a_second_and_has_one_tick() {
    let json = r#"{ "tasks": {
        "hog": { "run": 1000 },
        "parent": { "phases": {
            "rest": { "sleep": 12000000, "run": 500000, "loop": 1 },
            "forking": { "fork": "child", "loop": 1 },
            "spin": { "run": 1000, "loop": -1 } } },
        "child": { "instance": 0, "run": 1000 } } }"#;
    let (before, after) =
        (outcome_at(ID, "1", json, 12 * SECOND, &[]), outcome_at(ID, "1", json, 14 * SECOND, &[]));
    let history_ms =
        statistic(ID, &after, "forked_history") - statistic(ID, &before, "forked_history");
    assert!((400..=1000).contains(&history_ms), "{history_ms} ms");
    let (history, _) = run(ID, "1", json, 16, &[]);
    let child = history.child();
    assert!(child.milliseconds() <= STAT_TICK + 1.1, "{child:?}");
}

#[test]
fn a_batch_yielder_runs_again_at_once() {
    let json = r#"{ "tasks": { "yielder": { "instance": 2, "run": 1000, "yield": "" } } }"#;
    let (history, outcome) = run(ID, "1", json, 5, &[]);
    assert!(statistic(ID, &outcome, "yields") > 2000);
    let runs = history.runs_of("yielder-0", SECOND, 5 * SECOND);
    let longest = runs.iter().map(|run| run.length()).max().unwrap();
    assert!(longest > 50 * MS);
}

#[test]
fn a_thread_that_runs_between_the_ticks_is_interactive_at_any_load() {
    // A clock of 100 Hz, and bursts of 7 ms that begin at the same time within each of its periods.
    let share = |delay: u32| {
        let json = format!(
            r#"{{ "tasks": {{
                "hog": {{ "run": 1000 }},
                "periodic": {{ "phases": {{
                    "rest": {{ "sleep": 1000000, "run": 100, "loop": 1 }},
                    "shift": {{ "sleep": {delay}, "loop": 1 }},
                    "work": {{ "run": 7000, "timer": {{ "ref": "t", "period": 10000 }},
                        "loop": -1 }} }} }} }} }}"#
        );
        let (history, _) = run(ID, "1", &json, 10, &[("stathz", "100")]);
        history.percent("periodic", 5 * SECOND, 10 * SECOND)
    };
    let seen: Vec<f64> = (0..10).map(|step| share(1000 + step * 1000)).collect();
    assert!(seen.iter().any(|share| *share > 69.0), "{seen:?}");
    assert!(seen.iter().any(|share| *share < 60.0), "{seen:?}");
}

#[test]
fn a_thread_that_wakes_another_cpus_batch_thread_does_not_interrupt_it() {
    // The sleeper may only use CPU 1, and its waker runs on CPU 0; both are batch.
    let json = r#"{ "tasks": {
        "hog": { "cpus": [1], "run": 1000 },
        "waker": { "cpus": [0], "run": 30000, "sem_post": "work", "run0": 130000 },
        "worker": { "cpus": [1], "sem_wait": "work", "run": 60000 } } }"#;
    let (history, outcome) = run(ID, "2", json, 20, &[]);
    assert_eq!(statistic(ID, &outcome, "preemptions"), 0);
    // Though it wakes up again and again.
    let wakeups = history.runs_of("worker", 2 * SECOND, 20 * SECOND).len();
    assert!(wakeups > 50, "{wakeups}");
}

/// A batch thread that wakes another one on its CPU, and both run for long.
const WAKES_BATCH: &str = r#"
    "worker": { "sem_wait": "work", "run": 60000 },
    "waker": { "run": 1000, "sem_post": "work", "run0": 130000 }"#;

#[test]
fn a_batch_thread_with_slice_left_goes_on_when_another_wakes_on_its_cpu_but_not_in_release_8() {
    let json = format!(r#"{{ "tasks": {{ {WAKES_BATCH} }} }}"#);
    let at_once = |release| {
        let (history, _) = run(ID, "1", &json, 20, &[("release", release)]);
        let waits = history.latencies("worker", 2 * SECOND, 20 * SECOND);
        waits.iter().filter(|wait| **wait < MS).count()
    };
    assert_eq!(at_once("9.3"), 0);
    assert!(at_once("8.0") > 50, "{}", at_once("8.0"));
}

#[test]
fn a_woken_batch_thread_interrupts_one_that_keeps_better_ones_waiting() {
    // A new thread waits in the real-time queue until it runs.
    let json = format!(r#"{{ "tasks": {{ {WAKES_BATCH}, "new": {{ "run": 1000 }} }} }}"#);
    let (history, _) = run(ID, "1", &json, 1, &[]);
    assert_eq!(history.runs_of("new", 0, SECOND)[0].start, MS);
}

/// How often, of two interactive tasks that wait for the same CPU, the one of score 4 comes before the one of score 5, which has
/// always woken up just before it.
fn better_comes_first() -> f64 {
    let json = r#"{ "tasks": {
        "waker": { "timer": { "ref": "t", "period": 100000 }, "run0": 1000, "sem_post0": "worse", "sem_post1": "better",
            "run1": 2000 },
        "worse": { "sem_wait": "worse", "run": 9500 },
        "better": { "sem_wait": "better", "run": 7700 } } }"#;
    let (history, _) = run(ID, "1", json, 40, &[("stathz", "1000")]);
    let (mut first, mut all) = (0, 0);
    for period in 100..390 {
        // At the end of a period all of them sleep.
        let from = (period * 100 + 50) * MS;
        let start = |name| {
            let runs = history.runs.iter().filter(|run| run.task == name);
            let mut starts = runs.map(|run| run.start);
            starts.find(|start| (from..from + 100 * MS).contains(start))
        };
        if let (Some(better), Some(worse)) = (start("better"), start("worse")) {
            all += 1;
            first += u32::from(better < worse);
        }
    }
    assert!(all > 200, "{all}");
    f64::from(first) / f64::from(all)
}

/// How often of two hogs the one goes on that a thread which woke on their CPU has made leave it.
fn goes_on() -> f64 {
    let json = r#"{ "tasks": { "hog": { "instance": 2, "run": 1000 },
        "interactive": { "run": 500, "timer": { "ref": "t", "period": 17000 } } } }"#;
    let (history, _) = run(ID, "1", json, 20, &[]);
    let mut times: Vec<_> = history.runs.iter().filter(|run| run.start > 5 * SECOND).collect();
    times.sort_by_key(|run| run.start);
    let (mut same, mut all) = (0, 0);
    for three in times.windows(3) {
        if three[1].task == "interactive" {
            all += 1;
            same += u32::from(three[0].task == three[2].task);
        }
    }
    assert!(all > 500, "{all}");
    f64::from(same) / f64::from(all)
}

/// Of the two hogs that wait on CPU 1 when CPU 0 runs out of work: whether the one that is stolen has waited for longer.
fn longest_waiter_is_stolen(policy: &str, milliseconds: u32) -> bool {
    let json = format!(
        r#"{{ "tasks": {{
            "ends": {{ "instance": 4, "cpus": [0], "run": {milliseconds}000, "loop": 1 }},
            "hog": {{ "policy": "{policy}", "instance": 3, "phases": {{
                "there": {{ "cpus": [1], "run": 400000, "loop": 1 }},
                "anywhere": {{ "cpus": [0, 1], "run": 1000, "loop": -1 }} }} }} }} }}"#
    );
    let (history, _) = run(ID, "2", &json, 4, &[("balance", "false")]);
    let (time, stolen) = history.migrations.iter().find(|(time, _)| *time > SECOND).unwrap();
    let last_ran = |task: &str| {
        let runs = history.runs.iter().filter(|run| run.task == task);
        runs.map(|run| run.end).filter(|end| end <= time).max()
    };
    let running = |task: &str| {
        let mut runs = history.runs.iter().filter(|run| run.task == task);
        runs.any(|run| run.start <= *time && run.end > *time && run.cpu == 1)
    };
    let names = (0..3).map(|index| format!("hog-{index}"));
    let waits: Vec<_> = names.filter(|name| name != stolen && !running(name)).collect();
    assert_eq!(waits.len(), 1, "{waits:?}");
    last_ran(stolen) < last_ran(&waits[0])
}

#[test]
fn the_first_thread_of_the_calendar_is_stolen_unless_the_lists_numbers_begin_anew_behind_it() {
    let stolen =
        |policy| (0..16).filter(|step| longest_waiter_is_stolen(policy, 500 + 23 * step)).count();
    assert!((8..16).contains(&stolen("SCHED_OTHER")), "{}", stolen("SCHED_OTHER"));
    assert_eq!(stolen("SCHED_IDLE"), 16);
}

#[test]
fn a_cpu_that_had_no_thread_so_far_runs_the_one_that_it_steals() {
    // CPUs 0 and 2 begin to have an interactive thread waiting at once that may leave, and CPU 3 steals from its neighbour.
    let pair = |name: &str, cpu: u32| {
        let task = |cpus: &str| {
            format!(
                r#"{{ "cpus": [{cpu}], "phases": {{
                    "rest": {{ "loop": 2, "cpus": [{cpu}], "run": 1000, "sleep": 1000000 }},
                    "work": {{ "loop": -1, "cpus": {cpus}, "run": 1000 }} }} }}"#
            )
        };
        let (free, bound) = (task(&format!("[{cpu}, 3]")), task(&format!("[{cpu}]")));
        format!(r#""{name}": {free}, "beside-{name}": {bound}"#)
    };
    let json = format!(r#"{{ "tasks": {{ {}, {} }} }}"#, pair("far", 0), pair("near", 2));
    let (history, _) = run(ID, "l3:2 core:2", &json, 3, &[("balance", "false")]);
    let first = history.runs.iter().find(|run| run.cpu == 3).unwrap();
    assert_eq!(first.task, "near", "{first:?}");
}

#[test]
fn four_priorities_share_a_list() {
    assert!(better_comes_first() < 0.1);
}

#[test]
fn a_choice_that_would_change_nothing_is_not_asked_for() {
    // Each wakes the other and goes on for a moment; both have the same list
    let outcome = ping_pong(ID, 1);
    let asked = statistic(ID, &outcome, "reschedules");
    assert!(asked < outcome.context_switches / 10, "{asked}");
}

#[test]
fn who_is_preempted_goes_on_before_all_others() {
    assert!(goes_on() > 0.8);
}

#[test]
fn the_calendar_turns_by_a_list_at_each_tick() {
    let steps = average(&hogs(1), SECOND, 9 * SECOND, &[], "calendar_steps");
    assert_near(steps, 1.0, 0.01, "lists");
}

#[test]
fn cpu_use_of_a_young_thread_is_that_of_a_second() {
    let young = average(&hogs(1), 100 * MS, 200 * MS, &[], "priorities");
    assert_near(young, 172.0 + 5.0, 2.0, "0.2 s of one");
}

#[test]
fn a_long_sleep_halves_the_history() {
    // 2.5 s of running and 4 s of sleeping: half of each is remembered.
    let json = r#"{ "tasks": { "hog": { "phases": {
        "once": { "loop": 1, "run": 2500000, "sleep": 4000000 },
        "then": { "loop": -1, "run": 1000 } } } } }"#;
    let score = average(json, 6510 * MS, 6600 * MS, &[], "scores");
    assert_near(score, 32.0, 4.0, "score");
}

#[test]
fn a_parent_pays_for_what_its_child_has_run() {
    let json = r#"{ "tasks": {
        "parent": { "phases": {
            "forking": { "loop": 1, "run": 1000, "fork": "child", "sleep": 690000 },
            "spinning": { "loop": -1, "run": 1000 } } },
        "child": { "instance": 0, "loop": 1, "run": 600000, "fairground": { "process": "child" } } } }"#;
    let score = average(json, 700 * MS, 720 * MS, &[], "scores");
    assert_near(score, 44.0, 4.0, "score");
}

#[test]
fn who_wakes_up_prefers_a_cpu_that_runs_something_worse_to_one_with_less_load() {
    // From 10 s on CPU 0 has one thread, more interactive than the light one, and CPU 1 two hogs.
    let json = r#"{ "tasks": {
        "burst": { "cpus": [0], "loop": 1, "sleep": 10000000, "run": 400000 },
        "hog": { "instance": 2, "cpus": [1], "run": 1000 },
        "light": { "run": 500, "sleep": 4500 } } }"#;
    let (history, _) = run(ID, "2", json, 11, &[]);
    let runs = history.runs_of("light", 10_010 * MS, 10_350 * MS);
    let there = runs.iter().filter(|run| run.cpu == 1).count();
    assert!(there > 50, "{there} of {}", runs.len());
}

#[test]
fn a_batch_thread_that_slept_has_the_best_place_in_the_calendar() {
    let json = r#"{ "tasks": {
        "hog": { "instance": 5, "run": 1000 },
        "sleeper": { "run": 60000, "sleep": 60000 } } }"#;
    let (history, _) = run(ID, "1", json, 40, &[]);
    let runs = history.runs_of("sleeper", 5 * SECOND, 40 * SECOND);
    let gaps: Vec<f64> =
        runs.windows(2).map(|pair| (pair[1].start - pair[0].end) as f64 / MS as f64).collect();
    // 60 ms of sleep, and not five slices of 94 ms on top every time.
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    assert!(mean < 300.0, "{mean} ms, {gaps:?}");
}

#[test]
fn who_has_got_a_thread_gives_none_away_in_that_pass() {
    let json = r#"{ "tasks": { "hog": { "instance": 8, "phases": {
        "together": { "cpus": [0], "run": 1000, "loop": 1 },
        "free": { "cpus": [0, 1, 2, 3], "run": 1000, "loop": -1 } } } } }"#;
    let (_, outcome) = run(ID, "4", json, 4, &[("steal_idle", "false")]);
    let passes = statistic(ID, &outcome, "balance_passes");
    let moved = statistic(ID, &outcome, "balanced");
    assert!(passes >= 3 && moved <= passes, "{moved} in {passes} passes from the only loaded CPU");
}

#[test]
fn an_interactive_yielder_gives_way_to_an_equal() {
    let json = r#"{ "tasks": {
        "yielder": { "timer": { "ref": "t", "period": 100000 }, "sem_post": "work", "run0": 2000, "yield": "",
            "run1": 2000 },
        "worker": { "sem_wait": "work", "run": 6000 } } }"#;
    let (history, _) = run(ID, "1", json, 10, &[]);
    let runs = history.runs_of("yielder", 2 * SECOND, 10 * SECOND);
    let whole = runs.iter().filter(|run| run.milliseconds() > 3.0).count();
    assert!(runs.len() > 150 && whole == 0, "{whole} of {}", runs.len());
}

#[test]
fn a_nice_value_counts_at_once() {
    // Both are interactive. The first has the better score, but is nicer for 5 ms when the second wakes up.
    let json = r#"{ "tasks": {
        "renicer": { "phases": {
            "wakes": { "loop": 1, "timer": { "ref": "a", "period": 100000 }, "run": 1000 },
            "nicer": { "loop": 1, "priority": 15, "run": 5000 },
            "ends": { "loop": 1, "priority": 0, "run": 10 } } },
        "second": { "delay": 3000, "timer": { "ref": "b", "period": 100000 }, "run": 10000 } } }"#;
    let (history, _) = run(ID, "1", json, 10, &[]);
    let runs = history.bursts("second", SECOND, 10 * SECOND);
    assert!(runs.len() > 80, "{}", runs.len());
    for (start, _) in runs {
        assert_eq!(start % (100 * MS), 3 * MS, "{start}");
    }
}

#[test]
fn in_release_8_the_balancer_gives_half_of_the_difference() {
    let json = r#"{ "tasks": { "hog": { "instance": 8, "phases": {
        "here": { "cpus": [0], "run": 20000, "loop": 1 },
        "anywhere": { "cpus": [0, 1], "run": 1000, "loop": -1 } } },
        "other": { "cpus": [1], "run": 1000 } } }"#;
    // A thread that was moved migrates when it runs, and passes are 0.5 s apart or more.
    let moved = |release| {
        let (history, _) = run(ID, "2", json, 3, &[("release", release)]);
        let times: Vec<_> = history.migrations.iter().map(|(at, _)| *at).collect();
        let first = times.iter().copied().find(|at| *at > 700 * MS).unwrap();
        times.iter().filter(|at| (first..first + 450 * MS).contains(at)).count()
    };
    assert_eq!(moved("9.3"), 1);
    assert_eq!(moved("8.0"), 4);
}

#[test]
fn in_release_8_a_thread_returns_to_its_idle_cpu_beside_a_busy_thread_of_the_core() {
    let json = r#"{ "tasks": {
        "hog": { "cpus": [0], "run": 1000 },
        "sleeper": { "phases": {
            "there": { "cpus": [1], "run": 100, "sleep": 20000, "loop": 5 },
            "anywhere": { "cpus": [0, 1, 2, 3], "run": 100, "sleep": 20000, "loop": -1 } } } } }"#;
    let stays = |release| {
        let (history, _) = run(ID, "core:2 pu:2", json, 2, &[("release", release)]);
        history.runs_of("sleeper", SECOND, 2 * SECOND).iter().all(|run| run.cpu == 1)
    };
    assert!(!stays("9.3"));
    assert!(stays("8.0"));
}

#[test]
fn in_release_8_cpu_use_has_24_steps() {
    let priority = |release| {
        let json = r#"{ "tasks": { "hog": { "run": 1000 } } }"#;
        let (_, outcome) = run(ID, "1", json, 20, &[("release", release)]);
        let sum = |name| statistic(ID, &outcome, name) as f64;
        sum("priorities") / sum("ticks")
    };
    assert_near(priority("9.3"), 152.0 + 20.0 + 31.0, 1.0, "most CPU use of 9.3");
    assert_near(priority("8.0"), 160.0 + 20.0 + 21.5, 0.3, "most CPU use of 8.0");
}

shows! {
    a_task_displaced_by_real_time_goes_on_at_an_idle_cpu: assert_the_displaced_move(ID, 20);
    an_idle_thread_gets_what_nobody_else_wants: assert_idle_gets_leftovers(ID);
    kernel_threads_come_first: assert_kernel_threads_come_first(ID);
    decides_as_its_original: crate::originals::assert_decides_as_original(ID);
}
