//! Names of shared things, turned into indices, and where they are used.

use std::collections::BTreeMap;

use crate::model::{Barrier, Group, Timer};
use crate::notes::Place;

/// A set of names in order of their first use.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub list: Vec<String>,
    index: BTreeMap<String, usize>,
}

impl Names {
    /// The index of a name; a new name is added.
    pub fn intern(&mut self, name: &str) -> usize {
        if let Some(&index) = self.index.get(name) {
            return index;
        }
        let index = self.list.len();
        self.list.push(name.into());
        self.index.insert(name.into(), index);
        index
    }

    /// The index of a name, if it is known.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }
}

/// How an event uses a named thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    Lock(usize),
    Unlock(usize),
    /// Of a condition, by wait, sync or suspend.
    Wait(usize),
    /// Of a condition, by signal, broad or sync.
    Signal(usize),
    /// Of a condition.
    Resume(usize),
    SemPost(usize),
    SemWait(usize),
    Barrier(usize),
    /// Of a task definition.
    Fork(usize),
    /// Of the task's own watch.
    LapBegin,
    LapEnd,
    PipeRead(usize),
    PipeWrite(usize),
    /// Of a memory.
    Evict(usize),
    Fault(usize),
    /// Of a service: something puts requests there.
    Request(usize),
    /// Of a service.
    Take(usize),
    Answer,
    Pass,
}

/// A use with its place and the task definition it is in.
#[derive(Debug)]
pub(crate) struct Reference {
    pub usage: Use,
    pub task: usize,
    pub place: Place,
}

/// Everything that events share by name.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub tasks: Names,
    /// Where each task definition is.
    pub task_places: Vec<Place>,
    /// Where the phases of each task definition are.
    pub phase_places: Vec<Vec<Place>>,
    pub mutexes: Names,
    pub conditions: Names,
    pub semaphores: Names,
    pub pipes: Names,
    pub disks: Names,
    pub drives: Names,
    pub memories: Names,
    pub services: Names,
    /// Services to which requests come from outside.
    pub arrivals: Vec<usize>,
    /// Services of `take` events.
    pub choices: Vec<Vec<usize>>,
    pub barriers: Vec<Barrier>,
    barrier_names: Names,
    pub timers: Vec<Timer>,
    /// Timers by name and, for unique ones, the task definition they belong to.
    timer_index: BTreeMap<(Option<usize>, String), usize>,
    /// Size, stride and pattern of memory buffers shared by `ref` and kind.
    pub buffers: BTreeMap<(String, String), (i64, i64, bool)>,
    pub references: Vec<Reference>,
    /// Control groups that have settings.
    pub groups: Vec<Group>,
}

impl Shared {
    /// Records a use.
    pub fn refer(&mut self, usage: Use, task: usize, place: &Place) {
        self.references.push(Reference { usage, task, place: place.clone() });
    }

    /// The barrier of this name, with `arrivals` more parties.
    pub fn barrier(&mut self, name: &str, arrivals: u32) -> usize {
        let index = self.barrier_names.intern(name);
        if index == self.barriers.len() {
            self.barriers.push(Barrier { name: name.into(), parties: 0, spin: 0 });
        }
        self.barriers[index].parties = self.barriers[index].parties.saturating_add(arrivals);
        index
    }

    /// The barrier of this name, if an event uses one.
    pub fn find_barrier(&self, name: &str) -> Option<usize> {
        self.barrier_names.find(name)
    }

    /// The number of a choice of services.
    pub fn choice(&mut self, services: Vec<usize>) -> usize {
        let known = self.choices.iter().position(|known| *known == services);
        known.unwrap_or_else(|| {
            self.choices.push(services);
            self.choices.len() - 1
        })
    }

    /// The timer of this name; a name that begins with `unique` belongs to its task definition.
    pub fn timer(&mut self, name: &str, task: usize) -> usize {
        let unique = name.starts_with("unique");
        let key = (unique.then_some(task), name.to_string());
        *self.timer_index.entry(key).or_insert_with(|| {
            self.timers.push(Timer { name: name.into(), unique });
            self.timers.len() - 1
        })
    }
}
