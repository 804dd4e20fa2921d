//! Values that are known when an object is compiled decide which code is left out,
//! and nothing that may change is taken for known.

mod common;

use common::assembler::{EXIT, Instruction};
use common::{Kernel, execute_in};
use fairground_bpf::{Context, Entry};

/// Writes 77 where its first argument points to, if anywhere.
unsafe extern "C" fn overwrite(_: *mut Context, r1: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    if r1 != 0 {
        // SAFETY: the programs here pass addresses of their stack.
        unsafe { *(r1 as *mut u64) = 77 };
    }
    123
}

fn run(code: &[Instruction]) -> u64 {
    let mut kernel = Kernel::default();
    kernel.helpers.insert(1, overwrite as Entry);
    execute_in(&kernel, code, 0)
}

const CALL_OVERWRITE: Instruction = (0x85, 0, 0, 0, 1);
/// No kernel has this helper: code that calls it must have been left out.
const CALL_ABSENT: Instruction = (0x85, 0, 0, 0, 9999);
/// Returns 1 if r1 is 5, and 2 if it is not.
const IS_FIVE: [Instruction; 4] =
    [(0xb7, 0, 0, 0, 1), (0x15, 1, 0, 1, 5), (0xb7, 0, 0, 0, 2), EXIT];

#[test]
fn a_constant_kept_on_the_stack_over_a_call_is_still_known() {
    let code = [
        (0xb7, 1, 0, 0, 0),
        (0x7b, 10, 1, -16, 0),
        CALL_OVERWRITE,
        (0x79, 1, 10, -16, 0),
        (0x15, 1, 0, 1, 0),
        CALL_ABSENT,
        EXIT,
    ];
    assert_eq!(run(&code), 123);
}

#[test]
fn memory_whose_address_is_passed_on_may_change() {
    let code = [
        (0x7a, 10, 0, -8, 5),
        (0xbf, 1, 10, 0, 0),
        (0x07, 1, 0, 0, -8),
        CALL_OVERWRITE,
        (0x79, 1, 10, -8, 0),
    ];
    assert_eq!(run(&[&code[..], &IS_FIVE].concat()), 2);
}

#[test]
fn memory_above_an_address_that_is_passed_on_may_change() {
    // The address of 16 bytes is taken; the upper half is overwritten.
    let code = [
        (0x7a, 10, 0, -8, 5),
        (0xbf, 1, 10, 0, 0),
        (0x07, 1, 0, 0, -16),
        (0x07, 1, 0, 0, 8),
        CALL_OVERWRITE,
        (0x79, 1, 10, -8, 0),
    ];
    assert_eq!(run(&[&code[..], &IS_FIVE].concat()), 2);
}

#[test]
fn memory_below_an_address_may_change() {
    // A pointer to the upper of two words goes down to the lower one.
    let code = [
        (0x7a, 10, 0, -16, 5),
        (0xbf, 1, 10, 0, 0),
        (0x07, 1, 0, 0, -8),
        (0x07, 1, 0, 0, -8),
        (0x7a, 1, 0, 0, 9),
        (0x79, 1, 10, -16, 0),
    ];
    assert_eq!(run(&[&code[..], &IS_FIVE].concat()), 2);
}

#[test]
fn a_pointer_may_go_down_through_the_whole_stack() {
    // Writes 1 to 64 from the top down, and adds up the values that it reads back.
    let code = [
        (0xb7, 0, 0, 0, 0),
        (0xb7, 2, 0, 0, 0),
        (0xbf, 1, 10, 0, 0),
        (0x07, 1, 0, 0, -8),
        (0x07, 2, 0, 0, 1),
        (0x7b, 1, 2, 0, 0),
        (0x79, 3, 1, 0, 0),
        (0x0f, 0, 3, 0, 0),
        (0x07, 1, 0, 0, -8),
        (0x55, 2, 0, -6, 64),
        EXIT,
    ];
    assert_eq!(run(&code), 64 * 65 / 2);
}

#[test]
fn a_narrow_store_spoils_a_known_value() {
    let code = [(0x7a, 10, 0, -8, 5), (0x72, 10, 0, -5, 1), (0x79, 1, 10, -8, 0)];
    assert_eq!(run(&[&code[..], &IS_FIVE].concat()), 2);
}

#[test]
fn what_differs_between_two_ways_is_not_known() {
    // r6 is 0 or 1, as the helper's result is even or odd: 123 is odd.
    let code = [
        (0xb7, 1, 0, 0, 0),
        CALL_OVERWRITE,
        (0xb7, 6, 0, 0, 0),
        (0x45, 0, 0, 1, 1),
        (0x05, 0, 0, 1, 0),
        (0xb7, 6, 0, 0, 1),
        (0xb7, 0, 0, 0, 10),
        (0x15, 6, 0, 1, 0),
        (0xb7, 0, 0, 0, 20),
        EXIT,
    ];
    assert_eq!(run(&code), 20);
}

#[test]
fn a_loop_changes_what_was_known_at_its_start() {
    let code =
        [(0xb7, 6, 0, 0, 0), (0x07, 6, 0, 0, 1), (0x55, 6, 0, -2, 10), (0xbf, 0, 6, 0, 0), EXIT];
    assert_eq!(run(&code), 10);
}

#[test]
fn equality_tells_a_value() {
    // Where the helper's result is 0, a second question is already answered.
    let code = [
        (0xb7, 1, 0, 0, 0),
        CALL_OVERWRITE,
        (0x55, 0, 0, 2, 0),
        (0x15, 0, 0, 1, 0),
        CALL_ABSENT,
        EXIT,
    ];
    assert_eq!(run(&code), 123);
}
