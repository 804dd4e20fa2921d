//! BPF timers and work queues.

use std::collections::BTreeMap;
use std::ops::Range;

use fairground_bpf::Entry;
use fairground_events::OverheadKind;

use crate::clock::Due;
use crate::constants::SOFTIRQ_OFFSET;
use crate::kernel::Kernel;

/// One `struct bpf_timer` or `struct bpf_wq`.
struct Timer {
    map: u64,
    key: Box<[u8]>,
    value: u64,
    callback: Option<Entry>,
    generation: u32,
    armed: bool,
    expires: u64,
    cpu: usize,
}

/// All timers of a simulation, by the address of the structure.
#[derive(Default)]
pub struct BpfTimers {
    by_address: BTreeMap<u64, u32>,
    timers: Vec<Timer>,
    /// Places of former timers.
    free: Vec<u32>,
}

impl BpfTimers {
    /// Makes the structure at `address`, in a value of the map at `map`, a timer. `false` if it already is one.
    pub fn init(&mut self, address: u64, map: u64, key: Box<[u8]>, value: u64) -> bool {
        if self.by_address.contains_key(&address) {
            return false;
        }
        let mut timer = Timer {
            map,
            key,
            value,
            callback: None,
            generation: 0,
            armed: false,
            expires: 0,
            cpu: 0,
        };
        let number = match self.free.pop() {
            Some(number) => {
                let place = &mut self.timers[number as usize];
                // Expiries of the timer that was in this place before are not meant for this one.
                timer.generation = place.generation;
                *place = timer;
                number
            }
            None => {
                self.timers.push(timer);
                self.timers.len() as u32 - 1
            }
        };
        self.by_address.insert(address, number);
        true
    }

    fn get(&mut self, address: u64) -> Option<&mut Timer> {
        let number = *self.by_address.get(&address)?;
        self.timers.get_mut(number as usize)
    }

    /// Sets the function that the timer calls. `false` if there is no timer there.
    pub fn set_callback(&mut self, address: u64, callback: Entry) -> bool {
        self.get(address).map(|timer| timer.callback = Some(callback)).is_some()
    }

    /// Cancels the timer; returns whether it was armed, or `None` if there is no timer there.
    pub fn cancel(&mut self, address: u64) -> Option<bool> {
        let timer = self.get(address)?;
        timer.generation = timer.generation.wrapping_add(1);
        Some(std::mem::take(&mut timer.armed))
    }

    /// When the next timer expires that `cpu` has armed.
    pub fn next_of(&self, cpu: usize) -> Option<u64> {
        let armed = self.timers.iter().filter(|timer| timer.armed && timer.cpu == cpu);
        armed.map(|timer| timer.expires).min()
    }

    /// Cancels and forgets the timers at these addresses: the memory is no longer a value of a map.
    pub fn forget(&mut self, addresses: Range<u64>) {
        while let Some((&address, &number)) = self.by_address.range(addresses.clone()).next() {
            self.cancel(address);
            self.by_address.remove(&address);
            self.free.push(number);
        }
    }
}

impl Kernel<'_> {
    /// Arms the timer at `address` for `time`. `false` if there is none, or it has no callback.
    pub(crate) fn start_bpf_timer(&mut self, address: u64, time: u64) -> bool {
        let Some(&number) = self.timers.by_address.get(&address) else {
            return false;
        };
        let cpu = self.context.cpu;
        let timer = &mut self.timers.timers[number as usize];
        if timer.callback.is_none() {
            return false;
        }
        timer.generation = timer.generation.wrapping_add(1);
        timer.armed = true;
        timer.expires = time;
        timer.cpu = cpu;
        let due = Due::BpfTimer { timer: number, generation: timer.generation };
        self.clock.at(time, due);
        true
    }

    /// A timer expires on the CPU that armed it.
    pub(crate) fn handle_bpf_timer(&mut self, number: u32, generation: u32) {
        let timer = &self.timers.timers[number as usize];
        if timer.generation != generation || !timer.armed {
            return;
        }
        let mut cpu = timer.cpu;
        if !self.cpus[cpu].online {
            cpu = (0..self.cpus.len()).find(|&cpu| self.cpus[cpu].online).unwrap_or(cpu);
        }
        let due = Due::BpfTimer { timer: number, generation };
        if self.postponed(cpu, due) {
            return;
        }
        let timer = &mut self.timers.timers[number as usize];
        timer.armed = false;
        let (map, value, key, callback) =
            (timer.map, timer.value, timer.key.clone(), timer.callback);
        let Some(callback) = callback else { return };
        self.interrupt(cpu);
        self.cpus[cpu].account_progress(self.clock.now());
        self.context.spent += self.settings.cost.timer;
        self.end_sleeps(cpu, cpu, self.clock.now());
        self.cpus[cpu].preempt_count = SOFTIRQ_OFFSET;
        self.run_program(callback, [map, key.as_ptr() as u64, value, 0, 0]);
        self.cpus[cpu].preempt_count = 0;
        self.settle(OverheadKind::Interrupt);
        self.leave(OverheadKind::Scheduling);
    }
}
