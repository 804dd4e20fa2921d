//! Compiles the fixtures and stands in for a kernel.

#![allow(dead_code)] // Each test uses its part.

pub mod assembler;

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use fairground_bpf::{
    Code, Context, Entry, Error, Field, Linker, Native, Object, Slot, Stack, Translated, compile,
    translated,
};

/// Compiles a fixture with clang and returns the object file.
pub fn build(fixture: &str) -> Vec<u8> {
    build_source(&fixtures().join(fixture))
}

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn build_source(source: &Path) -> Vec<u8> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("fixture-{}-{number}.o", std::process::id());
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let result = Command::new("clang-19")
        .args(["-target", "bpf", "-g", "-O2", "-mcpu=v4", "-Wall", "-Werror"])
        .arg("-I")
        .arg(fixtures())
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(&output)
        .output()
        .expect("clang-19 runs (install the package clang-19)");
    assert!(
        result.status.success(),
        "clang-19 on {}: {}",
        source.display(),
        String::from_utf8_lossy(&result.stderr)
    );
    let bytes = std::fs::read(&output).expect("clang wrote its output");
    std::fs::remove_file(&output).expect("the output can be removed");
    bytes
}

pub fn parse(fixture: &str) -> Object {
    Object::parse(&build(fixture)).expect("the fixture parses")
}

/// A kernel whose contents each test chooses.
#[derive(Default)]
pub struct Kernel {
    pub helpers: BTreeMap<u32, Entry>,
    pub kfuncs: BTreeMap<&'static str, Entry>,
    /// By structure and path joined by dots.
    pub fields: BTreeMap<(&'static str, &'static str), Field>,
    pub sizes: BTreeMap<&'static str, u32>,
    pub enumerators: BTreeMap<(&'static str, &'static str), u64>,
    pub kconfig: BTreeMap<&'static str, u64>,
    pub variables: BTreeMap<&'static str, usize>,
}

impl Linker for Kernel {
    fn lacks(&self, name: &str, _is_function: bool) -> bool {
        name.starts_with("not_there")
    }

    fn helper(&self, id: u32) -> Option<Native> {
        self.helpers.get(&id).map(|&entry| Native::called(entry, 5))
    }
    fn kfunc(&self, name: &str) -> Option<Native> {
        self.kfuncs.get(name).map(|&entry| Native::called(entry, 5))
    }
    fn field(&self, structure: &str, path: &[&str]) -> Option<Field> {
        let path = path.join(".");
        self.fields
            .iter()
            .find(|(key, _)| key.0 == structure && key.1 == path)
            .map(|(_, &field)| field)
    }
    fn type_size(&self, name: &str) -> Option<u32> {
        self.sizes.get(name).copied()
    }
    fn enumerator(&self, enumeration: &str, name: &str) -> Option<u64> {
        self.enumerators
            .iter()
            .find(|(key, _)| **key == (enumeration, name))
            .map(|(_, &value)| value)
    }
    fn kconfig(&self, name: &str) -> Option<u64> {
        self.kconfig.get(name).copied()
    }
    fn variable(&self, name: &str) -> Option<*const u8> {
        self.variables.get(name).map(|&address| address as *const u8)
    }
    fn runaway(&self) -> *const u8 {
        runaway as *const u8
    }
    fn unavailable(&self) -> *const u8 {
        unavailable as *const u8
    }
    fn stray(&self) -> *const u8 {
        unavailable as *const u8
    }
}

/// Reports of a run to the kernel; [`Context::kernel`] points to it.
#[derive(Debug, Default)]
pub struct Reports {
    pub runaways: Vec<u64>,
    pub unavailable: Vec<String>,
}

pub unsafe extern "C" fn runaway(
    context: *mut Context,
    place: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: `Run` sets the pointer.
    unsafe { (*(*context).kernel.cast::<Reports>()).runaways.push(place) };
    0
}

pub unsafe extern "C" fn unavailable(
    context: *mut Context,
    name: u64,
    length: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: the code passes a name and its length; `Run` sets the pointer.
    unsafe {
        let bytes = std::slice::from_raw_parts(name as *const u8, length as usize);
        let name = String::from_utf8(bytes.to_vec()).expect("names are UTF-8");
        (*(*context).kernel.cast::<Reports>()).unavailable.push(name);
    }
    0
}

/// One simulation: its own memory for sections and maps.
pub struct Run {
    pub memory: Vec<Vec<u64>>,
    slots: Vec<*mut u8>,
    sizes: Vec<u64>,
    _stack: Stack,
    pub context: Context,
    pub reports: Box<Reports>,
}

impl Run {
    pub fn new(object: &Object) -> Run {
        let mut memory: Vec<Vec<u64>> = Vec::new();
        for slot in object.slots() {
            let mut words = Vec::new();
            match slot {
                Slot::Map(_) => words.resize(8, 0),
                Slot::Section(index) => {
                    let section = &object.sections()[index];
                    words.resize((section.size as usize).div_ceil(8), 0);
                    for (at, &byte) in section.data.iter().enumerate() {
                        words[at / 8] |= u64::from(byte) << (at % 8 * 8);
                    }
                }
            }
            memory.push(words);
        }
        let slots = memory.iter_mut().map(|words| words.as_mut_ptr().cast()).collect();
        let sizes = memory.iter().map(|words| words.len() as u64 * 8).collect();
        let mut stack = Stack::new();
        Run {
            memory,
            slots,
            context: Context {
                kernel: std::ptr::null_mut(),
                instructions: 0,
                instruction_limit: 1_000_000,
                arena: std::ptr::null_mut(),
                arena_user: 0,
                null_page: &raw const fairground_bpf::NULL_PAGE,
                stack: stack.top(),
                slots: std::ptr::null(),
                slot_sizes: std::ptr::null(),
                cpu: 0,
                cpus: 1,
                spent: 0,
                call_cost: 0,
                null_accesses: 0,
                null_access_place: 0,
            },
            sizes,
            _stack: stack,
            reports: Box::default(),
        }
    }

    /// Calls a program with an array of arguments.
    pub fn call(&mut self, code: &Code, program: &str, arguments: &[u64]) -> u64 {
        let mut padded = [0; 16];
        padded[..arguments.len()].copy_from_slice(arguments);
        self.call_with(code, program, [padded.as_mut_ptr() as u64, 0, 0, 0, 0])
    }

    /// Calls a function with arguments in registers.
    pub fn call_with(&mut self, code: &Code, function: &str, r: [u64; 5]) -> u64 {
        let entry = code.entry(function).expect("the function is compiled");
        self.context.kernel = (&raw mut *self.reports).cast::<c_void>();
        self.context.slots = self.slots.as_ptr();
        self.context.slot_sizes = self.sizes.as_ptr();
        // SAFETY: the fixtures access only memory that they are given.
        unsafe { entry(&raw mut self.context, r[0], r[1], r[2], r[3], r[4]) }
    }

    /// Eight bytes of a global variable.
    pub fn variable(&self, object: &Object, name: &str) -> u64 {
        let maps = object.maps().len();
        for (index, section) in object.sections().iter().enumerate() {
            if let Some(variable) = section.variables.iter().find(|one| one.name == name) {
                assert_eq!(variable.offset % 8, 0, "a variable of 8 bytes");
                return self.memory[maps + index][variable.offset as usize / 8];
            }
        }
        panic!("no variable {name}");
    }
}

/// Compiles a fixture against a kernel.
pub fn compiled(fixture: &str, kernel: &Kernel) -> (Object, Code) {
    let object = parse(fixture);
    let code = compile_kept(&object, kernel).unwrap_or_else(|error| panic!("{fixture}: {error}"));
    (object, code)
}

/// Compiles an object as if another process had kept its translation.
pub fn compile_kept(object: &Object, kernel: &Kernel) -> Result<Code, Error> {
    let kept = translated(object, kernel, &[]).to_bytes();
    Translated::from_bytes(&kept).expect("these bytes were kept").load(object, kernel)
}

/// Runs a program made of instructions with the given first argument.
pub fn execute(code: &[assembler::Instruction], argument: u64) -> u64 {
    execute_in(&Kernel::default(), code, argument)
}

/// As [`execute`], with helpers.
pub fn execute_in(kernel: &Kernel, code: &[assembler::Instruction], argument: u64) -> u64 {
    let object = Object::parse(&assembler::assemble(code)).expect("the object parses");
    let code = compile(&object, kernel).expect("the object compiles");
    Run::new(&object).call_with(&code, "main", [argument, 0, 0, 0, 0])
}
