//! Every class of instructions, against values worked out by hand.

mod common;

use common::assembler::{EXIT, Instruction, load_number};
use common::execute;

/// r0 = `left` op `right`, once with a register and once, if `right` fits,
/// with an immediate.
fn binary(class: u8, operation: u8, offset: i16, left: u64, right: u64) -> u64 {
    let mut code = Vec::new();
    code.extend(load_number(0, left));
    code.extend(load_number(2, right));
    code.push((class | operation | 0x08, 0, 2, offset, 0));
    code.push(EXIT);
    let by_register = execute(&code, 0);
    let immediate = right as i32;
    if i64::from(immediate) as u64 == right {
        let mut code = Vec::from(load_number(0, left));
        code.push((class | operation, 0, 0, offset, immediate));
        code.push(EXIT);
        assert_eq!(execute(&code, 0), by_register, "immediate and register");
    }
    by_register
}

const ALU32: u8 = 0x04;
const ALU64: u8 = 0x07;
const MINUS_ONE: u64 = u64::MAX;

#[test]
fn arithmetic_of_64_bits() {
    let alu = |operation, left, right| binary(ALU64, operation, 0, left, right);
    assert_eq!(alu(0x00, u64::MAX, 2), 1);
    assert_eq!(alu(0x10, 1, 2), u64::MAX);
    assert_eq!(alu(0x20, 0x1_0000_0001, 0x1_0000_0001), 0x2_0000_0001);
    assert_eq!(alu(0x40, 0xf0f0, 0x0f00), 0xfff0);
    assert_eq!(alu(0x50, 0xf0f0, 0x7fff_ffff), 0xf0f0);
    assert_eq!(alu(0xa0, 0xff00, MINUS_ONE), !0xff00);
    assert_eq!(alu(0x60, 1, 63), 1 << 63);
    assert_eq!(alu(0x60, 1, 65), 2);
    assert_eq!(alu(0x70, 1 << 63, 62), 2);
    assert_eq!(alu(0xc0, 1 << 63, 62), (-2_i64) as u64);
    assert_eq!(alu(0xb0, 5, (-7_i64) as u64), (-7_i64) as u64);
}

#[test]
fn arithmetic_of_32_bits_clears_the_upper_half() {
    let alu = |operation, left, right| binary(ALU32, operation, 0, left, right);
    assert_eq!(alu(0x00, 0xffff_ffff_ffff_ffff, 2), 1);
    assert_eq!(alu(0x10, 1, 2), 0xffff_ffff);
    assert_eq!(alu(0x20, 0x1_0001_0000, 0x1_0000), 0);
    assert_eq!(alu(0x40, 0xffff_0000_0000_0001, 2), 3);
    assert_eq!(alu(0x50, 0xffff_0000_0000_0003, MINUS_ONE), 3);
    assert_eq!(alu(0xa0, 0x1_0000_0001, MINUS_ONE), 0xffff_fffe);
    assert_eq!(alu(0x60, 1, 31), 1 << 31);
    assert_eq!(alu(0x60, 1, 33), 2);
    assert_eq!(alu(0x70, 0xf_8000_0000, 31), 1);
    assert_eq!(alu(0xc0, 0x8000_0000, 31), 0xffff_ffff);
    assert_eq!(alu(0xb0, 5, (-7_i64) as u64), 0xffff_fff9);
}

#[test]
fn division_never_traps() {
    let signed = |value: i64| value as u64;
    assert_eq!(binary(ALU64, 0x30, 0, 7, 2), 3);
    assert_eq!(binary(ALU64, 0x30, 0, 7, 0), 0);
    assert_eq!(binary(ALU64, 0x30, 0, u64::MAX, MINUS_ONE), 1);
    assert_eq!(binary(ALU64, 0x90, 0, 7, 2), 1);
    assert_eq!(binary(ALU64, 0x90, 0, 1 << 40, 0), 1 << 40);
    assert_eq!(binary(ALU64, 0x30, 1, signed(-7), 2), signed(-3));
    assert_eq!(binary(ALU64, 0x30, 1, signed(-7), 0), 0);
    assert_eq!(binary(ALU64, 0x30, 1, 1 << 63, MINUS_ONE), 1 << 63);
    assert_eq!(binary(ALU64, 0x90, 1, signed(-7), 2), signed(-1));
    assert_eq!(binary(ALU64, 0x90, 1, signed(-7), 0), signed(-7));
    assert_eq!(binary(ALU64, 0x90, 1, 1 << 63, MINUS_ONE), 0);
    // In 32 bits, zero is judged by the lower half alone.
    assert_eq!(binary(ALU32, 0x30, 0, 0x5_0000_0007, 2), 3);
    assert_eq!(binary(ALU32, 0x30, 0, 7, 1 << 32), 0);
    assert_eq!(binary(ALU32, 0x90, 0, 0x5_0000_0007, 1 << 32), 7);
    assert_eq!(binary(ALU32, 0x30, 1, 0xffff_fff9, 2), 0xffff_fffd);
    assert_eq!(binary(ALU32, 0x30, 1, 0x8000_0000, MINUS_ONE), 0x8000_0000);
    assert_eq!(binary(ALU32, 0x90, 1, 0x8000_0000, MINUS_ONE), 0);
    assert_eq!(binary(ALU32, 0x90, 1, 0xffff_fff9, 0), 0xffff_fff9);
}

#[test]
fn moves_with_sign_extension() {
    let moved = |class, offset, value| binary_move(class, offset, value);
    assert_eq!(moved(ALU64, 8, 0x1234_5680), 0xffff_ffff_ffff_ff80);
    assert_eq!(moved(ALU64, 16, 0x1234_7fff), 0x7fff);
    assert_eq!(moved(ALU64, 32, 0x8000_0000), 0xffff_ffff_8000_0000);
    assert_eq!(moved(ALU32, 8, 0x80), 0xffff_ff80);
    assert_eq!(moved(ALU32, 16, 0x8000), 0xffff_8000);
}

fn binary_move(class: u8, offset: i16, value: u64) -> u64 {
    let mut code = Vec::from(load_number(2, value));
    code.push((class | 0xb8, 0, 2, offset, 0));
    code.push(EXIT);
    execute(&code, 0)
}

fn unary(opcode: u8, immediate: i32, value: u64) -> u64 {
    let mut code = Vec::from(load_number(0, value));
    code.push((opcode, 0, 0, 0, immediate));
    code.push(EXIT);
    execute(&code, 0)
}

#[test]
fn negation_and_byte_order() {
    const VALUE: u64 = 0x0102_0304_0506_0708;
    assert_eq!(unary(0x87, 0, 5), (-5_i64) as u64);
    assert_eq!(unary(0x84, 0, 5), 0xffff_fffb);
    // To little-endian, to big-endian, unconditionally.
    assert_eq!(unary(0xd4, 16, VALUE), 0x0708);
    assert_eq!(unary(0xd4, 32, VALUE), 0x0506_0708);
    assert_eq!(unary(0xd4, 64, VALUE), VALUE);
    assert_eq!(unary(0xdc, 16, VALUE), 0x0807);
    assert_eq!(unary(0xdc, 32, VALUE), 0x0807_0605);
    assert_eq!(unary(0xdc, 64, VALUE), 0x0807_0605_0403_0201);
    assert_eq!(unary(0xd7, 16, VALUE), 0x0807);
    assert_eq!(unary(0xd7, 32, VALUE), 0x0807_0605);
    assert_eq!(unary(0xd7, 64, VALUE), 0x0807_0605_0403_0201);
}

/// Whether a conditional jump is taken.
fn jumps(class: u8, operation: u8, left: u64, right: u64) -> bool {
    let run = |jump: Instruction| {
        let mut code = Vec::from(load_number(1, left));
        code.extend(load_number(2, right));
        // Values that no analysis knows: from memory.
        code.push((0x7b, 10, 1, -8, 0));
        code.push((0x7b, 10, 2, -16, 0));
        code.push((0xbf, 3, 10, 0, 0));
        code.push((0xbf, 4, 3, 0, 0));
        code.push((0x79, 1, 4, -8, 0));
        code.push((0x79, 2, 4, -16, 0));
        code.push(jump);
        code.push((0xb7, 0, 0, 0, 0));
        code.push(EXIT);
        code.push((0xb7, 0, 0, 0, 1));
        code.push(EXIT);
        execute(&code, 0) == 1
    };
    let by_register = run((class | operation | 0x08, 1, 2, 2, 0));
    let immediate = right as i32;
    if i64::from(immediate) as u64 == right {
        let by_immediate = run((class | operation, 1, 0, 2, immediate));
        assert_eq!(by_immediate, by_register, "immediate and register");
    }
    by_register
}

#[test]
fn conditional_jumps() {
    const JMP: u8 = 0x05;
    const JMP32: u8 = 0x06;
    let minus_two = (-2_i64) as u64;
    // Operation; left; right; taken with 64 bits; taken with 32 bits.
    let cases: &[(u8, u64, u64, bool, bool)] = &[
        (0x10, 5, 5, true, true),
        (0x10, 0x1_0000_0005, 5, false, true),
        (0x50, 0x1_0000_0005, 5, true, false),
        (0x20, 0x1_0000_0000, 5, true, false),
        (0x20, 5, 5, false, false),
        (0x20, minus_two, 5, true, true),
        (0x30, 5, 5, true, true),
        (0xa0, 5, minus_two, true, true),
        (0xa0, 5, 5, false, false),
        (0xb0, 5, 5, true, true),
        (0xb0, 0x1_0000_0006, 5, false, false),
        (0x40, 6, 1, false, false),
        (0x40, 0x1_0000_0000, 0x1_0000_0000, true, false),
        (0x40, 6, 2, true, true),
        (0x60, minus_two, 5, false, false),
        (0x60, 5, minus_two, true, true),
        (0x60, 0xffff_fffe, 5, true, false),
        (0x70, minus_two, minus_two, true, true),
        (0x70, minus_two, 0, false, false),
        (0xc0, minus_two, 5, true, true),
        (0xc0, 0xffff_fffe, 5, false, true),
        (0xd0, 5, 5, true, true),
        (0xd0, 5, minus_two, false, false),
    ];
    for &(operation, left, right, wide, narrow) in cases {
        let case = format!("{operation:#x} {left:#x} {right:#x}");
        assert_eq!(jumps(JMP, operation, left, right), wide, "{case}");
        assert_eq!(jumps(JMP32, operation, left, right), narrow, "{case}");
    }
}

#[test]
fn long_jumps_use_the_immediate() {
    let mut code = vec![(0xb7, 0, 0, 0, 1), (0x06, 0, 0, 0, 40_000)];
    code.extend(std::iter::repeat_n((0x07, 0, 0, 0, 1), 40_000));
    code.push(EXIT);
    assert_eq!(execute(&code, 0), 1);
}

#[test]
fn memory_of_every_size() {
    let value = 0x8182_8384_8586_8788;
    // Load opcode, expected.
    for (opcode, expected) in [
        (0x71, 0x88),
        (0x69, 0x8788),
        (0x61, 0x8586_8788),
        (0x79, value),
        (0x91, 0xffff_ffff_ffff_ff88),
        (0x89, 0xffff_ffff_ffff_8788),
        (0x81, 0xffff_ffff_8586_8788),
    ] {
        let mut cell = value;
        let code = [(opcode, 0, 1, 0, 0), EXIT];
        assert_eq!(execute(&code, &raw mut cell as u64), expected, "{opcode:#x}");
    }
    // Store opcodes with register and immediate, expected contents.
    for (register, immediate, expected) in [
        (0x73, 0x72, 0x8182_8384_8586_87fe),
        (0x6b, 0x6a, 0x8182_8384_8586_fffe),
        (0x63, 0x62, 0x8182_8384_ffff_fffe),
        (0x7b, 0x7a, 0xffff_ffff_ffff_fffe),
    ] {
        let mut cell = value;
        let code = [(0xb7, 2, 0, 0, -2), (register, 1, 2, 0, 0), (0xb7, 0, 0, 0, 0), EXIT];
        execute(&code, &raw mut cell as u64);
        assert_eq!(cell, expected, "{register:#x}");
        let mut cell = value;
        let code = [(immediate, 1, 0, 0, -2), (0xb7, 0, 0, 0, 0), EXIT];
        execute(&code, &raw mut cell as u64);
        assert_eq!(cell, expected, "{immediate:#x}");
    }
}

/// Runs one atomic operation on a cell; returns cell, r0 and r2 afterwards.
fn atomic(opcode: u8, operation: i32, cell: u64, r0: u64, r2: u64) -> (u64, u64, u64) {
    let run = |result: u8| {
        let mut memory = cell;
        let mut code = Vec::from(load_number(0, r0));
        code.extend(load_number(2, r2));
        code.push((opcode, 1, 2, 0, operation));
        code.push((0xbf, 0, result, 0, 0));
        code.push(EXIT);
        let result = execute(&code, &raw mut memory as u64);
        (memory, result)
    };
    let (memory, r0) = run(0);
    let (_, r2) = run(2);
    (memory, r0, r2)
}

#[test]
fn atomic_operations() {
    const WIDE: u8 = 0xdb;
    const NARROW: u8 = 0xc3;
    let high = 0x1_0000_0000;
    assert_eq!(atomic(WIDE, 0x00, high + 5, 9, 3), (high + 8, 9, 3));
    assert_eq!(atomic(WIDE, 0x01, high + 5, 9, 3), (high + 8, 9, high + 5));
    assert_eq!(atomic(WIDE, 0x40, 5, 9, 3), (7, 9, 3));
    assert_eq!(atomic(WIDE, 0x41, 5, 9, 3), (7, 9, 5));
    assert_eq!(atomic(WIDE, 0x50, 5, 9, 3), (1, 9, 3));
    assert_eq!(atomic(WIDE, 0x51, 5, 9, 3), (1, 9, 5));
    assert_eq!(atomic(WIDE, 0xa0, 5, 9, 3), (6, 9, 3));
    assert_eq!(atomic(WIDE, 0xa1, 5, 9, 3), (6, 9, 5));
    assert_eq!(atomic(WIDE, 0xe1, 5, 9, 3), (3, 9, 5));
    assert_eq!(atomic(WIDE, 0xf1, 5, 5, 3), (3, 5, 3));
    assert_eq!(atomic(WIDE, 0xf1, 5, 9, 3), (5, 5, 3));
    // In 32 bits the rest of the memory stays, and registers are cleared.
    assert_eq!(atomic(NARROW, 0x01, high + 0xffff_ffff, 9, high + 1), (high, 9, 0xffff_ffff));
    assert_eq!(atomic(NARROW, 0xe1, high + 5, 9, 3), (high + 3, 9, 5));
    assert_eq!(atomic(NARROW, 0xf1, high + 5, (7 << 32) + 5, 3), (high + 3, 5, 3));
}

#[test]
fn acquire_and_release() {
    for (opcode, value, ones) in [
        (0xd3, 0x88, 0xff),
        (0xcb, 0x8788, 0xffff),
        (0xc3, 0x8586_8788, 0xffff_ffff),
        (0xdb, 0x8182_8384_8586_8788, u64::MAX),
    ] {
        let mut cell = 0x8182_8384_8586_8788_u64;
        let code = [(opcode, 0, 1, 0, 0x100), EXIT];
        assert_eq!(execute(&code, &raw mut cell as u64), value);
        let mut cell = 0;
        let code = [(0xb7, 2, 0, 0, -1), (opcode, 1, 2, 0, 0x110), (0xb7, 0, 0, 0, 0), EXIT];
        execute(&code, &raw mut cell as u64);
        assert_eq!(cell, ones);
    }
}

#[test]
fn the_stack_starts_as_zeros() {
    // r0 = the sum of all 64 words of the stack.
    let mut code = vec![(0xb7, 0, 0, 0, 0)];
    for word in 1..=64_i16 {
        code.push((0x79, 2, 10, -8 * word, 0));
        code.push((0x4f, 0, 2, 0, 0));
    }
    code.push(EXIT);
    assert_eq!(execute(&code, 0), 0);
}

#[test]
fn may_goto_gives_up() {
    // r0 counts turns; may_goto leaves the endless loop.
    let code =
        [(0xb7, 0, 0, 0, 0), (0xe5, 0, 0, 2, 0), (0x07, 0, 0, 0, 1), (0x05, 0, 0, -3, 0), EXIT];
    let object = fairground_bpf::Object::parse(&common::assembler::assemble(&code))
        .expect("the object parses");
    let code =
        fairground_bpf::compile(&object, &common::Kernel::default()).expect("the object compiles");
    let mut run = common::Run::new(&object);
    run.context.instruction_limit = u64::MAX;
    assert_eq!(run.call(&code, "main", &[]), 8 * 1024 * 1024);
    assert!(run.reports.runaways.is_empty());
}
