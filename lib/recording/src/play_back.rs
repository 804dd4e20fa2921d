//! A recording as an event stream.

use std::collections::{BTreeMap, BTreeSet};

use fairground_events::{
    CpuId, Event, EventKind, Outsider, Policy, Sink, TaskId, TaskInfo, load_weight,
};

use crate::file::Recording;
use crate::lives::{Census, Life, Lives};
use crate::load::names;
use crate::record::{Context, Entry, EntryKind};
use crate::steps::LifeId;

/// A chosen task's present activity.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// It has not been seen yet.
    Unknown,
    Runnable,
    Asleep,
}

/// A chosen task.
struct Told {
    task: TaskId,
    info: TaskInfo,
    state: State,
    /// The CPU that it was last on.
    cpu: Option<CpuId>,
}

struct Teller<'a> {
    sink: &'a mut dyn Sink,
    tasks: BTreeMap<LifeId, Told>,
    census: Census,
    /// The CPUs that threads have which were not chosen.
    others: BTreeSet<CpuId>,
}

impl Recording {
    /// Sends the activities of the chosen tasks to `sink`, under the names that [`Recording::load`] gives them, and when others had the CPUs.
    pub fn play_back(&self, sink: &mut dyn Sink) {
        let lives = Lives::of(self, Default::default());
        let tasks = names(&lives).into_iter().zip(0..).map(|((id, name), number)| {
            let told = Told {
                task: TaskId(number),
                info: info(name, &lives.all[id]),
                state: State::Unknown,
                cpu: None,
            };
            (id, told)
        });
        let tasks = tasks.collect();
        let others = BTreeSet::new();
        let mut teller = Teller { tasks, sink, census: Census::default(), others };
        for entry in self.entries() {
            if entry.time > self.ending.end {
                break;
            }
            let time = entry.time.checked_sub(self.header.origin);
            teller.tell(&entry, time);
            teller.census.after(&entry.kind);
        }
        teller.sink.finish(self.length());
    }
}

impl Teller<'_> {
    fn tell(&mut self, entry: &Entry, time: Option<u64>) {
        let cpu = CpuId(u32::from(entry.cpu));
        match &entry.kind {
            EntryKind::Switch { task, next, state, preempted, .. } => {
                let (leaves, comes) = (self.census.of(*task), self.census.of(*next));
                let Some(time) = time else { return };
                let prev = leaves.filter(|id| self.tasks.contains_key(id));
                let next = comes.filter(|id| self.tasks.contains_key(id));
                let others = comes.is_some() && next.is_none();
                if !others {
                    self.give_to_others(time, cpu, false);
                }
                // A task that leaves was on the CPU, even if its arrival was not recorded.
                let new = prev.filter(|id| self.tasks[id].state == State::Unknown);
                if let Some(id) = new {
                    self.wake(id, time, cpu, None);
                    self.arrive(id, time, cpu);
                    self.switch(time, cpu, None, Some(id));
                }
                if let Some(id) = prev {
                    let told = self.tasks.get_mut(&id);
                    if let Some(Told { task, state: own, .. }) = told {
                        let task = *task;
                        if entry.kind.is_end() {
                            *own = State::Asleep;
                            self.event(time, EventKind::Exit { task });
                        } else if *state != 0 && !preempted {
                            *own = State::Asleep;
                            self.event(time, EventKind::Sleep { task });
                        }
                    }
                }
                if let Some(id) = next {
                    self.wake(id, time, cpu, None);
                    self.arrive(id, time, cpu);
                }
                if prev.is_some() || next.is_some() {
                    self.switch(time, cpu, prev, next);
                }
                if others {
                    self.give_to_others(time, cpu, true);
                }
            }
            EntryKind::Waking { task, by, context } => {
                let (id, by) = (self.census.of(*task), self.census.of(*by));
                let waker = by.filter(|_| *context == Context::Task);
                if let (Some(id), Some(time)) = (id, time) {
                    self.wake(id, time, cpu, waker);
                }
            }
            EntryKind::Born { task, by } => {
                let parent = self.census.of(*by);
                let child = self.census.born(*task);
                if let (Some(id), Some(time)) = (child, time) {
                    self.wake(id, time, cpu, parent);
                }
            }
            EntryKind::Task { task, .. } => {
                self.census.of(*task);
            }
            EntryKind::Group(_) => {}
        }
    }

    /// Threads that were not chosen have a CPU from now on, or no longer.
    fn give_to_others(&mut self, time: u64, cpu: CpuId, begins: bool) {
        let is_new = if begins { self.others.insert(cpu) } else { self.others.remove(&cpu) };
        if is_new {
            let who = begins.then_some(Outsider::Other);
            self.event(time, EventKind::Outside { cpu, who });
        }
    }

    fn event(&mut self, time: u64, kind: EventKind) {
        self.sink.event(&Event { time, kind });
    }

    /// A task gets a CPU. Where it came from shows only now: entries do not say for which CPU a task was woken.
    fn arrive(&mut self, id: LifeId, time: u64, to: CpuId) {
        let Some(told) = self.tasks.get_mut(&id) else { return };
        let task = told.task;
        if let Some(from) = told.cpu.replace(to).filter(|from| *from != to) {
            self.event(time, EventKind::Migrate { task, from, to });
        }
    }

    fn switch(&mut self, time: u64, cpu: CpuId, prev: Option<LifeId>, next: Option<LifeId>) {
        let task = |id: Option<LifeId>| id.map(|id| self.tasks[&id].task);
        let (prev, next) = (task(prev), task(next));
        self.event(time, EventKind::Switch { cpu, prev, next });
    }

    /// Makes a chosen task runnable, unless it already is.
    fn wake(&mut self, id: LifeId, time: u64, cpu: CpuId, waker: Option<LifeId>) {
        let waker = waker.and_then(|id| self.tasks.get(&id)).map(|told| told.task);
        let Some(told) = self.tasks.get_mut(&id) else { return };
        if told.state == State::Runnable {
            return;
        }
        if told.state == State::Unknown {
            self.sink.task(time, told.task, &told.info);
        }
        told.state = State::Runnable;
        let task = told.task;
        self.event(time, EventKind::Wake { task, cpu, waker });
    }
}

fn info(name: String, life: &Life) -> TaskInfo {
    let description = &life.description;
    let policy = Policy::from_number(description.policy);
    TaskInfo {
        policy,
        nice: description.nice,
        rt_priority: description.rt_priority,
        weight: load_weight(policy, description.nice),
        ..TaskInfo::named(name)
    }
}
