//! The energy of CPUs, where the machine has the power of a busy CPU at each frequency and of an idle one in each of its states.

use fairground_events::{CpuId, EventKind};

use crate::kernel::Kernel;

/// Adds up what a CPU consumes.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    /// Its power, in microwatts.
    power: u64,
    /// Since when.
    since: u64,
    /// The energy that it has consumed before, in femtojoules: microwatts times nanoseconds.
    consumed: u128,
    /// Later powers, as of a CPU whose work goes beyond the present, and when they begin.
    later: Vec<(u64, u64)>,
}

impl Meter {
    /// The power is another one from `time` on, which may be later than `now`.
    fn set(&mut self, now: u64, time: u64, power: u64) {
        let last = self.later.last().map_or(0, |(last, _)| *last);
        self.later.push((time.max(last), power));
        self.settle(now);
    }

    /// Adds up what has been consumed with powers that have ended by `now`.
    fn settle(&mut self, now: u64) {
        let begun = self.later.partition_point(|(time, _)| *time <= now);
        for place in 0..begun {
            let (time, power) = self.later[place];
            self.consumed = self.consumed_until(time);
            self.since = self.since.max(time);
            self.power = power;
        }
        self.later.drain(..begun);
    }

    fn consumed_until(&self, time: u64) -> u128 {
        let passed = time.saturating_sub(self.since);
        self.consumed + u128::from(self.power) * u128::from(passed)
    }

    /// Forgets what was consumed before `time`.
    fn restart(&mut self, time: u64) {
        self.since = self.since.max(time);
        self.consumed = 0;
    }

    /// The energy consumed until `time`, in nanojoules.
    fn nanojoules(&mut self, time: u64) -> u64 {
        self.settle(time);
        (self.consumed_until(time) / 1_000_000) as u64
    }
}

impl Kernel<'_> {
    /// The power of `cpu` as it is now, in microwatts: that of its idle state while it sleeps, otherwise that of a busy CPU at its frequency.
    fn power(&self, cpu: usize) -> u64 {
        let hardware = &self.machine.hardware;
        if let Some(nap) = &self.cpus[cpu].nap {
            return hardware.idle_states(cpu)[nap.state()].power;
        }
        let state = &self.cpus[cpu];
        let is_idle = state.current == state.idle && hardware.idle_states(cpu).is_empty();
        let step = self.hardware.frequencies.step_of(cpu);
        let step = step.map(|(clock, step)| hardware.clocks[clock].steps[step]);
        match step {
            Some(step) if !is_idle => step.power.unwrap_or(0),
            _ => 0,
        }
    }

    /// Lets `cpu` consume from `time` on what it does as it is now.
    pub(super) fn update_power(&mut self, cpu: usize, time: u64) {
        if self.hardware.has_power {
            let power = self.power(cpu);
            let now = self.clock.now();
            self.cpus[cpu].meter.set(now, time, power);
        }
    }

    /// Begins to add up what the CPUs consume.
    pub(crate) fn begin_metering(&mut self) {
        if !self.hardware.has_power {
            return;
        }
        let now = self.clock.now();
        for cpu in 0..self.cpus.len() {
            self.update_power(cpu, now);
            self.cpus[cpu].meter.restart(now);
        }
    }

    /// Reports what each CPU has consumed.
    pub(crate) fn report_energy(&mut self) {
        if !self.hardware.has_power {
            return;
        }
        let now = self.clock.now();
        for cpu in 0..self.cpus.len() {
            let nanojoules = self.cpus[cpu].meter.nanojoules(now);
            let energy = EventKind::Energy { cpu: CpuId(cpu as u32), nanojoules };
            self.emit_at(now, energy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_power_times_time() {
        let mut meter = Meter::default();
        meter.set(100, 100, 2_000_000);
        assert_eq!(meter.nanojoules(1_000_000_100), 2_000_000_000);
        // Two powers later than the present, of which the run sees no more than a part.
        meter.set(1_000_000_100, 2_000_000_100, 0);
        meter.set(1_000_000_100, 3_000_000_100, 5_000_000);
        assert_eq!(meter.nanojoules(1_500_000_100), 3_000_000_000);
        assert_eq!(meter.nanojoules(3_000_000_100), 4_000_000_000);
        meter.set(3_000_000_100, 3_000_000_100, 0);
        meter.restart(5_000_000_000);
        meter.set(5_000_000_000, 5_000_000_000, 1);
        assert_eq!(meter.nanojoules(6_000_000_000), 1_000);
    }
}
