//! `fairground calibrate`.

use std::fs;

use crate::support::fairground;

#[test]
fn what_is_measured_here_is_a_cost_model() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("this-machine.toml");
    let file = file.to_str().unwrap();
    let ended = fairground(&["calibrate", "-o", file]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    assert!(ended.stderr.contains("not measured"), "{}", ended.stderr);

    let text = fs::read_to_string(file).unwrap();
    assert!(text.starts_with("# What scheduling costs on "), "{text}");
    for measured in ["system_call", "context_switch", "wakeup", "timer", "lock"] {
        let line = text.lines().find(|line| line.starts_with(&format!("{measured} = ")));
        let line = line.unwrap_or_else(|| panic!("no {measured} in {text}"));
        assert!(line.contains("fairground calibrate: "), "{line}");
    }
    // A system call is measured as such and takes some time on any machine.
    assert!(!text.contains("system_call = { ns = 0,"), "{text}");

    let compared = fairground(&[
        "compare",
        "workloads/hogs.json",
        "-s",
        "linux24",
        "--format",
        "json",
        "--cost",
        file,
    ]);
    assert_eq!(compared.code, Some(0), "{}", compared.stderr);
    assert!(compared.stdout.contains("this-machine.toml"));
    assert!(!compared.stdout.contains("given by the user"));
}
