//! A compiled scheduler's own description of itself.

use std::path::Path;

use fairground_bpf::{Object, Variable, VariableKind};
use fairground_contract::{attributes, topology};
use fairground_machine::{Machine, Online};

use crate::error::Error;
use crate::manifest::Manifest;
use crate::tunable::{IntegerType, Tunable, Unit};

/// The map that holds the counters.
const STATISTICS: &str = "statistics";

/// The `const volatile` numbers of an object, with their compiled values: they may be set before it is loaded. Those that loaders fill in are
/// left out: the topology, and the variables of scx's headers (`__SCX_…`, the lengths of dumps).
pub fn tunables(object: &Object) -> Vec<Tunable> {
    let nowhere = Machine {
        description: String::new(),
        cpus: Vec::new(),
        node_distances: Vec::new(),
        unknown_speeds: false,
        cgroup_mode: Default::default(),
        hardware: Default::default(),
        origins: Vec::new(),
        numbers: Vec::new(),
        notes: Vec::new(),
    };
    let filled = topology::variables(&Online::whole(&nowhere));
    let is_filled = |name: &str| filled.iter().any(|variable| variable.name == name);
    let constants = object.constants().into_iter();
    let tunables = constants.filter(|(one, _)| !is_filled(&one.name));
    let tunables = tunables.filter_map(|(variable, default)| {
        let integer_type = integer_type(variable)?;
        Some(Tunable {
            name: variable.name.clone(),
            integer_type,
            unit: if integer_type.boolean { Unit::None } else { Unit::of_name(&variable.name) },
            default,
            minimum: integer_type.minimum(),
            maximum: integer_type.maximum(),
            choices: Vec::new(),
            doc: String::new(),
        })
    });
    tunables.collect()
}

/// Checks a manifest against its object: its tunables are variables of the object with the same types and values, it names as many statistics
/// as there are counters, and it lists task attributes if the source reads any. `manifest_file` is the place that errors show.
pub fn check(manifest: &Manifest, manifest_file: &Path, object: &Object) -> Result<(), Error> {
    let wrong =
        |message: String| Error::Manifest { place: manifest_file.display().to_string(), message };
    let variables = tunables(object);
    for tunable in &manifest.tunables {
        let name = &tunable.name;
        let Some(variable) = variables.iter().find(|variable| variable.name == *name) else {
            return Err(wrong(format!(
                "tunable {name:?}: the source has no const volatile number of this name"
            )));
        };
        if variable.integer_type != tunable.integer_type {
            return Err(wrong(format!(
                "tunable {name:?} is {} here and {} in the source",
                tunable.integer_type.name(),
                variable.integer_type.name()
            )));
        }
        if variable.default != tunable.default {
            return Err(wrong(format!(
                "tunable {name:?} has the default {} here and {} in the source",
                tunable.default, variable.default
            )));
        }
    }
    let reads_attributes = object.maps().iter().any(|map| map.name == attributes::MAP);
    if reads_attributes == manifest.attributes.is_empty() {
        return Err(wrong(format!(
            "attributes {:?}, and the source has {} map {:?}",
            manifest.attributes,
            if reads_attributes { "a" } else { "no" },
            attributes::MAP
        )));
    }
    let counters = object
        .maps()
        .iter()
        .find(|map| map.name == STATISTICS)
        .map_or(0, |map| map.max_entries as usize);
    if !manifest.statistics.is_empty() && manifest.statistics.len() != counters {
        return Err(wrong(format!(
            "{} statistics here, {counters} counters in the source's map {STATISTICS:?}",
            manifest.statistics.len()
        )));
    }
    Ok(())
}

fn integer_type(variable: &Variable) -> Option<IntegerType> {
    let size = u32::try_from(variable.size).ok()?;
    let (signed, boolean) = match variable.kind {
        VariableKind::Integer { signed } | VariableKind::Enumeration { signed } => (signed, false),
        VariableKind::Boolean => (false, true),
        _ => return None,
    };
    matches!(size, 1 | 2 | 4 | 8).then_some(IntegerType { size, signed, boolean })
}
