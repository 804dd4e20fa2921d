//! CO-RE relocations against a kernel whose structures are laid out
//! differently.

mod common;

use common::{Kernel, Run, compiled, parse};
use fairground_bpf::{Bits, Field, TypeKind, compile};

fn field(offset: u32, size: u32) -> Field {
    Field { offset, size, bits: None, signed: false }
}

/// A kernel with a `struct task` of 256 bytes.
fn kernel() -> Kernel {
    let mut kernel = Kernel::default();
    kernel.sizes.insert("task", 256);
    kernel.sizes.insert("inner", 24);
    for (path, place) in [
        ("pid", field(200, 4)),
        ("weight", field(16, 8)),
        ("hidden", field(8, 4)),
        ("shared", field(24, 8)),
        ("narrow", field(24, 4)),
        ("nested", field(32, 24)),
        ("nested.second", field(40, 8)),
        ("items", field(64, 96)),
        ("numbers", field(160, 16)),
        ("parent", field(192, 8)),
        ("shrunk", field(204, 2)),
        (
            "flag",
            Field { offset: 208, size: 4, bits: Some(Bits { offset: 17, size: 1 }), signed: false },
        ),
        (
            "level",
            Field { offset: 208, size: 4, bits: Some(Bits { offset: 20, size: 6 }), signed: true },
        ),
        ("changed", Field { signed: true, ..field(216, 8) }),
    ] {
        kernel.fields.insert(("task", path), place);
    }
    kernel.fields.insert(("inner", "first"), field(16, 4));
    kernel.fields.insert(("inner", "second"), field(8, 8));
    kernel.enumerators.insert(("mode", "MODE_IDLE"), 10);
    kernel.enumerators.insert(("mode", "MODE_BUSY"), 20);
    kernel.enumerators.insert(("wide", "WIDE_VALUE"), 0x3_0000_0000);
    kernel
}

/// A task as this kernel lays it out.
fn task() -> Vec<u8> {
    let mut task = vec![0_u8; 256];
    let mut put = |offset: usize, bytes: &[u8]| {
        task[offset..offset + bytes.len()].copy_from_slice(bytes);
    };
    put(200, &7_u32.to_le_bytes());
    put(16, &1000_u64.to_le_bytes());
    put(8, &3_u32.to_le_bytes());
    put(24, &4_u32.to_le_bytes());
    put(40, &55_u64.to_le_bytes());
    // Third item, its second field.
    put(64 + 2 * 24 + 8, &66_u64.to_le_bytes());
    put(160 + 3 * 4, &8_u32.to_le_bytes());
    put(204, &0xbeef_u16.to_le_bytes());
    put(206, &0xffff_u16.to_le_bytes());
    // The flag is set, and the level is -3.
    put(208, &((1_u32 << 17) | (0b11_1101 << 20)).to_le_bytes());
    task
}

fn run(program: &str, task: &mut [u8]) -> u64 {
    let (object, code) = compiled("core.bpf.c", &kernel());
    let mut run = Run::new(&object);
    run.call(&code, program, &[task.as_mut_ptr() as u64])
}

#[test]
fn fields_are_found_where_the_kernel_has_them() {
    assert_eq!(run("plain", &mut task()), 1007);
    assert_eq!(run("anonymous", &mut task()), 7);
    assert_eq!(run("nested", &mut task()), 55);
    assert_eq!(run("array", &mut task()), 66_008);
    assert_eq!(run("element", &mut task()), 256 + 16);
}

#[test]
fn a_null_pointer_reads_zeros() {
    let mut middle = task();
    let mut first = task();
    let pointer = middle.as_mut_ptr() as u64;
    first[192..200].copy_from_slice(&pointer.to_le_bytes());
    // The parent of the parent is null.
    assert_eq!(run("chain", &mut first), 0);
    let mut last = task();
    let pointer = last.as_mut_ptr() as u64;
    middle[192..200].copy_from_slice(&pointer.to_le_bytes());
    assert_eq!(run("chain", &mut first), 1000);
    assert_eq!(run("chain", &mut task()), 0);
}

#[test]
fn accesses_adapt_to_the_size_of_the_field() {
    assert_eq!(run("shrunk", &mut task()), 0xbeef);
    let mut written = task();
    run("write", &mut written);
    assert_eq!(written[16], 99);
    assert_eq!(written[204..208], [0x78, 0x56, 0xff, 0xff]);
}

#[test]
fn flavors_and_guards_leave_out_what_is_not_there() {
    assert_eq!(run("flavor", &mut task()), 1005);
    assert_eq!(run("guarded", &mut task()), 11);
    let mut other = kernel();
    other.fields.insert(("task", "former_weight"), field(40, 8));
    other.fields.insert(("task", "absent"), field(200, 4));
    other.sizes.insert("no_such_struct", 8);
    other.fields.insert(("no_such_struct", "field"), field(40, 8));
    other.enumerators.insert(("mode", "MODE_GONE"), 300);
    let (object, code) = compiled("core.bpf.c", &other);
    let mut run = Run::new(&object);
    let mut task = task();
    let pointer = task.as_mut_ptr() as u64;
    assert_eq!(run.call(&code, "flavor", &[pointer]), 55);
    assert_eq!(run.call(&code, "guarded", &[pointer]), 1 + 7 + 55 + 300);
}

#[test]
fn types_and_enumerators() {
    assert_eq!(run("types", &mut task()), 10_256_011);
    assert_eq!(run("fields", &mut task()), 8 + 2400 + 100_000);
    assert_eq!(run("enumerators", &mut task()), 20 + 0x3_0000_0000);
    let (object, code) = compiled("core.bpf.c", &kernel());
    let id = Run::new(&object).call(&code, "local_type", &[]);
    let one = object.btf().get(u32::try_from(id).expect("a type number"));
    assert_eq!(one.name, "inner");
    assert!(matches!(one.kind, TypeKind::Structure { size: 16, .. }));
}

#[test]
fn bit_fields_are_shifted_into_place() {
    assert_eq!(run("bit_fields", &mut task()), 100 + 47);
}

/// The problems found when one more program is loaded.
fn problems(program: &str) -> Vec<String> {
    let mut object = parse("core.bpf.c");
    assert!(object.set_autoload(program, true));
    let code = compile(&object, &kernel()).expect("the object compiles");
    code.needs().missing().iter().map(ToString::to_string).collect()
}

#[test]
fn reachable_code_must_have_what_it_needs() {
    let [problem] = &problems("poisoned")[..] else { panic!("one problem") };
    let start = "struct task has no field absent in this kernel model, needed in poisoned at ";
    assert!(problem.starts_with(start), "{problem}");
    assert!(problem.contains("core.bpf.c:"), "{problem}");
    assert_eq!(problems("own_type"), [""; 0]);
    let [problem] = &problems("poisoned_enumerator")[..] else { panic!("one problem") };
    let start = "enum mode has no MODE_GONE in this kernel model, ";
    assert!(problem.starts_with(start), "{problem}");
    let [problem] = &problems("poisoned_size")[..] else { panic!("one problem") };
    let start = "field changed of struct task has 8 bytes in this kernel model instead of 4";
    assert!(problem.starts_with(start), "{problem}");
}
