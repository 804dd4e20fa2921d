//! Adapts an object to the kernel that is to load it.

use libbpf_rs::btf::Btf;

use super::sections::find_section;
use super::{CONSTANTS, OpenScheduler};
use crate::variables::{self, Member, Variable};
use crate::{Error, host};

/// Length of the kernel's report at a scheduler's exit unless the scheduler asks for another, bytes.
const DEFAULT_DUMP_LENGTH: u32 = 32768;

impl OpenScheduler {
    /// Adapts the object to the running kernel: constants that scx's headers leave to the loader, callbacks that this kernel does not know,
    /// and the number of CPU changes so far. Returns warnings.
    pub(super) fn adapt_to_kernel(&mut self) -> Result<Vec<String>, Error> {
        let kernel = Btf::from_vmlinux().map_err(|error| Error::Load {
            name: self.name.clone(),
            reason: format!("the kernel's type information cannot be read: {error}"),
        })?;
        let mut warnings = self.fill_kernel_constants(&kernel);
        warnings.extend(self.clear_unknown_callbacks(&kernel));
        self.set_hotplug_sequence();
        self.make_room_for_dump()?;
        Ok(warnings)
    }

    /// `const volatile u64 __SCX_X` stands for the running kernel's value of the enumerator `SCX_X`.
    pub(super) fn fill_kernel_constants(&mut self, kernel: &Btf<'_>) -> Vec<String> {
        let wanted: Vec<Variable> = self
            .variables
            .iter()
            .filter(|variable| {
                variable.section == CONSTANTS
                    && variable.name.starts_with("__SCX_")
                    && variable.size == 8
            })
            .cloned()
            .collect();
        if wanted.is_empty() {
            return Vec::new();
        }
        let values = variables::enumerators(kernel, "SCX_");
        for variable in &wanted {
            // A name that the kernel does not know gets 0, as with scx's own loaders: the schedulers test for it.
            let value = values.get(&variable.name[2..]).copied().unwrap_or(0);
            self.write(variable, i128::from(value));
        }
        Vec::new()
    }

    /// An older kernel lacks the newest callbacks and settings. They are optional, so they are cleared, with a warning.
    pub(super) fn clear_unknown_callbacks(&mut self, kernel: &Btf<'_>) -> Vec<String> {
        let known = variables::members(kernel, &self.operations.structure);
        let unknown: Vec<Member> = self
            .operations
            .members
            .iter()
            .filter(|member| !known.iter().any(|other| other.name == member.name))
            .cloned()
            .collect();
        let (name, map) = (self.name.clone(), self.operations.map.clone());
        let mut warnings = Vec::new();
        self.with_section(&map, |bytes| {
            for member in unknown {
                // The object's information about its structures may be wrong.
                let end = member.offset.saturating_add(member.room);
                let Some(field) = bytes.get_mut(member.offset..end) else {
                    continue;
                };
                if field.iter().any(|byte| *byte != 0) {
                    field.fill(0);
                    warnings.push(format!(
                        "{name}: this kernel does not know ops.{}; it is left out",
                        member.name
                    ));
                }
            }
        });
        warnings
    }

    pub(super) fn set_hotplug_sequence(&mut self) {
        let (Some(member), Some(sequence)) = (
            self.operations.member("hotplug_seq").cloned(),
            host::hotplug_sequence(),
        ) else {
            return;
        };
        let map = self.operations.map.clone();
        self.with_section(&map, |bytes| {
            if let Some(field) = bytes.get_mut(member.offset..member.offset.saturating_add(8)) {
                field.copy_from_slice(&sequence.to_le_bytes());
            }
        });
    }

    /// scx's headers leave the size of the text that belongs to `struct user_exit_info` to the loader.
    pub(super) fn make_room_for_dump(&mut self) -> Result<(), Error> {
        let Some(dump) = self
            .exit
            .as_ref()
            .and_then(|exit| exit.separate_dump.clone())
        else {
            return Ok(());
        };
        let asked = self
            .operations
            .member("exit_dump_len")
            .and_then(|member| {
                let bytes = self.section_bytes(&self.operations.map)?;
                Some(u32::from_le_bytes(
                    bytes
                        .get(member.offset..member.offset + 4)?
                        .try_into()
                        .ok()?,
                ))
            })
            .filter(|length| *length != 0)
            .unwrap_or(DEFAULT_DUMP_LENGTH);
        if let Some(length) = self
            .variables
            .iter()
            .find(|variable| self.is_dump_length(variable))
            .cloned()
        {
            self.write(&length, i128::from(asked));
        }
        let name = self.name.clone();
        match find_section(&mut self.object, &dump.section) {
            Some(mut map) => map.set_value_size(asked).map_err(|error| Error::Load {
                name,
                reason: format!("no room for the report at its end: {error}"),
            }),
            None => Ok(()),
        }
    }

    /// Whether a variable tells the scheduler the length of the text that belongs to its exit record.
    pub(super) fn is_dump_length(&self, variable: &Variable) -> bool {
        self.exit
            .as_ref()
            .and_then(|exit| exit.separate_dump.as_ref())
            .is_some_and(|dump| variable.name == format!("{}_len", dump.name))
    }
}
