//! The clocks that are read, in nanoseconds.

use nix::time::{ClockId, clock_gettime};

/// Time since boot without the time asleep, `CLOCK_MONOTONIC`. The kernel's records carry the same time.
#[must_use]
pub fn monotonic() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Time since boot with the time asleep, `CLOCK_BOOTTIME`. The kernel tells by it when a process began.
#[must_use]
pub fn since_boot() -> u64 {
    read(ClockId::CLOCK_BOOTTIME)
}

/// CPU time of the calling thread.
#[must_use]
pub fn thread_cpu_time() -> u64 {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock).expect("Linux has these clocks");
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec()) * 1_000_000_000 + part(time.tv_nsec())
}
