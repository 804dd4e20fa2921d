//! Global variables, and the table of callbacks.

use fairground_bpf::{Btf, StructOps, StructOpsValue, TypeId, TypeKind, VariablePatch};
use rhai::{Array, Dynamic};

use super::{Absent, Preparation, nearest, wrong};
use crate::encode::{self, Spot, find_variable};
use crate::error::Error;

impl Preparation<'_> {
    pub(super) fn table(&self) -> Option<&StructOps> {
        self.object.schedulers().next()
    }

    pub(super) fn set_operation(
        &mut self,
        member: &str,
        value: &Dynamic,
        place: &str,
        key: &str,
    ) -> Result<Result<(), Absent>, Error> {
        let Some(table) = self.table() else {
            return Ok(Err(Absent(format!("{key}: the object has no sched_ext_ops table"))));
        };
        let found = table.members.iter().find(|one| one.name == member);
        let Some(found) = found else {
            let known =
                table.members.iter().filter(|one| matches!(one.value, StructOpsValue::Data(_)));
            let known: Vec<&str> = known.map(|one| one.name.as_str()).collect();
            return Ok(Err(Absent(format!(
                "sched_ext_ops has no member {member:?}; it has {}",
                known.join(", ")
            ))));
        };
        let btf = self.object.btf();
        let size = btf.size_of(found.type_id).unwrap_or(0) as usize;
        let mut bytes = vec![0; size];
        match &found.value {
            StructOpsValue::Data(_) => {
                encode::write(btf, Spot::of(found.type_id), value, &mut bytes)
                    .map_err(|problem| wrong(place, format!("{key}: {problem}")))?;
            }
            StructOpsValue::Program(_) if matches!(value.as_bool(), Ok(false)) => {}
            StructOpsValue::Program(_) => {
                return Err(wrong(
                    place,
                    format!(
                        "{key} is a callback: it is as the source has it, or false, which leaves it out"
                    ),
                ));
            }
        }
        self.done.setup.operations.retain(|(name, _)| name != member);
        self.done.setup.operations.push((member.to_owned(), bytes));
        Ok(Ok(()))
    }

    pub(super) fn set_variable(
        &mut self,
        path: &str,
        value: &Dynamic,
        place: &str,
        key: &str,
    ) -> Result<Result<(), Absent>, Error> {
        let Some((number, index, rest)) = find_variable(self.object, path) else {
            let name = path.split(['.', '[']).next().unwrap_or(path);
            return Ok(Err(Absent(format!(
                "there is no global variable {name:?}{}",
                self.nearest_variable(name)
            ))));
        };
        let btf = self.object.btf();
        let section = &self.object.sections()[number];
        let variable = &section.variables[index];
        let start = variable.offset as usize;
        let spot = match encode::follow(btf, variable.type_id, rest) {
            Ok(spot) => spot,
            Err(problem) => return Ok(Err(Absent(format!("{key}: {problem}")))),
        };
        // An array that is alone in its section is as long as its loader makes it.
        let mut size = variable.size as usize;
        let mut spot = spot;
        if let (true, Some(list)) = (rest.is_empty(), value.read_lock::<Array>())
            && let TypeKind::Array { element, count } = *btf.resolved(variable.type_id)
            && list.len() > count as usize
            && section.variables.len() == 1
        {
            size = list.len().saturating_mul(btf.size_of(element).unwrap_or(0) as usize);
            spot = Spot { type_id: element, ..spot };
        }
        self.take(size, place)?;
        let bytes = self.sections.entry(number).or_insert_with(|| {
            let mut bytes = section.data.clone();
            bytes.resize(section.size as usize, 0);
            bytes
        });
        if bytes.len() < start + size {
            bytes.resize(start + size, 0);
        }
        let target = &mut bytes[start..start + size];
        let written = if size > variable.size as usize {
            write_long_array(btf, spot.type_id, value, target)
        } else {
            encode::write(btf, spot, value, target)
        };
        written.map_err(|problem| wrong(place, format!("{key}: {problem}")))?;
        let bytes = target.to_vec();
        let patches = &mut self.done.setup.variables;
        patches.retain(|patch| (patch.section, patch.offset) != (number, start));
        patches.push(VariablePatch { section: number, offset: start, bytes });
        Ok(Ok(()))
    }

    pub(super) fn nearest_variable(&self, name: &str) -> String {
        let sections = self.object.sections().iter();
        let names =
            sections.flat_map(|section| section.variables.iter().map(|one| one.name.as_str()));
        nearest(name, names)
    }
}

/// Writes an array that is longer than its type says.
pub(super) fn write_long_array(
    btf: &Btf,
    element: TypeId,
    value: &Dynamic,
    bytes: &mut [u8],
) -> Result<(), String> {
    let list = value.read_lock::<Array>().ok_or("a list is needed")?;
    let size = btf.size_of(element).unwrap_or(0) as usize;
    for (index, value) in list.iter().enumerate() {
        let spot = Spot { type_id: element, bit_offset: index * size * 8, bit_size: 0 };
        encode::write(btf, spot, value, bytes)
            .map_err(|problem| format!("[{index}]: {problem}"))?;
    }
    Ok(())
}
