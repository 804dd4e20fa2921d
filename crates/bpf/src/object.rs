//! A BPF object file, taken apart: programs, maps, global variables,
//! `struct_ops` tables and what it needs from the kernel.

use crate::btf::{Btf, Kind, Linkage, TypeId};
use crate::btf_ext::BtfExt;
use crate::bytes::string_at;
use crate::elf::{Elf, ElfKind, ElfSection, ElfSymbol};
use crate::error::{Error, malformed, unsupported};
use crate::instruction::{self, Instruction};
use crate::maps::{InitialValue, Map};

/// A BPF object, such as `clang -target bpf -g` makes it.
#[derive(Debug)]
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

/// A function that the kernel calls: one of a section other than `.text`.
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

/// A section of global variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its name: `.rodata*`, `.data*`, `.bss*` or `.addr_space.1` (variables
    /// in the arena).
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// The initial bytes that the file holds; the rest of the section, which
    /// for `.bss` is all of it, starts as zeros.
    pub data: Vec<u8>,
    /// The variables, by offset.
    pub variables: Vec<Variable>,
    /// The BTF type of the section, if it has one: locks and kernel pointers
    /// among the variables are found with [`Btf::special_fields`].
    pub type_id: Option<TypeId>,
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
    /// What it holds.
    pub kind: VariableKind,
    /// Whether it is `const volatile`: set before the program is loaded, and
    /// constant afterwards. In `.rodata` these are the tunables.
    pub tunable: bool,
}

/// What a global variable holds.
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

/// A member of a table of callbacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructOpsMember {
    /// Its name.
    pub name: String,
    /// Its BTF type.
    pub type_id: TypeId,
    /// Offset in the structure in bytes.
    pub offset: u64,
    /// What it holds.
    pub value: StructOpsValue,
}

/// What a member of a table of callbacks holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StructOpsValue {
    /// A program, by its name.
    Program(String),
    /// Plain bytes, as many as the member is long.
    Data(Vec<u8>),
}

/// Something that the object expects its kernel to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extern {
    /// Its name as declared, with `___flavor` if there is one.
    pub name: String,
    /// Whether the object also works without it.
    pub weak: bool,
    /// What it is.
    pub kind: ExternKind,
}

/// What an external name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExternKind {
    /// A kernel function (kfunc).
    Function {
        /// Its BTF type ([`Kind::Function`]).
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
    /// The name the kernel knows it by: without the last `___flavor`.
    #[must_use]
    pub fn essential_name(&self) -> &str {
        without_flavor(&self.name)
    }
}

/// What the pointer in a slot of [`crate::Context::slots`] points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// A map, as index into [`Object::maps`].
    Map(usize),
    /// A section of global variables, as index into [`Object::sections`].
    /// The slot of `.addr_space.1` holds the address in its user form, that
    /// is `arena_user` plus the place of the variables in the arena.
    Section(usize),
}

/// Code of a program or subprogram.
#[derive(Debug)]
pub(crate) struct Function {
    pub name: String,
    /// Name of the section in the file.
    pub section: String,
    /// First instruction, counted from the start of the section.
    pub start: usize,
    pub instructions: Vec<Instruction>,
    /// What instructions refer to, by index into `instructions`, sorted.
    pub references: Vec<(usize, Reference)>,
}

/// What the operand of an instruction refers to.
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
        let index = self
            .references
            .binary_search_by_key(&instruction, |reference| reference.0)
            .ok()?;
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
    /// Reads an object file.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`] if the file is no well-formed BPF object with
    /// BTF, [`Error::Unsupported`] if it uses what libbpf no longer takes,
    /// such as maps without BTF.
    pub fn parse(bytes: &[u8]) -> Result<Object, Error> {
        let elf = Elf::parse(bytes)?;
        let section = elf
            .section(".BTF")
            .ok_or_else(|| malformed("ELF file", "no section .BTF; compile with clang -g"))?;
        let btf = Btf::parse(&section.data)?;
        let ext = match elf.section(".BTF.ext") {
            Some(section) => BtfExt::parse(&section.data, &btf)?,
            None => BtfExt::default(),
        };
        let license = elf
            .section("license")
            .and_then(|section| string_at(&section.data, 0))
            .unwrap_or_default()
            .to_owned();
        let mut object = Object {
            btf,
            ext,
            license,
            functions: Vec::new(),
            programs: Vec::new(),
            maps: Vec::new(),
            sections: Vec::new(),
            struct_ops: Vec::new(),
            externs: Vec::new(),
            kconfig_size: 0,
        };
        let mut layout = Layout::new(&elf);
        object.read_maps(&elf, &mut layout)?;
        object.read_sections(&elf, &mut layout);
        object.read_externs(&elf, &mut layout)?;
        object.read_functions(&elf, &mut layout)?;
        object.resolve_references(&elf, &layout)?;
        object.read_initial_values(&elf, &layout)?;
        object.read_struct_ops(&elf, &layout)?;
        Ok(object)
    }

    /// The programs, in the order of the symbol table.
    #[must_use]
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
    #[must_use]
    pub fn maps(&self) -> &[Map] {
        &self.maps
    }

    /// The sections of global variables.
    #[must_use]
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The tables of callbacks.
    #[must_use]
    pub fn struct_ops(&self) -> &[StructOps] {
        &self.struct_ops
    }

    /// What the object expects its kernel to have.
    #[must_use]
    pub fn externs(&self) -> &[Extern] {
        &self.externs
    }

    /// The licence that the object declares, empty if it declares none.
    #[must_use]
    pub fn license(&self) -> &str {
        &self.license
    }

    /// The types of the object.
    #[must_use]
    pub fn btf(&self) -> &Btf {
        &self.btf
    }

    /// What each pointer of [`crate::Context::slots`] must point to: the maps
    /// first, then the sections.
    #[must_use]
    pub fn slots(&self) -> Vec<Slot> {
        let maps = (0..self.maps.len()).map(Slot::Map);
        maps.chain((0..self.sections.len()).map(Slot::Section))
            .collect()
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

    fn read_maps(&mut self, elf: &Elf, layout: &mut Layout) -> Result<(), Error> {
        if elf.section("maps").is_some() {
            return Err(unsupported(
                "section maps",
                "maps without BTF; define them in SEC(\".maps\")",
            ));
        }
        let Some(index) = elf.sections.iter().position(|one| one.name == ".maps") else {
            return Ok(());
        };
        layout.maps_section = Some(index);
        for (name, type_id, offset) in self.section_variables(elf, index) {
            self.maps
                .push(Map::parse(&self.btf, &name, type_id, offset, false)?);
        }
        Ok(())
    }

    /// Variables of a section by BTF, with offsets from the symbol table:
    /// name, type of the variable's contents, offset. Sorted by offset.
    fn section_variables(&self, elf: &Elf, index: usize) -> Vec<(String, TypeId, u64)> {
        let name = &elf.sections[index].name;
        let mut variables = Vec::new();
        for one in self.btf.types() {
            let Kind::DataSection {
                variables: entries, ..
            } = &one.kind
            else {
                continue;
            };
            if one.name != *name {
                continue;
            }
            for entry in entries {
                let variable = self.btf.get(entry.type_id);
                let Kind::Variable { type_id, linkage } = variable.kind else {
                    continue;
                };
                let symbol = elf
                    .symbols
                    .iter()
                    .find(|symbol| symbol.section == Some(index) && symbol.name == variable.name);
                // The compiler fills in the offsets of static variables only.
                let offset = match symbol {
                    Some(symbol) if linkage != Linkage::Static => symbol.value,
                    _ => u64::from(entry.offset),
                };
                variables.push((variable.name.clone(), type_id, offset));
            }
        }
        variables.sort_by_key(|variable| variable.2);
        variables
    }

    fn read_sections(&mut self, elf: &Elf, layout: &mut Layout) {
        for (index, section) in elf.sections.iter().enumerate() {
            if section.kind != ElfKind::Data || !is_variable_section(&section.name) {
                continue;
            }
            let constant = section.name.starts_with(".rodata");
            let variables = self
                .section_variables(elf, index)
                .into_iter()
                .map(|(name, type_id, offset)| Variable {
                    name,
                    offset,
                    size: self.btf.size_of(type_id).unwrap_or(0),
                    type_id,
                    kind: variable_kind(self.btf.resolved(type_id)),
                    tunable: constant && is_const_volatile(&self.btf, type_id),
                })
                .collect();
            layout.slot_of_section[index] = Some(self.maps.len() + self.sections.len());
            self.sections.push(Section {
                name: section.name.clone(),
                size: section.size,
                data: section.data.clone(),
                variables,
                type_id: self.data_section(&section.name),
            });
        }
    }

    fn data_section(&self, name: &str) -> Option<TypeId> {
        let index = self
            .btf
            .types()
            .iter()
            .position(|one| one.name == name && matches!(one.kind, Kind::DataSection { .. }))?;
        u32::try_from(index).ok()
    }

    fn read_externs(&mut self, elf: &Elf, layout: &mut Layout) -> Result<(), Error> {
        for (index, symbol) in elf.symbols.iter().enumerate() {
            if symbol.section.is_some() || symbol.name.is_empty() || !symbol.global {
                continue;
            }
            let kind = self.extern_kind(&symbol.name)?.ok_or_else(|| {
                malformed(
                    format!("external symbol {}", symbol.name),
                    "declared neither __ksym nor __kconfig, and not defined in the object",
                )
            })?;
            layout.extern_of_symbol[index] = Some(self.externs.len());
            self.externs.push(Extern {
                name: symbol.name.clone(),
                weak: symbol.weak,
                kind,
            });
        }
        Ok(())
    }

    fn extern_kind(&mut self, name: &str) -> Result<Option<ExternKind>, Error> {
        for (section_name, is_configuration) in [(".ksyms", false), (".kconfig", true)] {
            let Some(section) = self.data_section(section_name) else {
                continue;
            };
            let Kind::DataSection { variables, .. } = &self.btf.get(section).kind else {
                continue;
            };
            let Some(entry) = variables
                .iter()
                .find(|entry| self.btf.get(entry.type_id).name == name)
            else {
                continue;
            };
            let type_id = match self.btf.get(entry.type_id).kind {
                Kind::Function { .. } if !is_configuration => {
                    return Ok(Some(ExternKind::Function {
                        type_id: entry.type_id,
                    }));
                }
                Kind::Variable { type_id, .. } => type_id,
                _ => continue,
            };
            if !is_configuration {
                return Ok(Some(ExternKind::Variable { type_id }));
            }
            let size = self.btf.size_of(type_id).unwrap_or(0);
            if !matches!(size, 1..=4096) {
                return Err(unsupported(
                    format!("configuration value {name}"),
                    format!("{size} bytes long"),
                ));
            }
            let offset = self.kconfig_size.next_multiple_of(8);
            self.kconfig_size = offset + size;
            return Ok(Some(ExternKind::Configuration {
                type_id,
                offset,
                size,
            }));
        }
        Ok(None)
    }

    fn read_functions(&mut self, elf: &Elf, layout: &mut Layout) -> Result<(), Error> {
        for symbol in &elf.symbols {
            let Some(section_index) = symbol.section else {
                continue;
            };
            let section = &elf.sections[section_index];
            if !symbol.function || section.kind != ElfKind::Code {
                continue;
            }
            let instructions = decode(section, symbol)?;
            let index = self.functions.len();
            let start = symbol.value as usize / instruction::SIZE;
            layout.functions.push((section_index, start, index));
            self.functions.push(Function {
                name: symbol.name.clone(),
                section: section.name.clone(),
                start,
                instructions,
                references: Vec::new(),
            });
            if section.name != ".text" && symbol.global {
                let optional = section.name.starts_with('?');
                self.programs.push(Program {
                    name: symbol.name.clone(),
                    section: section.name.trim_start_matches('?').to_owned(),
                    autoload: !optional,
                    function: index,
                });
            }
        }
        layout.functions.sort_unstable();
        Ok(())
    }

    fn resolve_references(&mut self, elf: &Elf, layout: &Layout) -> Result<(), Error> {
        for &(section_index, start, index) in &layout.functions {
            let mut references = Vec::new();
            let mut position = 0;
            let function = &self.functions[index];
            while position < function.instructions.len() {
                let one = function.instructions[position];
                let reference =
                    self.reference(elf, layout, section_index, start + position, one)?;
                if let Some(reference) = reference {
                    references.push((position, reference));
                }
                position += if one.is_wide() { 2 } else { 1 };
            }
            self.functions[index].references = references;
        }
        Ok(())
    }

    /// What the instruction at `position` of a section refers to.
    fn reference(
        &self,
        elf: &Elf,
        layout: &Layout,
        section_index: usize,
        position: usize,
        one: Instruction,
    ) -> Result<Option<Reference>, Error> {
        let section = &elf.sections[section_index];
        let bad = |problem: &str| {
            malformed(
                format!("section {}, instruction {position}", section.name),
                problem,
            )
        };
        let relocation = section.relocation_at((position * instruction::SIZE) as u64);
        if one.is_call() && one.source != 0 && relocation.is_none() {
            // A call within the section, already resolved by the compiler.
            let target = position as i64 + 1 + i64::from(one.immediate);
            return layout
                .function_at(section_index, target)
                .map(|index| Some(Reference::Function(index)))
                .ok_or_else(|| bad("calls a place where no function starts"));
        }
        let Some(relocation) = relocation else {
            return Ok(None);
        };
        let symbol = &elf.symbols[relocation.symbol];
        if !one.is_call() && !one.is_wide() {
            return Err(bad("relocation of an instruction that has no address"));
        }
        let Some(target_section) = symbol.section else {
            let index = layout.extern_of_symbol[relocation.symbol]
                .ok_or_else(|| bad("relocation against an undefined symbol"))?;
            let offset = u64::from(one.immediate.cast_unsigned());
            return Ok(Some(Reference::Extern { index, offset }));
        };
        if elf.sections[target_section].kind == ElfKind::Code {
            // For calls the immediate counts instructions from the next one,
            // for addresses it counts bytes; both from the symbol.
            let target = if one.is_call() {
                (symbol.value / instruction::SIZE as u64) as i64 + i64::from(one.immediate) + 1
            } else {
                (symbol.value as i64 + i64::from(one.immediate)) / instruction::SIZE as i64
            };
            return layout
                .function_at(target_section, target)
                .map(|index| Some(Reference::Function(index)))
                .ok_or_else(|| {
                    bad(&format!(
                        "refers to {} of section {}, where no function starts",
                        symbol.name, elf.sections[target_section].name
                    ))
                });
        }
        if one.is_call() {
            return Err(bad("calls something that is no function"));
        }
        let offset = symbol
            .value
            .wrapping_add(i64::from(one.immediate).cast_unsigned());
        if layout.maps_section == Some(target_section) {
            let slot = self
                .map_at(offset)
                .ok_or_else(|| bad("refers to a place in .maps where no map starts"))?;
            return Ok(Some(Reference::Slot { slot, offset: 0 }));
        }
        let slot = layout.slot_of_section[target_section].ok_or_else(|| {
            unsupported(
                format!("section {}, instruction {position}", section.name),
                format!(
                    "refers to {} of section {}, which holds no variables",
                    symbol.name, elf.sections[target_section].name
                ),
            )
        })?;
        Ok(Some(Reference::Slot { slot, offset }))
    }

    fn map_at(&self, offset: u64) -> Option<usize> {
        self.maps.iter().position(|map| map.offset == offset)
    }

    fn read_initial_values(&mut self, elf: &Elf, layout: &Layout) -> Result<(), Error> {
        let Some(maps_section) = layout.maps_section else {
            return Ok(());
        };
        for relocation in &elf.sections[maps_section].relocations {
            let bad = |problem: &str| {
                malformed(
                    format!("section .maps, offset {:#x}", relocation.offset),
                    problem,
                )
            };
            // The map whose values begin last before the place.
            let (map, start) = self
                .maps
                .iter()
                .enumerate()
                .filter_map(|(index, map)| Some((index, map.values_offset?)))
                .filter(|&(_, start)| start <= relocation.offset)
                .max_by_key(|&(_, start)| start)
                .ok_or_else(|| bad("an initial value outside of a map of maps"))?;
            let entry = u32::try_from((relocation.offset - start) / 8)
                .map_err(|_| bad("an initial value with too large an index"))?;
            let symbol = &elf.symbols[relocation.symbol];
            let value = if symbol.section == Some(maps_section) {
                let inner = self
                    .map_at(symbol.value)
                    .ok_or_else(|| bad("an initial value that is no map"))?;
                InitialValue::Map(inner)
            } else {
                let program = self
                    .program_at(layout, symbol, 0)
                    .ok_or_else(|| bad("an initial value that is neither map nor program"))?;
                InitialValue::Program(program.to_owned())
            };
            self.maps[map].initial.push((entry, value));
        }
        Ok(())
    }

    fn program_at(&self, layout: &Layout, symbol: &ElfSymbol, addend: u64) -> Option<&str> {
        let offset = symbol.value.checked_add(addend)? / instruction::SIZE as u64;
        let function = layout.function_at(symbol.section?, i64::try_from(offset).ok()?)?;
        let program = self.programs.iter().find(|one| one.function == function)?;
        Some(&program.name)
    }

    fn read_struct_ops(&mut self, elf: &Elf, layout: &Layout) -> Result<(), Error> {
        for (index, section) in elf.sections.iter().enumerate() {
            let optional = section.name.starts_with('?');
            let link = match section.name.trim_start_matches('?') {
                ".struct_ops" => false,
                ".struct_ops.link" => true,
                _ => continue,
            };
            for (name, type_id, offset) in self.section_variables(elf, index) {
                let members =
                    self.struct_ops_members(elf, layout, section, &name, type_id, offset)?;
                let structure = self.btf.get(self.btf.resolve(type_id));
                self.struct_ops.push(StructOps {
                    type_name: without_flavor(&structure.name).to_owned(),
                    name,
                    link,
                    optional,
                    members,
                });
            }
        }
        self.choose_struct_ops_programs();
        Ok(())
    }

    /// As in libbpf, a program that tables refer to is loaded if one of these
    /// tables is created without being asked for.
    fn choose_struct_ops_programs(&mut self) {
        for program in &mut self.programs {
            let value = StructOpsValue::Program(program.name.clone());
            let refers = |table: &&StructOps| table.members.iter().any(|one| one.value == value);
            let mut tables = self.struct_ops.iter().filter(refers).peekable();
            if tables.peek().is_some() {
                program.autoload = tables.any(|table| !table.optional);
            }
        }
    }

    fn struct_ops_members(
        &self,
        elf: &Elf,
        layout: &Layout,
        section: &ElfSection,
        name: &str,
        type_id: TypeId,
        offset: u64,
    ) -> Result<Vec<StructOpsMember>, Error> {
        let place = format!("section {}, variable {name}", section.name);
        let Kind::Structure { members, .. } = self.btf.resolved(type_id) else {
            return Err(malformed(place, "not a structure"));
        };
        let mut values = Vec::new();
        for member in members {
            let bad =
                |problem: &str| malformed(format!("{place}, member {}", member.name), problem);
            let size = self.btf.size_of(member.type_id).unwrap_or(0);
            let member_offset = u64::from(member.bit_offset / 8);
            let start = offset
                .checked_add(member_offset)
                .and_then(|start| usize::try_from(start).ok());
            let bytes = start
                .and_then(|start| {
                    let end = start.checked_add(usize::try_from(size).ok()?)?;
                    section.data.get(start..end)
                })
                .ok_or_else(|| bad("lies outside the section"))?;
            let value = match section.relocation_at(offset + member_offset) {
                None => StructOpsValue::Data(bytes.to_vec()),
                Some(relocation) => {
                    let addend = bytes
                        .try_into()
                        .map(u64::from_le_bytes)
                        .map_err(|_| bad("a relocation of something that is no pointer"))?;
                    let symbol = &elf.symbols[relocation.symbol];
                    let program = self
                        .program_at(layout, symbol, addend)
                        .ok_or_else(|| bad("points to something that is no program"))?;
                    StructOpsValue::Program(program.to_owned())
                }
            };
            values.push(StructOpsMember {
                name: member.name.clone(),
                type_id: member.type_id,
                offset: member_offset,
                value,
            });
        }
        Ok(values)
    }
}

/// Where the parts of the object are in the file.
struct Layout {
    maps_section: Option<usize>,
    slot_of_section: Vec<Option<usize>>,
    extern_of_symbol: Vec<Option<usize>>,
    /// Section, first instruction, index of the function; sorted.
    functions: Vec<(usize, usize, usize)>,
}

impl Layout {
    fn new(elf: &Elf) -> Layout {
        Layout {
            maps_section: None,
            slot_of_section: vec![None; elf.sections.len()],
            extern_of_symbol: vec![None; elf.symbols.len()],
            functions: Vec::new(),
        }
    }

    /// The function that starts at that instruction of a section.
    fn function_at(&self, section: usize, instruction: i64) -> Option<usize> {
        let key = (section, usize::try_from(instruction).ok()?);
        let index = self
            .functions
            .binary_search_by_key(&key, |&(section, start, _)| (section, start))
            .ok()?;
        Some(self.functions[index].2)
    }
}

fn is_variable_section(name: &str) -> bool {
    [".rodata", ".data", ".bss", ".addr_space.1"]
        .iter()
        .any(|prefix| {
            name.strip_prefix(prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
}

fn variable_kind(kind: &Kind) -> VariableKind {
    match *kind {
        Kind::Integer { boolean: true, .. } => VariableKind::Boolean,
        Kind::Integer { signed, .. } => VariableKind::Integer { signed },
        Kind::Enumeration { signed, .. } => VariableKind::Enumeration { signed },
        Kind::Float { .. } => VariableKind::Float,
        Kind::Pointer(_) => VariableKind::Pointer,
        Kind::Array { .. } => VariableKind::Array,
        Kind::Structure { .. } | Kind::Union { .. } => VariableKind::Structure,
        _ => VariableKind::Other,
    }
}

/// Whether both qualifiers are on the type itself or on its elements.
fn is_const_volatile(btf: &Btf, type_id: TypeId) -> bool {
    let (mut constant, mut volatile) = (false, false);
    let mut id = type_id;
    // No type has more layers than this.
    for _ in 0..64 {
        id = match btf.get(id).kind {
            Kind::Const(target) => {
                constant = true;
                target
            }
            Kind::Volatile(target) => {
                volatile = true;
                target
            }
            Kind::Typedef(target) | Kind::Restrict(target) | Kind::TypeTag(target) => target,
            Kind::Array { element, .. } => element,
            _ => break,
        };
    }
    constant && volatile
}

/// The instructions of a function, with register numbers and 16-byte loads
/// checked.
fn decode(section: &ElfSection, symbol: &ElfSymbol) -> Result<Vec<Instruction>, Error> {
    let bad = |problem: String| {
        malformed(
            format!("section {}, function {}", section.name, symbol.name),
            problem,
        )
    };
    let bytes = (|| {
        let start = usize::try_from(symbol.value).ok()?;
        let end = start.checked_add(usize::try_from(symbol.size).ok()?)?;
        section.data.get(start..end)
    })()
    .ok_or_else(|| bad("lies outside its section".to_owned()))?;
    if bytes.is_empty()
        || !bytes.len().is_multiple_of(instruction::SIZE)
        || !symbol.value.is_multiple_of(instruction::SIZE as u64)
    {
        return Err(bad(format!(
            "{} bytes at {:#x} are no whole number of instructions",
            bytes.len(),
            symbol.value
        )));
    }
    let mut instructions = Vec::with_capacity(bytes.len() / instruction::SIZE);
    for encoded in bytes.chunks_exact(instruction::SIZE) {
        let mut eight = [0; instruction::SIZE];
        eight.copy_from_slice(encoded);
        instructions.push(Instruction::decode(eight));
    }
    Ok(instructions)
}
