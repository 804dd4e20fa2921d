//! The contents of a scheduler's global variables when its programs are loaded.

use fairground_bpf::Object;
use fairground_machine::Online;

use crate::linker;
use crate::simulation::Options;

/// The values that runs with `options` give to variables when a scheduler is loaded, by name: those that the options name, and the topology of
/// the CPUs that are `online` then.
pub(crate) fn given(options: &Options, online: &Online) -> Vec<(String, Vec<u8>)> {
    let mut given = options.variables.clone();
    for variable in fairground_contract::topology::variables(online) {
        given.push((variable.name.to_owned(), variable.bytes));
    }
    given
}

/// Initial bytes of the object's section with this number: the values `given` to variables, those that scx's own loaders fill in, and those that
/// the setup writes.
pub(crate) fn initial_bytes(
    object: &Object,
    number: usize,
    given: &[(String, Vec<u8>)],
    options: &Options,
) -> Vec<u8> {
    let section = &object.sections()[number];
    let mut bytes = section.data.clone();
    bytes.resize(section.size as usize, 0);
    for variable in &section.variables {
        let range = variable.offset as usize..(variable.offset + variable.size) as usize;
        // scx's headers keep the kernel's constants in variables that the loader fills from the kernel's types.
        if let Some(name) = variable.name.strip_prefix("__")
            && variable.size == 8
            && name.starts_with("SCX_")
            && let Some(value) = linker::enumerator(name, options.release)
            && let Some(target) = bytes.get_mut(range.clone())
        {
            target.copy_from_slice(&value.to_le_bytes());
        }
        if let Some((_, value)) = given.iter().find(|(name, _)| *name == variable.name) {
            if value.len() as u64 > variable.size && section.variables.len() == 1 {
                bytes.clone_from(value);
            } else if let Some(target) = bytes.get_mut(range)
                && target.len() == value.len()
            {
                target.copy_from_slice(value);
            }
        }
    }
    for patch in options
        .setup
        .variables
        .iter()
        .filter(|one| one.section == number)
    {
        let end = patch.offset + patch.bytes.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[patch.offset..end].copy_from_slice(&patch.bytes);
    }
    bytes
}

/// The sections that no program can change, by number, with their contents in runs with `options` when these CPUs are `online`.
pub(crate) fn read_only(
    object: &Object,
    options: &Options,
    online: &Online,
) -> Vec<(usize, Vec<u8>)> {
    let given = given(options, online);
    let sections = object.sections().iter().enumerate();
    sections
        .filter(|(_, section)| section.name.starts_with(".rodata"))
        .map(|(number, _)| (number, initial_bytes(object, number, &given, options)))
        .collect()
}
