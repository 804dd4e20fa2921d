//! Programs, subprograms, global variables and loops of a small object.

mod common;

use common::{Kernel, Run, compiled};
use fairground_bpf::Context;

unsafe extern "C" fn double_it(_: *mut Context, r1: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    r1 * 2
}

fn kernel() -> Kernel {
    let mut kernel = Kernel::default();
    kernel.helpers.insert(100, double_it);
    kernel
}

#[test]
fn programs_use_their_own_globals() {
    let (object, code) = compiled("basic.bpf.c", &kernel());
    let mut one = Run::new(&object);
    let mut other = Run::new(&object);
    assert_eq!(one.call(&code, "enqueue", &[7, 10]), 10 * 3 - 5 + 40);
    assert_eq!(one.call(&code, "enqueue", &[8, 0]), 35);
    assert_eq!(one.variable(&object, "counter"), 15);
    assert_eq!(other.variable(&object, "counter"), 0);
    other.call(&code, "enqueue", &[1, 1]);
    assert_eq!(other.variable(&object, "counter"), 1);
}

#[test]
fn five_arguments_reach_subprograms_and_helpers() {
    let (object, code) = compiled("basic.bpf.c", &kernel());
    let mut run = Run::new(&object);
    let expected = (1 + 2 * 2 + 3 * 3 + 4 * 4 + 5 * 5) + 2 + 3;
    assert_eq!(run.call(&code, "init", &[1, 2, 3, 4, 5]), expected);
}

#[test]
fn runaway_loops_stop_and_say_where() {
    let (object, code) = compiled("basic.bpf.c", &kernel());
    let mut run = Run::new(&object);
    assert_eq!(run.call(&code, "loop", &[1000]), 499_500);
    assert!(run.reports.runaways.is_empty());
    let counted = run.context.instructions;
    assert!((3000..10_000).contains(&counted), "{counted} instructions");
    assert_eq!(run.call(&code, "loop", &[u64::MAX]), 0);
    assert_eq!(run.reports.runaways.len(), 1);
    assert_eq!(run.context.instruction_limit, 0);
    let place = code.place(run.reports.runaways[0]).expect("a known place");
    assert_eq!(place.program, "loop");
    assert!(place.file.ends_with("basic.bpf.c"), "{place}");
    assert!(place.line > 0, "{place}");
}
