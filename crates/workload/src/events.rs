//! Events, and those of a phase: as they are while there are few, and packed if there are many, as in recorded programs.

use serde::{Deserialize, Serialize};

/// How a timer treats lateness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimerMode {
    /// A late activation restarts the period from now.
    Relative,
    /// The grid is kept: following activations are late too until caught up.
    Absolute,
    /// The grid is kept, and whole periods that have passed are skipped: following activations are late by less than a period.
    Skip,
}

/// Where on a drive bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// After those of the task's last event of the same kind.
    Next,
    /// In a file of their own, far from all others.
    New,
}

/// Where a page comes from that was taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// A request of a disk.
    Disk {
        /// Index into `Workload::disks`.
        disk: usize,
        /// How long the disk needs for it.
        service: u64,
    },
    /// A file of a drive.
    Drive {
        /// Index into `Workload::drives`.
        drive: usize,
        /// Size of the file.
        bytes: u64,
    },
}

/// One event of a phase. Times are in nanoseconds; indices refer to the vectors of [`Workload`](crate::Workload).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// Use this much CPU time on the fastest CPU (fixed work).
    Run(u64),
    /// Be busy until this much wall time has passed, including time while preempted.
    Runtime(u64),
    /// Relative sleep.
    Sleep(u64),
    /// Sleep until the timer's last expiry plus period.
    Timer {
        /// Index into `Workload::timers`.
        timer: usize,
        /// Period in nanoseconds.
        period: u64,
        /// How lateness is treated.
        mode: TimerMode,
    },
    /// Lock a mutex.
    Lock(usize),
    /// Unlock a mutex.
    Unlock(usize),
    /// Wait for a condition, with the mutex released meanwhile (if this task holds it).
    Wait {
        /// Index into `Workload::conditions`.
        condition: usize,
        /// Index into `Workload::mutexes`.
        mutex: usize,
    },
    /// Wake one waiter.
    Signal(usize),
    /// Wake all waiters.
    Broadcast(usize),
    /// Signal, then wait on the same condition.
    Sync {
        /// Index into `Workload::conditions`.
        condition: usize,
        /// Index into `Workload::mutexes`.
        mutex: usize,
    },
    /// Wait until all parties have arrived.
    Barrier(usize),
    /// Wait on a condition, by default the one named after this task definition; no mutex is held.
    Suspend(usize),
    /// Wake all tasks suspended on the condition, and any that wait for it by name.
    Resume(usize),
    /// Post a semaphore.
    SemPost(usize),
    /// Wait for a semaphore.
    SemWait(usize),
    /// Touch this many bytes.
    Mem(u64),
    /// Walk memory.
    MemRun {
        /// Reads, writes or chased pointers.
        accesses: u64,
        /// Buffer size in bytes.
        size: u64,
    },
    /// Write this many bytes to the I/O device.
    IoRun(u64),
    /// `sched_yield`.
    Yield,
    /// Start one more task of the definition (index into `Workload::tasks`). The real rt-app stops with an error when one name has been forked 1024
    /// times.
    Fork(usize),
    /// The task starts or stops its watch; the time in between is one sample.
    Lap {
        /// Whether it starts the watch.
        begins: bool,
    },
    /// Send a request to a service, and wait for the answer (index into `Workload::services`).
    Ask(usize),
    /// Take the request that has waited longest at any of several services (index into `Workload::choices`).
    Take(usize),
    /// Hand the request that was taken on to another service (index into `Workload::services`).
    Pass(usize),
    /// Answer the request that was taken.
    Answer,
    /// Begin or end a section in which the task stays on its CPU (`migrate_disable()`, `migrate_enable()`).
    Migration {
        /// Whether it may move from here on.
        enable: bool,
    },
    /// Read from a pipe until this many bytes have come.
    PipeRead {
        /// Index into `Workload::pipes`.
        pipe: usize,
        /// Number of bytes.
        bytes: u64,
    },
    /// Write to a pipe.
    PipeWrite {
        /// Index into `Workload::pipes`.
        pipe: usize,
        /// Number of bytes.
        bytes: u64,
    },
    /// Wait until a disk, which serves one request at a time, has served this one.
    Disk {
        /// Index into `Workload::disks`.
        disk: usize,
        /// How long the disk needs for it.
        service: u64,
    },
    /// Read from a drive until this many bytes have come.
    Read {
        /// Index into `Workload::drives`.
        drive: usize,
        /// Number of bytes.
        bytes: u64,
        /// Where they are.
        place: Place,
    },
    /// Write to a drive, in the background.
    Write {
        /// Index into `Workload::drives`.
        drive: usize,
        /// Number of bytes.
        bytes: u64,
        /// Where they go.
        place: Place,
    },
    /// Take memory away from other tasks, which have to read it back in.
    Evict {
        /// Index into `Workload::memories`.
        memory: usize,
        /// Pages taken.
        pages: u64,
    },
    /// Read back in pages that were taken away.
    Fault {
        /// Index into `Workload::memories`.
        memory: usize,
        /// Where a page comes from.
        source: Source,
        /// Maximum number of pages to read.
        most: u64,
    },
}

impl Event {
    /// Duration of a run that does not end, nanoseconds: a hundred days, which can be multiplied by a capacity within 64 bits.
    pub const ENDLESS: u64 = 1 << 53;

    /// The duration of the event, if it has one that can vary.
    pub fn duration(mut self) -> Option<u64> {
        self.duration_mut().copied()
    }

    pub(crate) fn duration_mut(&mut self) -> Option<&mut u64> {
        match self {
            Event::Run(Self::ENDLESS) => None,
            Event::Run(time)
            | Event::Runtime(time)
            | Event::Sleep(time)
            | Event::Disk { service: time, .. }
            | Event::Fault { source: Source::Disk { service: time, .. }, .. } => Some(time),
            _ => None,
        }
    }
}

/// More events than this are packed: fetching memory that does not fit into a cache takes longer than unpacking.
const FEW: usize = 1024;
/// Events per block; the position of each block is known.
const BLOCK: usize = 64;
const UNPACKS: &str = "what was packed can be unpacked";

/// Events in order.
#[derive(Clone, Debug)]
pub struct Events(Form);

#[derive(Clone, Debug)]
enum Form {
    Listed(Vec<Event>),
    Packed(Packed),
}

/// Events as bytes, a few for each.
#[derive(Clone, Debug, Default)]
struct Packed {
    bytes: Vec<u8>,
    /// Where each block begins.
    blocks: Vec<usize>,
    count: usize,
}

/// The position of a reader that goes through events in order; it belongs to the events with which it was last used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    /// The event that was read last, with its number, and where the next one begins.
    last: Option<(usize, Event, usize)>,
}

impl Events {
    /// Number of events.
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Listed(list) => list.len(),
            Form::Packed(packed) => packed.count,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The event with this number.
    pub fn get(&self, number: usize) -> Option<Event> {
        self.read(number, &mut Cursor::default())
    }

    /// The event with this number; fast for the cursor's last event and the one after it.
    #[inline]
    pub fn read(&self, number: usize, cursor: &mut Cursor) -> Option<Event> {
        match &self.0 {
            Form::Listed(list) => list.get(number).copied(),
            Form::Packed(packed) => packed.read(number, cursor),
        }
    }

    /// The events from this number on.
    pub fn after(&self, number: usize) -> impl Iterator<Item = Event> + Clone + use<'_> {
        let mut cursor = Cursor::default();
        (number..self.len()).map_while(move |number| self.read(number, &mut cursor))
    }

    /// All events.
    pub fn iter(&self) -> impl Iterator<Item = Event> + Clone + use<'_> {
        self.after(0)
    }

    /// Adds an event.
    pub fn push(&mut self, event: Event) {
        match &mut self.0 {
            Form::Listed(list) if list.len() < FEW => list.push(event),
            Form::Listed(list) => {
                let mut packed = Packed::default();
                list.iter().for_each(|event| packed.push(*event));
                packed.push(event);
                self.0 = Form::Packed(packed);
            }
            Form::Packed(packed) => packed.push(event),
        }
    }

    /// Changes events.
    pub fn change(&mut self, change: impl Fn(&mut Event)) {
        match &mut self.0 {
            Form::Listed(list) => list.iter_mut().for_each(change),
            Form::Packed(_) => {
                let changed = |mut event| {
                    change(&mut event);
                    event
                };
                *self = self.iter().map(changed).collect();
            }
        }
    }
}

impl Packed {
    fn push(&mut self, event: Event) {
        if self.count.is_multiple_of(BLOCK) {
            self.blocks.push(self.bytes.len());
        }
        self.count += 1;
        // An event has at most a kind and four numbers of at most ten bytes each.
        let mut room = [0; 48];
        let bytes = postcard::to_slice(&event, &mut room).expect("an event finds room");
        self.bytes.extend_from_slice(bytes);
    }

    fn read(&self, number: usize, cursor: &mut Cursor) -> Option<Event> {
        if number >= self.count {
            return None;
        }
        let (mut next, mut place) = match cursor.last {
            Some((last, event, _)) if last == number => return Some(event),
            Some((last, _, place)) if last + 1 == number => (number, place),
            _ => (number - number % BLOCK, self.blocks[number / BLOCK]),
        };
        loop {
            let (event, rest) = postcard::take_from_bytes(&self.bytes[place..]).expect(UNPACKS);
            place = self.bytes.len() - rest.len();
            if next == number {
                cursor.last = Some((number, event, place));
                return Some(event);
            }
            next += 1;
        }
    }
}

impl Default for Events {
    fn default() -> Self {
        Self(Form::Listed(Vec::new()))
    }
}

impl From<Vec<Event>> for Events {
    fn from(list: Vec<Event>) -> Self {
        Self(Form::Listed(list))
    }
}

impl FromIterator<Event> for Events {
    fn from_iter<T: IntoIterator<Item = Event>>(source: T) -> Self {
        let mut events = Self::default();
        source.into_iter().for_each(|event| events.push(event));
        events
    }
}

impl PartialEq for Events {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<const COUNT: usize> PartialEq<[Event; COUNT]> for Events {
    fn eq(&self, other: &[Event; COUNT]) -> bool {
        self.iter().eq(other.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many() -> Vec<Event> {
        let kinds = |number: u64| {
            [
                Event::Run(number * number * number),
                Event::Timer {
                    timer: number as usize,
                    period: u64::MAX - number,
                    mode: TimerMode::Skip,
                },
                Event::Fault {
                    memory: usize::MAX,
                    source: Source::Drive { drive: usize::MAX, bytes: u64::MAX },
                    most: u64::MAX,
                },
                Event::Yield,
            ]
        };
        (0..FEW as u64).flat_map(kinds).collect()
    }

    #[test]
    fn packed_events_are_those_that_were_listed() {
        let list = many();
        let packed: Events = list.iter().copied().collect();
        assert!(matches!(packed.0, Form::Packed(_)));
        assert_eq!(packed.len(), list.len());
        assert_eq!(packed, Events::from(list.clone()));
        let mut cursor = Cursor::default();
        for number in [0, 0, 1, 2, 1, 4000, 4001, 63, 64, 65, 64, 4095, 4096, 3] {
            let event = list.get(number).copied();
            assert_eq!(packed.read(number, &mut cursor), event, "{number}");
            assert_eq!(packed.get(number), event, "{number}");
        }
        assert!(packed.after(4090).eq(list[4090..].iter().copied()));
        assert_eq!(packed.after(5000).next(), None);
    }

    #[test]
    fn packed_events_are_changed_like_listed_ones() {
        let longer = |event: &mut Event| {
            if let Event::Run(time) = event {
                *time += 1;
            }
        };
        let mut packed: Events = many().into_iter().collect();
        let mut listed = Events::from(many());
        packed.change(longer);
        listed.change(longer);
        assert_eq!(packed, listed);
        assert_eq!(packed.get(4), Some(Event::Run(2)));
    }
}
