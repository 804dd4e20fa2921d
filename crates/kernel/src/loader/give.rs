//! Gives libbpf what a scheduler begins with.

use fairground_bpf::{Object as Parsed, Prepared, Setup, StructOpsValue};
use libbpf_rs::{MapType, OpenMapMut, OpenObject};

use super::sections::find_section;

/// Section of global variables in the arena, which libbpf fills from the object.
const ARENA: &str = ".addr_space.1";

/// The names of global variables that `setup` writes and that are in the arena, where only the simulator can give them values.
pub(super) fn in_arena<'o>(parsed: &'o Parsed, setup: &Setup) -> Vec<&'o str> {
    let mut names = Vec::new();
    for patch in &setup.variables {
        let section = &parsed.sections()[patch.section];
        let end = patch.offset + patch.bytes.len();
        let written = section.variables.iter().filter(|variable| {
            let start = variable.offset as usize;
            section.name == ARENA && start < end && patch.offset < start + variable.size as usize
        });
        names.extend(written.map(|variable| variable.name.as_str()));
    }
    names
}

/// Makes libbpf's `object` begin as `prepared` says, which was computed for `parsed`, the same object.
pub(super) fn give(
    object: &mut OpenObject,
    parsed: &Parsed,
    prepared: &Prepared,
) -> Result<(), String> {
    for mut program in object.progs_mut() {
        let is_it = |name: &str| program.name() == name;
        let mut programs = parsed.programs().iter().filter(|one| !one.is_callback());
        if let Some(known) = programs.find(|one| is_it(&one.name)) {
            program.set_autoload(known.autoload);
        }
    }
    for (map, entries) in parsed.maps().iter().zip(&prepared.map_entries) {
        if map.max_entries != *entries {
            resize(object, &map.name, *entries)?;
        }
    }
    for (section, bytes) in parsed.sections().iter().zip(&prepared.sections) {
        let name = section.name.as_str();
        // libbpf makes no map of an empty section.
        if name != ARENA && !bytes.is_empty() {
            let map = find_section(object, name);
            fill(map, bytes).map_err(|error| {
                format!("{} bytes of {name} cannot be set: {error}", bytes.len())
            })?;
        }
    }
    for map in object.maps_mut() {
        if map.map_type() == MapType::StructOps {
            give_table(map, parsed, prepared)?;
        }
    }
    Ok(())
}

fn resize(object: &mut OpenObject, name: &str, entries: u32) -> Result<(), String> {
    let map = object.maps_mut().find(|map| map.name() == name);
    let mut map = map.ok_or_else(|| format!("libbpf knows no map {name}"))?;
    map.set_max_entries(entries)
        .map_err(|error| format!("map {name} cannot have {entries} entries: {error}"))
}

fn fill(section: Option<OpenMapMut<'_>>, bytes: &[u8]) -> Result<(), String> {
    let mut section = section.ok_or("libbpf knows no such section")?;
    if section.initial_value().is_none_or(|value| value.len() != bytes.len()) {
        let length = u32::try_from(bytes.len()).map_err(|error| error.to_string())?;
        let resized = section.set_value_size(length);
        resized.map_err(|error| error.to_string())?;
    }
    section.set_initial_value(bytes).map_err(|error| error.to_string())
}

/// Sets the changed members of the table of callbacks that is meant; of other schedulers' tables, nothing is loaded.
fn give_table(mut map: OpenMapMut<'_>, parsed: &Parsed, prepared: &Prepared) -> Result<(), String> {
    let name = map.name().to_string_lossy().into_owned();
    let mut tables = parsed.struct_ops().iter();
    let Some(table) = tables.find(|table| table.name == name) else {
        let left_out = map.set_autocreate(false);
        return left_out.map_err(|error| error.to_string());
    };
    if prepared.operations.name != name {
        return Ok(());
    }
    let bytes = map.initial_value_mut().unwrap_or_default();
    for (member, before) in prepared.operations.members.iter().zip(&table.members) {
        // In the place of a callback, libbpf keeps a pointer to its own data on the program.
        let StructOpsValue::Data(value) = &member.value else { continue };
        if member.value != before.value {
            let start = usize::try_from(member.offset).unwrap_or(usize::MAX);
            bytes
                .get_mut(start..start.saturating_add(value.len()))
                .ok_or_else(|| format!("ops.{} lies outside its table", member.name))?
                .copy_from_slice(value);
        }
    }
    Ok(())
}
