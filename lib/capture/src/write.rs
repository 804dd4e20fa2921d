//! Writes the companion file of a loader's actions.

use std::fmt::Write as _;

use fairground_bpf::{Object, StructOps, StructOpsValue, TypeId, TypeKind, map_kind};

use crate::calls::{Run, State};
use crate::decode::{self, Value};
use crate::kernel_btf::TABLE_OFFSET;
use crate::maps::{Map, by_cpu, is_per_cpu};

fn table(object: &Object) -> Option<&StructOps> {
    let mut tables = object.struct_ops().iter();
    tables.find(|table| table.type_name == "sched_ext_ops")
}

/// `ops.name` in the object.
pub(crate) fn scheduler_name(object: &Object) -> String {
    let member =
        table(object).and_then(|table| table.members.iter().find(|one| one.name == "name"));
    member.map(|one| one.value.text()).unwrap_or_default()
}

/// The text of the companion.
pub(crate) fn companion(object: &Object, state: &State, from: &str) -> String {
    let mut text = String::from("# The loader's actions until it had attached its scheduler.\n");
    line(&mut text, format_args!("scheduler = {:?}", scheduler_name(object)));
    line(&mut text, format_args!("from = {from:?}"));
    programs(&mut text, object, state);
    operations(&mut text, object, state);
    let maps: Vec<(&Map, Vec<u8>)> =
        state.maps().map(|(map, contents)| (map, contents.unwrap_or_default())).collect();
    variables(&mut text, object, &maps);
    map_sizes(&mut text, object, &maps);
    entries(&mut text, object, state, &maps);
    for run in &state.runs {
        write_run(&mut text, object, run);
    }
    text
}

/// Writing into a text cannot fail.
fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "{arguments}");
}

/// Programs that were loaded although the object does not say so, or the other way round. Callbacks follow the table.
fn programs(text: &mut String, object: &Object, state: &State) {
    let others = object.programs().iter().filter(|one| !one.is_callback());
    let mut title = "\n[load]\n";
    for program in others {
        let load = state.loaded.contains(&program.name);
        if load != program.autoload {
            line(text, format_args!("{title}{} = {load}", program.name));
            title = "";
        }
    }
}

fn operations(text: &mut String, object: &Object, state: &State) {
    let (Some(table), Some(given)) = (table(object), state.table()) else { return };
    line(text, format_args!("\n[ops]"));
    for member in &table.members {
        let start = TABLE_OFFSET + member.offset as usize;
        let StructOpsValue::Data(before) = &member.value else {
            let program = given.get(start..start + size_of::<u64>());
            if program.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0)) {
                line(text, format_args!("{} = false", member.name));
            }
            continue;
        };
        let Some(bytes) = given.get(start..start + before.len()) else { continue };
        let is_pointer = matches!(object.btf().resolved(member.type_id), TypeKind::Pointer(_));
        if let (false, Some(value)) =
            (is_pointer, decode::changed(object.btf(), member.type_id, bytes, before))
        {
            line(text, format_args!("{} = {value}", member.name));
        }
    }
}

fn variables(text: &mut String, object: &Object, maps: &[(&Map, Vec<u8>)]) {
    line(text, format_args!("\n[global]"));
    for (map, contents) in maps {
        let Some(section) = map.section(object) else { continue };
        let mut before = section.data.clone();
        before.resize(contents.len().max(section.size as usize), 0);
        for variable in &section.variables {
            // The constants of scx's headers and the buffers for dumps are left to the simulated kernel to fill in.
            let is_dump_length = variable.name.ends_with("_dump_len");
            if variable.name.starts_with("__SCX_") || is_dump_length {
                continue;
            }
            let start = variable.offset as usize;
            let mut end = start + variable.size as usize;
            let btf = object.btf();
            let mut type_id = variable.type_id;
            let is_alone = section.variables.len() == 1 && contents.len() > end;
            if let (true, TypeKind::Array { element, .. }) = (is_alone, btf.resolved(type_id)) {
                type_id = *element;
                end = contents.len();
            }
            let (Some(new), Some(old)) = (contents.get(start..end), before.get(start..end)) else {
                continue;
            };
            let value = match (new == old, type_id == variable.type_id) {
                (true, _) => continue,
                (_, true) => decode::changed(btf, type_id, new, old),
                (_, false) => Some(decode::list(btf, type_id, new, old)),
            };
            if let Some(value) = value {
                line(text, format_args!("{:?} = {value}", variable.name));
            }
        }
    }
}

fn map_sizes(text: &mut String, object: &Object, maps: &[(&Map, Vec<u8>)]) {
    for (map, _) in maps {
        if let Some(one) = map.definition(object)
            && one.max_entries != map.max_entries
        {
            line(text, format_args!("\n[map.{}]", one.name));
            line(text, format_args!("max_entries = {}", map.max_entries));
        }
    }
}

fn entries(text: &mut String, object: &Object, state: &State, maps: &[(&Map, Vec<u8>)]) {
    for (map, _) in maps {
        let Some(one) = map.definition(object) else { continue };
        for (key, value) in &map.entries {
            let value = match (map.kind, &one.inner) {
                (map_kind::ARRAY_OF_MAPS | map_kind::HASH_OF_MAPS, Some(inner)) => {
                    new_map(object, state, inner, value)
                }
                _ => format!("value = {}", one_value(object, one, value)),
            };
            line(text, format_args!("\n[[entry]]"));
            line(text, format_args!("map = {:?}", one.name));
            line(text, format_args!("key = {}", plain(object, one.key_type, key)));
            line(text, format_args!("{value}"));
        }
    }
}

/// A map inside another, where it is known by its number.
fn new_map(object: &Object, state: &State, inner: &fairground_bpf::Map, value: &[u8]) -> String {
    let number = value.try_into().map_or(0, u32::from_le_bytes);
    let Some(map) = state.inner_map(number) else { return String::new() };
    let mut text = format!("max_entries = {}", map.max_entries);
    if !map.entries.is_empty() {
        text.push_str("\ninside = [\n");
        for (key, value) in &map.entries {
            let key = plain(object, inner.key_type, key);
            let value = one_value(object, inner, value);
            line(&mut text, format_args!("\t{{ key = {key}, value = {value} }},"));
        }
        text.push(']');
    }
    text
}

/// The value of an entry in a map that holds no maps.
fn one_value(object: &Object, map: &fairground_bpf::Map, bytes: &[u8]) -> String {
    match is_per_cpu(map.kind) {
        true => per_cpu(object, map, bytes),
        false => plain(object, map.value_type, bytes).to_string(),
    }
}

/// One value per CPU: a list, indexed by the CPU.
fn per_cpu(object: &Object, map: &fairground_bpf::Map, bytes: &[u8]) -> String {
    let parts = by_cpu(map.value_size as usize, bytes).map(|part| {
        let length = part.len().min(map.value_size as usize);
        plain(object, map.value_type, &part[..length])
    });
    let parts: Vec<String> = parts.map(|value| expression(&value)).collect();
    format!("'[{}][cpu.id]'", parts.join(", "))
}

/// A value as an expression.
fn expression(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("\"{text}\""),
        Value::List(values) => {
            let values: Vec<String> = values.iter().map(expression).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Table(members) => {
            let members: Vec<String> = members
                .iter()
                .map(|(name, value)| format!("\"{name}\": {}", expression(value)))
                .collect();
            format!("#{{{}}}", members.join(", "))
        }
        other => other.to_string(),
    }
}

fn plain(object: &Object, type_id: Option<TypeId>, bytes: &[u8]) -> Value {
    match type_id {
        Some(type_id) => decode::complete(object.btf(), type_id, bytes),
        None => {
            let mut word = [0; 8];
            let length = bytes.len().min(8);
            word[..length].copy_from_slice(&bytes[..length]);
            Value::Number(i64::from_le_bytes(word))
        }
    }
}

fn write_run(text: &mut String, object: &Object, run: &Run) {
    line(text, format_args!("\n[[run]]"));
    line(text, format_args!("program = {:?}", run.program));
    if run.after_attach {
        line(text, format_args!("when = \"after-attach\""));
    }
    if run.cpu != 0 {
        line(text, format_args!("cpu = {}", run.cpu));
    }
    if let Some(type_id) = context_type(object, &run.program) {
        let value = decode::complete(object.btf(), type_id, &run.context);
        if value != Value::Table(Vec::new()) {
            line(text, format_args!("context = {value}"));
        }
    }
}

/// The type of a program's context: the type to which its only parameter points.
fn context_type(object: &Object, program: &str) -> Option<TypeId> {
    let btf = object.btf();
    let prototype = btf.types().iter().find_map(|one| match one.kind {
        TypeKind::Function { prototype, .. } if one.name == program => Some(prototype),
        _ => None,
    })?;
    let TypeKind::Prototype { parameters, .. } = btf.resolved(prototype) else { return None };
    match *btf.resolved(parameters.first()?.1) {
        TypeKind::Pointer(target) => btf.size_of(target).map(|_| target),
        _ => None,
    }
}
