//! Threads on chosen CPUs, futexes, and the times of undisturbed calls.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fairground_workload::Policy;
use nix::libc;

use crate::{clock, scheduling};

/// Number of batches per figure.
pub const BATCHES: usize = 31;

/// The 20th percentile: other threads and interrupts can only lengthen a measurement, so a low value is an undisturbed one. 0 if there are
/// none.
pub fn undisturbed(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 5).copied().unwrap_or(0)
}

/// The cost of reading the clock twice.
pub fn clock_cost() -> u64 {
    let read = |_| {
        let begin = clock::monotonic();
        clock::monotonic() - begin
    };
    undisturbed((0..301).map(read).collect())
}

/// Nanoseconds for one of `calls` calls.
pub fn time_per_call(calls: u64, mut call: impl FnMut()) -> u64 {
    let batch = |_| {
        let begin = clock::monotonic();
        for _ in 0..calls {
            call();
        }
        (clock::monotonic() - begin) / calls
    };
    undisturbed((0..BATCHES).map(batch).collect())
}

/// Keeps the calling thread on one CPU until dropped.
pub struct OnCpu {
    before: Vec<u32>,
}

impl OnCpu {
    pub fn bind(cpu: u32) -> io::Result<Self> {
        let before = scheduling::cpus()?;
        scheduling::set_cpus(Some(&[cpu]), &before)?;
        Ok(Self { before })
    }
}

impl Drop for OnCpu {
    fn drop(&mut self) {
        // Restores the affinity; there is nothing to do about a failure.
        let _ = scheduling::set_cpus(None, &self.before);
    }
}

/// A place to sleep.
#[derive(Debug, Default)]
pub struct Futex(AtomicU32);

impl Futex {
    fn call(&self, operation: i32, value: u32) {
        // SAFETY: the word outlives the call; no timeout is given. The result does not matter: waits check again.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                operation | libc::FUTEX_PRIVATE_FLAG,
                value,
                std::ptr::null::<libc::timespec>(),
            );
        }
    }

    /// Lets one thread continue that waits or will wait.
    pub fn post(&self) {
        self.0.store(1, Ordering::Release);
        self.call(libc::FUTEX_WAKE, 1);
    }

    /// Waits for [`Futex::post`].
    pub fn wait(&self) {
        while self.0.swap(0, Ordering::Acquire) == 0 {
            self.call(libc::FUTEX_WAIT, 0);
        }
    }

    /// Wakes nobody.
    pub fn wake_nobody(&self) {
        self.call(libc::FUTEX_WAKE, 1);
    }

    /// Finds the word changed, so it does not wait.
    pub fn wait_in_vain(&self) {
        self.call(libc::FUTEX_WAIT, self.0.load(Ordering::Relaxed) + 1);
    }
}

/// A thread on a CPU, until this is dropped.
pub struct Helper {
    stop: Arc<AtomicBool>,
    wake: Option<Arc<Futex>>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    /// Starts a thread on `cpu` that repeats `work` until it is told to end; a thread that waits for `wake` is then woken.
    pub fn start(
        cpu: u32,
        policy: Option<Policy>,
        wake: Option<Arc<Futex>>,
        mut work: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let all = scheduling::cpus()?;
        let thread = std::thread::Builder::new().name("calibrate".to_owned()).spawn(move || {
            // A thread on another CPU only makes a figure wrong.
            let _ = scheduling::set_cpus(Some(&[cpu]), &all);
            if let Some(policy) = policy {
                let _ = scheduling::set_policy(&policy);
            }
            while !stopped.load(Ordering::Relaxed) {
                work();
            }
        })?;
        Ok(Self { stop, wake, thread: Some(thread) })
    }

    /// A thread that keeps `cpu` busy and yields to every other.
    pub fn spinner(cpu: u32) -> io::Result<Self> {
        Self::start(cpu, Some(Policy::Idle), None, || {
            for _ in 0..1000 {
                std::hint::spin_loop();
            }
        })
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(wake) = &self.wake {
            wake.post();
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Lets other threads run for a while.
pub fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}
