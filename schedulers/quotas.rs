//! `cpu.max` takes effect as under Linux 7.3.4, on which each expected figure was measured, in virtual time, with the same loads: tests of each
//! scheduler that has quotas.

use super::groups::{history, hogs, percents, periodic};
use crate::support::{History, MS, SECOND, assert_near};

/// Checks the shares of tasks, in percent of a CPU, within a point for each CPU.
fn assert_gets(id: &str, cpus: usize, groups: &str, tasks: &[String], expected: &[(&str, f64)]) {
    let names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    let found = percents(id, &cpus.to_string(), groups, &tasks.join(", "), 5, &names);
    for ((name, expected), found) in expected.iter().zip(found) {
        let what = format!("{name} on {cpus} CPUs with {groups}, percent");
        assert_near(found, *expected, cpus as f64, &what);
    }
}

pub fn a_group_gets_its_quota_however_many_tasks_it_has(id: &str) {
    for (cpus, quota, number, expected) in [
        (1, 20, 1, 20.0),
        (1, 20, 4, 20.0),
        (1, 50, 1, 50.0),
        (1, 50, 4, 50.0),
        (4, 20, 1, 20.0),
        (4, 20, 4, 20.0),
        (4, 50, 1, 50.0),
        (4, 50, 4, 50.0),
        (4, 150, 1, 100.0),
        (4, 150, 4, 149.9),
    ] {
        let groups = format!(r#""/a": {{ "cpu.max": "{quota}000 100000" }}"#);
        assert_gets(id, cpus, &groups, &[hogs("a", number, "/a", "")], &[("a", expected)]);
    }
    let short = r#""/a": { "cpu.max": "2000 10000" }"#;
    assert_gets(id, 1, short, &[hogs("a", 1, "/a", "")], &[("a", 20.0)]);
}

pub fn others_get_what_a_quota_leaves(id: &str) {
    let tasks = |number| [hogs("a", number, "/a", ""), hogs("b", number, "/b", "")];
    let fifth = r#""/a": { "cpu.max": "20000 100000" }"#;
    assert_gets(id, 1, fifth, &tasks(1), &[("a", 20.0), ("b", 80.0)]);
    let more = r#""/a": { "cpu.max": "150000 100000" }"#;
    assert_gets(id, 4, more, &tasks(4), &[("a", 150.4), ("b", 249.5)]);
}

pub fn every_level_is_charged(id: &str) {
    let tasks = |number| [hogs("x", number, "/a/x", ""), hogs("y", number, "/a/y", "")];
    let inner = r#""/a": { "cpu.max": "50000 100000" }, "/a/x": { "cpu.max": "20000 100000" }"#;
    assert_gets(id, 1, inner, &tasks(1), &[("x", 20.0), ("y", 30.0)]);
    let outer = r#""/a": { "cpu.max": "20000 100000" }, "/a/x": { "cpu.max": "50000 100000" }"#;
    assert_gets(id, 1, outer, &tasks(1), &[("x", 10.2), ("y", 9.8)]);
    let four = r#""/a": { "cpu.max": "150000 100000" }, "/a/y": { "cpu.max": "50000 100000" }"#;
    assert_gets(id, 4, four, &tasks(4), &[("x", 100.0), ("y", 50.0)]);
}

/// Tasks on one CPU whose group `/a` has these settings.
fn limited(id: &str, settings: &str, tasks: &[String], seconds: u64) -> History {
    let groups = format!(r#""/a": {{ {settings} }}"#);
    history(id, "1", &groups, &tasks.join(", "), seconds)
}

pub fn the_use_of_a_quota_is_told_although_another_group_runs_to_the_end(id: &str) {
    let tasks = [hogs("a", 1, "/a", ""), hogs("b", 1, "/b", "")];
    let history = limited(id, r#""cpu.max": "20000 100000""#, &tasks, 2);
    let [used] = history.quotas[..] else { panic!("{:?}", history.quotas) };
    assert_eq!(used.periods, 20);
    assert!(used.throttled_periods >= 19, "{used:?}");
}

/// Jobs of `p` that are complete from the first second to this one: it has run for their length.
fn served(history: &History, run: u64, seconds: u64) -> f64 {
    let ran = history.cpu_time("p", SECOND, seconds * SECOND);
    ran as f64 / (run * 1000) as f64
}

const FIFTH: &str = r#""cpu.max": "20000 100000""#;

pub fn a_task_within_its_quota_is_not_throttled(id: &str) {
    let tasks = [periodic("p", "/a", 3000, 10_000)];
    let half = limited(id, r#""cpu.max": "50000 100000""#, &tasks, 3);
    assert_near(served(&half, 3000, 3), 200.0, 2.0, "jobs served");
    assert_eq!(half.quotas[0].throttled_periods, 0);
    let fifth = limited(id, FIFTH, &tasks, 3);
    assert_near(served(&fifth, 3000, 3), 132.5, 13.0, "jobs served");
    let used = fifth.quotas[0];
    assert_near(used.periods as f64, 30.0, 1.0, "periods");
    assert_near(used.throttled_periods as f64, 30.0, 1.0, "throttled periods");
}

pub fn the_time_of_throttling_is_that_of_all_cpus(id: &str) {
    let four = history(id, "4", &format!(r#""/a": {{ {FIFTH} }}"#), &hogs("a", 4, "/a", ""), 5);
    let used = four.quotas[0];
    // Four CPUs have 400 ms per period. That of the last throttling is not counted before its end.
    let total = 380.0 * used.throttled_periods as f64;
    let found = used.throttled as f64 / MS as f64;
    assert!(
        (total - 400.0..=total).contains(&found),
        "{found} ms throttled in {} periods",
        used.throttled_periods
    );
}

/// Of 400 jobs of a task, those served beside a hog of its group with a fifth of the CPU: 200 if each has its half of that.
pub fn served_beside_a_hog(id: &str) -> f64 {
    let tasks = [periodic("p", "/a", 2000, 10_000), hogs("a", 1, "/a", "")];
    served(&limited(id, FIFTH, &tasks, 5), 2000, 5)
}

pub fn a_waking_task_waits_for_the_next_period_like_a_hog_beside_it(id: &str) {
    let tasks = [periodic("p", "/a", 100, 5000), hogs("a", 1, "/a", "")];
    let latencies = limited(id, FIFTH, &tasks, 5).latencies("p", SECOND, 5 * SECOND);
    let p90 = latencies[latencies.len() * 9 / 10];
    assert_near(p90 as f64 / MS as f64, 79.0, 20.0, "90th percentile of the latency, ms");
}

pub fn burst_lets_a_group_use_what_it_has_saved(id: &str) {
    let tasks = [periodic("p", "/a", 30_000, 200_000)];
    let without = limited(id, FIFTH, &tasks, 4).quotas[0];
    assert_near(without.throttled_periods as f64, 20.0, 1.0, "throttled periods");
    let burst = format!(r#"{FIFTH}, "cpu.max.burst": 20000"#);
    assert_eq!(limited(id, &burst, &tasks, 4).quotas[0].throttled_periods, 0);
    let hog = format!(r#""/a": {{ {burst} }}"#);
    assert_gets(id, 1, &hog, &[hogs("a", 1, "/a", "")], &[("a", 20.0)]);
}

pub fn a_quota_that_changes_counts_from_then_on(id: &str) {
    let groups = r#""/a": { "cpu.max": "20000 100000", "changes": [
        { "at": 1000000, "cpu.max": "50000 100000" }, { "at": 3000000, "cpu.max": "max" } ] }"#;
    let found = history(id, "1", groups, &hogs("a", 1, "/a", ""), 4);
    for (from, percent) in [(0, 20.0), (1, 50.0), (2, 50.0), (3, 100.0)] {
        let got = found.percent("a", from * SECOND, (from + 1) * SECOND);
        assert_near(got, percent, 3.0, &format!("percent in second {from}"));
    }
}

/// The kernel ends the throttling of a CPU in an interrupt, whatever runs there; a scheduler is not asked while a real-time task does.
pub fn runtime_reaches_a_cpu_that_a_real_time_task_has(id: &str) {
    for cpu in [0, 1] {
        let hog = hogs("a", 1, "/a", "");
        let fifo = format!(
            r#""fifo": {{ "loop": -1, "run": 1000, "delay": 50000, "cpus": [ {cpu} ], "policy": "SCHED_FIFO" }}"#
        );
        let groups = r#""/a": { "cpu.max": "20000 100000" }"#;
        let history = history(id, "2", groups, &format!("{hog}, {fifo}"), 2);
        // Later than that others have a turn on the CPU that the real-time task took
        for (from, to, margin) in [(100 * MS, 900 * MS, 2.6), (SECOND, 2 * SECOND, 2.0)] {
            let found = history.percent("a", from, to);
            assert_near(found, 20.0, margin, "percent of the hog, which may have waited there");
        }
    }
}

/// The tests of this file for a scheduler.
macro_rules! quotas_tests {
    ($id:expr) => {
        crate::tests::quotas::quotas_tests!($id;
            a_group_gets_its_quota_however_many_tasks_it_has,
            others_get_what_a_quota_leaves,
            every_level_is_charged,
            the_use_of_a_quota_is_told_although_another_group_runs_to_the_end,
            a_task_within_its_quota_is_not_throttled,
            the_time_of_throttling_is_that_of_all_cpus,
            a_waking_task_waits_for_the_next_period_like_a_hog_beside_it,
            burst_lets_a_group_use_what_it_has_saved,
            a_quota_that_changes_counts_from_then_on,
            runtime_reaches_a_cpu_that_a_real_time_task_has
        );
    };
    ($id:expr; $($test:ident),*) => {
        mod quotas {
            shows! { $($test: crate::tests::quotas::$test($id);)* }
        }
    };
}
pub(crate) use quotas_tests;
