//! Every target on its corpus and on small changes of it, the same in each run.
//!
//! `FAIRGROUND_CASES` and `FAIRGROUND_SEED` select more cases and different ones. `FAIRGROUND_INPUT=FILE` runs a target on this file only.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fairground_fuzz::{Edit, Target, apply, find};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{RngSeed, TestRunner};

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<u16>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        (at(), any::<u8>()).prop_map(|(at, bit)| Edit::Flip(at, bit)),
        (at(), prop_oneof![0..64u32, any::<u32>()])
            .prop_map(|(at, number)| Edit::Number(at, number)),
        (at(), any::<usize>()).prop_map(|(at, piece)| Edit::Insert(at, piece)),
        (at(), any::<usize>()).prop_map(|(at, piece)| Edit::Replace(at, piece)),
        (at(), any::<u8>()).prop_map(|(at, count)| Edit::Remove(at, count)),
        (at(), any::<u8>(), at()).prop_map(|(from, count, to)| Edit::Copy(from, count, to)),
        at().prop_map(Edit::Cut),
    ]
}

/// Inputs of a target, in the order of their names.
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let folder = fs::read_dir(target.corpus()).unwrap();
    let mut paths: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} has no inputs", target.name);
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// The file with the input being tried. It remains if the target ends the process.
fn last_input(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{}", target.name))
}

fn try_input(target: &Target, bytes: &[u8]) -> Result<(), String> {
    let file = last_input(target);
    fs::write(&file, bytes).unwrap();
    catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        text.unwrap_or_default()
    })
}

fn test(name: &str) {
    let target = find(name).unwrap();
    let again = |input: &Path| {
        format!(
            "FAIRGROUND_INPUT={} cargo test -p fairground-fuzz --test parsers {name}",
            input.display()
        )
    };
    if let Some(input) = std::env::var_os("FAIRGROUND_INPUT") {
        return (target.run)(&fs::read(input).unwrap());
    }
    let corpus = corpus(target);
    for input in &corpus {
        if let Err(message) = try_input(target, input) {
            panic!("{message}\nagain: {}", again(&last_input(target)));
        }
    }
    let mut runner = TestRunner::new(ProptestConfig {
        cases: number("FAIRGROUND_CASES", 300) as u32,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(number("FAIRGROUND_SEED", 1)),
        max_shrink_iters: 500,
        ..ProptestConfig::default()
    });
    let inputs = (any::<Index>(), prop::collection::vec(edit(), 1..8));
    let outcome = runner.run(&inputs, |(base, edits)| {
        let bytes = apply(&corpus[base.index(corpus.len())], &edits);
        try_input(target, &bytes).map_err(TestCaseError::fail)
    });
    if let Err(proptest::test_runner::TestError::Fail(reason, (base, edits))) = outcome {
        let bytes = apply(&corpus[base.index(corpus.len())], &edits);
        fs::write(last_input(target), &bytes).unwrap();
        panic!(
            "{reason}\n{}\nagain: {}",
            String::from_utf8_lossy(&bytes),
            again(&last_input(target))
        );
    }
    fs::remove_file(last_input(target)).unwrap();
}

macro_rules! targets {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            test(stringify!($name));
        })*

        #[test]
        fn no_target_is_forgotten() {
            let names: Vec<&str> = fairground_fuzz::TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

targets!(
    workload,
    machine,
    hwloc,
    machine_file,
    cost,
    manifest,
    experiment,
    description,
    companion,
    object,
    recording,
    entries,
    trace
);
