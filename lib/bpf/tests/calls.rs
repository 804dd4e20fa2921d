//! Calls between functions, to helpers and kernel functions, of callbacks,
//! and the treatment of names that the kernel does not have.

mod common;

use common::{Kernel, Run, compiled, parse};
use fairground_bpf::{Context, Entry, ExternKind, compile};

unsafe extern "C" fn add_one(_: *mut Context, r1: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    r1 + 1
}

unsafe extern "C" fn add_two(_: *mut Context, r1: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    r1 + 2
}

/// As the kernel's `bpf_loop`.
unsafe extern "C" fn repeat(
    context: *mut Context,
    count: u64,
    callback: u64,
    data: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: the program passes one of its functions.
    let callback = unsafe { std::mem::transmute::<usize, Entry>(callback as usize) };
    for index in 0..count {
        // SAFETY: as above.
        if unsafe { callback(context, index, data, 0, 0, 0) } == 1 {
            return index + 1;
        }
    }
    count
}

static KNOWN: u64 = 41;

fn kernel() -> Kernel {
    let mut kernel = Kernel::default();
    kernel.helpers.insert(181, repeat);
    kernel.kfuncs.insert("add_one", add_one);
    kernel.kfuncs.insert("add_two", add_two);
    kernel.variables.insert("known_variable", &raw const KNOWN as usize);
    kernel.kconfig.insert("LINUX_KERNEL_VERSION", 7 << 16);
    kernel.kconfig.insert("CONFIG_HZ", 250);
    kernel.kconfig.insert("CONFIG_SMP", 1);
    kernel.kconfig.insert("CONFIG_LETTER", 2);
    kernel
}

#[test]
fn helpers_call_back() {
    let (object, code) = compiled("calls.bpf.c", &kernel());
    let mut run = Run::new(&object);
    assert_eq!(run.call(&code, "callback", &[5]), 10);
    assert_eq!(run.call(&code, "callback", &[100]), 45);
}

#[test]
fn functions_call_functions() {
    let (object, code) = compiled("calls.bpf.c", &kernel());
    let mut run = Run::new(&object);
    let expected = (10 + 2) * 3 * 2 + (20 + 2) * 3 * 5;
    assert_eq!(run.call(&code, "nested", &[10, 20]), expected);
}

#[test]
fn weak_names_may_be_missing() {
    let (object, code) = compiled("calls.bpf.c", &kernel());
    let mut run = Run::new(&object);
    assert_eq!(run.call(&code, "weak", &[10]), 12);
    let mut larger = kernel();
    larger.kfuncs.insert("not_there", add_one);
    let code = compile(&object, &larger).expect("the object compiles");
    assert_eq!(run.call(&code, "weak", &[10]), 11);
    assert_eq!(run.call(&code, "variable", &[]), 42);
}

#[test]
fn a_call_of_a_missing_weak_function_ends_the_program() {
    let (object, code) = compiled("calls.bpf.c", &kernel());
    let mut run = Run::new(&object);
    assert_eq!(run.call(&code, "unguarded", &[5]), 6);
    assert!(run.reports.unavailable.is_empty());
    assert_eq!(run.call(&code, "unguarded", &[6]), 0);
    let problem = "called not_there_either(), which this kernel does not have";
    assert_eq!(run.reports.unavailable, [problem]);
    assert_eq!(run.context.instruction_limit, 0);
}

#[test]
fn a_test_whose_result_is_kept_on_the_stack_rules_out_a_call() {
    let (object, code) = compiled("calls.bpf.c", &kernel());
    let untested: Vec<_> = code.needs().untested().iter().map(|one| &one.problem).collect();
    assert_eq!(untested, ["called not_there_either(), which this kernel does not have"]);
    assert_eq!(Run::new(&object).call(&code, "tested_before", &[4]), 6);
}

#[test]
fn configuration_decides_what_is_compiled() {
    let (object, code) = compiled("calls.bpf.c", &kernel());
    let mut run = Run::new(&object);
    assert_eq!(run.call(&code, "configuration", &[]), 110_250);
    let mut older = kernel();
    older.kconfig.insert("LINUX_KERNEL_VERSION", 6 << 16);
    let code = compile(&object, &older).expect("the object compiles");
    let missing = code.needs().missing()[0].to_string();
    assert!(missing.contains("helper 5555"), "{missing}");
}

#[test]
fn all_missing_names_are_listed_at_once() {
    let object = parse("calls.bpf.c");
    let code = compile(&object, &Kernel::default()).expect("the object compiles");
    let mut found: Vec<&str> = code
        .needs()
        .missing()
        .iter()
        .filter_map(|one| one.problem.strip_prefix("this kernel model has no "))
        .collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [
            "helper 181",
            "helper 5555",
            "kernel configuration value CONFIG_HZ",
            "kernel configuration value CONFIG_LETTER",
            "kernel configuration value LINUX_KERNEL_VERSION",
            "kernel function add_one",
            "kernel variable known_variable",
        ]
    );
    let place = &code.needs().missing()[0].place;
    assert!(place.contains("calls.bpf.c:"), "{place}");
}

#[test]
fn what_is_missing_is_an_error_when_it_is_reached() {
    let object = parse("calls.bpf.c");
    let mut older = kernel();
    older.kconfig.insert("LINUX_KERNEL_VERSION", 6 << 16);
    let code = compile(&object, &older).expect("the object compiles");
    let mut run = Run::new(&object);
    assert_eq!(run.call(&code, "weak", &[10]), 12);
    assert!(run.reports.unavailable.is_empty());
    assert_eq!(run.call(&code, "configuration", &[]), 0);
    let problem = "this kernel model has no helper 5555";
    assert_eq!(run.reports.unavailable, [problem]);
    assert_eq!(run.context.instruction_limit, 0);
}

#[test]
fn programs_are_loaded_as_libbpf_does() {
    let mut object = parse("calls.bpf.c");
    let program = object
        .programs()
        .iter()
        .find(|one| one.name == "not_loaded")
        .expect("the program is listed");
    assert!(!program.autoload);
    assert_eq!(program.section, "syscall");
    let code = compile(&object, &kernel()).expect("the object compiles");
    assert!(code.entry("not_loaded").is_none());
    assert!(code.entry("weak").is_some());
    assert!(object.set_autoload("not_loaded", true));
    assert!(!object.set_autoload("no such program", true));
    let code = compile(&object, &kernel()).expect("the object compiles");
    let missing = code.needs().missing()[0].to_string();
    assert!(missing.contains("helper 7777"), "{missing}");
}

#[test]
fn a_runaway_function_ends_its_callers() {
    let (object, code) = compiled("calls.bpf.c", &kernel());
    let mut run = Run::new(&object);
    let mut arguments = [u64::MAX - 5, 0];
    let pointer = arguments.as_mut_ptr() as u64;
    assert_eq!(run.call_with(&code, "runaway_inside", [pointer, 0, 0, 0, 0]), 77);
    assert_eq!(arguments[1], 1);
    let mut arguments = [1, 0];
    let pointer = arguments.as_mut_ptr() as u64;
    assert_eq!(run.call_with(&code, "runaway_inside", [pointer, 0, 0, 0, 0]), 0);
    assert_eq!(arguments[1], 0, "the caller went on");
    assert_eq!(run.reports.runaways.len(), 1);
    let place = code.place(run.reports.runaways[0]).expect("a known place");
    assert_eq!(place.program, "endless");
    // The next call starts afresh once the limit is set again.
    run.context.instructions = 0;
    run.context.instruction_limit = 1000;
    assert_eq!(run.call(&code, "runaway_inside", &[u64::MAX - 5]), 77);
}

#[test]
fn externs_are_described() {
    let object = parse("calls.bpf.c");
    let find = |name: &str| {
        object
            .externs()
            .iter()
            .find(|one| one.name == name)
            .unwrap_or_else(|| panic!("{name} is listed"))
    };
    assert!(!find("add_one").weak);
    assert_eq!(find("add_two___v2").essential_name(), "add_two");
    assert!(find("add_two___v2").weak);
    assert!(matches!(find("add_one").kind, ExternKind::Function { .. }));
    assert!(matches!(find("unknown_variable").kind, ExternKind::Variable { .. }));
    assert!(matches!(find("CONFIG_HZ").kind, ExternKind::Configuration { size: 4, .. }));
}
