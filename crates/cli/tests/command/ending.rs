//! A command that a signal ends leaves nothing: no folder, no process.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::folder;

/// How many times to poll. A count, not a time: the poller competes for the CPU, too.
const LOOKS: u32 = 30_000;

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("never: {what}");
}

/// Numbers and command lines of the processes that have `word` in their environment.
fn processes_with(word: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let has_word = |path: &Path| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        environment.windows(word.len()).any(|part| part == word.as_bytes())
    };
    entries
        .map(|entry| entry.path())
        .filter(|path| has_word(path))
        .map(|path| {
            let line = fs::read(path.join("cmdline")).unwrap_or_default();
            format!("{} {}", path.display(), String::from_utf8_lossy(&line))
        })
        .collect()
}

/// Starts `fairground` with a folder of its own for temporary files, ends it by `signal` as soon as `is_time`, and looks which files are left.
fn end(
    arguments: &[&str],
    signal: &str,
    clang: Option<&Path>,
    is_time: impl Fn(&Path, &[String]) -> bool,
) {
    let scratch = tempfile::tempdir().unwrap();
    let word = format!("TMPDIR={}", scratch.path().display());
    // A script that runs the tests in the background has them ignore SIGINT, and all that they start.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_fairground")]);
    if let Some(clang) = clang {
        command.env("CLANG", clang);
    }
    let mut child: Child = command
        .args(arguments)
        .current_dir(folder())
        .env("TMPDIR", scratch.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the moment", || {
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
        is_time(scratch.path(), &processes_with(&word))
    });
    let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), None, "it ends by the signal: {status}");
    until("the end of all processes", || processes_with(&word).is_empty());
    let left: Vec<_> = fs::read_dir(scratch.path()).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

fn has_folder(scratch: &Path) -> bool {
    fs::read_dir(scratch).unwrap().next().is_some()
}

/// A compiler that does not come to its end.
fn slow_clang(folder: &Path) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join("clang");
    let text = "#!/bin/sh\ncase $1 in -dumpversion) echo 19 ;; *) exec sleep 1000 ;; esac\n";
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn while_a_scheduler_is_compiled() {
    let tools = tempfile::tempdir().unwrap();
    let clang = slow_clang(tools.path());
    let compare = ["compare", "workloads/hogs.json", "-s", "schedulers/rotation.bpf.c"];
    for signal in ["INT", "TERM", "KILL"] {
        end(&compare, signal, Some(&clang), |scratch, processes| {
            has_folder(scratch) && processes.iter().any(|one| one.contains("sleep"))
        });
    }
}

#[test]
fn while_a_simulation_runs_in_a_process_of_its_own() {
    let traces = tempfile::tempdir().unwrap();
    let compare = [
        "compare",
        "workloads/hogs.json",
        "-s",
        "schedulers/ponderous.bpf.c",
        "-d",
        "100000s",
        "--trace",
        traces.path().to_str().unwrap(),
    ];
    end(&compare, "INT", None, |_, processes| {
        let is_own = |one: &&String| one.contains("ponderous") && !one.contains("clang");
        processes.iter().filter(is_own).count() == 2
    });
    assert_eq!(fs::read_dir(traces.path()).unwrap().count(), 0);
}

#[test]
fn while_costs_are_measured() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("costs.toml");
    let is_open = |process: &String| {
        let files = fs::read_dir(process.split(' ').next().unwrap().to_owned() + "/fd");
        let mut files = files.into_iter().flatten().flatten();
        files.any(|file| fs::read_link(file.path()).is_ok_and(|to| to.starts_with(folder.path())))
    };
    let calibrate = ["calibrate", "-o", path.to_str().unwrap()];
    end(&calibrate, "INT", None, |_, processes| processes.iter().any(is_open));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn while_a_loader_is_captured() {
    let object = tempfile::tempdir().unwrap();
    let path = object.path().join("mine.bpf.o");
    let source = folder().join("schedulers/loaded.bpf.c");
    let compiled = fairground_catalog::compile_sources(&[source], &Default::default()).unwrap();
    fs::write(&path, compiled.object).unwrap();
    let path = path.display().to_string();
    // Sleeps take no time there.
    let busy = "while :; do :; done";
    let capture = ["capture", "--object", &path, "--", "sh", "-c", busy];
    for signal in ["INT", "TERM"] {
        end(&capture, signal, None, |_, processes| {
            processes.iter().any(|one| one.contains(" sh\u{0}-c\u{0}while"))
        });
    }
}
