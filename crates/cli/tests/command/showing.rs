//! `show` takes every kind of file that another command takes, and machines keep their own CPU numbers.

use std::fs;

use serde_json::{Value, json};

use crate::support::{fairground, folder, json, refuse, succeed};

#[test]
fn every_kind_of_file_is_shown() {
    let scratch = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = scratch.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let costs = file("costs.toml", "tick = 777\n");
    let companion = file(
        "mine.companion.toml",
        "scheduler = \"mine\"\nfrom = \"a loader\"\nmissing = [\"its statistics\"]\n[option]\nslice_us = 5000\n",
    );
    let machine = file("sparse.xml", SPARSE);
    let cases: [(&str, &[&str]); 7] = [
        ("../../../workloads/mix-two.json", &["mix-two: a workload", "policy"]),
        (&costs, &["a cost model, in nanoseconds", "tick", "777"]),
        (
            &companion,
            &["a companion, of the scheduler mine", "slice_us", "Left out: its statistics"],
        ),
        (&machine, &["6 CPUs, 3 cores", "16", "the machine's CPUs 0-1,8-9,16-17 are CPUs 0 to 5"]),
        ("schedulers/rotation.bpf.c", &["a scheduler of your own", "Tunables", "Companion"]),
        ("8", &["8 CPUs, 8 cores"]),
        ("o1", &["Lineage"]),
    ];
    for (name, parts) in cases {
        let text = succeed(&format!("show {name}"));
        for part in parts {
            assert!(text.contains(part), "{name}: {part}\n{text}");
        }
    }
    let text = fairground(&["show", "numa:2 core:2 pu:2"]).stdout;
    assert!(text.contains("Distances between nodes"), "{text}");
    let perf = file("perf.data", "PERFILE2 and more");
    refuse(
        &format!("show {perf}"),
        2,
        &["a file of perf; `fairground import` makes a recording of it"],
    );
    let unknown = file("notes.txt", "hello");
    refuse(&format!("show {unknown}"), 2, &["its name ends in none of .json"]);
}

#[test]
fn options_for_schedulers_of_other_kinds_are_refused() {
    let own = "-I and -D are for sources of your own, and this is none";
    refuse("show cfs -I schedulers -D X", 2, &["cfs: ", own]);
    refuse("show mix-two -D X", 2, &["mix-two: ", own]);
    let id = "--source and --readme are for schedulers with an id, and this is a";
    refuse("show 2 --source", 2, &[&format!("2: {id} machine")]);
    refuse("show mix-two --readme", 2, &[&format!("mix-two: {id} load")]);
    refuse("show schedulers/rotation.bpf.c --source", 2, &[&format!("{id} file")]);
}

#[test]
fn the_variables_of_a_source_are_shown_with_their_defaults() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("mine.bpf.c");
    let source = fs::read_to_string(folder().join("schedulers/rotation.bpf.c")).unwrap();
    let variables = "const volatile u64 slice_us = SLICE;\nconst volatile bool eager = true;\n";
    fs::write(&path, format!("{source}{variables}")).unwrap();
    let line = format!("show {} -D SLICE=7000 --format json", path.display());
    let shown = json(&line);
    assert_eq!(shown["id"], "mine");
    let own: Vec<&Value> = { shown["tunables"].as_array().unwrap().iter() }
        .filter(|one| one["name"] == "slice_us" || one["name"] == "eager")
        .collect();
    let variable = |name: &str, of: &str, unit: &str, default: u64| json!({"name": name, "type": of, "unit": unit, "default": default, "minimum": null, "maximum": null, "choices": [], "doc": ""});
    let slice = variable("slice_us", "u64", "us", 7000);
    assert_eq!(own, [&slice, &variable("eager", "bool", "", 1)]);
}

/// A scheduler of the features that its macros name.
const FEATURES: &str = r#"
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

SEC("struct_ops/enqueue")
int BPF_PROG(enqueue, struct task_struct *p, u64 enq_flags)
{
#ifdef TESTED
	if (!scx_bpf_dsq_insert)
		return 0;
#endif
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags | SCX_ENQ_HEAD);
	return 0;
}

#ifdef SLEEPS
SEC("struct_ops.s/set_bandwidth")
int BPF_PROG(set_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us, u64 burst_us)
{
	return 0;
}
#endif

SEC(".struct_ops.link")
struct sched_ext_ops features = {
	.enqueue = (void *)enqueue,
#ifdef SLEEPS
	.cgroup_set_bandwidth = (void *)set_bandwidth,
#endif
#ifdef FLAGS
	.flags = FLAGS,
#endif
	.name = "features",
};
"#;

#[test]
fn a_source_tells_which_kernels_load_it() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("features.bpf.c");
    fs::write(&path, FEATURES).unwrap();
    let show = |options: &str| succeed(format!("show {} {options}", path.display()).trim_end());
    let says = |options: &str, parts: &[&str]| {
        let text = show(options);
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ");
        for part in parts {
            assert!(text.contains(part), "{options}: {part}\n{text}");
        }
    };
    says(
        "",
        &[
            "Linux 6.12: does not load:",
            "called scx_bpf_dsq_insert(), which this kernel does not have, without a test",
            "Linux 6.13 to 7.3: loads",
        ],
    );
    says("-D TESTED", &["Linux 6.12 to 7.3: loads"]);
    says(
        "-D TESTED -D FLAGS=SCX_OPS_ALWAYS_ENQ_IMMED",
        &["Linux 6.12 to 7.0: does not load: invalid ops.flags 0x80", "Linux 7.1 to 7.3: loads"],
    );
    let not_yet = "programs there may sleep, and this callback may not before Linux 7.3";
    let refused = format!(
        "Linux 6.17 to 7.2: does not load: ops.cgroup_set_bandwidth is set_bandwidth in section struct_ops.s/set_bandwidth: {not_yet}"
    );
    says(
        "-D TESTED -D SLEEPS",
        &[
            "Linux 6.16: does not load: ops.cgroup_set_bandwidth is set, which",
            &refused,
            "Linux 7.3: loads",
        ],
    );
    let compare =
        |options: &str| format!("compare mix-two -d 50ms -s {} {options}", path.display());
    let old = succeed(&compare("--kernel 6.18"));
    assert!(old.contains("Linux 6.18 is simulated by its kernel functions"), "{old}");
    let newer = succeed("compare mix-two -d 50ms -s eevdf --kernel 6.18");
    let note = "Linux 6.18 does not know ops.cgroup_set_idle; it is left out";
    assert!(newer.contains(note), "{newer}");
    refuse(&compare("--kernel 6.18 -D TESTED -D SLEEPS"), 2, &[not_yet]);
    let newest = succeed(&compare("--kernel 7.3"));
    assert!(!newest.contains("is simulated by"), "{newest}");
    refuse(&compare("--kernel 6.11"), 2, &["a release of Linux from 6.12 to 7.3"]);
    refuse("compare mix-two -s exec:loader --kernel 6.18", 2, &["loaders see Linux 7.3"]);
}

#[test]
fn loads_have_names() {
    let by_name = succeed("compare mix-two -s o1 -d 500ms --format json");
    let by_file = succeed("compare ../../../workloads/mix-two.json -s o1 -d 500ms --format json");
    let metrics = |text: &str| -> serde_json::Value {
        let result: serde_json::Value = serde_json::from_str(text).unwrap();
        result["runs"][0]["metrics"].clone()
    };
    assert_eq!(metrics(&by_name), metrics(&by_file));
    assert!(succeed("show mix-two").starts_with("mix-two: a workload, 10 s"));
}

#[test]
fn a_load_without_an_end_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hog.json");
    std::fs::write(&file, r#"{ "tasks": { "hog": { "loop": -1, "run": 1000 } } }"#).unwrap();
    let shown = succeed(&format!("show {}", file.display()));
    assert!(shown.contains("hog: a workload, without an end, so 10 s if -d"), "{shown}");
}

#[test]
fn loads_have_parameters() {
    let shown = succeed("show perf-pipe:pairs=3");
    for words in [
        "perf-pipe:pairs=3: a workload, until its tasks end, 6 tasks at its start",
        "  pairs = 1 ",
        "1 to 1000 ",
        "  pairs beside each other",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let listed = json("list --loads --format json");
    let names: Vec<&str> = { listed["loads"].as_array().unwrap().iter() }
        .map(|load| load["name"].as_str().unwrap())
        .collect();
    assert!(names.is_sorted() && names.contains(&"hackbench"), "{names:?}");
    for (list, words) in [("table", "perf-pipe"), ("csv", "loops=100000,pairs=1,work=0")] {
        let text = succeed(&format!("list --loads --format {list}"));
        assert!(text.contains(words), "{text}");
    }
    // The written file is the same load.
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("own.json");
    fs::write(&file, succeed("show hackbench:groups=1,fds=2,loops=9 --rt-app")).unwrap();
    let metrics = |load: &str| {
        let result = json(&format!("compare {load} -s cfs -m 2 --format json"));
        result["runs"][0].clone()
    };
    let by_name = metrics("hackbench:groups=1,fds=2,loops=9");
    assert_eq!(by_name["labels"]["workload"], "hackbench:groups=1,fds=2,loops=9");
    assert_eq!(by_name["metrics"], metrics(&file.display().to_string())["metrics"]);
}

/// Each load of `loads/`, made short, with the field that has the figure for which it is known.
const FIGURES: [(&str, &str); 14] = [
    ("audio", "periods"),
    ("barrier:steps=5", "makespan_ns"),
    ("build:files=4,cc1=5ms,link=1ms", "makespan_ns"),
    ("contest:files=4,compile=5ms", "makespan_ns"),
    ("desktop:gap=20ms", "laps"),
    ("encoder:frames=2,frame=2ms", "makespan_ns"),
    ("game", "laps"),
    ("hackbench:groups=1,fds=4,loops=5", "makespan_ns"),
    ("interbench", "periods"),
    ("oltp", "laps"),
    ("perf-pipe:loops=50", "makespan_ns"),
    ("pods", "laps"),
    ("schbench", "laps"),
    ("web-server", "laps"),
];

#[test]
fn every_load_has_the_figure_that_it_is_known_for() {
    let folder = fs::read_dir("../../loads").unwrap();
    let mut files: Vec<String> =
        folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    let names = FIGURES.map(|(load, _)| format!("{}.json", load.split(':').next().unwrap()));
    assert_eq!(files, names);
    let page = fs::read_to_string("../../docs/loads.md").unwrap();
    for (load, figure) in FIGURES {
        let text = succeed(&format!("compare {load} -s cfs -m 3 -d 500ms --format json"));
        let result: serde_json::Value = serde_json::from_str(&text).unwrap();
        let run = &result["runs"][0];
        assert_eq!(run["status"], "ok", "{load}: {text}");
        assert!(!run["metrics"][figure].is_null(), "{load} has no {figure}");
        // Only some schedulers know of control groups.
        if load != "pods" {
            assert_eq!(run["notes"], serde_json::json!([]), "{load}");
        }
        let name = load.split(':').next().unwrap();
        assert!(page.contains(&format!("| `{name}` |")), "docs/loads.md lacks {name}");
    }
}

#[test]
fn a_load_knows_the_machine() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("w.json");
    let text = r#"{ "tasks": { "hog": { "instance": "%(2 * cpus)", "run": 1000 } }, "global": { "duration": 1 } }"#;
    fs::write(&file, text).unwrap();
    let result =
        succeed(&format!("compare {} -s o1 -m 2 -m 3 -d 10ms --format json", file.display()));
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    let tasks = |run: usize| result["runs"][run]["metrics"]["tasks"].as_array().map(Vec::len);
    assert_eq!((tasks(0), tasks(1)), (Some(4), Some(6)));
}

/// CPUs 0, 1, 8, 9, 16 and 17 in three cores.
const SPARSE: &str = r#"<topology version="2.0"><object type="Machine" cpuset="0x30303">
    <object type="Core" cpuset="0x3"><object type="PU" os_index="0" cpuset="0x1"/><object type="PU" os_index="1" cpuset="0x2"/></object>
    <object type="Core" cpuset="0x300"><object type="PU" os_index="8" cpuset="0x100"/><object type="PU" os_index="9" cpuset="0x200"/></object>
    <object type="Core" cpuset="0x30000"><object type="PU" os_index="16" cpuset="0x10000"/><object type="PU" os_index="17" cpuset="0x20000"/></object>
    </object></topology>"#;

#[test]
fn cpus_have_the_machines_own_numbers() {
    let scratch = tempfile::tempdir().unwrap();
    let (machine, load) = (scratch.path().join("m.xml"), scratch.path().join("w.json"));
    fs::write(&machine, SPARSE).unwrap();
    let tasks = |cpu: u32| {
        format!(
            r#"{{ "tasks": {{ "a": {{ "cpus": [{cpu}], "run": 10000 }}, "b": {{ "cpus": [{cpu}], "run": 10000 }} }},
                "global": {{ "duration": 1 }} }}"#
        )
    };
    fs::write(&load, tasks(8)).unwrap();
    let (machine, load) = (machine.display(), load.display());
    let compare = format!("compare {load} -s eevdf -m {machine}");
    let result = json(&format!("{compare} --format json"));
    let run = &result["runs"][0];
    // Both share one CPU of six.
    for task in run["metrics"]["tasks"].as_array().unwrap() {
        let share = task["cpu_time_ns"].as_u64().unwrap();
        assert!((400_000_000..600_000_000).contains(&share), "{task}");
    }
    let notes = run["notes"].to_string();
    assert!(notes.contains("are CPUs 0 to 5 for schedulers"), "{notes}");
    let text = succeed(&format!("explain {load} -s eevdf -m {machine} --most 1"));
    assert!(text.contains("CPU 8") && !text.contains("CPU 2"), "{text}");
    succeed(&format!("compare {load} -s linux12 -m {machine} --hotplug 9:off@100ms"));
    refuse(
        &format!("{compare} --hotplug 2:off@100ms"),
        2,
        &["CPU 2 cannot go offline at 0.1 s: the machine has CPUs 0-1,8-9,16-17"],
    );
    let elsewhere = scratch.path().join("e.json");
    fs::write(&elsewhere, tasks(2)).unwrap();
    refuse(
        &format!("compare {} -s eevdf -m {machine}", elsewhere.display()),
        2,
        &["a of e may only use CPUs [2], and the machine has CPUs 0-1,8-9,16-17"],
    );
}
