//! Global variables of a BPF object: their places, types and values, and how to set them.

use libbpf_rs::btf::types::{DataSec, Enum, Enum64, Int, IntEncoding, Struct, Var};
use libbpf_rs::btf::{Btf, BtfType, types::MemberAttr};

/// The type of a variable's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer or enumeration of `Variable::size` bytes.
    Integer {
        /// Whether it can be negative.
        signed: bool,
    },
    /// A `bool`.
    Boolean,
    /// Anything that is not a single number: an array, a structure, a pointer.
    Other,
}

/// A global variable of a BPF object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Name in the source.
    pub name: String,
    /// Its section, such as `.rodata`.
    pub section: String,
    /// Offset in the section, bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// The type of its value.
    pub kind: Kind,
    /// Name of its type without qualifiers and typedefs, if it has one.
    pub type_name: Option<String>,
}

impl Variable {
    /// Description for messages, such as `an unsigned integer of 4 bytes`.
    #[must_use]
    pub fn describe(&self) -> String {
        match self.kind {
            Kind::Boolean => "a boolean".to_owned(),
            Kind::Integer { signed: true } => format!("a signed integer of {} bytes", self.size),
            Kind::Integer { signed: false } => {
                format!("an unsigned integer of {} bytes", self.size)
            }
            Kind::Other => "not a number".to_owned(),
        }
    }

    /// Smallest and largest value; `None` if it is not a number.
    #[must_use]
    pub fn range(&self) -> Option<(i128, i128)> {
        let bits = u32::try_from(self.size * 8).ok()?;
        match self.kind {
            Kind::Boolean => Some((0, 1)),
            Kind::Integer { .. } if !(8..=64).contains(&bits) => None,
            Kind::Integer { signed: true } => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
            Kind::Integer { signed: false } => Some((0, (1 << bits) - 1)),
            Kind::Other => None,
        }
    }

    /// Writes `value` into the bytes of the section. The value must be in [`Variable::range`]. Does nothing if the variable lies outside, as
    /// an object's type information may claim.
    pub(crate) fn write(&self, section: &mut [u8], value: i128) {
        let place = section.get_mut(self.offset..self.offset.saturating_add(self.size));
        if let (Some(place), Some(bytes)) = (place, value.to_le_bytes().get(..self.size)) {
            place.copy_from_slice(bytes);
        }
    }

    /// Reads the value from the bytes of the section; `None` if it is not a number or lies outside.
    #[must_use]
    pub fn read(&self, section: &[u8]) -> Option<i128> {
        let (minimum, _) = self.range()?;
        let bytes = section.get(self.offset..self.offset + self.size)?;
        let negative = minimum < 0 && bytes.last().is_some_and(|last| last & 0x80 != 0);
        let mut wide = if negative { [0xff; 16] } else { [0; 16] };
        wide[..self.size].copy_from_slice(bytes);
        Some(i128::from_le_bytes(wide))
    }
}

/// All global variables in the object's type information, ordered by section and offset.
#[must_use]
pub fn variables(btf: &Btf<'_>) -> Vec<Variable> {
    let mut found = Vec::new();
    for section in btf.type_by_kind::<DataSec<'_>>() {
        let Some(section_name) = section.name() else {
            continue;
        };
        for entry in section.iter() {
            let Some(variable) = btf.type_by_id::<Var<'_>>(entry.ty) else {
                continue;
            };
            let (Some(name), Some(held)) = (variable.name(), variable.next_type()) else {
                continue;
            };
            let held = held.skip_mods_and_typedefs();
            found.push(Variable {
                name: name.to_string_lossy().into_owned(),
                section: section_name.to_string_lossy().into_owned(),
                offset: entry.offset as usize,
                size: entry.size,
                kind: kind(held),
                type_name: held.name().map(|name| name.to_string_lossy().into_owned()),
            });
        }
    }
    found
}

fn kind(held: BtfType<'_>) -> Kind {
    if let Ok(integer) = Int::try_from(held) {
        return match integer.encoding {
            IntEncoding::Bool => Kind::Boolean,
            IntEncoding::Signed => Kind::Integer { signed: true },
            IntEncoding::None | IntEncoding::Char => Kind::Integer { signed: false },
        };
    }
    if let Ok(enumeration) = Enum::try_from(held) {
        return Kind::Integer {
            signed: enumeration.is_signed(),
        };
    }
    if let Ok(enumeration) = Enum64::try_from(held) {
        return Kind::Integer {
            signed: enumeration.is_signed(),
        };
    }
    Kind::Other
}

/// A member of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Offset in the structure, bytes.
    pub offset: usize,
    /// Bytes up to the next member or the end, including padding.
    pub room: usize,
}

/// The named members of a structure that are not bit fields, by offset; empty if there is no such structure.
#[must_use]
pub fn members(btf: &Btf<'_>, structure: &str) -> Vec<Member> {
    // A kernel has a hundred thousand types, and none has a flavour.
    let named = btf.type_by_name::<Struct<'_>>(structure);
    let Some(found) = named.or_else(|| {
        btf.type_by_kind::<Struct<'_>>().find(|candidate| {
            candidate
                .name()
                .is_some_and(|name| without_flavour(&name.to_string_lossy()) == structure)
        })
    }) else {
        return Vec::new();
    };
    let mut members: Vec<Member> = found
        .iter()
        .filter_map(|member| {
            let MemberAttr::Normal { offset } = member.attr else {
                return None;
            };
            Some(Member {
                name: member.name?.to_string_lossy().into_owned(),
                offset: offset as usize / 8,
                room: 0,
            })
        })
        .collect();
    members.sort_by_key(|member| member.offset);
    let size = libbpf_rs::btf::types::Composite::try_from(*found).map_or(0, |composite| {
        use libbpf_rs::btf::HasSize as _;
        composite.size()
    });
    for index in 0..members.len() {
        let end = members.get(index + 1).map_or(size, |next| next.offset);
        members[index].room = end.saturating_sub(members[index].offset);
    }
    members
}

/// A type's name without the `___flavour` that distinguishes versions of a kernel structure.
#[must_use]
pub fn without_flavour(name: &str) -> &str {
    name.split_once("___").map_or(name, |(plain, _)| plain)
}

/// The enumerators of all enumerations in `btf` whose names begin with `prefix`, with their values.
///
/// Type information without 64-bit enumerations truncates large values. Those are not returned: a wrong constant in a scheduler is worse than none.
#[must_use]
pub fn enumerators(btf: &Btf<'_>, prefix: &str) -> std::collections::BTreeMap<String, u64> {
    use libbpf_rs::btf::HasSize as _;
    let mut values = std::collections::BTreeMap::new();
    for enumeration in btf.type_by_kind::<Enum64<'_>>() {
        for member in enumeration.iter() {
            let Some(name) = member.name.map(|name| name.to_string_lossy()) else {
                continue;
            };
            if name.starts_with(prefix) {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "two's complement of a 64-bit value"
                )]
                values.insert(name.into_owned(), member.value as u64);
            }
        }
    }
    for enumeration in btf.type_by_kind::<Enum<'_>>().filter(|e| e.size() <= 4) {
        for member in enumeration.iter() {
            let Some(name) = member.name.map(|name| name.to_string_lossy()) else {
                continue;
            };
            if name.starts_with(prefix) {
                #[expect(
                    clippy::cast_sign_loss,
                    reason = "two's complement, as C converts it to u64"
                )]
                values.insert(name.into_owned(), member.value as u64);
            }
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_outside_its_section_is_not_written() {
        let mut variable = Variable {
            name: "far".to_owned(),
            section: ".rodata".to_owned(),
            offset: 4,
            size: 4,
            kind: Kind::Integer { signed: false },
            type_name: None,
        };
        let mut section = [0; 8];
        variable.write(&mut section, 0x0102_0304);
        assert_eq!(section, [0, 0, 0, 0, 4, 3, 2, 1]);
        for offset in [5, 100, usize::MAX] {
            variable.offset = offset;
            variable.write(&mut section, 7);
        }
        variable.offset = 0;
        variable.size = 17;
        variable.write(&mut section, 7);
        assert_eq!(section, [0, 0, 0, 0, 4, 3, 2, 1]);
    }
}
