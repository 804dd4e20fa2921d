//! A recording as a workload.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use fairground_workload::{Event, Group, Policy, Task, Workload};

use crate::chance::Chance;
use crate::error::Error;
use crate::file::Recording;
use crate::groups::Groups;
use crate::lives::{DEADLINE, KernelWork, Life, Lives, Turn};
use crate::locks;
use crate::loss::{Loss, counted};
use crate::program::{Going, Maker, going};
use crate::steps::LifeId;

/// A thread that is not a chosen task. The workload runs beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherThread {
    /// Its name.
    pub name: String,
    /// Whether it is a kernel thread.
    pub kernel: bool,
    /// Its policy.
    pub policy: Policy,
    /// CPUs that it may use; `None` for all.
    pub cpus: Option<Vec<u32>>,
    /// Path of its control group, if that is not the root.
    pub group: Option<String>,
    /// Its turns, in order of time.
    pub turns: Vec<Turn>,
}

/// The workload that a recording stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The programs of the chosen tasks. Its notes hold the loss, in one line.
    pub workload: Workload,
    /// All other threads.
    pub others: Vec<OtherThread>,
    /// How certain all this is.
    pub loss: Loss,
    /// CPUs of the machine.
    pub cpus: u32,
    /// The times that may be different another time.
    pub chance: Chance,
}

impl Recording {
    /// Makes a workload of the recording.
    pub fn load(&self) -> Result<Load, Error> {
        self.load_without(KernelWork::default())
    }

    /// Makes a workload of the recording for a world that adds `work` to the tasks' own. It is part of the recorded runs, so it is left out
    /// of them.
    pub fn load_without(&self, work: KernelWork) -> Result<Load, Error> {
        let mut lives = Lives::of(self, work);
        locks::infer(&mut lives);
        let names = names(&lives);
        if names.is_empty() {
            return Err(Error::Empty { file: self.file.clone() });
        }
        let length = self.length();
        let goings: Vec<Going> = lives.all.iter().map(|life| going(life, length)).collect();
        let mut loss = Loss {
            lost: self.ending.lost,
            gaps: lives.gaps,
            without_calls: self.header.without_calls,
            ..Loss::default()
        };
        // Definitions are in the order of names, which is the order in which the tasks appeared.
        let definitions: BTreeMap<LifeId, usize> =
            names.keys().enumerate().map(|(place, id)| (*id, place)).collect();
        let reservations = note_on_reservations(&lives);
        let note_on_ranks = note_on_ranks(&lives);
        let (groups, note_on_groups) = groups(&lives, self.header.origin);
        let known_groups = mem::take(&mut lives.groups);
        let mut maker = Maker::new(&lives, &goings, &definitions);
        let mut tasks = Vec::new();
        let mut alive = false;
        for (id, name) in &names {
            // The steps are dropped once they are a program: keeping both would take twice the memory.
            let life = mem::take(&mut lives.all[*id]);
            alive |= life.ended.is_none();
            match goings[*id] {
                Going::On { .. } => loss.going_on += 1,
                Going::Ends if life.ended.is_none() => loss.cut_off += 1,
                Going::Ends => {}
            }
            tasks.push(Task {
                name: name.clone(),
                instances: u32::from(!life.forked),
                delay: if life.forked { 0 } else { life.begin() },
                loops: Some(1),
                phases: maker.phases(*id, &life, &mut loss),
                policy: policy(&life),
                cpus: cpus(&life, self.header.cpus),
                attributes: Vec::new(),
                daemon: false,
                footprint: 0,
                process: Some(format!("process-{}", life.description.process)),
                taskgroup: group(&life, &known_groups),
            });
        }
        let chance = Chance { arrivals: maker.arrivals() };
        let mut workload = maker.workload(tasks);
        workload.name = self.name.clone();
        workload.duration = alive.then_some(length);
        workload.notes = vec![format!("{}: a recording: {loss}", self.file)];
        let told = self.header.notes.iter().cloned();
        let notes = told.chain(reservations).chain(note_on_ranks).chain(note_on_groups);
        let notes = notes.map(|note| format!("{}: {note}", self.file));
        workload.notes.extend(notes);
        workload.groups = groups;
        let others = lives.all.into_iter().filter(|life| !life.chosen && !life.turns.is_empty());
        Ok(Load {
            workload,
            others: others
                .map(|life| OtherThread {
                    kernel: life.description.kernel,
                    policy: policy(&life),
                    cpus: cpus(&life, self.header.cpus),
                    group: group(&life, &known_groups),
                    name: life.description.name,
                    turns: life.turns,
                })
                .collect(),
            loss,
            cpus: self.header.cpus,
            chance,
        })
    }
}

impl Load {
    /// The workload for real threads. They have no simulated disks and share one process, so disk waits become sleeps and processes are
    /// dropped.
    pub fn for_threads(mut self) -> Workload {
        for task in &mut self.workload.tasks {
            task.process = None;
            for phase in &mut task.phases {
                phase.events.change(|event| {
                    if let Event::Disk { service, .. } = event {
                        *event = Event::Sleep(*service);
                    }
                });
            }
        }
        self.workload.disks.clear();
        self.workload
    }
}

/// Names of the chosen tasks: their names in the kernel, numbered where several have the same.
pub(crate) fn names(lives: &Lives) -> BTreeMap<LifeId, String> {
    let chosen = || {
        let all = lives.all.iter().enumerate();
        all.filter(|(_, life)| life.chosen)
    };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, life) in chosen() {
        *counts.entry(&life.description.name).or_default() += 1;
    }
    let mut given: BTreeMap<&str, usize> = BTreeMap::new();
    chosen()
        .map(|(id, life)| {
            let name = life.description.name.as_str();
            let number = given.entry(name).or_default();
            *number += 1;
            let name = match counts[name] {
                1 => name.to_owned(),
                _ => format!("{name}#{number}"),
            };
            (id, name)
        })
        .collect()
}

/// The note on deadline tasks, if there are any.
fn note_on_reservations(lives: &Lives) -> Option<String> {
    let acts = |life: &&Life| life.chosen || !life.turns.is_empty();
    let tasks = lives.all.iter().filter(acts);
    let tasks = tasks.filter(|life| life.description.policy == DEADLINE);
    let names: Vec<&str> = tasks.map(|life| life.description.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{}: a recording has no reservations of SCHED_DEADLINE tasks, so these run as SCHED_FIFO with priority 99",
            names.join(", ")
        )
    })
}

/// The note on tasks whose policy or priority changed, if there are any.
fn note_on_ranks(lives: &Lives) -> Option<String> {
    let changed = lives.all.iter().filter(|life| life.chosen && life.changed_rank()).count();
    (changed > 0).then(|| {
        format!(
            "{} changed policy or priority; in the replay each task has the one that it had for \
             longest",
            counted(changed as u64, "task", "tasks")
        )
    })
}

/// Path of the control group in which a task competes, if that is not the root. Groups of real-time tasks have no effect.
fn group(life: &Life, groups: &Groups) -> Option<String> {
    match policy(life) {
        Policy::Fifo { .. } | Policy::RoundRobin { .. } | Policy::Deadline { .. } => None,
        _ => groups.path(life.description.group),
    }
}

/// The control groups of the workload, and the note on how they differ from the recorded ones.
fn groups(lives: &Lives, origin: u64) -> (Vec<Group>, Option<String>) {
    let acts = |life: &&Life| life.chosen || !life.turns.is_empty();
    let of_groups = |life: &&Life| group(life, &lives.groups).is_some();
    let members: Vec<&Life> = lives.all.iter().filter(acts).filter(of_groups).collect();
    let used: BTreeSet<u64> = members.iter().map(|life| life.description.group).collect();
    let mut notes = Vec::new();
    if lives.groups.have_sessions(&used) {
        notes.push("sessions that the kernel treats as groups (autogroup) are control groups of the workload; on a kernel, sched_ext schedulers do not see them".to_owned());
    }
    let moved = members.iter().filter(|life| life.moved).count();
    if moved > 0 {
        notes.push(format!(
            "{} changed control groups; in the replay each task is in its last one from its start",
            counted(moved as u64, "task", "tasks")
        ));
    }
    let note = (!notes.is_empty()).then(|| notes.join("; "));
    (lives.groups.of_workload(&used, origin), note)
}

fn policy(life: &Life) -> Policy {
    let description = &life.description;
    let (nice, slice) = (description.nice, None);
    let priority = description.rt_priority.clamp(1, 99);
    match description.policy {
        1 => Policy::Fifo { priority },
        2 => Policy::RoundRobin { priority },
        3 => Policy::Batch { nice, slice },
        5 => Policy::Idle,
        7 => Policy::Ext { nice },
        // The reservation of a deadline task is not recorded; the task runs before all others instead.
        DEADLINE => Policy::Fifo { priority: 99 },
        _ => Policy::Other { nice, slice },
    }
}

/// CPUs that a task may use; `None` for all, and where they are unknown because an entry only holds the first 64.
fn cpus(life: &Life, machine: u32) -> Option<Vec<u32>> {
    let description = &life.description;
    let told = description.first_allowed.count_ones();
    if told == 0 || told != description.allowed || told >= machine {
        return None;
    }
    Some((0..64).filter(|cpu| description.first_allowed >> cpu & 1 == 1).collect())
}
