//! A scheduler to begin with.

use std::process::Command;

use crate::support::{Ended, end_of};

fn fairground(place: &std::path::Path, words: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairground"));
    end_of(command.args(words).current_dir(place))
}

#[test]
fn the_template_is_a_sound_scheduler() {
    let place = tempfile::tempdir().unwrap();
    let ended = fairground(place.path(), &["new", "mine"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let source = std::fs::read_to_string(place.path().join("mine.bpf.c")).unwrap();
    assert!(!source.contains("NAME"), "{source}");
    assert!(source.contains("--set mine.slice_ns=5ms"), "{source}");

    // What it prints can be pasted.
    let commands = ended.stdout.lines().filter_map(|line| line.strip_prefix("  fairground "));
    let commands: Vec<&str> = commands.collect();
    assert_eq!(commands.len(), 3, "{}", ended.stdout);
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        let ended = fairground(place.path(), &words);
        assert_eq!(
            (ended.code, ended.stderr.as_str()),
            (Some(0), ""),
            "{command}\n{}",
            ended.stdout
        );
        let is_sound = ended.stdout.contains("mine: nothing wrong in ");
        assert!(is_sound || words[0] != "check", "{}", ended.stdout);
    }
}

#[test]
fn a_name_has_to_fit_and_nothing_is_overwritten() {
    let place = tempfile::tempdir().unwrap();
    for name in ["", "2nd", "my-own", "a/b", "x".repeat(33).as_str()] {
        let ended = fairground(place.path(), &["new", name]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains("letters, digits and _"), "{}", ended.stderr);
    }
    std::fs::write(place.path().join("mine.bpf.c"), "mine").unwrap();
    let ended = fairground(place.path(), &["new", "mine"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("it is there already"), "{}", ended.stderr);
    let kept = std::fs::read(place.path().join("mine.bpf.c")).unwrap();
    assert_eq!(kept, b"mine");
}
