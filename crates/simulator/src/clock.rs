//! Virtual time: the queue of what happens next.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Something that will happen on a CPU, to a task or to a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// The program step of the task that runs on this CPU ends; stale unless the generation matches.
    Completion {
        /// CPU.
        cpu: u32,
        /// Generation of the CPU's completion.
        generation: u32,
    },
    /// Timer tick.
    Tick {
        /// CPU.
        cpu: u32,
        /// Generation of the CPU's tick.
        generation: u32,
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

/// The event queue; among equal times, order of arrival.
#[derive(Default)]
pub struct Clock {
    now: u64,
    arrivals: u64,
    heap: BinaryHeap<Reverse<(u64, u64, Due)>>,
    immediate: VecDeque<Due>,
}

impl Clock {
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
            self.heap.push(Reverse((time, self.arrivals, due)));
        }
    }

    /// Advances to the next event, or returns `None` if there is none up to and including `limit`.
    pub fn next(&mut self, limit: u64) -> Option<Due> {
        if let Some(due) = self.immediate.pop_front() {
            return Some(due);
        }
        if self.heap.peek()?.0.0 > limit {
            return None;
        }
        let Reverse((time, _, due)) = self.heap.pop()?;
        self.now = time;
        Some(due)
    }

    /// Moves to `time` when nothing is due before it.
    pub fn advance_to(&mut self, time: u64) {
        self.now = self.now.max(time);
    }
}
