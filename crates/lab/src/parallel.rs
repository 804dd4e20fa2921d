//! Runs work on all cores.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

use fairground_events::Nanoseconds;
use rustix::time::{ClockId, clock_gettime};

/// CPU time of this thread so far.
pub(crate) fn cpu_time() -> Nanoseconds {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as Nanoseconds * 1_000_000_000 + time.tv_nsec as Nanoseconds
}

/// The results of `work` for the indices in `order`, sorted by index. They are started in this order, at most `threads` at a time; `None` for
/// one per CPU of this machine.
pub(crate) fn map<T: Send>(
    order: &[usize],
    threads: Option<NonZero<usize>>,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let threads = threads
        .or_else(|| std::thread::available_parallelism().ok())
        .map_or(1, |threads| threads.get())
        .min(order.len());
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(order.len()));
    let worker = || {
        while let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = work(index);
            if let Ok(mut results) = results.lock() {
                results.push((index, result));
            }
        }
    };
    std::thread::scope(|scope| {
        let start = |_| Builder::new().spawn_scoped(scope, worker).ok();
        let started = (0..threads).map_while(start).count();
        // The system may allow fewer threads, or none but this one.
        if started == 0 {
            worker();
        }
    });
    // A panic in a thread makes the scope above panic, so the lock cannot be poisoned.
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_indices() {
        for threads in 1..4 {
            let results = map(&[2, 0, 3, 1], NonZero::new(threads), |index| 10 * index);
            assert_eq!(results, [0, 10, 20, 30]);
        }
        assert!(map(&[], None, |index| index).is_empty());
    }

    #[test]
    fn one_thread_begins_in_the_order_given() {
        let begun = Mutex::new(Vec::new());
        map(&[2, 0, 1], NonZero::new(1), |index| begun.lock().unwrap().push(index));
        assert_eq!(begun.into_inner().unwrap(), [2, 0, 1]);
    }
}
