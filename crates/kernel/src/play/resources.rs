//! The resources that the threads of a workload share: mutexes, conditions, barriers, semaphores, timers, pipes.
//!
//! They sleep on futexes like those of the C library and have rt-app's meaning: a signal that nobody waits for is lost, a semaphore
//! remembers. A wait ends early only when the run is over; every function that waits then returns `false`.

use std::io::{ErrorKind, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use fairground_workload::{PipeKind, Workload};
use nix::libc;
use rustix::thread::futex;

use crate::clock;

/// Set once the run is over. Waiting threads check it whenever a signal interrupts them.
#[derive(Debug, Default)]
pub struct Over(AtomicBool);

impl Over {
    /// Marks the run as over.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the run is over.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Sleeps as long as `word` holds `value`; signals and rare races end the sleep early.
fn sleep_while(word: &AtomicU32, value: u32) {
    // Not an error: the word has already changed, or a signal has arrived. The caller checks for both.
    let _ = futex::wait(word, futex::Flags::PRIVATE, value, None);
}

fn wake(word: &AtomicU32, count: u32) {
    // Waking only fails for an unmapped address.
    let _ = futex::wake(word, futex::Flags::PRIVATE, count);
}

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// A mutex that is locked and unlocked by separate events.
#[derive(Debug, Default)]
pub struct Lock {
    word: AtomicU32,
    /// The thread that locked it last.
    holder: AtomicU32,
    /// How long a thread spins before it sleeps, nanoseconds.
    spin: u64,
}

impl Lock {
    /// A free mutex.
    fn new(described: &fairground_workload::Mutex) -> Self {
        Self { word: AtomicU32::new(FREE), holder: AtomicU32::new(0), spin: described.spin }
    }

    /// Locks it.
    pub fn lock(&self, over: &Over) -> bool {
        if self.take() || self.spin() {
            return true;
        }
        while self.word.swap(CONTENDED, Ordering::Acquire) != FREE {
            if over.is_set() {
                return false;
            }
            sleep_while(&self.word, CONTENDED);
        }
        true
    }

    /// Locks it if it is free.
    fn take(&self) -> bool {
        self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Retries for a while.
    fn spin(&self) -> bool {
        if self.spin == 0 {
            return false;
        }
        let end = clock::monotonic() + self.spin;
        while clock::monotonic() < end {
            if self.word.load(Ordering::Relaxed) == FREE && self.take() {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Records which thread has locked it.
    pub fn set_holder(&self, thread: u32) {
        self.holder.store(thread, Ordering::Relaxed);
    }

    /// The thread that locked it last.
    pub fn holder(&self) -> u32 {
        self.holder.load(Ordering::Relaxed)
    }

    /// Unlocks it.
    pub fn unlock(&self) {
        if self.word.swap(FREE, Ordering::Release) == CONTENDED {
            wake(&self.word, 1);
        }
    }
}

/// A condition.
#[derive(Debug, Default)]
pub struct Condition(AtomicU32);

impl Condition {
    /// Waits for a signal; releases `held`, the mutex that the thread holds.
    pub fn wait(&self, held: Option<&Lock>, over: &Over) -> bool {
        let signals = self.0.load(Ordering::Relaxed);
        if let Some(mutex) = held {
            mutex.unlock();
        }
        while self.0.load(Ordering::Relaxed) == signals {
            if over.is_set() {
                return false;
            }
            sleep_while(&self.0, signals);
        }
        true
    }

    /// Wakes one waiter.
    pub fn signal(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        wake(&self.0, 1);
    }

    /// Wakes all waiters.
    pub fn broadcast(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        wake(&self.0, u32::MAX >> 1);
    }
}

/// A barrier.
#[derive(Debug)]
pub struct Barrier {
    parties: u32,
    arrived: AtomicU32,
    opened: AtomicU32,
}

impl Barrier {
    fn new(parties: u32) -> Self {
        Self { parties, arrived: AtomicU32::new(0), opened: AtomicU32::new(0) }
    }

    /// How many threads have arrived and wait.
    pub fn arrived(&self) -> u32 {
        self.arrived.load(Ordering::Acquire)
    }

    /// Waits until all parties have arrived.
    pub fn wait(&self, over: &Over) -> bool {
        let opened = self.opened.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.parties {
            // No thread can arrive for the next round before the barrier opens.
            self.arrived.store(0, Ordering::Relaxed);
            self.opened.fetch_add(1, Ordering::Release);
            wake(&self.opened, u32::MAX >> 1);
            return true;
        }
        while self.opened.load(Ordering::Acquire) == opened {
            if over.is_set() {
                return false;
            }
            sleep_while(&self.opened, opened);
        }
        true
    }
}

/// A counting semaphore that starts at 0.
#[derive(Debug, Default)]
pub struct Semaphore(AtomicU32);

impl Semaphore {
    /// Adds one.
    pub fn post(&self) {
        self.0.fetch_add(1, Ordering::Release);
        wake(&self.0, 1);
    }

    /// Takes one, waiting until there is one.
    pub fn wait(&self, over: &Over) -> bool {
        loop {
            let taken = self
                .0
                .fetch_update(Ordering::Acquire, Ordering::Relaxed, |value| value.checked_sub(1));
            if taken.is_ok() {
                return true;
            }
            if over.is_set() {
                return false;
            }
            sleep_while(&self.0, 0);
        }
    }
}

/// A kernel pipe, or a pair of sockets of which one is written to and the other read.
#[derive(Debug)]
pub struct Pipe {
    reader: PipeReader,
    writer: PipeWriter,
}

impl Pipe {
    fn new(described: &fairground_workload::Pipe) -> std::io::Result<Self> {
        let capacity = match described.kind {
            PipeKind::Paged { capacity } => capacity,
            PipeKind::Early => fairground_workload::Pipe::EARLY_CAPACITY,
            PipeKind::Socket => {
                let (reader, writer) = UnixStream::pair()?;
                return Ok(Self {
                    reader: OwnedFd::from(reader).into(),
                    writer: OwnedFd::from(writer).into(),
                });
            }
        };
        let (reader, writer) = std::io::pipe()?;
        let capacity = i32::try_from(capacity).unwrap_or(i32::MAX);
        // SAFETY: the descriptor is open, and the command only changes the size of the pipe.
        let result = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, capacity) };
        if result < 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(Self { reader, writer })
    }

    /// Reads until `buffer` is full; `false` if the run ends first.
    pub fn read(&self, mut buffer: &mut [u8], over: &Over) -> std::io::Result<bool> {
        while !buffer.is_empty() {
            match (&self.reader).read(buffer) {
                Ok(bytes) => buffer = &mut buffer[bytes..],
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                Err(_) if over.is_set() => return Ok(false),
                Err(_) => {}
            }
        }
        Ok(true)
    }

    /// Writes all of `buffer`; `false` if the run ends first.
    pub fn write(&self, mut buffer: &[u8], over: &Over) -> std::io::Result<bool> {
        while !buffer.is_empty() {
            match (&self.writer).write(buffer) {
                Ok(bytes) => buffer = &buffer[bytes..],
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                Err(_) if over.is_set() => return Ok(false),
                Err(_) => {}
            }
        }
        Ok(true)
    }
}

/// All shared resources of a workload, by the indices that its events use.
#[derive(Debug)]
pub struct Resources {
    /// Mutexes.
    pub mutexes: Vec<Lock>,
    /// Conditions.
    pub conditions: Vec<Condition>,
    /// Barriers.
    pub barriers: Vec<Barrier>,
    /// Semaphores.
    pub semaphores: Vec<Semaphore>,
    /// Last expiry of each shared timer; `None` before its first use.
    pub timers: Vec<Mutex<Option<u64>>>,
    /// Pipes.
    pub pipes: Vec<Pipe>,
}

impl Resources {
    /// The resources of a workload, not used yet.
    pub fn new(workload: &Workload) -> std::io::Result<Self> {
        Ok(Self {
            mutexes: workload.mutexes.iter().map(Lock::new).collect(),
            conditions: workload.conditions.iter().map(|_| Condition::default()).collect(),
            barriers: workload
                .barriers
                .iter()
                .map(|barrier| Barrier::new(barrier.parties))
                .collect(),
            semaphores: workload.semaphores.iter().map(|_| Semaphore::default()).collect(),
            timers: workload.timers.iter().map(|_| Mutex::new(None)).collect(),
            pipes: workload.pipes.iter().map(Pipe::new).collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::thread;

    #[test]
    fn a_mutex_excludes() {
        let (lock, over, inside, sum) =
            (Lock::default(), Over::default(), AtomicU32::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        assert!(lock.lock(&over));
                        assert_eq!(
                            inside.fetch_add(1, Ordering::Relaxed),
                            0,
                            "two threads are inside"
                        );
                        sum.fetch_add(1, Ordering::Relaxed);
                        inside.fetch_sub(1, Ordering::Relaxed);
                        lock.unlock();
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), 8000);
    }

    #[test]
    fn a_semaphore_remembers_posts() {
        let (semaphore, over) = (Semaphore::default(), Over::default());
        semaphore.post();
        semaphore.post();
        assert!(semaphore.wait(&over) && semaphore.wait(&over));
        over.set();
        assert!(!semaphore.wait(&over));
    }

    #[test]
    fn a_token_goes_round() {
        let (semaphores, over) =
            ([Semaphore::default(), Semaphore::default(), Semaphore::default()], Over::default());
        let passes = AtomicU32::new(0);
        semaphores[0].post();
        thread::scope(|scope| {
            for place in 0..3 {
                let (semaphores, over, passes) = (&semaphores, &over, &passes);
                scope.spawn(move || {
                    for _ in 0..500 {
                        assert!(semaphores[place].wait(over));
                        passes.fetch_add(1, Ordering::Relaxed);
                        semaphores[(place + 1) % 3].post();
                    }
                });
            }
        });
        assert_eq!(passes.into_inner(), 1500);
    }

    #[test]
    fn a_barrier_opens_for_all_again_and_again() {
        let (barrier, over, arrivals) = (Barrier::new(3), Over::default(), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 1..=200 {
                        arrivals.fetch_add(1, Ordering::Relaxed);
                        assert!(barrier.wait(&over));
                        assert!(
                            arrivals.load(Ordering::Relaxed) >= 3 * round,
                            "opened before all arrived"
                        );
                    }
                });
            }
        });
    }

    #[test]
    fn a_condition_gives_the_mutex_free() {
        let (lock, condition, over) = (Lock::default(), Condition::default(), Over::default());
        let flag = AtomicU32::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(lock.lock(&over));
                while flag.load(Ordering::Relaxed) == 0 {
                    assert!(condition.wait(Some(&lock), &over) && lock.lock(&over));
                }
                lock.unlock();
            });
            assert!(lock.lock(&over));
            flag.store(1, Ordering::Relaxed);
            lock.unlock();
            condition.signal();
            condition.broadcast();
        });
    }

    #[test]
    fn a_spinning_mutex_excludes() {
        let described = fairground_workload::Mutex { name: "m".to_owned(), spin: 50_000 };
        let (lock, over, sum) = (Lock::new(&described), Over::default(), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        assert!(lock.lock(&over));
                        // Not atomic as a whole: only the mutex makes it correct.
                        sum.store(sum.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        lock.unlock();
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), 1500);
    }

    #[test]
    fn a_pipe_carries_more_than_it_holds() {
        for kind in [PipeKind::Paged { capacity: 4096 }, PipeKind::Socket] {
            let described = fairground_workload::Pipe { name: "p".to_owned(), kind };
            let pipe = Pipe::new(&described).expect("the system has pipes");
            let (over, mut read) = (Over::default(), vec![0; 1_000_000]);
            thread::scope(|scope| {
                scope.spawn(|| assert!(pipe.write(&[7; 1_000_000], &over).expect("it is open")));
                assert!(pipe.read(&mut read, &over).expect("it is open"));
            });
            assert!(read.iter().all(|byte| *byte == 7));
        }
    }
}
