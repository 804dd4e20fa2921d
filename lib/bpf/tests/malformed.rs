//! Damaged objects are refused with a message; they never crash the reader or
//! the compiler.

mod common;

use common::assembler::{EXIT, Instruction, assemble, load_number};
use common::{Kernel, build};
use fairground_bpf::{Error, Object, compile};
use proptest::prelude::*;

/// The fault of a program made of instructions.
fn problem(code: &[Instruction]) -> String {
    let result =
        Object::parse(&assemble(code)).and_then(|object| compile(&object, &Kernel::default()));
    result.expect_err("a bad program").to_string()
}

#[test]
fn bad_instructions_are_named() {
    for (code, expected) in [
        (vec![(0xb7, 0, 0, 0, 0)], "control runs out of the function"),
        (vec![(0x05, 0, 0, 5, 0), EXIT], "jumps out of the function"),
        (vec![(0x05, 0, 0, -9, 0), EXIT], "jumps out of the function"),
        (vec![(0x18, 0, 0, 0, 0)], "half of a 16-byte load"),
        (vec![(0x18, 0, 0, 0, 0), EXIT, EXIT], "second half of a 16-byte load"),
        (vec![(0x18, 0, 1, 0, 5), (0, 0, 0, 0, 0), EXIT], "without a relocation"),
        (
            vec![(0x05, 0, 0, 1, 0), (0x18, 0, 0, 0, 0), (0, 0, 0, 0, 0), EXIT],
            "middle of a 16-byte load",
        ),
        (vec![(0xb7, 10, 0, 0, 0), EXIT], "frame pointer"),
        (vec![(0xb7, 11, 0, 0, 0), EXIT], "register above r10"),
        (vec![(0x79, 0, 10, 0, 0), EXIT], "outside of the frame"),
        (vec![(0x79, 0, 10, -520, 0), EXIT], "outside of the frame"),
        (vec![(0x85, 0, 2, 0, 5), EXIT], "without a relocation"),
        (vec![(0x85, 0, 1, 0, 5), EXIT], "where no function starts"),
        (vec![(0x85, 0, 1, 0, -1), EXIT], "call each other: main"),
        (vec![(0x8d, 0, 0, 0, 0), EXIT], "unknown jump"),
        (vec![(0x30, 0, 0, 0, 0), EXIT], "packet access"),
        (vec![(0xe7, 0, 0, 0, 0), EXIT], "unknown arithmetic"),
        (vec![(0x07, 0, 0, 7, 0), EXIT], "unknown arithmetic"),
        (vec![(0xdb, 0, 1, 0, 0x77), EXIT], "unknown atomic"),
        (vec![(0xd3, 0, 1, 0, 0), EXIT], "unknown atomic"),
        (vec![(0x99, 0, 1, 0, 0), EXIT], "unknown instruction"),
    ] {
        let message = problem(&code);
        assert!(message.contains(expected), "{code:?}: {message}");
    }
}

#[test]
fn loads_from_the_end_of_the_address_space_compile() {
    let mut code = Vec::from(load_number(1, u64::MAX - 3));
    code.extend([(0x79, 0, 1, 0, 0), EXIT]);
    let object = Object::parse(&assemble(&code)).expect("the object parses");
    compile(&object, &Kernel::default()).expect("the object compiles");
}

#[test]
fn objects_must_be_for_bpf() {
    let error = |bytes: &[u8]| Object::parse(bytes).expect_err("no object").to_string();
    assert!(error(b"").contains("ELF file"));
    assert!(error(b"#include <vmlinux.h>").contains("ELF file"));
    let mut foreign = assemble(&[EXIT]);
    foreign[18] = 62;
    assert!(error(&foreign).contains("clang -target bpf"));
    let mut executable = assemble(&[EXIT]);
    executable[16] = 2;
    assert!(error(&executable).contains("not a relocatable object"));
    let mut big = assemble(&[EXIT]);
    let place = big.windows(2).position(|two| two == [0x9f, 0xeb]).expect("the BTF is there");
    big[place..place + 2].copy_from_slice(&[0xeb, 0x9f]);
    assert!(error(&big).contains("big-endian"));
}

/// Reads and compiles any bytes.
fn survive(bytes: &[u8]) -> Result<(), Error> {
    let object = Object::parse(bytes)?;
    for map in object.maps() {
        if let Some(id) = map.value_type {
            let fields = object.btf().special_fields(id);
            assert!(fields.is_sorted_by_key(|field| field.offset));
        }
    }
    compile(&object, &Kernel::default()).map(|_| ())
}

#[test]
fn truncated_objects_are_refused() {
    for fixture in ["contents.bpf.c", "core.bpf.c"] {
        let bytes = build(fixture);
        for length in (0..bytes.len()).step_by(7) {
            // The section headers are at the end: nothing shorter is whole.
            let error = survive(&bytes[..length]).expect_err("a truncated object");
            assert!(matches!(error, Error::Malformed { .. }), "{error}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_objects_crash_nothing(
        which in 0..3_usize,
        damage in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![Just(0), Just(0xff), any::<u8>()]), 1..12),
    ) {
        thread_local! {
            static FIXTURES: [Vec<u8>; 3] = ["contents.bpf.c", "core.bpf.c", "calls.bpf.c"].map(build);
        }
        let mut bytes = FIXTURES.with(|fixtures| fixtures[which].clone());
        for (place, value) in damage {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        // Either outcome is fine, a panic is not.
        let text = match survive(&bytes) {
            Ok(()) => "compiled".to_owned(),
            Err(error) => error.to_string(),
        };
        prop_assert!(!text.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_instructions_crash_nothing(
        body in prop::collection::vec((any::<u8>(), 0..11_u8, 0..11_u8, -3..4_i16, prop_oneof![Just(0), Just(1), -3..4_i32]), 0..30),
        number in any::<u64>(),
    ) {
        let mut code = Vec::from(load_number(0, number));
        // Only instructions that are known one by one stay, so that their
        // combinations are tested.
        for one in body {
            let alone = [one, EXIT, EXIT, EXIT, EXIT];
            let known = Object::parse(&assemble(&alone))
                .and_then(|object| compile(&object, &Kernel::default()));
            if known.is_ok() {
                code.push(one);
            }
        }
        code.extend([EXIT; 4]);
        let result = Object::parse(&assemble(&code))
            .and_then(|object| compile(&object, &Kernel::default()));
        if let Err(error) = result {
            let generated = matches!(error, Error::Generator { .. });
            prop_assert!(!generated, "{}", error);
        }
    }
}
