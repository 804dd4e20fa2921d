//! The recorder: the treatment of chosen tasks by any scheduler of this kernel, as an event stream.
//!
//! A small BPF program at the kernel's scheduler trace points writes records to a ring buffer; a thread of this process puts them in order
//! and feeds a [`Sink`]. The thread runs under `SCHED_FIFO`, above every scheduler that can be watched. Four times a second it checks
//! whether the buffer is filling up; if not, it reads the buffer only at the end of the recording. So it takes almost nothing from the
//! tasks and does not compete with them.

mod program;
pub mod record;
pub mod stream;

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use fairground_events::Sink;
use fairground_results::OtherThread;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, RingBufferBuilder};

use crate::scheduling::WATCHERS;
use crate::{Error, clock, host, scheduling};
pub(crate) use program::{Program, ends, failed, waiting};
use record::Record;
use stream::{Note, NoteKind, Stream};

/// The program, and the one for kernels whose symbol table has no `__preempt_count`: that one has to watch every interrupt, and so costs
/// more time.
const PROGRAMS: [&[u8]; 2] = [
    include_bytes!(concat!(env!("OUT_DIR"), "/recorder.bpf.o")),
    include_bytes!(concat!(env!("OUT_DIR"), "/recorder_interrupts.bpf.o")),
];

/// How often the ring buffer is checked. At 100,000 records a second it takes more than a second to fill.
const PERIOD: Duration = Duration::from_millis(250);

/// Bytes of records that may wait: a quarter of the ring buffer. Reading them takes longer than a wakeup latency, and adds to those during
/// which it happens.
const PATIENCE: usize = 4 * 1024 * 1024;

/// How long the latest records may be incomplete on some CPU, nanoseconds.
const SETTLING: u64 = 100_000_000;

/// Gives the recorder facts that the kernel does not know.
#[derive(Clone, Debug)]
pub struct Notes {
    sender: Sender<Note>,
    origin: Arc<OnceLock<u64>>,
}

impl Notes {
    /// Begins the run at `origin` (`CLOCK_MONOTONIC`), which becomes time 0 of the events. Nothing reaches the sink before. Only the first
    /// call counts.
    pub fn begin(&self, origin: u64) {
        let _ = self.origin.set(origin);
    }

    /// Adds a note about the thread `pid`, at the present time.
    pub fn add(&self, pid: u32, kind: NoteKind) {
        // After the end of the recording there is no receiver, and no need for one.
        let _ = self.sender.send(Note { time: clock::monotonic(), pid, kind });
    }
}

/// Chooses tasks to record.
#[derive(Debug)]
pub struct Tracker {
    map: MapHandle,
    notes: Notes,
}

impl Tracker {
    /// Records the thread `pid` from now on, under `name` or its name in the kernel.
    pub fn track(&self, pid: u32, name: Option<&str>) -> Result<(), Error> {
        if let Some(name) = name {
            self.notes.add(pid, NoteKind::Task { name: name.to_owned() });
        }
        self.map
            .update(&pid.to_ne_bytes(), &0_u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| failed(&format!("cannot follow thread {pid}: {error}")))
    }
}

/// The result of a recording besides the events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Records lost because the buffer was full; the events have gaps there.
    pub lost: u64,
    /// The activities of threads that were not chosen, if requested.
    pub others: Vec<OtherThread>,
}

/// Ends the recorder's thread when dropped.
#[derive(Debug)]
struct End(Arc<AtomicBool>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A running recording. It ends when this is dropped, but only [`Recorder::finish`] gives the sink back.
#[derive(Debug)]
pub struct Recorder<S> {
    map: MapHandle,
    notes: Notes,
    stop: Arc<OnceLock<u64>>,
    end: End,
    thread: JoinHandle<Result<(S, Summary), Error>>,
}

impl<S: Sink + Send + 'static> Recorder<S> {
    /// Starts recording into `sink`. Children of recorded tasks are recorded too; with `turns`, so are the turns of all other threads.
    /// Nothing is recorded before a task is chosen with a [`Tracker`], and nothing reaches the sink before [`Notes::begin`].
    pub fn start(sink: S, turns: bool, cpus: u32) -> Result<Self, Error> {
        Self::start_programs(sink, turns, cpus, |_| true)
    }

    /// [`Recorder::start`] with only those of its programs whose names are `wanted`, to measure their cost.
    pub(crate) fn start_programs(
        mut sink: S,
        turns: bool,
        cpus: u32,
        wanted: fn(&str) -> bool,
    ) -> Result<Self, Error> {
        host::check_root("recording the scheduler's actions")?;
        let program = Program::load("recorder", &PROGRAMS, wanted, |map| {
            if ends(map.name(), ".rodata")
                && let Some(constants) = map.initial_value_mut()
            {
                // `turns` is the program's only constant.
                constants[0] = u8::from(turns);
            }
            Ok(())
        })?;
        let map = program.map("tracked")?;
        let (sender, receiver) = channel();
        let origin = Arc::new(OnceLock::new());
        let notes = Notes { sender, origin: Arc::clone(&origin) };
        let ended = Arc::new(AtomicBool::new(false));
        let end = End(Arc::clone(&ended));
        let stop = Arc::new(OnceLock::new());
        let bounds = Bounds { origin, stop: Arc::clone(&stop), ended };
        let thread = std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || {
                // Above everything that is watched. Without permission, the recording is merely less exact.
                let _ = scheduling::set_policy(&WATCHERS);
                let stream = Stream::new(cpus);
                let summary = record(&program, &receiver, &bounds, stream, &mut sink)?;
                Ok((sink, summary))
            })
            .map_err(Error::system("cannot start the recorder's thread"))?;
        Ok(Self { map, notes, stop, end, thread })
    }

    /// A handle that chooses tasks.
    pub fn tracker(&self) -> Result<Tracker, Error> {
        Ok(Tracker { map: duplicate(&self.map)?, notes: self.notes.clone() })
    }

    /// A handle that takes notes from user space.
    pub fn notes(&self) -> Notes {
        self.notes.clone()
    }

    /// Ends the run at `time` (`CLOCK_MONOTONIC`): later events are dropped, however long it takes until [`Recorder::finish`]. Only the
    /// first call counts.
    pub fn stop_at(&self, time: u64) {
        let _ = self.stop.set(time);
    }

    /// Ends the recording, now unless [`Recorder::stop_at`] named a time, and returns the finished sink.
    pub fn finish(self) -> Result<(S, Summary), Error> {
        self.stop_at(clock::monotonic());
        drop(self.end);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_else(|_| Err(failed("its thread panicked")))
    }
}

/// When a recording begins and ends, as set by other threads.
struct Bounds {
    /// `CLOCK_MONOTONIC` of time 0, once the run has begun.
    origin: Arc<OnceLock<u64>>,
    /// `CLOCK_MONOTONIC` of the end, once known.
    stop: Arc<OnceLock<u64>>,
    /// Whether the thread should end.
    ended: Arc<AtomicBool>,
}

/// Moves records and notes to the sink until the end.
fn record(
    program: &Program,
    notes: &Receiver<Note>,
    bounds: &Bounds,
    mut stream: Stream,
    sink: &mut dyn Sink,
) -> Result<Summary, Error> {
    let arrived = RefCell::new(Vec::new());
    let records = program.map("records")?;
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&records, |bytes| {
            arrived.borrow_mut().extend(Record::parse(bytes));
            0
        })
        .map_err(|error| failed(&error.to_string()))?;
    let ring = builder.build().map_err(|error| failed(&error.to_string()))?;
    loop {
        let last = bounds.ended.load(Ordering::Relaxed);
        let now = clock::monotonic();
        if !last && waiting(&ring) < PATIENCE {
            std::thread::park_timeout(PERIOD);
            continue;
        }
        ring.consume().map_err(|error| failed(&error.to_string()))?;
        for note in notes.try_iter() {
            stream.push_note(note);
        }
        for record in arrived.borrow_mut().drain(..) {
            stream.push_record(record);
        }
        if let Some(origin) = bounds.origin.get() {
            stream.begin(*origin);
        }
        let stop = bounds.stop.get().copied().unwrap_or(u64::MAX);
        if last {
            stream.begin(now);
            return Ok(Summary {
                others: stream.finish(stop.min(now), sink),
                lost: program.lost(),
            });
        }
        stream.release(stop.min(now.saturating_sub(SETTLING)), sink);
    }
}

fn duplicate(map: &MapHandle) -> Result<MapHandle, Error> {
    MapHandle::try_from(map).map_err(|error| failed(&error.to_string()))
}
