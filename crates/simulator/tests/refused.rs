//! A scheduler that a kernel's verifier refuses gives one message with the place in the source, when the scheduler is loaded or when it runs, and
//! schedulers that it accepts are loaded.

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::free;
use fairground_catalog::compile_source;
use fairground_simulator::{Scheduler, simulate};

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

/// The result of loading and running a scheduler: its error.
fn outcome(file: &Path) -> Result<(), String> {
    let compiled = compile_source(file, &Default::default()).map_err(|error| error.to_string())?;
    let scheduler = Scheduler::load(&compiled.object).map_err(|error| error.to_string())?;
    let outcome = simulate(&Arc::new(scheduler), &free("2", TASKS), Vec::new());
    let outcome = outcome.map_err(|error| error.to_string())?;
    if outcome.exit.kind.is_error() {
        return Err(outcome.exit.message);
    }
    Ok(())
}

/// Line and words of the comment about the refusal.
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

/// A callback that does nothing, in this section.
fn callback_in(section: &str) -> String {
    format!("SEC(\"{section}\") int callback(u64 *context) {{ return 0; }}")
}

/// A table of callbacks with these members, under this licence.
fn object(license: &str, before: &str, members: &str) -> String {
    format!(
        "#include \"vmlinux.h\"\n#include <bpf/bpf_helpers.h>\nchar _license[] SEC(\"license\") = \"{license}\";\n{before}\n\
         SEC(\".struct_ops.link\") struct sched_ext_ops table = {{ {members} }};\n"
    )
}

#[test]
fn what_a_kernel_refuses_of_an_object_is_named() {
    let enqueue = ".enqueue = (void *)callback, .name = \"x\"";
    let map = |kind: &str| {
        format!(
            "struct {{ __uint(type, BPF_MAP_TYPE_{kind}); __type(key, u32); __type(value, u64); }} m SEC(\".maps\");\n{}",
            callback_in("struct_ops/x")
                .replace("return 0", "u32 key = 0; return !bpf_map_lookup_elem(&m, &key)")
        )
    };
    let fine = callback_in("struct_ops/x");
    let named = |name: &str| format!(".name = \"{}\"", name.repeat(128));
    let folder = tempfile::tempdir().unwrap();
    for (text, words) in [
        (object("Proprietary", &fine, enqueue), "the licence is \"Proprietary\""),
        (object("", &fine, enqueue), "compatible with the GPL"),
        (
            object("GPL", &callback_in("xdp"), enqueue),
            "ops.enqueue is callback in section xdp: callbacks are in sections",
        ),
        (
            object("GPL", &callback_in("struct_ops.s/x"), enqueue),
            "programs there may sleep, and this callback may not",
        ),
        (object("GPL", "", &named("a")), "fewer than 128"),
        (
            object("GPL", "", ".dispatch_max_batch = 1u << 31, .name = \"x\""),
            "ops.dispatch_max_batch 2147483648 is over 2147483647",
        ),
        (object("GPL", &map("HASH"), enqueue), "map m has room for nothing"),
    ] {
        let file = folder.path().join("one.bpf.c");
        std::fs::write(&file, text).unwrap();
        let said = outcome(&file).expect_err(words);
        assert!(said.contains(words), "{words}:\n  {said}");
    }
    for license in ["GPL v2", "Dual BSD/GPL"] {
        let file = folder.path().join("one.bpf.c");
        let members = ".init = (void *)callback, .name = \"x\"";
        std::fs::write(&file, object(license, &callback_in("struct_ops.s/init"), members)).unwrap();
        assert_eq!(outcome(&file), Ok(()), "{license}");
    }
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

/// A scheduler whose callback does something only if the constant `rare` is not 0.
fn with_rare_code(folder: &Path, before: &str, rare: &str) -> PathBuf {
    let file = folder.join("rare.bpf.c");
    let text = format!(
        "#include \"one_callback.h\"\nconst volatile bool rare;\n{before}\nRUNNING()\n{{\n\tif (rare) {{ {rare} }}\n}}\nSCHEDULER;\n"
    );
    std::fs::write(&file, text).unwrap();
    file
}

#[test]
fn code_that_constants_rule_out_is_not_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/include/one_callback.h");
    std::fs::copy(header, folder.path().join("one_callback.h")).unwrap();
    let untested = "u32 key = 9; struct value *value = bpf_map_lookup_elem(&hash, &key); zero = value->numbers[0];";
    let in_function =
        format!("static __noinline void look(bool really) {{ if (really) {{ {untested} }} }}");
    for (before, rare, words) in [
        (
            "",
            // Of a cast from address space 0 to 0, which clang 19 makes.
            "u64 at = numbers[0]; asm volatile(\"%[r] = addr_space_cast(%[r], 0x0, 0x0)\" : [r] \"+r\"(at)); numbers[0] = at;",
            "unknown arithmetic instruction",
        ),
        ("", untested, "may be NULL and is not tested"),
        (&in_function, "look(rare);", "may be NULL and is not tested"),
        ("", "scx_bpf_dispatch_cancel();", "is not allowed in ops.running()"),
    ] {
        let file = with_rare_code(folder.path(), before, rare);
        let compiled = compile_source(&file, &Default::default()).unwrap();
        let object = Arc::new(fairground_bpf::Object::parse(&compiled.object).unwrap());
        let mut options = free("2", TASKS);
        let scheduler = Scheduler::load_with_values(object.clone(), &options, None).expect(words);
        let outcome = simulate(&Arc::new(scheduler), &options, Vec::new()).unwrap();
        assert!(!outcome.exit.kind.is_error(), "{:?}", outcome.exit);
        options.variables.push(("rare".to_owned(), vec![1]));
        match Scheduler::load_with_values(object, &options, None) {
            Ok(_) => panic!("{words}: accepted"),
            Err(error) => assert!(error.to_string().contains(words), "{error}"),
        }
    }
}
