//! Checks that need the whole file: references, barriers, and loops that never take time.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::model::{Barrier, Event, Task, TimerMode};
use crate::names::{Reference, Shared, Use};
use crate::object::Reader;

/// Checks the references between events.
pub(crate) fn references(
    reader: &mut Reader,
    shared: &Shared,
    tasks: &[Task],
) -> Result<(), Error> {
    let references = &shared.references;
    let uses: BTreeSet<Use> = references.iter().map(|reference| reference.usage).collect();
    let used = |usage: Use| uses.contains(&usage);
    let mut resumed_mutexes = BTreeMap::new();
    for Reference { usage, task, place } in references {
        match *usage {
            Use::Unlock(mutex) if !used(Use::Lock(mutex)) => {
                return Err(reader.error(
                    place,
                    format!(
                        "nothing ever locks the mutex \"{}\"; lock it before, or correct the name",
                        shared.mutexes.list[mutex]
                    ),
                ));
            }
            Use::Lock(mutex) => {
                let name = &shared.mutexes.list[mutex];
                if !used(Use::Unlock(mutex)) {
                    reader.notes.add(
                        place,
                        "nothing ever unlocks this mutex, so whoever locks it next waits for ever",
                    );
                }
                let condition = shared.conditions.find(name);
                if condition.is_some_and(|condition| used(Use::Resume(condition))) {
                    resumed_mutexes.entry(mutex).or_insert(place);
                }
            }
            Use::Signal(condition) if !used(Use::Wait(condition)) => {
                return Err(reader.error(
                    place,
                    format!(
                        "nothing ever waits for the condition \"{}\"; add a wait, or correct the name",
                        shared.conditions.list[condition]
                    ),
                ));
            }
            Use::Resume(condition) if !used(Use::Wait(condition)) => {
                let name = &shared.conditions.list[condition];
                if shared.tasks.find(name).is_none() {
                    return Err(reader.error(
                        place,
                        format!(
                            "there is no task \"{name}\" and nothing suspends under that name; \
                             correct the name"
                        ),
                    ));
                }
                reader
                    .notes
                    .add(place, "has no effect: that task never suspends");
            }
            Use::Wait(condition)
                if !used(Use::Signal(condition)) && !used(Use::Resume(condition)) =>
            {
                reader.notes.add(
                    place,
                    "nothing ever wakes this wait, so the task stops here",
                );
            }
            Use::SemWait(semaphore) if !used(Use::SemPost(semaphore)) => reader.notes.add(
                place,
                "nothing ever posts this semaphore, so the task stops here",
            ),
            Use::SemPost(semaphore) if !used(Use::SemWait(semaphore)) => reader.notes.add(
                place,
                "has no effect: nothing ever waits for this semaphore",
            ),
            Use::PipeRead(pipe) if !used(Use::PipeWrite(pipe)) => reader.notes.add(
                place,
                "nothing ever writes to this pipe, so the task stops here",
            ),
            Use::PipeWrite(pipe) if !used(Use::PipeRead(pipe)) => reader.notes.add(
                place,
                "nothing ever reads from this pipe, so the task stops here once it is full",
            ),
            Use::Evict(memory) if !used(Use::Fault(memory)) => reader
                .notes
                .add(place, "has no effect: no fault ever reads this memory back"),
            Use::Fault(memory) if !used(Use::Evict(memory)) => reader
                .notes
                .add(place, "has no effect: nothing ever evicts this memory"),
            Use::LapEnd => {
                let begins =
                    |other: &Reference| other.usage == Use::LapBegin && other.task == *task;
                if !references.iter().any(begins) {
                    return Err(reader.error(
                        place,
                        "the task begins no lap that could end here; add { \"lap\" : \"begin\" } before",
                    ));
                }
            }
            Use::LapBegin => {
                let ends = |other: &Reference| other.usage == Use::LapEnd && other.task == *task;
                if !references.iter().any(ends) {
                    reader
                        .notes
                        .add(place, "has no effect: the task ends no lap");
                }
            }
            Use::Barrier(barrier) => {
                if used(Use::Fork(*task)) {
                    return Err(reader.error(
                        place,
                        format!(
                            "a barrier counts the tasks that start together, so a task that is forked \
                             cannot use one; use sem_post and sem_wait, or do not fork \"{}\"",
                            tasks[*task].name
                        ),
                    ));
                }
                if shared.barriers[barrier].parties == 1 {
                    reader
                        .notes
                        .add(place, "has no effect: it is the only use of this barrier");
                }
            }
            _ => {}
        }
    }
    for place in resumed_mutexes.into_values() {
        reader.notes.add(
            place,
            "in rt-app, suspend and resume of this name take this mutex for a moment; here they do not",
        );
    }
    for (index, task) in tasks.iter().enumerate() {
        if task.instances == 0 && !used(Use::Fork(index)) {
            reader.notes.add(
                &shared.task_places[index],
                "never starts: it has \"instance\" : 0 and nothing forks it",
            );
        }
    }
    Ok(())
}

/// Makes all uses of a timer agree on its mode: in rt-app one absolute use makes the timer so.
pub(crate) fn timer_modes(tasks: &mut [Task], timers: usize) {
    let mut absolute = vec![false; timers];
    for event in events(tasks) {
        if let Event::Timer { timer, mode, .. } = event {
            absolute[timer] |= mode == TimerMode::Absolute;
        }
    }
    let phases = tasks.iter_mut().flat_map(|task| &mut task.phases);
    for phase in phases {
        phase.events.change(|event| match event {
            Event::Timer { timer, mode, .. }
                if absolute[*timer] && *mode == TimerMode::Relative =>
            {
                *mode = TimerMode::Absolute;
            }
            _ => {}
        });
    }
}

/// All events of the tasks, in order.
fn events(tasks: &[Task]) -> impl Iterator<Item = Event> + use<'_> {
    let phases = tasks.iter().flat_map(|task| &task.phases);
    phases.flat_map(|phase| phase.events.iter())
}

/// Refuses endless loops in which no time can pass: a simulation would never leave them.
pub(crate) fn endless_loops(reader: &Reader, shared: &Shared, tasks: &[Task]) -> Result<(), Error> {
    const WAY_OUT: &str = "the loop never ends and no time passes in it; add an event that runs, \
                           sleeps or waits, or limit `loop`";
    for (index, task) in tasks.iter().enumerate() {
        for (phase, place) in task.phases.iter().zip(&shared.phase_places[index]) {
            if phase.loops.is_none() && !takes_time(phase.events.iter(), &shared.barriers) {
                return Err(reader.error(place, WAY_OUT));
            }
        }
        let all = events(std::slice::from_ref(task));
        if task.loops.is_none() && !takes_time(all, &shared.barriers) {
            return Err(reader.error(&shared.task_places[index], WAY_OUT));
        }
    }
    Ok(())
}

/// Whether executing the events again and again takes time sooner or later.
fn takes_time(events: impl Iterator<Item = Event>, barriers: &[Barrier]) -> bool {
    let mut semaphores: BTreeMap<usize, i64> = BTreeMap::new();
    let mut pipes: BTreeMap<usize, i64> = BTreeMap::new();
    for event in events {
        let takes = match event {
            Event::Run(duration) | Event::Runtime(duration) | Event::Sleep(duration) => {
                duration > 0
            }
            // A late timer does not sleep, but its expiry moves on until it is no longer late.
            Event::Timer { period, .. } => period > 0,
            Event::Mem(bytes) | Event::IoRun(bytes) => bytes > 0,
            Event::MemRun { accesses, .. } => accesses > 0,
            Event::Wait { .. } | Event::Sync { .. } | Event::Suspend(_) => true,
            Event::Barrier(barrier) => barriers[barrier].parties > 1,
            Event::SemPost(semaphore) => {
                *semaphores.entry(semaphore).or_default() -= 1;
                false
            }
            Event::SemWait(semaphore) => {
                *semaphores.entry(semaphore).or_default() += 1;
                false
            }
            Event::Disk { service, .. } => service > 0,
            Event::PipeRead { pipe, bytes } => {
                *pipes.entry(pipe).or_default() -= bytes as i64;
                false
            }
            Event::PipeWrite { pipe, bytes } => {
                *pipes.entry(pipe).or_default() += bytes as i64;
                false
            }
            // Nothing may be there to read back.
            Event::Fault { .. } | Event::Evict { .. } | Event::Lap { .. } => false,
            Event::Lock(_)
            | Event::Unlock(_)
            | Event::Signal(_)
            | Event::Broadcast(_)
            | Event::Resume(_)
            | Event::Yield
            | Event::Fork(_) => false,
        };
        if takes {
            return true;
        }
    }
    // A loop that takes more of a semaphore than it gives has to wait for others, and so has one that fills or empties a pipe.
    semaphores.into_values().any(|balance| balance > 0)
        || pipes.into_values().any(|balance| balance != 0)
}
