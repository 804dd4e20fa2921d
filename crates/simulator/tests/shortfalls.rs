//! Features that a run asks for and the model does not have are named, and no others.

mod common;

use common::{free, run, scheduler, workload};
use fairground_machine::Machine;
use fairground_simulator::{Options, Shortfall};

/// The shortfalls of a run of two hogs, the second of which is `second`.
fn said(definitions: &[&str], machine: &str, second: &str) -> Vec<Shortfall> {
    let text = format!(
        r#"{{"tasks": {{"first": {{"loop": 1, "run": 5000}}, "second": {{"loop": 1, {second}}}}}}}"#
    );
    let scheduler = scheduler("shortfalls", definitions);
    run(&scheduler, &free(machine, &text)).shortfalls
}

#[test]
fn a_run_that_lacks_nothing_says_nothing() {
    assert_eq!(said(&[], "4", r#""run": 5000"#), []);
    assert_eq!(said(&["GROUPS", "LEVEL 1024"], "4", r#""run": 5000"#), []);
}

#[test]
fn there_is_no_core_scheduling() {
    assert_eq!(said(&["CORES"], "core:1 pu:1", r#""run": 5000"#), [Shortfall::CoreScheduling]);
}

#[test]
fn groups_have_no_weight() {
    let second = r#""run": 5000, "taskgroup": "/some/group""#;
    assert_eq!(said(&[], "4", second), [Shortfall::Groups { groups: 2 }]);
    assert_eq!(said(&["GROUPS"], "4", second), []);
    let text = Shortfall::Groups { groups: 2 }.to_string();
    assert!(text.starts_with("2 of the workload's control groups have no effect"));
}

#[test]
fn quotas_need_a_scheduler_that_asks_for_them() {
    let second = r#""run": 5000, "taskgroup": { "path": "/some/group", "cpu.max": "5000" }"#;
    let expected = Shortfall::Quotas { groups: 1 };
    assert_eq!(said(&["GROUPS"], "4", second), [expected]);
    assert_eq!(said(&["GROUPS", "QUOTAS"], "4", second), []);
}

#[test]
fn lower_performance_slows_nothing_down() {
    let expected = |by_hardware| Shortfall::Performance { lowest: 256, by_hardware };
    let on = |machine| said(&["LEVEL 256"], machine, r#""run": 5000"#);
    assert_eq!(on("4"), [expected(false)]);
    assert!(expected(false).to_string().contains("to 25 % at the lowest"));
    assert_eq!(on("desktop"), [expected(true)]);
    assert_eq!(on("phone"), []);
}

#[test]
fn siblings_do_not_share_their_core_if_both_are_busy() {
    let second = r#""run": 5000"#;
    let expected = |percent| [Shortfall::Siblings { percent }];
    assert_eq!(said(&[], "core:1 pu:2", second), expected(100));
    assert_eq!(said(&[], "core:2 pu:1", second), []);
    // Of 10 ms, they share the first five; of the two cores, one is shared.
    let second = r#""run": 10000"#;
    assert_eq!(said(&[], "core:1 pu:2", second), expected(50));
    let both = r#""cpus": [0, 1], "run": 5000"#;
    let text = format!(r#"{{"tasks": {{"hog": {{"instance": 2, "loop": 1, {both}}}}}}}"#);
    let outcome = run(&scheduler("shortfalls", &[]), &free("core:2 pu:2", &text));
    assert_eq!(outcome.shortfalls, expected(50));
    // One after the other they do not meet.
    let second = r#""delay": 9000, "run": 5000"#;
    assert_eq!(said(&[], "core:1 pu:2", second), []);
}

#[test]
fn kinds_of_cpus_without_a_speed_are_alike() {
    let said = |kind: &str| {
        let text = format!(
            r#"<topology version="2.0"><object type="Machine" cpuset="0x3">
            <object type="PU" os_index="0" cpuset="0x1"/><object type="PU" os_index="1" cpuset="0x2"/></object>
            <cpukind cpuset="0x1">{kind}</cpukind><cpukind cpuset="0x2">{kind}</cpukind></topology>"#
        );
        let machine = Machine::parse_xml("kinds.xml", &text).unwrap();
        let hog = workload(r#"{"tasks": {"hog": {"loop": 1, "run": 1000}}}"#);
        let scheduler = scheduler("shortfalls", &[]);
        run(&scheduler, &Options::new(machine, hog)).shortfalls
    };
    assert_eq!(said(""), [Shortfall::Speeds]);
    let known = r#"<info name="LinuxCapacity" value="1024"/>"#;
    assert_eq!(said(known), []);
}

#[test]
fn a_scheduler_for_others_below_it_has_none() {
    let text = r#"{"tasks": {"hog": {"loop": 1, "run": 5000}}}"#;
    let said = |definitions: &[&str]| {
        let outcome = run(&scheduler("cids", definitions), &free("1", text));
        outcome.shortfalls.contains(&Shortfall::SubSchedulers)
    };
    assert!(said(&["PARENT"]) && !said(&[]));
}
