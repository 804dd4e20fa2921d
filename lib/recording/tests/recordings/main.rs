//! Recordings: files, and the workloads that they are.

mod imports;
mod support;
mod texts;

use std::collections::BTreeSet;

use fairground_events::{Event as Told, EventKind, Nanoseconds, Sink, TaskId, TaskInfo};
use fairground_recording::{
    Chance, Context, Description, Ending, Entry, EntryKind, GroupDescription, Header, KernelWork,
    Load, Recording, Roots, Writer, rt_app,
};
use fairground_workload::{Event, Phase, Task, TimerMode, Workload};
use proptest::prelude::*;
use support::{FUTEX, MS, NANOSLEEP, ORIGIN, POLL, READ, Script};

/// How late the timers of ordinary tasks come: nobody asked for that part of a sleep.
const SLACK: u64 = 50_000;

fn events(load: &Load, name: &str) -> Vec<Event> {
    task(load, name).phases[0].events.iter().collect()
}

fn task<'a>(load: &'a Load, name: &str) -> &'a Task {
    let tasks = &load.workload.tasks;
    let found = tasks.iter().find(|task| task.name == name);
    found.unwrap_or_else(|| panic!("no {name} among {tasks:?}"))
}

fn load(script: Script, length: u64) -> Load {
    script.recording(length).load().expect("it has tasks")
}

#[test]
fn who_wakes_whom_is_at_its_place_in_the_run() {
    let mut script = Script::of(&["baker", "eater"]);
    script.born(0, 2, 1);
    script.preempt(0, 0, 2);
    script.sleep(MS, 2, 1, READ, 5);
    script.wake(4 * MS, 2, 1, Context::Task);
    script.preempt(6 * MS, 1, 2);
    script.end(7 * MS, 2, 1);
    script.end(9 * MS, 1, 0);
    let load = load(script, 10 * MS);
    assert_eq!(
        events(&load, "baker"),
        [Event::Run(3 * MS), Event::SemPost(0), Event::Run(4 * MS),],
        "{load:?}"
    );
    assert_eq!(events(&load, "eater"), [Event::Run(MS), Event::SemWait(0), Event::Run(MS)]);
    // Both have ended, so the run lasts until they have.
    assert_eq!(load.workload.duration, None);
    assert_eq!(load.loss.waits, [1, 0, 0]);
}

#[test]
fn runs_are_without_what_a_simulation_adds_to_them() {
    const US: u64 = 1000;
    let mut script = Script::of(&["baker", "eater"]);
    script.born(0, 2, 1);
    script.preempt(0, 0, 2);
    script.sleep(MS, 2, 1, READ, 5);
    script.wake(4 * MS, 2, 1, Context::Task);
    script.preempt(6 * MS, 1, 2);
    // Shorter than the kernel's own time: the rest comes out of the next run.
    script.yields(6 * MS + 50 * US, 2, 1);
    script.preempt(7 * MS, 1, 2);
    script.end(8 * MS, 2, 1);
    script.end(9 * MS, 1, 0);
    let work = KernelWork { switch: 100 * US, waking: 30 * US, call: 7 * US };
    let load = script.recording(10 * MS).load_without(work).expect("it has tasks");
    assert_eq!(
        events(&load, "baker"),
        [
            Event::Run(3 * MS - 137 * US),
            Event::SemPost(0),
            Event::Run(2 * MS + 950 * US + MS - 200 * US),
        ]
    );
    assert_eq!(
        events(&load, "eater"),
        [Event::Run(MS - 107 * US), Event::SemWait(0), Event::Yield, Event::Run(MS - 157 * US),]
    );
}

#[test]
fn children_are_forked_where_they_were() {
    let mut script = Script::of(&["make", "cc1", "cc1"]);
    script.born(0, 1, 50);
    script.preempt(0, 0, 1);
    script.born(2 * MS, 2, 1);
    script.born(3 * MS, 3, 1);
    script.sleep(4 * MS, 1, 2, 61, 0);
    script.preempt(5 * MS, 2, 3);
    script.end(6 * MS, 3, 2);
    script.wake(7 * MS, 1, 2, Context::Task);
    script.end(7 * MS, 2, 1);
    script.end(8 * MS, 1, 0);
    let load = load(script, 8 * MS);
    assert_eq!(
        events(&load, "make"),
        [
            Event::Run(2 * MS),
            Event::Fork(1),
            Event::Run(MS),
            Event::Fork(2),
            Event::Run(MS),
            Event::SemWait(0),
            Event::Run(MS),
        ]
    );
    assert_eq!(task(&load, "cc1#1").instances, 0);
    assert_eq!(events(&load, "cc1#1")[1], Event::SemPost(0));
}

#[test]
fn numbers_of_threads_come_back() {
    let mut script = Script::default();
    script.describe(1, "sh");
    script.describe(7, "ls");
    script.preempt(0, 0, 1);
    for turn in 0..3 {
        let begin = 10 * turn * MS;
        script.born(begin + MS, 7, 1);
        script.sleep(begin + 2 * MS, 1, 7, 61, 0);
        script.wake(begin + 4 * MS, 1, 7, Context::Task);
        script.end(begin + 5 * MS, 7, 1);
    }
    let recording = script.recording(30 * MS);
    let load = recording.load().expect("it has tasks");
    let events = events(&load, "sh");
    let forks = events.iter().filter(|event| matches!(event, Event::Fork(_)));
    assert_eq!(forks.count(), 3);
    assert_eq!(load.workload.tasks.len(), 4);
}

/// A task that runs for a while in each period, late every fifth time.
fn periodic(lateness: u64) -> Script {
    let mut script = Script::running("player");
    let mut time = 0;
    for period in 1..=40_u64 {
        let busy = 2 * MS + if period % 5 == 0 { lateness } else { 0 };
        script.sleep(time + busy, 1, 0, NANOSLEEP, 1);
        time = period * 10 * MS;
        script.wakes_up(time, Context::Timer);
    }
    script
}

#[test]
fn timers_on_a_grid_are_periods() {
    let load = load(periodic(0), 401 * MS);
    let player = task(&load, "player");
    assert!(
        matches!(
            events(&load, "player")[3],
            Event::Timer { period: 10_000_000, mode: TimerMode::Relative, .. }
        ),
        "{:?}",
        &events(&load, "player")[..6]
    );
    assert_eq!(player.phases.len(), 2, "it goes on");
    assert_eq!(player.phases[1].loops, None);
    assert_eq!(load.workload.duration, Some(401 * MS));
}

#[test]
fn who_was_late_shows_whether_he_keeps_the_grid() {
    for (off, expected) in [(0, TimerMode::Absolute), (3 * MS, TimerMode::Relative)] {
        let mut script = Script::running("player");
        let mut time = 0;
        for period in 1..=40_u64 {
            // Every fifth time it does two jobs at once.
            let late = period % 5 == 0;
            script.sleep(time + if late { 4 } else { 2 } * MS, 1, 0, NANOSLEEP, 1);
            time += if late { 20 * MS + off } else { 10 * MS };
            script.wakes_up(time, Context::Timer);
        }
        let load = load(script, time + MS);
        let events = events(&load, "player");
        let jobs = events.iter().filter(|event| **event == Event::Run(2 * MS));
        assert_eq!(jobs.count(), 48, "the two jobs are apart: {events:?}");
        let Event::Timer { mode, .. } = events[3] else { panic!("a timer: {:?}", events[3]) };
        assert_eq!(mode, expected);
    }
}

#[test]
fn sleeps_of_one_length_are_relative() {
    let mut script = Script::running("sleeper");
    let mut time = 0;
    for turn in 0..30_u64 {
        time += (1 + turn % 7) * MS;
        script.sleep(time, 1, 0, NANOSLEEP, 1);
        time += 5 * MS;
        script.wakes_up(time, Context::Timer);
    }
    let load = load(script, time);
    assert_eq!(events(&load, "sleeper")[1], Event::Sleep(5 * MS - SLACK));
}

#[test]
fn sleeps_are_relative_also_where_most_of_them_begin_in_step() {
    let mut script = Script::running("sleeper");
    let mut time = 0;
    for turn in 1..=60_u64 {
        // Seldom, somebody else has the CPU when it is woken.
        let wait = if turn % 20 == 0 { 4 * MS } else { 0 };
        time += wait + MS;
        script.sleep(time, 1, 0, NANOSLEEP, 1);
        time += 9 * MS;
        script.wakes_up(time, Context::Timer);
    }
    let load = load(script, time);
    assert_eq!(events(&load, "sleeper")[1], Event::Sleep(9 * MS - SLACK));
}

#[test]
fn periods_show_also_where_every_other_one_is_missed() {
    let mut script = Script::running("player");
    let mut time = 0;
    for turn in 0..60_u64 {
        // Two jobs at once, or one that begins late in its period.
        let late = turn % 2 == 1;
        let interval = 20 * MS + if late { (8 + turn % 31) * MS } else { 0 };
        let end = if late { interval - (1 + turn % 13) * MS } else { 4 * MS + turn % 12 * MS };
        script.preempt(time, 1, 0);
        script.preempt(time + end - if late { 8 } else { 4 } * MS, 0, 1);
        script.sleep(time + end, 1, 0, NANOSLEEP, 1);
        time += interval;
        script.wakes_up(time, Context::Timer);
    }
    let load = load(script, time + MS);
    let events = events(&load, "player");
    let periods = events.iter().filter(|event| {
        matches!(event, Event::Timer { period: 20_000_000, mode: TimerMode::Relative, .. })
    });
    assert!(periods.count() > 80, "{events:?}");
}

#[test]
fn periods_show_also_where_sleeps_of_one_length_are_more_frequent() {
    let mut script = Script::running("player");
    let mut time = 0;
    for turn in 0..60_u64 {
        // Late in its first job, and undisturbed in the second; or just in time, with the rest of the period.
        let (end, interval) = match turn % 5 {
            0..=2 => (16 * MS + turn % 11 * MS, 32 * MS + turn % 11 * MS),
            3 => (4 * MS, 20 * MS),
            _ => (10 * MS + turn % 7 * MS, 20 * MS),
        };
        let jobs = if turn % 5 < 3 { 8 } else { 4 };
        script.preempt(time, 1, 0);
        script.preempt(time + end - jobs * MS, 0, 1);
        script.sleep(time + end, 1, 0, NANOSLEEP, 1);
        time += interval;
        script.wakes_up(time, Context::Timer);
    }
    let load = load(script, time + MS);
    let events = events(&load, "player");
    let is_period = |event: &&Event| {
        let Event::Timer { period, mode, .. } = event else { return false };
        (*period, *mode) == (20 * MS, TimerMode::Relative)
    };
    assert!(events.iter().filter(is_period).count() > 70, "{events:?}");
}

#[test]
fn disks_take_as_long_as_they_took_and_arrivals_come_when_they_came() {
    let mut script = Script::running("server");
    script.disk(MS, 1, 0);
    script.wakes_up(4 * MS, Context::Device);
    script.sleep(5 * MS, 1, 0, POLL, 1);
    script.wakes_up(9 * MS, Context::SoftInterrupt);
    script.end(10 * MS, 1, 0);
    let load = load(script, 10 * MS);
    assert_eq!(
        events(&load, "server"),
        [
            Event::Run(MS),
            Event::Disk { disk: 0, service: 3 * MS },
            Event::Run(MS),
            Event::Timer { timer: 0, period: 9 * MS - SLACK, mode: TimerMode::Absolute },
            Event::Run(MS),
        ]
    );
    assert_eq!(load.loss.waits, [0, 1, 1]);
    assert_eq!(load.loss.cpu_time, [MS, MS, MS]);
    let threads = load.for_threads();
    assert_eq!(threads.tasks[0].process, None);
    assert_eq!(threads.tasks[0].phases[0].events.get(1), Some(Event::Sleep(3 * MS)));
}

#[test]
fn who_always_runs_goes_on() {
    let mut script = Script::of(&["hog", "hog"]);
    script.preempt(0, 0, 1);
    for turn in 1..100 {
        let (leaves, comes) = if turn % 2 == 1 { (1, 2) } else { (2, 1) };
        script.preempt(turn * 4 * MS, leaves, comes);
    }
    let load = load(script, 400 * MS);
    let hog = task(&load, "hog#1");
    assert_eq!(hog.phases[0].events, [Event::Run(200 * MS)]);
    assert_eq!((hog.phases[1].loops, load.loss.going_on), (None, 2));
    assert!(load.workload.notes[0].contains("2 tasks continue"), "{:?}", load.workload.notes);
}

#[test]
fn words_that_are_handed_on_are_mutexes() {
    let mut script = Script::of(&["left", "right"]);
    script.born(0, 1, 50);
    script.born(0, 2, 50);
    script.preempt(0, 0, 1);
    let mut time = 0;
    let (mut holder, mut other) = (1, 2);
    for _ in 0..20 {
        // The other runs into the mutex; the holder lets go of it, and runs into it himself later.
        script.preempt(time + MS, holder, other);
        script.sleep(time + 2 * MS, other, holder, FUTEX, 0xabc);
        script.wake(time + 4 * MS, other, holder, Context::Task);
        std::mem::swap(&mut holder, &mut other);
        script.preempt(time + 4 * MS, other, holder);
        script.preempt(time + 5 * MS, holder, other);
        script.preempt(time + 6 * MS, other, holder);
        time += 6 * MS;
    }
    let load = load(script, time);
    assert_eq!(load.workload.mutexes.len(), 1);
    for name in ["left", "right"] {
        for phase in &task(&load, name).phases {
            let mut held = false;
            for event in phase.events.iter() {
                match event {
                    Event::Lock(0) => assert!(!std::mem::replace(&mut held, true)),
                    Event::Unlock(0) => assert!(std::mem::replace(&mut held, false)),
                    _ => {}
                }
            }
            assert!(!held, "{name} lets go of it at the end of each pass");
        }
    }
}

#[test]
fn holds_for_which_nobody_waited_are_where_the_others_have_a_gap() {
    let mut script = Script::of(&["left", "right"]);
    script.preempt(0, 0, 1);
    let mut time = 0;
    for turn in 0..120 {
        // The left one runs for 2 ms, and for another 2 with the mutex, after which it sleeps.
        script.preempt(time + 3 * MS, 1, 2);
        // Three of four times the other runs into it.
        let contended = turn % 4 != 3;
        if contended {
            script.sleep(time + 4 * MS, 2, 1, FUTEX, 0xabc);
        } else {
            script.preempt(time + 4 * MS, 2, 1);
        }
        if contended {
            script.wake(time + 5 * MS, 2, 1, Context::Task);
        }
        script.sleep(time + 5 * MS, 1, 2, NANOSLEEP, 1);
        script.wake(time + 9 * MS, 1, 0, Context::Timer);
        if turn == 40 || turn == 80 {
            // Once in a while it is the other way round.
            script.preempt(time + 9 * MS, 2, 1);
            script.sleep(time + 9 * MS + 1, 1, 2, FUTEX, 0xabc);
            script.wake(time + 9 * MS + 2, 1, 2, Context::Task);
        }
        script.preempt(time + 10 * MS, 2, 1);
        time += 10 * MS;
    }
    let load = load(script, time);
    assert_eq!(load.workload.mutexes.len(), 1);
    let (mut held, mut holds) = (false, 0);
    let events = events(&load, "left");
    for event in &events {
        match event {
            Event::Lock(0) => (held, holds) = (true, holds + 1),
            Event::Unlock(0) => held = false,
            Event::Sleep(_) | Event::Timer { .. } => assert!(!held, "{holds}: {events:?}"),
            _ => {}
        }
    }
    assert!(holds >= 118, "{holds}: {events:?}");
}

#[test]
fn who_finds_a_mutex_taken_again_has_not_had_it() {
    const US: u64 = 1000;
    const TURNS: u64 = 20;
    let mut script = Script::of(&["left", "right"]);
    script.preempt(0, 0, 1);
    for turn in 0..TURNS {
        let time = turn * MS;
        // The right one runs into the mutex. The left one lets go of it, takes it again before the right one runs, and yields.
        script.preempt(time, 1, 2);
        script.sleep(time + 10 * US, 2, 1, FUTEX, 0xabc);
        for attempt in 1..=3 {
            let time = time + attempt * 20 * US;
            script.wake(time, 2, 1, Context::Task);
            script.yields(time + 2 * US, 1, 2);
            script.sleep(time + 12 * US, 2, 1, FUTEX, 0xabc);
        }
        // Then it lets the right one have it, and runs into it in turn.
        script.wake(time + 90 * US, 2, 1, Context::Task);
        script.preempt(time + 91 * US, 1, 2);
        script.preempt(time + 95 * US, 2, 1);
        script.sleep(time + 96 * US, 1, 2, FUTEX, 0xabc);
        script.wake(time + 100 * US, 1, 2, Context::Task);
        script.preempt(time + 101 * US, 2, 1);
    }
    let recording = script.recording(TURNS * MS);
    // Holds are found where they are, also if all of their time is the kernel's.
    for (waking, own) in [(0, 8), (2, 4), (4, 0)] {
        let work = KernelWork { waking: waking * US, call: waking * US, ..KernelWork::default() };
        let load = recording.load_without(work).expect("it has tasks");
        assert_eq!(load.workload.mutexes.len(), 1);
        let recorded = &task(&load, "right").phases[0].events;
        let (mut holds, mut held) = (0, None);
        for event in recorded.iter() {
            match event {
                Event::Lock(_) => held = Some(0),
                Event::Run(time) => held = held.map(|held| held + time),
                Event::Unlock(_) => {
                    holds += 1;
                    assert_eq!(held.take(), Some(own * US), "{recorded:?}");
                }
                _ => {}
            }
        }
        assert_eq!(holds, TURNS, "{recorded:?}");
    }
}

#[test]
fn holds_with_a_yield_in_each_are_told_apart_where_nobody_waits() {
    const US: u64 = 1000;
    const TURNS: u64 = 20;
    const ALONE: u64 = 5;
    let mut script = Script::of(&["left", "right", "other"]);
    script.preempt(0, 0, 1);
    for turn in 0..TURNS {
        let time = turn * MS;
        // The left one takes the mutex, yields, and lets go of it, once several times before the right one comes.
        if turn == 10 {
            for round in 1..ALONE {
                script.yields(time + round * 10 * US, 1, 3);
                script.preempt(time + round * 10 * US + 1, 3, 1);
            }
        }
        script.wake(time + 85 * US, 2, 1, Context::Timer);
        script.yields(time + 90 * US, 1, 2);
        script.sleep(time + 91 * US, 2, 1, FUTEX, 0xabc);
        script.wake(time + 95 * US, 2, 1, Context::Task);
        script.preempt(time + 96 * US, 1, 2);
        // So does the right one, and sleeps.
        script.yields(time + 100 * US, 2, 1);
        script.sleep(time + 101 * US, 1, 2, FUTEX, 0xabc);
        script.wake(time + 105 * US, 1, 2, Context::Task);
        script.sleep(time + 110 * US, 2, 1, NANOSLEEP, 1);
    }
    let load = load(script, TURNS * MS);
    assert_eq!(load.workload.mutexes.len(), 1);
    let recorded = &task(&load, "left").phases[0].events;
    let (mut yields, mut held, mut holds) = (0, false, 0);
    for event in recorded.iter() {
        match event {
            Event::Lock(_) => (yields, held, holds) = (0, true, holds + 1),
            Event::Yield => yields += 1,
            Event::Unlock(_) => {
                assert!(std::mem::replace(&mut held, false));
                assert!(yields <= 1, "{recorded:?}");
            }
            _ => {}
        }
    }
    // The last one it takes when nothing comes after it.
    assert_eq!(holds, TURNS + ALONE, "{recorded:?}");
}

/// A client, and a server that waits for a condition.
fn waiting_server() -> Script {
    let mut script = Script::of(&["client", "server"]);
    script.preempt(0, 0, 2);
    script.sleep(MS, 2, 1, FUTEX, 0xc);
    script
}

/// The client wakes the server, which runs into the mutex that the client still has.
fn signal(script: &mut Script, time: u64) {
    script.wake(time, 2, 1, Context::Task);
    script.preempt(time, 1, 2);
    script.sleep(time + MS, 2, 1, FUTEX, 0xabc);
    script.wake(time + 2 * MS, 2, 1, Context::Task);
    script.preempt(time + 2 * MS, 1, 2);
}

#[test]
fn who_waits_for_a_condition_holds_no_mutex() {
    let mut script = waiting_server();
    let mut time = 2 * MS;
    for turn in 0..20 {
        signal(&mut script, time);
        // Every other time the client runs into it in turn.
        if turn % 2 == 0 {
            script.preempt(time + 3 * MS, 2, 1);
            script.sleep(time + 4 * MS, 1, 2, FUTEX, 0xabc);
            script.wake(time + 6 * MS, 1, 2, Context::Task);
        }
        script.sleep(time + 7 * MS - turn % 2 * 4 * MS, 2, 1, FUTEX, 0xc);
        time += 9 * MS;
    }
    let load = load(script, time);
    assert_eq!(load.workload.mutexes.len(), 1);
    assert_waits_without_mutex(task(&load, "server"));
}

#[test]
fn who_signals_a_condition_holds_its_mutex() {
    let mut script = waiting_server();
    let mut time = 2 * MS;
    for _ in 0..20 {
        signal(&mut script, time);
        // Most holds are much shorter than that.
        for short in [time + 2 * MS, time + 3 * MS] {
            script.preempt(short + MS / 10, 2, 1);
            script.sleep(short + MS / 5, 1, 2, FUTEX, 0xabc);
            script.wake(short + MS / 4, 1, 2, Context::Task);
            script.sleep(short + MS / 3, 2, 1, FUTEX, 0xabc);
            script.wake(short + MS / 2, 2, 1, Context::Task);
            script.preempt(short + MS / 2, 1, 2);
        }
        script.sleep(time + 4 * MS, 2, 1, FUTEX, 0xc);
        time += 5 * MS;
    }
    let load = load(script, time);
    assert_eq!(load.workload.mutexes.len(), 1);
    let signals =
        held_at(&task(&load, "client").phases[..1], |event| matches!(event, Event::SemPost(_)));
    assert_eq!(signals, [true; 20]);
}

/// Whether the task holds the first mutex at each of these events.
fn held_at(phases: &[Phase], wanted: fn(&Event) -> bool) -> Vec<bool> {
    let mut held_at = Vec::new();
    for phase in phases {
        let mut held = false;
        for event in phase.events.iter() {
            match event {
                Event::Lock(0) => held = true,
                Event::Unlock(0) => held = false,
                _ if wanted(&event) => held_at.push(held),
                _ => {}
            }
        }
    }
    held_at
}

/// No mutex is held where the task waits for a semaphore.
fn assert_waits_without_mutex(task: &Task) {
    let waits = held_at(&task.phases, |event| matches!(event, Event::SemWait(_)));
    assert!(!waits.is_empty());
    assert!(waits.iter().all(|held| !held), "{:?}", task.phases);
}

#[test]
fn who_waits_for_another_task_in_any_call_holds_no_mutex() {
    let mut script = Script::of(&["client", "server"]);
    script.preempt(0, 0, 2);
    script.sleep(MS, 2, 1, READ, 3);
    let mut time = 2 * MS;
    for _ in 0..20 {
        // The server runs into the mutex, takes it, and lets go of it unseen before it reads.
        script.wake(time, 2, 1, Context::Task);
        script.preempt(time, 1, 2);
        script.sleep(time + MS, 2, 1, FUTEX, 0xabc);
        script.wake(time + 2 * MS, 2, 1, Context::Task);
        script.preempt(time + 2 * MS, 1, 2);
        script.sleep(time + 3 * MS, 2, 1, READ, 3);
        // Woken, it takes the mutex again, unseen, and the client runs into it.
        script.wake(time + 4 * MS, 2, 1, Context::Task);
        script.sleep(time + 5 * MS, 1, 2, FUTEX, 0xabc);
        script.wake(time + 6 * MS, 1, 2, Context::Task);
        script.sleep(time + 7 * MS, 2, 1, READ, 3);
        time += 9 * MS;
    }
    let load = load(script, time);
    assert_eq!(load.workload.mutexes.len(), 1);
    assert_waits_without_mutex(task(&load, "server"));
}

/// Which mutexes tasks take while they hold which others.
fn nestings(load: &Load) -> BTreeSet<(usize, usize)> {
    let mut nestings = BTreeSet::new();
    let phases = load.workload.tasks.iter().flat_map(|task| &task.phases);
    for phase in phases {
        let mut held = BTreeSet::new();
        for event in phase.events.iter() {
            match event {
                Event::Lock(mutex) => {
                    nestings.extend(held.iter().map(|outer| (*outer, mutex)));
                    held.insert(mutex);
                }
                Event::Unlock(mutex) => {
                    held.remove(&mutex);
                }
                _ => {}
            }
        }
    }
    nestings
}

#[test]
fn mutexes_are_never_taken_in_both_orders() {
    let mut script = Script::of(&["left", "right"]);
    script.preempt(0, 0, 1);
    let mut time = 0;
    let (mut one, mut other) = (0xabc, 0xdef);
    for _ in 0..20 {
        // Nobody has both; but each is seen to take one, to wait for the other, and to let go of the first, which he had
        // given back and taken again meanwhile.
        script.preempt(time + MS, 1, 2);
        script.sleep(time + 2 * MS, 2, 1, FUTEX, one);
        script.wake(time + 3 * MS, 2, 1, Context::Task);
        script.sleep(time + 4 * MS, 1, 2, FUTEX, other);
        script.wake(time + 5 * MS, 1, 2, Context::Task);
        script.sleep(time + 6 * MS, 2, 1, FUTEX, other);
        script.wake(time + 7 * MS, 2, 1, Context::Task);
        script.sleep(time + 8 * MS, 1, 2, FUTEX, one);
        script.wake(time + 9 * MS, 1, 2, Context::Task);
        script.preempt(time + 10 * MS, 2, 1);
        time += 11 * MS;
        std::mem::swap(&mut one, &mut other);
    }
    let load = load(script, time);
    assert_eq!(load.workload.mutexes.len(), 2);
    let nestings = nestings(&load);
    let both = |(outer, inner): &(usize, usize)| nestings.contains(&(*inner, *outer));
    assert!(!nestings.iter().any(both), "{nestings:?}");
}

#[test]
fn yields_and_other_threads_are_kept() {
    let mut script = Script::of(&["polite"]);
    script.describe_kernel(9, "kworker/0:1");
    script.preempt(0, 0, 1);
    script.wake(MS, 9, 0, Context::Timer);
    script.yields(2 * MS, 1, 9);
    script.sleep(3 * MS, 9, 1, -1, 0);
    script.end(4 * MS, 1, 0);
    let load = load(script, 5 * MS);
    assert_eq!(events(&load, "polite"), [Event::Run(2 * MS), Event::Yield, Event::Run(MS)]);
    let [other] = load.others.as_slice() else { panic!("one other thread: {:?}", load.others) };
    assert!(other.kernel);
    assert_eq!((other.turns[0].at, other.turns[0].cpu_time), (MS, MS));
}

#[test]
fn only_a_command_and_what_it_creates_is_chosen() {
    let mut script = Script::default();
    script.describe(5, "command");
    script.describe(6, "child");
    script.describe(7, "stranger");
    script.born(0, 5, 99);
    script.preempt(0, 0, 5);
    script.born(MS, 6, 5);
    script.preempt(2 * MS, 5, 7);
    script.preempt(3 * MS, 7, 6);
    script.end(4 * MS, 6, 5);
    script.end(5 * MS, 5, 7);
    let bytes = script.bytes(6 * MS, Roots::Tasks(vec![5]), 0);
    let recording = Recording::parse("x.recording", bytes.as_slice()).expect("a recording");
    let load = recording.load().expect("it has tasks");
    let names: Vec<&str> = load.workload.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["command", "child"]);
    assert_eq!(load.others.len(), 1);
}

/// CPU time of each task, of an event stream.
#[derive(Default)]
struct Times {
    names: Vec<String>,
    running: Option<(TaskId, Nanoseconds)>,
    used: Vec<Nanoseconds>,
    end: Nanoseconds,
}

impl Sink for Times {
    fn task(&mut self, _: Nanoseconds, task: TaskId, info: &TaskInfo) {
        let place = task.0 as usize;
        self.names.resize(self.names.len().max(place + 1), String::new());
        self.used.resize(self.names.len(), 0);
        self.names[place] = info.name.clone();
    }

    fn event(&mut self, event: &Told) {
        if let EventKind::Switch { prev, next, .. } = event.kind {
            assert_eq!(prev, self.running.map(|(task, _)| task));
            if let Some((task, since)) = self.running {
                self.used[task.0 as usize] += event.time - since;
            }
            self.running = next.map(|task| (task, event.time));
        }
    }

    fn finish(&mut self, end: Nanoseconds) {
        self.end = end;
    }
}

#[test]
fn the_event_stream_has_the_same_times() {
    let recording = periodic(0).recording(401 * MS);
    let mut times = Times::default();
    recording.play_back(&mut times);
    assert_eq!((times.names.as_slice(), times.end), (["player".to_owned()].as_slice(), 401 * MS));
    assert_eq!(times.used[0], 80 * MS);
}

fn group(number: u64, parent: u64, name: &str) -> GroupDescription {
    GroupDescription {
        number,
        parent,
        name: name.to_owned(),
        shares: 1024,
        period: 100 * MS,
        ..GroupDescription::default()
    }
}

/// A hog in `/web/page`, one in a session, one in the root, a real-time task in `/web`, and a kernel thread; `/web` gets a quota.
fn grouped() -> Script {
    let mut script = Script::default();
    script.group(0, group(50, 0, "web"));
    script.group(0, group(80, 50, "page"));
    script.group(0, GroupDescription { session: true, ..group(1 << 63 | 4, 0, "") });
    for (task, name, policy) in [(1, "page", 0), (2, "shell", 0), (3, "init", 0), (4, "audio", 1)] {
        script.describe_as(task, name, policy);
    }
    script.join(0, 1, 50);
    script.join(25 * MS, 1, 80);
    script.join(0, 2, 1 << 63 | 4);
    script.join(0, 4, 50);
    script.leave_group(35 * MS, 2);
    let limited = GroupDescription { quota: Some(20 * MS), ..group(50, 0, "web") };
    script.group(50 * MS, limited);
    for (at, task, next) in [(10, 4, 1), (20, 1, 2), (30, 2, 3), (40, 3, 1), (60, 1, 2)] {
        script.preempt(at * MS, task, next);
    }
    script
}

#[test]
fn tasks_compete_in_the_groups_that_they_were_in() {
    let load = load(grouped(), 100 * MS);
    let groups: Vec<_> = ["page", "shell", "init", "audio"]
        .map(|name| task(&load, name).taskgroup.as_deref())
        .into();
    assert_eq!(
        groups,
        [Some("/web/page"), Some("/session-4"), None, None],
        "real-time tasks do not compete by groups"
    );
    let paths: Vec<&str> = load.workload.groups.iter().map(|group| group.path.as_str()).collect();
    assert_eq!(paths, ["/session-4", "/web", "/web/page"]);
    let web = &load.workload.groups[1];
    assert_eq!(web.settings.bandwidth.quota, None);
    assert_eq!(
        (web.changes[0].at, web.changes[0].settings.bandwidth.quota),
        (50 * MS, Some(20 * MS))
    );
    let notes = load.workload.notes.join("\n");
    assert!(notes.contains("1 task changed control groups"), "{notes}");
    assert!(notes.contains("(autogroup)"), "{notes}");
}

#[test]
fn groups_are_in_its_rt_app_file() {
    let load = load(grouped(), 100 * MS);
    let text = rt_app(&load.workload).expect("it is short");
    let read = Workload::parse("file", &text).expect("it is an rt-app file");
    assert_eq!(read.groups, load.workload.groups);
    let page = read.tasks.iter().find(|task| task.name == "page");
    assert_eq!(page.and_then(|task| task.taskgroup.as_deref()), Some("/web/page"));
}

#[test]
fn recordings_of_version_1_are_read() {
    let entry = Entry {
        time: ORIGIN,
        cpu: 0,
        kind: EntryKind::Task {
            task: 1,
            description: Description { name: "old".to_owned(), ..Description::default() },
        },
    };
    let mut bytes = Vec::new();
    entry.write(&mut bytes);
    // The kind that descriptions had, which ended before the number of the group.
    bytes[18] = 4;
    let (read, size) = Entry::parse(&bytes[..64]).expect("it is an entry");
    assert_eq!((read, size), (entry, 64));
}

#[test]
fn it_can_be_written_as_an_rt_app_file() {
    let load = load(periodic(0), 401 * MS);
    let text = rt_app(&load.workload).expect("it is short");
    let read = Workload::parse("player.json", &text).expect("it is an rt-app file");
    assert_eq!(read.tasks[0].name, "player");
    assert_eq!(read.tasks[0].phases[0].events, load.workload.tasks[0].phases[0].events);
}

#[test]
fn names_are_no_expressions_in_its_rt_app_file() {
    let mut script = Script::of(&["sem{j}%i"]);
    script.preempt(0, 0, 1);
    script.end(4 * MS, 1, 0);
    let text = rt_app(&load(script, 5 * MS).workload).expect("it is short");
    let read = Workload::parse("names.json", &text).expect("it is an rt-app file");
    assert_eq!(read.tasks[0].name, "sem{j}_i");
    // Names stay apart.
    let mut script = Script::of(&["w%1", "w_1"]);
    script.preempt(0, 0, 1);
    script.preempt(MS, 1, 2);
    script.end(4 * MS, 2, 0);
    let text = rt_app(&load(script, 5 * MS).workload).expect("it is short");
    let read = Workload::parse("names.json", &text).expect("it is an rt-app file");
    let names: Vec<&str> = read.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["w__1", "w_1"]);
}

#[test]
fn what_is_no_recording_is_said_in_one_line() {
    let bytes = periodic(0).bytes(401 * MS, Roots::All, 0);
    let message = |bytes: &[u8]| {
        let error = Recording::parse("a.recording", bytes).expect_err("it is none");
        let text = error.to_string();
        assert!(text.starts_with("a.recording: ") && !text.contains('\n'), "{text}");
        text
    };
    assert!(message(b"").contains("not a recording"));
    assert!(message(b"{ \"tasks\" : {} }").contains("not a recording"));
    assert!(message(&bytes[..bytes.len() - 1]).contains("cut off"));
    assert!(message(&bytes[..10]).contains("cut off"));
    let mut other = bytes.clone();
    other[8] = 3;
    assert!(message(&other).contains("version 3"));
    let mut other = bytes.clone();
    let middle = bytes.len() / 2;
    other[middle] ^= 0x40;
    assert!(message(&other).contains("damaged at byte"));
    // A chunk that claims to be huge finds no memory made for it.
    let mut other = bytes[..12].to_vec();
    other.extend([b'H', 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f]);
    assert!(message(&other).contains("damaged at byte"));
    let mut other = bytes;
    other.push(0);
    assert!(message(&other).contains("after its end"));
}

#[test]
fn losses_are_in_the_notes() {
    let bytes = periodic(0).bytes(401 * MS, Roots::All, 12);
    let recording = Recording::parse("a.recording", bytes.as_slice()).expect("a recording");
    let load = recording.load().expect("it has tasks");
    assert!(load.workload.notes[0].contains("12 entries were LOST"), "{:?}", load.workload.notes);
}

#[test]
fn deadline_tasks_without_their_reservations_are_named() {
    let mut script = Script::default();
    script.describe_as(1, "camera", 6);
    script.end(4 * MS, 1, 0);
    let notes = load(script, 5 * MS).workload.notes;
    let said = |note: &String| note.contains("camera: a recording has no reservations");
    assert!(notes.iter().any(said), "{notes:?}");
}

#[test]
fn entries_that_come_too_late_are_counted() {
    let entry = |time: u64| {
        let mut bytes = Vec::new();
        let kind = EntryKind::Born { task: 1, by: 2 };
        Entry { time, cpu: 0, kind }.write(&mut bytes);
        bytes
    };
    let header = Header { cpus: 1, ..Header::default() };
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &header).expect("memory can be written");
    for time in [50 * MS, 500 * MS, 450 * MS, 10 * MS] {
        writer.add(&entry(time)).expect("memory can be written");
    }
    assert_eq!(writer.late(), 1);
    let ending = Ending { end: 500 * MS, lost: writer.late() };
    writer.finish(&ending).expect("memory can be written");
    let recording = Recording::parse("a.recording", file.as_slice()).expect("it is in order");
    let times: Vec<u64> = recording.entries().map(|entry| entry.time / MS).collect();
    assert_eq!((times, recording.ending.lost), (vec![50, 450, 500], 1));
}

#[test]
fn an_empty_recording_says_so() {
    let bytes = Script::default().bytes(MS, Roots::All, 0);
    let recording = Recording::parse("a.recording", bytes.as_slice()).expect("a recording");
    let error = recording.load().expect_err("there is nothing in it");
    assert!(error.to_string().contains("none of the chosen tasks ran"), "{error}");
}

proptest! {
    /// Reading any bytes ends with a recording or with a message.
    #[test]
    fn any_bytes_are_read_or_refused(
        places in prop::collection::vec((0..10_000_usize, any::<u8>()), 0..8),
        cut in 0..10_000_usize,
    ) {
        let mut bytes = periodic(MS).bytes(401 * MS, Roots::All, 0);
        let length = bytes.len();
        for (place, value) in places {
            bytes[place % length] = value;
        }
        bytes.truncate(length - cut % 50);
        if let Ok(recording) = Recording::parse("a.recording", bytes.as_slice()) {
            let _ = recording.load();
        }
    }

    /// Any entries in any order give a workload whose programs take time, or an error.
    #[test]
    fn any_entries_are_a_workload(
        entries in prop::collection::vec((0..6_u8, 0..5_u32, 0..5_u32, 0..4_u8, 0..3_u64), 0..200),
    ) {
        let mut script = Script::default();
        for task in 1..4 {
            script.describe(task, "any");
        }
        script.describe_kernel(4, "kernel");
        let mut time = 0;
        for (kind, task, other, detail, gap) in entries {
            time += gap * MS;
            let context = [Context::Task, Context::SoftInterrupt, Context::Device, Context::Timer][detail as usize];
            match kind {
                0 => script.preempt(time, task, other),
                1 => script.sleep(time, task, other, [FUTEX, NANOSLEEP, POLL, READ][detail as usize], 7),
                2 => script.wake(time, task, other, context),
                3 => script.born(time, task, other),
                4 => script.yields(time, task, other),
                _ => script.end(time, task, other),
            }
        }
        if let Ok(load) = script.recording(time + MS).load() {
            for task in &load.workload.tasks {
                for phase in task.phases.iter().filter(|phase| phase.loops.is_none()) {
                    prop_assert!(phase.events.iter().any(|event| matches!(event, Event::Run(1..))));
                }
            }
            if let Ok(text) = rt_app(&load.workload) {
                prop_assert!(!text.is_empty());
            }
        }
    }
}

/// A task to which something comes from outside, and that then reads from a disk.
fn server() -> Load {
    let mut script = Script::of(&["server"]);
    script.preempt(0, 0, 1);
    for number in 0..20 {
        let begin = 40 * number * MS;
        script.sleep(begin + MS, 1, 0, POLL, 0);
        script.wakes_up(begin + 20 * MS, Context::SoftInterrupt);
        script.disk(begin + 22 * MS, 1, 0);
        script.wakes_up(begin + (24 + number % 8) * MS, Context::Device);
    }
    load(script, 800 * MS)
}

fn arrivals(events: &[Event]) -> Vec<Nanoseconds> {
    let intervals = events.iter().filter_map(|event| match event {
        Event::Timer { period, .. } => Some(*period),
        _ => None,
    });
    let mut time = 0;
    let sums = intervals.map(|interval| {
        time += interval;
        time
    });
    sums.collect()
}

#[test]
fn what_comes_from_outside_comes_again_in_a_loop() {
    let load = server();
    let [recorded, on] = task(&load, "server").phases.as_slice() else { panic!("{load:?}") };
    let all = |phase: &Phase| arrivals(&phase.events.iter().collect::<Vec<_>>());
    let expected: Vec<u64> = (0..20).map(|number| (40 * number + 20) * MS - SLACK).collect();
    assert_eq!(all(recorded), expected);
    assert_eq!(all(on), expected);
}

#[test]
fn another_time_it_is_the_same_load_but_not_to_the_nanosecond() {
    let load = server();
    let vary = |seed| {
        let mut workload = load.workload.clone();
        load.chance.vary(&mut workload, seed);
        let events: Vec<Event> = workload.tasks[0].phases[0].events.iter().collect();
        (workload, events)
    };
    let (one, varied) = vary(1);
    assert_eq!(one, vary(1).0);
    assert_ne!(one, vary(2).0);
    let before = events(&load, "server");
    assert_eq!(varied.len(), before.len());
    let kind = |event: &Event| std::mem::discriminant(event);
    assert!(varied.iter().map(kind).eq(before.iter().map(kind)));
    for (one, other) in varied.iter().zip(&before) {
        if let (Event::Run(one), Event::Run(other)) = (one, other) {
            assert_ne!(one, other);
            assert!(one.abs_diff(*other) * 10 <= other + 10, "{one} {other}");
        }
    }
    // An arrival moves by at most a tenth of the time to its neighbours.
    for (one, other) in arrivals(&varied).iter().zip(arrivals(&before)) {
        assert!(one.abs_diff(other) <= 4 * MS + 1, "{one} {other}");
    }
    let services = |events: &[Event]| -> Vec<u64> {
        let services = events.iter().filter_map(|event| match event {
            // To whole milliseconds, which tells them apart.
            Event::Disk { service, .. } => Some((service + MS / 2) / MS),
            _ => None,
        });
        services.collect()
    };
    let order = services(&before);
    assert_eq!(order[..8], [2, 3, 4, 5, 6, 7, 8, 9]);
    assert_ne!(services(&varied)[..8], order[..8]);
}

#[test]
fn other_threads_vary_too() {
    let mut turns: Vec<fairground_recording::Turn> = (1..=50)
        .map(|number| fairground_recording::Turn { at: number * 10 * MS, cpu_time: MS })
        .collect();
    let before = turns.clone();
    Chance::vary_turns(&mut turns, 0, 7);
    assert!(turns.is_sorted_by_key(|turn| turn.at));
    for (one, other) in turns.iter().zip(&before) {
        assert!(one.at.abs_diff(other.at) <= MS + 1 && one.cpu_time.abs_diff(MS) <= MS / 10 + 1);
        assert_ne!(one, other);
    }
}

/// A switch on a CPU.
fn switch(time: u64, cpu: u16, task: u32, next: u32, state: u32) -> Entry {
    let kind = EntryKind::Switch {
        task,
        next,
        state,
        preempted: false,
        disk: false,
        call: -1,
        first: 0,
        second: 0,
    };
    let time = support::ORIGIN + time;
    Entry { time, cpu, kind }
}

/// CPU time in a load: of its tasks and of all others.
fn cpu_time(load: &Load) -> u64 {
    let turns = load.others.iter().flat_map(|other| &other.turns);
    let others: u64 = turns.map(|turn| turn.cpu_time).sum();
    load.loss.cpu_time.iter().sum::<u64>() + others
}

#[test]
fn a_task_that_is_late_seen_leaving_a_cpu_has_not_had_it_from_the_beginning() {
    let mut script = Script::of(&["shell", "late"]);
    script.preempt(0, 0, 1);
    script.sleep(100 * MS, 1, 0, READ, 3);
    script.wakes_up(500 * MS, Context::Device);
    // That it came is missing: it cannot have had the CPU before the last switch.
    script.sleep(503 * MS, 2, 0, READ, 3);
    let load = load(script, 600 * MS);
    assert_eq!(events(&load, "late"), [Event::Run(3 * MS)]);
    assert_eq!(cpu_time(&load), 103 * MS);
    assert_eq!((load.loss.gaps.count, load.loss.gaps.switches), (1, 4));
    assert_eq!(load.loss.gaps.cpu_time, 3 * MS);
    let told = load.loss.to_string();
    for part in [
        "1 gap in 4 switches, where an entry is missing, so that it is not certain which task had 0.003 s of CPU time",
        "with gaps at 25.0 % of the switches, DO NOT RELY on this recording",
    ] {
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn a_task_that_left_unseen_has_not_run_until_it_is_seen_again() {
    let mut script = Script::of(&["one", "other"]);
    script.preempt(0, 0, 1);
    script.preempt(10 * MS, 1, 2);
    // That the other one left is missing.
    script.sleep(30 * MS, 1, 0, READ, 3);
    script.wake(400 * MS, 2, 0, Context::Device);
    script.preempt(400 * MS, 0, 2);
    script.end(401 * MS, 2, 0);
    let load = load(script, 500 * MS);
    assert_eq!(events(&load, "one"), [Event::Run(30 * MS)]);
    assert_eq!(events(&load, "other"), [Event::Sleep(390 * MS - SLACK), Event::Run(MS)]);
    assert_eq!(load.loss.gaps.count, 1);
}

#[test]
fn a_task_on_two_cpus_has_left_one_of_them() {
    let mut script = Script::of(&["mover"]);
    script.preempt(0, 0, 1);
    let mut entries = vec![
        // That it left the first CPU is missing.
        switch(50 * MS, 1, 0, 1, 0),
        switch(60 * MS, 1, 1, 0, 0x80),
        // The next tasks had the CPU at most since the last switch there.
        switch(70 * MS, 0, 0, 0, 0),
    ];
    script.append(&mut entries);
    let load = script.recording_on(2, 100 * MS).load().expect("it has tasks");
    assert_eq!(events(&load, "mover"), [Event::Run(10 * MS)]);
    assert_eq!(load.loss.gaps.count, 1);
}

#[test]
fn who_had_a_cpu_from_before_the_beginning_is_no_gap() {
    let mut script = Script::of(&["hog"]);
    script.append(&mut vec![switch(0, 0, 7, 1, 0)]);
    script.preempt(20 * MS, 1, 0);
    let load = load(script, 100 * MS);
    assert_eq!(events(&load, "hog"), [Event::Run(20 * MS)]);
    assert_eq!(load.loss.gaps.count, 0);
}

proptest! {
    /// With any entries missing, no CPU has more time than there was.
    #[test]
    fn cpu_time_is_at_most_what_the_cpus_have(
        steps in prop::collection::vec((0_u64..1000, 0_u16..3, 0_u32..6, 0_u32..6, 0_u32..3, 0_u8..4), 1..200),
    ) {
        let mut script = Script::default();
        for task in 1..6 {
            script.describe(task, "task");
        }
        let mut entries = Vec::new();
        for (time, cpu, task, next, state, kind) in steps {
            let other = Entry {
                time: support::ORIGIN + time,
                cpu,
                kind: match kind {
                    0 if task > 0 => EntryKind::Born { task, by: next },
                    1 if task > 0 => EntryKind::Waking { task, by: next, context: Context::Task },
                    _ => switch(time, cpu, task, next, [0, 1, 0x80][state as usize]).kind,
                },
            };
            entries.push(other);
        }
        script.append(&mut entries);
        if let Ok(load) = script.recording_on(3, 1000).load() {
            prop_assert!(cpu_time(&load) <= 3 * 1000, "{}", load.loss);
        }
    }
}
