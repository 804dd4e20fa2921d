//! Control groups and their settings.

use fairground_workload::{Bandwidth, GroupSettings, Share, Workload};

/// A workload with these settings of groups and one task in each of `/a/x` and `/b`.
fn parse(groups: &str) -> Result<Workload, fairground_workload::Error> {
    let text = format!(
        r#"{{ "tasks": {{ "t": {{ "run": 1, "taskgroup": "/a/x" }}, "u": {{ "run": 1, "taskgroup": "/b/" }} }},
             "fairground": {{ "groups": {groups} }} }}"#
    );
    Workload::parse("f.json", &text)
}

fn refused(groups: &str, part: &str) {
    let error = parse(groups).expect_err(groups).to_string();
    assert!(error.contains(part), "{groups}: {error}");
}

#[test]
fn groups_are_made_in_the_order_of_the_file_and_after_those_above_them() {
    let workload = parse(r#"{ "/b": {}, "/a/x": { "cpu.weight": 300 } }"#).unwrap();
    let paths: Vec<_> = workload.groups.iter().map(|g| g.path.as_str()).collect();
    assert_eq!(paths, ["/b", "/a", "/a/x"]);
    let parents: Vec<_> = workload.groups.iter().map(|g| g.parent()).collect();
    assert_eq!(parents, ["/", "/", "/a"]);
    let shares: Vec<_> = workload.groups.iter().map(|g| g.settings.share).collect();
    assert_eq!(shares, [Share::Weight(100), Share::Weight(100), Share::Weight(300)]);
    assert_eq!(workload.tasks[1].taskgroup.as_deref(), Some("/b"));
}

#[test]
fn settings_are_those_of_the_kernels_files() {
    let text = r#"{ "/a": { "cpu.weight.nice": -5, "cpu.max": "20000 50000", "cpu.max.burst": 1000 },
        "/b": { "cpu.idle": 1, "cpu.max": "max", "changes": [
            { "at": 1000, "cpu.idle": 0 }, { "at": 2000, "cpu.weight": 50, "cpu.max": 5000 } ] } }"#;
    let workload = parse(text).unwrap();
    assert_eq!(
        workload.groups[0].settings,
        GroupSettings {
            share: Share::Nice(-5),
            bandwidth: Bandwidth { quota: Some(20_000_000), period: 50_000_000, burst: 1_000_000 },
        }
    );
    let group = &workload.groups[1];
    assert_eq!(group.settings.share, Share::Idle);
    assert_eq!(group.settings.bandwidth.quota, None);
    let shares: Vec<_> = group.changes.iter().map(|c| c.settings.share).collect();
    assert_eq!(shares, [Share::Weight(100), Share::Weight(50)]);
    assert_eq!(group.changes[1].at, 2_000_000);
    assert_eq!(
        group.changes[1].settings.bandwidth.quota,
        Some(5_000_000),
        "the period stays what it was: {:?}",
        group.changes[1]
    );
}

#[test]
fn what_the_kernel_refuses_is_refused() {
    refused(r#"{ "/c": {} }"#, "no task is in this group");
    refused(r#"{ "b": {} }"#, "not a path below the root group");
    refused(r#"{ "/": {} }"#, "not a path below the root group");
    refused(r#"{ "/b": {}, "/b/": {} }"#, "settings already");
    refused(r#"{ "/b": { "cpu.weight": 0 } }"#, "from 1 to 10000");
    refused(r#"{ "/b": { "cpu.shares": 1024 } }"#, "unknown key");
    refused(r#"{ "/b": { "cpu.max": "999 100000" } }"#, "at least 1000");
    refused(r#"{ "/b": { "cpu.max": "5000 999" } }"#, "from 1000");
    refused(r#"{ "/b": { "cpu.max": "5000 2000000" } }"#, "to 1000000");
    refused(r#"{ "/b": { "cpu.max": "1 2 3" } }"#, "QUOTA PERIOD");
    refused(
        r#"{ "/b": { "cpu.max": "5000", "cpu.max.burst": 5001 } }"#,
        "cpu.max.burst: more than the quota",
    );
    refused(r#"{ "/b": { "cpu.weight": 5, "cpu.idle": 1 } }"#, "keep one");
    refused(r#"{ "/b": { "cpu.weight": 5, "cpu.weight.nice": 1 } }"#, "keep one");
    let late = r#"{ "/b": { "changes": [ { "at": 2 }, { "at": 1 } ] } }"#;
    refused(late, "in order of time");
    refused(r#"{ "/b": { "changes": [ {} ] } }"#, "`at` is missing");
    refused(r#"{ "/b": { "changes": {} } }"#, "a list of objects");
}

/// A task's group as an object with settings, as another simulator writes it.
#[test]
fn a_task_may_bring_the_settings_of_its_group() {
    let tasks = |second: &str| {
        let first = r#"{ "path": "/a", "cpu.max": "20000 100000", "cpu.weight": 50 }"#;
        let text = format!(
            r#"{{ "tasks": {{ "t": {{ "run": 1, "taskgroup": {first} }}, "u": {{ "run": 1, "taskgroup": {second} }} }} }}"#
        );
        Workload::parse("f.json", &text)
    };
    let workload = tasks(r#""/a""#).unwrap();
    assert_eq!(workload.groups.len(), 1);
    assert_eq!(workload.groups[0].settings.share, Share::Weight(50));
    let same = r#"{ "name": "a", "cpu.max": "20000 100000", "cpu.weight": 50 }"#;
    assert_eq!(tasks(same).unwrap().groups, workload.groups);
    let error = tasks(r#"{ "path": "/a", "cpu.weight": 51 }"#).unwrap_err();
    assert!(error.to_string().contains("other settings"), "{error}");
}
