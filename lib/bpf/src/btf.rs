//! BPF Type Format (BTF): the types a compiler records in the `.BTF` section.

use std::borrow::Cow;

use crate::bytes::{string_at, text_at, u16_at, u32_at};
use crate::error::{Error, malformed};

/// Number of a type in one object's BTF; 0 is `void`.
pub type TypeId = u32;

/// How deep chains of typedefs, qualifiers and nested types may go: far above what compilers emit, so it only ends cycles in damaged files.
const DEPTH_LIMIT: usize = 64;

/// The types of one object.
#[derive(Debug, Clone)]
pub struct Btf {
    types: Vec<Type>,
    strings: Vec<u8>,
}

/// One type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Type {
    /// Its name; empty for anonymous types.
    pub name: String,
    /// Its kind.
    pub kind: TypeKind,
}

/// The kind of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeKind {
    /// `void`.
    Void,
    /// An integer.
    Integer {
        /// Size in bytes.
        size: u32,
        /// Whether it is signed.
        signed: bool,
        /// Whether it is `bool`.
        boolean: bool,
        /// Whether it is a character.
        character: bool,
    },
    /// A pointer to another type.
    Pointer(TypeId),
    /// An array.
    Array {
        /// Type of the elements.
        element: TypeId,
        /// Number of elements.
        count: u32,
    },
    /// A structure.
    Structure {
        /// Size in bytes.
        size: u32,
        /// Members in the order of declaration.
        members: Vec<Member>,
    },
    /// A union.
    Union {
        /// Size in bytes.
        size: u32,
        /// Members in the order of declaration.
        members: Vec<Member>,
    },
    /// An enumeration, of 32 or 64 bits.
    Enumeration {
        /// Size in bytes.
        size: u32,
        /// Whether its values are signed.
        signed: bool,
        /// Names with values, sign-extended to 64 bits if signed.
        enumerators: Vec<(String, u64)>,
    },
    /// A structure or union that is only declared.
    Forward,
    /// A typedef.
    Typedef(TypeId),
    /// `volatile`.
    Volatile(TypeId),
    /// `const`.
    Const(TypeId),
    /// `restrict`.
    Restrict(TypeId),
    /// A function.
    Function {
        /// Its prototype.
        prototype: TypeId,
        /// Where it is defined.
        linkage: Linkage,
    },
    /// The type of a function.
    Prototype {
        /// The type returned.
        returns: TypeId,
        /// Parameter names and types.
        parameters: Vec<(String, TypeId)>,
    },
    /// A global variable.
    Variable {
        /// Its type.
        type_id: TypeId,
        /// Where it is defined.
        linkage: Linkage,
    },
    /// A section with its variables.
    DataSection {
        /// Size in bytes; 0 if the compiler left it to the ELF section.
        size: u32,
        /// The variables.
        variables: Vec<SectionVariable>,
    },
    /// A floating-point number.
    Float {
        /// Size in bytes.
        size: u32,
    },
    /// A tag on a declaration (`btf_decl_tag`); the type's name is the tag.
    DeclarationTag {
        /// The tagged type.
        target: TypeId,
        /// The member or parameter tagged, or `None` for the whole.
        component: Option<u32>,
    },
    /// A tag on a type (`btf_type_tag`); the type's name is the tag.
    TypeTag(TypeId),
}

/// Where a function or variable is defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linkage {
    /// Here, and visible only here.
    Static,
    /// Here, and visible everywhere.
    Global,
    /// Elsewhere.
    External,
}

/// A member of a structure or union.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name; empty for anonymous structures and unions.
    pub name: String,
    /// Its type.
    pub type_id: TypeId,
    /// Its offset in bits.
    pub bit_offset: u32,
    /// Its size in bits if it is a bit field, otherwise 0.
    pub bit_size: u32,
}

/// A variable of a data section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionVariable {
    /// The variable's type ([`TypeKind::Variable`], or [`TypeKind::Function`] for
    /// kernel functions).
    pub type_id: TypeId,
    /// Offset in the section in bytes. Compilers leave it 0: libbpf, and
    /// this crate, take it from the symbol table.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
}

/// Reads the words of the type section in order.
struct Words<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl Words<'_> {
    fn next(&mut self) -> Result<u32, Error> {
        let word = u32_at(self.bytes, self.position)
            .ok_or_else(|| malformed("section .BTF", "the types end in the middle of a type"))?;
        self.position += 4;
        Ok(word)
    }
}

impl Btf {
    /// Reads the contents of a `.BTF` section.
    pub fn parse(section: &[u8]) -> Result<Btf, Error> {
        let header = Header::parse(section, "section .BTF")?;
        let types = header.part(section, 8, 12, "types")?;
        let strings = header.part(section, 16, 20, "strings")?.to_vec();
        let mut btf =
            Btf { types: vec![Type { name: String::new(), kind: TypeKind::Void }], strings };
        let mut words = Words { bytes: types, position: 0 };
        while words.position < types.len() {
            let one = btf.parse_type(&mut words)?;
            btf.types.push(one);
        }
        btf.check_references()?;
        Ok(btf)
    }

    fn parse_type(&self, words: &mut Words<'_>) -> Result<Type, Error> {
        let place = || format!("section .BTF, type {}", self.types.len());
        let name = self.string_or_error(words.next()?)?;
        let info = words.next()?;
        let size_or_type = words.next()?;
        let count = (info & 0xffff) as usize;
        let flag = info >> 31 != 0;
        let kind = match (info >> 24) & 0x1f {
            1 => {
                let encoding = words.next()?;
                TypeKind::Integer {
                    size: size_or_type,
                    signed: encoding & (1 << 24) != 0,
                    character: encoding & (2 << 24) != 0,
                    boolean: encoding & (4 << 24) != 0,
                }
            }
            2 => TypeKind::Pointer(size_or_type),
            3 => {
                let element = words.next()?;
                words.next()?;
                TypeKind::Array { element, count: words.next()? }
            }
            number @ (4 | 5) => {
                let members = self.members(words, count, flag)?;
                let size = size_or_type;
                if number == 4 {
                    TypeKind::Structure { size, members }
                } else {
                    TypeKind::Union { size, members }
                }
            }
            6 => TypeKind::Enumeration {
                size: size_or_type,
                signed: flag,
                enumerators: self.enumerators(words, count, |words| {
                    let value = words.next()?;
                    Ok(match flag {
                        true => i64::from(value.cast_signed()).cast_unsigned(),
                        false => u64::from(value),
                    })
                })?,
            },
            7 => TypeKind::Forward,
            8 => TypeKind::Typedef(size_or_type),
            9 => TypeKind::Volatile(size_or_type),
            10 => TypeKind::Const(size_or_type),
            11 => TypeKind::Restrict(size_or_type),
            12 => TypeKind::Function { prototype: size_or_type, linkage: linkage(info & 0xffff) },
            13 => TypeKind::Prototype {
                returns: size_or_type,
                parameters: self.parameters(words, count)?,
            },
            14 => TypeKind::Variable { type_id: size_or_type, linkage: linkage(words.next()?) },
            15 => {
                let mut variables = Vec::new();
                for _ in 0..count {
                    variables.push(SectionVariable {
                        type_id: words.next()?,
                        offset: words.next()?,
                        size: words.next()?,
                    });
                }
                TypeKind::DataSection { size: size_or_type, variables }
            }
            16 => TypeKind::Float { size: size_or_type },
            17 => {
                let component = words.next()?;
                TypeKind::DeclarationTag {
                    target: size_or_type,
                    component: (component != u32::MAX).then_some(component),
                }
            }
            18 => TypeKind::TypeTag(size_or_type),
            19 => TypeKind::Enumeration {
                size: size_or_type,
                signed: flag,
                enumerators: self.enumerators(words, count, |words| {
                    let low = words.next()?;
                    Ok(u64::from(words.next()?) << 32 | u64::from(low))
                })?,
            },
            number => return Err(malformed(place(), format!("unknown kind {number}"))),
        };
        Ok(Type { name, kind })
    }

    /// The parameters of a function: their names and types.
    fn parameters(
        &self,
        words: &mut Words<'_>,
        count: usize,
    ) -> Result<Vec<(String, TypeId)>, Error> {
        let mut parameters = Vec::new();
        for _ in 0..count {
            let name = self.string_or_error(words.next()?)?;
            parameters.push((name, words.next()?));
        }
        Ok(parameters)
    }

    /// The members of a structure or union, some of which may be bit fields if `bit_fields`.
    fn members(
        &self,
        words: &mut Words<'_>,
        count: usize,
        bit_fields: bool,
    ) -> Result<Vec<Member>, Error> {
        let mut members = Vec::new();
        for _ in 0..count {
            let name = self.string_or_error(words.next()?)?;
            let type_id = words.next()?;
            let offset = words.next()?;
            // With bit fields, the upper byte is the size of one.
            let (bit_offset, bit_size) =
                if bit_fields { (offset & 0xff_ffff, offset >> 24) } else { (offset, 0) };
            members.push(Member { name, type_id, bit_offset, bit_size });
        }
        Ok(members)
    }

    /// Names and values of an enumeration, whose values `value` reads.
    fn enumerators<'w>(
        &self,
        words: &mut Words<'w>,
        count: usize,
        value: impl Fn(&mut Words<'w>) -> Result<u64, Error>,
    ) -> Result<Vec<(String, u64)>, Error> {
        let mut enumerators = Vec::new();
        for _ in 0..count {
            let name = self.string_or_error(words.next()?)?;
            enumerators.push((name, value(words)?));
        }
        Ok(enumerators)
    }

    /// Makes sure that every type number belongs to a type that exists, so that later look-ups need not fail.
    fn check_references(&self) -> Result<(), Error> {
        for (id, one) in self.types.iter().enumerate() {
            let mut references = Vec::new();
            match &one.kind {
                TypeKind::Pointer(target)
                | TypeKind::Typedef(target)
                | TypeKind::Volatile(target)
                | TypeKind::Const(target)
                | TypeKind::Restrict(target)
                | TypeKind::TypeTag(target)
                | TypeKind::DeclarationTag { target, .. }
                | TypeKind::Array { element: target, .. }
                | TypeKind::Function { prototype: target, .. }
                | TypeKind::Variable { type_id: target, .. } => references.push(*target),
                TypeKind::Structure { members, .. } | TypeKind::Union { members, .. } => {
                    references.extend(members.iter().map(|member| member.type_id));
                }
                TypeKind::Prototype { returns, parameters } => {
                    references.push(*returns);
                    references.extend(parameters.iter().map(|parameter| parameter.1));
                }
                TypeKind::DataSection { variables, .. } => {
                    references.extend(variables.iter().map(|variable| variable.type_id));
                }
                TypeKind::Void
                | TypeKind::Integer { .. }
                | TypeKind::Enumeration { .. }
                | TypeKind::Forward
                | TypeKind::Float { .. } => {}
            }
            if let Some(bad) =
                references.into_iter().find(|&reference| reference as usize >= self.types.len())
            {
                return Err(malformed(
                    format!("section .BTF, type {id}"),
                    format!("refers to type {bad}, which does not exist"),
                ));
            }
        }
        Ok(())
    }

    /// Records where the variables of sections are, as the symbol table says for a section and a variable: the compiler fills in the offsets of
    /// static variables only.
    pub(crate) fn place_variables(&mut self, address: impl Fn(&str, &str) -> Option<u64>) {
        for section in 0..self.types.len() {
            let TypeKind::DataSection { variables, .. } = &self.types[section].kind else {
                continue;
            };
            let mut placed = variables.clone();
            for one in &mut placed {
                let variable = self.get(one.type_id);
                let placed_already = matches!(variable.kind, TypeKind::Variable { linkage, .. } if linkage == Linkage::Static);
                let offset = address(&self.types[section].name, &variable.name);
                match offset.and_then(|offset| u32::try_from(offset).ok()) {
                    Some(offset) if !placed_already => one.offset = offset,
                    _ => {}
                }
            }
            if let TypeKind::DataSection { variables, .. } = &mut self.types[section].kind {
                *variables = placed;
            }
        }
    }

    /// The type with the number `id`; `void` if there is none.
    pub fn get(&self, id: TypeId) -> &Type {
        self.types.get(id as usize).unwrap_or(&self.types[0])
    }

    /// All types; the index is the type number.
    pub fn types(&self) -> &[Type] {
        &self.types
    }

    /// The string at `offset` of the string table.
    pub(crate) fn string(&self, offset: u32) -> Option<&str> {
        string_at(&self.strings, offset as usize)
    }

    /// The same for strings that need not be UTF-8: names of files, and lines of source.
    pub(crate) fn text(&self, offset: u32) -> Option<Cow<'_, str>> {
        text_at(&self.strings, offset as usize).map(String::from_utf8_lossy)
    }

    fn string_or_error(&self, offset: u32) -> Result<String, Error> {
        self.string(offset).map(str::to_owned).ok_or_else(|| {
            malformed(
                format!("section .BTF, type {}", self.types.len()),
                format!("no string at offset {offset} of the string table"),
            )
        })
    }

    /// Follows typedefs, qualifiers and type tags to the type behind them.
    pub fn resolve(&self, mut id: TypeId) -> TypeId {
        for _ in 0..DEPTH_LIMIT {
            match self.get(id).kind {
                TypeKind::Typedef(target)
                | TypeKind::Volatile(target)
                | TypeKind::Const(target)
                | TypeKind::Restrict(target)
                | TypeKind::TypeTag(target) => id = target,
                _ => return id,
            }
        }
        0
    }

    /// The kind behind typedefs, qualifiers and type tags.
    pub fn resolved(&self, id: TypeId) -> &TypeKind {
        &self.get(self.resolve(id)).kind
    }

    /// Size in bytes of a value of this type; `None` for `void`, functions and types that are only declared.
    pub fn size_of(&self, id: TypeId) -> Option<u64> {
        self.size_within(id, DEPTH_LIMIT)
    }

    fn size_within(&self, id: TypeId, depth: usize) -> Option<u64> {
        let depth = depth.checked_sub(1)?;
        match self.resolved(id) {
            TypeKind::Integer { size, .. }
            | TypeKind::Structure { size, .. }
            | TypeKind::Union { size, .. }
            | TypeKind::Enumeration { size, .. }
            | TypeKind::Float { size } => Some(u64::from(*size)),
            TypeKind::Pointer(_) => Some(8),
            TypeKind::Array { element, count } => {
                self.size_within(*element, depth)?.checked_mul(u64::from(*count))
            }
            TypeKind::Variable { type_id, .. } => self.size_within(*type_id, depth),
            _ => None,
        }
    }

    /// The first type of that name that is not a tag, function or variable.
    pub fn find(&self, name: &str) -> Option<TypeId> {
        let index = self.types.iter().position(|one| {
            one.name == name
                && !matches!(
                    one.kind,
                    TypeKind::DeclarationTag { .. }
                        | TypeKind::TypeTag(_)
                        | TypeKind::Function { .. }
                        | TypeKind::Variable { .. }
                        | TypeKind::Forward
                )
        })?;
        u32::try_from(index).ok()
    }

    /// The tags on a declaration, or on its member number `component`.
    pub fn declaration_tags(
        &self,
        target: TypeId,
        component: Option<u32>,
    ) -> impl Iterator<Item = &str> {
        self.types.iter().filter_map(move |one| match one.kind {
            TypeKind::DeclarationTag { target: tagged, component: part }
                if tagged == target && part == component =>
            {
                Some(one.name.as_str())
            }
            _ => None,
        })
    }
}

fn linkage(number: u32) -> Linkage {
    match number {
        0 => Linkage::Static,
        1 => Linkage::Global,
        _ => Linkage::External,
    }
}

/// The common beginning of `.BTF` and `.BTF.ext`.
pub(crate) struct Header {
    length: usize,
    place: &'static str,
}

impl Header {
    /// Checks magic number and version.
    pub(crate) fn parse(section: &[u8], place: &'static str) -> Result<Header, Error> {
        let magic = u16_at(section, 0).ok_or_else(|| malformed(place, "shorter than a header"))?;
        if magic == 0xeb9f {
            let length =
                u32_at(section, 4).ok_or_else(|| malformed(place, "shorter than a header"))?;
            if section[2] != 1 {
                return Err(malformed(place, format!("version {} instead of 1", section[2])));
            }
            return Ok(Header { length: length as usize, place });
        }
        let problem = if magic == 0x9feb {
            "big-endian; compile with -target bpfel or -target bpf on a little-endian machine"
        } else {
            "wrong magic number"
        };
        Err(malformed(place, problem))
    }

    /// Whether the header is long enough to hold a word at `offset`.
    pub(crate) fn holds(&self, offset: usize) -> bool {
        offset + 4 <= self.length
    }

    /// The part whose offset and length are at these places in the header.
    pub(crate) fn part<'a>(
        &self,
        section: &'a [u8],
        offset_at: usize,
        length_at: usize,
        what: &str,
    ) -> Result<&'a [u8], Error> {
        let part = || {
            if !self.holds(offset_at) || !self.holds(length_at) {
                return None;
            }
            let start = self.length.checked_add(u32_at(section, offset_at)? as usize)?;
            let end = start.checked_add(u32_at(section, length_at)? as usize)?;
            section.get(start..end)
        };
        part().ok_or_else(|| malformed(self.place, format!("the {what} lie outside the section")))
    }
}
