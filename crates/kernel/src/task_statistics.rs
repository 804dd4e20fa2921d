//! Statistics that the scheduler in charge publishes of each task.
//!
//! A scheduler publishes them in a map of task storage with this name, whose value begins with a structure of numbers. Names and sizes come
//! from the map's type information, and so do units: a member may carry a declaration tag. So a new number needs no change here.

use std::os::fd::AsRawFd as _;

use fairground_bpf::{Btf, TypeId, TypeKind, number};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType};

use crate::in_charge::{InCharge, types};
use crate::{Error, host};

/// Name of the map of task storage.
const MAP: &str = "task_statistics";
const NSEC_PER_SEC: i128 = 1_000_000_000;

/// The statistics that the scheduler in the kernel keeps.
#[derive(Debug)]
pub struct TaskStatistics {
    map: MapHandle,
    fields: Vec<Field>,
}

/// A number among a task's statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    name: String,
    /// Where it begins in the value, in bytes.
    offset: usize,
    /// 4 or 8 bytes.
    size: usize,
    signed: bool,
    unit: Unit,
}

/// Unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// A count, or a number without a unit.
    One,
    /// Time in nanoseconds; the tag is `ns`.
    Nanoseconds,
    /// A fraction in units of 2^-32; the tag is `2^-32`.
    Fraction,
}

impl TaskStatistics {
    /// The scheduler's statistics; `None` if it publishes none.
    pub fn find(scheduler: &InCharge) -> Result<Option<Self>, Error> {
        let Some(found) = scheduler.map(MAP, MapType::TaskStorage) else { return Ok(None) };
        let types = types(found.btf_id)?;
        let map = MapHandle::from_map_id(found.id).map_err(|error| unreadable(&error))?;
        let fields = fields(&types, found.btf_value_type_id);
        Ok(Some(Self { map, fields }))
    }

    /// Name and value, with its unit, of each number that the scheduler has of the thread `pid`; empty if it has none.
    pub fn of(&self, pid: u32) -> Result<Vec<(&str, String)>, Error> {
        let task = host::thread_descriptor(pid)?;
        let value = self.map.lookup(&task.as_raw_fd().to_ne_bytes(), MapFlags::ANY);
        let value = value.map_err(|error| unreadable(&error))?;
        let shown = |field: &Field| field.show(value.as_deref()?);
        let numbers =
            { self.fields.iter() }.filter_map(|field| Some((&*field.name, shown(field)?)));
        Ok(numbers.collect())
    }
}

impl Field {
    /// Its value and unit.
    fn show(&self, value: &[u8]) -> Option<String> {
        let bytes = value.get(self.offset..self.offset + self.size)?;
        let number = number(bytes, self.signed)?;
        Some(match self.unit {
            Unit::One => number.to_string(),
            Unit::Nanoseconds => {
                format!("{}.{:09} s", number / NSEC_PER_SEC, number % NSEC_PER_SEC)
            }
            Unit::Fraction => format!("{:.6}", number as f64 / 2_f64.powi(32)),
        })
    }
}

/// The numbers of the structure with which a value of type `value` begins.
fn fields(types: &Btf, value: TypeId) -> Vec<Field> {
    let members = |id| match types.resolved(id) {
        TypeKind::Structure { members, .. } => members.as_slice(),
        _ => &[],
    };
    let Some(public) = members(value).first() else { return Vec::new() };
    let structure = types.resolve(public.type_id);
    let members = (0..).zip(members(structure));
    members
        .filter_map(|(index, member)| {
            let TypeKind::Integer { size, signed, .. } = *types.resolved(member.type_id) else {
                return None;
            };
            let unit = types.declaration_tags(structure, Some(index)).find_map(Unit::of);
            Some(Field {
                name: member.name.clone(),
                offset: member.bit_offset as usize / 8,
                size: size as usize,
                signed,
                unit: unit.unwrap_or(Unit::One),
            })
        })
        .collect()
}

impl Unit {
    fn of(tag: &str) -> Option<Self> {
        match tag {
            "ns" => Some(Self::Nanoseconds),
            "2^-32" => Some(Self::Fraction),
            _ => None,
        }
    }
}

fn unreadable(error: &libbpf_rs::Error) -> Error {
    Error::Setup {
        name: "task statistics".to_owned(),
        reason: format!("they cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statistics of EBS, found by their name in its object.
    fn of_ebs() -> Vec<Field> {
        let ebs = fairground_catalog::find("ebs").expect("it is in the catalogue");
        let object = ebs.parse().expect("it can be parsed");
        let types = object.btf();
        fields(types, types.find("task_ctx").expect("its tasks' data"))
    }

    #[test]
    fn numbers_have_names_and_units() {
        let fields = of_ebs();
        let named = |name: &str| { fields.iter() }.find(|field| field.name == name);
        let [usage, nice, runs] = ["usage", "nice", "runs"].map(|name| named(name).expect(name));
        let time = named("run_time").expect("run_time");
        let mut value = [0; 128];
        value[usage.offset..][..8].copy_from_slice(&(1_u64 << 30).to_le_bytes());
        value[nice.offset..][..4].copy_from_slice(&(-5_i32).to_le_bytes());
        value[time.offset..][..8].copy_from_slice(&1_500_000_001_u64.to_le_bytes());
        let shown = [usage, nice, time, runs].map(|field| field.show(&value));
        let expected = ["0.250000", "-5", "1.500000001 s", "0"];
        assert_eq!(shown, expected.map(|text| Some(text.to_owned())));
        assert_eq!(usage.show(&value[..usage.offset + 7]), None);
    }

    #[test]
    fn private_data_is_not_shown() {
        let fields = of_ebs();
        assert!(!fields.iter().any(|field| field.name == "accounted"));
        assert!(fields.iter().all(|field| field.offset + field.size <= 128));
    }
}
