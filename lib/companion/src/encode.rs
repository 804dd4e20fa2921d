//! Values as the bytes of C types, and the places at which paths find them.

use fairground_bpf::{Btf, Object, TypeId, TypeKind};
use rhai::{Array, Dynamic, Map};

/// A place inside a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// Its type.
    pub type_id: TypeId,
    /// Offset in bits.
    pub bit_offset: usize,
    /// Size in bits if it is a bit field, otherwise 0.
    pub bit_size: usize,
}

impl Spot {
    pub(crate) fn of(type_id: TypeId) -> Self {
        Self { type_id, bit_offset: 0, bit_size: 0 }
    }

    pub(crate) fn offset(self) -> usize {
        self.bit_offset / 8
    }
}

/// One step of a path.
enum Step<'a> {
    Member(&'a str),
    Index(usize),
}

/// The name in `NAME?`: of something that only some releases of the scheduler have, which is set where it is there.
pub(crate) fn in_some_releases(name: &str) -> Option<&str> {
    name.strip_suffix('?')
}

/// The variable at the beginning of `path`: section, variable, and the rest of the path.
pub(crate) fn find_variable<'p>(object: &Object, path: &'p str) -> Option<(usize, usize, &'p str)> {
    // Static variables of functions have a dot in their names, so the longest name wins.
    let ends = path
        .char_indices()
        .filter(|(_, character)| matches!(character, '.' | '['))
        .map(|(at, _)| at)
        .chain([path.len()]);
    let mut ends: Vec<usize> = ends.collect();
    ends.reverse();
    for end in ends {
        for (number, section) in object.sections().iter().enumerate() {
            let variables = &section.variables;
            if let Some(index) = variables.iter().position(|one| one.name == path[..end]) {
                return Some((number, index, &path[end..]));
            }
        }
    }
    None
}

/// Follows `path` (`.member[3].other`) from a value of type `start`.
pub(crate) fn follow(btf: &Btf, start: TypeId, path: &str) -> Result<Spot, String> {
    let mut spot = Spot::of(start);
    let mut rest = path;
    while !rest.is_empty() {
        let (step, after) = step(rest)?;
        spot = match step {
            Step::Member(name) => member(btf, spot, name)?,
            Step::Index(index) => element(btf, spot, index)?,
        };
        rest = after;
    }
    Ok(spot)
}

fn step(path: &str) -> Result<(Step<'_>, &str), String> {
    let wrong = || format!("{path:?} is neither .member nor [index]");
    if let Some(rest) = path.strip_prefix('.') {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if name.is_empty() {
            return Err(wrong());
        }
        return Ok((Step::Member(name), after));
    }
    let rest = path.strip_prefix('[').ok_or_else(wrong)?;
    let (index, after) = rest.split_once(']').ok_or_else(wrong)?;
    let index = index.trim().parse().map_err(|_| wrong())?;
    Ok((Step::Index(index), after))
}

fn element(btf: &Btf, spot: Spot, index: usize) -> Result<Spot, String> {
    let TypeKind::Array { element, count } = *btf.resolved(spot.type_id) else {
        return Err(format!("[{index}] of something that is {}", describe(btf, spot.type_id)));
    };
    if index >= count as usize {
        return Err(format!("[{index}] of an array of {count}"));
    }
    let size = btf.size_of(element).unwrap_or(0) as usize;
    Ok(Spot { type_id: element, bit_offset: spot.bit_offset + index * size * 8, bit_size: 0 })
}

fn member(btf: &Btf, spot: Spot, name: &str) -> Result<Spot, String> {
    let Some(names) = find_member(btf, spot, name)? else {
        let known = member_names(btf, spot.type_id);
        return Err(format!(
            "{} has no member {name:?}; it has {}",
            describe(btf, spot.type_id),
            known.join(", ")
        ));
    };
    Ok(names)
}

/// The member called `name`; anonymous structures are searched, too.
fn find_member(btf: &Btf, spot: Spot, name: &str) -> Result<Option<Spot>, String> {
    let (TypeKind::Structure { members, .. } | TypeKind::Union { members, .. }) =
        btf.resolved(spot.type_id)
    else {
        return Err(format!(
            "member {name:?} of something that is {}",
            describe(btf, spot.type_id)
        ));
    };
    for one in members {
        let inner = Spot {
            type_id: one.type_id,
            bit_offset: spot.bit_offset + one.bit_offset as usize,
            bit_size: one.bit_size as usize,
        };
        if one.name == name {
            return Ok(Some(inner));
        }
        let is_compound = matches!(
            btf.resolved(one.type_id),
            TypeKind::Structure { .. } | TypeKind::Union { .. }
        );
        if one.name.is_empty() && is_compound {
            if let Some(found) = find_member(btf, inner, name)? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

fn member_names(btf: &Btf, type_id: TypeId) -> Vec<&str> {
    match btf.resolved(type_id) {
        TypeKind::Structure { members, .. } | TypeKind::Union { members, .. } => {
            members.iter().map(|one| one.name.as_str()).filter(|name| !name.is_empty()).collect()
        }
        _ => Vec::new(),
    }
}

/// The description of a type, for messages.
pub(crate) fn describe(btf: &Btf, type_id: TypeId) -> String {
    let name = &btf.get(type_id).name;
    let what = match btf.resolved(type_id) {
        TypeKind::Integer { boolean: true, .. } => "a truth value".to_owned(),
        TypeKind::Integer { size, signed, .. } => {
            let kind = if *signed { "a signed" } else { "an unsigned" };
            format!("{kind} number of {} bits", size * 8)
        }
        TypeKind::Enumeration { .. } => "a value of an enumeration".to_owned(),
        TypeKind::Float { .. } => "a floating-point number".to_owned(),
        TypeKind::Pointer(_) => "a pointer".to_owned(),
        TypeKind::Array { element, count } => {
            format!("an array of {count}, each {}", describe(btf, *element))
        }
        TypeKind::Structure { .. } => "a structure".to_owned(),
        TypeKind::Union { .. } => "a union".to_owned(),
        _ => "of no size".to_owned(),
    };
    if name.is_empty() || matches!(btf.get(type_id).kind, TypeKind::Integer { .. }) {
        what
    } else {
        format!("{what} ({name})")
    }
}

/// Writes `value` to `bytes`, the memory that contains `spot`.
pub(crate) fn write(
    btf: &Btf,
    spot: Spot,
    value: &Dynamic,
    bytes: &mut [u8],
) -> Result<(), String> {
    match btf.resolved(spot.type_id) {
        TypeKind::Array { element, count } => {
            write_array(btf, spot, *element, *count, value, bytes)
        }
        TypeKind::Structure { .. } | TypeKind::Union { .. } => {
            let map = value.read_lock::<Map>().ok_or_else(|| {
                let known = member_names(btf, spot.type_id).join(", ");
                format!("{value} is not a table of members; there are {known}")
            })?;
            for (name, value) in map.iter() {
                let inner = match in_some_releases(name) {
                    Some(name) => match find_member(btf, spot, name)? {
                        Some(inner) => inner,
                        None => continue,
                    },
                    None => member(btf, spot, name)?,
                };
                write(btf, inner, value, bytes).map_err(|problem| format!("{name}: {problem}"))?;
            }
            Ok(())
        }
        TypeKind::Float { size } => {
            let number = value
                .as_float()
                .or_else(|_| value.as_int().map(|number| number as f64))
                .map_err(|kind| format!("a number is needed, not {kind}"))?;
            let encoded = if *size == 4 {
                (number as f32).to_le_bytes().to_vec()
            } else {
                number.to_le_bytes().to_vec()
            };
            put(spot.offset(), &encoded, bytes)
        }
        TypeKind::Integer { .. } | TypeKind::Enumeration { .. } | TypeKind::Pointer(_) => {
            write_number(btf, spot, value, bytes)
        }
        _ => Err(format!("{} cannot be set", describe(btf, spot.type_id))),
    }
}

fn write_array(
    btf: &Btf,
    spot: Spot,
    element: TypeId,
    count: u32,
    value: &Dynamic,
    bytes: &mut [u8],
) -> Result<(), String> {
    let size = btf.size_of(element).unwrap_or(0) as usize;
    if let Ok(text) = value.clone().into_immutable_string() {
        if size != 1 {
            return Err(format!("a text cannot be {}", describe(btf, spot.type_id)));
        }
        if text.len() >= count as usize {
            return Err(format!("{text:?} does not fit into {count} bytes with its end"));
        }
        let mut padded = text.as_bytes().to_vec();
        padded.resize(count as usize, 0);
        return put(spot.offset(), &padded, bytes);
    }
    let list = value
        .read_lock::<Array>()
        .ok_or_else(|| format!("a list is needed for {}", describe(btf, spot.type_id)))?;
    if list.len() > count as usize {
        return Err(format!("{} values for an array of {count}", list.len()));
    }
    for (index, value) in list.iter().enumerate() {
        let inner =
            Spot { type_id: element, bit_offset: spot.bit_offset + index * size * 8, bit_size: 0 };
        write(btf, inner, value, bytes).map_err(|problem| format!("[{index}]: {problem}"))?;
    }
    Ok(())
}

fn write_number(btf: &Btf, spot: Spot, value: &Dynamic, bytes: &mut [u8]) -> Result<(), String> {
    let number = match value.as_bool() {
        Ok(truth) => i128::from(truth),
        Err(_) => i128::from(value.as_int().map_err(|kind| {
            format!("a whole number is needed for {}, not {kind}", describe(btf, spot.type_id))
        })?),
    };
    let size = btf.size_of(spot.type_id).unwrap_or(8) as usize;
    let signed = matches!(
        btf.resolved(spot.type_id),
        TypeKind::Integer { signed: true, .. } | TypeKind::Enumeration { signed: true, .. }
    );
    let boolean = matches!(btf.resolved(spot.type_id), TypeKind::Integer { boolean: true, .. });
    let bits = match spot.bit_size {
        0 => size * 8,
        bits => bits,
    };
    let (low, high): (i128, i128) = match (boolean, signed) {
        (true, _) => (0, 1),
        (_, true) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        // Expressions have signed 64-bit numbers, in which a constant such as SCX_SLICE_INF is -1.
        _ if bits == 64 => (i128::from(i64::MIN), i128::from(u64::MAX)),
        _ => (0, (1 << bits) - 1),
    };
    if number < low || number > high {
        return Err(format!(
            "{number} does not fit into {}: {low} to {high}",
            describe(btf, spot.type_id)
        ));
    }
    if spot.bit_size == 0 {
        return put(spot.offset(), &number.to_le_bytes()[..size], bytes);
    }
    for bit in 0..spot.bit_size {
        let at = spot.bit_offset + bit;
        let byte = bytes.get_mut(at / 8).ok_or("outside of the variable")?;
        let set = u8::from(number >> bit & 1 == 1) << (at % 8);
        *byte = *byte & !(1 << (at % 8)) | set;
    }
    Ok(())
}

fn put(offset: usize, value: &[u8], bytes: &mut [u8]) -> Result<(), String> {
    let target = bytes.get_mut(offset..offset + value.len()).ok_or("outside of the variable")?;
    target.copy_from_slice(value);
    Ok(())
}
