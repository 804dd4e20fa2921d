//! The calls to schedulers about control groups, and when.

mod common;

use common::{free, run, scheduler};

/// The scheduler's output in a run of a task in each of three groups, with these settings.
fn said(settings: &str, task: &str) -> Vec<String> {
    let text = format!(
        r#"{{ "tasks": {{ "x": {{ "taskgroup": "/a/x", {task} }}, "b": {{ "taskgroup": "/b", "loop": 1, "run": 1 }} }},
             "fairground": {{ "groups": {{ {settings} }} }} }}"#
    );
    run(&scheduler("groups", &[]), &free("1", &text)).messages
}

const ONCE: &str = r#""loop": 1, "run": 1"#;

/// As Linux 7.3.4 does: the order is that of a scheduler that printed its callbacks there.
#[test]
fn groups_come_before_their_tasks_and_leave_before_them() {
    // In the order in which they are made: /a (2), /b (3), /a/x (4).
    let said = said(r#""/a": {}, "/b": {}"#, ONCE);
    let told = |line: &&String| line.starts_with("init ") || line.starts_with("task in ");
    let first: Vec<_> = said.iter().filter(told).map(|l| &l[..l.len().min(9)]).collect();
    assert_eq!(
        first,
        ["init 1 we", "init 2 we", "init 4 we", "init 3 we", "task in 1", "task in 4", "task in 3"]
    );
    let exits: Vec<_> = said.iter().filter(|line| line.starts_with("exit")).collect();
    assert_eq!(exits, ["exit 4", "exit 2", "exit 3", "exit 1"]);
    let last = said.last().unwrap();
    assert_eq!(last, "task leaves", "the task that made the others goes after the groups");
}

#[test]
fn settings_come_with_the_group() {
    let said = said(
        r#""/a": { "cpu.weight.nice": -5, "cpu.max": "20000 50000", "cpu.max.burst": 1000 }, "/b": { "cpu.idle": 1 }"#,
        ONCE,
    );
    let rest = ["init 1 weight 100 idle 0", "bandwidth 100000 18446744073709551615 0"];
    assert_eq!(said[..2], rest);
    assert_eq!(said[2..4], ["init 2 weight 305 idle 0", "bandwidth 50000 20000 1000"]);
    assert_eq!(said[6], "init 3 weight 100 idle 1");
}

#[test]
fn changes_are_told_before_what_sched_ext_keeps_of_them_and_only_if_they_are_some() {
    let said = said(
        r#""/a/x": { "cpu.weight": 200, "changes": [
             { "at": 1500, "cpu.weight": 300 }, { "at": 1600, "cpu.weight": 300 },
             { "at": 2500, "cpu.idle": 1 }, { "at": 3500, "cpu.idle": 0, "cpu.max": "30000" } ] }"#,
        r#""loop": 4, "run": 1, "timer": { "ref": "unique", "period": 1000 }"#,
    );
    let start = said.iter().rposition(|line| line.starts_with("task in")).unwrap() + 1;
    let end = said.iter().position(|line| line.starts_with("exit")).unwrap();
    let after: Vec<_> = said[start..end].iter().filter(|line| *line != "task leaves").collect();
    assert_eq!(
        after,
        [
            "shares 2097152 idle 0 scx 200",
            "shares 1048576 idle 0 scx 100",
            "shares 2097152 idle 0 scx 200",
            "weight of 3 is 300",
            "shares 3145728 idle 0 scx 300",
            "idle of 3 is 1",
            "shares 3072 idle 1 scx 300",
            "idle of 3 is 0",
            "bandwidth is 100000 30000 0",
            "shares 1048576 idle 0 scx 300",
        ]
    );
}

#[test]
fn a_group_has_its_ancestors_from_the_root_on() {
    let text = r#"{ "tasks": { "x": { "taskgroup": "/a/x", "loop": 1, "run": 1 } } }"#;
    let said = run(&scheduler("fields", &[]), &free("1", text)).messages;
    let levels: Vec<_> = said.iter().filter(|line| line.starts_with("level")).collect();
    // The groups are /, /a and /a/x.
    assert_eq!(
        levels,
        [
            "level 0: ancestor 0 is 1",
            "level 1: ancestor 0 is 1",
            "level 1: ancestor 1 is 2",
            "level 2: ancestor 0 is 1",
            "level 2: ancestor 1 is 2",
            "level 2: ancestor 2 is 3",
        ]
    );
}
