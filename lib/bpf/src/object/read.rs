//! Reads an object from its file.

use super::{
    Extern, ExternKind, Function, Object, Program, Reference, Section, StructOps, StructOpsMember,
    StructOpsValue, Variable, VariableKind, without_flavor,
};
use crate::btf::{Btf, TypeId, TypeKind};
use crate::btf_ext::BtfExt;
use crate::bytes::string_at;
use crate::elf::{Elf, ElfKind, ElfSection, ElfSymbol};
use crate::error::{Error, malformed, unsupported};
use crate::instruction::{self, Instruction};
use crate::maps::{InitialValue, Map};

impl Object {
    /// Reads an object file.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`] if the file is not a well-formed BPF object with BTF, [`Error::Unsupported`] if it uses features that libbpf no longer
    /// accepts, such as maps without BTF.
    pub fn parse(bytes: &[u8]) -> Result<Object, Error> {
        let elf = Elf::parse(bytes)?;
        let section = elf.section(".BTF").ok_or_else(|| {
            malformed(
                "ELF file",
                "no section .BTF: its source declares nothing, or was compiled without clang -g",
            )
        })?;
        let mut btf = Btf::parse(&section.data)?;
        btf.place_variables(|section, variable| elf.address(section, variable));
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
        for (name, type_id, offset) in section_variables(&self.btf, &elf.sections[index].name) {
            self.maps.push(Map::parse(&self.btf, &name, type_id, offset, false)?);
        }
        Ok(())
    }

    fn read_sections(&mut self, elf: &Elf, layout: &mut Layout) {
        for (index, section) in elf.sections.iter().enumerate() {
            if section.kind != ElfKind::Data || !is_variable_section(&section.name) {
                continue;
            }
            layout.slot_of_section[index] = Some(self.maps.len() + self.sections.len());
            self.sections.push(Section {
                name: section.name.clone(),
                size: section.size,
                data: section.data.clone(),
                variables: Variable::all_in(&section.name, &self.btf),
                type_id: self.data_section(&section.name),
            });
        }
    }

    fn data_section(&self, name: &str) -> Option<TypeId> {
        let index =
            self.btf.types().iter().position(|one| {
                one.name == name && matches!(one.kind, TypeKind::DataSection { .. })
            })?;
        u32::try_from(index).ok()
    }

    fn read_externs(&mut self, elf: &Elf, layout: &mut Layout) -> Result<(), Error> {
        for (index, symbol) in elf.symbols.iter().enumerate() {
            if !symbol.undefined || symbol.name.is_empty() || !symbol.global {
                continue;
            }
            let kind = self.extern_kind(&symbol.name)?.ok_or_else(|| {
                malformed(
                    format!("external symbol {}", symbol.name),
                    "declared neither __ksym nor __kconfig, and defined nowhere; join the source that defines it (-s one.bpf.c+other.bpf.c)",
                )
            })?;
            layout.extern_of_symbol[index] = Some(self.externs.len());
            self.externs.push(Extern { name: symbol.name.clone(), weak: symbol.weak, kind });
        }
        Ok(())
    }

    fn extern_kind(&mut self, name: &str) -> Result<Option<ExternKind>, Error> {
        for (section_name, is_configuration) in [(".ksyms", false), (".kconfig", true)] {
            let Some(section) = self.data_section(section_name) else { continue };
            let TypeKind::DataSection { variables, .. } = &self.btf.get(section).kind else {
                continue;
            };
            let Some(entry) =
                variables.iter().find(|entry| self.btf.get(entry.type_id).name == name)
            else {
                continue;
            };
            let type_id = match self.btf.get(entry.type_id).kind {
                TypeKind::Function { .. } if !is_configuration => {
                    return Ok(Some(ExternKind::Function { type_id: entry.type_id }));
                }
                TypeKind::Variable { type_id, .. } => type_id,
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
            return Ok(Some(ExternKind::Configuration { type_id, offset, size }));
        }
        Ok(None)
    }

    fn read_functions(&mut self, elf: &Elf, layout: &mut Layout) -> Result<(), Error> {
        for symbol in &elf.symbols {
            let Some(section_index) = symbol.section else { continue };
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

    /// The thing to which the instruction at `position` of a section refers.
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
            malformed(format!("section {}, instruction {position}", section.name), problem)
        };
        let relocation = section.relocation_at((position * instruction::SIZE) as u64);
        if one.is_call() && one.source == 1 && relocation.is_none() {
            // A call within the section, already resolved by the compiler.
            let target = position as i64 + 1 + i64::from(one.immediate);
            return layout
                .function_at(section_index, target)
                .map(|index| Some(Reference::Function(index)))
                .ok_or_else(|| bad("calls a place where no function starts"));
        }
        let Some(relocation) = relocation else { return Ok(None) };
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
            // The immediate counts instructions from the next one for calls, and bytes for addresses; both from the symbol.
            let target = if one.is_call() {
                (symbol.value / instruction::SIZE as u64) as i64 + i64::from(one.immediate) + 1
            } else {
                let bytes = (symbol.value as i64).wrapping_add(i64::from(one.immediate));
                bytes / instruction::SIZE as i64
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
            return Err(bad("calls something that is not a function"));
        }
        let offset = symbol.value.wrapping_add(i64::from(one.immediate).cast_unsigned());
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
        let Some(maps_section) = layout.maps_section else { return Ok(()) };
        for relocation in &elf.sections[maps_section].relocations {
            let bad = |problem: &str| {
                malformed(format!("section .maps, offset {:#x}", relocation.offset), problem)
            };
            // The last map whose values begin at or before this place.
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
                    .ok_or_else(|| bad("an initial value that is not a map"))?;
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
        for section in &elf.sections {
            let optional = section.name.starts_with('?');
            let link = match section.name.trim_start_matches('?') {
                ".struct_ops" => false,
                ".struct_ops.link" => true,
                _ => continue,
            };
            for (name, type_id, offset) in section_variables(&self.btf, &section.name) {
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

    /// As in libbpf, a program that tables refer to is loaded if any of these tables is not optional.
    fn choose_struct_ops_programs(&mut self) {
        for program in &mut self.programs {
            let refers = |table: &&StructOps| table.refers_to(&program.name);
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
        let TypeKind::Structure { members, .. } = self.btf.resolved(type_id) else {
            return Err(malformed(place, "not a structure"));
        };
        let mut values = Vec::new();
        for member in members {
            let bad =
                |problem: &str| malformed(format!("{place}, member {}", member.name), problem);
            let size = self.btf.size_of(member.type_id).unwrap_or(0);
            let member_offset = u64::from(member.bit_offset / 8);
            let start =
                offset.checked_add(member_offset).and_then(|start| usize::try_from(start).ok());
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
                        .map_err(|_| bad("a relocation of something that is not a pointer"))?;
                    let symbol = &elf.symbols[relocation.symbol];
                    let program = self
                        .program_at(layout, symbol, addend)
                        .ok_or_else(|| bad("points to something that is not a program"))?;
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

/// Variables of a section by BTF: name, type of the variable's contents, offset. Sorted by offset.
fn section_variables(btf: &Btf, section: &str) -> Vec<(String, TypeId, u64)> {
    let mut variables = Vec::new();
    for one in btf.types() {
        let TypeKind::DataSection { variables: entries, .. } = &one.kind else { continue };
        if one.name != section {
            continue;
        }
        for entry in entries {
            let variable = btf.get(entry.type_id);
            if let TypeKind::Variable { type_id, .. } = variable.kind {
                variables.push((variable.name.clone(), type_id, u64::from(entry.offset)));
            }
        }
    }
    variables.sort_by_key(|variable| variable.2);
    variables
}

impl Variable {
    /// The variables of a section, by offset.
    pub fn all_in(section: &str, btf: &Btf) -> Vec<Variable> {
        let constant = section.starts_with(".rodata");
        let variables = section_variables(btf, section).into_iter();
        let described = variables.map(|(name, type_id, offset)| Variable {
            name,
            offset,
            size: btf.size_of(type_id).unwrap_or(0),
            type_id,
            kind: variable_kind(btf.resolved(type_id)),
            tunable: constant && is_const_volatile(btf, type_id),
        });
        described.collect()
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

    /// The function that starts at this instruction of a section.
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
    [".rodata", ".data", ".bss", ".addr_space.1"].iter().any(|prefix| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

fn variable_kind(kind: &TypeKind) -> VariableKind {
    match *kind {
        TypeKind::Integer { boolean: true, .. } => VariableKind::Boolean,
        TypeKind::Integer { signed, .. } => VariableKind::Integer { signed },
        TypeKind::Enumeration { signed, .. } => VariableKind::Enumeration { signed },
        TypeKind::Float { .. } => VariableKind::Float,
        TypeKind::Pointer(_) => VariableKind::Pointer,
        TypeKind::Array { .. } => VariableKind::Array,
        TypeKind::Structure { .. } | TypeKind::Union { .. } => VariableKind::Structure,
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
            TypeKind::Const(target) => {
                constant = true;
                target
            }
            TypeKind::Volatile(target) => {
                volatile = true;
                target
            }
            TypeKind::Typedef(target) | TypeKind::Restrict(target) | TypeKind::TypeTag(target) => {
                target
            }
            TypeKind::Array { element, .. } => element,
            _ => break,
        };
    }
    constant && volatile
}

/// The instructions of a function, with register numbers and 16-byte loads
/// checked.
fn decode(section: &ElfSection, symbol: &ElfSymbol) -> Result<Vec<Instruction>, Error> {
    let bad = |problem: String| {
        malformed(format!("section {}, function {}", section.name, symbol.name), problem)
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
            "{} bytes at {:#x} are not a whole number of instructions",
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
