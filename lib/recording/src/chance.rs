//! The times that would have been different if the same load had been recorded once more.
//!
//! A replay is deterministic, so its seeds would all give the same run, and an interval over them would be empty. A machine that does the
//! same once more does not repeat itself to the nanosecond: runs take longer or shorter, disks answer in another order, and input from
//! outside comes at other times. A task's actions, and the tasks for which it waits, stay the same.

use std::collections::BTreeSet;

use fairground_workload::{Draws, Event, Events, Factor, Variation, Workload};

use crate::lives::Turn;

/// By how much runs, service times of disks, and arrivals within their intervals vary to each side: a fraction.
const WIDTH: f64 = 0.1;
/// So many consecutive disk waits of a task exchange their service times, of which the sum remains.
const EXCHANGED: usize = 8;
/// Instance for the numbers drawn here, which no instance of a task has.
const OWN: u32 = u32::MAX;

/// The times that may vary in a workload made of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chance {
    /// Timers that stand for times at which something arrives from outside.
    pub(crate) arrivals: BTreeSet<usize>,
}

impl Chance {
    /// The workload as it might have been recorded another time: the same for the same seed.
    pub fn vary(&self, workload: &mut Workload, seed: u64) {
        for (number, task) in workload.tasks.iter_mut().enumerate() {
            let mut draws = Draws::new(seed, number, OWN);
            for phase in &mut task.phases {
                phase.events = self.varied(&phase.events, &mut draws);
            }
        }
    }

    /// The turns of a thread that is not part of the workload, the one with this number, as they might have been another time.
    pub fn vary_turns(turns: &mut [Turn], number: usize, seed: u64) {
        let mut draws = Draws::new(seed, number, OWN - 1);
        let mut before = 0;
        for place in 0..turns.len() {
            let after = turns.get(place + 1).map(|next| next.at);
            let turn = &mut turns[place];
            let interval = turn.at.saturating_sub(before);
            let room = after.map_or(interval, |after| interval.min(after.saturating_sub(turn.at)));
            before = turn.at;
            turn.at = moved(turn.at, room, &mut draws);
            if let Event::Run(time) = draws.vary(Event::Run(turn.cpu_time), &SERVICE) {
                turn.cpu_time = time.max(1);
            }
        }
    }

    fn varied(&self, events: &Events, draws: &mut Draws) -> Events {
        let services = exchanged(events, draws);
        let mut services = services.into_iter();
        // When the next arrival was, and when it is now: times since the task's start.
        let mut upcoming = self.intervals(events).skip(1);
        let (mut then, mut now) = (0, 0);
        let changed = events.iter().map(|event| match event {
            Event::Run(_) => draws.vary(event, &SERVICE),
            Event::Disk { disk, .. } => {
                let service = services.next().unwrap_or_default();
                draws.vary(Event::Disk { disk, service }, &SERVICE)
            }
            Event::Timer { timer, period, mode } if self.arrivals.contains(&timer) => {
                then += period;
                let room = upcoming.next().map_or(period, |next| next.min(period));
                let time = moved(then, room, draws);
                let period = time.saturating_sub(now);
                now = time.max(now);
                Event::Timer { timer, period, mode }
            }
            other => other,
        });
        changed.collect()
    }

    /// The intervals between arrivals.
    fn intervals<'a>(&'a self, events: &'a Events) -> impl Iterator<Item = u64> + 'a {
        events.iter().filter_map(|event| match event {
            Event::Timer { timer, period, .. } => self.arrivals.contains(&timer).then_some(period),
            _ => None,
        })
    }
}

/// How the length of a run and the service time of a disk vary.
const SERVICE: Variation =
    Variation { factor: Some(Factor::Uniform(1.0 - WIDTH, 1.0 + WIDTH)), chance: None };

/// A time, moved within the interval to its neighbours.
fn moved(time: u64, room: u64, draws: &mut Draws) -> u64 {
    let earliest = time as f64 - WIDTH * room as f64;
    draws.between(earliest, earliest + 2.0 * WIDTH * room as f64).round() as u64
}

/// The service times of the disk waits in another order, which differs only among neighbours.
fn exchanged(events: &Events, draws: &mut Draws) -> Vec<u64> {
    let mut services: Vec<u64> = events
        .iter()
        .filter_map(|event| match event {
            Event::Disk { service, .. } => Some(service),
            _ => None,
        })
        .collect();
    for group in services.chunks_mut(EXCHANGED) {
        for place in (1..group.len()).rev() {
            let other = draws.between(0.0, (place + 1) as f64) as usize;
            group.swap(place, other.min(place));
        }
    }
    services
}
