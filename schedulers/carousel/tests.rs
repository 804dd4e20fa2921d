//! carousel shows the features by which it is recognised: one virtual time for all CPUs without a balancer, switches that are paid for, wakers
//! that are left alone, and turns that end exactly where somebody waits for it.

use crate::support::{
    History, MS, SECOND, assert_near, assert_the_displaced_move,
    assert_time_alone_is_no_debt_elsewhere, hogs_on, ping_pong, run, run_with, run_with_costs,
    statistic,
};
use crate::tests::groups as common;
use fairground_simulator::{CostModel, Outcome};

const ID: &str = "carousel";

crate::tests::groups::groups_tests!(super::ID);
crate::tests::quotas::quotas_tests!(super::ID);

#[test]
fn beside_hogs_of_its_group_a_periodic_task_gets_its_part() {
    let percent = common::a_fifth_beside_eight_hogs(ID);
    // A ninth is 11.1; the kernel's own gives it 10.1
    assert_near(percent, 10.5, 1.0, "percent");
    // Within a quota it is more than the kernel's 92, but not all: its period is a tenth of the quota's
    let served = crate::tests::quotas::served_beside_a_hog(ID);
    assert!((105.0..=200.0).contains(&served), "{served} jobs served within a quota");
}

/// [`run`] with a tick of 4 ms, as most kernels have, which is longer than many turns.
fn run_at_250(
    machine: &str,
    json: &str,
    seconds: u64,
    settings: &[(&str, &str)],
) -> (History, Outcome) {
    run_with(ID, machine, json, seconds, settings, |options| options.hz = 250)
}

/// `number` tasks that never sleep: `hog-0` and so on.
fn hogs(number: usize) -> String {
    format!(r#"{{ "tasks": {{ "hog": {{ "instance": {number}, "run": 1000 }} }} }}"#)
}

/// The furthest that any of `hog-0` to `hog-N` is from its part of a CPU at any multiple of 10 ms, ms.
fn largest_lag(history: &History, number: usize, fair: f64, seconds: u64) -> f64 {
    let mut largest: f64 = 0.0;
    for hog in 0..number {
        for step in 1..seconds * 100 {
            let ran = history.cpu_time(&format!("hog-{hog}"), 0, step * 10 * MS);
            largest = largest.max((ran as f64 / MS as f64 - step as f64 * 10.0 * fair).abs());
        }
    }
    largest
}

#[test]
fn five_hogs_on_four_cpus_are_never_far_apart() {
    let (history, outcome) = run(ID, "4", &hogs(5), 10, &[]);
    let lag = largest_lag(&history, 5, 0.8, 10);
    assert!(lag < 12.0, "{lag:.1} ms");
    assert!(statistic(ID, &outcome, "taken") > 100);
    // Without a bound there is no balancer
    let (history, _) = run(ID, "4", &hogs(5), 10, &[("bound", "10s")]);
    let lag = largest_lag(&history, 5, 0.8, 10);
    assert!(lag > 1000.0, "{lag:.1} ms");
}

#[test]
fn weights_reach_over_all_cpus() {
    let json = r#"{ "tasks": {
        "even": { "instance": 2, "run": 1000 },
        "weak": { "instance": 2, "priority": 5, "run": 1000 },
        "idle": { "policy": "SCHED_IDLE", "run": 1000 } } }"#;
    let (history, _) = run(ID, "2", json, 20, &[]);
    let sum = 2.0 * 1024.0 + 2.0 * 335.0 + 3.0;
    for (name, weight) in
        [("even-0", 1024.0), ("even-1", 1024.0), ("weak-0", 335.0), ("weak-1", 335.0)]
    {
        let share = history.percent(name, 0, 20 * SECOND);
        assert_near(share, 200.0 * weight / sum, 0.5, name);
    }
}

#[test]
fn a_new_nice_value_counts_at_once() {
    // What it asked for as a light task would take a heavy one seconds
    let json = r#"{ "tasks": {
        "hog": { "priority": -20, "delay": 50000, "run": 1000 },
        "changer": { "phases": {
            "light": { "loop": 1, "priority": 7, "run": 10000 },
            "heavy": { "loop": -1, "priority": -20, "run": 1000 } } } } }"#;
    let (history, _) = run(ID, "1", json, 3, &[]);
    let wait = history.longest_wait("changer", 0, 3 * SECOND);
    assert!(wait < 100 * MS, "{} ms", wait / MS);
}

#[test]
fn who_changes_its_class_or_nice_value_all_the_time_does_not_keep_the_cpu() {
    // A change while it runs begins no new request, or none would ever be served
    let changes = [
        r#""heavier": { "loop": 1, "priority": 0, "run": 1000 }, "lighter": { "loop": 1, "priority": 1, "run": 1000 }"#,
        r#""other": { "loop": 1, "policy": "SCHED_OTHER", "run": 1000 }, "batch": { "loop": 1, "policy": "SCHED_BATCH", "run": 1000 },
            "idle": { "loop": 1, "policy": "SCHED_IDLE", "run": 50 }, "fifo": { "loop": 1, "policy": "SCHED_FIFO", "priority": 1, "run": 1000 }"#,
    ];
    for changes in changes {
        let json = format!(
            r#"{{ "tasks": {{ "changer": {{ "phases": {{ {changes} }} }}, "hog": {{ "run": 1000 }} }} }}"#
        );
        let (history, _) = run(ID, "1", &json, 3, &[]);
        let wait = history.longest_wait("hog", 0, 3 * SECOND);
        assert!(wait < 20 * MS, "{} ms", wait / MS);
    }
}

#[test]
fn what_nobody_else_wanted_is_not_held_against_a_task() {
    assert_time_alone_is_no_debt_elsewhere(ID, 100);
    // Nor is it a gain on the CPU itself: those that come later are its equals at once
    let json = r#"{ "tasks": {
        "first": { "cpus": [0], "run": 1000 },
        "late": { "instance": 3, "cpus": [0], "delay": 3000000, "run": 1000 },
        "other": { "instance": 2, "cpus": [1], "run": 1000 },
        "free": { "instance": 2, "run": 1000 } } }"#;
    let (history, _) = run(ID, "2", json, 5, &[]);
    for name in ["first", "late-0", "late-1", "late-2", "other-0", "other-1", "free-0", "free-1"] {
        let share = history.percent(name, 3 * SECOND, 5 * SECOND);
        assert_near(share, 25.0, 1.5, name);
    }
}

/// A CPU that idle tasks have had for 1.5 s, another one with hogs, and tasks that come to the first one and may leave it.
fn after_light_tasks(lights: usize, hogs: usize, late: usize, fifo: &str) -> History {
    let json = format!(
        r#"{{ "tasks": {{ {fifo}
        "light": {{ "policy": "SCHED_IDLE", "instance": {lights}, "cpus": [0], "run": 1000 }},
        "hog": {{ "instance": {hogs}, "cpus": [1], "delay": 1000000, "run": 1000 }},
        "late": {{ "instance": {late}, "delay": 1500000, "phases": {{
            "placed": {{ "loop": 1, "cpus": [0], "run": 5000 }},
            "free": {{ "loop": -1, "cpus": [0, 1], "run": 1000 }} }} }} }} }}"#
    );
    run(ID, "2", &json, 5, &[]).0
}

#[test]
fn who_comes_to_a_cpu_that_light_tasks_have_had_is_not_ahead_of_the_others() {
    for lights in [1, 2] {
        let history = after_light_tasks(lights, 1, 3, "");
        for name in ["hog", "late-0", "late-1", "late-2"] {
            assert_near(history.percent(name, 2 * SECOND, 5 * SECOND), 50.0, 2.0, name);
        }
    }
}

#[test]
fn shares_are_equal_where_real_time_tasks_end_all_turns() {
    // No request of a hog is served without a break: JACK's driver and clients, 0.5 ms of 1.3, beside hogs on two cores of two threads
    let json = r#"{ "tasks": {
        "driver": { "policy": "SCHED_FIFO", "run": 167, "fairground1": { "pipe_write": { "pipe": "a", "bytes": 1 } },
            "fairground2": { "pipe_read": { "pipe": "d", "bytes": 1 } }, "timer": { "ref": "t", "period": 1333 } },
        "first": { "policy": "SCHED_FIFO", "fairground1": { "pipe_read": { "pipe": "a", "bytes": 1 } }, "run": 167,
            "fairground2": { "pipe_write": { "pipe": "b", "bytes": 1 } } },
        "second": { "policy": "SCHED_FIFO", "fairground1": { "pipe_read": { "pipe": "b", "bytes": 1 } }, "run": 167,
            "fairground2": { "pipe_write": { "pipe": "c", "bytes": 1 } } },
        "third": { "policy": "SCHED_FIFO", "fairground1": { "pipe_read": { "pipe": "c", "bytes": 1 } }, "run": 167,
            "fairground2": { "pipe_write": { "pipe": "d", "bytes": 1 } } },
        "hog": { "instance": 5, "run": 1000 } } }"#;
    let (history, _) = run_at_250("core:2 pu:2", json, 3, &[]);
    let shares = history.percents(5, 0, 3 * SECOND);
    let mean = shares.iter().sum::<f64>() / 5.0;
    for share in shares {
        assert_near(share, mean, 3.0, "hog");
    }
}

#[test]
fn who_waits_behind_a_real_time_task_is_taken_however_far_ahead() {
    let fifo =
        r#""fifo": { "policy": "SCHED_FIFO", "cpus": [0], "delay": 2000000, "run": 3000000 },"#;
    let history = after_light_tasks(2, 2, 1, fifo);
    let wait = history.longest_wait("late", 2 * SECOND, 5 * SECOND);
    assert!(wait < 50 * MS, "{} ms", wait / MS);
    // The two that have come to an idle CPU at once, when machine time was far ahead of its own, are equals
    for name in ["hog-0", "hog-1"] {
        assert_near(history.percent(name, SECOND, 2 * SECOND), 50.0, 1.0, name);
    }
}

#[test]
fn who_sleeps_has_a_credit_and_no_more() {
    // It slept for a second, wants 40 ms, and has them in 80 less the credit
    let json = r#"{ "tasks": {
        "hog": { "run": 1000 },
        "sleeper": { "sleep": 1000000, "run": 40000 } } }"#;
    let busy = |settings: &[(&str, &str)]| {
        let (history, _) = run(ID, "1", json, 10, settings);
        history.runs_of("sleeper", 0, 1200 * MS).iter().map(|run| run.end).max().unwrap() / MS
    };
    let (usual, none, much) = (busy(&[]), busy(&[("credit", "0ns")]), busy(&[("credit", "1s")]));
    assert!((1058..=1078).contains(&usual), "{usual} ms");
    assert!(usual < none, "{usual} and {none} ms");
    // What it left to the hog while that was alone is no debt of the hog's, however much credit there is
    assert!(much < usual && much > 1050, "{much} and {usual} ms");
}

#[test]
fn who_usually_runs_briefly_runs_at_once() {
    // One wants less than its share, in small pieces; the other one more
    let json = r#"{ "tasks": {
        "hog": { "instance": 4, "run": 1000 },
        "brief": { "run": 400, "sleep": 9600 },
        "long": { "run": 8000, "sleep": 8000 } } }"#;
    let (history, outcome) = run(ID, "1", json, 20, &[]);
    let latency = |name: &str| {
        let latencies = history.latencies(name, SECOND, 20 * SECOND);
        latencies[latencies.len() * 9 / 10] / 1000
    };
    assert!(latency("brief") < 100, "{} us", latency("brief"));
    // And the other one in turns
    let jobs = history.latencies("long", SECOND, 20 * SECOND).len();
    let turns = history.runs_of("long", SECOND, 20 * SECOND).len();
    assert!(turns > 2 * jobs, "{turns} for {jobs}");
    assert!(statistic(ID, &outcome, "preemptions") > 1500);
}

#[test]
fn who_runs_briefly_comes_before_who_runs_for_long() {
    let json = r#"{ "tasks": {
        "long": { "instance": 2, "run": 4000, "sleep": 4000 },
        "short": { "instance": 2, "run": 400, "sleep": 400 } } }"#;
    let (history, _) = run(ID, "1", json, 10, &[]);
    let latencies = history.latencies("short-0", 0, 10 * SECOND);
    let mean = latencies.iter().sum::<u64>() / latencies.len() as u64 / 1000;
    assert!(mean < 300, "{mean} us");
}

#[test]
fn a_light_task_that_wakes_does_not_wait_for_all_of_its_request() {
    // A request of 1 ms is 68 ms of virtual time
    let json = r#"{ "tasks": {
        "hog": { "run": 1000 },
        "light": { "priority": 19, "run": 1000, "sleep": 100000 } } }"#;
    let (history, _) = run(ID, "1", json, 5, &[]);
    let latencies = history.latencies("light", SECOND, 5 * SECOND);
    let usual = latencies[latencies.len() / 2] / MS;
    assert!(usual < 10, "{usual} ms");
}

#[test]
fn a_switch_is_paid_for() {
    // The waker goes on for long, and the woken one wants 20 us each time, every 100 us: a switch for each would cost more than it brings
    let json = r#"{ "tasks": {
        "waker": { "run": 100, "sem_post": "s" },
        "woken": { "sem_wait": "s", "run": 20 } } }"#;
    let preemptions = |protection: &str| {
        let (_, outcome) = run(ID, "1", json, 2, &[("protection", protection)]);
        statistic(ID, &outcome, "preemptions")
    };
    let (paid, unpaid) = (preemptions("150us"), preemptions("0ns"));
    assert!(unpaid > 5000, "{unpaid}");
    assert!(paid * 3 < unpaid * 2, "{paid} and {unpaid}");
}

#[test]
fn a_waker_that_sleeps_soon_is_left_alone() {
    // It has not had its first 100 us yet
    let json = r#"{ "tasks": {
        "waker": { "sleep": 2000, "run": 80, "sem_post": "s" },
        "woken": { "sem_wait": "s", "run": 1000 } } }"#;
    let (history, _) = run(ID, "1", json, 5, &[]);
    let runs = history.runs_of("waker", SECOND, 5 * SECOND);
    let whole = runs.iter().filter(|run| run.length() >= 80_000).count();
    assert!(whole * 10 > runs.len() * 9, "{whole} of {}", runs.len());
}

#[test]
fn who_wakes_begins_at_once_and_has_no_more_for_it() {
    // It wants more than its share, so it is always ahead of the hogs
    let json = r#"{ "tasks": {
        "hog": { "instance": 2, "run": 1000 },
        "eager": { "run": 3000, "sleep": 1000 } } }"#;
    let (history, _) = run(ID, "1", json, 10, &[]);
    let latencies = history.latencies("eager", SECOND, 10 * SECOND);
    let most = latencies[latencies.len() * 19 / 20] / 1000;
    assert!(most < 100, "{most} us");
    let share = history.percent("eager", SECOND, 10 * SECOND);
    assert_near(share, 33.3, 1.0, "eager");
    // Nor one that sleeps for a moment only
    let json = r#"{ "tasks": { "hog": { "run": 1000 }, "nap": { "run": 155, "sleep": 5 } } }"#;
    let (history, _) = run(ID, "1", json, 5, &[]);
    let share = history.percent("hog", SECOND, 5 * SECOND);
    assert_near(share, 50.0, 2.0, "hog");
}

#[test]
fn who_naps_between_short_bursts_waits_until_the_switch_is_paid_for() {
    let json = r#"{ "tasks": { "hog": { "run": 1000 }, "nap": { "run": 80, "sleep": 5 } } }"#;
    let (history, _) = run(ID, "1", json, 5, &[]);
    // 80 us for each 105 of the hog; if it waited for the end of the hog's turn it would have 11 %
    assert_near(history.percent("nap", SECOND, 5 * SECOND), 43.0, 2.0, "nap");
}

#[test]
fn who_forks_waits_for_its_children() {
    let json = r#"{ "tasks": {
        "parent": { "loop": 1, "phases": { "forks": { "loop": 100, "run": 20, "fork": "child" } } },
        "child": { "instance": 0, "loop": 1, "run": 5000 } } }"#;
    let (history, _) = run(ID, "4", json, 1, &[]);
    let names: std::collections::BTreeSet<&str> =
        history.runs.iter().map(|run| run.task.as_str()).collect();
    assert_eq!(names.len(), 101);
    // None of them sleeps
    let waits = names.iter().flat_map(|name| {
        let runs = history.runs_of(name, 0, SECOND);
        runs.windows(2).map(|pair| pair[1].start - pair[0].end).collect::<Vec<_>>()
    });
    let longest = waits.max().unwrap();
    assert!(longest < 15 * MS, "{} ms", longest / MS);
}

#[test]
fn two_ends_of_a_pipe_share_a_cpu() {
    let json = r#"{ "tasks": {
        "a": { "cpus": [0, 1], "run": 10, "fairground1": { "pipe_write": { "pipe": "p", "bytes": 4 } }, "fairground2": { "pipe_read": { "pipe": "q", "bytes": 4 } } },
        "b": { "cpus": [0, 1], "fairground1": { "pipe_read": { "pipe": "p", "bytes": 4 } }, "run": 10, "fairground2": { "pipe_write": { "pipe": "q", "bytes": 4 } } } } }"#;
    let moves = |protection: &str| {
        let (history, _) = run(ID, "2", json, 1, &[("protection", protection)]);
        let on_first = history.runs.iter().filter(|run| run.cpu == 0).count();
        on_first.min(history.runs.len() - on_first)
    };
    assert!(moves("150us") < 20, "{}", moves("150us"));
    assert!(moves("0ns") > 1000, "{}", moves("0ns"));
}

#[test]
fn a_timer_ends_turns_if_others_wait() {
    // One or two slices, where a tick would end them after 4 ms
    let (history, outcome) = run_at_250("1", &hogs(3), 5, &[]);
    let runs = history.runs_of("hog-0", SECOND, 5 * SECOND);
    let longest = runs.iter().map(|run| run.length()).max().unwrap();
    assert!(longest < 3 * MS / 2, "{longest} ns");
    let alarms = statistic(ID, &outcome, "alarms");
    assert!(alarms > 5_000, "{alarms}");
    let (_, outcome) = run_at_250("1", &hogs(1), 5, &[]);
    assert_eq!(statistic(ID, &outcome, "alarms"), 0);
}

#[test]
fn who_comes_need_not_wait_for_a_tick() {
    // It does not preempt, and where it comes nobody has waited before
    let json = r#"{ "tasks": {
        "hog": { "run": 1000 },
        "other": { "policy": "SCHED_BATCH", "run": 50, "timer": { "ref": "a", "period": 5100 } } } }"#;
    let (history, _) = run_at_250("1", json, 10, &[]);
    let latencies = history.latencies("other", SECOND, 10 * SECOND);
    let longest = latencies.last().unwrap() / 1000;
    assert!(longest < 1_000, "{longest} us");
}

#[test]
fn who_is_not_behind_gets_no_timer_of_its_own() {
    // Ten read what ten write in long turns, and all have had as much
    let json = r#"{ "fairground": { "pipes": { "to*": { "socket": 1 } } }, "tasks": {
        "receiver": { "instance": 10, "loop": 1, "phases": { "all": { "loop": 4000,
            "fairground1": { "pipe_read": { "pipe": "to%i", "bytes": 100 } } } } },
        "sender": { "instance": 10, "loop": 1, "phases": { "all": { "loop": 400,
            "fairground1": { "repeat": { "times": 10, "events": {
                "fairground1": { "pipe_write": { "pipe": "to%j", "bytes": 100 } } } } } } } } } }"#;
    let outcome = run_with_costs(ID, json, 1);
    assert!(outcome.context_switches < 450, "{}", outcome.context_switches);
}

#[test]
fn a_timer_is_set_once_for_each_turn() {
    let outcome = ping_pong(ID, 2);
    // Not for each of the short bursts in it
    let alarms = statistic(ID, &outcome, "alarms");
    assert!(alarms <= 3_000, "{alarms}");
}

#[test]
fn who_wakes_takes_the_cpu_of_the_one_furthest_ahead() {
    // It slept on the CPU of a heavy hog; a light one's deadlines are far away
    let json = r#"{ "tasks": {
        "heavy": { "priority": -10, "cpus": [0], "run": 1000 },
        "light": { "priority": 10, "cpus": [1], "run": 1000 },
        "sleeper": { "phases": {
            "placed": { "loop": 1, "cpus": [0], "run": 1000, "sleep": 1000 },
            "free": { "loop": -1, "cpus": [0, 1], "run": 2000, "sleep": 10000 } } } } }"#;
    let (history, _) = run(ID, "2", json, 10, &[]);
    let share = history.percent("heavy", SECOND, 10 * SECOND);
    assert!(share > 99.0, "{share:.1} %");
    let latencies = history.latencies("sleeper", SECOND, 10 * SECOND);
    let most = latencies[latencies.len() * 9 / 10];
    assert!(most < MS, "{most} ns");
}

/// The work of a task on `phone`, of what its fastest CPUs could do in that time, percent.
fn percent_of_work(history: &History, task: &str, from: u64, to: u64) -> f64 {
    let capacities = [160.0, 160.0, 160.0, 160.0, 498.0, 498.0, 1024.0, 1024.0];
    let runs = history.runs.iter().filter(|run| run.task == task);
    let work = runs.map(|run| {
        let time = run.end.min(to).saturating_sub(run.start.max(from));
        time as f64 * capacities[run.cpu as usize] / 1024.0
    });
    work.sum::<f64>() * 100.0 / (to - from) as f64
}

#[test]
fn who_runs_for_long_gets_a_fast_cpu() {
    let json = r#"{ "tasks": {
        "hog": { "instance": 2, "run": 1000 },
        "sleeper": { "instance": 3, "run": 500, "sleep": 4500 } } }"#;
    let (history, _) = run(ID, "phone", json, 3, &[]);
    for hog in ["hog-0", "hog-1"] {
        let work = percent_of_work(&history, hog, SECOND, 3 * SECOND);
        assert!(work > 99.0, "{hog}: {work:.1} %");
    }
}

#[test]
fn work_is_shared_on_cpus_of_different_speed() {
    // Fewer than there are CPUs, as many, and more
    for (number, whole) in [(5, 3.129), (8, 3.598), (12, 3.598)] {
        let (history, _) = run(ID, "phone", &hogs(number), 5, &[]);
        let fair = whole * 100.0 / number as f64;
        for hog in 0..number {
            let work = percent_of_work(&history, &format!("hog-{hog}"), SECOND, 5 * SECOND);
            assert_near(work, fair, 4.0, &format!("hog-{hog} of {number}"));
        }
    }
}

#[test]
fn no_cpu_idles_while_a_task_waits() {
    let json = r#"{ "tasks": {
        "hog": { "instance": 4, "run": 1000 },
        "nice": { "instance": 2, "priority": 5, "run": 7000, "sleep": 3000 },
        "short": { "instance": 3, "run": 900, "sleep": 11300 } } }"#;
    let (history, outcome) = run(ID, "4", json, 10, &[]);
    let busy: u64 = history.runs.iter().map(|run| run.length()).sum();
    assert_near(busy as f64 / MS as f64, 40_000.0, 5.0, "CPU time");
    let taken = statistic(ID, &outcome, "taken_idle");
    assert!(taken > 10, "{taken}");
    assert_the_displaced_move(ID, 1);
}

#[test]
fn a_free_task_behind_bound_ones_and_a_real_time_task_goes_to_an_idle_cpu() {
    // All start at the same instant and on the same CPU; a hunt found it
    let json = r#"{ "tasks": {
        "fifo": { "policy": "SCHED_FIFO", "run": 1 },
        "bound": { "instance": 2, "cpus": [0], "run": 1 },
        "free": { "run": 1 } } }"#;
    let (history, _) = run(ID, "3", json, 1, &[]);
    let share = history.percent("free", 0, SECOND);
    assert!(share > 99.0, "{share}");
}

#[test]
fn a_free_task_makes_room_for_a_bound_one_beside_an_idle_cpu() {
    // Eight hogs on eight CPUs, one bound and of little weight; a hunt found them on seven
    let json = r#"{ "tasks": {
        "free": { "instance": 7, "phases": { "p": { "run": 1 } } },
        "bound": { "policy": "SCHED_IDLE", "phases": { "p": { "cpus": [7], "run": 1 } } },
        "late": { "timer": { "ref": "t", "period": 1 } } } }"#;
    let (history, _) = run_with(ID, "l3:2 core:4", json, 1, &[], |options| {
        options.hz = 250;
        options.cost = CostModel::default_model();
    });
    let wait = history.longest_wait("bound", 0, SECOND);
    assert!(wait < 50 * MS, "{} ms", wait / MS);
}

#[test]
fn who_is_released_beside_an_idle_cpu_goes_there() {
    let json = r#"{ "tasks": {
        "free": { "phases": {
            "bound": { "loop": 1, "cpus": [0], "run": 30000 },
            "released": { "loop": 100000, "cpus": [0, 1], "run": 1000 } } },
        "stays": { "cpus": [0], "policy": "SCHED_IDLE", "run": 1000 } } }"#;
    let share = run(ID, "2", json, 1, &[]).0.percent("stays", 0, SECOND);
    assert!(share > 94.0, "{share} %");
}

#[test]
fn who_changes_its_mask_all_the_time_does_not_keep_the_cpu() {
    let json = r#"{ "tasks": { "restless": { "instance": 2, "phases": {
        "bound": { "loop": 4, "run": 1 },
        "free": { "cpus": [1], "run": 1 } } } } }"#;
    let (history, _) = run(ID, "2", json, 1, &[]);
    for name in ["restless-0", "restless-1"] {
        let wait = history.longest_wait(name, 0, SECOND);
        assert!(wait < 20 * MS, "{name}: {} ms", wait / MS);
    }
}

#[test]
fn bound_tasks_in_front_do_not_hide_a_free_one() {
    let json = r#"{ "tasks": {
        "bound": { "instance": 40, "cpus": [0], "run": 1000 },
        "other": { "cpus": [1], "run": 5000, "sleep": 5000 },
        "free": { "cpus": [0, 1], "priority": 19, "run": 1000 } } }"#;
    let (history, _) = run(ID, "2", json, 10, &[]);
    let busy: u64 = history.runs.iter().map(|run| run.length()).sum();
    assert_near(busy as f64 / MS as f64, 20_000.0, 5.0, "CPU time");
}

#[test]
fn a_cache_of_many_cpus_has_several_groups() {
    // Tasks that start bound to one CPU of the second group, and are let go; all others idle
    let json = r#"{ "tasks": {
        "hog": { "instance": 131, "phases": {
            "placed": { "loop": 1, "cpus": [70], "run": 100 },
            "free": { "loop": -1, "run": 1000, "cpus": [0,1,2,3,4,5,6,7,8,9,60,61,62,63,64,65,66,67,68,69,70,71,128,129] } } } } }"#;
    let (history, _) = run(ID, "130", json, 1, &[]);
    let cpus: std::collections::BTreeSet<u32> =
        history.runs.iter().filter(|run| run.end > 500 * MS).map(|run| run.cpu).collect();
    assert_eq!(cpus.len(), 24, "{cpus:?}");
}

/// Where tasks may use some CPUs only, a difference cannot spread from cache to cache.
#[test]
fn shares_are_equal_on_cpus_of_far_caches() {
    for (machine, cpus, number, count) in
        [("l3:4 core:4", "[0, 4]", 3, 2.0), ("l3:8 core:2", "[2, 4, 10]", 7, 3.0)]
    {
        let (history, _) = run(ID, machine, &hogs_on(number, cpus), 6, &[]);
        for percent in history.percents(number, SECOND, 6 * SECOND) {
            assert_near(percent, 100.0 * count / number as f64, 1.0, "percent");
        }
    }
}

#[test]
fn who_yields_lets_the_next_one_run() {
    let json = r#"{ "tasks": {
        "polite": { "run": 100, "yield": "" },
        "hog": { "run": 1000 } } }"#;
    let (history, _) = run(ID, "1", json, 5, &[]);
    let runs = history.runs_of("polite", SECOND, 5 * SECOND);
    let short = runs.iter().filter(|run| run.length() < 200_000).count();
    assert!(short * 10 > runs.len() * 9, "{short} of {}", runs.len());
}

#[test]
fn batch_and_idle_tasks_do_not_preempt() {
    let preemptions = |policy: &str| {
        let json = format!(
            r#"{{ "tasks": {{ "hog": {{ "run": 1000 }},
                "sleeper": {{ "policy": "{policy}", "run": 500, "sleep": 9500 }} }} }}"#
        );
        statistic(ID, &run(ID, "1", &json, 5, &[]).1, "preemptions")
    };
    assert!(preemptions("SCHED_OTHER") > 300);
    assert_eq!(preemptions("SCHED_BATCH"), 0);
    assert_eq!(preemptions("SCHED_IDLE"), 0);
}

#[test]
fn nobody_starves() {
    // Beside the heaviest an idle task would wait for minutes
    let json = r#"{ "tasks": {
        "heavy": { "priority": -20, "run": 1000 },
        "idle": { "policy": "SCHED_IDLE", "run": 1000 } } }"#;
    let (history, outcome) = run(ID, "1", json, 60, &[]);
    let wait = history.longest_wait("idle", 0, 60 * SECOND);
    assert!(wait > 14 * SECOND && wait < 17 * SECOND, "{wait} ns");
    assert!(statistic(ID, &outcome, "rescues") >= 2);
}

#[test]
fn hogs_of_a_group_have_turns_as_long_as_others() {
    let tasks = [common::hogs("a", 8, "/a", ""), common::hogs("b", 1, "/b", "")];
    let history = common::history(ID, "1", "", &tasks.join(", "), 2);
    let turns = history.runs.len();
    assert!((1000..2000).contains(&turns), "{turns} turns in 2 s");
}

/// What tasks `a` of a group with this quota run together in each of its periods, least and most, ms.
fn used_in_a_period(hz: u64, hogs: usize, quota: u64, period: u64) -> [f64; 2] {
    let json = format!(
        r#"{{ "tasks": {{ {} }}, "fairground": {{ "groups": {{ "/a": {{ "cpu.max": "{} {}" }} }} }} }}"#,
        common::hogs("a", hogs, "/a", ""),
        quota * 1000,
        period * 1000
    );
    let (history, _) = run_with(ID, "1", &json, 3, &[], |options| options.hz = hz);
    let in_period = |from: u64| {
        let ran = history.runs.iter().map(|run| {
            let end = run.end.min((from + period) * MS);
            end.saturating_sub(run.start.max(from * MS))
        });
        ran.sum::<u64>() as f64 / MS as f64
    };
    let used: Vec<f64> = (1000..3000 - period).step_by(period as usize).map(in_period).collect();
    [used.iter().copied().fold(f64::INFINITY, f64::min), used.iter().copied().fold(0.0, f64::max)]
}

#[test]
fn a_group_uses_its_quota_in_each_period() {
    // Less than a slice: who had a whole one would be held for the period that follows
    let [least, most] = used_in_a_period(1000, 1, 1, 10);
    assert!(least > 0.5 && most < 2.0, "{least} to {most} ms");
    // Seven tasks wait when the first has used it up, and ticks are 10 ms apart
    let [least, most] = used_in_a_period(100, 8, 10, 100);
    assert!(least > 3.0 && most < 14.0, "{least} to {most} ms");
}

#[test]
fn who_is_held_on_the_cpu_of_a_real_time_task_comes_back_with_the_others() {
    let fifo = r#""fifo": { "loop": -1, "run": 1000, "delay": 50000, "cpus": [ 0 ], "policy": "SCHED_FIFO" }"#;
    let groups = r#""/a": { "cpu.max": "20000 100000" }"#;
    let tasks = format!("{}, {fifo}", common::hogs("a", 2, "/a", ""));
    let history = common::history(ID, "2", groups, &tasks, 1);
    for name in ["a-0", "a-1"] {
        let percent = history.percent(name, 150 * MS, 900 * MS);
        assert_near(percent, 10.0, 4.0, name);
    }
}
