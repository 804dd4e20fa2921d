//! CO-RE relocations: facts about the kernel's types that an instruction needs.
//!
//! A local type and a path into it are translated to the linker's model of the kernel, by name. A structure that the kernel model does not have
//! at all is laid out as the object declares it: the kernel cannot pass one, so it is in the program's own memory. Anything else that cannot be
//! translated does not fail here: a program that gets to the instruction ends with an error, so that unreachable code may need missing names.

use crate::btf::{Btf, TypeId, TypeKind};
use crate::btf_ext::CoreRelocation;
use crate::instruction::{Instruction, class};
use crate::linker::{Field, Linker};
use crate::object::without_flavor;

/// The fact that a relocation asks for; the numbers are those of the file.
mod kind {
    pub const FIELD_BYTE_OFFSET: u32 = 0;
    pub const FIELD_BYTE_SIZE: u32 = 1;
    pub const FIELD_EXISTS: u32 = 2;
    pub const FIELD_SIGNED: u32 = 3;
    pub const FIELD_LSHIFT_U64: u32 = 4;
    pub const FIELD_RSHIFT_U64: u32 = 5;
    pub const TYPE_ID_LOCAL: u32 = 6;
    pub const TYPE_ID_TARGET: u32 = 7;
    pub const TYPE_EXISTS: u32 = 8;
    pub const TYPE_SIZE: u32 = 9;
    pub const ENUMERATOR_EXISTS: u32 = 10;
    pub const ENUMERATOR_VALUE: u32 = 11;
    pub const TYPE_MATCHES: u32 = 12;
}

/// Why a relocation has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The kernel model lacks something.
    Absent(String),
    /// The relocation itself is invalid.
    Malformed(String),
}

/// The value of a relocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resolution {
    pub value: u64,
    /// For the offset of a field: how it is accessed.
    pub access: Option<Access>,
}

/// How a field whose offset is relocated is accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    /// Size in bytes in the object's own types.
    local_size: u64,
    /// Size in bytes in the kernel model.
    size: u64,
    /// Whether both are plain unsigned numbers or pointers, so that a load of one size can replace a load of the other.
    resizable: bool,
}

/// Resolves one relocation.
pub(crate) fn resolve(
    btf: &Btf,
    linker: &dyn Linker,
    relocation: &CoreRelocation,
) -> Result<Resolution, Failure> {
    let plain = |value| Ok(Resolution { value, access: None });
    let id = relocation.type_id;
    match relocation.kind {
        kind::TYPE_ID_LOCAL => plain(u64::from(id)),
        // Programs learn nothing of the kernel's own type numbers but that there is one: the local number says which type is meant.
        kind::TYPE_ID_TARGET => {
            plain(type_size(btf, linker, id).map_or(0, |_| u64::from(btf.resolve(id))))
        }
        kind::TYPE_EXISTS | kind::TYPE_MATCHES => {
            plain(u64::from(type_size(btf, linker, id).is_some()))
        }
        kind::TYPE_SIZE => plain(u64::from(type_size(btf, linker, id).unwrap_or(0))),
        kind::ENUMERATOR_EXISTS => match enumerator(btf, linker, relocation) {
            Err(Failure::Absent(_)) => plain(0),
            found => plain(u64::from(found.is_ok())),
        },
        kind::ENUMERATOR_VALUE => plain(enumerator(btf, linker, relocation)?),
        kind::FIELD_EXISTS => match LocalField::parse(btf, relocation)?.find(btf, linker) {
            Err(Failure::Absent(_)) => plain(0),
            Err(failure) => Err(failure),
            Ok(_) => plain(1),
        },
        kind::FIELD_BYTE_OFFSET
        | kind::FIELD_BYTE_SIZE
        | kind::FIELD_SIGNED
        | kind::FIELD_LSHIFT_U64
        | kind::FIELD_RSHIFT_U64 => {
            let local = LocalField::parse(btf, relocation)?;
            let field = match local.own_layout(btf, linker) {
                Some(field) => field,
                None => local.find(btf, linker)?,
            };
            field_value(btf, relocation.kind, &local, field)
        }
        other => Err(Failure::Malformed(format!("CO-RE relocation of unknown kind {other}"))),
    }
}

fn field_value(
    btf: &Btf,
    what: u32,
    local: &LocalField,
    field: WideField,
) -> Result<Resolution, Failure> {
    let (mut offset, mut size) = (field.offset, field.size);
    // A bit field is loaded with as many bytes as contain all of it.
    let mut shift_out = 0;
    let mut bit_size = size.saturating_mul(8);
    if let Some(bits) = field.bits {
        let start = offset * 8 + u64::from(bits.offset);
        bit_size = u64::from(bits.size.clamp(1, 64));
        size = size.clamp(1, 8).next_power_of_two();
        loop {
            offset = start / 8 / size * size;
            if start + bit_size - offset * 8 <= size * 8 || size >= 8 {
                break;
            }
            size *= 2;
        }
        shift_out = start - offset * 8;
    }
    let plain = |value| Ok(Resolution { value, access: None });
    match what {
        kind::FIELD_BYTE_OFFSET => {
            Ok(Resolution { value: offset, access: local.access(btf, field) })
        }
        kind::FIELD_BYTE_SIZE => plain(size),
        kind::FIELD_SIGNED => plain(u64::from(field.signed)),
        // Shifts bring the field to the top of 64 bits and down again.
        kind::FIELD_LSHIFT_U64 => plain(64_u64.saturating_sub(bit_size + shift_out)),
        _ => plain(64_u64.saturating_sub(bit_size)),
    }
}

/// The name by which the kernel knows a type.
fn kernel_name(btf: &Btf, id: TypeId) -> String {
    let resolved = btf.get(btf.resolve(id));
    let name = if resolved.name.is_empty() { &btf.get(id).name } else { &resolved.name };
    without_flavor(name).to_owned()
}

fn type_size(btf: &Btf, linker: &dyn Linker, id: TypeId) -> Option<u32> {
    let typedef = &btf.get(id).name;
    let name =
        if typedef.is_empty() { kernel_name(btf, id) } else { without_flavor(typedef).to_owned() };
    linker.type_size(&name)
}

fn enumerator(btf: &Btf, linker: &dyn Linker, relocation: &CoreRelocation) -> Result<u64, Failure> {
    let TypeKind::Enumeration { enumerators, .. } = btf.resolved(relocation.type_id) else {
        return Err(Failure::Malformed(
            "CO-RE relocation of an enumerator of a type that is no enumeration".to_owned(),
        ));
    };
    let (name, _) = relocation
        .access
        .parse::<usize>()
        .ok()
        .and_then(|index| enumerators.get(index))
        .ok_or_else(|| {
            Failure::Malformed(format!("CO-RE relocation of enumerator {}", relocation.access))
        })?;
    let name = without_flavor(name);
    let enumeration = kernel_name(btf, relocation.type_id);
    linker.enumerator(&enumeration, name).ok_or_else(|| {
        Failure::Absent(format!("enum {enumeration} has no {name} in this kernel model"))
    })
}

/// A field in the kernel model.
#[derive(Debug, Clone, Copy)]
struct WideField {
    offset: u64,
    size: u64,
    bits: Option<crate::linker::Bits>,
    signed: bool,
}

/// A field as the object's own types describe it.
#[derive(Debug)]
struct LocalField {
    /// Parts of the path to the field. Each part starts in a structure named in the kernel model; a new one starts in the elements of an array
    /// of structures.
    parts: Vec<Part>,
    /// Type of the field.
    type_id: TypeId,
    /// Size of the field if it is an element of an array of plain values.
    element_size: Option<u64>,
    /// Whether the object's own types make it a bit field.
    is_bit_field: bool,
    /// Bits before the field in the object's own types.
    own_offset: u64,
    /// Bits of a bit field in the object's own types.
    own_bits: u32,
}

#[derive(Debug)]
struct Part {
    keyword: &'static str,
    structure: String,
    /// How many elements of this structure come first.
    index: u64,
    path: Vec<String>,
    /// Bytes that array elements of plain values add.
    addend: u64,
}

impl LocalField {
    fn parse(btf: &Btf, relocation: &CoreRelocation) -> Result<LocalField, Failure> {
        let bad = || {
            Failure::Malformed(format!(
                "CO-RE relocation with access \"{}\", which does not fit its type",
                relocation.access
            ))
        };
        let mut indices =
            relocation.access.split(':').map(|index| index.parse::<u32>().map_err(|_| bad()));
        let first = indices.next().ok_or_else(bad)??;
        let mut id = relocation.type_id;
        let mut part = Part::new(btf, id, first);
        let mut parts = Vec::new();
        let mut element_size = None;
        let mut is_bit_field = false;
        let mut own_offset = u64::from(first) * btf.size_of(id).unwrap_or(0) * 8;
        let mut own_bits = 0;
        for index in indices {
            let index = index?;
            match btf.resolved(id) {
                TypeKind::Structure { members, .. } | TypeKind::Union { members, .. } => {
                    let member = members.get(index as usize).ok_or_else(bad)?;
                    if !member.name.is_empty() {
                        part.path.push(member.name.clone());
                    }
                    element_size = None;
                    is_bit_field = member.bit_size != 0;
                    own_offset += u64::from(member.bit_offset);
                    own_bits = member.bit_size;
                    id = member.type_id;
                }
                TypeKind::Array { element, .. } => {
                    let is_structure = matches!(
                        btf.resolved(*element),
                        TypeKind::Structure { .. } | TypeKind::Union { .. }
                    );
                    id = *element;
                    let size = btf.size_of(id).ok_or_else(bad)?;
                    own_offset += u64::from(index) * size * 8;
                    if is_structure && !kernel_name(btf, id).is_empty() {
                        parts.push(part);
                        part = Part::new(btf, id, index);
                        element_size = None;
                    } else {
                        part.addend =
                            part.addend.saturating_add(size.saturating_mul(u64::from(index)));
                        element_size = Some(size);
                    }
                }
                _ => return Err(bad()),
            }
        }
        parts.push(part);
        Ok(LocalField { parts, type_id: id, element_size, is_bit_field, own_offset, own_bits })
    }

    /// The field as the object lays it out, if it is in a structure that the kernel model does not have.
    fn own_layout(&self, btf: &Btf, linker: &dyn Linker) -> Option<WideField> {
        let outer = self.parts.first()?;
        if linker.type_size(&outer.structure).is_some() {
            return None;
        }
        Some(WideField {
            offset: self.own_offset / 8,
            size: btf.size_of(self.type_id)?,
            bits: self.is_bit_field.then_some(crate::linker::Bits {
                offset: (self.own_offset % 8) as u32,
                size: self.own_bits,
            }),
            signed: is_signed(btf, self.type_id),
        })
    }

    fn find(&self, btf: &Btf, linker: &dyn Linker) -> Result<WideField, Failure> {
        let mut result = WideField { offset: 0, size: 0, bits: None, signed: false };
        for part in &self.parts {
            let field = part.find(linker)?;
            result = WideField { offset: result.offset.saturating_add(field.offset), ..field };
        }
        if result.offset > u64::from(u32::MAX) {
            return Err(Failure::Malformed("CO-RE relocation of a field beyond 4 GiB".to_owned()));
        }
        if let Some(size) = self.element_size {
            result.size = size;
            result.signed = is_signed(btf, self.type_id);
        }
        Ok(result)
    }

    fn access(&self, btf: &Btf, field: WideField) -> Option<Access> {
        // Bit fields are loaded in a size that the program chooses.
        if self.is_bit_field || field.bits.is_some() {
            return None;
        }
        let local_size = btf.size_of(self.type_id)?;
        let plain = match btf.resolved(self.type_id) {
            TypeKind::Integer { signed, .. } => !signed,
            TypeKind::Pointer(_) => true,
            _ => false,
        };
        Some(Access { local_size, size: field.size, resizable: plain && !field.signed })
    }
}

fn is_signed(btf: &Btf, id: TypeId) -> bool {
    matches!(
        btf.resolved(id),
        TypeKind::Integer { signed: true, .. } | TypeKind::Enumeration { signed: true, .. }
    )
}

impl Part {
    fn new(btf: &Btf, id: TypeId, index: u32) -> Part {
        Part {
            keyword: match btf.resolved(id) {
                TypeKind::Union { .. } => "union",
                TypeKind::Structure { .. } => "struct",
                _ => "type",
            },
            structure: kernel_name(btf, id),
            index: u64::from(index),
            path: Vec::new(),
            addend: 0,
        }
    }

    fn find(&self, linker: &dyn Linker) -> Result<WideField, Failure> {
        let structure = &self.structure;
        let size = linker.type_size(structure);
        let absent = || {
            let keyword = self.keyword;
            Failure::Absent(if size.is_none() {
                format!("this kernel model has no {keyword} {structure}")
            } else {
                let path = self.path.join(".");
                format!("{keyword} {structure} has no field {path} in this kernel model")
            })
        };
        let field = if self.path.is_empty() {
            Field { offset: 0, size: size.ok_or_else(absent)?, bits: None, signed: false }
        } else {
            let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
            linker.field(structure, &path).ok_or_else(absent)?
        };
        let before =
            if self.index == 0 { 0 } else { self.index * u64::from(size.ok_or_else(absent)?) };
        Ok(WideField {
            offset: (u64::from(field.offset) + before).saturating_add(self.addend),
            size: u64::from(field.size),
            bits: field.bits,
            signed: field.signed,
        })
    }
}

/// The name of the field that a relocation is about.
pub(crate) fn describe(btf: &Btf, relocation: &CoreRelocation) -> String {
    let Ok(local) = LocalField::parse(btf, relocation) else {
        return format!("field {}", relocation.access);
    };
    let parts: Vec<String> = local
        .parts
        .iter()
        .map(|part| {
            let (keyword, structure, path) = (part.keyword, &part.structure, part.path.join("."));
            format!("field {path} of {keyword} {structure}")
        })
        .collect();
    parts.join(", ")
}

/// Writes the value of a relocation into its instruction. For a 16-byte load, the upper half of the value belongs in the second instruction.
pub(crate) fn patch(
    instruction: Instruction,
    resolution: Resolution,
    what: &dyn Fn() -> String,
) -> Result<Instruction, Failure> {
    let mut patched = instruction;
    let value = resolution.value;
    match instruction.class() {
        class::ALU | class::ALU64 if !instruction.uses_register() => {
            patched.immediate = u32::try_from(value)
                .map_err(|_| Failure::Malformed(format!("relocated value {value} over 32 bits")))?
                .cast_signed();
        }
        class::LDX | class::ST | class::STX => {
            patched.offset = i16::try_from(value).map_err(|_| {
                Failure::Malformed(format!("relocated offset {value} over 16 bits"))
            })?;
            if let Some(access) = resolution.access
                && access.local_size != access.size
            {
                let fits = u64::from(instruction.access_size()) == access.local_size;
                let opcode = u32::try_from(access.size)
                    .ok()
                    .filter(|_| fits && access.resizable)
                    .and_then(|size| instruction.opcode_with_access_size(size));
                patched.opcode = opcode.ok_or_else(|| {
                    Failure::Absent(format!(
                        "{} has {} bytes in this kernel model instead of {}, \
                         and its accesses cannot be adapted",
                        what(),
                        access.size,
                        access.local_size
                    ))
                })?;
            }
        }
        _ if instruction.is_wide() => {
            patched.immediate = (value as u32).cast_signed();
        }
        _ => {
            return Err(Failure::Malformed(
                "CO-RE relocation of an instruction that takes none".to_owned(),
            ));
        }
    }
    Ok(patched)
}
