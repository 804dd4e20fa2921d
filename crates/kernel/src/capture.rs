//! What all tasks of this machine do, as the entries of a recording.
//!
//! A BPF program at the kernel's scheduler trace points writes entries to a ring buffer. A thread of this process looks four times a
//! second whether the buffer fills, and empties it then and at the end. It runs under `SCHED_FIFO`, above every scheduler that can be
//! watched, and does no more than copy; whoever holds the [`Capture`] writes the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use libbpf_rs::{MapCore as _, MapFlags, RingBufferBuilder};

use crate::play::WATCHERS;
use crate::recorder::{Program, failed, waiting};
use crate::{Error, host, scheduling};

/// The program, and the one for kernels whose symbol table has no `__preempt_count`.
const PROGRAMS: [&[u8]; 2] = [
    include_bytes!(concat!(env!("OUT_DIR"), "/recording.bpf.o")),
    include_bytes!(concat!(env!("OUT_DIR"), "/recording_interrupts.bpf.o")),
];

/// How often the ring buffer is looked at.
const PERIOD: Duration = Duration::from_millis(250);

/// Bytes of entries that may wait: a quarter of the ring buffer, which is seconds of a busy machine.
const PATIENCE: usize = 16 * 1024 * 1024;

/// How long a program may still run on some CPU after it was detached.
const LAST_ENTRY: Duration = Duration::from_millis(5);

/// A recording that is being made.
#[derive(Debug)]
pub struct Capture {
    ended: Arc<AtomicBool>,
    entries: Receiver<Vec<u8>>,
    thread: JoinHandle<Result<u64, Error>>,
}

impl Capture {
    /// Starts to record.
    ///
    /// # Errors
    /// Not root, a kernel without the trace points or type information.
    pub fn start() -> Result<Self, Error> {
        host::check_root("recording what the scheduler does")?;
        let mut program = Program::load("recording", &PROGRAMS, |_| true, |_| ())?;
        let (sender, entries) = channel();
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        let thread = std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || {
                // Without the right to it the recording may only lose entries sooner.
                let _ = scheduling::set_policy(&WATCHERS);
                carry(&mut program, &sender, &end)
            })
            .map_err(Error::system("cannot start the recorder's thread"))?;
        Ok(Self {
            ended,
            entries,
            thread,
        })
    }

    /// The entries that have come since the last time, as bytes.
    pub fn entries(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        self.entries.try_iter()
    }

    /// Ends it: the rest of the entries, and how many found no room.
    ///
    /// # Errors
    /// The entries could not be read.
    pub fn finish(self) -> Result<(Vec<Vec<u8>>, u64), Error> {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        let lost = self
            .thread
            .join()
            .unwrap_or_else(|_| Err(failed("its thread panicked")))?;
        Ok((self.entries.try_iter().collect(), lost))
    }
}

/// The entries that have not left their CPUs: `struct stage` of `bpf/recording.h`.
fn staged(program: &Program) -> Result<Vec<u8>, Error> {
    const HEAD: usize = 8;
    const ENTRY: usize = 40;
    let stages = program
        .map("stages")?
        .lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(|error| failed(&error.to_string()))?;
    let entries = stages.iter().flatten().flat_map(|stage| {
        let (count, entries) = stage.split_at(HEAD.min(stage.len()));
        let count = count
            .first_chunk()
            .map_or(0, |count| u32::from_ne_bytes(*count) as usize);
        entries.iter().take(count * ENTRY).copied()
    });
    Ok(entries.collect())
}

/// Carries entries to `receiver` until the end; returns how many found no room.
fn carry(
    program: &mut Program,
    receiver: &Sender<Vec<u8>>,
    ended: &AtomicBool,
) -> Result<u64, Error> {
    let arrived = std::cell::RefCell::new(Vec::new());
    let records = program.map("records")?;
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&records, |bytes| {
            arrived.borrow_mut().extend_from_slice(bytes);
            0
        })
        .map_err(|error| failed(&error.to_string()))?;
    let ring = builder
        .build()
        .map_err(|error| failed(&error.to_string()))?;
    loop {
        let last = ended.load(Ordering::Relaxed);
        if !last && waiting(&ring) < PATIENCE {
            std::thread::park_timeout(PERIOD);
            continue;
        }
        if last {
            program.detach();
            std::thread::sleep(LAST_ENTRY);
        }
        ring.consume().map_err(|error| failed(&error.to_string()))?;
        // Who does not listen any more has no use for it.
        let _ = receiver.send(arrived.take());
        if last {
            let _ = receiver.send(staged(program)?);
            return Ok(program.lost());
        }
    }
}
