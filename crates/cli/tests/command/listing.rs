//! The schedulers that there are.

use crate::support::{json, refuse, succeed};

#[test]
fn all_forms_of_the_list_have_every_scheduler() {
    let table = succeed("list");
    let json = json("list --format json");
    let csv = succeed("list --format csv");
    let schedulers = fairground_catalog::all();
    assert_eq!(json["schedulers"].as_array().unwrap().len(), schedulers.len());
    assert_eq!(csv.lines().count(), schedulers.len() + 1);
    for (index, scheduler) in schedulers.iter().enumerate() {
        let manifest = &scheduler.manifest;
        assert!(table.contains(&format!("\n{}", manifest.id)), "{table}");
        assert_eq!(json["schedulers"][index]["id"], manifest.id);
        assert_eq!(json["schedulers"][index]["title"], manifest.title);
    }
    for line in table.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn a_scheduler_shows_its_tunables_source_and_readme() {
    let text = succeed("show linux24");
    assert!(text.starts_with("linux24: "), "{text}");
    for expected in ["  hz = 100 Hz (", "schedulers/linux24/linux24.bpf.c", "\nAlgorithm\n"] {
        assert!(text.contains(expected), "{expected:?} is not in\n{text}");
    }
    let json = json("show cfs --format json");
    assert_eq!((&json["version"], &json["id"]), (&1.into(), &"cfs".into()));
    let tunables = json["tunables"].as_array().unwrap();
    let latency = tunables.iter().find(|one| one["name"] == "sched_latency").unwrap();
    assert_eq!(latency["unit"], "ns");
    assert_eq!(latency["maximum"], 100_000_000);
    let scheduler = fairground_catalog::find("linux24").unwrap();
    assert_eq!(succeed("show linux24 --source"), scheduler.source);
    assert_eq!(succeed("show linux24 --readme"), scheduler.readme);
}

#[test]
fn a_scheduler_shows_its_headers_and_those_that_it_shares() {
    let scheduler = fairground_catalog::find("ule").unwrap();
    let text = succeed("show ule");
    let headers = scheduler.headers.iter().copied();
    for (name, header) in headers.filter_map(fairground_catalog::header) {
        assert!(text.contains(&format!("schedulers/ule/{name} (")), "{text}");
        assert_eq!(&succeed(&format!("show ule --source={name}")), header);
    }
    assert!(succeed("show ule --source=freebsd.h").contains("run queues of 64 lists"));
    refuse("show ule --source=nothing.h", 2, &["--source=nothing.h: no such header"]);
}
