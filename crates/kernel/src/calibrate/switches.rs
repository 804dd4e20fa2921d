//! Two threads that wake one another on one CPU.

use std::io;
use std::sync::Arc;

use fairground_workload::Policy;
use nix::unistd::gettid;

use super::Basis;
use super::threads::{BATCHES, Futex, Helper, clock_cost, time_per_call, undisturbed};
use crate::capture::Capture;
use crate::recorder::Recorder;
use crate::{Error, clock, scheduling};

/// Round trips in a batch; few, so that most batches contain no tick.
const ROUNDS: u64 = 30;

/// Woken threads of this policy do not preempt, so a wake-up is complete before the switch begins.
const PATIENT: Policy = Policy::Batch { nice: 0, slice: None };

/// Two threads that wake one another, as seen by one of them.
struct Pair {
    there: Arc<Futex>,
    back: Arc<Futex>,
    _partner: Helper,
}

impl Pair {
    fn start(cpu: u32) -> io::Result<Self> {
        let (there, back) = (Arc::new(Futex::default()), Arc::new(Futex::default()));
        let (own, other) = (Arc::clone(&there), Arc::clone(&back));
        let wake = Some(Arc::clone(&there));
        let partner = Helper::start(cpu, Some(PATIENT), wake, move || {
            own.wait();
            other.post();
        })?;
        let pair = Self { there, back, _partner: partner };
        // In the first rounds the partner may still be starting.
        for _ in 0..ROUNDS {
            pair.round();
        }
        Ok(pair)
    }

    fn round(&self) {
        self.there.post();
        self.back.wait();
    }

    /// Nanoseconds from one thread to the other: a futex wake, a futex wait, and the switch.
    fn handoff(&self) -> u64 {
        let batch = |_| {
            let begin = clock::monotonic();
            for _ in 0..ROUNDS {
                self.round();
            }
            (clock::monotonic() - begin) / (2 * ROUNDS)
        };
        undisturbed((0..3 * BATCHES).map(batch).collect())
    }

    /// Nanoseconds of a futex wake.
    fn wake(&self) -> u64 {
        let one = |_| {
            let begin = clock::monotonic();
            self.there.post();
            let end = clock::monotonic();
            self.back.wait();
            end - begin
        };
        let calls = (0..3 * BATCHES as u64 * ROUNDS).map(one).collect();
        undisturbed(calls).saturating_sub(clock_cost())
    }
}

/// Runs `measure` with a pair of threads on `cpu`, from a new thread, which is one of the two.
fn with_pair<T: Send>(cpu: u32, measure: impl FnOnce(&Pair) -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            scheduling::set_policy(&PATIENT)?;
            Ok(measure(&Pair::start(cpu)?))
        });
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the measuring thread panicked")))
    })
}

/// Nanoseconds for a handoff: a futex wake, a futex wait, and the switch.
pub fn handoff(cpu: u32) -> io::Result<u64> {
    with_pair(cpu, Pair::handoff)
}

/// The same while the `wanted` programs of a recorder follow both threads.
pub fn recorded_handoff(cpu: u32, wanted: fn(&str) -> bool) -> Result<u64, Error> {
    let recorder = Recorder::start_programs((), true, cpu + 1, wanted)?;
    let tracker = recorder.tracker()?;
    let measured = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // Children of recorded threads are recorded too.
            tracker.track(gettid().as_raw().cast_unsigned(), None)?;
            handoff(cpu).map_err(Error::system("cannot measure"))
        });
        thread.join().expect("the measuring thread does not panic")
    });
    recorder.finish()?;
    measured
}

/// The same while the `wanted` programs of `fairground record` are attached.
pub fn captured_handoff(cpu: u32, wanted: fn(&str) -> bool) -> Result<u64, Error> {
    let capture = Capture::start_programs(wanted)?;
    let measured = handoff(cpu).map_err(Error::system("cannot measure"));
    capture.finish()?;
    measured
}

/// The cost of a futex call, of a wake-up beyond it, and of a switch.
pub fn basis(cpu: u32) -> io::Result<Basis> {
    let futex = Futex::default();
    let empty_wake = time_per_call(500, || futex.wake_nobody());
    let empty_wait = time_per_call(500, || futex.wait_in_vain());
    let (wake, handoff) = with_pair(cpu, |pair| (pair.wake(), pair.handoff()))?;
    let wakeup = wake.saturating_sub(empty_wake);
    Ok(Basis {
        empty_wake,
        empty_wait,
        wakeup,
        switch: handoff.saturating_sub(wakeup + empty_wake + empty_wait),
    })
}
