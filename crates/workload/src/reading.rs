//! One event while it is read, whether it is rt-app's or fairground's own.

use crate::error::Error;
use crate::events::{Event, TimerMode};
use crate::names::{Shared, Use};
use crate::notes::Remark;
use crate::object::{Field, Object, Reader};
use crate::policy::MICROSECONDS_MAX;

/// One event while it is read.
pub(crate) struct Reading<'a, 'f, 'r> {
    pub reader: &'a mut Reader<'r>,
    pub shared: &'a mut Shared,
    /// Index of the task definition.
    pub task: usize,
    /// Number of tasks that it starts.
    pub instances: u32,
    pub field: Field<'f>,
}

impl Reading<'_, '_, '_> {
    /// Records that the task uses something.
    pub fn refer(&mut self, usage: Use) {
        self.shared.refer(usage, self.task, &self.field.place);
    }

    pub fn remark(&mut self, remark: Remark) {
        self.reader.notes.remark(&self.field.key_place, remark);
    }

    /// A name in an object; if it is missing, it is `unknown`, as in rt-app.
    pub fn name_in(&mut self, object: &Object, key: &str) -> Result<String, Error> {
        match object.get(self.reader, key) {
            Some(field) => Ok(field.name(self.reader)?.to_string()),
            None => {
                self.reader.notes.add(
                    &object.place,
                    format!("`{key}` is missing and read as \"unknown\", as rt-app does"),
                );
                Ok("unknown".into())
            }
        }
    }

    /// A timer; `extended` allows one mode more than rt-app has.
    pub fn timer(&mut self, extended: bool) -> Result<Event, Error> {
        let object = self.field.object(self.reader)?;
        let keys = ["ref", "period", "mode"];
        match extended {
            true => object.check_keys(self.reader, &keys)?,
            false => object.check_keys_as_rt_app(self.reader, &keys, false)?,
        }
        let name = self.name_in(&object, "ref")?;
        let period = match object.integer(self.reader, "period", 0..=MICROSECONDS_MAX)? {
            Some(period) => period,
            None => {
                self.reader
                    .notes
                    .add(&object.place, "`period` is missing and read as 0, as rt-app does");
                0
            }
        };
        let mode = match object.get(self.reader, "mode") {
            None => TimerMode::Relative,
            Some(field) => {
                let name = field.string(self.reader)?;
                timer_mode(name, extended).ok_or_else(|| {
                    let known =
                        ["\"relative\" or \"absolute\"", "\"relative\", \"absolute\" or \"skip\""];
                    field.mismatch(self.reader, known[usize::from(extended)])
                })?
            }
        };
        Ok(Event::Timer {
            timer: self.shared.timer(&name, self.task),
            period: period as u64 * 1000,
            mode,
        })
    }
}

/// The timer mode with this name; `extended` allows those that rt-app does not have.
fn timer_mode(name: &str, extended: bool) -> Option<TimerMode> {
    match name {
        "relative" => Some(TimerMode::Relative),
        "absolute" => Some(TimerMode::Absolute),
        "skip" if extended => Some(TimerMode::Skip),
        _ => None,
    }
}
