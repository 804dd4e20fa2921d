//! Sizes and contents of maps.

use fairground_bpf::{MapEntry, NewEntry, NewMap, TypeId};
use rhai::{Array, Dynamic, INT};
use toml::{Spanned, Value};

use super::{Absent, Preparation, nearest, wrong};
use crate::encode::{self, Spot};
use crate::error::Error;
use crate::file;

/// The numbers of per-CPU map types in `enum bpf_map_type`.
const PER_CPU_MAPS: [u32; 3] = [5, 6, 10];

impl Preparation<'_> {
    pub(super) fn find_map(&self, name: &str) -> Result<usize, Absent> {
        let maps = self.object.maps();
        maps.iter().position(|map| map.name == name).ok_or_else(|| {
            let names = maps.iter().map(|map| map.name.as_str());
            Absent(format!("there is no map {name:?}{}", nearest(name, names)))
        })
    }

    pub(super) fn set_map_size(
        &mut self,
        name: &str,
        value: &Dynamic,
        place: &str,
        key: &str,
    ) -> Result<Result<(), Absent>, Error> {
        let map = match self.find_map(name) {
            Ok(map) => map,
            Err(absent) => return Ok(Err(absent)),
        };
        let entries = value.as_int().ok().and_then(|number| u32::try_from(number).ok());
        let entries = entries
            .filter(|entries| *entries > 0)
            .ok_or_else(|| wrong(place, format!("{key}: {value} is not a number of entries")))?;
        let sizes = &mut self.done.setup.map_sizes;
        sizes.retain(|(known, _)| *known != map);
        sizes.push((map, entries));
        Ok(Ok(()))
    }

    pub(super) fn add_entries(
        &mut self,
        entry: &file::MapEntry,
    ) -> Result<Result<(), Absent>, Error> {
        let map = match self.find_map(entry.map.get_ref()) {
            Ok(map) => map,
            Err(absent) => return Ok(Err(absent)),
        };
        let definition = &self.object.maps()[map];
        let place = self.companion.place(&entry.map);
        for element in self.elements(entry.each.as_ref(), "entry")? {
            let level = self.scope.len();
            if let Some(element) = element {
                self.scope.push_constant_dynamic("it", element);
            }
            if self.holds(entry.condition.as_ref(), "entry")? {
                let key = self.value(&entry.key, "entry.key")?;
                let key = self.encode_whole(
                    definition.key_type,
                    definition.key_size,
                    &key,
                    &place,
                    "entry.key",
                )?;
                let (values, inner) = match &definition.inner {
                    Some(inner) => (Vec::new(), Some(self.new_map(entry, inner, &place)?)),
                    None => (self.entry_values(entry, definition, &place)?, None),
                };
                self.done.setup.entries.push(MapEntry {
                    place: place.clone(),
                    map,
                    key,
                    values,
                    inner,
                });
            }
            self.scope.rewind(level);
        }
        Ok(Ok(()))
    }

    /// The value of an entry, or one for each CPU.
    pub(super) fn entry_values(
        &mut self,
        entry: &file::MapEntry,
        definition: &fairground_bpf::Map,
        place: &str,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let Some(expression) = &entry.value else {
            return Err(wrong(place, "an entry of this map needs a value".to_owned()));
        };
        if entry.max_entries.is_some() || !entry.inside.is_empty() {
            let message = "entry.max_entries and entry.inside are for maps in maps".to_owned();
            return Err(wrong(place, message));
        }
        self.values_of(expression, definition, place)
    }

    /// A value of a map, or one for each CPU.
    fn values_of(
        &mut self,
        expression: &Spanned<Value>,
        definition: &fairground_bpf::Map,
        place: &str,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let copies = if PER_CPU_MAPS.contains(&definition.kind) { self.online.id_count } else { 1 };
        let sizes = definition.key_size as usize + definition.value_size as usize * copies;
        self.take(sizes, place)?;
        let mut values = Vec::with_capacity(copies);
        for cpu in 0..copies {
            let level = self.scope.len();
            if copies > 1 {
                let Ok(place) = self.online.ids.binary_search(&cpu) else {
                    values.push(vec![0; definition.value_size as usize]);
                    continue;
                };
                let cpus: Array = self.scope.get_value("cpus").unwrap_or_default();
                let cpu = cpus.get(place).cloned().unwrap_or_default();
                self.scope.push_constant_dynamic("cpu", cpu);
            }
            let value = self.value(expression, "entry.value")?;
            self.scope.rewind(level);
            values.push(self.encode_whole(
                definition.value_type,
                definition.value_size,
                &value,
                place,
                "entry.value",
            )?);
        }
        Ok(values)
    }

    /// A new map in a map of maps.
    pub(super) fn new_map(
        &mut self,
        entry: &file::MapEntry,
        inner: &fairground_bpf::Map,
        place: &str,
    ) -> Result<NewMap, Error> {
        if entry.value.is_some() {
            let message = "the value in a map of maps is a new map; leave value out".to_owned();
            return Err(wrong(place, message));
        }
        let entries = match &entry.max_entries {
            Some(expression) => self.whole(expression, "entry.max_entries")?,
            None => INT::from(inner.max_entries),
        };
        let entries = u32::try_from(entries).ok().filter(|entries| *entries > 0);
        let entries = entries.ok_or_else(|| {
            wrong(place, "entry.max_entries is not a number of entries".to_owned())
        })?;
        let size = (inner.value_size as usize).saturating_mul(entries as usize);
        self.take(size, place)?;
        Ok(NewMap { max_entries: entries, entries: self.inner_entries(entry, inner, place)? })
    }

    /// The contents of a new map.
    fn inner_entries(
        &mut self,
        entry: &file::MapEntry,
        inner: &fairground_bpf::Map,
        place: &str,
    ) -> Result<Vec<NewEntry>, Error> {
        let mut entries = Vec::new();
        for one in &entry.inside {
            let key = self.value(&one.key, "inside.key")?;
            let (kind, size) = (inner.key_type, inner.key_size);
            let key = self.encode_whole(kind, size, &key, place, "inside.key")?;
            entries.push((key, self.values_of(&one.value, inner, place)?));
        }
        Ok(entries)
    }

    /// A value of a type of the object; if the object names none, the value is a number of `size` bytes.
    pub(super) fn encode_whole(
        &self,
        type_id: Option<TypeId>,
        size: u32,
        value: &Dynamic,
        place: &str,
        key: &str,
    ) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; size as usize];
        let Some(type_id) = type_id else {
            let number = value.as_int().map_err(|kind| {
                wrong(place, format!("{key}: a whole number is needed, not {kind}"))
            })?;
            let encoded = i128::from(number).to_le_bytes();
            let length = bytes.len().min(encoded.len());
            bytes[..length].copy_from_slice(&encoded[..length]);
            return Ok(bytes);
        };
        encode::write(self.object.btf(), Spot::of(type_id), value, &mut bytes)
            .map_err(|problem| wrong(place, format!("{key}: {problem}")))?;
        Ok(bytes)
    }
}
