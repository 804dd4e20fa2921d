//! Why a scheduler ended, as the scheduler itself recorded it.
//!
//! The kernel passes the reason only to the scheduler's `ops.exit`. Our schedulers copy it to a global `struct exit_record`
//! (`schedulers/include/exit_record.h`); schedulers written with scx's headers have a `struct user_exit_info` and a separate text
//! `<name>_dump`. Both are found by the type of the variable.

use std::fmt;

use fairground_contract::exit::{self, ExitKind};

use crate::variables::{Member, Variable};

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
    #[must_use]
    pub fn wants_restart(&self) -> bool {
        self.code & RESTART != 0
    }

    /// Whether the scheduler failed.
    #[must_use]
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
    /// The record itself.
    pub(crate) record: Variable,
    /// Its members.
    members: Vec<Member>,
    /// The text that scx's headers keep separate from the record.
    pub(crate) separate_dump: Option<Variable>,
}

impl ExitLayout {
    /// Finds the record among the object's variables; `members` gives the members of a structure.
    pub(crate) fn find(
        variables: &[Variable],
        members: impl Fn(&str) -> Vec<Member>,
    ) -> Option<Self> {
        let record = variables.iter().find(|variable| {
            matches!(
                variable.type_name.as_deref(),
                Some("exit_record" | "user_exit_info")
            )
        })?;
        let separate_dump = variables
            .iter()
            .find(|variable| variable.name == format!("{}_dump", record.name));
        Some(Self {
            record: record.clone(),
            members: members(record.type_name.as_deref()?),
            separate_dump: separate_dump.cloned(),
        })
    }

    /// Reads the record; `section` gives the current bytes of a data section.
    pub(crate) fn read(&self, section: impl Fn(&str) -> Option<Vec<u8>>) -> Option<ExitReport> {
        let bytes = section(&self.record.section)?;
        let record = bytes.get(self.record.offset..self.record.offset + self.record.size)?;
        let number = |name: &str, size: usize| -> Option<i64> {
            let member = self.member(name)?;
            let field = record.get(member.offset..member.offset + size)?;
            let mut wide = [0; 8];
            wide[..size].copy_from_slice(field);
            Some(i64::from_le_bytes(wide))
        };
        let member_text = |name: &str| -> String {
            self.member(name)
                .and_then(|member| record.get(member.offset..member.offset + member.room))
                .map_or_else(String::new, text)
        };
        let dump = match &self.separate_dump {
            // The text is the only variable in its section and was given the section's full length.
            Some(dump) => section(&dump.section)
                .and_then(|bytes| bytes.get(dump.offset..).map(text))
                .unwrap_or_default(),
            None => member_text("dump"),
        };
        Some(ExitReport {
            kind: number("kind", 4)?,
            code: u64::from_le_bytes(number("exit_code", 8).unwrap_or(0).to_le_bytes()),
            reason: member_text("reason"),
            message: member_text("msg"),
            dump,
        })
    }

    fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }
}

/// The text up to the first zero byte.
fn text(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables::Kind;

    fn variable(
        name: &str,
        type_name: &str,
        section: &str,
        offset: usize,
        size: usize,
    ) -> Variable {
        Variable {
            name: name.to_owned(),
            section: section.to_owned(),
            offset,
            size,
            kind: Kind::Other,
            type_name: Some(type_name.to_owned()),
        }
    }

    fn member(name: &str, offset: usize, room: usize) -> Member {
        Member {
            name: name.to_owned(),
            offset,
            room,
        }
    }

    #[test]
    fn a_record_is_read_by_the_names_of_its_members() {
        let variables = [variable("exit_record", "exit_record", ".data", 8, 48)];
        let layout = ExitLayout::find(&variables, |_| {
            vec![
                member("kind", 0, 8),
                member("exit_code", 8, 8),
                member("reason", 16, 8),
                member("msg", 24, 8),
                member("dump", 32, 16),
            ]
        })
        .expect("the record is there");
        let mut data = vec![0; 56];
        data[8..12].copy_from_slice(&1026_i32.to_le_bytes());
        data[16..24].copy_from_slice(&(1_u64 << 48).to_le_bytes());
        data[24..28].copy_from_slice(b"why\0");
        data[40..48].copy_from_slice(b"dump is ");
        let report = layout
            .read(|section| (section == ".data").then(|| data.clone()))
            .expect("it can be read");
        assert_eq!(
            (report.reason.as_str(), report.message.as_str()),
            ("why", "")
        );
        assert_eq!(report.dump, "dump is");
        assert!(report.wants_restart() && report.is_failure());
        assert_eq!(
            report.to_string(),
            "why (SCX_EXIT_ERROR_STALL), exit code 0x1000000000000"
        );
    }

    #[test]
    fn scx_keeps_the_dump_in_its_own_section() {
        let variables = [
            variable("uei", "user_exit_info", ".data", 0, 8),
            variable("uei_dump", "char", ".data.uei_dump", 0, 1),
        ];
        let layout = ExitLayout::find(&variables, |_| vec![member("kind", 0, 4)])
            .expect("the record is there");
        let report = layout
            .read(|section| match section {
                ".data" => Some(vec![64, 0, 0, 0, 0, 0, 0, 0]),
                ".data.uei_dump" => Some(b"all of it\0\0".to_vec()),
                _ => None,
            })
            .expect("it can be read");
        assert_eq!(report.to_string(), "SCX_EXIT_UNREG");
        assert_eq!(report.dump, "all of it");
    }

    #[test]
    fn an_object_without_a_record_has_no_layout() {
        assert!(ExitLayout::find(&[variable("x", "int", ".data", 0, 4)], |_| Vec::new()).is_none());
    }
}
