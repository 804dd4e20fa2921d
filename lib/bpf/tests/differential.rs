//! Random straight-line programs: compiled code against an interpreter that
//! is written differently, in wide arithmetic and without branches on sizes.

mod common;

use common::assembler::{EXIT, Instruction, load_number};
use common::execute;
use proptest::prelude::*;

/// One arithmetic instruction on the registers r0 to r9.
fn arithmetic() -> impl Strategy<Value = Instruction> {
    let operations = prop::sample::select(vec![
        (0x00, 0),
        (0x10, 0),
        (0x20, 0),
        (0x30, 0),
        (0x30, 1),
        (0x40, 0),
        (0x50, 0),
        (0x60, 0),
        (0x70, 0),
        (0x80, 0),
        (0x90, 0),
        (0x90, 1),
        (0xa0, 0),
        (0xb0, 0),
        (0xb0, 8),
        (0xb0, 16),
        (0xb0, 32),
        (0xc0, 0),
        (0xd0, 16),
        (0xd0, 32),
        (0xd0, 64),
    ]);
    let immediate = prop_oneof![Just(0), Just(1), Just(-1), Just(i32::MIN), any::<i32>()];
    (operations, any::<bool>(), any::<bool>(), 0..10_u8, 0..10_u8, immediate).prop_map(
        |((operation, variant), wide, register, destination, source, immediate)| {
            let class = if wide { 0x07 } else { 0x04 };
            match operation {
                0xd0 => {
                    let swap = if register && !wide { 0x08 } else { 0 };
                    (class | 0xd0 | swap, destination, 0, 0, i32::from(variant))
                }
                0x80 => (class | 0x80, destination, 0, 0, 0),
                // Sign extension is for registers; of 32 bits, for 64.
                0xb0 if variant == 32 => (0xbf, destination, source, 32, 0),
                0xb0 if variant != 0 => (class | 0xb8, destination, source, variant, 0),
                _ if register => (class | operation | 0x08, destination, source, variant, 0),
                _ => (class | operation, destination, 0, variant, immediate),
            }
        },
    )
}

/// The effect of an instruction, in arithmetic of 128 bits.
fn interpret(one: Instruction, registers: &mut [u64; 10]) {
    let (opcode, destination, source, variant, immediate) = one;
    let bits = if opcode & 7 == 7 { 64 } else { 32 };
    let by_register = opcode & 8 != 0;
    let mask = (1_u128 << bits) - 1;
    let raw = if by_register && opcode & 0xf0 != 0xd0 {
        u128::from(registers[usize::from(source)])
    } else {
        i128::from(immediate) as u128
    };
    let (left, right) = (u128::from(registers[usize::from(destination)]) & mask, raw & mask);
    let signed = |value: u128, bits: u32| ((value << (128 - bits)) as i128) >> (128 - bits);
    let (signed_left, signed_right) = (signed(left, bits), signed(right, bits));
    let shift = (right as u32) % bits;
    let result = match (opcode & 0xf0, variant) {
        (0x00, _) => left + right,
        (0x10, _) => left.wrapping_sub(right),
        (0x20, _) => left.wrapping_mul(right),
        (0x30, 0) => left.checked_div(right).unwrap_or(0),
        (0x30, _) => signed_left.checked_div(signed_right).unwrap_or(0) as u128,
        (0x40, _) => left | right,
        (0x50, _) => left & right,
        (0x60, _) => left << shift,
        (0x70, _) => left >> shift,
        (0x80, _) => left.wrapping_neg(),
        (0x90, 0) => left.checked_rem(right).unwrap_or(left),
        (0x90, _) => signed_left.checked_rem(signed_right).unwrap_or(signed_left) as u128,
        (0xa0, _) => left ^ right,
        (0xb0, 0) => right,
        (0xb0, from) => signed(raw, from as u32) as u128,
        (0xc0, _) => (signed_left >> shift) as u128,
        _ => {
            let size = immediate as usize / 8;
            let mut bytes = registers[usize::from(destination)].to_le_bytes();
            bytes[size..].fill(0);
            if bits == 64 || by_register {
                bytes[..size].reverse();
            }
            registers[usize::from(destination)] = u64::from_le_bytes(bytes);
            return;
        }
    };
    registers[usize::from(destination)] = (result & mask) as u64;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn compiled_code_agrees_with_an_interpreter(
        start in prop::array::uniform10(prop_oneof![any::<u64>(), 0..4_u64, any::<i32>().prop_map(|one| i64::from(one) as u64)]),
        code in prop::collection::vec(arithmetic(), 1..60),
    ) {
        // The registers come from memory, so that nothing is known of them
        // when the program is compiled, and go back there.
        let mut program = vec![(0xbf, 0, 1, 0, 0), (0x7b, 10, 1, -8, 0)];
        for register in (0..10_u8).rev() {
            program.push((0x79, register, 0, i16::from(register) * 8, 0));
        }
        program.extend(&code);
        program.push((0x7b, 10, 1, -16, 0));
        program.push((0x79, 1, 10, -8, 0));
        for register in [0, 2, 3, 4, 5, 6, 7, 8, 9_u8] {
            program.push((0x7b, 1, register, i16::from(register) * 8, 0));
        }
        program.push((0x79, 2, 10, -16, 0));
        program.push((0x7b, 1, 2, 8, 0));
        program.push(EXIT);
        let mut registers = start;
        execute(&program, registers.as_mut_ptr() as u64);

        let mut expected = start;
        for &one in &code {
            interpret(one, &mut expected);
        }
        prop_assert_eq!(registers, expected);
    }

    #[test]
    fn constants_are_computed_as_at_run_time(
        start in prop::array::uniform10(any::<u64>()),
        code in prop::collection::vec(arithmetic(), 1..20),
        compared in 0..10_u8,
        guess in any::<i32>(),
    ) {
        // Everything is known when the program is compiled, so the condition
        // is decided then.
        let mut expected = start;
        for &one in &code {
            interpret(one, &mut expected);
        }
        let actual = expected[usize::from(compared)];
        for (value, equal) in [(actual as i32, i64::from(actual as i32) as u64 == actual), (guess, i64::from(guess) as u64 == actual)] {
            let mut program = Vec::new();
            for (register, &value) in (0..).zip(&start) {
                program.extend(load_number(register, value));
            }
            program.extend(&code);
            program.push((0x15, compared, 0, 2, value));
            program.push((0xb7, 0, 0, 0, 0));
            program.push(EXIT);
            program.push((0xb7, 0, 0, 0, 1));
            program.push(EXIT);
            prop_assert_eq!(execute(&program, 0), u64::from(equal));
        }
    }
}
