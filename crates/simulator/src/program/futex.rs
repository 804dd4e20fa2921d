//! The system call with which the C library's mutexes, conditions, barriers and semaphores wait and wake. Only programs that the scheduler
//! attaches to its events see more of it than its cost.

use fairground_workload::Waiting;

use crate::kernel::Kernel;
use crate::task::TaskRef;
use crate::tracing::Hook;

/// `FUTEX_WAIT`, `FUTEX_WAKE` and `FUTEX_WAIT_BITSET`, private to one process (`FUTEX_PRIVATE_FLAG`).
const WAIT: u64 = 128;
const WAKE: u64 = 128 | 1;
const WAIT_BITSET: u64 = 128 | 9;
/// `FLAGS_SIZE_32`.
const FLAGS: u64 = 2;
/// `FUTEX_BITSET_MATCH_ANY`.
const ANY: u64 = 0xffff_ffff;
/// Value of the word of a contended mutex.
const CONTENDED: u64 = 2;
/// Base address of the words of a workload's objects.
const WORDS: u64 = 0x7f80_0000_0000;

/// The address of the futex that is waited on; `None` if it is not a futex.
fn futex(waiting: Waiting) -> Option<u64> {
    let word = |kind: u64, number: usize| Some(WORDS + (kind << 32) + number as u64 * 4);
    match waiting {
        Waiting::Mutex(mutex) => word(0, mutex),
        Waiting::Condition(condition) => word(1, condition),
        Waiting::Barrier(barrier) => word(2, barrier),
        Waiting::Semaphore(semaphore) => word(3, semaphore),
        _ => None,
    }
}

/// The arguments of `__futex_wait()`.
fn wait_call(waiting: Waiting) -> Option<[u64; 5]> {
    let value = match waiting {
        Waiting::Mutex(_) => CONTENDED,
        _ => 0,
    };
    Some([futex(waiting)?, FLAGS, value, 0, ANY])
}

impl Kernel<'_> {
    /// Whether a program of the scheduler must see the end of such a wait.
    pub(super) fn traces_end_of(&self, waiting: Waiting) -> bool {
        let wanted = self.tracing.wants(Hook::FutexWait) || self.tracing.wants(Hook::SysExitFutex);
        wanted && futex(waiting).is_some()
    }

    /// Traces the wait that the running task is about to begin.
    pub(super) fn trace_futex_wait(&mut self, waiting: Waiting) {
        let Some(call) = wait_call(waiting) else {
            return;
        };
        let operation = match waiting {
            Waiting::Mutex(_) => WAIT,
            _ => WAIT_BITSET,
        };
        self.trace(Hook::SysEnterFutex, &[call[0], operation, call[2], 0, 0, ANY]);
        self.trace(Hook::FutexWait, &call);
    }

    /// Traces the end of the running task's wait.
    pub(super) fn trace_end_of_futex_wait(&mut self, waiting: Waiting) {
        let Some(call) = wait_call(waiting) else {
            return;
        };
        self.trace_return(Hook::FutexWait, &call, 0);
        self.trace(Hook::SysExitFutex, &[0]);
    }

    /// Wakes `waiters`; `most` is the number that the waker asks for.
    pub(super) fn futex_wake(
        &mut self,
        waker: TaskRef,
        waiting: Waiting,
        most: u64,
        waiters: impl IntoIterator<Item = TaskRef>,
    ) {
        let word = futex(waiting).unwrap_or(0);
        let call = [word, FLAGS, most, ANY];
        self.trace(Hook::SysEnterFutex, &[word, WAKE, most, 0, 0, 0]);
        self.trace(Hook::FutexWake, &call);
        let mut woken = 0;
        for waiter in waiters {
            self.wake(waiter, Some(waker), false);
            woken += 1;
        }
        self.trace_return(Hook::FutexWake, &call, woken);
        self.trace(Hook::SysExitFutex, &[woken]);
    }
}
