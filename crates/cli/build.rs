//! Tells the command which commit it is built from, and the linker to keep one of functions that are the same code.

use std::env;
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
    // Generic code of libraries that nobody optimizes is the same for many types: a tenth of a release.
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") && links_with_lld() {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}

/// Whether the compiler links with the LLD that comes with it, which it does for this target: other linkers may not know the option.
fn links_with_lld() -> bool {
    let is_usual = env::var("TARGET").is_ok_and(|target| target == "x86_64-unknown-linux-gnu");
    let is_chosen = ["RUSTC_LINKER", "CARGO_ENCODED_RUSTFLAGS"]
        .iter()
        .any(|name| env::var(name).is_ok_and(|value| !value.is_empty()));
    let compiler = Command::new(env::var("RUSTC").unwrap_or_default());
    let libraries = output(compiler, &["--print", "target-libdir"]);
    is_usual
        && !is_chosen
        && libraries.is_some_and(|path| Path::new(&path).join("../bin/gcc-ld/ld.lld").exists())
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
    output(Command::new("git"), arguments)
}

fn output(mut command: Command, arguments: &[&str]) -> Option<String> {
    let output = command.args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
