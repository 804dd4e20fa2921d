//! CPUs that share cores and caches, sleep and change speed, on machines whose descriptions say so ([`fairground_machine::Hardware`]).
//!
//! Only the work of programs takes longer on a slow CPU. Costs, slices and the kernel's account of CPU time are in time, and so the same at every
//! speed; the clock for load tracking knows of capacities and frequencies, as in the kernel, and not of busy siblings.

mod cache;
mod energy;
mod frequency;
mod sleep;
mod speed;

use fairground_machine::{ALONE, Machine};

use crate::kernel::Kernel;
use crate::task::TaskRef;
use cache::Cache;
pub use energy::Meter;
use frequency::Frequencies;
pub use sleep::{Menu, Nap};
pub use speed::Speed;

/// The state of what CPUs share, and which parts of the hardware are known.
pub struct Hardware {
    frequencies: Frequencies,
    /// What each last-level cache holds.
    caches: Vec<Cache>,
    /// Whether anything follows when a CPU begins or ends to be idle: it has idle states, or its power is known.
    watches_idleness: bool,
    /// Whether the power of the CPUs is known.
    has_power: bool,
    /// How many CPUs of each core run a task.
    busy: Vec<usize>,
}

impl Hardware {
    /// That of a machine that begins to run: caches are empty, clocks at their highest frequencies.
    pub fn new(machine: &Machine) -> Hardware {
        let has_power = machine.hardware.has_power();
        Hardware {
            frequencies: Frequencies::new(machine),
            caches: vec![Default::default(); machine.llcs().len()],
            watches_idleness: has_power || !machine.hardware.idle.is_empty(),
            has_power,
            busy: vec![0; machine.cores().len()],
        }
    }
}

impl Kernel<'_> {
    /// How fast `cpu` computes now.
    fn speed_of(&self, cpu: usize) -> Speed {
        let speed = self.speed_of_clock(cpu);
        let hardware = &self.machine.hardware;
        if hardware.smt.is_empty() {
            return speed;
        }
        let busy = self.busy_siblings(cpu);
        let throughput = hardware.throughput(busy).into();
        speed.part(throughput, busy.max(1) as u64 * u64::from(ALONE))
    }

    /// How many CPUs of the core of `cpu` run a task.
    pub(crate) fn busy_siblings(&self, cpu: usize) -> usize {
        self.hardware.busy[self.topology.core_of[cpu]]
    }

    /// A CPU begins to run a task, or to be idle.
    pub(crate) fn set_current(&mut self, cpu: usize, task: TaskRef) {
        let mut state = self.cpu(cpu);
        let busy = &mut self.hardware.busy[self.topology.core_of[cpu]];
        *busy = *busy + usize::from(task != state.idle) - usize::from(state.current != state.idle);
        state.current = task;
        state.rq.curr = task.address() as *mut _;
    }

    /// Lets `cpu` compute as fast as it does from now on, once its work until now is accounted.
    fn update_speed(&mut self, cpu: usize) {
        let speed = self.speed_of(cpu);
        if speed != self.cpus[cpu].speed {
            self.cpus[cpu].account_progress(self.clock.now());
            self.cpus[cpu].speed = speed;
            self.arm_completion(cpu);
        }
    }

    /// `cpu` has switched away from `previous`: it shares its core with others, or no longer, and begins or ends to be idle.
    #[inline]
    pub(crate) fn hardware_switched(&mut self, cpu: usize, previous: TaskRef) {
        if self.topology.smt {
            self.share_core(cpu);
        }
        if self.hardware.watches_idleness {
            self.watch_idleness(cpu, previous);
        }
    }

    fn watch_idleness(&mut self, cpu: usize, previous: TaskRef) {
        if previous == self.cpus[cpu].idle {
            self.stop_idling(cpu);
        }
        self.update_power(cpu, self.run_queue_clock(cpu));
    }

    fn share_core(&mut self, cpu: usize) {
        if self.machine.hardware.smt.is_empty() {
            self.notice_siblings(cpu);
            return;
        }
        for place in 0..self.topology.siblings_of(cpu).len() {
            self.update_speed(self.topology.siblings_of(cpu)[place]);
        }
    }
}
