//! One event while it is read, whether it is rt-app's or fairground's own.

use crate::error::Error;
use crate::events::{Event, TimerMode};
use crate::names::{Shared, Use};
use crate::notes::Remark;
use crate::object::{Field, Object};
use crate::policy::MICROSECONDS_MAX;

/// One event while it is read.
pub(crate) struct Reading<'a, 'f> {
    pub shared: &'a mut Shared,
    /// Index of the task definition.
    pub task: usize,
    /// Number of tasks that it starts.
    pub instances: u32,
    pub field: Field<'f>,
}

impl Reading<'_, '_> {
    /// Records that the task uses something.
    pub fn refer(&mut self, usage: Use) {
        self.shared.refer(usage, self.task, &self.field.place);
    }

    pub fn remark(&mut self, remark: Remark) {
        self.field.key_remark(remark);
    }

    /// A name in an object; if it is missing, it is `unknown`, as in rt-app.
    pub fn name_in(&mut self, object: &Object, key: &str) -> Result<String, Error> {
        match object.get(key) {
            Some(field) => Ok(field.name()?.to_string()),
            None => {
                object.note(format!("`{key}` is missing and read as \"unknown\", as rt-app does"));
                Ok("unknown".into())
            }
        }
    }

    /// A timer; `extended` allows one mode more than rt-app has.
    pub fn timer(&mut self, extended: bool) -> Result<Event, Error> {
        let object = self.field.object()?;
        let keys = ["ref", "period", "mode"];
        match extended {
            true => object.check_keys(&keys)?,
            false => object.check_keys_as_rt_app(&keys, false)?,
        }
        let name = self.name_in(&object, "ref")?;
        let period = match object.integer("period", 0..=MICROSECONDS_MAX)? {
            Some(period) => period,
            None => {
                object.note("`period` is missing and read as 0, as rt-app does");
                0
            }
        };
        const MODES: [(&str, TimerMode); 3] = [
            ("relative", TimerMode::Relative),
            ("absolute", TimerMode::Absolute),
            ("skip", TimerMode::Skip),
        ];
        let [relative, absolute, _] = MODES;
        let mode = match object.get("mode") {
            None => TimerMode::Relative,
            Some(field) if extended => field.choice(MODES)?,
            Some(field) => field.choice([relative, absolute])?,
        };
        Ok(Event::Timer {
            timer: self.shared.timer(&name, self.task),
            period: period as u64 * 1000,
            mode,
        })
    }
}
