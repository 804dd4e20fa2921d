//! The Entitlement Based Scheduler shows the features by which it is recognised: shares and their long-run split, the filter and its half life,
//! fork, caps and the sinbin, background tasks, promotion.

use std::sync::Arc;

use crate::support::overhead::Cost;
use crate::support::{
    self, History, MS, Run, SECOND, assert_affinity_and_no_starvation, assert_near,
    assert_nothing_is_lost, assert_shares, assert_wakes_behind_itself, find, outcome_storage, run,
    statistic,
};
use fairground_machine::Machine;
use fairground_simulator::{Options, Outcome, simulate};
use fairground_workload::Workload;

const ID: &str = "ebs";

/// A task's statistics as `struct ebs_task` lays them out.
struct Statistics(Vec<u8>);

impl Statistics {
    fn of(outcome: &Outcome, task: &str) -> Statistics {
        let bytes = outcome_storage(outcome, task, "task_statistics");
        let statistics = Statistics(bytes.to_vec());
        assert_eq!(statistics.word(0), 128, "the length that is documented");
        statistics
    }

    fn word(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.0[offset..offset + 4].try_into().unwrap())
    }

    fn long(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.0[offset..offset + 8].try_into().unwrap())
    }

    fn shares(&self) -> u32 {
        self.word(8)
    }

    fn nice(&self) -> i32 {
        self.word(12) as i32
    }

    /// Estimated usage rate, percent.
    fn usage(&self) -> f64 {
        100.0 * self.long(16) as f64 / f64::from(u32::MAX)
    }

    /// Cap, percent.
    fn cap(&self) -> f64 {
        100.0 * self.long(24) as f64 / f64::from(u32::MAX)
    }

    fn wait_time(&self) -> u64 {
        self.long(56)
    }

    fn sinbin_time(&self) -> u64 {
        self.long(64)
    }

    fn sinbinned(&self) -> u64 {
        self.long(104)
    }

    fn promotions(&self) -> u64 {
        self.long(112)
    }
}

/// A workload of tasks that never sleep: names with the other properties of each.
fn hogs(tasks: &[(&str, &str)]) -> String {
    let tasks: Vec<String> =
        tasks.iter().map(|(name, rest)| format!(r#""{name}": {{ {rest} "run": 1000 }}"#)).collect();
    format!(r#"{{ "tasks": {{ {} }} }}"#, tasks.join(", "))
}

fn shares(number: u32) -> String {
    format!(r#""fairground": {{ "shares": {number} }},"#)
}

fn cap(cap: &str) -> String {
    format!(r#""fairground": {{ "cap": "{cap}" }},"#)
}

/// Shares of hogs on one CPU after the start has been forgotten, percent.
fn split(shares_of: &[u32]) -> Vec<f64> {
    let names: Vec<String> = (0..shares_of.len()).map(|i| format!("t{i}")).collect();
    let attributes: Vec<String> = shares_of.iter().map(|number| shares(*number)).collect();
    let tasks: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(attributes.iter().map(String::as_str)).collect();
    let (history, _) = run(ID, "1", &hogs(&tasks), 160, &[]);
    names.iter().map(|name| history.percent(name, 40 * SECOND, 160 * SECOND)).collect()
}

#[test]
fn nice_values_become_shares_and_shares_nice_values() {
    let by_nice = [
        (-20, 420),
        (-15, 245),
        (-10, 120),
        (-5, 45),
        (-1, 21),
        (0, 20),
        (1, 19),
        (5, 15),
        (10, 10),
        (15, 5),
        (19, 1),
    ];
    for (nice, shares) in by_nice {
        let json = hogs(&[("t", &format!(r#""priority": {nice},"#))]);
        let (_, outcome) = run(ID, "1", &json, 1, &[]);
        assert_eq!(Statistics::of(&outcome, "t").shares(), shares);
    }
    // 100 - 20 = 80 is nearest to 9 squared, 92 - 20 = 72 is 8.49 squared.
    for (number, nice) in [
        (10, 10),
        (1, 19),
        (20, 0),
        (21, -1),
        (22, -1),
        (23, -2),
        (45, -5),
        (92, -8),
        (93, -9),
        (100, -9),
        (420, -20),
    ] {
        let (_, outcome) = run(ID, "1", &hogs(&[("t", &shares(number))]), 1, &[]);
        let statistics = Statistics::of(&outcome, "t");
        assert_eq!((statistics.shares(), statistics.nice()), (number, nice), "{number} shares");
    }
}

#[test]
fn a_renice_replaces_shares_that_were_set() {
    let json = r#"{ "tasks": { "t": { "fairground": { "shares": 60 }, "phases": {
        "first": { "run": 500000, "loop": 1 },
        "then": { "priority": 5, "run": 1000, "loop": -1 } } } } }"#;
    let (_, outcome) = run(ID, "1", json, 2, &[]);
    assert_eq!(Statistics::of(&outcome, "t").shares(), 15);
}

#[test]
fn the_basic_patch_has_shares_by_nice_and_soft_caps_only() {
    let basic = |json: &str| {
        let (_, outcome) = run(ID, "1", json, 20, &[("patch", "basic")]);
        Statistics::of(&outcome, "t")
    };
    // Shares that are set renice the task to the nearest nice value, which gives it 84.
    assert_eq!(basic(&hogs(&[("t", &shares(80))])).shares(), 84);
    assert_eq!(basic(&hogs(&[("t", r#""priority": 5,"#)])).shares(), 15);
    let hard = basic(&hogs(&[("t", &cap("1/4!"))]));
    assert_near(hard.cap(), 100.0, 0.01, "a hard cap");
    assert_eq!(hard.sinbinned(), 0);
    let soft = basic(&hogs(&[("t", &cap("1/4"))]));
    assert_near(soft.cap(), 25.0, 0.01, "a soft cap");
}

#[test]
fn the_long_run_split_is_that_of_the_shares() {
    for (pair, expected) in [
        ([20, 10], 66.7),
        ([20, 1], 95.2),
        ([120, 20], 85.7),
        ([420, 20], 95.5),
        ([420, 1], 99.8),
        ([20, 20], 50.0),
    ] {
        let split = split(&pair);
        // A level is a twentieth of the ratio, so a light task is off by up to two levels
        assert_near(split[0], expected, 2.0, &format!("{pair:?}"));
        assert_near(split[0] + split[1], 100.0, 0.1, "both together");
    }
}

#[test]
fn three_tasks_share_one_to_two_to_three() {
    let split = split(&[20, 40, 60]);
    for (share, expected) in split.iter().zip([100.0 / 6.0, 100.0 / 3.0, 50.0]) {
        assert_near(*share, expected, 2.0, &format!("{split:?}"));
    }
}

#[test]
fn a_slice_has_100_ms_whatever_the_nice_value() {
    for nice in [-10, 0, 10] {
        let priority = format!(r#""priority": {nice},"#);
        let json = hogs(&[("first", &priority), ("second", &priority)]);
        let (history, _) = run(ID, "1", &json, 22, &[]);
        for task in ["first", "second"] {
            let runs = history.runs_of(task, SECOND, 21 * SECOND);
            assert!(runs.len() >= 98, "{task} ran {} times", runs.len());
            for run in runs {
                assert_near(run.milliseconds(), 100.0, 0.1, task);
            }
        }
    }
    let (history, _) =
        run(ID, "1", &hogs(&[("first", ""), ("second", "")]), 5, &[("time_slice", "30 ms")]);
    for run in history.runs_of("first", SECOND, 4 * SECOND) {
        assert_near(run.milliseconds(), 30.0, 0.1, "a set slice");
    }
}

/// A task that loops alone for `seconds` after a sleep of a minute: its usage, percent.
fn usage_after(milliseconds: u64, half_life: &str) -> f64 {
    let json = format!(
        r#"{{ "tasks": {{ "t": {{ "phases": {{
            "rest": {{ "sleep": 61000000, "loop": 1 }},
            "spin": {{ "run": {}, "loop": 1 }},
            "end": {{ "sleep": 900000000 }} }} }} }} }}"#,
        milliseconds * 1000
    );
    let (_, outcome) =
        run(ID, "1", &json, 61 + milliseconds.div_ceil(1000), &[("half_life", half_life)]);
    Statistics::of(&outcome, "t").usage()
}

#[test]
fn half_of_a_step_is_seen_after_the_half_life() {
    for (half_life, factor) in [("5000 ms", 5), ("1000 ms", 1), ("100000 ms", 100)] {
        assert_near(usage_after(1000 * factor, half_life), 50.0, 0.2, half_life);
        assert_near(usage_after(2000 * factor, half_life), 75.0, 0.2, half_life);
    }
    // The ramp-up of a task that was idle.
    for (milliseconds, percent) in
        [(72, 1.0), (370, 5.0), (760, 10.0), (2075, 25.0), (16_610, 90.0)]
    {
        let usage = usage_after(milliseconds, "5000 ms");
        assert_near(usage, percent, 0.05, &format!("{milliseconds} ms"));
    }
}

#[test]
fn the_estimate_of_short_bursts_is_their_mean() {
    // 300 us of every ms, and 10 ms of every 40 ms.
    for (run_for, sleep, percent) in [(300, 700, 30.0), (10_000, 30_000, 25.0)] {
        let json = format!(r#"{{ "tasks": {{ "t": {{ "run": {run_for}, "sleep": {sleep} }} }} }}"#);
        let (_, outcome) = run(ID, "1", &json, 60, &[]);
        let usage = Statistics::of(&outcome, "t").usage();
        assert_near(usage, percent, 0.2, &format!("{run_for} us"));
    }
}

#[test]
fn a_child_starts_with_the_usage_of_its_parent() {
    // The parent has 80 % after 11.6 s of running and forks a child that sleeps: for no time, for 5 s, for 10 s.
    for (sleep, percent) in [(1_000, 80.0), (5_000_000, 40.0), (10_000_000, 20.0)] {
        let json = format!(
            r#"{{ "tasks": {{
            "parent": {{ "phases": {{
                "alone": {{ "run": 11609640, "loop": 1 }},
                "forking": {{ "fork": "child", "loop": 1 }},
                "end": {{ "sleep": 900000000 }} }} }},
            "child": {{ "instance": 0, "phases": {{
                "rest": {{ "sleep": {sleep}, "loop": 1 }},
                "blip": {{ "run": 1, "loop": 1 }},
                "end": {{ "sleep": 900000000 }} }} }} }} }}"#
        );
        let (history, outcome) = run(ID, "1", &json, 23, &[]);
        assert_eq!(statistic(ID, &outcome, "forks"), 1);
        let child = &history.child().task;
        let usage = Statistics::of(&outcome, child).usage();
        assert_near(usage, percent, 0.3, &format!("after {sleep} us"));
    }
}

#[test]
fn a_child_has_the_attributes_of_its_parent() {
    let json = r#"{ "tasks": {
        "parent": { "fairground": { "shares": 60, "cap": "1/2!" }, "phases": {
            "forking": { "run": 1000, "fork": "child", "loop": 1 },
            "end": { "sleep": 900000000 } } },
        "child": { "instance": 0, "run": 1000 } } }"#;
    let (history, outcome) = run(ID, "1", json, 12, &[]);
    let child = history.runs.last().unwrap().task.clone();
    assert!(child.starts_with("child"));
    let statistics = Statistics::of(&outcome, &child);
    assert_eq!(statistics.shares(), 60);
    assert_near(statistics.cap(), 50.0, 0.01, "cap");
    assert!(statistics.sinbinned() > 0);
}

#[test]
fn a_hard_cap_of_a_half_runs_100_ms_and_is_absent_for_99() {
    let (history, outcome) = run(ID, "1", &hogs(&[("t", &cap("1/2!"))]), 60, &[]);
    let bursts = history.bursts("t", 0, u64::MAX);
    // The cap bites once the estimate has reached it.
    assert_near((bursts[0].1 - bursts[0].0) as f64 / MS as f64, 5000.0, 101.0, "first");
    for pair in bursts[1..bursts.len() - 1].windows(2) {
        assert_near((pair[0].1 - pair[0].0) as f64 / MS as f64, 100.0, 1.1, "run");
        assert_near((pair[1].0 - pair[0].1) as f64 / MS as f64, 98.6, 2.0, "absence");
    }
    let percent = history.percent("t", 10 * SECOND, 60 * SECOND);
    assert_near(percent, 50.0, 2.0, "of the CPU");

    let statistics = Statistics::of(&outcome, "t");
    let absent = 60 * SECOND - history.cpu_time("t", 0, 60 * SECOND);
    assert_near(statistics.sinbin_time() as f64 / absent as f64, 1.0, 0.01, "sinbin time");
    assert!(statistics.wait_time() < 10 * MS);
    assert_eq!(statistics.sinbinned(), statistic(ID, &outcome, "sinbinned"));
}

#[test]
fn a_hard_cap_of_a_quarter_holds_in_every_ten_seconds() {
    let (history, _) = run(ID, "1", &hogs(&[("t", &cap("1/4!"))]), 60, &[]);
    // 2.075 s until the estimate is there, to the end of that slice, then until it has decayed.
    for start in (4 * SECOND..50 * SECOND).step_by(73 * MS as usize) {
        let percent = history.percent("t", start, start + 10 * SECOND);
        assert_near(percent, 25.0, 1.01, &format!("from {start}"));
    }
}

#[test]
fn a_hard_cap_holds_among_others_and_lets_them_have_the_rest() {
    let (history, _) = run(ID, "1", &hogs(&[("capped", &cap("1/10!")), ("other", "")]), 60, &[]);
    let percent = history.percent("capped", 20 * SECOND, 60 * SECOND);
    assert_near(percent, 10.0, 1.0, "capped");
    let percent = history.percent("other", 20 * SECOND, 60 * SECOND);
    assert_near(percent, 90.0, 1.0, "the other");
}

#[test]
fn a_tiny_hard_cap_does_not_lose_its_task() {
    // The sinbin of a cap of 1/1000000 would last for 69 s after a slice, and 35 after a forced turn; the watchdog allows 30.
    let (history, outcome) = run(ID, "1", &hogs(&[("t", &cap("1/1000000!"))]), 120, &[]);
    assert!(statistic(ID, &outcome, "overdue") >= 4);
    let bursts = history.bursts("t", 0, u64::MAX);
    for pair in bursts.windows(2) {
        assert!(pair[1].0 - pair[0].1 <= 20_001 * MS, "{pair:?}");
        assert!(pair[1].1 - pair[1].0 <= 2 * MS, "two ticks: {pair:?}");
    }
}

#[test]
fn a_soft_cap_may_be_exceeded_while_the_cpu_would_idle() {
    let (history, outcome) = run(ID, "1", &hogs(&[("t", &cap("1/4"))]), 20, &[]);
    assert_near(history.percent("t", 0, 20 * SECOND), 100.0, 0.1, "alone");
    assert_eq!(statistic(ID, &outcome, "sinbinned"), 0);
    let json = hogs(&[("t", &cap("1/4")), ("hog", "")]);
    let (history, _) = run(ID, "1", &json, 100, &[]);
    let percent = history.percent("t", 40 * SECOND, 100 * SECOND);
    assert_near(percent, 25.0, 5.0, "against one");
    // With a CPU to spare, it is not held back.
    let (history, _) = run(ID, "2", &json, 20, &[]);
    assert_near(history.percent("t", SECOND, 20 * SECOND), 100.0, 0.1, "on its own CPU");
}

#[test]
fn a_background_task_gets_only_what_nobody_wants() {
    for attribute in [r#""background": true"#, r#""cap": "0""#] {
        // The other one runs from 2 s to 32 s without a pause, then for 30 of every 100 ms.
        let json = format!(
            r#"{{ "tasks": {{
            "back": {{ "fairground": {{ {attribute} }}, "run": 1000 }},
            "other": {{ "delay": 2000000, "phases": {{
                "spin": {{ "run": 30000000, "loop": 1 }},
                "pause": {{ "run": 30000, "sleep": 70000, "loop": -1 }} }} }} }} }}"#
        );
        let (history, outcome) = run(ID, "1", &json, 50, &[]);
        assert_near(history.percent("back", 0, 2 * SECOND), 100.0, 0.1, "alone");
        // Two ticks in 20 s, for the watchdog's sake.
        let among = history.cpu_time("back", 2001 * MS, 32 * SECOND);
        assert!(among <= 2 * MS, "{among} ns");
        assert_eq!(statistic(ID, &outcome, "overdue"), 1);
        assert_near(history.percent("back", 33 * SECOND, 50 * SECOND), 70.0, 0.5, "in the pauses");
        assert_near(history.percent("other", 33 * SECOND, 50 * SECOND), 30.0, 0.5, "who pauses");
    }
}

#[test]
fn background_tasks_take_turns() {
    let json = hogs(&[
        ("one", r#""fairground": { "background": true },"#),
        ("two", r#""fairground": { "background": true },"#),
    ]);
    let (history, _) = run(ID, "1", &json, 20, &[]);
    for task in ["one", "two"] {
        assert_near(history.percent(task, 0, 20 * SECOND), 50.0, 1.0, task);
    }
}

/// Waits of a task between its wake-ups (every `period` ms, give or take its wait) and its runs, nanoseconds.
fn waits(history: &History, task: &str, sleep: u64) -> Vec<u64> {
    let runs: Vec<&Run> = history.runs.iter().filter(|run| run.task == task).collect();
    runs.windows(2).map(|pair| (pair[1].start - pair[0].end).saturating_sub(sleep)).collect()
}

#[test]
fn an_interactive_task_among_hogs_does_not_wait() {
    let json = r#"{ "tasks": {
        "hog": { "instance": 5, "run": 1000 },
        "typist": { "run": 900, "sleep": 30000 } } }"#;
    let p99 = |id: &str| {
        let (history, _) = run(id, "1", json, 30, &[]);
        let mut waits = waits(&history, "typist", 30 * MS);
        waits.drain(..waits.len() / 10);
        waits.sort_unstable();
        waits[waits.len() * 99 / 100]
    };
    let ebs = p99(ID);
    assert_eq!(ebs, 0);
    assert!(ebs <= p99("o1") && ebs <= p99("cfs"));
}

#[test]
fn a_new_hog_stays_ahead_while_its_usage_ramps_up() {
    // Defect of the filter: the estimate of a task that was idle needs 100s of ms to tell that it has become a hog.
    let json = r#"{ "tasks": {
        "hog": { "run": 1000 },
        "late": { "delay": 30000000, "run": 1000 } } }"#;
    let (history, _) = run(ID, "1", json, 60, &[]);
    let bursts = history.bursts("late", 0, u64::MAX);
    let first = bursts.iter().find(|burst| burst.0 >= 30 * SECOND).unwrap();
    assert!(first.0 < 30 * SECOND + MS, "it preempts");
    let early = history.percent("late", 30 * SECOND, 33 * SECOND);
    assert!(early > 80.0, "{early} % at first");
    assert_near(history.percent("late", 50 * SECOND, 60 * SECOND), 50.0, 3.0, "later");
}

/// Time from level `from` to level `to` by the table of promotion intervals: 183 ms each, as many as `T(k)` takes, rounded up.
fn promotion_time(from: u32, to: u32) -> f64 {
    let interval = 183.0;
    let steps = (to + 1..=from).map(|k| {
        let time = 5000.0 * (f64::from(k + 1) / f64::from(k)).log2();
        (time / interval).ceil() * interval
    });
    steps.sum()
}

#[test]
fn a_waiting_task_is_promoted_in_the_steps_of_the_filter() {
    // One share has used up a slice and waits for 420 shares, which are far below it in usage per share and come nearer.
    let json = hogs(&[("strong", &shares(420)), ("waiter", &shares(1))]);
    let (history, _) = run(ID, "1", &json, 30, &[]);
    let bursts = history.bursts("waiter", 0, u64::MAX);
    let (first, second) = (bursts[0], bursts[1]);
    let seconds = second.1.div_ceil(SECOND);
    let (_, outcome) = run(ID, "1", &json, seconds, &[]);
    let waited = (second.0 - first.1) as f64 / MS as f64;
    let promotions = Statistics::of(&outcome, "waiter").promotions();
    assert!((5..20).contains(&promotions), "{promotions} levels in {waited} ms");
    // The promotion may be under way for an interval already, and does not preempt.
    let expected = promotion_time(20, 20 - promotions as u32);
    assert!(
        waited >= expected - 183.0
            && waited
                < expected + promotion_time(20 - promotions as u32, 19 - promotions as u32) + 100.0,
        "{promotions} levels in {waited} ms, expected {expected}"
    );
}

#[test]
fn nobody_waits_longer_than_it_takes_to_be_promoted_to_the_best_list() {
    // From 20 s on, a task that has never run before comes every 99 ms, and wants 100 ms: all are of the best level.
    let fresh: Vec<String> = (0..300)
        .map(|i| {
            let delay = 20_000_000 + i * 99_000;
            format!(r#""fresh{i}": {{ "delay": {delay}, "run": 100000, "loop": 1 }}"#)
        })
        .collect();
    let json = format!(r#"{{ "tasks": {{ "waiter": {{ "run": 1000 }}, {} }} }}"#, fresh.join(", "));
    let (history, outcome) = run(ID, "1", &json, 46, &[("starvation_limit", "25000 ms")]);
    assert_eq!(statistic(ID, &outcome, "overdue"), 0);
    let bursts = history.bursts("waiter", 0, u64::MAX);
    assert_near(bursts[0].1 as f64 / MS as f64, 20_000.0, 1.0, "until the first comes");
    // 22.0 s by the formula; rounding up to intervals makes 24. Then those that came to the best list before are first: the ones that have
    // piled up by now, and those that came in the same interval.
    let waited = (bursts[1].0 - bursts[0].1) as f64 / MS as f64;
    assert_near(promotion_time(20, 0), 23_973.0, 0.1, "by the table");
    assert!(waited > 22_000.0 && waited < 23_973.0 + 240.0 + 183.0, "{waited} ms");
    assert_eq!(Statistics::of(&outcome, "waiter").promotions(), 20);
}

#[test]
fn who_runs_before_it_is_due_is_not_promoted() {
    let (_, outcome) = run(ID, "1", &hogs(&[("one", ""), ("two", "")]), 20, &[]);
    assert!(statistic(ID, &outcome, "promotions") < 5);
}

#[test]
fn a_queue_that_is_full_of_waiting_tasks_keeps_its_order() {
    // 400 hogs take 40 s for a round; the first rounds are served from the best list, in order.
    let json = support::hogs(400);
    let (history, outcome) = run(ID, "1", &json, 100, &[]);
    for index in 0..400 {
        let name = format!("hog-{index}");
        let time = history.cpu_time(&name, 0, 100 * SECOND);
        assert!((100 * MS..=500 * MS).contains(&time), "{name}: {time} ns");
    }
    assert!(statistic(ID, &outcome, "overdue") > 0);
}

#[test]
fn hogs_spread_over_idle_cpus_at_once() {
    let json = support::hogs(4);
    for machine in ["4", "numa:2 core:2"] {
        let (history, outcome) = run(ID, machine, &json, 3, &[]);
        assert_shares(&history, 4, SECOND, 3 * SECOND, 100.0, 0.1);
        assert!(statistic(ID, &outcome, "pulled_idle") >= 3);
    }
}

#[test]
fn background_tasks_are_pulled_to_where_nobody_else_is() {
    // All begin on CPU 0.
    let json = hogs(&[("hog", ""), ("back", r#""fairground": { "background": true },"#)]);
    let (history, _) = run(ID, "2", &json, 5, &[]);
    for task in ["hog", "back"] {
        assert_near(history.percent(task, SECOND, 5 * SECOND), 100.0, 0.1, task);
    }
}

#[test]
fn run_queues_that_differ_by_one_take_turns_at_the_longer_one() {
    // The balancer of 2.6.2 moves a task for a difference of one: three hogs share two CPUs.
    let json = support::hogs(3);
    let (history, outcome) = run(ID, "2", &json, 40, &[]);
    assert_shares(&history, 3, 10 * SECOND, 40 * SECOND, 66.7, 10.0);
    // Not at every occasion: the shorter of two lengths counts for others, the longer for the one that pulls.
    let pulled = statistic(ID, &outcome, "pulled_busy");
    assert!((50..200).contains(&pulled), "{pulled}");
}

#[test]
fn scheduling_costs_the_same_for_a_thousand_tasks() {
    // All of it: picking, queueing, and promotions, which move all of a thousand tasks at a time.
    let per_second = |number: u32| {
        let json = support::hogs(number);
        let (_, scheduler) = find(ID);
        let workload = Arc::new(Workload::parse("test.json", &json).unwrap());
        let mut options = Options::new(Machine::parse("1").unwrap(), workload);
        options.hz = 1000;
        let mut cost = |seconds: u64| {
            options.duration = Some(seconds * SECOND);
            let mut cost = Cost::default();
            simulate(&scheduler, &options, vec![&mut cost]).unwrap();
            cost.scheduling as f64
        };
        // The difference of two durations: starting a thousand tasks is not measured. After 20 s they begin to be overdue.
        (cost(19) - cost(5)) / 14.0
    };
    let (ten, thousand) = (per_second(10), per_second(1000));
    assert_near(thousand / ten, 1.0, 0.1, "among 1000 to among 10");
}

#[test]
fn a_usage_rate_fades_by_the_half_life_at_any_time() {
    // 5 s of running leave 50 %; 4.9 s of sleep, a little less than a half life, make that 25.4; then 0.1 s of running.
    let json = r#"{ "tasks": { "t": { "phases": {
        "on": { "run": 5000000, "loop": 1 },
        "off": { "sleep": 4900000, "loop": 1 },
        "again": { "run": 1000, "loop": -1 } } } } }"#;
    let (_, outcome) = run(ID, "1", json, 10, &[]);
    let faded = 50.0 * 0.5_f64.powf(4.9 / 5.0);
    let expected = 100.0 - (100.0 - faded) * 0.5_f64.powf(0.1 / 5.0);
    let usage = Statistics::of(&outcome, "t").usage();
    assert_near(usage, expected, 0.2, "usage");
}

#[test]
fn the_yardstick_fades_after_a_hog_has_left() {
    let json = r#"{ "tasks": {
        "hog": { "run": 20000000, "loop": 1 },
        "light": { "delay": 20000000, "run": 1000, "sleep": 9000 } } }"#;
    let prio = |seconds: u64| {
        let (_, outcome) = run(ID, "1", json, seconds, &[]);
        Statistics::of(&outcome, "light").word(40)
    };
    assert!(prio(21) <= 102, "beside the memory of the hog: {}", prio(21));
    assert!((118..=120).contains(&prio(60)), "later: {}", prio(60));
}

#[test]
fn newcomers_share_equally_as_long_as_the_yardstick_of_a_hog_of_few_shares_stands() {
    let json = format!(
        r#"{{ "tasks": {{
            "hog": {{ {} "run": 20000000, "loop": 1 }},
            "strong": {{ {} "delay": 20000000, "run": 1000 }},
            "weak": {{ {} "delay": 20000000, "run": 1000 }} }} }}"#,
        shares(1),
        shares(40),
        shares(10)
    );
    let (history, _) = run(ID, "1", &json, 120, &[]);
    // Both are at the best level, for the hog's usage per share was ten times the most that the weak one could have.
    let early = history.percent("strong", 20 * SECOND, 24 * SECOND);
    assert_near(early, 50.0, 3.0, "at first");
    let late = history.percent("strong", 80 * SECOND, 120 * SECOND);
    assert_near(late, 80.0, 5.0, "in the long run");
}

#[test]
fn an_equal_does_not_preempt() {
    let json = r#"{ "tasks": {
        "first": { "run": 10000, "loop": 1 },
        "second": { "delay": 5000, "run": 10000, "loop": 1 } } }"#;
    let (history, outcome) = run(ID, "1", json, 1, &[]);
    assert_eq!(statistic(ID, &outcome, "preemptions"), 0);
    let first = history.runs_of("first", 0, SECOND);
    assert_eq!(first.len(), 1, "{first:?}");
    assert_eq!(first[0].length(), 10 * MS);
}

#[test]
fn background_tasks_are_equals() {
    let json = r#"{ "tasks": {
        "hog": { "fairground": { "background": true }, "run": 1000 },
        "sleeper": { "fairground": { "background": true }, "run": 1000, "sleep": 9000 } } }"#;
    let (_, outcome) = run(ID, "1", json, 2, &[]);
    assert!(statistic(ID, &outcome, "wakeups") > 10);
    assert_eq!(statistic(ID, &outcome, "preemptions"), 0);
}

#[test]
fn who_is_woken_by_a_task_that_is_about_to_sleep_comes_to_its_cpu_and_waits_there() {
    let json = r#"{ "tasks": {
        "hog": { "cpus": [0], "run": 1000 },
        "sleeper": { "phases": {
            "begin": { "cpus": [0], "run": 100, "loop": 1 },
            "on": { "cpus": [0, 1], "fairground1": { "pipe_read": { "pipe": "p", "bytes": 4 } }, "run": 100, "loop": -1 } } },
        "waker": { "cpus": [1], "sleep": 9000, "fairground1": { "pipe_write": { "pipe": "p", "bytes": 4 } }, "run": 1000 } } }"#;
    let (history, _) = run(ID, "2", json, 5, &[]);
    assert_wakes_behind_itself(&history);
}

#[test]
fn a_child_gets_half_of_the_slice_and_gives_back_what_it_does_not_use() {
    let json = |parent: &str, child: &str| {
        format!(
            r#"{{ "tasks": {{
                "parent": {{ "phases": {{
                    "alone": {{ "run": 40000, "loop": 1 }},
                    "forking": {{ "fork": "child", {parent}, "loop": 1 }},
                    "end": {{ "sleep": 900000000 }} }} }},
                "child": {{ "instance": 0, {child}, "loop": 1 }} }} }}"#
        )
    };
    // 60 ms are left: 30 each.
    let (history, _) = run(ID, "1", &json(r#""run": 200000"#, r#""run": 200000"#), 1, &[]);
    let bursts = |name: &str| {
        let runs = history.runs.iter().find(|run| run.task.starts_with(name));
        history.bursts(&runs.unwrap().task, 0, u64::MAX)
    };
    let (parent, child) = (bursts("parent")[0], bursts("child")[0]);
    assert_eq!((parent.1 - parent.0) / MS, 70, "parent");
    assert_eq!((child.1 - child.0) / MS, 30, "child");

    // The child leaves after 10 ms, and its 20 let the parent run for 45 in one slice.
    let json = json(r#""sleep": 100000, "run": 45000"#, r#""run": 10000"#);
    let (_, outcome) = run(ID, "1", &json, 1, &[]);
    assert_eq!(statistic(ID, &outcome, "slices_expired"), 0);
}

#[test]
fn a_yield_goes_behind_equals() {
    let json = r#"{ "tasks": {
        "polite": { "run": 100, "yield": "" },
        "hog": { "run": 1000 } } }"#;
    let (history, _) = run(ID, "1", json, 1, &[]);
    let hog = history.runs.iter().find(|run| run.task == "hog").unwrap();
    assert!(hog.start < MS, "the hog waits until {} ns", hog.start);
}

#[test]
fn busy_cpus_level_their_queues_in_one_go_and_leave_a_difference_of_less_than_a_quarter() {
    let (_, outcome) = run(ID, "2", &support::hogs(9), 20, &[]);
    // One by the idle CPU, then half of 8 - 1, and nothing for 5 - 4.
    let pulled = statistic(ID, &outcome, "pulled_busy");
    assert!((1..=4).contains(&pulled), "{pulled}");
}

#[test]
fn busy_cpus_leave_tasks_that_are_cache_hot() {
    // When the balancer looks, every 200 ms, two tasks have been waiting for half a millisecond.
    let json = r#"{ "tasks": {
        "hog": { "cpus": [1], "run": 1000 },
        "brief": { "instance": 3, "delay": 9000, "run": 1000, "timer": { "ref": "unique", "period": 10000 } } } }"#;
    let (_, outcome) = run(ID, "2", json, 10, &[]);
    assert_eq!(statistic(ID, &outcome, "pulled_busy"), 0);
}

#[test]
fn a_cpu_that_runs_out_of_tasks_does_not_wait_for_a_tick() {
    let json = r#"{ "tasks": { "job": { "instance": 30, "run": 5300, "loop": 1 } } }"#;
    let (history, _) = run(ID, "2", json, 1, &[]);
    let end = history.runs.iter().map(|run| run.end).max().unwrap();
    assert!(end < 82 * MS, "{end} ns for 79.5 ms of work on each CPU");
}

shows! {
    affinity_is_kept_and_nobody_starves: assert_affinity_and_no_starvation(ID, &[]);
    a_cpu_that_becomes_idle_pulls_a_waiting_task: assert_nothing_is_lost(ID, 10, &[]);
}
