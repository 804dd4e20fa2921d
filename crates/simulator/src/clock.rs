//! Virtual time: the queue of events.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use crate::task::Class;

/// Something that will happen to a CPU, a task or a timer. Whatever can be put off or cancelled has a number, and happens only if that is still the
/// present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A CPU has something of its own to do: its tick, or the end of its task's program step.
    Cpu { cpu: u32 },
    /// A rescheduling interrupt arrives.
    Reschedule { cpu: u32 },
    /// An interrupt tells a CPU about wake-ups that it has to finish.
    Wakeups { cpu: u32 },
    /// A task's sleep ends.
    Timeout { task: u32, generation: u32 },
    /// A disk has served a task.
    Disk { task: u32 },
    /// A drive has served a request, or waited long enough for another one.
    Drive { drive: u32, event: u32 },
    /// Requests of a stream come from outside.
    Arrival { number: u32 },
    /// A BPF timer expires.
    BpfTimer { timer: u32, generation: u32 },
    /// A CPU's deadline server for a class starts, or its next period begins.
    DeadlineServer { cpu: u32, class: Class, timer: u32 },
    /// The next period of a throttled deadline task begins.
    DeadlineTask { task: u32, timer: u32 },
    /// The budget of the deadline task that a CPU runs is used up.
    DeadlineTick { cpu: u32, timer: u32 },
    /// The stall watchdog runs.
    Watchdog,
    /// A CPU comes online or goes offline, by its place in the plan.
    Hotplug { index: u32 },
    /// The settings of a control group change, by their place in the plan.
    Group { change: u32 },
    /// A CPU that waited for a task to end its section without migration goes offline.
    Offline { cpu: u32 },
    /// The scheduler's loader does one of its runs of a program, unless the scheduler has been unloaded more often than `load` times.
    Loader { run: u32, load: u32 },
    /// The scheduler's loader has loaded it again.
    Reload,
    /// The tasks that exist at the start are started.
    Start,
}

/// An event in the heap; the earliest is the greatest, and of equal times the first to arrive.
#[derive(PartialEq, Eq)]
struct Entry {
    /// Time in the upper half, number of arrival in the lower: one comparison without a branch orders both.
    rank: u128,
    due: Due,
}

impl Entry {
    fn new(time: u64, arrival: u64, due: Due) -> Entry {
        Entry { rank: u128::from(time) << 64 | u128::from(arrival), due }
    }

    fn time(&self) -> u64 {
        (self.rank >> 64) as u64
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        other.rank.cmp(&self.rank)
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    fn lt(&self, other: &Self) -> bool {
        other.rank < self.rank
    }

    fn le(&self, other: &Self) -> bool {
        other.rank <= self.rank
    }
}

/// One time for every CPU, and the earliest of them: a tree in which every node has the earlier of its two children's times. Setting a time replays
/// the matches on the way to the root, up to one that ends as before.
#[derive(Default)]
struct CpuTimes {
    /// The times of nodes `2 * n` and `2 * n + 1`, the children of node `n`. The root is node 1; the last nodes are the CPUs.
    pairs: Vec<[u64; 2]>,
}

impl CpuTimes {
    fn new(cpus: usize) -> CpuTimes {
        CpuTimes { pairs: vec![[u64::MAX; 2]; cpus.next_power_of_two()] }
    }

    /// Sets the time of `cpu`, if it is another one.
    fn set(&mut self, cpu: usize, mut time: u64) {
        let pairs = self.pairs.as_mut_slice();
        let mut node = pairs.len() + cpu;
        // From a node on that stays the same nothing changes.
        while node > 0 && pairs[node / 2][node % 2] != time {
            pairs[node / 2][node % 2] = time;
            node /= 2;
            time = pairs[node][0].min(pairs[node][1]);
        }
    }

    /// The CPU with the earliest time; of several the lowest.
    fn first(&self) -> usize {
        let mut node = 1;
        while let Some([left, right]) = self.pairs.get(node) {
            node = 2 * node + usize::from(left > right);
        }
        node - self.pairs.len()
    }

    /// Whether a CPU other than `cpu` has a time up to and including `limit`.
    fn is_other_due_by(&self, limit: u64, cpu: usize) -> bool {
        let mut node = self.pairs.len() + cpu;
        while node > 1 && self.pairs[0][1] <= limit {
            if self.pairs[node / 2][1 - node % 2] <= limit {
                return true;
            }
            node /= 2;
        }
        false
    }
}

/// The event queue.
#[derive(Default)]
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
        Clock { cpus: CpuTimes::new(cpus), ..Clock::default() }
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
            self.heap.push(Entry::new(time, self.arrivals, due));
        }
    }

    /// Sets when `cpu` has something of its own to do; `u64::MAX` for never.
    pub fn set_cpu(&mut self, cpu: usize, time: u64) {
        self.cpus.set(cpu, time);
    }

    /// Advances to the next event, or returns `None` if there is none up to and including `limit`.
    ///
    /// A CPU's own event stays until [`Clock::set_cpu`] moves it.
    pub fn next(&mut self, limit: u64) -> Option<Due> {
        if let Some(due) = self.immediate.pop_front() {
            return Some(due);
        }
        let cpu_time = self.cpus.pairs[0][1];
        let heap_time = self.heap.peek().map_or(u64::MAX, Entry::time);
        if cpu_time.min(heap_time) > limit || cpu_time.min(heap_time) == u64::MAX {
            return None;
        }
        if heap_time < cpu_time {
            let entry = self.heap.pop()?;
            self.now = self.now.max(entry.time());
            return Some(entry.due);
        }
        self.now = self.now.max(cpu_time);
        Some(Due::Cpu { cpu: self.cpus.first() as u32 })
    }

    /// Whether anything but events of `cpu` itself is due up to and including `limit`.
    pub fn is_due_by(&self, limit: u64, cpu: usize) -> bool {
        !self.immediate.is_empty()
            || self.heap.peek().is_some_and(|entry| entry.time() <= limit)
            || self.cpus.is_other_due_by(limit, cpu)
    }

    /// Moves to `time` when nothing is due before it.
    pub fn advance_to(&mut self, time: u64) {
        self.now = self.now.max(time);
    }
}

/// How many ticks of `length` there were until `time`; one was at `first`.
pub fn ticks_until(time: u64, length: u64, first: u64) -> u64 {
    first / length + time.saturating_sub(first) / length
}

/// The kernel's tick count. It starts near its wrap-around in a kernel, and at 0 here.
#[derive(Default)]
pub struct Jiffies {
    count: u64,
    next_at: u64,
}

impl Jiffies {
    /// The count at `now`, which is not before the last time; a tick takes `length`, and one was at `first`.
    pub fn at(&mut self, now: u64, length: u64, first: u64) -> u64 {
        if now >= self.next_at {
            self.count = ticks_until(now, length, first);
            self.next_at = first + (self.count - first / length + 1) * length;
        }
        self.count
    }
}

/// How many events there were, and whether time goes on with them.
#[derive(Default)]
pub struct Progress {
    events: u64,
    /// Events since time last advanced.
    at_once: u64,
    /// When time last advanced.
    instant: u64,
}

impl Progress {
    /// Counts an event at `now`; returns the number of events at this instant so far.
    pub fn count(&mut self, now: u64) -> u64 {
        self.events += 1;
        if now != self.instant {
            self.instant = now;
            self.at_once = 0;
        }
        self.at_once += 1;
        self.at_once
    }

    /// Number of events so far.
    pub fn events(&self) -> u64 {
        self.events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_times_come_in_order_however_they_were_moved() {
        let mut clock = Clock::new(9);
        for (cpu, time) in
            [(0, 50), (1, 40), (2, 30), (3, 20), (4, 10), (5, 60), (6, 45), (7, 15), (8, 5)]
        {
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
    fn what_a_cpu_has_to_do_itself_does_not_count_as_something_else() {
        let mut clock = Clock::new(3);
        clock.set_cpu(1, 5);
        assert!(!clock.is_due_by(5, 1));
        assert!(clock.is_due_by(5, 0) && clock.is_due_by(5, 2));
        assert!(!clock.is_due_by(4, 0));
        clock.at(7, Due::Watchdog);
        assert!(clock.is_due_by(7, 1) && !clock.is_due_by(6, 1));
        clock.at(0, Due::Watchdog);
        assert!(clock.is_due_by(0, 1), "it is due at once");
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
