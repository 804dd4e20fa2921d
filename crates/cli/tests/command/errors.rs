//! Each fault has one message, with its place and the way out, and the exit code tells whose fault it is. Those that a line shows are in
//! `tests/texts/refused.md`.

use std::fs;

use crate::support::{fairground, json, refuse, statuses, succeed};

/// Runs `compare` on a workload with this text.
fn compare_text(text: &str) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.json");
    fs::write(&path, text).unwrap();
    let ended = fairground(&["compare", path.to_str().unwrap(), "-s", "linux24"]);
    assert_eq!(ended.stdout, "");
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    (ended.code.unwrap(), ended.stderr)
}

#[test]
fn what_a_message_quotes_does_not_command_the_terminal() {
    let (code, message) = compare_text("{ \"tasks\" : { \"a\" : { \"run\u{1b}[2J\" 5 } } }");
    assert_eq!(code, 2, "{message}");
    assert!(!message.contains('\u{1b}'), "{message:?}");
    let machine = "numa:\u{1b}[2J";
    let ended = fairground(&["compare", "-m", machine, "workloads/mix-two.json"]);
    assert!(ended.stderr.contains("\\u{1b}[2J"), "{:?}", ended.stderr);
}

#[test]
fn a_source_that_does_not_compile_fails_its_own_runs_and_no_others() {
    let compare = "compare workloads/hogs.json -d 100ms -s schedulers/broken.bpf.c,linux24";
    let ended = refuse(
        &format!("{compare} --repeat 2 --format json"),
        1,
        &[
            "hogs on 4 under broken failed before it began: schedulers/broken.bpf.c does not compile",
        ],
    );
    let result: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(statuses(runs), ["invalid", "invalid", "ok", "ok"]);
    let message = runs[0]["failure"]["message"].as_str().unwrap();
    assert!(message.contains("broken.bpf.c:9:24: error"), "{message}");
    let csv = fairground(&format!("{compare} --format csv").split(' ').collect::<Vec<_>>());
    let row = csv.stdout.lines().nth(1).unwrap();
    assert!(row.contains(",invalid,invalid,"), "{row}");
}

#[test]
fn a_scheduler_that_loses_a_task_is_ejected_and_the_others_go_on() {
    let ended = refuse(
        "compare workloads/hogs.json -m 1 -d 10s -s schedulers/forgetful.bpf.c,schedulers/rotation.bpf.c --format json",
        1,
        &[
            "hogs on 1 under forgetful failed",
            "SCX_EXIT_ERROR_STALL",
            "hog-2[",
            "failed to run for",
        ],
    );
    let result: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    let failure = &runs[0]["failure"];
    assert_eq!(runs[0]["status"], "ejected");
    assert_eq!(failure["kind"], "SCX_EXIT_ERROR_STALL");
    let message = failure["message"].as_str().unwrap();
    assert!(message.contains("hog-2["), "{message}");
    assert_eq!(failure["at_ns"], runs[0]["metrics"]["duration_ns"]);
    let hint = runs[0]["notes"][0].as_str().unwrap();
    assert!(hint.contains("what its loader sets"), "{hint}");
    assert!(runs[0]["metrics"]["duration_ns"].as_u64().unwrap() < 10_000_000_000);
    assert_eq!(runs[1]["metrics"]["duration_ns"], 10_000_000_000_u64);
    assert_eq!(runs[1]["notes"].as_array().unwrap().len(), 0);
}

#[test]
fn a_scheduler_that_is_refused_takes_nothing_from_the_others() {
    let ended = refuse(
        "compare workloads/hogs.json -d 1s -s linux24,schedulers/recursive.bpf.c --set recursive.depth=5 --repeat 2 --format json",
        1,
        &[
            "hogs on 4 under recursive depth=5 failed before it began: deep at ",
            "recursive.bpf.c:10:",
            "these functions call each other",
        ],
    );
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    let result: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(statuses(runs), ["ok", "ok", "refused", "refused"]);
    assert_eq!(runs[2]["metrics"], serde_json::Value::Null);
    assert_eq!(runs[2]["labels"]["tunables"]["depth"], "5");
}

#[test]
fn a_crash_of_a_scheduler_names_the_line_and_takes_nothing_from_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let traces = folder.path().display();
    let ended = refuse(
        &format!(
            "compare workloads/hogs.json -d 1s -s schedulers/wild.bpf.c,schedulers/rotation.bpf.c,linux24 --format json --trace {traces}"
        ),
        1,
        &[
            "hogs on 4 under wild failed in a crash: scheduler wild accessed memory that is not there \
             in wild_enqueue at ",
            "wild.bpf.c:11:",
        ],
    );
    let result: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(statuses(runs), ["crashed", "ok", "ok"]);
    // Only of a run that came to its end is there a trace.
    let traces: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(traces.len(), 2);
    for trace in traces {
        assert!(trace.unwrap().metadata().unwrap().len() > 1000);
    }
}

#[test]
fn addresses_are_the_same_in_every_run_and_nothing_commands_the_terminal() {
    let notes = |threads: u32| {
        let line = format!(
            "compare workloads/hogs.json -d 100ms -s schedulers/nosy.bpf.c --repeat 4 --threads {threads} --format json"
        );
        let result = json(&line);
        let runs = result["runs"].as_array().unwrap();
        let of_run = |run: &serde_json::Value| run["notes"].to_string();
        runs.iter().map(of_run).collect::<Vec<_>>()
    };
    let first = notes(1);
    assert!(first[0].contains("says: \\\\u{1b}[31m2000"), "{}", first[0]);
    assert!(first.iter().all(|run| *run == first[0]));
    assert_eq!(notes(3), first);
}

#[test]
fn a_scheduler_fares_the_same_in_a_process_of_its_own() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schedulers/o1/o1.bpf.c");
    let run = |scheduler: &str| {
        let line = format!("compare workloads/shares.json -d 2s -s {scheduler} --format json");
        let mut result = json(&line);
        result["runs"][0]["metrics"].take()
    };
    assert_eq!(run("o1"), run(source));
}

#[test]
fn names_that_are_no_schedulers() {
    let folder = tempfile::tempdir().unwrap();
    let rotation = crate::support::folder().join("schedulers/rotation.bpf.c");
    for name in ["-o.bpf.c", "one,two.bpf.c"] {
        fs::copy(&rotation, folder.path().join(name)).unwrap();
    }
    let workload = crate::support::folder().join("workloads/hogs.json");
    for name in ["-s=-o.bpf.c", "-s=one,two.bpf.c"] {
        let ended = std::process::Command::new(env!("CARGO_BIN_EXE_fairground"))
            .args(["compare", "-d", "1ms", name])
            .arg(&workload)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{name}: {words}");
    }
}

#[test]
fn what_does_not_fit_together_is_reported_before_anything_is_compiled() {
    for (arguments, message) in [
        ("workloads/hogs.json", "two workloads are called hogs"),
        ("--hotplug 1:on@1ms", "CPU 1 cannot come online"),
        ("workloads/far.json", "far may only use CPUs [40]"),
    ] {
        let ended = compare_after(
            "export CLANG=/nowhere",
            &format!("-s schedulers/rotation.bpf.c {arguments}"),
        );
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
        assert_eq!(ended.code, Some(2));
    }
}

#[test]
fn a_message_that_nobody_can_read_changes_nothing() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let status = std::process::Command::new(env!("CARGO_BIN_EXE_fairground"))
        .args(["compare", "nothing.json"])
        .stderr(full)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(2));
}

#[test]
fn results_that_cannot_be_written() {
    let compare = "compare workloads/hogs.json -s linux24 -d 1ms";
    for (option, message) in [
        ("--report workloads", "cannot write workloads: Is a directory"),
        ("--report workloads", "; name a file, not a folder"),
        ("--trace workloads/hogs.json", "cannot write workloads/hogs.json: File exists"),
        ("--out workloads/hogs.json", "; name a folder, not a file"),
        ("--report /proc/none.html", "cannot write /proc/none.html: "),
    ] {
        let ended = refuse(&format!("{compare} {option}"), 2, &[message]);
        assert_eq!(ended.stdout, "", "nothing runs: {option}");
    }
}

#[test]
fn results_may_lie_in_folders_that_are_not_there_yet() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    succeed(&format!(
        "compare workloads/hogs.json -s linux24 -d 1ms --repeat 1 --report {place}/a/b.html --trace {place}/c/d --out {place}/e/f"
    ));
    for file in ["a/b.html", "c/d/hogs-linux24.perfetto-trace", "e/f/runs/runs.parquet"] {
        assert!(folder.path().join(file).is_file(), "{file}");
    }
}

#[test]
fn without_a_place_for_temporary_files_it_is_said_how_to_name_one() {
    let ended = std::process::Command::new(env!("CARGO_BIN_EXE_fairground"))
        .args(["compare", "workloads/hogs.json", "-s", "schedulers/rotation.bpf.c"])
        .current_dir(crate::support::folder())
        .env("TMPDIR", "/nowhere")
        // A scheduler that was compiled before needs no place.
        .env("XDG_CACHE_HOME", "/proc/none")
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{words}");
    assert!(words.contains("cannot make a temporary folder"), "{words}");
    assert!(words.contains("set TMPDIR to"), "{words}");
}

/// Runs `play` for one task with these members and without the right to prefer threads, which root would have.
fn play_without_rights(members: &str) -> crate::support::Ended {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.json");
    let text =
        format!("{{ \"tasks\" : {{ \"one\" : {{ {members}, \"run\" : 10, \"loop\" : 1 }} }} }}");
    fs::write(&path, text).unwrap();
    let line =
        "[ $(id -u) != 0 ] || as='setpriv --bounding-set -sys_nice'; exec $as \"$0\" play \"$1\"";
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", line, env!("CARGO_BIN_EXE_fairground")]);
    crate::support::end_of(shell.arg(path))
}

#[test]
fn played_threads_that_may_not_be_preferred() {
    for (members, policy) in [
        ("\"priority\" : -5", "SCHED_OTHER with nice -5"),
        ("\"policy\" : \"SCHED_FIFO\", \"priority\" : 7", "SCHED_FIFO with priority 7"),
    ] {
        let ended = play_without_rights(members);
        let message = format!("one: cannot set {policy}: ");
        assert!(ended.stderr.contains(&message), "{}", ended.stderr);
        assert!(ended.stderr.contains("without root"), "{}", ended.stderr);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    }
}

#[test]
fn files_without_an_end_are_not_read_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let link = |name: &str| {
        let path = folder.path().join(name);
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        path.display().to_string()
    };
    let hogs = "compare workloads/hogs.json -d 1ms -s";
    for line in [
        format!("compare -s linux24 {}", link("endless.json")),
        format!("{hogs} linux24 -m {}", link("endless.xml")),
        format!("{hogs} linux24 --cost {}", link("endless.toml")),
        format!("{hogs} schedulers/rotation.bpf.c --with {}", link("with.toml")),
        format!("{hogs} {}", link("endless.bpf.o")),
    ] {
        refuse(
            &line,
            2,
            &["endless", "it is larger than 512 MiB"][usize::from(line.contains("with"))..],
        );
    }
    refuse(&format!("{hogs} {}", link("endless.bpf.c")), 2, &["endless.bpf.c: it is not a file"]);
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let status = std::process::Command::new(env!("CARGO_BIN_EXE_fairground"))
        .args(["compare", "--help"])
        .stdout(full)
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(1));
}

/// The line that reports where a scheduler reached into its arena and nothing was there; it runs to its end.
fn reach_into_arena(scheduler: &str, reported: &str) -> String {
    let run = ["compare", "workloads/hogs.json", "-d", "1s", "-s", scheduler];
    let ended = fairground(&run);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert_eq!(ended.stdout.matches("ERROR: Arena").count(), 1);
    let line = ended.stdout.lines().find(|line| line.contains(reported));
    line.expect("it is reported").to_owned()
}

#[test]
fn a_page_of_an_arena_that_nobody_has_allocated_is_named_and_read_as_zeros() {
    let reported = "ERROR: Arena access at unmapped address 0x7f0000002000 in arena_running at ";
    let line = reach_into_arena("schedulers/arena.bpf.c", reported);
    assert!(line.contains("arena.bpf.c:29:"), "{line}");
}

#[test]
fn a_null_pointer_into_an_arena_loads_zeros_and_drops_stores() {
    let reported = "ERROR: Arena access through a null pointer, ";
    let line = reach_into_arena("schedulers/nothing_there.bpf.c", reported);
    assert!(line.contains("times, the last one in nothing_there_running at "), "{line}");
}

/// Runs `compare` with these arguments in a shell, after this command of the shell.
fn compare_after(setup: &str, arguments: &str) -> crate::support::Ended {
    let line = format!("{setup}; exec \"$0\" compare workloads/hogs.json -d 50ms {arguments}");
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", &line, env!("CARGO_BIN_EXE_fairground")]);
    crate::support::end_of(shell.current_dir(crate::support::folder()))
}

#[test]
fn a_source_compiles_under_limits_that_are_lower_than_those_of_the_compiler() {
    let ended = compare_after(
        "export XDG_CACHE_HOME=/proc/none; ulimit -v 3000000; ulimit -t 100",
        "-s schedulers/rotation.bpf.c",
    );
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_compiler_that_cannot_be_started_is_not_said_to_be_missing() {
    let ended = compare_after("ulimit -n 5", "-s schedulers/rotation.bpf.c");
    let reason = "cannot run clang-19: Too many open files";
    assert!(ended.stderr.contains(reason), "{}", ended.stderr);
    assert!(ended.stderr.contains("ulimit -n"), "{}", ended.stderr);
    assert_eq!(ended.code, Some(2));
}

#[test]
fn without_further_threads_the_first_does_the_work() {
    // The standard library reads the size of stacks from there; so much the system does not give.
    let ended = compare_after("export RUST_MIN_STACK=$((1 << 60))", "-s linux24,linux12");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_file_that_becomes_too_large_for_the_shells_limit_costs_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    for (option, file) in [
        (format!("--report {place}/page.html"), "page.html"),
        (format!("--trace {place}"), "hogs-linux24.perfetto-trace"),
    ] {
        let ended = compare_after("ulimit -f 0", &format!("-s linux24 {option}"));
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stdout.contains("linux24"), "{}", ended.stdout);
        let reason = format!("{file}: File too large");
        assert!(ended.stderr.contains(&reason), "{}", ended.stderr);
        assert!(ended.stderr.contains("ulimit -f"), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn names_and_sources_that_are_not_utf_8() {
    use std::os::unix::ffi::OsStrExt as _;
    let foreign = std::ffi::OsStr::from_bytes(b"caf\xe9.bpf.c");
    for (last, message) in [("-5", "-5: no value can be"), ("-d5ms", ": it is not UTF-8")] {
        let ended = fairground(&["compare".as_ref(), "-s".as_ref(), foreign, last.as_ref()]);
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
        assert_eq!(ended.code, Some(2));
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join(foreign);
    fs::create_dir(&folder).unwrap();
    let rotation = fs::read_to_string(crate::support::folder().join("schedulers/rotation.bpf.c"));
    let (before, after) = rotation.as_ref().unwrap().split_once(";\n}").unwrap();
    let source = [before.as_bytes(), b"; /* caf\xe9 */\n}", after.as_bytes()].concat();
    fs::write(folder.join("mine.bpf.c"), source).unwrap();
    let hogs = crate::support::folder().join("workloads/hogs.json");
    let mut compare = std::process::Command::new(env!("CARGO_BIN_EXE_fairground"));
    compare.args(["compare", "-d", "1ms", "-s", "mine.bpf.c"]);
    let ended = crate::support::end_of(compare.arg(hogs).current_dir(folder));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_release_can_be_chosen_wherever_schedulers_run() {
    let former = "schedulers/former.bpf.c";
    let mine = format!("{former} -m 2 -d 100ms");
    let way = "since Linux 6.13 it is called scx_bpf_dsq_insert; Linux 6.12 to 6.17 have it: --kernel 6.17";
    refuse(&format!("compare mix-two -s {mine}"), 2, &[way]);
    succeed(&format!("compare mix-two -s {mine} --kernel 6.12"));
    succeed(&format!("compare mix-two -s {mine} -D WRAPPED"));
    succeed(&format!("check {former} --case late-hogs --kernel 6.12"));
    let recording = "../../../workloads/build.recording";
    succeed(&format!("advise {recording} -s {former} -D FLAGS --repeat 2 --kernel 6.18"));
    let flag = "invalid ops.flags 0x10000: this kernel has no SCX_OPS_HAS_CGROUP_WEIGHT, which can be left out (Linux 6.12 to 7.1 have it: --kernel 7.1)";
    refuse(&format!("compare mix-two -s {mine} -D FLAGS"), 2, &[flag]);
}

#[test]
fn what_a_file_is_instead_of_a_machine_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("topology.txt");
    fs::write(&path, "Machine (31GB total)\n  Package L#0\n    Core L#0\n").unwrap();
    let path = path.display();
    refuse(
        &format!("compare mix-two -s cfs -m {path}"),
        2,
        &["text of lstopo", "lstopo machine.xml"],
    );
    refuse("compare mix-two -s cfs -m 2,4", 2, &["write -m 2 -m 4"]);
}

#[test]
fn what_would_have_no_effect_or_two_is_refused() {
    let same =
        "compare mix-two -s cfs -m 1 -d 20ms --set cfs.sched_latency=12ms --set sched_latency=6ms";
    refuse(same, 2, &["sched_latency is set twice"]);
    refuse("check eevdf --case renice -m 512", 2, &["cannot be used with"]);
    let seed = format!("compare mix-two -s cfs -m 1 -d 20ms --seed {}", u64::MAX);
    refuse(&seed, 2, &["is not in 0..=9223372036854775807"]);
    let units = "compare mix-two -s cfs -m 1 -d 20ms --set sched_latency=1..3ms:+1ms";
    refuse(units, 2, &["its two numbers need the same unit"]);
}

#[test]
fn explain_says_why_nothing_ran() {
    let line = |scheduler: &str| format!("explain mix-two -s schedulers/{scheduler} -m 2 -d 300ms");
    refuse(&line("futuristic.bpf.c"), 2, &["the kernel has no function scx_bpf_task_foresee"]);
    refuse(&line("wild.bpf.c"), 1, &["failed in a crash"]);
}
