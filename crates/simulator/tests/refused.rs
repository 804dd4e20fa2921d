//! What a kernel's verifier refuses ends in one message with the place in the source, when the scheduler is loaded or when it runs, and
//! what it accepts is loaded.

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{free, run};
use fairground_catalog::compile_source;
use fairground_simulator::Scheduler;

const TASKS: &str =
    r#"{"tasks": {"t": {"instance": 3, "loop": 20, "phases": {"p": {"run": 900, "sleep": 500}}}}}"#;

fn sources(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.to_string_lossy().ends_with(".bpf.c"));
    files.sort();
    files
}

/// What comes of loading and running a scheduler: its error.
fn outcome(file: &Path) -> Result<(), String> {
    let compiled = compile_source(file, &Default::default()).map_err(|error| error.to_string())?;
    let scheduler = Scheduler::load(&compiled.object).map_err(|error| error.to_string())?;
    let outcome = run(&Arc::new(scheduler), &free("2", TASKS));
    if outcome.exit.kind.is_error() {
        return Err(outcome.exit.message);
    }
    Ok(())
}

/// Line and words of the comment that says what is refused.
fn expected(text: &str) -> (usize, &str) {
    let mut lines = (1..).zip(text.lines());
    let (line, words) = lines
        .find_map(|(line, text)| Some((line, text.split_once("/* refused: ")?.1)))
        .expect("a comment says what is refused");
    (line, words.trim_end_matches("*/").trim())
}

#[test]
fn what_a_kernel_refuses_is_an_error_with_its_place() {
    let files = sources("tests/refused");
    assert!(files.len() >= 50);
    let mut wrong = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let (line, words) = expected(&text);
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let said = match outcome(&file) {
            Ok(()) => "it runs".to_owned(),
            Err(message) => message,
        };
        if !said.contains(words) || !said.contains(&format!("{name}:{line}:")) {
            wrong.push(format!("{name}, line {line}, {words}:\n  {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_a_kernel_accepts_runs() {
    let mut wrong = Vec::new();
    for file in sources("tests/accepted") {
        if let Err(error) = outcome(&file) {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            wrong.push(format!("{name}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_a_kernel_accepts_is_loaded() {
    let mut wrong = Vec::new();
    for scheduler in fairground_catalog::all() {
        if let Err(error) = Scheduler::load(&scheduler.object) {
            wrong.push(format!("{}: {error}", scheduler.id()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
