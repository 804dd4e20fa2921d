//! A loader of libbpf's, unmodified, is captured: its settings, map entries and program runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use fairground_catalog::Build;

use crate::support::{Ended, end_with, fairground};

/// The loader among the examples of this crate.
fn loader() -> &'static str {
    static LOADER: OnceLock<String> = OnceLock::new();
    LOADER.get_or_init(|| example("loader"))
}

/// Builds an example of this crate; returns its path.
fn example(name: &str) -> String {
    let built = Command::new(env!("CARGO"))
        // As the tests are built: this package alone would be built with other features, and so would all that it needs.
        .args(["build", "--quiet", "--workspace", "--example", name])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(built.unwrap().success());
    let program = Path::new(env!("CARGO_BIN_EXE_fairground"));
    program.with_file_name("examples").join(name).display().to_string()
}

fn object(folder: &Path) -> PathBuf {
    object_of(folder, "loaded")
}

fn object_of(folder: &Path, name: &str) -> PathBuf {
    let source = format!("tests/schedulers/{name}.bpf.c");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let compiled = fairground_catalog::compile_sources(&[source], &Build::default()).unwrap();
    let path = folder.join("mine.bpf.o");
    std::fs::write(&path, compiled.object).unwrap();
    path
}

fn capture(folder: &Path, machine: &str, more: &[&str]) -> Ended {
    let object = object(folder).display().to_string();
    let out = folder.display().to_string();
    let mut arguments = vec!["capture", "-m", machine, "-o", &out, "--object", &object];
    arguments.extend(["--", loader(), &object]);
    arguments.extend(more);
    fairground(&arguments)
}

#[test]
fn what_a_loader_does_becomes_a_companion_that_runs() {
    let folder = tempfile::tempdir().unwrap();
    let machine = "numa:2 core:1 pu:2";
    let ended = capture(folder.path(), machine, &["5000000"]);
    assert_eq!(ended.stderr, "");
    let companion = std::fs::read_to_string(folder.path().join("loaded.companion.toml")).unwrap();
    for part in [
        "scheduler = \"loaded\"",
        "\"slice_ns\" = 5000000",
        "[load]\ncount_switch = true\ncount_wakeup = false\n",
        "[ops]\nrunning = false\n",
        "[map.domains]\nmax_entries = 4",
        "map = \"domains\"\nkey = 3\nvalue = { cpus = 768, node = 3 }",
        "map = \"shelves\"\nkey = 1\nmax_entries = 3\ninside = [\n\t{ key = 7, value = { cpus = 5, node = 3 } },\n]",
        "program = \"tell_sibling\"\ncontext = { cpu = 3, sibling = 2 }",
        "program = \"look\"\nwhen = \"after-attach\"\ncontext = { cpu = 3, sibling = 2 }",
    ] {
        assert!(companion.contains(part), "no {part:?} in\n{companion}");
    }

    let object = folder.path().join("loaded.bpf.o").display().to_string();
    let mut arguments = vec!["compare", "workloads/hogs.json", "-d", "1s", "-m", machine];
    arguments.extend(["--format", "json", "-s", &object]);
    let ended = fairground(&arguments);
    assert_eq!(ended.stderr, "");
    // The scheduler gives up if a program runs that the loader leaves out, or one does not that it switches on.
    let said = "slice 5000000, siblings 6, node 3";
    assert!(ended.stdout.contains(said), "{}", ended.stdout);
    assert!(ended.stdout.contains("shelf 3"), "{}", ended.stdout);
}

#[test]
fn names_that_cannot_be_printed_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display().to_string();
    let object = object(folder.path()).display().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairground"));
    command.args(["capture", "-o", &out, "--object", &object, "--", loader(), &object]);
    let full = std::fs::File::options().write(true).open("/dev/full");
    let ended = command.stdout(full.unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("cannot write to standard output"), "{said}");
    assert_eq!(ended.status.code(), Some(1), "{said}");
}

#[test]
fn the_machine_is_the_described_one_and_captures_are_alike() {
    let folder = tempfile::tempdir().unwrap();
    let mut captured = Vec::new();
    for _ in 0..2 {
        assert_eq!(capture(folder.path(), "6", &[]).stderr, "");
        let companion = folder.path().join("loaded.companion.toml");
        captured.push(std::fs::read_to_string(companion).unwrap());
    }
    assert!(captured[0].contains("max_entries = 6"), "{}", captured[0]);
    assert_eq!(captured[0], captured[1]);
}

#[test]
fn what_cannot_be_captured_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let object = object(folder.path()).display().to_string();
    // A command that cannot be run is unusable input, whichever subcommand wanted to run it; a loader that ran and failed is a failure.
    for (loader, parts) in [
        ("/bin/true", ["/bin/true carries no BPF object", "--object FILE.bpf.o"]),
        ("no-such-loader", ["there is no program no-such-loader", "give the path"]),
    ] {
        let exec = format!("exec:{loader}");
        let compare = ["compare", "workloads/hogs.json", "-s", &exec];
        end_with(&["capture", "--", loader], 2, &parts);
        end_with(&compare, 2, &parts);
    }
    let script = "echo giving up; exit 3";
    end_with(
        &["capture", "--object", &object, "--", "sh", "-c", script],
        1,
        &["did not attach a scheduler", "exit status: 3", "giving up"],
    );
}

/// A loader that carries its object, as `exec:` wants it, and the reference to it.
fn carrying(loader: &str, folder: &Path, name: &str, slice: &str) -> String {
    let object = object_of(folder, name);
    let mut program = std::fs::read(loader).unwrap();
    program.extend(std::fs::read(&object).unwrap());
    let path = folder.join("loader");
    std::fs::write(&path, program).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, executable).unwrap();
    format!("exec:{} {} {slice}", path.display(), object.display())
}

#[test]
fn a_loader_that_needs_what_its_programs_return_is_sent_to_a_simulation() {
    let folder = tempfile::tempdir().unwrap();
    let object = object_of(folder.path(), "served").display().to_string();
    let arguments = ["capture", "--object", &object, "--", loader(), &object];
    // The place that its program would have given it stays NULL.
    let parts = [
        "after it ran make_counts, but a capture executes no programs",
        "compare -s 'exec:LOADER'",
    ];
    end_with(&arguments, 1, &parts);
}

#[test]
fn a_loader_that_decides_goes_on_beside_the_simulation() {
    let folder = tempfile::tempdir().unwrap();
    let reference = carrying(loader(), folder.path(), "served", "2000000");
    let mut arguments = vec!["compare", "workloads/hogs.json", "-d", "200ms", "-m", "1"];
    arguments.extend(["--format", "json", "-s", &reference]);
    let ended = fairground(&arguments);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(ended.stdout.contains("its loader keeps running beside it"), "{}", ended.stdout);
    let refused = "ops.init_task() refused 1 fork (-22), and the parent went on without the child";
    assert!(ended.stdout.contains(refused), "{}", ended.stdout);
    let result: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let metrics = &result["runs"][0]["metrics"];
    let tasks = metrics["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 5);
    for task in tasks {
        // Nobody but the loader lets a task run: those that always want to get the same, and the player the time that it wants, or as much as they.
        let time = task["cpu_time_ns"].as_u64().unwrap();
        assert!(time > 20_000_000, "{task}");
    }
    let idle = metrics["cpu_time"]["idle_while_runnable_ns"].as_u64();
    assert!(idle.unwrap() < 2_000_000, "{metrics}");
    assert_eq!(fairground(&arguments).stdout, ended.stdout);
}

/// The result of a run beside a loader while CPUs come and go.
fn with_hotplug(reference: &str, changes: &[&str]) -> serde_json::Value {
    let mut arguments = vec!["compare", "workloads/hogs.json", "-d", "300ms", "-m", "4"];
    arguments.extend(["--format", "json", "-s", reference]);
    for change in changes {
        arguments.extend(["--hotplug", change]);
    }
    let ended = fairground(&arguments);
    assert_eq!(fairground(&arguments).stdout, ended.stdout);
    let result: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    result["runs"][0].clone()
}

#[test]
fn a_loader_finds_the_cpus_that_are_online_and_loads_its_scheduler_again_when_they_change() {
    let folder = tempfile::tempdir().unwrap();
    let reference = carrying(&example("returning"), folder.path(), "returning", "");
    let run = with_hotplug(&reference, &["2:off@100ms", "2:on@200ms"]);
    assert_eq!(run["status"], "ok", "{run}");
    let notes = run["notes"].to_string();
    for part in [
        "load 1, 4 CPUs",
        "load 2, 3 CPUs",
        "load 3, 4 CPUs",
        "after 0.1 s (cpu 2 going offline, exiting scheduler); its loader needed",
        "after 0.2 s (cpu 2 going online, exiting scheduler); its loader needed",
    ] {
        assert!(notes.contains(part), "no {part:?} in {notes}");
    }
    // Four CPUs, for 100 ms three; meanwhile the kernel's own class runs the tasks.
    let busy = run["metrics"]["cpu_time"]["busy_ns"].as_u64().unwrap();
    assert!(busy > 1_050_000_000, "{run}");
}

#[test]
fn a_loader_that_does_not_load_its_scheduler_again_leaves_it_unloaded() {
    let folder = tempfile::tempdir().unwrap();
    let reference = carrying(loader(), folder.path(), "loaded", "2000000");
    let run = with_hotplug(&reference, &["3:off@100ms"]);
    assert_eq!(run["status"], "ejected", "{run}");
    let message = run["failure"]["message"].to_string();
    for part in ["cpu 3 going offline", "its loader had not loaded it again"] {
        assert!(message.contains(part), "no {part:?} in {message}");
    }
}
