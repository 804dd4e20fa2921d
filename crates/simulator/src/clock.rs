//! Virtual time: the queue of what happens next.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// Something that will happen to a CPU, a task or a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A CPU's own time has come: its tick, or the end of the program step of its task.
    Cpu {
        /// CPU.
        cpu: u32,
    },
    /// A rescheduling interrupt arrives.
    Reschedule {
        /// CPU.
        cpu: u32,
    },
    /// A task's sleep ends.
    Timeout {
        /// Task number.
        task: u32,
        /// Generation of the task's sleep.
        generation: u32,
    },
    /// A BPF timer expires.
    BpfTimer {
        /// Timer number.
        timer: u32,
        /// Generation of the timer.
        generation: u32,
    },
    /// The stall watchdog looks.
    Watchdog,
    /// A CPU comes or goes; index into the plan.
    Hotplug {
        /// Index into the plan.
        index: u32,
    },
    /// The tasks that exist at the start are started.
    Start,
}

/// An event in the heap; the earliest is the greatest, among equal times the first to arrive.
struct Entry {
    time: u64,
    arrival: u64,
    due: Due,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.arrival).cmp(&(self.time, self.arrival))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.arrival == other.arrival
    }
}

impl Eq for Entry {}

/// One time for every CPU, the earliest on top; setting a CPU's time again moves it, so nothing stale remains.
#[derive(Default)]
struct CpuTimes {
    times: Vec<u64>,
    heap: Vec<u32>,
    positions: Vec<u32>,
}

impl CpuTimes {
    fn new(cpus: usize) -> CpuTimes {
        let numbers: Vec<u32> = (0..cpus as u32).collect();
        CpuTimes {
            times: vec![u64::MAX; cpus],
            heap: numbers.clone(),
            positions: numbers,
        }
    }

    fn before(&self, a: u32, b: u32) -> bool {
        (self.times[a as usize], a) < (self.times[b as usize], b)
    }

    fn place(&mut self, position: usize, cpu: u32) {
        self.heap[position] = cpu;
        self.positions[cpu as usize] = position as u32;
    }

    fn set(&mut self, cpu: u32, time: u64) {
        let earlier = time < self.times[cpu as usize];
        self.times[cpu as usize] = time;
        let mut position = self.positions[cpu as usize] as usize;
        if earlier {
            while position > 0 {
                let parent = (position - 1) / 4;
                if !self.before(cpu, self.heap[parent]) {
                    break;
                }
                self.place(position, self.heap[parent]);
                position = parent;
            }
        } else {
            loop {
                let first = position * 4 + 1;
                let last = (first + 4).min(self.heap.len());
                let Some(child) = (first..last).reduce(|best, child| {
                    if self.before(self.heap[child], self.heap[best]) {
                        child
                    } else {
                        best
                    }
                }) else {
                    break;
                };
                if !self.before(self.heap[child], cpu) {
                    break;
                }
                self.place(position, self.heap[child]);
                position = child;
            }
        }
        self.place(position, cpu);
    }

    fn earliest(&self) -> (u64, u32) {
        let cpu = self.heap[0];
        (self.times[cpu as usize], cpu)
    }
}

/// The event queue.
pub struct Clock {
    now: u64,
    arrivals: u64,
    heap: BinaryHeap<Entry>,
    immediate: VecDeque<Due>,
    cpus: CpuTimes,
}

impl Clock {
    /// A clock at 0 for a machine with this many CPUs.
    pub fn new(cpus: usize) -> Clock {
        Clock {
            now: 0,
            arrivals: 0,
            heap: BinaryHeap::new(),
            immediate: VecDeque::new(),
            cpus: CpuTimes::new(cpus),
        }
    }

    /// Current virtual time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Schedules `due` at `time`, or now if that has passed.
    pub fn at(&mut self, time: u64, due: Due) {
        if time <= self.now {
            self.immediate.push_back(due);
        } else {
            self.arrivals += 1;
            self.heap.push(Entry {
                time,
                arrival: self.arrivals,
                due,
            });
        }
    }

    /// Sets when `cpu` has something of its own to do; `u64::MAX` is never.
    pub fn set_cpu(&mut self, cpu: usize, time: u64) {
        if self.cpus.times[cpu] != time {
            self.cpus.set(cpu as u32, time);
        }
    }

    /// Advances to the next event, or returns `None` if there is none up to and including `limit`.
    ///
    /// A CPU's own event stays until [`Clock::set_cpu`] moves it.
    pub fn next(&mut self, limit: u64) -> Option<Due> {
        if let Some(due) = self.immediate.pop_front() {
            return Some(due);
        }
        let (cpu_time, cpu) = self.cpus.earliest();
        let heap_time = self.heap.peek().map_or(u64::MAX, |entry| entry.time);
        if cpu_time.min(heap_time) > limit || cpu_time.min(heap_time) == u64::MAX {
            return None;
        }
        if heap_time < cpu_time {
            let entry = self.heap.pop()?;
            self.now = self.now.max(entry.time);
            return Some(entry.due);
        }
        self.now = self.now.max(cpu_time);
        Some(Due::Cpu { cpu })
    }

    /// Moves to `time` when nothing is due before it.
    pub fn advance_to(&mut self, time: u64) {
        self.now = self.now.max(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_times_come_in_order_however_they_were_moved() {
        let mut clock = Clock::new(9);
        for (cpu, time) in [
            (0, 50),
            (1, 40),
            (2, 30),
            (3, 20),
            (4, 10),
            (5, 60),
            (6, 45),
            (7, 15),
            (8, 5),
        ] {
            clock.set_cpu(cpu, time);
        }
        clock.set_cpu(8, 55);
        clock.set_cpu(5, 1);
        let mut seen = Vec::new();
        while let Some(Due::Cpu { cpu }) = clock.next(u64::MAX) {
            seen.push(cpu);
            clock.set_cpu(cpu as usize, u64::MAX);
        }
        assert_eq!(seen, [5, 4, 7, 3, 2, 1, 6, 0, 8]);
    }

    #[test]
    fn equal_times_keep_their_order_of_arrival() {
        let mut clock = Clock::new(1);
        clock.at(7, Due::Reschedule { cpu: 1 });
        clock.at(7, Due::Watchdog);
        clock.at(3, Due::Start);
        assert_eq!(clock.next(10), Some(Due::Start));
        assert_eq!(clock.next(10), Some(Due::Reschedule { cpu: 1 }));
        assert_eq!(clock.next(10), Some(Due::Watchdog));
        assert_eq!(clock.next(10), None);
    }
}
