//! Comparing a scheduler with its state in another revision, as a workflow does.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::checking::mistakes;
use crate::support::{Ended, end_of, folder};

const SOURCE: &str = "even.bpf.c";

fn git(repository: &Path, line: &str) {
    let ended = Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@example.org"])
        .args(line.split(' '))
        .current_dir(repository)
        .output()
        .unwrap();
    assert!(ended.status.success(), "git {line}: {ended:?}");
}

/// A repository whose only revision has a scheduler in a folder.
fn repository() -> tempfile::TempDir {
    let repository = tempfile::tempdir().unwrap();
    let sources = repository.path().join("sources");
    fs::create_dir(&sources).unwrap();
    fs::copy(folder().join("schedulers").join(SOURCE), sources.join(SOURCE)).unwrap();
    git(repository.path(), "init --quiet");
    git(repository.path(), "add .");
    git(repository.path(), "commit --quiet -m first");
    repository
}

/// Compares with a revision in a workflow; also returns the job's summary.
fn versions(repository: &Path, revision: &str, source: &str) -> (Ended, String) {
    let summary = repository.join("summary.md");
    let script = folder().join("../../../scripts/versions").canonicalize().unwrap();
    let mut command = Command::new(script);
    command
        .args([revision, source, "hogs-nice", "-m", "2", "-d", "2s"])
        .current_dir(repository.join("sources"))
        .env("FAIRGROUND", env!("CARGO_BIN_EXE_fairground"))
        .env("GITHUB_ACTIONS", "true")
        .env("MARKDOWN", repository.join("comment.md"))
        .env("GITHUB_STEP_SUMMARY", &summary);
    let ended = end_of(&mut command);
    if ended.code != Some(2) {
        let comment = fs::read_to_string(repository.join("comment.md")).unwrap();
        assert_eq!(comment, ended.stdout);
    }
    (ended, fs::read_to_string(summary).unwrap_or_default())
}

#[test]
fn a_version_that_is_worse_fails_with_an_annotation_and_a_table() {
    let repository = repository();
    let source = repository.path().join("sources").join(SOURCE);
    let text = fs::read_to_string(&source).unwrap();
    let forgetful = text.replace(" * 100 / p->scx.weight", "");
    assert_ne!(text, forgetful);
    fs::write(&source, forgetful).unwrap();
    let (ended, summary) = versions(repository.path(), "HEAD", SOURCE);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let first = "::error file=even.bpf.c,title=fairground::fails, because hogs-nice on 2: jain_index of head is ";
    assert!(ended.stderr.contains(first), "{}", ended.stderr);
    assert!(summary.starts_with("## even.bpf.c: `head` against `base`, "), "{summary}");
    assert!(summary.contains("| Jain's index | "), "{summary}");
    assert!(summary.contains(" | worse |"), "{summary}");
    assert_eq!(summary, ended.stdout);
}

#[test]
fn a_version_that_is_the_same_succeeds() {
    let repository = repository();
    let (ended, summary) = versions(repository.path(), "HEAD", SOURCE);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(summary.contains("head against base: worse in 0, better in 0, same in "), "{summary}");
    // What was wrong before is no reason to fail.
    assert!(summary.contains("\n### even: nothing new in "), "{summary}");
    assert!(
        summary.contains(" runs are left out that failed in the same way before."),
        "{summary}"
    );
}

#[test]
fn a_scheduler_that_was_not_there_runs_alone() {
    let repository = repository();
    let sources = repository.path().join("sources");
    fs::remove_file(sources.join(SOURCE)).unwrap();
    let sound = folder().join("schedulers/sound.bpf.c");
    fs::copy(sound, sources.join("new.bpf.c")).unwrap();
    let (ended, summary) = versions(repository.path(), "HEAD", "new.bpf.c");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(summary.contains("## new.bpf.c, which "), "{summary}");
    let (ended, _) = versions(repository.path(), "HEAD", SOURCE);
    assert_eq!(ended.code, Some(2));
    assert_eq!(ended.stderr, "versions: even.bpf.c is not in this work tree\n");
}

#[test]
fn mistakes_as_people_make_them_are_noticed() {
    let repository = repository();
    let source = repository.path().join("sources/fair.bpf.c");
    let fair = folder().join("../../../docs/guide/first-scheduler/fair.bpf.c");
    let sound = fs::read_to_string(fair).unwrap();
    fs::write(&source, &sound).unwrap();
    git(repository.path(), "add .");
    git(repository.path(), "commit --quiet -m second");
    for mistake in mistakes("fair") {
        fs::write(&source, mistake.applied(sound.clone())).unwrap();
        let (ended, summary) = versions(repository.path(), "HEAD", "fair.bpf.c");
        assert_eq!(ended.code, Some(1), "{}: {} {summary}", mistake.about, ended.stderr);
        assert!(summary.contains("\n### fair: "), "{summary}");
        assert!(!summary.contains("fair: nothing wrong"), "{}: {summary}", mistake.about);
    }
}
