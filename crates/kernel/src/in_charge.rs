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

/// The scheduler in charge.
#[derive(Debug)]
pub struct InCharge {
    name: String,
    /// Id of the type information of its maps and programs; `None` if it has none.
    types: Option<u32>,
}

impl InCharge {
    /// The scheduler in charge; `None` if that is the kernel's own.
    pub fn find(action: &'static str) -> Result<Option<Self>, Error> {
        host::check_root(action)?;
        let Some(name) = host::loaded_scheduler() else { return Ok(None) };
        let types = type_information()?;
        Ok(Some(Self { name, types }))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its numeric global constants, by name; empty if it has none.
    pub fn constants(&self) -> Result<BTreeMap<String, i128>, Error> {
        let holds_constants = |info: &MapInfo| {
            info.ty == MapType::Array && info.name.to_string_lossy().ends_with(CONSTANTS)
        };
        let Some(map) = self.find_map(holds_constants) else { return Ok(BTreeMap::new()) };
        let read = || MapHandle::from_map_id(map.id)?.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let section = read().map_err(|error| Error::Setup {
            name: "constants of the scheduler in charge".to_owned(),
            reason: format!("they cannot be read: {error}"),
        })?;
        let section = section.unwrap_or_default();
        let numbers = Variable::all_in(CONSTANTS, &types(map.btf_id)?).into_iter();
        Ok(numbers.filter_map(|one| Some((one.name.clone(), one.number(&section)?))).collect())
    }

    /// Its map of this name and kind.
    pub(crate) fn map(&self, name: &str, kind: MapType) -> Option<MapInfo> {
        self.find_map(|info| info.name == name && info.ty == kind)
    }

    fn find_map(&self, is_it: impl Fn(&MapInfo) -> bool) -> Option<MapInfo> {
        let is_own = |info: &MapInfo| Some(info.btf_id) == self.types;
        MapInfoIter::default().find(|info| is_own(info) && is_it(info))
    }
}

/// The type information with this id.
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
fn type_information() -> Result<Option<u32>, Error> {
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
