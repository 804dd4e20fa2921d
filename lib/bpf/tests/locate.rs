//! Addresses in the machine code lead back to the source.

mod common;

use common::{Kernel, Run, compiled, fixtures};
use fairground_bpf::{Context, Entry};

/// Does nothing; its calls are found by their return addresses.
unsafe extern "C" fn nothing(_: *mut Context, _: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    0
}

#[test]
fn every_address_has_a_line_of_its_function() {
    let mut kernel = Kernel::default();
    kernel.helpers.insert(1, nothing as Entry);
    let (object, code) = compiled("crash.bpf.c", &kernel);
    let source = std::fs::read_to_string(fixtures().join("crash.bpf.c")).expect("the source");
    let lines: Vec<&str> = source.lines().collect();
    for (program, expected) in [
        ("outer", vec!["where(arguments[0])", "inner(arguments[0])"]),
        ("inner", vec!["where(number + 1)"]),
    ] {
        let start = code.entry(program).expect("a function") as *const u8;
        let mut address = start;
        let mut seen = Vec::new();
        let mut columns = 0;
        while let Some(place) = code.locate(address) {
            if place.program != program {
                break;
            }
            assert!(place.file.ends_with("crash.bpf.c"), "{place}");
            columns = columns.max(place.column);
            let text = lines[place.line as usize - 1].trim();
            assert_eq!(place.source_text, text, "{place}");
            seen.push(place.source_text);
            address = address.wrapping_add(1);
        }
        assert!(columns > 0, "no column in {program}");
        assert!(seen.len() > 20, "{} bytes of {program}", seen.len());
        for text in expected {
            assert!(seen.iter().any(|line| line.contains(text)), "{text}");
        }
    }
    assert_eq!(code.locate(std::ptr::null()), None);
    assert_eq!(code.locate(lines.as_ptr().cast()), None);
    assert_eq!(Run::new(&object).call(&code, "outer", &[1]), 1);
    assert!(code.size() > 40);
}

#[test]
fn one_code_serves_many_threads() {
    let mut kernel = Kernel::default();
    kernel.helpers.insert(1, nothing as Entry);
    let (object, code) = compiled("crash.bpf.c", &kernel);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut run = Run::new(&object);
                for _ in 0..1000 {
                    assert_eq!(run.call(&code, "outer", &[1]), 1);
                }
                let each = run.context.instructions / 1000;
                assert_eq!(run.context.instructions, each * 1000);
                assert!((10..40).contains(&each), "{each} instructions a call");
            });
        }
    });
}
