//! Running the command.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The end of a run of the command: exit code and output.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs `fairground` with these arguments in the folder of this crate's tests.
pub fn fairground<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairground"));
    end_of(command.args(arguments).current_dir(folder()))
}

/// Runs a command.
pub fn end_of(command: &mut Command) -> Ended {
    // Messages are the same where these tests are part of a workflow.
    if !command.get_envs().any(|(name, _)| name == "GITHUB_ACTIONS") {
        command.env_remove("GITHUB_ACTIONS");
    }
    let Output { status, stdout, stderr } = command.output().expect("the command can be run");
    Ended {
        code: status.code(),
        stdout: String::from_utf8(stdout).expect("results are UTF-8"),
        stderr: String::from_utf8(stderr).expect("messages are UTF-8"),
    }
}

/// The folder of this crate's tests.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Runs `fairground` with the words of a line as arguments, which has to succeed without a word on standard error.
pub fn succeed(line: &str) -> String {
    let ended = fairground(&line.split(' ').collect::<Vec<_>>());
    assert_eq!(ended.stderr, "", "{line}");
    assert_eq!(ended.code, Some(0), "{line}");
    ended.stdout
}

/// The JSON that `fairground` prints with the words of a line as arguments.
pub fn json(line: &str) -> serde_json::Value {
    serde_json::from_str(&succeed(line)).unwrap()
}

/// Runs `fairground` with the words of a line as arguments, which has to end with `code` and say all of `messages`.
pub fn refuse(line: &str, code: i32, messages: &[&str]) -> Ended {
    end_with(&line.split(' ').collect::<Vec<_>>(), code, messages)
}

/// Runs `fairground` with these arguments, which has to end with `code` and say all of `messages`.
pub fn end_with(arguments: &[&str], code: i32, messages: &[&str]) -> Ended {
    let ended = fairground(arguments);
    let line = arguments.join(" ");
    for message in messages {
        assert!(
            ended.stderr.contains(message),
            "{line} does not say {message:?} but:\n{}",
            ended.stderr
        );
    }
    assert_eq!(ended.code, Some(code), "{line}: {}", ended.stderr);
    ended
}

/// How the runs of a comparison in JSON ended.
pub fn statuses(runs: &[serde_json::Value]) -> Vec<&str> {
    runs.iter().map(|run| run["status"].as_str().unwrap()).collect()
}
