//! A BPF object file, taken apart: programs, maps, global variables,
//! `struct_ops` tables and the names that it needs from the kernel.

mod essence;
mod read;

use crate::btf::{Btf, TypeId};
use crate::btf_ext::BtfExt;
use crate::instruction::Instruction;
use crate::maps::Map;

/// A BPF object, as `clang -target bpf -g` writes it.
#[derive(Debug, Clone)]
pub struct Object {
    btf: Btf,
    ext: BtfExt,
    license: String,
    functions: Vec<Function>,
    programs: Vec<Program>,
    maps: Vec<Map>,
    sections: Vec<Section>,
    struct_ops: Vec<StructOps>,
    externs: Vec<Extern>,
    kconfig_size: u64,
}

/// A function that the kernel calls, in a section other than `.text`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its section, such as `struct_ops/enqueue`, `struct_ops.s/init` or
    /// `syscall`, without a leading `?`.
    pub section: String,
    /// Whether it is compiled. As in libbpf: programs that `struct_ops` tables
    /// refer to, if one of these tables is not optional; other programs, if
    /// their section does not start with `?`.
    pub autoload: bool,
    pub(crate) function: usize,
}

impl Program {
    /// Whether it belongs to tables of callbacks.
    pub fn is_callback(&self) -> bool {
        self.section.starts_with("struct_ops")
    }
}

/// A section of global variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its name: `.rodata*`, `.data*`, `.bss*` or `.addr_space.1` (variables
    /// in the arena).
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// The initial bytes in the file; the rest of the section (for `.bss`, all of it) starts as zeros.
    pub data: Vec<u8>,
    /// The variables, by offset.
    pub variables: Vec<Variable>,
    /// The BTF type of the section, if it has one: locks and kernel pointers
    /// among the variables are found with [`Btf::special_fields`].
    pub type_id: Option<TypeId>,
}

impl Section {
    /// The bytes that it begins with if no loader changes them.
    pub fn content(&self) -> Vec<u8> {
        let mut bytes = self.data.clone();
        bytes.resize(usize::try_from(self.size).unwrap_or(usize::MAX), 0);
        bytes
    }
}

/// A global variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Offset in the section in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
    /// Its BTF type.
    pub type_id: TypeId,
    /// Its content.
    pub kind: VariableKind,
    /// Whether it is `const volatile`: set before the program is loaded, and
    /// constant afterwards. In `.rodata` these are the tunables.
    pub tunable: bool,
}

impl Variable {
    /// The number that it has in these bytes of its section; `None` if it holds none, or lies outside of them.
    pub fn number(&self, section: &[u8]) -> Option<i128> {
        let signed = match self.kind {
            VariableKind::Integer { signed } | VariableKind::Enumeration { signed } => signed,
            VariableKind::Boolean => false,
            _ => return None,
        };
        let start = usize::try_from(self.offset).ok()?;
        let size = usize::try_from(self.size).ok()?;
        number(section.get(start..start.checked_add(size)?)?, signed)
    }
}

/// The number that these bytes hold, in the byte order of BPF objects; `None` if they are more than 16, or none that could have a sign.
pub fn number(bytes: &[u8], signed: bool) -> Option<i128> {
    let negative = signed && bytes.last()? & 0x80 != 0;
    let mut wide = if negative { [0xff; 16] } else { [0; 16] };
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i128::from_le_bytes(wide))
}

/// The content of a global variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum VariableKind {
    /// An integer.
    Integer {
        /// Whether it is signed.
        signed: bool,
    },
    /// A truth value.
    Boolean,
    /// A value of an enumeration.
    Enumeration {
        /// Whether its values are signed.
        signed: bool,
    },
    /// A floating-point number.
    Float,
    /// A pointer.
    Pointer,
    /// An array.
    Array,
    /// A structure or union.
    Structure,
    /// Anything else.
    Other,
}

/// The structures that define a scheduler, for CPUs with the kernel's numbers or with topological ids.
pub const SCHEDULER_TABLES: [&str; 2] = ["sched_ext_ops", "sched_ext_ops_cid"];

/// A table of callbacks: a variable in `.struct_ops` or `.struct_ops.link`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructOps {
    /// Name of the variable.
    pub name: String,
    /// Name of its structure, without `___flavor`, such as `sched_ext_ops`.
    pub type_name: String,
    /// Whether it is attached through a link (`.struct_ops.link`).
    pub link: bool,
    /// Whether the section starts with `?`: not created unless asked for.
    pub optional: bool,
    /// All members in the order of declaration.
    pub members: Vec<StructOpsMember>,
}

impl StructOps {
    /// Whether one of its callbacks is this program.
    fn refers_to(&self, program: &str) -> bool {
        let mut members = self.members.iter();
        members.any(|one| matches!(&one.value, StructOpsValue::Program(name) if name == program))
    }
}

/// A member of a table of callbacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructOpsMember {
    /// Its name.
    pub name: String,
    /// Its BTF type.
    pub type_id: TypeId,
    /// Offset in the structure in bytes.
    pub offset: u64,
    /// Its value.
    pub value: StructOpsValue,
}

/// The value of a member of a table of callbacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StructOpsValue {
    /// A program, by its name.
    Program(String),
    /// Plain bytes, as many as the member has.
    Data(Vec<u8>),
}

impl StructOpsValue {
    /// Whether it is another value than the 0 that a member has unless a source says otherwise.
    pub fn is_set(&self) -> bool {
        match self {
            StructOpsValue::Program(_) => true,
            StructOpsValue::Data(bytes) => bytes.iter().any(|byte| *byte != 0),
        }
    }

    /// Its size in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            StructOpsValue::Program(_) => 8,
            StructOpsValue::Data(bytes) => bytes.len(),
        }
    }

    /// The text that it holds, up to its zero byte; empty for a program.
    pub fn text(&self) -> String {
        let StructOpsValue::Data(bytes) = self else { return String::new() };
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }
}

/// Something that the object expects of its kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extern {
    /// Its name as declared, with `___flavor` if there is one.
    pub name: String,
    /// Whether the object also works without it.
    pub weak: bool,
    /// The thing that it stands for.
    pub kind: ExternKind,
}

/// The thing that an external name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExternKind {
    /// A kernel function (kfunc).
    Function {
        /// Its BTF type ([`TypeKind::Function`]).
        type_id: TypeId,
    },
    /// A kernel variable.
    Variable {
        /// Its BTF type, 0 (`void`) if it has none.
        type_id: TypeId,
    },
    /// A kernel configuration value, held in a constant of the object.
    Configuration {
        /// Its BTF type.
        type_id: TypeId,
        /// Offset among the configuration values in bytes.
        offset: u64,
        /// Size in bytes.
        size: u64,
    },
}

impl Extern {
    /// The name by which the kernel knows it: without the last `___flavor`.
    pub fn essential_name(&self) -> &str {
        without_flavor(&self.name)
    }
}

/// The target of the pointer in a slot of [`crate::Context::slots`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// A map, as index into [`Object::maps`].
    Map(usize),
    /// A section of global variables, as index into [`Object::sections`]. The slot of `.addr_space.1` holds the address in its user form:
    /// `arena_user` plus the place of the variables in the arena.
    Section(usize),
}

/// Code of a program or subprogram.
#[derive(Debug, Clone)]
pub(crate) struct Function {
    pub name: String,
    /// Name of the section in the file.
    pub section: String,
    /// First instruction, counted from the start of the section.
    pub start: usize,
    pub instructions: Vec<Instruction>,
    /// References of instructions, by index into `instructions`, sorted.
    pub references: Vec<(usize, Reference)>,
}

/// The thing to which the operand of an instruction refers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference {
    /// A map or section, with an offset into it.
    Slot { slot: usize, offset: u64 },
    /// A function of this object, by index.
    Function(usize),
    /// An external name, by index, with an offset for configuration values.
    Extern { index: usize, offset: u64 },
}

impl Function {
    pub(crate) fn reference(&self, instruction: usize) -> Option<Reference> {
        let index =
            self.references.binary_search_by_key(&instruction, |reference| reference.0).ok()?;
        Some(self.references[index].1)
    }
}

/// The name without its last `___flavor`, if it has one: three underscores
/// with something other than an underscore before and after.
pub(crate) fn without_flavor(name: &str) -> &str {
    let bytes = name.as_bytes();
    let is_separator =
        |at: usize| bytes[at] != b'_' && &bytes[at + 1..at + 4] == b"___" && bytes[at + 4] != b'_';
    let last = bytes.len().saturating_sub(4);
    match (0..last).rev().find(|&at| is_separator(at)) {
        Some(at) => name.get(..=at).unwrap_or(name),
        None => name,
    }
}

impl Object {
    /// The programs, in the order of the symbol table.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// Chooses whether a program is compiled; returns whether it exists.
    pub fn set_autoload(&mut self, program: &str, autoload: bool) -> bool {
        let program = self.programs.iter_mut().find(|one| one.name == program);
        let found = program.is_some();
        if let Some(program) = program {
            program.autoload = autoload;
        }
        found
    }

    /// The maps, in the order of definition.
    pub fn maps(&self) -> &[Map] {
        &self.maps
    }

    /// The sections of global variables.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The tables of callbacks.
    pub fn struct_ops(&self) -> &[StructOps] {
        &self.struct_ops
    }

    /// The tables of callbacks that define a scheduler.
    pub fn schedulers(&self) -> impl Iterator<Item = &StructOps> {
        self.struct_ops.iter().filter(|table| SCHEDULER_TABLES.contains(&table.type_name.as_str()))
    }

    /// The table of callbacks of the one scheduler that it has.
    pub fn scheduler(&self) -> Result<&StructOps, String> {
        let tables: Vec<&StructOps> = self.schedulers().collect();
        match tables[..] {
            [table] => Ok(table),
            [] => Err(match self.struct_ops.first() {
                Some(other) => format!(
                    "the object has a {} table, but neither {}",
                    other.type_name,
                    SCHEDULER_TABLES.join(" nor ")
                ),
                None => "the object has no sched_ext_ops table; a scheduler defines one in section .struct_ops.link".to_owned(),
            }),
            _ => {
                let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
                Err(format!(
                    "the object has several tables of callbacks: {}; say which one behind a #, such as FILE#{}",
                    names.join(", "),
                    names[0]
                ))
            }
        }
    }

    /// Keeps only this one of the tables that define a scheduler: which one is attached is up to the loader. The others' programs are not loaded.
    pub fn choose(&mut self, table: &str) -> Result<(), Vec<String>> {
        let names: Vec<String> = self.schedulers().map(|one| one.name.clone()).collect();
        if !names.iter().any(|name| name == table) {
            return Err(names);
        }
        self.change_tables(|tables| {
            tables.retain(|one| {
                one.name == table || !SCHEDULER_TABLES.contains(&one.type_name.as_str())
            });
        });
        Ok(())
    }

    /// Takes `table` in the place of the one of its name.
    pub fn replace(&mut self, table: &StructOps) {
        self.change_tables(|tables| {
            let same = tables.iter_mut().filter(|one| one.name == table.name);
            same.for_each(|one| one.clone_from(table));
        });
    }

    /// As in libbpf, a program that tables referred to and that none refers to any more is not loaded.
    fn change_tables(&mut self, change: impl FnOnce(&mut Vec<StructOps>)) {
        let before = self.struct_ops.clone();
        change(&mut self.struct_ops);
        for program in &mut self.programs {
            let refer =
                |tables: &[StructOps]| tables.iter().any(|one| one.refers_to(&program.name));
            if refer(&before) && !refer(&self.struct_ops) {
                program.autoload = false;
            }
        }
    }

    /// The name that its scheduler gives itself (`ops.name`); empty if it has none.
    pub fn scheduler_name(&self) -> String {
        let members = self.schedulers().flat_map(|table| &table.members);
        let mut names = members.filter(|member| member.name == "name");
        names.next().map_or_else(String::new, |member| member.value.text())
    }

    /// The names that the object expects of its kernel.
    pub fn externs(&self) -> &[Extern] {
        &self.externs
    }

    /// The licence that the object declares, empty if it declares none.
    pub fn license(&self) -> &str {
        &self.license
    }

    /// The types of the object.
    pub fn btf(&self) -> &Btf {
        &self.btf
    }

    /// The required target of each pointer of [`crate::Context::slots`]: the maps
    /// first, then the sections.
    pub fn slots(&self) -> Vec<Slot> {
        let maps = (0..self.maps.len()).map(Slot::Map);
        maps.chain((0..self.sections.len()).map(Slot::Section)).collect()
    }

    pub(crate) fn functions(&self) -> &[Function] {
        &self.functions
    }

    pub(crate) fn ext(&self) -> &BtfExt {
        &self.ext
    }

    /// Size of all configuration values together in bytes.
    pub(crate) fn kconfig_size(&self) -> u64 {
        self.kconfig_size
    }
}
