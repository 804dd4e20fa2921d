//! Frequencies, as schedutil chooses them under a sched_ext scheduler (`kernel/sched/cpufreq_schedutil.c`).
//!
//! It is asked only when the scheduler sets a performance level, and when a real-time or deadline task comes or goes. What is asked for within the
//! rate limit after a change is lost. A change takes effect at once.

use fairground_machine::{Clock, Machine};

use super::Speed;
use crate::core::bandwidth_as_capacity;
use crate::kernel::Kernel;

/// Full capacity of a CPU, and its full performance.
const FULL: u64 = 1024;

/// The clocks of a machine while it runs.
pub struct Frequencies {
    /// The clock of each CPU; empty if no CPU has one.
    clock_of: Vec<Option<usize>>,
    /// The state of each clock.
    clocks: Vec<ClockState>,
}

/// A clock.
struct ClockState {
    /// Which of its frequencies it has now.
    step: usize,
    /// When that has changed last.
    changed_at: Option<u64>,
}

impl Frequencies {
    /// All clocks at their highest frequencies, since schedulers begin with full performance.
    pub fn new(machine: &Machine) -> Frequencies {
        let clocks = &machine.hardware.clocks;
        let count = if clocks.is_empty() { 0 } else { machine.cpus.len() };
        let of = |cpu| clocks.iter().position(|clock| clock.cpus.contains(&cpu));
        Frequencies {
            clock_of: (0..count).map(of).collect(),
            clocks: { clocks.iter() }
                .map(|clock| ClockState { step: clock.steps.len() - 1, changed_at: None })
                .collect(),
        }
    }

    /// The clock of a CPU and its present frequency, the place in the list of its steps.
    pub fn step_of(&self, cpu: usize) -> Option<(usize, usize)> {
        let clock = self.clock_of.get(cpu).copied().flatten()?;
        Some((clock, self.clocks[clock].step))
    }
}

/// The highest frequency of a clock, in kilohertz.
fn highest(clock: &Clock) -> u64 {
    clock.steps.last().map_or(1, |step| step.frequency)
}

impl Kernel<'_> {
    /// The present frequency of `cpu` and its highest one, in kilohertz, if it has a clock.
    pub(super) fn frequency(&self, cpu: usize) -> Option<(u64, u64)> {
        let (clock, step) = self.hardware.frequencies.step_of(cpu)?;
        let clock = &self.machine.hardware.clocks[clock];
        Some((clock.steps[step].frequency, highest(clock)))
    }

    /// The speed of `cpu` by its capacity and frequency, without regard to its siblings.
    pub(super) fn speed_of_clock(&self, cpu: usize) -> Speed {
        let speed = Speed::of_capacity(self.cpus[cpu].capacity);
        match self.frequency(cpu) {
            Some((now, highest)) if now != highest => speed.part(now, highest),
            _ => speed,
        }
    }

    /// The present frequency of `cpu`, of 1024 (`arch_scale_freq_capacity`); without a clock, what the scheduler has asked for.
    pub(crate) fn frequency_capacity(&self, cpu: usize) -> u64 {
        self.frequency(cpu)
            .map_or(self.cpus[cpu].performance.into(), |(now, highest)| now * FULL / highest)
    }

    /// Something has changed that decides on the frequency of `cpu` (`cpufreq_update_util`).
    #[inline]
    pub(crate) fn update_frequency(&mut self, cpu: usize) {
        if !self.machine.hardware.clocks.is_empty() {
            self.choose_frequency(cpu);
        }
    }

    fn choose_frequency(&mut self, cpu: usize) {
        let Some((number, step)) = self.hardware.frequencies.step_of(cpu) else {
            return;
        };
        let machine = self.machine.clone();
        let clock = &machine.hardware.clocks[number];
        let now = self.clock.now();
        let changed_at = self.hardware.frequencies.clocks[number].changed_at;
        if changed_at.is_some_and(|changed_at| now < changed_at + clock.rate_limit) {
            return;
        }
        let wanted = { clock.cpus.iter() }
            .map(|cpu| highest(clock) * self.wanted_performance(*cpu) / self.cpus[*cpu].capacity)
            .max();
        let enough = |wanted| clock.steps.iter().position(|step| step.frequency >= wanted);
        let next = wanted.and_then(enough).unwrap_or(clock.steps.len() - 1);
        if next == step {
            return;
        }
        self.hardware.frequencies.clocks[number] = ClockState { step: next, changed_at: Some(now) };
        for cpu in &clock.cpus {
            self.update_scale(*cpu);
            self.update_speed(*cpu);
            self.update_power(*cpu, now);
        }
    }

    /// The performance that `cpu` should have, of its capacity (`sugov_get_util`): a quarter more than what the scheduler has asked for, but all of
    /// it while a real-time task is runnable, and at least the bandwidth of its deadline tasks. Real-time tasks that have gone do not linger in it.
    fn wanted_performance(&self, cpu: usize) -> u64 {
        let state = &self.cpus[cpu];
        let least = match state.real_time.is_empty() {
            true => bandwidth_as_capacity(state.deadline.tasks()).min(state.capacity),
            false => state.capacity,
        };
        let asked = u64::from(state.performance).min(state.capacity);
        (asked + asked / 4).min(state.capacity).max(least)
    }

    /// Lets the clock for load tracking of `cpu` go as fast as the CPU computes by its capacity and frequency.
    fn update_scale(&mut self, cpu: usize) {
        let scale = self.cpus[cpu].capacity * self.frequency_capacity(cpu) / FULL;
        self.cpus[cpu].scale = scale;
    }
}
