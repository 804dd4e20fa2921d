//! Checks that need the whole file: references, barriers, and loops that never take time.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::events::{Event, TimerMode};
use crate::model::{Barrier, Task};
use crate::names::{Reference, Shared, Use};
use crate::object::{Object, Reader};

/// A fault of a reference.
enum Finding {
    /// This cannot be meant.
    Error(String),
    /// This may be meant, but is worth mentioning.
    Note(&'static str),
}

/// Checks that a task's name tells it from the instances of others, which have a number behind theirs.
pub(crate) fn names(tasks: &Object, list: &[Task]) -> Result<(), Error> {
    let several = list.iter().filter(|task| task.instances > 1);
    let several: BTreeMap<&str, &Task> = several.map(|task| (task.name.as_str(), task)).collect();
    for field in tasks.fields() {
        let Some((name, number)) = field.key.rsplit_once('-') else { continue };
        let (Some(task), Ok(number)) = (several.get(name), number.parse::<u32>()) else { continue };
        if number < task.instances && task.instance_name(number) == field.key {
            let message = format!("an instance of {name} has this name, too; write another one");
            return Err(field.key_error(message));
        }
    }
    Ok(())
}

/// Checks the references between events.
pub(crate) fn references(reader: &Reader, shared: &Shared, tasks: &[Task]) -> Result<(), Error> {
    let references = &shared.references;
    let uses: BTreeSet<Use> = { references.iter() }
        .map(|reference| reference.usage)
        .chain(shared.arrivals.iter().copied().map(Use::Request))
        .collect();
    let used = |usage: Use| uses.contains(&usage);
    let mut resumed_mutexes = BTreeMap::new();
    for reference in references {
        let place = &reference.place;
        let finding = taken(reference, references)
            .or_else(|| unanswered(reference.usage, shared, used))
            .or_else(|| open_lap(reference, references))
            .or_else(|| barrier(reference, shared, tasks, used));
        match finding {
            Some(Finding::Error(message)) => return Err(reader.error(place, message)),
            Some(Finding::Note(text)) => reader.note(place, text),
            None => {}
        }
        if let Use::Lock(mutex) = reference.usage {
            let condition = shared.conditions.find(&shared.mutexes.list[mutex]);
            if condition.is_some_and(|condition| used(Use::Resume(condition))) {
                resumed_mutexes.entry(mutex).or_insert(place);
            }
        }
    }
    for place in resumed_mutexes.into_values() {
        reader.note(
            place,
            "in rt-app, suspend and resume of this name take this mutex for a moment; here they do not",
        );
    }
    for (index, task) in tasks.iter().enumerate() {
        if task.instances == 0 && !used(Use::Fork(index)) {
            reader.note(
                &shared.task_places[index],
                "never starts: it has \"instance\" : 0 and nothing forks it",
            );
        }
    }
    Ok(())
}

/// A use that makes no sense without another one, in a file without the other.
fn unanswered(usage: Use, shared: &Shared, used: impl Fn(Use) -> bool) -> Option<Finding> {
    let finding = match usage {
        Use::Unlock(mutex) if !used(Use::Lock(mutex)) => Finding::Error(format!(
            "nothing ever locks the mutex \"{}\"; lock it before, or correct the name",
            shared.mutexes.list[mutex]
        )),
        Use::Lock(mutex) if !used(Use::Unlock(mutex)) => Finding::Note(
            "nothing ever unlocks this mutex, so the next task that locks it waits for ever",
        ),
        Use::Signal(condition) if !used(Use::Wait(condition)) => Finding::Error(format!(
            "nothing ever waits for the condition \"{}\"; add a wait, or correct the name",
            shared.conditions.list[condition]
        )),
        Use::Resume(condition) if !used(Use::Wait(condition)) => {
            let name = &shared.conditions.list[condition];
            match shared.tasks.find(name) {
                Some(_) => Finding::Note("has no effect: that task never suspends"),
                None => Finding::Error(format!(
                    "there is no task \"{name}\" and nothing suspends under that name; correct the name"
                )),
            }
        }
        Use::Wait(condition) if !used(Use::Signal(condition)) && !used(Use::Resume(condition)) => {
            Finding::Note("nothing ever wakes this wait, so the task stops here")
        }
        Use::SemWait(semaphore) if !used(Use::SemPost(semaphore)) => {
            Finding::Note("nothing ever posts this semaphore, so the task stops here")
        }
        Use::SemPost(semaphore) if !used(Use::SemWait(semaphore)) => {
            Finding::Note("has no effect: nothing ever waits for this semaphore")
        }
        Use::PipeRead(pipe) if !used(Use::PipeWrite(pipe)) => {
            Finding::Note("nothing ever writes to this pipe, so the task stops here")
        }
        Use::PipeWrite(pipe) if !used(Use::PipeRead(pipe)) => Finding::Note(
            "nothing ever reads from this pipe, so the task stops here once it is full",
        ),
        Use::Request(service) if !used(Use::Take(service)) => Finding::Error(format!(
            "nothing ever takes requests from the service \"{}\"; add a take, or correct the name",
            shared.services.list[service]
        )),
        Use::Take(service) if !used(Use::Request(service)) => {
            Finding::Note("no request ever comes to this service")
        }
        Use::Evict(memory) if !used(Use::Fault(memory)) => {
            Finding::Note("has no effect: no fault ever reads this memory back")
        }
        Use::Fault(memory) if !used(Use::Evict(memory)) => {
            Finding::Note("has no effect: nothing ever evicts this memory")
        }
        _ => return None,
    };
    Some(finding)
}

/// The beginning or end of a lap, in a task that does not have the other.
fn open_lap(reference: &Reference, references: &[Reference]) -> Option<Finding> {
    let has = |usage: Use| {
        let mut own = references.iter().filter(|other| other.task == reference.task);
        own.any(|other| other.usage == usage)
    };
    match reference.usage {
        Use::LapEnd if !has(Use::LapBegin) => Some(Finding::Error(
            "the task begins no lap that could end here; add { \"lap\" : \"begin\" } before"
                .to_owned(),
        )),
        Use::LapBegin if !has(Use::LapEnd) => {
            Some(Finding::Note("has no effect: the task ends no lap"))
        }
        _ => None,
    }
}

/// Finds answers and passes in a task that takes no request, and requests that are taken in a task that does nothing with them.
fn taken(reference: &Reference, references: &[Reference]) -> Option<Finding> {
    let mut own = { references.iter() }.filter(|other| other.task == reference.task);
    match reference.usage {
        Use::Answer | Use::Pass if !own.any(|other| matches!(other.usage, Use::Take(_))) => {
            Some(Finding::Error(
                "the task takes no request that it could answer or pass on; add { \"take\" : \"SERVICE\" } before"
                    .to_owned(),
            ))
        }
        Use::Take(_) if !own.any(|other| matches!(other.usage, Use::Answer | Use::Pass)) => {
            Some(Finding::Error(
                "the task neither answers requests nor passes them on; add { \"answer\" : \"\" } or { \"pass\" : \"SERVICE\" }"
                    .to_owned(),
            ))
        }
        _ => None,
    }
}

/// A barrier that is used by a forked task, or by only one task.
fn barrier(
    reference: &Reference,
    shared: &Shared,
    tasks: &[Task],
    used: impl Fn(Use) -> bool,
) -> Option<Finding> {
    let Use::Barrier(barrier) = reference.usage else { return None };
    if used(Use::Fork(reference.task)) {
        return Some(Finding::Error(format!(
            "a barrier counts the tasks that start together, so a task that is forked cannot use one; use sem_post and \
             sem_wait, or do not fork \"{}\"",
            tasks[reference.task].name
        )));
    }
    let alone = shared.barriers[barrier].parties == 1;
    alone.then_some(Finding::Note("has no effect: it is the only use of this barrier"))
}

/// Makes all uses of a timer agree on its mode: as in rt-app, one absolute use makes the timer absolute.
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
    tasks.iter().flat_map(|task| &task.phases).flat_map(|phase| phase.events.iter())
}

/// Refuses endless loops in which no time can pass, which a simulation would never leave.
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

/// Refuses sections without migration that do not begin and end one after the other within a phase.
pub(crate) fn sections(reader: &Reader, shared: &Shared, tasks: &[Task]) -> Result<(), Error> {
    for (index, task) in tasks.iter().enumerate() {
        for (phase, place) in task.phases.iter().zip(&shared.phase_places[index]) {
            let mut enabled = true;
            for event in phase.events.iter() {
                let Event::Migration { enable } = event else { continue };
                if enable == enabled {
                    let problem = match enable {
                        true => {
                            "ends a section without migration that has not begun; write { \"migration\" : \"disable\" } before"
                        }
                        false => {
                            "begins a section without migration inside another one; end that one before"
                        }
                    };
                    return Err(reader.error(place, problem));
                }
                enabled = enable;
            }
            if !enabled {
                return Err(reader.error(
                    place,
                    "does not end a section without migration; add { \"migration\" : \"enable\" }",
                ));
            }
        }
    }
    Ok(())
}

/// Whether repeating the events takes time sooner or later.
fn takes_time(events: impl Iterator<Item = Event>, barriers: &[Barrier]) -> bool {
    let mut semaphores: BTreeMap<usize, i64> = BTreeMap::new();
    let mut pipes: BTreeMap<usize, i64> = BTreeMap::new();
    for event in events {
        let takes = match event {
            Event::Run(duration) | Event::Runtime(duration) | Event::Sleep(duration) => {
                duration > 0
            }
            // A late timer does not sleep, but its expiry advances until it is no longer late.
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
            Event::Read { .. } => true,
            Event::PipeRead { pipe, bytes } => {
                *pipes.entry(pipe).or_default() -= bytes as i64;
                false
            }
            Event::PipeWrite { pipe, bytes } => {
                *pipes.entry(pipe).or_default() += bytes as i64;
                false
            }
            // There may be nothing to read back in, and room for what is written.
            Event::Fault { .. }
            | Event::Write { .. }
            | Event::Evict { .. }
            | Event::Lap { .. }
            | Event::Pass(_)
            | Event::Answer
            | Event::Migration { .. } => false,
            // Somebody else has to answer, and requests run out.
            Event::Ask(_) | Event::Take(_) => true,
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
    // A loop that takes more from a semaphore than it gives has to wait for others, and so does one that fills or empties a pipe.
    semaphores.into_values().any(|balance| balance > 0)
        || pipes.into_values().any(|balance| balance != 0)
}
