//! What a scheduler begins with in the simulated kernel.

use fairground_bpf::{Given, Object, Prepared, StructOps, Value};
use fairground_contract::topology;
use fairground_linux::{CID_FORM, Release, member};
use fairground_machine::Online;

use crate::linker;
use crate::scheduler::LoadError;
use crate::simulation::Options;

/// What an object's scheduler begins with in runs with `options` while these CPUs are `online`.
pub(crate) fn prepare(
    object: &Object,
    options: &Options,
    online: &Online,
) -> Result<Prepared, LoadError> {
    let topology = topology::variables(online);
    let topology = topology.iter().map(|variable| Value {
        section: variable.section,
        name: variable.name,
        bytes: &variable.bytes,
        chosen: false,
    });
    let tunables = Value::of_tunables(&options.variables);
    let values: Vec<Value<'_>> = tunables.chain(topology).collect();
    let table = object.scheduler().map_err(LoadError::Table)?;
    let is_newer = newer_members(table, options.release);
    let given = Given {
        values: &values,
        constant: &|name| linker::enumerator(name, options.release),
        knows: &|name| !is_newer(name),
        hotplug_sequence: 0,
        setup: &options.setup,
    };
    object.prepare(&given).map_err(LoadError::Loader)
}

/// Whether a member of a table came after `release`. A member that no release has is another matter: it is refused.
pub(crate) fn newer_members(table: &StructOps, release: Release) -> impl Fn(&str) -> bool + use<> {
    let cid_form = table.type_name == CID_FORM;
    move |name| {
        member(name, cid_form).is_some_and(|one| {
            one.is_in(cid_form, Release::NEWEST) && !one.is_in(cid_form, release)
        })
    }
}

/// The sections that no program can change, by number, with their contents.
pub(crate) fn read_only(object: &Object, prepared: Prepared) -> Vec<(usize, Vec<u8>)> {
    let contents = prepared.sections.into_iter().enumerate();
    contents.filter(|(number, _)| object.sections()[*number].name.starts_with(".rodata")).collect()
}
