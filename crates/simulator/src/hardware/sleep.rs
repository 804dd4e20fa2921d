//! Idle states, and how the kernel chooses one: the menu governor (`drivers/cpuidle/governors/menu.c`).

use fairground_events::OverheadKind;
use fairground_machine::IdleState;

use crate::kernel::Kernel;

/// How many idle times the governor remembers.
const INTERVALS: usize = 8;
/// How many orders of magnitude of the time until the next timer it tells apart, from 10 us on.
const BUCKETS: usize = 6;
/// The unit of its correction factors is one part in this and [`DECAY`].
const RESOLUTION: u64 = 1024;
/// A new idle time counts for one part in this.
const DECAY: u64 = 8;
/// Idle times from this one on, in nanoseconds, are as good as any prediction.
const MAX_INTERESTING: u64 = 50_000_000;
/// Below this prediction, in nanoseconds, it does not look for the next timer (`RESIDENCY_THRESHOLD_NS`).
const RESIDENCY_THRESHOLD: u64 = 15_000;
/// A number of microseconds that stands for an unknown time.
const UNKNOWN: u64 = u32::MAX as u64;

/// The sleep of an idle CPU.
#[derive(Clone, Copy, Debug)]
pub struct Nap {
    /// The idle state, the place in the list of the CPU's.
    state: usize,
    /// Since when.
    since: u64,
}

impl Nap {
    /// The sleep of a CPU that has not done anything yet: in its deepest state, if it has states.
    pub fn deepest(states: &[IdleState], since: u64) -> Option<Nap> {
        let state = states.len().checked_sub(1)?;
        Some(Nap { state, since })
    }

    /// The idle state, the place in the list of the CPU's.
    pub fn state(&self) -> usize {
        self.state
    }
}

/// The governor's knowledge when it chooses; all in nanoseconds.
struct Situation {
    /// Time until the next timer of the CPU, apart from the tick.
    timer: u64,
    /// Time until the next tick or timer.
    event: u64,
    /// Length of a tick.
    tick: u64,
    /// Whether the tick is stopped.
    is_stopped: bool,
}

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    /// The idle state.
    state: usize,
    /// Whether the tick is stopped meanwhile.
    stops_tick: bool,
}

/// The governor's experience with a CPU (`struct menu_device`).
#[derive(Clone, Debug)]
pub struct Menu {
    /// The last idle times, in microseconds.
    intervals: [u64; INTERVALS],
    /// The place of the oldest one.
    oldest: usize,
    /// For each order of magnitude, how much of the time until the next timer the CPU was idle.
    factors: [u64; BUCKETS],
    /// Time until the next timer when it last chose, in nanoseconds.
    timer: u64,
    /// The order of magnitude of that.
    bucket: usize,
    /// Whether the CPU, since it last ran a task, has stopped its tick.
    stopped: bool,
}

impl Default for Menu {
    fn default() -> Self {
        Self {
            intervals: [0; INTERVALS],
            oldest: 0,
            factors: [RESOLUTION * DECAY; BUCKETS],
            timer: u64::MAX,
            bucket: BUCKETS - 1,
            stopped: true,
        }
    }
}

impl Menu {
    /// The typical idle time, in microseconds, if there is one (`get_typical_interval`): the mean, if it is close to all, after leaving out up to a
    /// quarter that are farthest from it. In doubt it is the longest of those that are left.
    fn typical_interval(&self) -> u64 {
        let known = self.intervals.iter().copied();
        let mut kept: Vec<u64> = known.filter(|interval| *interval < UNKNOWN).collect();
        loop {
            let count = kept.len() as u64;
            let (Some(least), Some(most @ 1..)) =
                (kept.iter().copied().min(), kept.iter().copied().max())
            else {
                return UNKNOWN;
            };
            let mean = kept.iter().sum::<u64>() / count;
            let squares = kept.iter().map(|interval| interval * interval).sum::<u64>() / count;
            let variance = squares - mean * mean;
            let most_are_kept = kept.len() * 4 >= INTERVALS * 3;
            if variance <= 400 || most_are_kept && mean * mean > 36 * variance {
                return mean;
            }
            if kept.len() * 4 <= INTERVALS * 3 {
                let enough = kept.len() >= INTERVALS / 2;
                return if enough { most } else { UNKNOWN };
            }
            match mean - least > most - mean {
                true => kept.retain(|interval| *interval > least),
                false => kept.retain(|interval| *interval < most),
            }
        }
    }

    /// Chooses one of the states, the shallowest first (`menu_select`).
    fn choose(&mut self, states: &[IdleState], now: &Situation) -> Choice {
        let mut predicted = self.typical_interval() * 1000;
        let mut event = now.tick / 2;
        self.timer = u64::MAX;
        self.bucket = BUCKETS - 1;
        if predicted > RESIDENCY_THRESHOLD || now.is_stopped {
            event = now.event;
            self.timer = now.timer;
            self.bucket = bucket(now.timer);
            predicted = predicted.min(self.corrected_timer());
            if now.is_stopped && predicted < now.tick {
                predicted = self.timer;
            }
        }
        if states.len() == 1 || self.timer < states[1].residency {
            return Choice { state: 0, stops_tick: true };
        }
        let too_deep = states.iter().position(|state| state.residency > predicted);
        let mut state = too_deep.unwrap_or(states.len()).max(1) - 1;
        if let Some(too_deep) = too_deep
            && predicted >= now.tick
        {
            if now.is_stopped {
                // Without a tick, the CPU could stay in a shallow state for long.
                if states[state].residency < now.tick && states[too_deep].residency <= event {
                    state = too_deep;
                }
                return Choice { state, stops_tick: true };
            }
            predicted = states[state].residency;
        }
        let keeps_tick = predicted < now.tick && !now.is_stopped;
        if keeps_tick && states[state].residency > event {
            let within = |shallower: &usize| states[*shallower].residency <= event;
            state = (0..state).rev().find(within).unwrap_or(0);
        }
        Choice { state, stops_tick: !keeps_tick }
    }

    /// The part of the time until the next timer that the CPU has been idle so far, in whole microseconds, as nanoseconds.
    fn corrected_timer(&self) -> u64 {
        let unit = u128::from(RESOLUTION * DECAY * 1000);
        let time = u128::from(self.timer) * u128::from(self.factors[self.bucket]);
        let microseconds = (unit / 2 + time) / unit;
        u64::try_from(microseconds * 1000).unwrap_or(u64::MAX)
    }

    /// Learns from an idle time in a state, which includes its exit latency (`menu_update`).
    fn learn(&mut self, state: &IdleState, idle: u64, tick: Option<u64>) {
        let measured = match tick {
            // Without the tick it would have been longer.
            Some(tick) if self.timer > tick => 9 * MAX_INTERESTING / 10,
            _ if idle > 2 * state.exit_latency => idle - state.exit_latency,
            _ => idle / 2,
        };
        let measured = measured.min(self.timer);
        let factor = &mut self.factors[self.bucket];
        *factor -= *factor / DECAY;
        *factor += match self.timer {
            1.. if measured < MAX_INTERESTING => {
                (u128::from(RESOLUTION * measured) / u128::from(self.timer)) as u64
            }
            _ => RESOLUTION,
        };
        self.intervals[self.oldest] = (measured / 1000).min(UNKNOWN);
        self.oldest = (self.oldest + 1) % INTERVALS;
    }
}

/// The order of magnitude of a time in nanoseconds (`which_bucket`).
fn bucket(time: u64) -> usize {
    let limits = [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
    limits.iter().take_while(|limit| time >= **limit).count()
}

impl Kernel<'_> {
    /// Lets a CPU that is idle and has done its work sleep, if it has idle states.
    #[inline]
    pub(crate) fn fall_asleep(&mut self, cpu: usize) {
        if self.hardware.watches_idleness {
            self.choose_idle_state(cpu);
        }
    }

    fn choose_idle_state(&mut self, cpu: usize) {
        let machine = self.machine.clone();
        let states = machine.hardware.idle_states(cpu);
        let since = self.run_queue_clock(cpu);
        let state = &self.cpus[cpu];
        let is_awake = state.current == state.idle && !state.need_resched && state.nap.is_none();
        if states.is_empty() || !is_awake {
            return;
        }
        let until = |time: Option<u64>| time.map_or(u64::MAX, |time| time.saturating_sub(since));
        let timer = until(self.next_timer(cpu));
        let is_stopped = self.cpus[cpu].menu.stopped;
        let next_tick = self.next_tick();
        let situation = Situation {
            timer,
            event: if is_stopped { timer } else { timer.min(until(Some(next_tick))) },
            tick: self.tick_length(),
            is_stopped,
        };
        let state = &mut self.cpus[cpu];
        let choice = state.menu.choose(states, &situation);
        state.menu.stopped |= choice.stops_tick;
        state.tick_at = if state.menu.stopped { u64::MAX } else { next_tick };
        state.nap = Some(Nap { state: choice.state, since });
        self.update_power(cpu, since);
    }

    /// When the next timer of `cpu` expires that it knows of.
    fn next_timer(&self, cpu: usize) -> Option<u64> {
        let sleeps = self.next_sleep_end(cpu);
        sleeps.into_iter().chain(self.timers.next_of(cpu)).min()
    }

    /// Wakes an idle CPU for an interrupt; it does nothing for its exit latency. Without idle states that is the cost of leaving idleness.
    #[inline]
    pub(crate) fn wake_cpu(&mut self, cpu: usize, by_tick: bool) {
        let has_states =
            self.hardware.watches_idleness && !self.machine.hardware.idle_states(cpu).is_empty();
        let latency = match has_states {
            true => self.leave_idle_state(cpu, by_tick),
            false => self.settings.cost.idle_exit,
        };
        self.charge(OverheadKind::Switch, latency);
    }

    /// Ends the sleep of a CPU, if it sleeps; returns how long that takes.
    pub(crate) fn leave_idle_state(&mut self, cpu: usize, by_tick: bool) -> u64 {
        let Some(nap) = self.cpus[cpu].nap.take() else {
            return 0;
        };
        let machine = self.machine.clone();
        let left = &machine.hardware.idle_states(cpu)[nap.state];
        let idle = self.clock.now().saturating_sub(nap.since) + left.exit_latency;
        let tick = by_tick.then(|| self.tick_length());
        self.cpus[cpu].menu.learn(left, idle, tick);
        self.update_power(cpu, self.clock.now());
        left.exit_latency
    }

    /// Starts the tick of a CPU that has switched from idleness to a task.
    pub(crate) fn stop_idling(&mut self, cpu: usize) {
        self.leave_idle_state(cpu, false);
        self.cpus[cpu].menu.stopped = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 4_000_000;

    /// C1, C1E and C6 of a server.
    fn states() -> Vec<IdleState> {
        let state = |name: &str, exit_latency, residency| IdleState {
            name: name.to_owned(),
            exit_latency,
            residency,
            power: 0,
        };
        vec![state("C1", 1_000, 1_000), state("C1E", 4_000, 4_000), state("C6", 170_000, 600_000)]
    }

    fn situation(timer: u64) -> Situation {
        Situation { timer, event: timer.min(TICK / 2), tick: TICK, is_stopped: false }
    }

    /// A governor after these idle times in C1E, each as long as its timer said.
    fn experienced(intervals: [u64; INTERVALS]) -> Menu {
        let mut menu = Menu::default();
        for interval in intervals {
            menu.timer = interval;
            menu.bucket = bucket(interval);
            menu.learn(&states()[1], interval + 4_000, None);
        }
        menu
    }

    #[test]
    fn a_governor_without_experience_believes_the_timer() {
        let choose = |timer| Menu::default().choose(&states(), &situation(timer));
        assert_eq!(choose(10_000_000).state, 2);
        assert!(choose(10_000_000).stops_tick);
        assert_eq!(choose(300_000).state, 1);
        assert!(!choose(300_000).stops_tick);
        assert_eq!(choose(3_000).state, 0);
    }

    #[test]
    fn the_typical_idle_time_is_a_mean_without_outliers() {
        let typical = |intervals| experienced(intervals).typical_interval();
        assert_eq!(typical([200_000; INTERVALS]), 200);
        let mut intervals = [200_000; INTERVALS];
        intervals[3] = 30_000_000;
        assert_eq!(typical(intervals), 200);
        intervals[4] = 1_000;
        assert_eq!(typical(intervals), 200);
        let milliseconds = |intervals: [u64; INTERVALS]| intervals.map(|one| one * 1_000_000);
        // Of two kinds in equal numbers the longer one counts as outliers, which go all at once.
        assert_eq!(typical(milliseconds([1, 40, 1, 40, 1, 40, 1, 40])), 1_000);
        // Nothing is typical of these: the longest of the six that are left.
        let spread = milliseconds([10, 20, 30, 40, 50, 60, 70, 80]);
        assert_eq!(typical(spread), 60_000);
        assert_eq!(Menu::default().typical_interval(), UNKNOWN);
    }

    #[test]
    fn short_idle_times_keep_the_cpu_out_of_deep_states() {
        let mut menu = experienced([200_000; INTERVALS]);
        let choice = menu.choose(&states(), &situation(50_000_000));
        assert_eq!((choice.state, choice.stops_tick), (1, false));
        // Ticks that wake it tell the governor that it was wrong.
        for _ in 0..INTERVALS {
            menu.learn(&states()[1], TICK, Some(TICK));
        }
        let choice = menu.choose(&states(), &situation(50_000_000));
        assert_eq!((choice.state, choice.stops_tick), (2, true));
    }

    #[test]
    fn a_stopped_tick_makes_a_short_prediction_risky() {
        let mut menu = experienced([200_000; INTERVALS]);
        let choice = menu.choose(
            &states(),
            &Situation { is_stopped: true, event: 50_000_000, ..situation(50_000_000) },
        );
        assert_eq!((choice.state, choice.stops_tick), (2, true));
    }

    #[test]
    fn timers_that_never_come_to_their_end_are_corrected() {
        let mut menu = Menu::default();
        for _ in 0..64 {
            menu.timer = 2_000_000;
            menu.bucket = bucket(menu.timer);
            menu.learn(&states()[1], 504_000, None);
        }
        // A quarter, in the limit of the integer arithmetic.
        menu.timer = 2_000_000;
        assert!((490_000..=510_000).contains(&menu.corrected_timer()));
    }
}
