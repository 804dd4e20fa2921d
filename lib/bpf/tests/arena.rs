//! Pointers into an arena are stored in one form and used in the other.

mod common;

use common::{Kernel, Run, compiled};

#[test]
fn a_list_in_the_arena_works() {
    const USER: u64 = 0x7f12_0000_0000;
    let (object, code) = compiled("arena.bpf.c", &Kernel::default());
    let mut memory = vec![0_u64; 512];
    let mut run = Run::new(&object);
    run.context.arena = memory.as_mut_ptr().cast();
    run.context.arena_user = USER;
    assert_eq!(run.call(&code, "sum", &[]), 0);
    assert_eq!(run.call(&code, "push", &[USER + 64, 3]), 1);
    assert_eq!(run.call(&code, "push", &[USER + 128, 4]), 1);
    assert_eq!(run.call(&code, "push", &[USER + 256, 5]), 1);
    assert_eq!(run.call(&code, "sum", &[]), 543);
    // Stored pointers are user addresses, and null stays null.
    assert_eq!(run.variable(&object, "head"), USER + 256);
    assert_eq!(memory[64 / 8], 3);
    assert_eq!(memory[64 / 8 + 1], 0);
    assert_eq!(memory[256 / 8 + 1], USER + 128);
}
