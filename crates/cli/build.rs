//! Tells the command which commit it is built from.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = env!("CARGO_PKG_VERSION");
    let version = match commit() {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    };
    println!("cargo::rustc-env=FAIRGROUND_VERSION={version}");
}

/// The commit of the project's repository; `None` without one, or if the sources lie in the repository of something else.
fn commit() -> Option<String> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let found = git(&["rev-parse", "--show-toplevel"])?;
    if top.canonicalize().ok()? != Path::new(&found).canonicalize().ok()? {
        return None;
    }
    // Every commit and checkout adds a line to it.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={log}");
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
