//! Why a scheduler ended, as the scheduler itself recorded it.
//!
//! The kernel passes the reason only to the scheduler's `ops.exit`. Our schedulers copy it to a global `struct exit_record`
//! (`schedulers/include/exit_record.h`); schedulers written with scx's headers have a `struct user_exit_info` and a separate text
//! `<name>_dump`. Both are found by the type of the variable.

use std::fmt;
use std::ops::Range;

use fairground_bpf::{Object, TypeKind};
use fairground_contract::exit::{self, ExitKind};

/// Bit of an exit code that asks the loader to load the scheduler again, `SCX_ECODE_ACT_RESTART`.
const RESTART: u64 = 1 << 48;

/// Why a scheduler ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitReport {
    /// Number of `enum scx_exit_kind`.
    pub kind: i64,
    /// The code given to `scx_bpf_exit()`, or `enum scx_exit_code`.
    pub code: u64,
    /// The kernel's one-line description of the kind.
    pub reason: String,
    /// The exact fault; may be empty.
    pub message: String,
    /// The kernel's report on run queues and tasks; may be empty.
    pub dump: String,
}

impl ExitReport {
    /// Whether the scheduler or the kernel asks for the scheduler to be loaded again, for example after a change of the set of CPUs.
    pub fn wants_restart(&self) -> bool {
        self.code & RESTART != 0
    }

    /// Whether the scheduler failed.
    pub fn is_failure(&self) -> bool {
        self.kind >= i64::from(ExitKind::Error.number())
    }
}

impl fmt::Display for ExitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = exit::kind_name(self.kind);
        f.write_str(&exit::describe(&kind, &self.reason, &self.message))?;
        if self.code != 0 {
            write!(f, ", exit code {:#x}", self.code)?;
        }
        Ok(())
    }
}

/// Where the record is in the object's data sections.
#[derive(Clone, Debug)]
pub(crate) struct ExitLayout {
    /// The section of the record.
    section: String,
    /// The members of the record, and where they are in the section.
    members: Vec<(String, Range<usize>)>,
    /// The section of the text that scx's headers keep separate from the record, and where it begins there.
    separate_dump: Option<(String, usize)>,
}

impl ExitLayout {
    /// Finds the record among the object's variables.
    pub(crate) fn find(object: &Object) -> Option<Self> {
        let (section, record) = object.exit_record()?;
        let name = |section: usize| object.sections()[section].name.clone();
        let TypeKind::Structure { members, .. } = object.btf().resolved(record.type_id) else {
            return None;
        };
        let members = members.iter().filter_map(|member| {
            let offset = record.offset.checked_add(u64::from(member.bit_offset / 8))?;
            let end = offset.checked_add(object.btf().size_of(member.type_id)?)?;
            let place = usize::try_from(offset).ok()?..usize::try_from(end).ok()?;
            Some((member.name.clone(), place))
        });
        Some(Self {
            section: name(section),
            members: members.collect(),
            separate_dump: object.separate_dump().and_then(|(section, dump)| {
                Some((name(section), usize::try_from(dump.offset).ok()?))
            }),
        })
    }

    /// Reads the record; `section` gives the current bytes of a data section.
    pub(crate) fn read(&self, section: impl Fn(&str) -> Option<Vec<u8>>) -> Option<ExitReport> {
        let record = section(&self.section)?;
        let bytes = |name: &str| record.get(self.member(name)?.clone());
        let number = |name: &str| -> Option<i64> {
            let field = bytes(name)?;
            let mut wide = [0; 8];
            wide.get_mut(..field.len())?.copy_from_slice(field);
            Some(i64::from_le_bytes(wide))
        };
        let member_text = |name: &str| bytes(name).map_or_else(String::new, text);
        let dump = match &self.separate_dump {
            // The text is the only variable in its section and was given the section's full length.
            Some((name, start)) => {
                section(name).and_then(|bytes| bytes.get(*start..).map(text)).unwrap_or_default()
            }
            None => member_text("dump"),
        };
        Some(ExitReport {
            kind: number("kind")?,
            code: number("exit_code").unwrap_or(0).cast_unsigned(),
            reason: member_text("reason"),
            message: member_text("msg"),
            dump,
        })
    }

    fn member(&self, name: &str) -> Option<&Range<usize>> {
        let mut members = self.members.iter();
        members.find(|one| one.0 == name).map(|one| &one.1)
    }
}

/// The text up to the first zero byte.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    fn layout(members: &[(&str, Range<usize>)], dump: Option<(String, usize)>) -> ExitLayout {
        let members = members.iter();
        ExitLayout {
            section: ".data".to_owned(),
            members: members.map(|(name, place)| ((*name).to_owned(), place.clone())).collect(),
            separate_dump: dump,
        }
    }

    #[test]
    fn a_record_is_read_by_the_names_of_its_members() {
        let members = [
            ("kind", 8..12),
            ("exit_code", 16..24),
            ("reason", 24..32),
            ("msg", 32..40),
            ("dump", 40..56),
        ];
        let mut data = vec![0; 56];
        data[8..12].copy_from_slice(&1026_i32.to_le_bytes());
        data[16..24].copy_from_slice(&(1_u64 << 48).to_le_bytes());
        data[24..28].copy_from_slice(b"why\0");
        data[40..48].copy_from_slice(b"dump is ");
        let report = layout(&members, None)
            .read(|section| (section == ".data").then(|| data.clone()))
            .expect("it can be read");
        assert_eq!((report.reason.as_str(), report.message.as_str()), ("why", ""));
        assert_eq!(report.dump, "dump is");
        assert!(report.wants_restart() && report.is_failure());
        assert_eq!(report.to_string(), "why (SCX_EXIT_ERROR_STALL), exit code 0x1000000000000");
    }

    #[test]
    fn scx_keeps_the_dump_in_its_own_section() {
        let dump = (".data.uei_dump".to_owned(), 0);
        let report = layout(&[("kind", 0..4)], Some(dump))
            .read(|section| match section {
                ".data" => Some(vec![64, 0, 0, 0, 0, 0, 0, 0]),
                ".data.uei_dump" => Some(b"all of it\0\0".to_vec()),
                _ => None,
            })
            .expect("it can be read");
        assert_eq!(report.to_string(), "SCX_EXIT_UNREG");
        assert_eq!(report.dump, "all of it");
    }
}
