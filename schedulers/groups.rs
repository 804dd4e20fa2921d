//! Control groups divide CPU time as under Linux 7.3.4, on which each expected figure was measured, in virtual time, with the same loads: tests of each
//! scheduler that has groups.

use crate::support::{History, SECOND, assert_near, run};

/// Measured after this time, so that averages have settled.
const WARM_UP: u64 = SECOND;

/// The history of these tasks in these groups.
pub fn history(id: &str, machine: &str, groups: &str, tasks: &str, seconds: u64) -> History {
    let text =
        format!(r#"{{ "tasks": {{ {tasks} }}, "fairground": {{ "groups": {{ {groups} }} }} }}"#);
    run(id, machine, &text, seconds, &[]).0
}

/// CPU time of all tasks whose name begins with each of `names`, in percent of a CPU.
pub fn percents(
    id: &str,
    machine: &str,
    groups: &str,
    tasks: &str,
    seconds: u64,
    names: &[&str],
) -> Vec<f64> {
    let history = history(id, machine, groups, tasks, seconds);
    let end = seconds * SECOND;
    let percent = |name: &&str| {
        let of_them = history.runs.iter().filter(|run| run.task.split('-').next() == Some(*name));
        let times = of_them.map(|run| run.end.min(end).saturating_sub(run.start.max(WARM_UP)));
        100.0 * times.sum::<u64>() as f64 / (end - WARM_UP) as f64
    };
    names.iter().map(percent).collect()
}

/// The tasks of a load, each with its number of instances, its group and other members.
pub fn hogs(name: &str, number: usize, group: &str, more: &str) -> String {
    format!(r#""{name}": {{ "instance": {number}, "taskgroup": "{group}", "run": 1000{more} }}"#)
}

/// A task that runs for so long every period, both in us. One that is late goes on at the end of the period, as in the program that was
/// measured: the clock of another task wakes it.
pub fn periodic(name: &str, group: &str, run: u64, period: u64) -> String {
    format!(
        r#""{name}": {{ "taskgroup": "{group}", "suspend": "{name}", "run": {run} }},
           "clock": {{ "policy": "SCHED_FIFO", "resume": "{name}",
               "timer": {{ "ref": "unique", "period": {period} }} }}"#
    )
}

/// Checks shares of one CPU, within a point.
fn assert_shares(id: &str, groups: &str, tasks: &[String], expected: &[(&str, f64)]) {
    let names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    let found = percents(id, "1", groups, &tasks.join(", "), 4, &names);
    for ((name, expected), found) in expected.iter().zip(found) {
        assert_near(found, *expected, 1.0, &format!("{name} with {groups}, percent"));
    }
}

pub fn groups_share_a_cpu_by_weight_however_many_tasks_they_have(id: &str) {
    let one_and_eight = [hogs("a", 1, "/a", ""), hogs("b", 8, "/b", "")];
    assert_shares(id, "", &one_and_eight, &[("a", 50.0), ("b", 50.0)]);
    let pair = [hogs("a", 1, "/a", ""), hogs("b", 1, "/b", "")];
    let shares = |settings: &str, first: f64| {
        assert_shares(id, settings, &pair, &[("a", first), ("b", 100.0 - first)]);
    };
    shares(r#""/a": { "cpu.weight": 300 }"#, 75.0);
    shares(r#""/a": { "cpu.weight.nice": -5 }"#, 75.3);
    shares(r#""/a": { "cpu.weight": 10000 }, "/b": { "cpu.weight": 1 }"#, 100.0);
    shares(r#""/a": { "cpu.idle": 1 }"#, 0.28);
    let one_and_four = [hogs("a", 1, "/a", ""), hogs("b", 4, "/b", "")];
    let both = r#""/a": { "cpu.idle": 1 }, "/b": { "cpu.idle": 1 }"#;
    assert_shares(id, both, &one_and_four, &[("a", 50.0), ("b", 50.0)]);
}

pub fn a_group_in_a_group_has_its_part_of_that(id: &str) {
    let tasks = [hogs("x", 1, "/a/x", ""), hogs("y", 3, "/a/y", ""), hogs("b", 1, "/b", "")];
    assert_shares(id, "", &tasks, &[("x", 25.0), ("y", 25.0), ("b", 50.0)]);
    let heavy = r#""/a/x": { "cpu.weight": 300 }"#;
    assert_shares(id, heavy, &tasks, &[("x", 37.5), ("y", 12.5), ("b", 50.0)]);
    let idle = [hogs("a", 1, "/a", ""), hogs("x", 1, "/b/x", ""), hogs("y", 1, "/b/y", "")];
    let settings = r#""/a": { "cpu.idle": 1 }, "/b/x": { "cpu.idle": 1 }"#;
    assert_shares(id, settings, &idle, &[("a", 0.28), ("x", 0.28), ("y", 99.4)]);
}

pub fn tasks_of_the_root_are_beside_groups(id: &str) {
    let tasks = [hogs("root", 2, "/", ""), hogs("a", 2, "/a", "")];
    assert_shares(id, "", &tasks, &[("root", 66.7), ("a", 33.3)]);
}

pub fn nice_values_count_within_a_group_only(id: &str) {
    let beside = |other: &str, first: f64, second: f64| {
        let tasks = [hogs("a", 1, "/a", ""), hogs("other", 1, "/a", other), hogs("b", 1, "/b", "")];
        assert_shares(id, "", &tasks, &[("a", first), ("other", second), ("b", 50.0)]);
    };
    beside(r#", "priority": 5"#, 37.7, 12.3);
    beside(r#", "policy": "SCHED_IDLE""#, 49.8, 0.15);
    for alone in [r#", "priority": 19"#, r#", "policy": "SCHED_IDLE""#] {
        let tasks = [hogs("a", 1, "/a", alone), hogs("b", 1, "/b", "")];
        assert_shares(id, "", &tasks, &[("a", 50.0), ("b", 50.0)]);
    }
}

pub fn a_periodic_task_has_what_its_group_is_due(id: &str) {
    let periodic = |group: &str| periodic("p", group, 2000, 10_000);
    let eight = [periodic("/a"), hogs("b", 8, "/b", "")];
    assert_shares(id, "", &eight, &[("p", 20.2)]);
    let idle = [periodic("/a"), hogs("b", 1, "/b", "")];
    assert_shares(id, r#""/b": { "cpu.idle": 1 }"#, &idle, &[("p", 20.0)]);
}

pub fn a_task_that_wakes_often_leaves_groups_their_parts(id: &str) {
    let often =
        r#""p": { "taskgroup": "/b", "run": 100, "timer": { "ref": "unique", "period": 1000 } }"#;
    let tasks = [often.to_owned(), hogs("b", 8, "/b", ""), hogs("other", 1, "/other", "")];
    let found = percents(id, "1", "", &tasks.join(", "), 4, &["p", "other"]);
    assert_near(found[0], 5.0, 1.0, "percent of the one that wakes often, a ninth of a half");
    assert_near(found[1], 50.0, 2.0, "percent of the other group");
}

pub fn tasks_that_sleep_have_no_part(id: &str) {
    let sleepers = r#""s": { "instance": 8, "taskgroup": "/a", "run": 10, "sleep": 100000 }"#;
    let tasks = [sleepers.to_owned(), hogs("a", 1, "/a", ""), hogs("b", 1, "/b", "")];
    assert_shares(id, "", &tasks, &[("a", 49.3), ("b", 50.5)]);
}

/// Percent of a CPU for a task that wants a fifth of it, beside eight hogs of its own group: a ninth in the ideal.
pub fn a_fifth_beside_eight_hogs(id: &str) -> f64 {
    let tasks = [periodic("p", "/b", 2000, 10_000), hogs("b", 8, "/b", "")];
    percents(id, "1", "", &tasks.join(", "), 4, &["p"])[0]
}

/// Number of CPUs, mode, hogs in one group, and the CPUs that a single hog in another one got beside them, as a mean of two runs.
const SEVERAL_CPUS: [(usize, &str, usize, f64); 19] = [
    (4, "concur", 4, 0.826),
    (4, "concur", 16, 0.798),
    (2, "concur", 4, 0.666),
    (2, "concur", 8, 0.648),
    (4, "smp", 4, 1.0),
    (4, "smp", 8, 1.0),
    (4, "smp", 16, 1.0),
    (2, "smp", 4, 1.0),
    (2, "smp", 8, 0.998),
    (4, "max", 4, 1.0),
    (4, "max", 8, 1.0),
    (4, "max", 16, 1.0),
    (2, "max", 4, 0.98),
    (4, "tasks", 4, 0.867),
    (4, "tasks", 8, 0.445),
    (4, "tasks", 16, 0.238),
    (2, "tasks", 4, 0.397),
    (2, "tasks", 8, 0.2175),
    (2, "max", 8, 1.0),
];

pub fn several_cpus_divide_a_groups_shares_by_its_load(id: &str) {
    let mut off = Vec::new();
    for (cpus, mode, number, expected) in SEVERAL_CPUS {
        let machine = format!("{cpus} cgroup_mode:{mode}");
        let tasks = [hogs("a", 1, "/a", ""), hogs("b", number, "/b", "")];
        let found = percents(id, &machine, "", &tasks.join(", "), 5, &["a"])[0] / 100.0;
        if (found - expected).abs() > 0.1 * expected {
            off.push(format!(
                "{mode}: 1 beside {number} on {cpus} CPUs has {found:.3}, not {expected}"
            ));
        }
    }
    assert!(off.is_empty(), "{}", off.join("\n"));
}

/// Checks how many CPUs tasks get, within a tenth, on so many.
pub fn assert_cpus(
    id: &str,
    cpus: usize,
    groups: &str,
    tasks: &[String],
    expected: &[(&str, f64)],
) {
    let names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    let found = percents(id, &cpus.to_string(), groups, &tasks.join(", "), 5, &names);
    for ((name, expected), found) in expected.iter().zip(found) {
        assert_near(found / 100.0, *expected, expected / 10.0, name);
    }
}

pub fn weights_and_idle_groups_count_on_several_cpus(id: &str) {
    let heavy = [hogs("a", 1, "/a", ""), hogs("b", 16, "/b", "")];
    assert_cpus(id, 4, r#""/a": { "cpu.weight": 300 }"#, &heavy, &[("a", 1.0)]);
    let idle = [hogs("a", 4, "/a", ""), hogs("b", 8, "/b", "")];
    assert_cpus(id, 4, r#""/a": { "cpu.idle": 1 }"#, &idle, &[("b", 3.99)]);
}

pub fn tasks_bound_to_a_cpu_bring_their_groups_whole_part_there(id: &str) {
    let bound = r#", "cpus": [0]"#;
    let all = [hogs("a", 1, "/a", bound), hogs("b", 4, "/b", bound)];
    assert_cpus(id, 2, "", &all, &[("a", 0.333), ("b", 0.667)]);
}

pub fn a_weight_that_changes_counts_from_then_on(id: &str) {
    let groups = r#""/a": { "changes": [ { "at": 1000000, "cpu.weight": 300 } ] }"#;
    let tasks = [hogs("a", 1, "/a", ""), hogs("b", 1, "/b", "")];
    assert_shares(id, groups, &tasks, &[("a", 75.0), ("b", 25.0)]);
}

pub fn a_task_that_moves_counts_in_its_new_group(id: &str) {
    let tasks = [
        r#""a": { "phases": { "one": { "taskgroup": "/a", "loop": 100, "run": 1000 },
            "two": { "taskgroup": "/b", "loop": -1, "run": 1000 } } }"#
            .to_owned(),
        hogs("b", 3, "/b", ""),
        hogs("c", 1, "/c", ""),
    ];
    assert_shares(id, "", &tasks, &[("a", 12.5), ("b", 37.5), ("c", 50.0)]);
}

/// The tests of this file for a scheduler.
macro_rules! groups_tests {
    ($id:expr) => {
        crate::tests::groups::groups_tests!($id;
            groups_share_a_cpu_by_weight_however_many_tasks_they_have,
            a_group_in_a_group_has_its_part_of_that,
            tasks_of_the_root_are_beside_groups,
            nice_values_count_within_a_group_only,
            a_periodic_task_has_what_its_group_is_due,
            a_task_that_wakes_often_leaves_groups_their_parts,
            tasks_that_sleep_have_no_part,
            several_cpus_divide_a_groups_shares_by_its_load,
            weights_and_idle_groups_count_on_several_cpus,
            tasks_bound_to_a_cpu_bring_their_groups_whole_part_there,
            a_weight_that_changes_counts_from_then_on,
            a_task_that_moves_counts_in_its_new_group
        );
    };
    ($id:expr; $($test:ident),*) => {
        mod groups {
            shows! { $($test: crate::tests::groups::$test($id);)* }
        }
    };
}
pub(crate) use groups_tests;
