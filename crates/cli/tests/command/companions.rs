//! Loaders' actions: companion files and `--set`.

use crate::support::{Ended, end_with};

/// Compares under `configured` with these further arguments, which has to end with `code` and say all of `messages`.
fn compare(more: &[&str], code: i32, messages: &[&str]) -> Ended {
    let mut arguments = vec!["compare", "workloads/hogs.json", "-m", "numa:2 core:1 pu:2"];
    arguments.extend(["-s", "schedulers/configured.bpf.c", "--format", "json"]);
    arguments.extend(more);
    end_with(&arguments, code, messages)
}

fn notes(output: &str) -> String {
    let result: serde_json::Value = serde_json::from_str(output).unwrap();
    result["runs"][0]["notes"].to_string()
}

#[test]
fn the_companion_beside_a_source_sets_fills_and_runs() {
    let ended = compare(&["-d", "2s"], 0, &[]);
    let notes = notes(&ended.stdout);
    for part in [
        "its loader is schedulers/configured.companion.toml",
        "it prints what it sees",
        // 300 ms of the run, on the clock of a kernel that has been up for a while.
        "three rounds at 4096300 ms on cpu 2",
    ] {
        assert!(notes.contains(part), "{notes}");
    }
}

#[test]
fn a_loader_looks_at_the_cpus_that_are_online_whenever_it_loads() {
    // Also where the values of its variables decide whether a kernel takes it.
    for options in [&[][..], &["-D", "RULED_OUT"]] {
        let mut arguments = vec!["compare", "workloads/hogs.json", "-m", "core:2 pu:2"];
        arguments.extend(["-s", "schedulers/told.bpf.c", "--format", "json", "-d", "3s"]);
        arguments.extend(["--hotplug", "3:off@500ms", "--hotplug", "0:off@1500ms"]);
        arguments.extend(options);
        let notes = notes(&end_with(&arguments, 0, &[]).stdout);
        for part in [
            "3 of 4 CPUs, mask 7",
            "cores 5 6 0",
            "topology: 3 of 4 CPUs, first 0",
            "2 of 4 CPUs, mask 6",
            "cores 0 6 0",
            "topology: 2 of 4 CPUs, first 1",
        ] {
            assert!(notes.contains(part), "{part}: {notes}");
        }
    }
}

#[test]
fn without_a_companion_nothing_is_set() {
    compare(&["--with", "none"], 1, &["not as told: slice_ns == 3000000"]);
}

#[test]
fn settings_reach_all_that_a_companion_does() {
    let set = |setting: &str, code: i32, message: &str| {
        compare(&["--set", setting], code, &[message]);
    };
    set("configured.slice_us=4000", 1, "not as told: slice_ns == 3000000");
    set(
        "configured.layout.domains[1].cpus=mask([3])[0]",
        1,
        "not as told: layout.domains[1].cpus == 0xc",
    );
    set(
        "configured.map.domains.max_entries=1",
        1,
        "configured.companion.toml:27: an entry of map domains cannot be written (-7)",
    );
    set("configured.ops.timeout_ms=1000", 0, "");
}

#[test]
fn what_does_not_fit_is_named_with_its_place_and_a_way_out() {
    let with = |text: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.toml");
        std::fs::write(&path, format!("scheduler = \"configured\"\n{text}\n")).unwrap();
        let path = path.display().to_string();
        (folder, path)
    };
    for (text, parts) in [
        (
            "[global]\nslice = 1",
            &["own.toml:3: there is no global variable \"slice\"", "did you mean slice_ns?"][..],
        ),
        (
            "[global]\n\"layout.domains[9].node\" = 1",
            &["own.toml:3: global.layout.domains[9].node: [9] of an array of 4"],
        ),
        (
            "[global]\nlayout = { size = 1 }",
            &["own.toml:3: global.layout: ", "has no member \"size\"; it has count, domains"],
        ),
        (
            "[global]\nnuma = 2",
            &["own.toml:3: global.numa: 2 does not fit into a truth value: 0 to 1"],
        ),
        (
            "[global]\nslice_ns = \"5 * minutes\"",
            &["own.toml:3: global.slice_ns = \"5 * minutes\": Variable not found: minutes"],
        ),
        (
            "[ops]\nflag = 1",
            &["own.toml:3: sched_ext_ops has no member \"flag\"; it has ", "timeout_ms"],
        ),
        (
            "[ops]\ninit = 1",
            &[
                "own.toml:3: ops.init is a callback: it is as the source has it, or false, which leaves it out",
            ],
        ),
        (
            "[load]\ninit = true",
            &[
                "own.toml:3: there is no program \"init\" that can be loaded or left out; there are: tell_sibling, ",
            ],
        ),
        ("[load]\nlook = 1", &["own.toml:3: invalid type: integer `1`, expected a boolean"]),
        (
            "[[run]]\nprogram = \"peek\"",
            &["own.toml:3: there is no program \"peek\"", "tell_sibling, take_token, look"],
        ),
        (
            "[[run]]\nprogram = \"tell_sibling\"\ncontext.core = 1",
            &["own.toml:4: context of tell_sibling: ", "it has cpu, sibling, token"],
        ),
        ("[globals]\nx = 1", &["own.toml:2: unknown field `globals`"]),
    ] {
        let (_folder, path) = with(text);
        compare(&["--with", &path], 2, parts);
    }
    let (_folder, path) = with("[[run]]\nprogram = \"tell_sibling\"\ncontext.cpu = -1");
    compare(&["--with", &path], 1, &["own.toml:3: program tell_sibling returned -22"]);
    compare(
        &["--set", "configured.colour=1"],
        2,
        &["scheduler configured has no tunable \"colour\""],
    );
    compare(&["--set", "configured.label=4 + "], 2, &["--set configured.label: "]);
}

#[test]
fn macros_of_the_command_line_reach_every_source() {
    let build = |more: &[&str], code: i32, messages: &[&str]| {
        let mut arguments = vec!["compare", "workloads/hogs.json", "-d", "10ms"];
        arguments.extend(["-s", "schedulers/named.bpf.c", "--format", "json"]);
        arguments.extend(more);
        end_with(&arguments, code, messages)
    };
    let says = |more: &[&str], line: &str| {
        let notes = notes(&build(more, 0, &[]).stdout);
        assert!(notes.contains(line), "{notes}");
    };
    says(&[], "nameless, number 1");
    says(&["-D", "NUMBER=42", "-D", "NAMED"], "named, number 42");
    says(&["-DNUMBER=7"], "nameless, number 7");
    build(&["-D", "NUMBER=)"], 2, &["does not compile", "named.bpf.c:14:"]);
}

#[test]
fn of_several_schedulers_in_an_object_one_is_named() {
    let compare = |scheduler: &str, code: i32, messages: &[&str]| {
        let arguments = ["compare", "workloads/hogs.json", "-d", "10ms", "-s"];
        let arguments = [&arguments[..], &[scheduler, "--format", "json"]].concat();
        end_with(&arguments, code, messages)
    };
    for (table, line) in [("first_ops", "the first"), ("second_ops", "the second")] {
        let found = compare(&format!("schedulers/both.bpf.c#{table}"), 0, &[]);
        let notes = notes(&found.stdout);
        assert!(notes.contains(line), "{notes}");
    }
    compare("schedulers/both.bpf.c", 2, &["first_ops, second_ops", "FILE#first_ops"]);
    compare(
        "schedulers/both.bpf.c#third_ops",
        2,
        &["no table of callbacks is called third_ops; it has first_ops, second_ops"],
    );
}

#[test]
fn what_is_not_the_schedulers_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mixed.json");
    let text = r#"{ "global": { "duration": 1 }, "tasks": {
        "its": { "policy": "SCHED_EXT", "run": 1000000 },
        "other": { "run": 1000000 } } }"#;
    std::fs::write(&file, text).unwrap();
    let path = file.display().to_string();
    let run = |task: &str| {
        let arguments = ["compare", &path, "-m", "1", "--format", "json", "-s", task];
        notes(&end_with(&arguments, 0, &[]).stdout)
    };
    let notes = run("schedulers/partial.bpf.c");
    for line in ["1 of 2 tasks are not its own", "a kernel also runs its raw_tp/sys_enter"] {
        assert!(notes.contains(line), "{notes}");
    }
    assert!(!run("o1").contains("not its own"));
}

#[test]
fn expressions_cannot_take_everything() {
    let deep = format!("slice_ns = \"{}1{}\"", "(".repeat(5000), ")".repeat(5000));
    for (text, message) in [
        (deep.as_str(), "exceeds maximum complexity"),
        ("slice_ns = \"loop {}\"", "it has no end, or is too long"),
        ("slice_ns = \"let a = [1]; loop { a += a; }\"", "Size of array"),
        ("slice_ns = \"let a = []; for i in 0..9000000 { a.push(i) } 1\"", "and each 5 s"),
        ("slice_ns = \"let a = []; a.pad(1000000000000, 1); 1\"", "Size of array"),
        ("slice_ns = \"let a = `x`; loop { a += a; }\"", "Length of string"),
        ("slice_ns = \"mask([9000000000000])[0]\"", "mask: no machine has a CPU 9000000000000"),
        ("slice_ns = \"sleep(1000000); 1\"", "expressions do not sleep"),
        ("slice_ns = \"import \\\"/etc/passwd\\\" as a; 1\"", "'import' is a reserved keyword"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.toml");
        std::fs::write(&path, format!("scheduler = \"configured\"\n[global]\n{text}\n")).unwrap();
        let path = path.display().to_string();
        compare(&["--with", &path], 2, &["own.toml:3: ", message]);
    }
}

/// The notes on a run of `older` with these further arguments, which has to succeed.
fn notes_on_older(more: &[&str]) -> String {
    let mut arguments = vec!["compare", "workloads/hogs.json", "-m", "2", "-d", "300ms"];
    arguments.extend(["-s", "schedulers/older.bpf.c", "--format", "json"]);
    arguments.extend(more);
    notes(&end_with(&arguments, 0, &[]).stdout)
}

#[test]
fn of_a_companion_for_another_revision_what_fits_is_done() {
    let notes = notes_on_older(&[]);
    for part in [
        "its loader is companions/beerland.toml",
        "companions/beerland.toml is for sched-ext/scx",
        "leaves out what this source lacks: there is no global variable \\\"numa_enabled\\\"",
        "global.cpu_capacity: ",
        "sets SCX_OPS_ALWAYS_ENQ_IMMED, which was left out",
    ] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    assert_eq!(notes.matches("this source lacks").count(), 1, "{notes}");
}

#[test]
fn of_several_companions_that_of_the_release_is_taken() {
    let notes = notes_on_older(&["-D", "FORMER"]);
    assert!(notes.contains("its loader is companions/beerland-1.0.20.toml"), "{notes}");
    assert!(!notes.contains("numa_enabled"), "{notes}");
}

#[test]
fn a_companion_for_another_scheduler_is_left_out() {
    let notes = notes_on_older(&["-D", "OTHER"]);
    let part = "companions/beerland.toml was left out, because it is for sched-ext/scx";
    assert!(notes.contains(part), "{notes}");
    assert!(notes.contains("this source lacks 7 of the 8 things"), "{notes}");
    assert!(!notes.contains("its loader is"), "{notes}");
    assert_eq!(notes_on_older(&["--with", "none"]), "[]");
}

#[test]
fn the_companion_of_mitosis_tells_each_cpu_of_any_machine() {
    for cpus in 1..=64 {
        let cpus = format!("{cpus}");
        let run = ["compare", "workloads/hogs.json", "-s", "schedulers/masked.bpf.c", "-d", "50ms"];
        end_with(&[&run[..], &["-m", &cpus]].concat(), 0, &[]);
    }
}
