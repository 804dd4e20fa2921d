//! Records the activities of all tasks of this machine, as the entries of a recording.
//!
//! BPF programs at the kernel's scheduler trace points write entries to rings, one per CPU, and descriptions of tasks to a buffer. A thread
//! of this process checks four times a second whether one of them is filling up; if so, and at the end, it empties all of them. It runs under
//! `SCHED_FIFO`, above every scheduler that can be observed, and only copies; the holder of the [`Capture`] writes the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use libbpf_rs::RingBufferBuilder;

use crate::recorder::{Program, failed, waiting};
use crate::rings::{self, Rings};
use crate::{Error, host, scheduling};

/// The program, and the one for kernels whose symbol table has no `__preempt_count`.
const PROGRAMS: [&[u8]; 2] = [
    include_bytes!(concat!(env!("OUT_DIR"), "/recording.bpf.o")),
    include_bytes!(concat!(env!("OUT_DIR"), "/recording_interrupts.bpf.o")),
];

/// How often the rings are checked.
const PERIOD: Duration = Duration::from_millis(250);

/// Bytes of descriptions that may wait: a quarter of the buffer.
const PATIENCE: usize = 1024 * 1024;

/// How long a program may still run on some CPU after it has been detached.
const LAST_ENTRY: Duration = Duration::from_millis(5);

/// A recording in progress.
#[derive(Debug)]
pub struct Capture {
    ended: Arc<AtomicBool>,
    entries: Receiver<Vec<u8>>,
    thread: JoinHandle<Result<u64, Error>>,
}

impl Capture {
    /// Starts recording.
    pub fn start() -> Result<Self, Error> {
        Self::start_programs(|_| true)
    }

    /// [`Capture::start`] with only the `wanted` programs, to measure their cost.
    pub(crate) fn start_programs(wanted: fn(&str) -> bool) -> Result<Self, Error> {
        host::check_root("recording the scheduler's actions")?;
        let cpus = libbpf_rs::num_possible_cpus().map_err(|error| failed(&error.to_string()))?;
        let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
        let mut program =
            Program::load("recording", &PROGRAMS, wanted, |map| rings::prepare(map, cpus))?;
        let rings = Rings::of(&program, cpus)?;
        let (sender, entries) = channel();
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        let thread = std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || {
                // Without the permission for this, the recording may only lose entries sooner.
                let _ = scheduling::set_policy(&scheduling::WATCHERS);
                carry(&mut program, &rings, &sender, &end)
            })
            .map_err(Error::system("cannot start the recorder's thread"))?;
        Ok(Self { ended, entries, thread })
    }

    /// The entries since the last call, as bytes.
    pub fn entries(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        self.entries.try_iter()
    }

    /// Ends the recording: the rest of the entries, and how many were lost for lack of room.
    pub fn finish(self) -> Result<(Vec<Vec<u8>>, u64), Error> {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        let lost = self.thread.join().unwrap_or_else(|_| Err(failed("its thread panicked")))?;
        Ok((self.entries.try_iter().collect(), lost))
    }
}

/// Carries entries to `receiver` until the end; returns how many were lost for lack of room.
fn carry(
    program: &mut Program,
    rings: &Rings,
    receiver: &Sender<Vec<u8>>,
    ended: &AtomicBool,
) -> Result<u64, Error> {
    let arrived = std::cell::RefCell::new(Vec::new());
    let descriptions = program.map("descriptions")?;
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&descriptions, |bytes| {
            arrived.borrow_mut().extend_from_slice(bytes);
            0
        })
        .map_err(|error| failed(&error.to_string()))?;
    let ring = builder.build().map_err(|error| failed(&error.to_string()))?;
    loop {
        let last = ended.load(Ordering::Relaxed);
        if !last && waiting(&ring) < PATIENCE && !rings.fill() {
            std::thread::park_timeout(PERIOD);
            continue;
        }
        if last {
            program.detach();
            std::thread::sleep(LAST_ENTRY);
        }
        ring.consume().map_err(|error| failed(&error.to_string()))?;
        rings.take(&mut arrived.borrow_mut());
        // A receiver that is gone does not need them.
        let _ = receiver.send(arrived.take());
        if last {
            return Ok(program.lost() + rings.lost());
        }
    }
}
