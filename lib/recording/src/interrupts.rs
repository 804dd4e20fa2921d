//! Tells wake-ups by timers from those by tasks where a text does not.

use std::collections::{HashMap, HashSet};

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

/// What tells who may have woken whom.
pub(crate) enum Sign {
    /// A task falls asleep.
    Sleep(u32),
    /// A task is woken in the context of another one, or of the idle task, which is 0.
    Wake { task: u32, by: u32 },
}

/// The tasks that most likely a timer wakes, from signs in order of their times.
pub(crate) fn woken_by_timers(signs: impl Iterator<Item = (u64, Sign)>) -> HashSet<u32> {
    let mut slept: HashMap<u32, u64> = HashMap::new();
    let mut woken: HashMap<u32, Woken> = HashMap::new();
    for (time, sign) in signs {
        match sign {
            Sign::Sleep(task) => {
                slept.insert(task, time);
            }
            Sign::Wake { task, by } => {
                let woken = woken.entry(task).or_default();
                let before = std::mem::replace(&mut woken.last, time);
                if before > 0 {
                    woken.intervals.push(time - before);
                    let is_awake = slept.get(&by).is_none_or(|slept| *slept < before);
                    woken.by_chance += usize::from(by == 0 || is_awake);
                }
            }
        }
    }
    let timed = woken.iter_mut().filter_map(|(task, woken)| woken.are_a_timers().then_some(*task));
    timed.collect()
}
