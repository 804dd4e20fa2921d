//! Maps defined in the `.maps` section by BTF (`__uint`, `__type`, `__array`,
//! `__ulong`).

use crate::btf::{Btf, TypeId, TypeKind};
use crate::error::{Error, malformed, unsupported};

/// Map types by the kernel's numbers (`enum bpf_map_type`).
pub mod kind {
    #![allow(missing_docs)]
    pub const HASH: u32 = 1;
    pub const ARRAY: u32 = 2;
    pub const PERF_EVENT_ARRAY: u32 = 4;
    pub const PERCPU_HASH: u32 = 5;
    pub const PERCPU_ARRAY: u32 = 6;
    pub const LRU_HASH: u32 = 9;
    pub const LRU_PERCPU_HASH: u32 = 10;
    pub const LPM_TRIE: u32 = 11;
    pub const ARRAY_OF_MAPS: u32 = 12;
    pub const HASH_OF_MAPS: u32 = 13;
    pub const QUEUE: u32 = 22;
    pub const STACK: u32 = 23;
    pub const RINGBUF: u32 = 27;
    pub const TASK_STORAGE: u32 = 29;
    pub const BLOOM_FILTER: u32 = 30;
    pub const USER_RINGBUF: u32 = 31;
    pub const CGROUP_STORAGE: u32 = 32;
    pub const ARENA: u32 = 33;

    /// The name of a map type, as sources write it.
    pub fn name(kind: u32) -> String {
        const NAMES: [&str; 35] = [
            "UNSPEC",
            "HASH",
            "ARRAY",
            "PROG_ARRAY",
            "PERF_EVENT_ARRAY",
            "PERCPU_HASH",
            "PERCPU_ARRAY",
            "STACK_TRACE",
            "CGROUP_ARRAY",
            "LRU_HASH",
            "LRU_PERCPU_HASH",
            "LPM_TRIE",
            "ARRAY_OF_MAPS",
            "HASH_OF_MAPS",
            "DEVMAP",
            "SOCKMAP",
            "CPUMAP",
            "XSKMAP",
            "SOCKHASH",
            "CGROUP_STORAGE",
            "REUSEPORT_SOCKARRAY",
            "PERCPU_CGROUP_STORAGE",
            "QUEUE",
            "STACK",
            "SK_STORAGE",
            "DEVMAP_HASH",
            "STRUCT_OPS",
            "RINGBUF",
            "INODE_STORAGE",
            "TASK_STORAGE",
            "BLOOM_FILTER",
            "USER_RINGBUF",
            "CGRP_STORAGE",
            "ARENA",
            "INSN_ARRAY",
        ];
        match NAMES.get(kind as usize) {
            Some(name) => format!("BPF_MAP_TYPE_{name}"),
            None => format!("number {kind}"),
        }
    }
}

/// A map, as the object defines it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Map {
    /// Name of the variable; for inner maps `<outer>.inner`.
    pub name: String,
    /// Number of the map type (`BPF_MAP_TYPE_*`).
    pub kind: u32,
    /// Size of a key in bytes.
    pub key_size: u32,
    /// Size of a value in bytes.
    pub value_size: u32,
    /// Capacity in entries (pages for an arena, bytes for a ring buffer).
    pub max_entries: u32,
    /// Flags (`BPF_F_*`).
    pub flags: u32,
    /// Additional 64-bit parameter, such as the address of an arena.
    pub map_extra: u64,
    /// Memory node to allocate on, if the object names one.
    pub numa_node: Option<u32>,
    /// Pinning mode (`LIBBPF_PIN_*`).
    pub pinning: u32,
    /// BTF type of the keys, if the object names it.
    pub key_type: Option<TypeId>,
    /// BTF type of the values, if the object names it.
    pub value_type: Option<TypeId>,
    /// Definition of the inner maps, for a map of maps.
    pub inner: Option<Box<Map>>,
    /// Values that a map of maps, or of programs, holds from the start.
    pub initial: Vec<(u32, InitialValue)>,
    /// Offset of the map's variable in the section.
    pub(crate) offset: u64,
    /// Offset of the member `values` in the section.
    pub(crate) values_offset: Option<u64>,
}

/// An entry that a map holds from the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InitialValue {
    /// A map, as index into [`crate::Object::maps`].
    Map(usize),
    /// The name of a program.
    Program(String),
}

impl Map {
    /// Reads the definition from the type of a variable.
    pub(crate) fn parse(
        btf: &Btf,
        name: &str,
        type_id: TypeId,
        offset: u64,
        is_inner: bool,
    ) -> Result<Map, Error> {
        let place = format!("section .maps, map {name}");
        let TypeKind::Structure { members, .. } = btf.resolved(type_id) else {
            return Err(malformed(place, "not a structure"));
        };
        let mut map = Map { name: name.to_owned(), offset, ..Map::default() };
        for member in members {
            let bad =
                |problem: &str| malformed(format!("{place}, member {}", member.name), problem);
            let number = || number(btf, member.type_id);
            let small = || {
                number()
                    .and_then(|number| u32::try_from(number).ok())
                    .ok_or_else(|| bad("not a number as __uint(name, number) makes it"))
            };
            let pointee = || match btf.resolved(member.type_id) {
                TypeKind::Pointer(target) => Ok(*target),
                _ => Err(bad("not a type as __type(name, type) makes it")),
            };
            let size = |id| {
                btf.size_of(id)
                    .and_then(|size| u32::try_from(size).ok())
                    .ok_or_else(|| bad("a type without size"))
            };
            match member.name.as_str() {
                "type" => map.kind = small()?,
                "max_entries" => map.max_entries = small()?,
                "map_flags" => map.flags = small()?,
                "numa_node" => map.numa_node = Some(small()?),
                "pinning" => map.pinning = small()?,
                "map_extra" => {
                    map.map_extra = number().ok_or_else(|| bad("not a number"))?;
                }
                "key_size" => map.key_size = small()?,
                "value_size" => map.value_size = small()?,
                "key" => {
                    map.key_type = Some(pointee()?);
                    map.key_size = size(pointee()?)?;
                }
                "value" => {
                    map.value_type = Some(pointee()?);
                    map.value_size = size(pointee()?)?;
                }
                "values" => {
                    if is_inner {
                        return Err(bad("an inner map cannot hold maps"));
                    }
                    let TypeKind::Array { element, .. } = btf.resolved(member.type_id) else {
                        return Err(bad("not an array as __array(values, ...) makes it"));
                    };
                    let TypeKind::Pointer(target) = *btf.resolved(*element) else {
                        return Err(bad("not an array of pointers"));
                    };
                    if matches!(btf.resolved(target), TypeKind::Structure { .. }) {
                        let name = format!("{name}.inner");
                        let inner = Map::parse(btf, &name, target, offset, true)?;
                        map.inner = Some(Box::new(inner));
                    }
                    map.key_size = map.key_size.max(4);
                    map.value_size = map.value_size.max(4);
                    map.values_offset = offset.checked_add(u64::from(member.bit_offset / 8));
                }
                other => {
                    return Err(unsupported(
                        place,
                        format!("unknown member {other} in a map definition"),
                    ));
                }
            }
        }
        if map.kind == 0 {
            return Err(malformed(place, "no member type, so its kind is unknown"));
        }
        Ok(map)
    }
}

/// The number that `__uint` encodes as the length of an array, or `__ulong` as an enumerator.
fn number(btf: &Btf, type_id: TypeId) -> Option<u64> {
    match btf.resolved(type_id) {
        TypeKind::Pointer(target) => match btf.resolved(*target) {
            TypeKind::Array { count, .. } => Some(u64::from(*count)),
            _ => None,
        },
        TypeKind::Enumeration { enumerators, .. } => match enumerators.as_slice() {
            [(_, value)] => Some(*value),
            _ => None,
        },
        _ => None,
    }
}
