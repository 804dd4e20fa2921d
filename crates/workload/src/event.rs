//! Reads the events of a phase.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::events::Event;
use crate::extension::{self, Variations};
use crate::json::Value;
use crate::keys::{KeyKind, kind_of};
use crate::names::{Shared, Use};
use crate::notes::Remark;
use crate::object::Object;
use crate::policy::MICROSECONDS_MAX;
use crate::reading::Reading;
use crate::variation::Variation;

/// What is said where a phase has the key `delay`.
pub(crate) const DELAY_OF_TASKS: &str = "belongs to the task, whose start it delays, and is ignored here as by rt-app; in a phase write \"sleep\"";

/// Reads the events among the fields of an object, in order, and how they vary, by index.
///
/// `task` is the index of the task definition, `instances` the number of tasks that it starts.
pub(crate) fn read_all(
    object: &Object,
    shared: &mut Shared,
    variations: &mut Variations,
    task: usize,
    instances: u32,
) -> Result<(Vec<Event>, BTreeMap<usize, Variation>), Error> {
    let mut events = Vec::new();
    let mut varied = BTreeMap::new();
    let mut keys = BTreeSet::new();
    for field in object.fields() {
        let Some(kind) = kind_of(field.key) else { continue };
        if !keys.insert(field.key) {
            field.key_remark(Remark::RepeatedEvent);
        }
        let mut event = Reading { shared, task, instances, field };
        let key = event.field.key;
        let event = event.read(kind)?;
        if let Some(variation) = variations.take(key, event)? {
            varied.insert(events.len(), variation);
        }
        events.push(event);
    }
    if events.is_empty() {
        if let Some(delay) = object.get("delay").filter(|_| object.place.path.contains(".phases."))
        {
            return Err(delay.key_error(DELAY_OF_TASKS));
        }
        return Err(
            object.error("no events, so there is nothing to do; add one such as \"run\" : 1000")
        );
    }
    Ok((events, varied))
}

impl Reading<'_, '_> {
    fn read(&mut self, kind: KeyKind) -> Result<Event, Error> {
        Ok(match kind {
            KeyKind::Run => Event::Run(self.run()?),
            KeyKind::Runtime => Event::Runtime(self.duration()?),
            KeyKind::Sleep => Event::Sleep(self.duration()?),
            KeyKind::Timer => self.timer(false)?,
            KeyKind::Lock => {
                let mutex = self.shared.mutexes.intern(self.field.name()?);
                self.refer(Use::Lock(mutex));
                Event::Lock(mutex)
            }
            KeyKind::Unlock => {
                let mutex = self.shared.mutexes.intern(self.field.name()?);
                self.refer(Use::Unlock(mutex));
                Event::Unlock(mutex)
            }
            KeyKind::Wait => {
                let (condition, mutex) = self.condition_and_mutex()?;
                self.refer(Use::Wait(condition));
                Event::Wait { condition, mutex }
            }
            KeyKind::Sync => {
                let (condition, mutex) = self.condition_and_mutex()?;
                self.refer(Use::Wait(condition));
                self.refer(Use::Signal(condition));
                Event::Sync { condition, mutex }
            }
            KeyKind::Signal => {
                let condition = self.condition()?;
                self.refer(Use::Signal(condition));
                Event::Signal(condition)
            }
            KeyKind::Broadcast => {
                let condition = self.condition()?;
                self.refer(Use::Signal(condition));
                Event::Broadcast(condition)
            }
            KeyKind::Barrier => {
                let name = self.field.name()?;
                let barrier = self.shared.barrier(name, self.instances);
                self.refer(Use::Barrier(barrier));
                Event::Barrier(barrier)
            }
            KeyKind::Suspend => self.suspend()?,
            KeyKind::Resume => {
                let condition = self.condition()?;
                self.refer(Use::Resume(condition));
                Event::Resume(condition)
            }
            KeyKind::SemPost => {
                let semaphore = self.semaphore()?;
                self.refer(Use::SemPost(semaphore));
                Event::SemPost(semaphore)
            }
            KeyKind::SemWait => {
                let semaphore = self.semaphore()?;
                self.refer(Use::SemWait(semaphore));
                Event::SemWait(semaphore)
            }
            KeyKind::Mem => {
                let bytes = self.field.integer(0..=i64::from(i32::MAX))?;
                self.remark(Remark::Mem);
                Event::Mem(bytes as u64)
            }
            KeyKind::MemRun => self.memrun()?,
            KeyKind::IoRun => {
                let bytes = self.field.integer(0..=i64::from(i32::MAX))?;
                self.remark(Remark::IoRun);
                Event::IoRun(bytes as u64)
            }
            KeyKind::Yield => match self.field.value {
                // rt-app ignores the value.
                Some(Value::Array(_) | Value::Object(_)) | None => {
                    return Err(self.field.mismatch("\"\""));
                }
                Some(_) => Event::Yield,
            },
            KeyKind::Fork => self.fork()?,
            KeyKind::Extension => extension::read_event(self)?,
        })
    }

    /// How long a run is: like other durations, or -1 for without end.
    fn run(&mut self) -> Result<u64, Error> {
        match self.field.integer(-1..=MICROSECONDS_MAX)? {
            -1 => {
                self.remark(Remark::EndlessRun);
                Ok(Event::ENDLESS)
            }
            microseconds => Ok(microseconds as u64 * 1000),
        }
    }

    /// A duration in microseconds, as nanoseconds.
    fn duration(&self) -> Result<u64, Error> {
        let microseconds = self.field.integer(0..=MICROSECONDS_MAX)?;
        Ok(microseconds as u64 * 1000)
    }

    fn condition(&mut self) -> Result<usize, Error> {
        let name = self.field.name()?;
        Ok(self.shared.conditions.intern(name))
    }

    fn semaphore(&mut self) -> Result<usize, Error> {
        let name = self.field.name()?;
        Ok(self.shared.semaphores.intern(name))
    }

    fn condition_and_mutex(&mut self) -> Result<(usize, usize), Error> {
        let object = self.field.object()?;
        object.check_keys_as_rt_app(&["ref", "mutex"], false)?;
        let condition = self.name_in(&object, "ref")?;
        let mutex = self.name_in(&object, "mutex")?;
        Ok((self.shared.conditions.intern(&condition), self.shared.mutexes.intern(&mutex)))
    }

    fn suspend(&mut self) -> Result<Event, Error> {
        let own = self.shared.tasks.list[self.task].clone();
        let name = match self.field.value {
            None => {
                self.remark(Remark::SuspendWithoutName);
                own
            }
            Some(Value::Null) => own,
            Some(Value::String(name)) if name.is_empty() || *name == own => own,
            Some(Value::String(name)) => {
                self.remark(Remark::SuspendOtherName);
                name.clone()
            }
            Some(_) => {
                return Err(self.field.mismatch("the name of the task in quotes, or \"\""));
            }
        };
        let condition = self.shared.conditions.intern(&name);
        self.refer(Use::Wait(condition));
        Ok(Event::Suspend(condition))
    }

    fn memrun(&mut self) -> Result<Event, Error> {
        let object = self.field.object()?;
        let keys = ["type", "size", "count", "stride", "pattern", "ref"];
        object.check_keys_as_rt_app(&keys, false)?;
        let kind = object.require("type", "\"type\" : \"read\"")?;
        let chase = kind.choice([("read", false), ("write", false), ("chase", true)])?;
        let kind = kind.string()?;
        let max = i64::from(i32::MAX);
        let size = object.require("size", "\"size\" : 1048576 (bytes)")?;
        let size_place = size.place.clone();
        let size = size.integer(1..=max)?;
        let count = object.require("count", "\"count\" : 1000000 (accesses)")?;
        let count = count.integer(0..=max)?;
        let stride = object.integer("stride", 1..=max)?;
        let pattern = object.get("pattern");
        let random = match &pattern {
            None => true,
            Some(field) => field.choice([("random", true), ("sequential", false)])?,
        };
        if !chase && (stride.is_some() || pattern.is_some()) {
            object.note(
                "stride and pattern have an effect only with \"type\" : \"chase\", as in rt-app",
            );
        }
        let stride = stride.unwrap_or(64);
        if chase && size / stride < 2 {
            return Err(object.reader.error(
                &size_place,
                format!("{size} bytes hold fewer than two strides of {stride}; enlarge the size"),
            ));
        }
        if let Some(field) = object.get("ref") {
            let name = field.name()?;
            let parameters = if chase { (size, stride, random) } else { (size, 0, false) };
            let key = (name.to_string(), kind.to_string());
            if *self.shared.buffers.entry(key).or_insert(parameters) != parameters {
                return Err(field.error(
                    "the buffer of this name has another size, stride or pattern elsewhere; \
                     make them agree or name it differently",
                ));
            }
        }
        self.remark(Remark::MemRun);
        Ok(Event::MemRun { accesses: count as u64, size: size as u64 })
    }

    fn fork(&mut self) -> Result<Event, Error> {
        let name = self.field.name()?;
        let Some(target) = self.shared.tasks.find(name) else {
            return Err(self.field.error(format!(
                "there is no task \"{name}\" to fork; the tasks are {}",
                self.shared.tasks.list.join(", ")
            )));
        };
        self.refer(Use::Fork(target));
        Ok(Event::Fork(target))
    }
}
