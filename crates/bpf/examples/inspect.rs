//! Prints what a BPF object holds and how large its machine code is:
//! `cargo run -p fairground-bpf --example inspect -- OBJECT...`
//!
//! The kernel here is imaginary: it has every function that the object asks
//! for, and structures laid out as the object itself declares them.

use std::process::ExitCode;
use std::time::Instant;

use fairground_bpf::{Btf, Context, Field, Kind, Linker, Native, Object, compile};

fn main() -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for path in std::env::args().skip(1) {
        if let Err(problem) = inspect(&path) {
            eprintln!("{path}: {problem}");
            code = ExitCode::from(2);
        }
    }
    code
}

fn inspect(path: &str) -> Result<(), Box<dyn std::error::Error>> {
    let bytes = std::fs::read(path)?;
    let object = Object::parse(&bytes)?;
    println!("{path}: licence {}", object.license());
    for program in object.programs() {
        let loaded = if program.autoload { "" } else { " (not loaded)" };
        println!("  program {} in {}{loaded}", program.name, program.section);
    }
    for map in object.maps() {
        println!(
            "  map {}: kind {}, {} entries of {} + {} bytes, flags {:#x}",
            map.name, map.kind, map.max_entries, map.key_size, map.value_size, map.flags
        );
        for field in map.value_type.iter().flat_map(|&id| object.btf().special_fields(id)) {
            println!("    offset {}: {:?}", field.offset, field.kind);
        }
    }
    for section in object.sections() {
        println!("  section {}, {} bytes", section.name, section.size);
        for variable in &section.variables {
            let tunable = if variable.tunable { ", tunable" } else { "" };
            println!(
                "    {} at {}, {} bytes, {:?}{tunable}",
                variable.name, variable.offset, variable.size, variable.kind
            );
        }
    }
    for table in object.struct_ops() {
        println!("  {} {}: {} members", table.type_name, table.name, table.members.len());
    }
    for one in object.externs() {
        let weak = if one.weak { ", weak" } else { "" };
        println!("  needs {}{weak}", one.name);
    }
    let start = Instant::now();
    let code = compile(&object, &Imaginary(object.btf()))?;
    println!("  {} bytes of machine code in {:?}", code.size(), start.elapsed());
    Ok(())
}

struct Imaginary<'a>(&'a Btf);

extern "C" fn nothing(_: *mut Context, _: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    0
}

impl Imaginary<'_> {
    fn find(&self, id: u32, name: &str) -> Option<(u32, u32)> {
        let (Kind::Structure { members, .. } | Kind::Union { members, .. }) = self.0.resolved(id)
        else {
            return None;
        };
        members.iter().find_map(|member| {
            let offset = member.bit_offset / 8;
            if member.name == name {
                return Some((offset, member.type_id));
            }
            let (inner, type_id) =
                member.name.is_empty().then(|| self.find(member.type_id, name))??;
            Some((offset + inner, type_id))
        })
    }
}

impl Linker for Imaginary<'_> {
    fn helper(&self, _: u32) -> Option<Native> {
        Some(Native::called(nothing, 5))
    }
    fn kfunc(&self, _: &str) -> Option<Native> {
        Some(Native::called(nothing, 5))
    }
    fn field(&self, structure: &str, path: &[&str]) -> Option<Field> {
        let mut id = self.0.find(structure)?;
        let mut offset = 0;
        for name in path {
            while let Kind::Array { element, .. } = *self.0.resolved(id) {
                id = element;
            }
            let (start, type_id) = self.find(id, name)?;
            offset += start;
            id = type_id;
        }
        Some(Field {
            offset,
            size: u32::try_from(self.0.size_of(id)?).ok()?,
            bits: None,
            signed: matches!(
                self.0.resolved(id),
                Kind::Integer { signed: true, .. } | Kind::Enumeration { signed: true, .. }
            ),
        })
    }
    fn type_size(&self, name: &str) -> Option<u32> {
        u32::try_from(self.0.size_of(self.0.find(name)?)?).ok()
    }
    fn enumerator(&self, enumeration: &str, name: &str) -> Option<u64> {
        let Kind::Enumeration { enumerators, .. } = self.0.resolved(self.0.find(enumeration)?)
        else {
            return None;
        };
        let found = enumerators.iter().find(|one| one.0 == name)?;
        Some(found.1)
    }
    fn kconfig(&self, _: &str) -> Option<u64> {
        Some(0)
    }
    fn variable(&self, _: &str) -> Option<*const u8> {
        Some(nothing as *const u8)
    }
    fn runaway(&self) -> *const u8 {
        nothing as *const u8
    }
    fn unavailable(&self) -> *const u8 {
        nothing as *const u8
    }
    fn stray(&self) -> *const u8 {
        nothing as *const u8
    }
}
