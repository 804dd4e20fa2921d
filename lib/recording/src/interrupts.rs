//! Tells wake-ups by timers from those by tasks where a text does not.

use std::collections::{HashMap, HashSet};

use crate::ftrace::{Event, Told};
use crate::import::COULD_GO_ON;

/// Fewer intervals than this show no rhythm.
const FEWEST: usize = 4;

/// The wake-ups of a task.
#[derive(Default)]
struct Woken {
    last: u64,
    intervals: Vec<u64>,
    /// How many came while the CPU idled, or in the context of a task that has not slept since the one before.
    by_chance: usize,
}

impl Woken {
    /// Most are at regular intervals, and at least half of them in the context of a task that cannot have meant them.
    fn are_a_timers(&mut self) -> bool {
        let count = self.intervals.len();
        self.intervals.sort_unstable();
        let Some(median) = self.intervals.get(count / 2).copied() else { return false };
        let is_usual = |one: &&u64| one.abs_diff(median) <= median / 10;
        let usual = self.intervals.iter().filter(is_usual).count();
        count >= FEWEST && usual * 5 >= count * 4 && self.by_chance * 2 >= count
    }
}

/// The tasks that most likely a timer wakes, from events in order of time.
pub(crate) fn woken_by_timers(events: &[Event]) -> HashSet<u32> {
    let mut slept: HashMap<u32, u64> = HashMap::new();
    let mut woken: HashMap<u32, Woken> = HashMap::new();
    for Event { at, by, told, .. } in events {
        match told {
            Told::Switch { previous, state, .. } if *state & COULD_GO_ON == 0 && *state > 0 => {
                slept.insert(previous.number, at.time);
            }
            Told::Waking(party) => {
                let woken = woken.entry(party.number).or_default();
                let before = std::mem::replace(&mut woken.last, at.time);
                if before > 0 {
                    woken.intervals.push(at.time - before);
                    let is_awake = slept.get(by).is_none_or(|slept| *slept < before);
                    woken.by_chance += usize::from(*by == 0 || is_awake);
                }
            }
            _ => {}
        }
    }
    let timed = woken.iter_mut().filter_map(|(task, woken)| woken.are_a_timers().then_some(*task));
    timed.collect()
}
