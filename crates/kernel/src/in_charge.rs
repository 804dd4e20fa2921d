//! Data that the scheduler in charge keeps in the kernel for others to read.
//!
//! All maps of an object share its type information. The type information of the newest scheduler link distinguishes the maps of the
//! scheduler in charge from those of older ones that the kernel has removed without their loaders noticing.

use std::collections::BTreeMap;

use fairground_bpf::{CONSTANTS, SCHEDULER_TABLES, Variable};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Struct;
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, MapInfo, MapInfoIter, ProgInfoIter};
use libbpf_rs::{AsRawLibbpf as _, MapCore as _, MapFlags, MapHandle, MapType};

use crate::{Error, host};

/// The numeric global constants of the scheduler in charge, by name; empty if there is no scheduler or it has none.
///
/// # Errors
/// Not root, or the kernel does not provide them.
pub fn constants() -> Result<BTreeMap<String, i128>, Error> {
    host::check_root("reading a scheduler's constants")?;
    let Some(id) = type_information()? else {
        return Ok(BTreeMap::new());
    };
    let holds_constants = |name: &str| name.ends_with(CONSTANTS);
    let map = MapInfoIter::default().find(|info| {
        info.btf_id == id
            && info.ty == MapType::Array
            && holds_constants(&info.name.to_string_lossy())
    });
    let Some(map) = map else {
        return Ok(BTreeMap::new());
    };
    let read = || MapHandle::from_map_id(map.id)?.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
    let section = read().map_err(|error| Error::Setup {
        name: "constants of the scheduler in charge".to_owned(),
        reason: format!("they cannot be read: {error}"),
    })?;
    let section = section.unwrap_or_default();
    let numbers = Variable::all_in(CONSTANTS, &types(id)?).into_iter();
    let numbers = numbers.filter_map(|one| Some((one.name.clone(), one.number(&section)?)));
    Ok(numbers.collect())
}

/// A map of the scheduler in charge.
///
/// # Errors
/// The kernel's types cannot be read.
pub(crate) fn map(name: &str, kind: MapType) -> Result<Option<MapInfo>, Error> {
    let types = type_information()?;
    let of_scheduler = |info: &MapInfo| Some(info.btf_id) == types;
    let found = MapInfoIter::default()
        .find(|info| info.name == name && info.ty == kind && of_scheduler(info));
    Ok(found)
}

/// The type information with this id.
///
/// # Errors
/// It is gone, or cannot be read.
pub(crate) fn types(id: u32) -> Result<fairground_bpf::Btf, Error> {
    let failed = |reason: String| Error::Setup {
        name: "types of the scheduler in charge".to_owned(),
        reason: format!("they cannot be read: {reason}"),
    };
    let program = ProgInfoIter::default().find(|program| program.btf_id == id);
    let program = program.ok_or_else(|| failed("it has no program".to_owned()))?;
    let types = Btf::from_prog_id(program.id).map_err(|error| failed(error.to_string()))?;
    let mut size = 0;
    // SAFETY: the bytes belong to `types`, which lives until they have been read.
    let bytes = unsafe {
        let bytes = libbpf_sys::btf__raw_data(types.as_libbpf_object().as_ptr(), &raw mut size);
        if bytes.is_null() {
            return Err(failed("there is no memory".to_owned()));
        }
        std::slice::from_raw_parts(bytes.cast::<u8>(), size as usize)
    };
    fairground_bpf::Btf::parse(bytes).map_err(|error| failed(error.to_string()))
}

/// Id of the type information shared by all maps and programs of the scheduler in charge.
pub(crate) fn type_information() -> Result<Option<u32>, Error> {
    if host::loaded_scheduler().is_none() {
        return Ok(None);
    }
    let kernel = Btf::from_vmlinux().map_err(|error| Error::Setup {
        name: "scheduler in charge".to_owned(),
        reason: format!("the kernel's types cannot be read: {error}"),
    })?;
    let types: Vec<u32> = SCHEDULER_TABLES
        .iter()
        .filter_map(|table| {
            let found = kernel.type_by_name::<Struct<'_>>(&format!("bpf_struct_ops_{table}"))?;
            Some(found.type_id().into())
        })
        .collect();
    let links = LinkInfoIter::default().filter_map(|link| match link.info {
        LinkTypeInfo::StructOps(table) => Some((link.id, table.map_id)),
        _ => None,
    });
    let tables: Vec<(u32, u32)> = links.collect();
    let newest = MapInfoIter::default()
        .filter(|map| types.contains(&map.btf_vmlinux_value_type_id))
        .filter_map(|map| {
            let (link, _) = tables.iter().find(|(_, table)| *table == map.id)?;
            Some((*link, map.btf_id))
        })
        .max();
    Ok(newest.map(|(_, btf)| btf))
}
