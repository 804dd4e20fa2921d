//! Whether the threads of a workload all wait for each other.
//!
//! A thread records the thing that it waits for before it sleeps, and afterwards that the wait is over. If all threads say that they wait, and the
//! kernel says that all sleep, none is left to wake them. Two checks tell this from threads that keep waking each other: a thread woken
//! between the checks is runnable at the second one, or has recorded that its wait is over.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use fairground_workload::{Waiting, Workload};

use super::resources::Resources;

/// A thread's record of its waits.
#[derive(Debug, Default)]
pub struct WaitRecord {
    /// The thread's number; 0 before it has one.
    thread: AtomicU32,
    /// Waits begun and ended: odd while it waits.
    changes: AtomicU64,
    cause: Mutex<Waiting>,
}

impl WaitRecord {
    /// Sets the number of the thread.
    pub fn introduce(&self, thread: u32) {
        self.thread.store(thread, Ordering::Release);
    }

    /// The thread's number; 0 before it has one.
    pub fn thread(&self) -> u32 {
        self.thread.load(Ordering::Acquire)
    }

    /// Runs `wait`, and records that the thread waits for `cause` meanwhile.
    pub fn during<T>(&self, cause: Waiting, wait: impl FnOnce() -> T) -> T {
        *self.cause.lock().unwrap_or_else(PoisonError::into_inner) = cause;
        self.changes.fetch_add(1, Ordering::AcqRel);
        let result = wait();
        self.changes.fetch_add(1, Ordering::AcqRel);
        result
    }

    /// The number of the wait in which the thread sleeps, if it sleeps.
    fn asleep(&self) -> Option<u64> {
        let changes = self.changes.load(Ordering::Acquire);
        (changes % 2 == 1 && sleeps(self.thread())).then_some(changes)
    }

    fn cause(&self) -> Waiting {
        *self.cause.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a thread of this process sleeps, according to the kernel.
fn sleeps(thread: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
    stat.is_ok_and(|stat| fairground_files::stat_field(&stat, 3) == Some("S"))
}

/// A thread that has not ended: its name and its record.
pub type Living<'a> = (&'a str, &'a WaitRecord);

/// The thing that each thread waits for, if none of them can ever continue.
pub fn find(threads: &[Living<'_>], workload: &Workload, resources: &Resources) -> Option<String> {
    let look = || -> Option<Vec<u64>> {
        let waits = threads.iter().map(|(_, record)| record.asleep());
        waits.collect()
    };
    let first = look()?;
    if threads.is_empty() || look()? != first {
        return None;
    }
    let name_of = |number: u32| {
        let found = threads.iter().find(|(_, one)| one.thread() == number);
        found.map_or("a thread that has ended", |(name, _)| name)
    };
    let reasons = threads.iter().map(|(name, record)| {
        let cause = record.cause().describe(
            workload,
            |mutex| Some(name_of(resources.mutexes[mutex].holder()).to_owned()),
            |barrier| resources.barriers[barrier].arrived().into(),
        );
        let cause = cause.unwrap_or_else(|| "nothing".to_owned());
        format!("{name} waits for {cause}")
    });
    Some(reasons.collect::<Vec<_>>().join("; "))
}
