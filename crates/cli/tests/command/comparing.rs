//! Comparing schedulers.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::support::{end_of, end_with, fairground, folder, json, refuse, succeed};

const HOGS: &str = "compare workloads/hogs.json -s linux24,schedulers/rotation.bpf.c";

#[test]
fn the_table_has_a_row_for_each_scheduler_and_what_they_ran_on() {
    let text = succeed(&format!("{HOGS} -m 2"));
    let heading = text.lines().next().unwrap();
    assert_eq!(heading, "hogs (machine 2, 1.00 s, cost model default, seed 0)");
    for expected in ["\nlinux24 ", "\nrotation ", "\nhog-0 ", "\nplayer "] {
        assert!(text.contains(expected), "{expected:?} is not in\n{text}");
    }
}

#[test]
fn the_same_arguments_give_the_same_bytes_for_any_number_of_threads() {
    let line = format!("{HOGS} --repeat 3 --format json -d 300ms");
    let first = succeed(&format!("{line} --threads 1"));
    for threads in ["1", "2", "5"] {
        let again = succeed(&format!("{line} --threads {threads}"));
        assert!(first == again, "other results with {threads} threads");
    }
    let other = succeed(&format!("{line} --seed 7"));
    assert!(first != other, "the seed changes nothing");
}

#[test]
fn machine_code_is_used_again_by_the_next_process() {
    let cache = tempfile::tempdir().unwrap();
    let compare = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairground"));
        command.args(HOGS.split(' ')).args(["-m", "2", "-d", "200ms"]);
        command.current_dir(folder()).env("XDG_CACHE_HOME", cache.path());
        let ended = end_of(&mut command);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stdout
    };
    let kept = || {
        let files = fs::read_dir(cache.path().join("fairground/objects")).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        let mut code: Vec<_> =
            paths.filter(|path| path.extension().is_some_and(|kind| kind == "code")).collect();
        code.sort();
        code
    };
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let first = compare();
    // Of each of the two its machine code and its identity.
    let files = kept();
    assert_eq!(files.len(), 4);
    for path in &files {
        let file = fs::File::options().append(true).open(path).unwrap();
        file.set_modified(long_ago).unwrap();
    }
    assert_eq!(compare(), first);
    assert_eq!(kept(), files);
    for path in &files {
        let used = fs::metadata(path).unwrap().modified().unwrap();
        assert!(used > long_ago, "{} was not used", path.display());
        // As if its writer had been killed on a system that lost the rest.
        let half = fs::metadata(path).unwrap().len() / 2;
        fs::File::options().write(true).open(path).unwrap().set_len(half).unwrap();
    }
    assert_eq!(compare(), first);
}

#[test]
fn json_holds_every_run_in_the_published_form() {
    let result = json(&format!("{HOGS} -d 200ms --repeat 2 --format json --set linux24.hz=200"));
    // The type refuses unknown and missing fields; that its form is the one of the schema is tested where it is defined.
    let typed: Vec<fairground_results::Run> =
        serde_json::from_value(result["runs"].clone()).unwrap();
    assert_eq!(typed.len(), 4);
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs[0]["labels"]["tunables"]["hz"], "200 Hz");
    assert_eq!(runs[1]["labels"]["seed"], 1);
    assert_eq!(runs[1]["labels"]["repeat"], 1);
    let labels = &runs[3]["labels"];
    assert_eq!(labels["scheduler"], "rotation");
    assert_eq!(labels["reference"], "schedulers/rotation.bpf.c");
}

#[test]
fn tasks_that_only_call_the_kernel_have_throughput_and_shares() {
    let result = json("compare workloads/pipes.json -s cfs -m 1 -d 100ms --format json");
    let metrics = &result["runs"][0]["metrics"];
    let number = |place: &str| metrics.pointer(place).and_then(serde_json::Value::as_f64);
    // Four calls of 150 ns in each round of two switches and two wake-ups.
    let throughput = number("/throughput/ratio").unwrap();
    assert!((0.05..0.5).contains(&throughput), "{throughput}");
    let fairness = number("/fairness/jain_index").unwrap();
    assert!(fairness > 0.95, "{fairness}");
    let shares: Vec<f64> =
        (0..4).map(|task| number(&format!("/tasks/{task}/share/actual")).unwrap()).collect();
    assert!(shares.iter().all(|share| *share > 0.01), "{shares:?}");
    let time = |kind: &str| metrics["cpu_time"][kind].as_u64().unwrap();
    assert_eq!(time("busy_ns") + time("overhead_ns") + time("idle_ns"), time("available_ns"));
}

#[test]
fn noise_goes_through_the_scheduler_and_only_a_note_tells_of_it() {
    let line = "compare workloads/hogs.json -s cfs -m 2 -d 300ms --format json";
    let metrics = |text: &str| -> serde_json::Value {
        let result: serde_json::Value = serde_json::from_str(text).unwrap();
        result["runs"][0]["metrics"].clone()
    };
    let quiet = succeed(line);
    assert_eq!(quiet, succeed(&format!("{line} --noise none")));
    let noisy = succeed(&format!("{line} --noise default"));
    assert!(!quiet.contains("threads of the kernel"), "{quiet}");
    let note = "7 threads of the kernel (--noise default) had 0.0";
    assert!(noisy.contains(note), "{noisy}");
    let tasks = |metrics: &serde_json::Value| metrics["tasks"].as_array().unwrap().len();
    let (quiet, noisy) = (metrics(&quiet), metrics(&noisy));
    assert_eq!(tasks(&quiet), tasks(&noisy));
    assert!(quiet["cpu_time"] != noisy["cpu_time"], "it has no effect");
}

#[test]
fn noise_makes_idle_cpus_go_through_the_scheduler() {
    let wasted = |noise: &str| {
        let line = "compare workloads/hogs.json -s schedulers/passive.bpf.c -m 4 -d 3s";
        let result = json(&format!("{line} --format json --noise {noise}"));
        let time = &result["runs"][0]["metrics"]["cpu_time"];
        let of = |kind: &str| time[kind].as_f64().unwrap();
        of("idle_while_runnable_ns") / of("available_ns")
    };
    let (quiet, noisy) = (wasted("none"), wasted("default"));
    assert!(quiet > 0.5 && noisy < quiet / 3.0, "{quiet} {noisy}");
}

#[test]
fn what_the_model_lacks_is_said_once() {
    let line = "compare workloads/hogs.json -s cfs,o1 -d 100ms -m";
    let mut arguments: Vec<&str> = line.split(' ').collect();
    arguments.push("core:1 pu:2");
    let text = fairground(&arguments).stdout;
    let said = text.matches("SMT siblings were busy at the same time");
    assert_eq!(said.count(), 1, "{text}");
}

#[test]
fn csv_has_a_row_for_each_run_and_each_task() {
    let text = succeed(&format!("{HOGS} -d 200ms --format csv"));
    let mut lines = text.lines();
    let heading = lines.next().unwrap();
    assert!(
        heading.starts_with(
            "fairground,workload,scheduler,machine,cost_model,noise,hotplug,seed,repeat"
        ),
        "{heading}"
    );
    let rows: Vec<&str> = lines.collect();
    assert_eq!(rows.len(), 2 * (1 + 5));
    for row in rows {
        assert_eq!(row.matches(',').count(), heading.matches(',').count());
    }
}

#[test]
fn the_page_says_from_the_events_why_a_scheduler_is_worse_and_takes_ten_runs_to_say_so() {
    let scratch = tempfile::tempdir().unwrap();
    let report = scratch.path().join("report.html");
    succeed(&format!("{HOGS} -m 2 --report {}", report.display()));
    let page = fs::read_to_string(report).unwrap();
    assert!(page.contains("10 runs of each"));
    let reasons: Vec<&str> = page.split("<div class=\"why\">").skip(1).collect();
    let told = |reason: &&str| {
        let sentence = reason.split('<').next().unwrap();
        sentence.starts_with("Under rotation, with seed ")
            && sentence.contains(", player waits for ")
            && sentence.contains("lay in the DSQ 7 for ")
    };
    assert!(reasons.iter().any(told), "{reasons:?}");
}

#[test]
fn the_page_says_which_wait_a_cpu_was_idle_beside_that_made_a_scheduler_slow() {
    let scratch = tempfile::tempdir().unwrap();
    let report = scratch.path().join("report.html");
    let line = format!(
        "compare workloads/hogs.json -s schedulers/rotation.bpf.c,schedulers/passive.bpf.c -m 4 -d 1s --starved off --report {}",
        report.display()
    );
    succeed(&line);
    let page = fs::read_to_string(report).unwrap();
    let (_, from) = page.split_once("passive leaves CPUs idle").unwrap();
    let (reason, _) = from.split_once("</dd>").unwrap();
    assert!(reason.contains("Under passive, with seed "), "{reason}");
    assert!(reason.contains(", which it may use, "), "{reason}");
    // The page ends with its inputs.
    let (_, foot) = page.split_once("<footer>").unwrap();
    for part in ["Made by fairground ", "SHA-256", "passive", "hogs"] {
        assert!(foot.contains(part), "{part}: {foot}");
    }
}

#[test]
fn a_result_says_what_it_was_made_from_whatever_its_place() {
    let hashes = |place: &str, companion: Option<&str>| {
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().join(place);
        fs::create_dir_all(&place).unwrap();
        let source = place.join("rotation.bpf.c");
        fs::copy(folder().join("schedulers/rotation.bpf.c"), &source).unwrap();
        if let Some(text) = companion {
            fs::write(place.join("rotation.companion.toml"), text).unwrap();
        }
        let source = source.display();
        let line = format!("compare workloads/hogs.json -s {source} -d 100ms --format json");
        let result = json(&line);
        result["runs"][0]["labels"]["hashes"].clone()
    };
    let first = hashes("a", None);
    assert_eq!(first["scheduler"].as_str().unwrap().len(), 64);
    assert_eq!(first, hashes("another/folder", None));
    assert!(first["companion"].is_null());
    let set = hashes("a", Some("scheduler = \"rotation\"\n[ops]\ntimeout_ms = 3000\n"));
    assert_eq!(set["scheduler"], first["scheduler"]);
    assert_eq!(set["companion"].as_str().unwrap().len(), 64);
}

#[test]
fn single_runs_of_one_table_are_said_to_prove_nothing() {
    let text = succeed(&format!("{HOGS} -d 200ms"));
    assert!(text.contains("One run of each: differences may be chance. --baseline ID"));
    let text = succeed(&format!("{HOGS} -d 200ms --repeat 3"));
    assert!(!text.contains("may be chance"), "{text}");
}

#[test]
fn traces_and_the_report_are_written() {
    let scratch = tempfile::tempdir().unwrap();
    let traces = scratch.path().join("traces");
    let report = scratch.path().join("report.html");
    succeed(&format!(
        "{HOGS} -d 100ms --repeat 1 --trace {} --report {}",
        traces.display(),
        report.display()
    ));
    let mut names: Vec<String> = fs::read_dir(&traces)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["hogs-linux24.perfetto-trace", "hogs-rotation.perfetto-trace"]);
    let trace = fs::read(traces.join(&names[0])).unwrap();
    // Every packet of a trace is field 1 of the outermost message.
    assert_eq!(trace[0], 0x0a);
    assert!(trace.windows(5).any(|bytes| bytes == b"hog-0"));
    assert!(fs::read_to_string(report).unwrap().contains("linux24"));
}

#[test]
fn switches_are_written_as_text() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().display();
    succeed(&format!("{HOGS} -m 2 -d 1s --cost zero --trace {folder} --trace-form switches"));
    let text = fs::read_to_string(scratch.path().join("hogs-linux24.switches")).unwrap();
    assert!(text.starts_with("0 0 hog-0\n") && text.lines().count() > 10, "{text}");
    let mut before = (0, 0);
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [time, cpu, _] = words[..] else { panic!("{line}") };
        let now: (u64, u32) = (time.parse().unwrap(), cpu.parse().unwrap());
        assert!(now >= before, "{line}");
        before = now;
    }
}

#[test]
fn schedulers_whose_files_have_the_same_name_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("rotation.bpf.c");
    fs::copy(crate::support::folder().join("schedulers/rotation.bpf.c"), &other).unwrap();
    let text = succeed(&format!("{HOGS},{} -d 100ms", other.display()));
    assert!(text.contains("\nschedulers/rotation.bpf.c "), "{text}");
    assert!(text.contains(&format!("\n{} ", other.display())), "{text}");
}

#[test]
fn shares_that_the_workload_gives_are_the_ideal() {
    let line = "compare workloads/shares.json -s ebs,cfs -m 1 --hz 1000 --format json";
    let result = json(line);
    let metrics = |run: usize| &result["runs"][run]["metrics"];
    let ideal = |task: usize| metrics(0)["tasks"][task]["share"]["ideal"].as_f64().unwrap();
    for (task, share) in [(0, 1.0 / 6.0), (1, 2.0 / 6.0), (2, 3.0 / 6.0)] {
        assert!((ideal(task) - share).abs() < 0.001, "{}", ideal(task));
    }
    let jain = |run: usize| metrics(run)["fairness"]["jain_index"].as_f64().unwrap();
    assert!(jain(0) > 0.99, "ebs divides by shares: {}", jain(0));
    assert!(jain(1) < 0.9, "cfs does not: {}", jain(1));
    let notes = result["runs"][1]["notes"].to_string();
    assert!(notes.contains("cfs reads no task attributes"), "{notes}");
}

#[test]
fn parquet_holds_a_row_for_each_run_and_for_each_task() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("results");
    succeed(&format!("{HOGS} -d 100ms --repeat 2 --out {}", folder.display()));
    for name in ["runs/runs.parquet", "tasks/tasks.parquet"] {
        let bytes = fs::read(folder.join(name)).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    }
    // A file that cannot be written does not take the table away.
    let ended = fairground(&[
        "compare",
        "workloads/hogs.json",
        "-s",
        "linux24",
        "-d",
        "100ms",
        "--out",
        "/proc/nowhere",
    ]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert!(ended.stderr.contains("cannot write /proc/nowhere"), "{}", ended.stderr);
}

#[test]
fn what_cannot_be_written_is_told_before_anything_runs() {
    for option in ["--report /proc/none/a.html", "--trace /proc/none", "--shrink /proc/none"] {
        // It would run for a long time.
        let line = format!("compare workloads/hogs.json -s linux24 -d 200h {option}");
        let ended = crate::support::refuse(&line, 2, &["cannot write /proc/none"]);
        assert_eq!(ended.stdout, "");
    }
}

#[test]
fn windows_have_the_length_that_is_asked_for() {
    let window = |arguments: &str| {
        let result = json(&format!("{HOGS} -m 1 --format json{arguments}"));
        result["runs"][0]["metrics"]["fairness"]["worst_window"]["window_ns"].clone()
    };
    assert_eq!(window(""), serde_json::Value::Null);
    assert_eq!(window(" --window 300ms"), 300_000_000);
}

#[test]
fn tunables_change_results_and_are_named() {
    let base = "compare workloads/hogs.json -s schedulers/rotation.bpf.c -m 1";
    let usual = succeed(base);
    for name in ["rotation", "schedulers/rotation.bpf.c"] {
        let short = succeed(&format!("{base} --set {name}.slice_ns=1000000"));
        assert!(short.contains("slice_ns=1 ms"), "{short}");
        assert!(short != usual);
    }
}

/// Machine, scheduler, reference and settings of each run of a comparison, in its order.
fn kinds(arguments: &[&str]) -> Vec<[String; 4]> {
    let start = ["compare", "workloads/hogs.json", "-d", "50ms", "--format", "json"];
    let ended = fairground(&[&start[..], arguments].concat());
    assert_eq!((ended.stderr.as_str(), ended.code), ("", Some(0)));
    let result: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let runs = result["runs"].as_array().unwrap().iter();
    let kind = |run: &serde_json::Value| {
        let labels = &run["labels"];
        let text = |name: &str| labels[name].as_str().unwrap_or("-").to_owned();
        let tunables = labels["tunables"].to_string().replace('"', "");
        [text("machine"), text("scheduler"), text("reference"), tunables]
    };
    runs.map(kind).collect()
}

#[test]
fn several_machines_and_values_are_told_apart_in_every_run() {
    let found = kinds(&["-s", "cfs", "--set", "sched_latency=6ms,12ms", "-m", "1", "-m", "core:2"]);
    let expected = [
        ["1", "cfs", "-", "{sched_latency:6 ms}"],
        ["1", "cfs", "-", "{sched_latency:12 ms}"],
        ["core:2", "cfs", "-", "{sched_latency:6 ms}"],
        ["core:2", "cfs", "-", "{sched_latency:12 ms}"],
    ];
    assert_eq!(found, expected);
    let table = succeed(&format!("{HOGS} -m 1 -m core:2 -d 50ms"));
    for heading in ["hogs (machine 1, ", "hogs (machine core:2, "] {
        assert_eq!(table.matches(heading).count(), 1, "{table}");
    }
}

#[test]
fn lists_are_combined() {
    let found = kinds(&[
        "-s",
        "cfs,o1",
        "--set",
        "cfs.sched_latency=6ms..12ms:x2",
        "--set",
        "cfs.hz=100,1000",
        "--set",
        "o1.hz=100",
    ]);
    let settings: Vec<&str> = found.iter().map(|run| run[3].as_str()).collect();
    assert_eq!(
        settings,
        [
            "{hz:100 Hz,sched_latency:6 ms}",
            "{hz:1000 Hz,sched_latency:6 ms}",
            "{hz:100 Hz,sched_latency:12 ms}",
            "{hz:1000 Hz,sched_latency:12 ms}",
            "{hz:100 Hz}",
        ]
    );
}

#[test]
fn a_scheduler_takes_part_several_times_under_names() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("mine.bpf.c");
    let source = fs::read_to_string(folder().join("schedulers/rotation.bpf.c")).unwrap();
    let variable = "const volatile u64 slice_ns = ";
    let slice = "#ifndef SLICE\n#define SLICE 5000000\n#endif\n";
    let changed =
        source.replace(&format!("{variable}5000000;"), &format!("{slice}{variable}SLICE;"));
    assert_ne!(source, changed);
    fs::write(&path, changed).unwrap();
    let path = path.display();
    let schedulers =
        format!("old={path},new={path}{{-DSLICE=1000000}},set=cfs{{sched_latency=6ms}},cfs");
    let found = kinds(&["-s", &schedulers]);
    let path = path.to_string();
    let expected = [
        ["4", "old", &path, "{}"],
        ["4", "new", &path, "{}"],
        ["4", "set", "cfs", "{sched_latency:6 ms}"],
        ["4", "cfs", "-", "{}"],
    ];
    assert_eq!(found, expected);
    let result = fairground(&[
        "compare",
        "workloads/hogs.json",
        "-m",
        "1",
        "-s",
        &schedulers,
        "--format",
        "json",
    ]);
    let result: serde_json::Value = serde_json::from_str(&result.stdout).unwrap();
    let switches = |run: usize| result["runs"][run]["metrics"]["context_switches"].as_u64();
    assert!(switches(1) > switches(0), "the macro has no effect");
    // A setting for a name is not one for the same scheduler under another.
    let found = kinds(&["-s", "a=cfs,b=cfs", "--set", "b.hz=100"]);
    let settings: Vec<&str> = found.iter().map(|run| run[3].as_str()).collect();
    assert_eq!(settings, ["{}", "{hz:100 Hz}"]);
}

/// How often the compiler is called for a comparison of these schedulers.
fn compilations(schedulers: &str) -> usize {
    let scratch = tempfile::tempdir().unwrap();
    let (calls, wrapper) = (scratch.path().join("calls"), scratch.path().join("clang"));
    let compiler = std::env::var("CLANG").unwrap_or_else(|_| "clang-19".to_owned());
    let script = format!("#!/bin/sh\necho call >>{}\nexec {compiler} \"$@\"\n", calls.display());
    fs::write(&wrapper, script).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairground"));
    command.args(["compare", "workloads/hogs.json", "-d", "10ms", "-m", "1", "-m", "2", "-s"]);
    command.arg(schedulers).args(["--set", "slice_ns=1ms,2ms"]).current_dir(folder());
    let ended = crate::support::end_of(command.env("CLANG", &wrapper));
    assert_eq!((ended.stderr.as_str(), ended.code), ("", Some(0)));
    fs::read_to_string(calls).map_or(0, |text| text.lines().count())
}

#[test]
fn a_source_is_compiled_once_for_all_names_settings_and_machines() {
    let path = "schedulers/rotation.bpf.c";
    let once = compilations(path);
    assert!(once > 0, "the compiler is not the one that is counted");
    let both = compilations(&format!("{path},b={path},c={path}{{slice_ns=3ms}}"));
    assert_eq!(both, once);
    let other = compilations(&format!("{path},b={path}{{-DOTHER}}"));
    assert!(other > once, "{other} calls with other macros");
}

#[test]
fn a_comparison_in_which_no_task_waits_says_that_it_compared_nothing() {
    let line = "compare hogs-three -s eevdf,ule -d 200ms --repeat 3 --baseline eevdf";
    let told = |machine: &str| {
        succeed(&format!("{line} -m {machine}"))
            .contains(" no task waited, so nothing was compared")
    };
    assert!(told("16"));
    assert!(!told("2"));
}

#[test]
fn a_folder_of_headers_can_be_for_one_of_the_schedulers() {
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("mine.bpf.c");
    let text = "#include \"fairground.bpf.h\"\n#include <slice.h>\nconst volatile u64 slice_ns = OWN_SLICE;\n\
                DEFINE_SCHEDULER(mine, .name = \"mine\");\n";
    fs::write(&source, text).unwrap();
    let folders = ["v1", "v2"].map(|version| scratch.path().join(version));
    for folder in &folders {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("slice.h"), "#define OWN_SLICE 3000000\n").unwrap();
    }
    fs::write(folders[1].join("slice.h"), "#error of another month\n").unwrap();
    let [source, old, new] =
        [&source, &folders[0], &folders[1]].map(|path| path.display().to_string());
    let line =
        format!("compare mix-two -d 10ms -s old={source}{{-I{old}}},new={source}{{-I{new}}}");
    let ended = refuse(&line, 1, &["new failed before it began", "of another month"]);
    assert!(ended.stdout.contains("\nold "), "{}", ended.stdout);
    refuse(
        &format!("compare mix-two -s cfs -I {old}"),
        2,
        &["-I and -D are for sources of your own"],
    );
}

#[test]
fn files_about_runs_are_named_as_the_table_names_them() {
    let scratch = tempfile::tempdir().unwrap();
    succeed(
        &format!(
            "{HOGS} -d 10ms -m 1 -m 2 --set cfs.sched_latency=6ms,12ms --trace {}",
            scratch.path().display()
        )
        .replace("linux24", "cfs"),
    );
    let mut names: Vec<String> = fs::read_dir(scratch.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let kinds = ["cfs-sched_latency=12ms", "cfs-sched_latency=6ms", "rotation"];
    let expected: Vec<String> = { kinds.iter() }
        .flat_map(|kind| {
            ["1", "2"].map(|machine| format!("hogs-{kind}-on-{machine}.perfetto-trace"))
        })
        .collect();
    assert_eq!(names, expected);
}

#[test]
fn costs_can_be_switched_off_or_chosen() {
    let overhead = |cost: &str| -> u64 {
        let result = json(&format!("{HOGS} -d 200ms --format json --cost {cost}"));
        result["runs"][0]["metrics"]["cpu_time"]["overhead_ns"].as_u64().unwrap()
    };
    let scratch = tempfile::tempdir().unwrap();
    let dear = scratch.path().join("dear.toml");
    fs::write(&dear, "tick = 100000\n").unwrap();
    let usual = overhead("default");
    assert_eq!(overhead("zero"), 0);
    assert!(usual > 0);
    assert!(overhead(dear.to_str().unwrap()) > usual);
}

#[test]
fn a_workload_without_an_end_gets_one_and_says_so() {
    let text = succeed("compare workloads/endless.json -s linux24");
    assert!(text.contains("10.0 s") || text.contains("10.00 s"), "{text}");
    assert!(
        text.contains("endless has neither a duration nor an end and was run for 10 s"),
        "{text}"
    );
    let text = succeed("compare workloads/endless.json -s linux24 -d 2s");
    assert!(!text.contains("neither"), "{text}");
}

#[test]
fn cpus_come_and_go() {
    let available = |arguments: &str| -> u64 {
        let result = json(&format!(
            "compare workloads/hogs.json -s schedulers/rotation.bpf.c -m 2 --format json {arguments}"
        ));
        result["runs"][0]["metrics"]["cpu_time"]["available_ns"].as_u64().unwrap()
    };
    assert_eq!(available("-d 1s"), 2_000_000_000);
    // What runs on it is stopped a little later.
    let with_pause = available("-d 1s --hotplug 1:off@250ms --hotplug 1:on@750ms");
    assert!((1_500_000_000..1_501_000_000).contains(&with_pause), "{with_pause}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fairground"))
        .args(["compare", "workloads/hogs.json", "-s", "linux24", "-d", "10ms"])
        .args(["--format", "json", "--repeat", "200"])
        .current_dir(folder())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The pipe is closed before anything is read from it.
    drop(child.stdout.take());
    let mut messages = String::new();
    child.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
    assert_eq!(messages, "");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn every_subcommand_has_help_with_an_example() {
    let help = succeed("--help");
    let names = help.lines().filter_map(|line| line.strip_prefix("  "));
    let names = names.filter(|line| line.starts_with(char::is_alphabetic));
    let names: Vec<&str> = names.filter_map(|line| line.split(' ').next()).collect();
    assert!(names.len() >= 13, "{help}");
    for subcommand in names {
        let text = succeed(&format!("{subcommand} --help"));
        for part in [&format!("fairground {subcommand}"), "Examples:", "Exit status: "] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
    }
}

#[test]
fn the_version_names_the_commit_that_was_built() {
    let text = succeed("--version");
    let start = format!("fairground {}", env!("CARGO_PKG_VERSION"));
    assert!(text.starts_with(&start), "{text}");
    let git = Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .current_dir(folder())
        .output();
    // Without a repository, as in a release, there is no commit.
    if let Some(output) = git.ok().filter(|output| output.status.success()) {
        let commit = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text, format!("{start} ({})\n", commit.trim()));
    }
}

/// A scheduler that loses a task, for less time than the kernel takes to notice, and one that does not.
#[test]
fn a_task_that_is_lost_among_many_equals_starves() {
    let line = "compare workloads/many.json -m 1 -s schedulers/forgetful.bpf.c,schedulers/rotation.bpf.c --set forgetful.ops.timeout_ms=30000";
    let ended =
        refuse(line, 1, &["many on 1 under forgetful ops.timeout_ms=30000 starved a task after 0"]);
    let why = ", more than 3 times as long as any of its equals ever did: ";
    assert!(ended.stderr.contains(why), "{}", ended.stderr);
    assert!(!ended.stderr.contains("rotation"), "{}", ended.stderr);
}

/// Of three tasks of SCHED_IDLE two have come to the barrier and sleep there, so they never waited for long.
#[test]
fn a_task_whose_equals_sleep_is_not_left_behind() {
    succeed("compare workloads/idle-at-barrier.json -m 2 -s dwrr");
}

const STARVING: &str = "compare workloads/hogs.json -m 4 -d 3s -s schedulers/forgetful.bpf.c,schedulers/rotation.bpf.c \
                        --set forgetful.ops.timeout_ms=30000";

#[test]
fn a_task_that_is_never_run_again_is_named_first_with_the_command_that_shows_why() {
    let ended = refuse(
        STARVING,
        1,
        &["hogs on 4 under forgetful ops.timeout_ms=30000 starved a task after 0."],
    );
    let told = ended.stdout.lines().nth(2).unwrap();
    assert!(told.starts_with("forgetful ops.timeout_ms=30000 starved a task after 0."), "{told}");
    for expected in [
        "hog-1 waited from then on for 2.98 s, to the end of the run at 3 s, and was due 2.93 s of CPU time meanwhile: ",
        "held in the scheduler's own data",
        "; CPU 0, which it may use, was idle for ",
    ] {
        assert!(told.contains(expected), "{told}");
    }
    let command = ended.stdout.lines().nth(3).unwrap().trim_start();
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[..2], ["fairground", "explain"]);
    let explained = fairground(&words[1..]);
    assert_eq!(explained.code, Some(0), "{}", explained.stderr);
    assert!(explained.stdout.contains("hog-1 waited 2.98 s"), "{}", explained.stdout);
    // The other one has nothing to do with it.
    let row = |name: &str| ended.stdout.lines().filter(|line| line.starts_with(name)).nth(1);
    assert!(row("forgetful").unwrap().contains(" starved "));
    let others = ended.stdout.lines().find(|line| line.starts_with("rotation"));
    assert!(others.unwrap().contains(" ok "), "{}", ended.stdout);
}

#[test]
fn several_workloads_and_machines_end_with_a_summary_of_all() {
    let line = "compare workloads/hogs.json workloads/pipes.json -m 4 -m 2 -d 3s --set forgetful.ops.timeout_ms=30000 -s \
                schedulers/forgetful.bpf.c,schedulers/rotation.bpf.c,again=schedulers/rotation.bpf.c";
    let summary = |line: &str| {
        let ended = refuse(line, 1, &["starved a task"]);
        let (_, summary) = ended.stdout.split_once("All 4 cells").unwrap();
        summary.to_owned()
    };
    let text = summary(line);
    assert!(text.lines().count() < 20, "{text}");
    // The failure is first and says where; no row tells of the cells in which it happened.
    let failed = "forgetful ops.timeout_ms=30000: starved in 3 of 4 cells, first hogs on 4";
    assert_eq!(text.lines().nth(2), Some(failed), "{text}");
    let row = |text: &str, name: &str| -> Vec<String> {
        let mut lines = text.lines().skip(3);
        let line = lines.find(|line| line.starts_with(name)).unwrap();
        let cells = line[name.len()..].split("  ").map(str::trim);
        let cells = cells.filter(|cell| !cell.is_empty());
        cells.map(str::to_owned).collect()
    };
    // Nothing is better than its own copy.
    let first = row(&text, "rotation");
    assert!(first.contains(&"same".to_owned()), "{text}");
    assert!(!first.concat().contains('+'), "{text}");
    assert_eq!(row(&text, "again"), first, "{text}");
    assert!(text.contains("differences may be chance"), "{text}");
    // Against a baseline, with repeats, and as Markdown.
    let text = summary(&format!("{line} --baseline rotation --repeat 2 --format markdown"));
    assert!(text.starts_with(" (workload and machine): against rotation\n"), "{text}");
    assert!(text.contains(&format!("\n- **{failed}**\n")), "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| again ")).collect();
    assert_eq!(rows.len(), 1, "{text}");
    let cells = rows[0].trim_matches('|').split('|').skip(1);
    assert!(cells.map(str::trim).all(|cell| cell == "same"), "{text}");
    assert!(!text.contains("chance"), "{text}");
    // A single table has no summary.
    let one = succeed("compare workloads/hogs.json -d 1s -s cfs,o1");
    assert!(!one.contains("cells"), "{one}");
}

#[test]
fn how_long_a_task_may_wait_can_be_chosen() {
    let line = |starved: &str| format!("{STARVING} --format json --starved {starved}");
    let statuses = |text: &str| -> Vec<String> {
        let result: serde_json::Value = serde_json::from_str(text).unwrap();
        let runs = result["runs"].as_array().unwrap().iter();
        runs.map(|run| run["status"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(statuses(&succeed(&line("off"))), ["ok", "ok"]);
    assert_eq!(statuses(&succeed(&line("4s"))), ["ok", "ok"]);
    let ended = refuse(&line("1s"), 1, &["starved a task"]);
    assert_eq!(statuses(&ended.stdout), ["starved", "ok"]);
    let ended = refuse(&line("1us"), 1, &["starved a task"]);
    assert_eq!(statuses(&ended.stdout), ["starved", "starved"]);
}

/// A command that compares rotation with a copy of it that has this slice, and its output.
fn against_copy(slice_ns: u64, more: &str) -> crate::support::Ended {
    let scratch = tempfile::tempdir().unwrap();
    let copy = scratch.path().join("copy.bpf.c");
    fs::copy(folder().join("schedulers/rotation.bpf.c"), &copy).unwrap();
    let line = format!(
        "compare workloads/hogs.json -m 2 -s schedulers/rotation.bpf.c,{} --set copy.slice_ns={slice_ns} --baseline rotation {more}",
        copy.display()
    );
    fairground(&line.split(' ').collect::<Vec<_>>())
}

#[test]
fn a_copy_of_the_baseline_is_the_same_in_everything() {
    let ended = against_copy(5_000_000, "--fail-if worse --format json");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let result: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let differences = result["differences"].as_array().unwrap();
    assert!(differences.len() > 8);
    for one in differences {
        assert_eq!(one["judgement"], "same", "{one}");
        assert_eq!((&one["difference"], &one["pairs"]), (&0.0.into(), &10.into()), "{one}");
    }
    let table = against_copy(5_000_000, "--repeat 3").stdout;
    let heading = "hogs on 2: copy slice_ns=5 ms (after) against rotation (before), 3 pairs of runs with the same seeds";
    assert!(table.contains(heading), "{table}");
    let last = table.lines().last().unwrap();
    assert!(last.contains("against rotation: worse in 0, better in 0, same in "), "{last}");
}

#[test]
fn what_is_worse_than_the_baseline_fails_a_comparison_that_asks_for_it() {
    let ended = against_copy(100_000_000, "--fail-if worse");
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert!(ended.stderr.contains("fails, because hogs on 2: "), "{}", ended.stderr);
    let row = |name: &str| ended.stdout.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(row("Longest wait ").ends_with("  worse"), "{}", ended.stdout);
    for (condition, code) in [
        ("longest_wait>+10%", 1),
        ("longest_wait>+10000%", 0),
        ("longest_wait>1ms", 1),
        ("throughput<-50%", 0),
    ] {
        let ended = against_copy(100_000_000, &format!("--fail-if {condition}"));
        assert_eq!(ended.code, Some(code), "{condition}: {}", ended.stderr);
    }
}

/// A change that mends a scheduler has to pass.
#[test]
fn a_gate_does_not_fail_for_what_the_baseline_does() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("junit.xml").display().to_string();
    let schedulers = "old=schedulers/broken.bpf.c,new=schedulers/rotation.bpf.c";
    let compare = |baseline: &str| {
        let gate = ["--baseline", baseline, "--fail-if", "worse", "--junit", &file];
        let line = ["compare", "workloads/hogs.json", "-m", "2", "-d", "500ms", "--repeat", "2"];
        fairground(&[&line[..], &["-s", schedulers], &gate].concat())
    };
    let ended = compare("old");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("under old failed before it began"), "{}", ended.stderr);
    let junit = fs::read_to_string(&file).unwrap();
    assert!(junit.contains("<skipped message=\"the baseline failed before"), "{junit}");
    assert!(!junit.contains("<failure"), "{junit}");
    assert_eq!(compare("new").code, Some(1));
    // Two of one name: the settings tell which is the baseline.
    let line = "compare hogs-three -s cfs -m 1 -d 500ms --repeat 2 --set cfs.sched_latency=6ms,24ms --fail-if worse";
    let line = line.split(' ').chain(["--baseline", "cfs sched_latency=6 ms", "--junit", &file]);
    let required = ["--require", "longest_wait < 1ns"];
    let ended = fairground(&line.chain(required).collect::<Vec<_>>());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let junit = fs::read_to_string(&file).unwrap();
    assert_eq!(junit.matches("<skipped message=\"the baseline did not meet").count(), 2, "{junit}");
    assert_eq!(junit.matches("<failure type=\"longest_wait").count(), 2, "{junit}");
}

#[test]
fn a_comparison_with_a_baseline_can_be_read_by_services() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("junit.xml");
    let more = format!("--format markdown --junit {}", file.display());
    let ended = against_copy(100_000_000, &more);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("### hogs on 2: copy "), "{}", ended.stdout);
    let mut rows = ended.stdout.lines();
    let row = rows.find(|line| line.starts_with("| Longest wait |")).unwrap();
    assert!(row.ends_with("| worse |"), "{row}");
    let junit = fs::read_to_string(file).unwrap();
    assert!(junit.contains("<testsuite name=\"hogs on 2\""), "{junit}");
    assert!(
        junit.contains("name=\"longest_wait against rotation\">\n      <failure type=\"worse\""),
        "{junit}"
    );
    assert!(junit.contains("<testcase classname=\"rotation\" name=\"seed 9\"/>"), "{junit}");
}

#[test]
fn a_run_that_fails_is_a_failed_test_and_worse_than_one_that_does_not() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("junit.xml");
    let line = format!(
        "{STARVING} --baseline rotation --repeat 2 --fail-if worse --junit {}",
        file.display()
    );
    let told =
        "0 % of the runs of forgetful ops.timeout_ms=30000 end well, 100.0 % of those of rotation";
    let ended = refuse(&line, 1, &["fails, because hogs on 4: ", told]);
    let row = ended.stdout.lines().find(|line| line.starts_with("Runs that end well"));
    assert!(row.unwrap().ends_with("  worse"), "{}", ended.stdout);
    // Two that never end well are not the same: nothing is known of how they compare.
    let neither = "compare workloads/hogs.json -d 3s -s a=schedulers/forgetful.bpf.c,b=schedulers/forgetful.bpf.c -m 4 --baseline a --repeat 2";
    let neither = refuse(neither, 1, &[]).stdout;
    let none = "b against a: worse in 0, better in 0, same in 0, undecided in 1";
    assert!(neither.contains(none), "{neither}");
    let junit = fs::read_to_string(file).unwrap();
    assert!(junit.contains("<failure type=\"lost\" message=\"starved a task"), "{junit}");
    let markdown = refuse(&format!("{STARVING} --format markdown"), 1, &[]).stdout;
    assert!(markdown.starts_with("- **starved**: hogs on 4 under `forgetful`"), "{markdown}");
    assert!(markdown.contains("| scheduler | status | throughput |"), "{markdown}");
}

/// A copy of the scheduler without a mistake in this folder, with something else in one place.
fn altered(place: &Path, from: &str, to: &str) -> PathBuf {
    let sound = fs::read_to_string(folder().join("schedulers/sound.bpf.c")).unwrap();
    assert!(sound.contains(from), "{from}");
    let path = place.join("altered.bpf.c");
    fs::write(&path, sound.replacen(from, to, 1)).unwrap();
    path
}

/// Who wakes up and finds its CPU preempted waits for microseconds, and for no tick, with which a wait of milliseconds would be compared.
#[test]
fn without_preemption_wakeups_are_worse_even_within_a_tick() {
    let scratch = tempfile::tempdir().unwrap();
    let kick = "\t\tscx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);\n";
    let preempt = "\telse if (enq_flags & SCX_ENQ_WAKEUP)\n\t\tscx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);\n";
    let old = altered(scratch.path(), kick, &format!("{kick}{preempt}"));
    let load = scratch.path().join("load.json");
    let tasks = r#"{ "short": { "instance": 2, "run": 60, "timer": { "ref": "unique", "period": 5200 } },
        "burst": { "instance": 2, "run": 2600, "sleep": 700 } }"#;
    fs::write(&load, format!(r#"{{ "tasks": {tasks}, "global": {{ "duration": 4 }} }}"#)).unwrap();
    let schedulers = format!("old={},new=schedulers/sound.bpf.c", old.display());
    let load = load.display();
    let line =
        format!("compare {load} -s {schedulers} -m 2 --repeat 5 --baseline old --fail-if worse");
    let words: Vec<&str> = line.split(' ').collect();
    end_with(&words, 1, &["fails, because load on 2: wakeup_p99 of new is 2."]);
}

/// Calls that cost time in enqueue make the run longer and its share of idle time smaller, but nothing better; and the other way round nothing worse.
#[test]
fn fixed_work_is_judged_by_the_work() {
    let scratch = tempfile::tempdir().unwrap();
    let burn = "\tu32 i;\n\n\tfor (i = 0; i < 1600; i++)\n\t\tasm volatile(\"\" ::: \"memory\");\n";
    let path = altered(scratch.path(), "\ts32 cpu;\n", &format!("\ts32 cpu;\n{burn}"));
    let fast = "fast=schedulers/sound.bpf.c";
    for (baseline, word) in [("fast", "better"), ("slow", "worse")] {
        let schedulers = format!("{fast},slow={}", path.display());
        let line = format!(
            "compare perf-pipe -m 4 --repeat 3 --baseline {baseline} --format json -s {schedulers}"
        );
        let text = succeed(&line);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let differences = document["differences"].as_array().unwrap();
        assert!(differences.iter().any(|one| one["measure"] == "overhead_per_work"), "{text}");
        for one in differences {
            assert_ne!(one["measure"], "overhead");
            assert_ne!(one["judgement"], word, "{one}");
        }
        let condition = ["--fail-if", "overhead > +10 %"];
        let line = line.replace(" --format json", "");
        let words: Vec<&str> = line.split(' ').chain(condition).collect();
        let fails = if baseline == "fast" { 1 } else { 0 };
        assert_eq!(fairground(&words).code, Some(fails), "{baseline}");
    }
}

/// Seeds change nothing in these loads: without it there is one run, whose intervals have no width.
#[test]
fn repeated_runs_differ_as_on_a_real_machine() {
    let runs = |options: &str| {
        let line = format!("compare hogs-five -s cfs -m 4 -d 1s --format json {options}");
        let document: serde_json::Value = serde_json::from_str(&succeed(&line)).unwrap();
        let runs = document["runs"].as_array().unwrap();
        let noise = runs[0]["labels"]["noise"].as_str().unwrap().to_owned();
        let different: HashSet<String> =
            runs.iter().map(|run| run["metrics"].to_string()).collect();
        (noise, different.len())
    };
    assert_eq!(runs("--repeat 3"), ("spread".to_owned(), 3));
    assert_eq!(runs("--repeat 3 --noise none"), ("none".to_owned(), 1));
    assert_eq!(runs("--repeat 1"), ("none".to_owned(), 1));
    let table = succeed("compare hogs-five -s cfs,o1 -m 4 -d 1s --repeat 3 --baseline cfs");
    assert!(table.contains("cost model default, noise spread, seeds 0 to 2"), "{table}");
    assert!(!table.contains("runs that are one"), "{table}");
}

/// Without any noise repeats are the same run: every form says so where it tells of several.
#[test]
fn runs_that_are_one_are_told() {
    let one = "runs that are one: no seed changes anything";
    let line = "compare mix-two hogs-five -s cfs,o1 -m 2 -d 100ms --repeat 3 --noise none";
    let scratch = tempfile::tempdir().unwrap();
    let page = scratch.path().join("p.html");
    let table = succeed(&format!("{line} --report {}", page.display()));
    let cells = format!("In 2 of 2 cells there are only {one}.");
    assert_eq!(table.matches(&format!(", median of 3 {one})\n")).count(), 2, "{table}");
    assert!(table.contains(&cells), "{table}");
    let markdown = succeed(&format!("{line} --format markdown"));
    assert_eq!(markdown.matches(&format!(", median of 3 {one})\n")).count(), 2, "{markdown}");
    assert!(markdown.contains(&cells), "{markdown}");
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains(&cells), "the answer does not tell");
    assert!(html.contains(&format!("mean and 95 % interval of 3 {one}")), "no section tells");
    let varied = succeed(&line.replace(" --noise none", ""));
    assert!(!varied.contains(one), "{varied}");
}

#[test]
fn what_has_no_effect_is_said() {
    let line = "compare mix-two -s cfs -m 2 -d 100ms --with none --window 200ms";
    let said = ["--with none has no effect: ", "--window 200000000ns has no effect: "];
    end_with(&line.split(' ').collect::<Vec<_>>(), 0, &said);
    let last = "compare mix-two -s cfs -d 100ms --repeat 2 --seed 9223372036854775807";
    refuse(last, 2, &["--seed: each repetition adds 1, for which there is no room"]);
    let scratch = tempfile::tempdir().unwrap();
    let load = scratch.path().join("load.json");
    fs::write(&load, r#"{ "tasks": { "a": { "cpus": [1, 9], "run": 1000 } } }"#).unwrap();
    let text = succeed(&format!("compare {} -s cfs -m 2 -d 100ms", load.display()));
    assert!(text.contains("\"cpus\" names CPU 9, and the machine has CPUs 0 to 1"), "{text}");
    let line = "compare ../../../workloads/build.recording -s o1 -d 100ms --repeat 2";
    assert!(!fairground(&line.split(' ').collect::<Vec<_>>()).stderr.contains("--noise"));
    refuse(&format!("{line} --noise default"), 0, &["--noise default has no effect: recordings"]);
}

#[test]
fn arrivals_come_to_cpus_that_are_there() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("served.json");
    let line = |cpus: &str| {
        let text = format!(
            r#"{{ "tasks": {{ "t": {{ "loop": -1, "fairground1": {{ "take": "s" }}, "run": 100, "fairground2": {{ "answer": "" }} }} }},
                "fairground": {{ "arrivals": {{ "s": {{ "rate": 100, "cpus": [{cpus}] }} }} }} }}"#
        );
        fs::write(&path, text).unwrap();
        format!("compare {} -s eevdf -m 2 -d 100ms", path.display())
    };
    refuse(&line("5"), 2, &["the arrivals at s of served come to CPUs [5], and the machine has"]);
    let told = succeed(&line("1, 5"));
    assert!(told.contains("\"cpus\" names CPU 5, and the machine has CPUs 0 to 1"), "{told}");
}

#[test]
fn changes_of_groups_after_the_end_are_told() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("groups.json");
    let text = r#"{ "tasks": { "t": { "taskgroup": "/g", "run": 1000, "loop": 3 } },
        "fairground": { "groups": { "/g": { "changes": [
            { "at": 5000000, "cpu.weight": 200 }, { "at": 6000000, "cpu.weight": 300 } ] } } } }"#;
    fs::write(&path, text).unwrap();
    let told = succeed(&format!("compare {} -s eevdf -m 2", path.display()));
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected =
        "before the time when the settings of group /g were to change, and 1 more times later, 5";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn runs_do_not_overwrite_each_others_traces() {
    let scratch = tempfile::tempdir().unwrap();
    let load = |name: &str| {
        let path = scratch.path().join(name);
        fs::write(&path, r#"{ "tasks": { "t": { "loop": 1, "run": 1000 } } }"#).unwrap();
        path.display().to_string()
    };
    let (one, other) = (load("a.json"), load("a-b.json"));
    let folder = scratch.path().join("t").display().to_string();
    let line = ["compare", &one, &other, "-s", "b-c=cfs,c=eevdf", "-m", "2", "--trace", &folder];
    end_with(&line, 2, &["two runs would write the same file a-b-c: give the schedulers other"]);
}

/// A task that ends at its timer has had its last job.
#[test]
fn a_timer_at_the_end_releases_no_job() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("once.json");
    let periods = |loops: u32, run: u32| {
        let text = format!(
            r#"{{ "tasks": {{ "t": {{ "loop": {loops}, "run": {run}, "timer": {{ "ref": "tick", "period": 20000 }} }} }} }}"#
        );
        fs::write(&path, text).unwrap();
        let found =
            json(&format!("compare {} -s eevdf -m 1 --cost zero --format json", path.display()));
        let task = found["runs"][0]["metrics"]["tasks"][0].clone();
        let periods = &task["periods"];
        let samples = task["response_time"]["samples"].as_u64().unwrap();
        (periods["released"].as_u64().unwrap(), periods["missed"].as_u64().unwrap(), samples)
    };
    assert_eq!(periods(1, 3000), (1, 0, 1));
    assert_eq!(periods(5, 3000), (5, 0, 5));
}

/// Names that look like paths or files, and sources of one name, are not taken for others.
#[test]
fn schedulers_are_told_apart_by_their_whole_names() {
    let hogs = "compare hogs-three -m 1 -d 500ms --repeat 2 --format json";
    let named = json(&format!("{hogs} -s v1.c+v2=cfs{{sched_latency=6ms}},cfs --baseline v1.c+v2"));
    let baseline = &named["differences"][0]["baseline"];
    assert_eq!(baseline, "v1.c+v2 sched_latency=6 ms", "{}", named["differences"]);
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("rotation.bpf.c");
    let source = crate::support::folder().join("schedulers/rotation.bpf.c");
    fs::copy(source, &copy).unwrap();
    let two = format!("schedulers/rotation.bpf.c,{}", copy.display());
    let same = json(&format!("{hogs} -s cfs,{two} --baseline cfs"));
    let differences = same["differences"].as_array().unwrap();
    let names: BTreeSet<_> = differences.iter().map(|one| one["scheduler"].as_str()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

/// What never happens is nothing, and no reason to pass what does.
#[test]
fn a_gate_on_something_rare_judges_where_it_is_new() {
    let line = "compare hogs-five -m 4 -d 500ms --repeat 2 -s bfs,linux24";
    let gate = ["--fail-if", "idle_beside_waiting > 5ms", "--baseline"];
    for (baseline, code) in [("bfs", 1), ("linux24", 0)] {
        let words = line.split(' ').chain(gate).chain([baseline]).collect::<Vec<_>>();
        let ended = fairground(&words);
        assert_eq!(ended.code, Some(code), "{baseline}: {}", ended.stderr);
        assert!(!ended.stderr.contains("undecided"), "{}", ended.stderr);
    }
}

/// A service that reads the file sees what the exit status says.
#[test]
fn the_tests_of_a_gate_fail_where_it_does() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("junit.xml").display().to_string();
    let line = "compare mix-two -m 2 -d 200ms --repeat 2 -s cfs,o1 --baseline cfs --junit";
    let of = |conditions: &[&str]| {
        let gates = conditions.iter().flat_map(|one| ["--fail-if", one]);
        let ended = fairground(&line.split(' ').chain([&*file]).chain(gates).collect::<Vec<_>>());
        (ended.code, fs::read_to_string(&file).unwrap().contains("<failure"))
    };
    assert_eq!(of(&["throughput < -90 %"]), (Some(0), false));
    assert_eq!(of(&["lag > 1ms"]), (Some(1), true));
    let few = "wakeup_p99 > 10 %";
    assert_eq!(of(&[few]), (Some(0), false), "too few samples");
    assert_eq!(of(&[few, "undecided"]), (Some(1), true));
}
