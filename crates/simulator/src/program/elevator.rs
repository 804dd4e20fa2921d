//! A drive and its elevator, as in Linux 2.6.0 to 2.6.17: the request that is served next (`as-iosched.c`, `deadline-iosched.c`).
//!
//! A drive serves one request at a time. The place of the head is a file and a position in it. A request that begins there takes the time in which its
//! bytes pass under the head; before any other, the head moves. Files lie far from each other, in the order in which they were opened.

use std::collections::{BTreeMap, VecDeque};

use fairground_events::TaskId;
use fairground_workload::{Drive as Settings, Elevator};

/// A place on a drive: the number of a file, and a position in it.
pub(super) type Place = (u64, u64);

/// Most bytes of one request: 256 sectors, as many as an ATA command has room for.
const REQUEST: u64 = 128 << 10;

const MS: u64 = 1_000_000;
// The intervals of as-iosched.c.
const READ_EXPIRE: u64 = 125 * MS;
const READ_BATCH: u64 = 500 * MS;
const WRITE_BATCH: u64 = 125 * MS;
/// How long the drive stays idle for the next read of the same task.
pub(super) const ANTICIPATION: u64 = 6 * MS;
const THINK_TIME_MAX: u64 = 20 * MS;
// That of deadline-iosched.c.
const DEADLINE_READ_EXPIRE: u64 = 500 * MS;
/// Requests in the order of their places before the oldest is looked at.
const FIFO_BATCH: u32 = 16;
/// Batches of reads for which writes wait.
const WRITES_STARVED: u32 = 2;

/// A read that somebody may be waiting for, or a part of the writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub place: Place,
    pub bytes: u64,
    /// The task that reads; `None` for a write.
    pub reader: Option<TaskId>,
    /// The CPU that the drive interrupts when it is done.
    pub cpu: usize,
    pub since: u64,
}

/// The drive's next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It will have served a request.
    Served { at: u64 },
    /// It will have waited long enough for another read.
    Anticipated { until: u64 },
    /// None before there is another request.
    Nothing,
}

/// What the elevator knows of a task's reads: decaying sums, of which the last counts an eighth.
#[derive(Clone, Debug, Default)]
struct History {
    /// When the drive served its last request.
    served_at: Option<u64>,
    last_end: Option<Place>,
    think_samples: u64,
    think_total: u64,
    /// Of as many samples, those that were not where the one before ended.
    seeks: u64,
    in_queue: u32,
}

/// How much a sample weighs in a decaying sum.
const SAMPLE: u64 = 256;

fn decay(sum: &mut u64, value: u64) {
    *sum = (7 * *sum + SAMPLE * value) / 8;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Reads,
    Writes,
}

/// A drive.
#[derive(Debug)]
pub(super) struct Drive {
    settings: Settings,
    head: Place,
    served: Option<Request>,
    /// In the order of their arrival.
    reads: VecDeque<Request>,
    /// Runs of bytes that were written and have not reached the drive, in the order of writing.
    dirty: VecDeque<Request>,
    dirty_bytes: u64,
    /// Whether writes go to the drive until less than the background limit is left.
    writes_back: bool,
    histories: BTreeMap<TaskId, History>,
    direction: Direction,
    batch_ends: u64,
    /// Requests of the batch, and batches of reads since the last write.
    batched: u32,
    read_batches: u32,
    expired_checked: u64,
    /// The task whose read was served last, if the last request was a read, and when.
    anticipated: Option<(TaskId, u64)>,
    gave_up: bool,
    /// Think time of tasks at their second read, a decaying sum.
    new_think_total: u64,
}

impl Drive {
    /// An idle drive.
    pub fn new(settings: &Settings) -> Drive {
        Drive {
            settings: settings.clone(),
            head: (0, 0),
            served: None,
            reads: VecDeque::new(),
            dirty: VecDeque::new(),
            dirty_bytes: 0,
            writes_back: false,
            histories: BTreeMap::new(),
            direction: Direction::Reads,
            batch_ends: READ_BATCH,
            batched: 0,
            read_batches: 0,
            expired_checked: 0,
            anticipated: None,
            gave_up: false,
            new_think_total: 0,
        }
    }

    /// Puts a read into the queue.
    pub fn read(&mut self, request: Request) {
        let reader = request.reader.expect("it is a read");
        let history = self.histories.entry(reader).or_default();
        if let Some(end) = history.last_end {
            let alone = history.in_queue == 0;
            let idle_since = history.served_at.filter(|_| alone);
            let think = idle_since.map_or(0, |at| request.since.saturating_sub(at));
            let think = think.min(THINK_TIME_MAX);
            if history.think_samples == 0 {
                decay(&mut self.new_think_total, think);
            }
            decay(&mut history.think_samples, 1);
            decay(&mut history.think_total, think);
            decay(&mut history.seeks, u64::from(end != request.place));
        }
        history.last_end = Some((request.place.0, request.place.1 + request.bytes));
        history.in_queue += 1;
        self.reads.push_back(request);
    }

    /// Takes bytes that are to be written. Returns whether the writer may go on.
    pub fn write(&mut self, request: Request) -> bool {
        self.dirty_bytes += request.bytes;
        match self.dirty.back_mut() {
            Some(last) if (last.place.0, last.place.1 + last.bytes) == request.place => {
                last.bytes += request.bytes;
            }
            _ => self.dirty.push_back(request),
        }
        self.writes_back |= self.dirty_bytes > self.background_limit();
        self.has_room()
    }

    /// Whether writers may go on: they may leave 40 % of the memory unwritten (`dirty_ratio`).
    pub fn has_room(&self) -> bool {
        let write = self.served.filter(|request| request.reader.is_none());
        let in_flight = write.map_or(0, |request| request.bytes);
        self.dirty_bytes + in_flight <= self.settings.memory / 10 * 4
    }

    /// The bytes from which on writes go to the drive (`dirty_background_ratio`).
    fn background_limit(&self) -> u64 {
        self.settings.memory / 10
    }

    /// Forgets a task that ends.
    pub fn forget(&mut self, task: TaskId) {
        self.histories.remove(&task);
    }

    /// The end of the request that is being served.
    pub fn complete(&mut self, now: u64) -> Option<Request> {
        let request = self.served.take()?;
        if let Some(reader) = request.reader {
            self.anticipated = Some((reader, now));
            if let Some(history) = self.histories.get_mut(&reader) {
                history.served_at = Some(now);
                history.in_queue -= 1;
            }
        }
        Some(request)
    }

    /// Waits no longer for the next read of the same task.
    pub fn give_up(&mut self) {
        self.gave_up = true;
    }

    /// The CPU that hears of the next completion.
    pub fn interrupts(&self) -> Option<usize> {
        self.served.map(|request| request.cpu)
    }

    /// Begins with the next request, if the drive is idle and one is to be served now.
    pub fn start(&mut self, now: u64) -> Next {
        if self.served.is_some() {
            return Next::Nothing;
        }
        self.writes_back &= self.dirty_bytes > self.background_limit();
        let chosen = match self.settings.elevator {
            Elevator::Anticipatory => self.choose(now),
            Elevator::Deadline => self.choose_by_deadline(now),
        };
        let request = match chosen {
            Choice::Read(index) => self.reads.remove(index).expect("it was found there"),
            Choice::Write => self.take_write(),
            Choice::Wait(until) => return Next::Anticipated { until },
            Choice::Nothing => return Next::Nothing,
        };
        Next::Served { at: self.serve(request, now) }
    }

    /// Serves a request and returns when it will be done.
    fn serve(&mut self, request: Request, now: u64) -> u64 {
        let moves = request.place != self.head;
        let transfer = u128::from(request.bytes) * 1_000_000_000 / u128::from(self.settings.rate);
        self.head = (request.place.0, request.place.1 + request.bytes);
        self.anticipated = None;
        self.gave_up = false;
        self.served = Some(request);
        now + u64::from(moves) * self.settings.positioning + transfer as u64
    }

    /// As much of the oldest writes as one request holds.
    fn take_write(&mut self) -> Request {
        let first = self.dirty.front_mut().expect("there are writes");
        let request = Request { bytes: first.bytes.min(REQUEST), ..*first };
        first.place.1 += request.bytes;
        first.bytes -= request.bytes;
        if first.bytes == 0 {
            self.dirty.pop_front();
        }
        self.dirty_bytes -= request.bytes;
        request
    }

    /// The read after the head, or else the first of all: the elevator goes one way.
    fn next_in_order(&self) -> Option<usize> {
        let behind = |place: Place| (place < self.head, place);
        let indexed = self.reads.iter().enumerate();
        let next = indexed.min_by_key(|(_, request)| behind(request.place));
        next.map(|(index, _)| index)
    }

    /// `as_dispatch_request()`.
    fn choose(&mut self, now: u64) -> Choice {
        let (reads, writes) = (!self.reads.is_empty(), self.writes_back);
        if !reads && !writes {
            return Choice::Nothing;
        }
        let batch_is_over = reads && writes && now > self.batch_ends;
        if !batch_is_over && self.direction == Direction::Reads {
            if self.oldest_has_expired(now) {
                return Choice::Read(0);
            }
            let next = self.next_in_order();
            if let Some(until) = self.anticipates(next, now) {
                return Choice::Wait(until);
            }
            if let Some(next) = next {
                if !writes {
                    self.batch_ends = now + READ_BATCH;
                }
                return Choice::Read(next);
            }
        } else if !batch_is_over && writes {
            return Choice::Write;
        }
        let turns = writes && (!reads || self.direction == Direction::Reads);
        if turns {
            self.direction = Direction::Writes;
            self.batch_ends = now + WRITE_BATCH;
            return Choice::Write;
        }
        self.direction = Direction::Reads;
        self.batch_ends = now + READ_BATCH;
        self.expired_checked = now;
        Choice::Read(0)
    }

    /// `as_fifo_expired()`: looks at the oldest read no more often than reads expire.
    fn oldest_has_expired(&mut self, now: u64) -> bool {
        if now.saturating_sub(self.expired_checked) < READ_EXPIRE {
            return false;
        }
        self.expired_checked = now;
        let oldest = self.reads.front();
        oldest.is_some_and(|request| now > request.since + READ_EXPIRE)
    }

    /// `as_can_anticipate()`: until when the drive waits for the next read of the task that it has just served, rather than serve `next` or a write.
    fn anticipates(&self, next: Option<usize>, now: u64) -> Option<u64> {
        let (reader, served_at) = self.anticipated?;
        let until = served_at + ANTICIPATION;
        // A task that has ended reads no more.
        let history = self.histories.get(&reader)?;
        if self.gave_up || now >= until || history.in_queue > 0 {
            return None;
        }
        let think_time = match history.think_samples {
            0 => self.new_think_total / SAMPLE,
            samples => (history.think_total + samples / 2) / samples,
        };
        if think_time > ANTICIPATION {
            return None;
        }
        // Beside a task that moves the head more often than not, any other read is as good.
        let seeks = 2 * history.seeks > history.think_samples;
        (next.is_none() || !seeks).then_some(until)
    }

    /// `deadline_dispatch_requests()`.
    fn choose_by_deadline(&mut self, now: u64) -> Choice {
        let (reads, writes) = (!self.reads.is_empty(), self.writes_back);
        let goes_on = match self.direction {
            Direction::Reads => reads,
            Direction::Writes => writes,
        };
        if goes_on && self.batched < FIFO_BATCH {
            self.batched += 1;
            return match (self.direction, self.next_in_order()) {
                (Direction::Reads, Some(next)) => Choice::Read(next),
                _ => Choice::Write,
            };
        }
        self.batched = 1;
        if reads && !(writes && self.read_batches >= WRITES_STARVED) {
            self.direction = Direction::Reads;
            self.read_batches += u32::from(writes);
            let expired = self.reads[0].since + DEADLINE_READ_EXPIRE < now;
            let next = self.next_in_order().filter(|_| !expired);
            return Choice::Read(next.unwrap_or(0));
        }
        if writes {
            self.direction = Direction::Writes;
            self.read_batches = 0;
            return Choice::Write;
        }
        Choice::Nothing
    }
}

/// An elevator's decision.
enum Choice {
    /// The read with this index.
    Read(usize),
    Write,
    /// Idle until then.
    Wait(u64),
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drive that takes 10 ms to move its head and 1 ms to read 128 KiB.
    fn drive(elevator: Elevator) -> Drive {
        Drive::new(&Settings {
            name: String::new(),
            positioning: 10 * MS,
            rate: 131_072_000,
            read_ahead: REQUEST,
            memory: 10 * REQUEST,
            elevator,
        })
    }

    /// Tasks that each read a file from its beginning to its end, 128 KiB at a time, and think so long before each further request. Returns the tasks
    /// in the order in which they were served, and when the drive was done with each request, in milliseconds.
    fn serve(elevator: Elevator, think_times: &[u64], end: u64) -> Vec<(u32, u64)> {
        let mut drive = drive(elevator);
        let mut asks: Vec<(u64, u32)> =
            (0..think_times.len() as u32).map(|task| (u64::from(task), task)).collect();
        let mut places = vec![0; think_times.len()];
        let (mut next, mut served) = (Next::Nothing, Vec::new());
        loop {
            asks.sort_unstable();
            let at = match next {
                Next::Served { at } | Next::Anticipated { until: at } => at,
                Next::Nothing => u64::MAX,
            };
            if let Some(&(ask, task)) = asks.first()
                && ask * MS < at
            {
                asks.remove(0);
                let place = &mut places[task as usize];
                drive.read(Request {
                    place: (u64::from(task) + 1, *place),
                    bytes: REQUEST,
                    reader: Some(TaskId(task)),
                    cpu: 0,
                    since: ask * MS,
                });
                *place += REQUEST;
                if !matches!(next, Next::Served { .. }) {
                    next = drive.start(ask * MS);
                }
                continue;
            }
            if at > end * MS {
                return served;
            }
            match drive.complete(at) {
                Some(request) => {
                    let TaskId(task) = request.reader.expect("they only read");
                    served.push((task, at / MS));
                    asks.push((at / MS + think_times[task as usize], task));
                }
                None => drive.give_up(),
            }
            next = drive.start(at);
        }
    }

    #[test]
    fn a_task_that_comes_back_in_time_keeps_the_drive() {
        // The second task asks at 1 ms. The first comes 5 ms after each read, and keeps the drive until the other's read has expired: the elevator looks at
        // 125 ms, when it is 124 ms old, and again 125 ms later.
        let served = serve(Elevator::Anticipatory, &[5, 5], 300);
        let first: Vec<_> = (0..40).map(|read| (0, 11 + 6 * read)).collect();
        assert_eq!(served[..40], first);
        assert_eq!(served[40..42], [(1, 261), (1, 267)]);
    }

    #[test]
    fn a_task_that_comes_too_late_loses_the_drive() {
        // The drive waits from 11 to 17 ms, and the first task asks at 18.
        let served = serve(Elevator::Anticipatory, &[7, 7], 100);
        assert_eq!(served[..2], [(0, 11), (1, 28)]);
        // It waits for the second from 28 to 34 as well, which asks at 35. From then on both are known to think for 7 ms, and the drive waits for neither.
        assert_eq!(served[2..5], [(0, 45), (1, 56), (0, 67)]);
    }

    #[test]
    fn anticipation_saves_the_movement_of_the_head() {
        // Without it, two readers move the head for each request: one in 11 ms.
        let without = serve(Elevator::Deadline, &[1, 1], 1100);
        assert_eq!(without.len(), 100);
        assert!(without.iter().enumerate().all(|(index, (task, _))| index % 2 == *task as usize));
        // With it, each has the drive for 125 to 250 ms at a time, and a request takes 2 ms: 5 movements of 9 ms more than that.
        let with = serve(Elevator::Anticipatory, &[1, 1], 1100);
        let changes = with.windows(2).filter(|pair| pair[0].0 != pair[1].0).count();
        assert!((4..=8).contains(&changes), "{changes}");
        let moves = changes as u64 + 1;
        assert!(with.len().abs_diff((1100 - 9 * moves as usize) / 2) <= 2, "{}", with.len());
        // A lone reader moves it once: 11 ms, and 544 times 2.
        assert_eq!(serve(Elevator::Deadline, &[1], 1100).len(), 545);
        assert_eq!(serve(Elevator::Anticipatory, &[1], 1100).len(), 545);
    }

    fn write(drive: &mut Drive, position: u64, bytes: u64) -> bool {
        drive.write(Request { place: (9, position), bytes, reader: None, cpu: 0, since: 0 })
    }

    #[test]
    fn writes_wait_in_memory_until_a_tenth_of_it_is_full() {
        let mut drive = drive(Elevator::Anticipatory);
        assert!(write(&mut drive, 0, REQUEST));
        assert_eq!(drive.start(0), Next::Nothing);
        // One more byte is above the limit, and one request brings it below.
        assert!(write(&mut drive, REQUEST, 1));
        assert_eq!(drive.start(0), Next::Served { at: 11 * MS });
        assert_eq!(drive.complete(11 * MS).map(|request| request.bytes), Some(REQUEST));
        assert_eq!(drive.start(11 * MS), Next::Nothing);
        // Four tenths have room, and not more.
        assert!(write(&mut drive, REQUEST + 1, 4 * REQUEST - 1));
        assert!(!write(&mut drive, 5 * REQUEST, 1));
    }

    #[test]
    fn without_anticipation_a_read_waits_for_a_batch_of_writes() {
        let mut drive = drive(Elevator::Deadline);
        write(&mut drive, 0, 300 * REQUEST);
        let mut now = 0;
        for served in 0..40 {
            let Next::Served { at } = drive.start(now) else {
                panic!("it is idle at {now}");
            };
            let is_read = drive.complete(at).unwrap().reader.is_some();
            assert_eq!(is_read, served == 16, "{served}");
            now = at;
            if served == 3 {
                drive.read(Request {
                    place: (1, 0),
                    bytes: REQUEST,
                    reader: Some(TaskId(0)),
                    cpu: 0,
                    since: now,
                });
            }
        }
    }

    #[test]
    fn reads_and_writes_take_turns() {
        let mut drive = drive(Elevator::Anticipatory);
        write(&mut drive, 0, 300 * REQUEST);
        let read = |drive: &mut Drive, number: u64, now| {
            drive.read(Request {
                place: (1, number * REQUEST),
                bytes: REQUEST,
                reader: Some(TaskId(0)),
                cpu: 0,
                since: now,
            });
        };
        read(&mut drive, 0, 0);
        let (mut now, mut order, mut reads) = (0, Vec::new(), 1);
        while order.len() < 700 {
            let Next::Served { at } = drive.start(now) else {
                panic!("it is idle at {now}");
            };
            let is_read = drive.complete(at).unwrap().reader.is_some();
            order.push((is_read, at));
            if is_read {
                read(&mut drive, reads, at);
                reads += 1;
            }
            now = at;
        }
        // A batch of reads lasts 500 ms: one of 11 ms and 490 of 1 ms, of which the last begins at 500. One of writes lasts 125 ms.
        let changed = order.windows(2).position(|pair| pair[0].0 != pair[1].0);
        assert_eq!(changed, Some(490));
        assert_eq!(order[491], (false, 512 * MS));
        let back = order[491..].iter().position(|(is_read, _)| *is_read);
        assert_eq!(back, Some(116));
    }
}
