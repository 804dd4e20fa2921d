//! Turns bytes of C types into values of a companion file: the reverse of a companion.

use std::fmt::{self, Display, Formatter};

use fairground_bpf::{Btf, TypeId, TypeKind};

/// A value, which prints itself as TOML on one line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Number(i64),
    Real(f64),
    Truth(bool),
    /// An expression that is a text.
    Text(String),
    List(Vec<Value>),
    Table(Vec<(String, Value)>),
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => number.fmt(f),
            Value::Real(number) => write!(f, "{number:?}"),
            Value::Truth(truth) => truth.fmt(f),
            Value::Text(text) => write!(f, "'\"{text}\"'"),
            Value::List(values) => {
                let values: Vec<String> = values.iter().map(Value::to_string).collect();
                write!(f, "[{}]", values.join(", "))
            }
            Value::Table(members) => {
                let members: Vec<String> =
                    members.iter().map(|(name, value)| format!("{name} = {value}")).collect();
                write!(f, "{{ {} }}", members.join(", "))
            }
        }
    }
}

/// The part of a value of `type_id` in `bytes` that differs from `before`; `None` if none does.
pub(crate) fn changed(btf: &Btf, type_id: TypeId, bytes: &[u8], before: &[u8]) -> Option<Value> {
    if bytes == before {
        return None;
    }
    match btf.resolved(type_id) {
        TypeKind::Structure { members, .. } => {
            let mut found = Vec::new();
            for one in members {
                let value = if one.bit_size > 0 {
                    let number = bits(bytes, one.bit_offset as usize, one.bit_size as usize);
                    let old = bits(before, one.bit_offset as usize, one.bit_size as usize);
                    (number != old).then_some(Value::Number(number))
                } else {
                    let start = (one.bit_offset / 8) as usize;
                    let end = start + btf.size_of(one.type_id).unwrap_or(0) as usize;
                    match (bytes.get(start..end), before.get(start..end)) {
                        (Some(new), Some(old)) => changed(btf, one.type_id, new, old),
                        _ => None,
                    }
                };
                match (value, one.name.is_empty()) {
                    (Some(Value::Table(inner)), true) => found.extend(inner),
                    (Some(value), false) => found.push((one.name.clone(), value)),
                    _ => {}
                }
            }
            Some(Value::Table(found))
        }
        TypeKind::Union { members, size } => {
            // A member of the size of the union covers all of it, in any use.
            let whole =
                members.iter().find(|one| btf.size_of(one.type_id) == Some(u64::from(*size)))?;
            let value = changed(btf, whole.type_id, bytes, before)?;
            Some(match whole.name.is_empty() {
                true => value,
                false => Value::Table(vec![(whole.name.clone(), value)]),
            })
        }
        TypeKind::Array { element, .. } => Some(list(btf, *element, bytes, before)),
        _ => scalar(btf, type_id, bytes),
    }
}

/// The elements of an array up to the last one that differs.
pub(crate) fn list(btf: &Btf, element: TypeId, bytes: &[u8], before: &[u8]) -> Value {
    let size = (btf.size_of(element).unwrap_or(1) as usize).max(1);
    if let (1, Some(text)) = (size, text(bytes)) {
        return Value::Text(text);
    }
    let parts = bytes.chunks(size).zip(before.chunks(size));
    let last = parts.clone().rposition_difference();
    let values = parts.take(last);
    let whole = values.map(|(new, _)| complete(btf, element, new));
    Value::List(whole.collect())
}

/// The number of elements up to the last one that differs.
trait LastDifference {
    fn rposition_difference(self) -> usize;
}

impl<'a, I: Iterator<Item = (&'a [u8], &'a [u8])>> LastDifference for I {
    fn rposition_difference(self) -> usize {
        let differing = self.enumerate().filter(|(_, (new, old))| new != old);
        differing.last().map_or(0, |(index, _)| index + 1)
    }
}

/// A value with all its members.
pub(crate) fn complete(btf: &Btf, type_id: TypeId, bytes: &[u8]) -> Value {
    let nothing = vec![0; bytes.len()];
    match changed(btf, type_id, bytes, &nothing) {
        Some(value) => value,
        None => match btf.resolved(type_id) {
            TypeKind::Structure { .. } | TypeKind::Union { .. } => Value::Table(Vec::new()),
            TypeKind::Array { .. } => Value::List(Vec::new()),
            TypeKind::Integer { boolean: true, .. } => Value::Truth(false),
            _ => Value::Number(0),
        },
    }
}

fn scalar(btf: &Btf, type_id: TypeId, bytes: &[u8]) -> Option<Value> {
    let length = bytes.len().min(8);
    let number = bits(bytes, 0, length * 8);
    let spare = 64 - 8 * length as u32;
    Some(match btf.resolved(type_id) {
        TypeKind::Integer { boolean: true, .. } => Value::Truth(number != 0),
        TypeKind::Integer { signed: true, .. } | TypeKind::Enumeration { signed: true, .. } => {
            Value::Number(number << spare >> spare)
        }
        TypeKind::Integer { .. } | TypeKind::Enumeration { .. } | TypeKind::Pointer(_) => {
            Value::Number(number)
        }
        TypeKind::Float { size: 4 } => Value::Real(f64::from(f32::from_bits(number as u32))),
        TypeKind::Float { .. } => Value::Real(f64::from_bits(number.cast_unsigned())),
        _ => return None,
    })
}

/// A number of up to 64 bits at any place in `bytes`.
fn bits(bytes: &[u8], offset: usize, size: usize) -> i64 {
    let bit = |at: usize| bytes.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1);
    let set = (0..size).filter(|index| bit(offset + index));
    set.fold(0_u64, |number, index| number | 1 << index).cast_signed()
}

/// A printable text that ends with a zero.
fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    let (text, rest) = bytes.split_at(end);
    let printable =
        |byte: &u8| (b' '..=b'~').contains(byte) && !matches!(byte, b'"' | b'\'' | b'\\');
    (end > 1 && text.iter().all(printable) && rest.iter().all(|byte| *byte == 0))
        .then(|| String::from_utf8_lossy(text).into_owned())
}
