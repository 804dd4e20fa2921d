//! Work: CPU time used up, memory touched, bytes written.

use std::fs::File;
use std::hint::black_box;
use std::io::Write as _;

use super::resources::Over;
use crate::clock;

/// CPU time between two readings of the clock, nanoseconds. A reading costs some hundred nanoseconds, which count as work.
const PIECE: i64 = 50_000;

/// Size of the buffer for memory events, rt-app's default.
const BUFFER_SIZE: usize = 4 << 20;

/// Bytes between two accesses of a walk through memory: a cache line.
const STRIDE: usize = 64;

/// Does the work of one thread.
#[derive(Debug)]
pub struct Work {
    /// Iterations of the busy loop that recently took a microsecond.
    rounds_per_microsecond: i64,
    /// CPU time still to be used; negative if the last work took too long, so that errors do not add up.
    owed: i64,
    buffer: Vec<u8>,
    device: Option<File>,
}

impl Default for Work {
    fn default() -> Self {
        Self { rounds_per_microsecond: 100, owed: 0, buffer: Vec::new(), device: None }
    }
}

impl Work {
    /// Uses `nanoseconds` of the thread's CPU time, however long that takes. Returns early when the run is over.
    pub fn run(&mut self, nanoseconds: u64, over: &Over) {
        self.owed += i64::try_from(nanoseconds).unwrap_or(i64::MAX / 2);
        let mut last = clock::thread_cpu_time();
        while self.owed > 0 && !over.is_set() {
            let rounds = (self.owed.min(PIECE) * self.rounds_per_microsecond / 1000).max(1);
            spin(rounds);
            let now = clock::thread_cpu_time();
            let used = i64::try_from(now - last).unwrap_or(0);
            last = now;
            self.owed -= used;
            // Short pieces say more about the clock than about the loop.
            if used > PIECE / 10 {
                let measured = (rounds * 1000 / used).max(1);
                self.rounds_per_microsecond = (3 * self.rounds_per_microsecond + measured) / 4;
            }
        }
    }

    /// Keeps busy until `nanoseconds` of wall time have passed. Returns early when the run is over.
    pub fn run_for(&mut self, nanoseconds: u64, over: &Over) {
        let end = clock::monotonic() + nanoseconds;
        while clock::monotonic() < end && !over.is_set() {
            spin(self.rounds_per_microsecond.max(1));
        }
    }

    /// Writes to `bytes` bytes of memory, cycling through the buffer.
    pub fn touch(&mut self, bytes: u64) {
        let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.allocate();
        while left > 0 {
            let piece = left.min(self.buffer.len());
            self.buffer[..piece].fill(black_box(1));
            black_box(&mut self.buffer);
            left -= piece;
        }
    }

    /// Reads `accesses` places in a buffer of `size` bytes, a cache line apart. Returns early when the run is over.
    pub fn walk(&mut self, accesses: u64, size: u64, over: &Over) {
        let size = usize::try_from(size).unwrap_or(usize::MAX).clamp(1, 1 << 30);
        if self.buffer.len() < size {
            self.buffer.resize(size, 0);
        }
        let mut place = 0;
        for access in 0..accesses {
            black_box(self.buffer[place]);
            place += STRIDE;
            if place >= size {
                place = 0;
            }
            if access % 65536 == 0 && over.is_set() {
                return;
            }
        }
    }

    /// Writes `bytes` bytes to /dev/null.
    pub fn write(&mut self, bytes: u64) -> std::io::Result<()> {
        let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.allocate();
        let device = match &mut self.device {
            Some(device) => device,
            none => none.insert(File::create("/dev/null")?),
        };
        while left > 0 {
            let piece = left.min(BUFFER_SIZE);
            device.write_all(&self.buffer[..piece])?;
            left -= piece;
        }
        Ok(())
    }

    /// A buffer of this many bytes.
    pub fn buffer(&mut self, bytes: u64) -> &mut [u8] {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
        &mut self.buffer[..bytes]
    }

    fn allocate(&mut self) {
        if self.buffer.len() < BUFFER_SIZE {
            self.buffer.resize(BUFFER_SIZE, 0);
        }
    }
}

/// Keeps the CPU busy without touching memory: a random number generator (xorshift), which no compiler can shorten.
fn spin(rounds: i64) {
    let mut value = 1_u64;
    for _ in 0..rounds {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
    }
    black_box(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_measured_in_cpu_time() {
        let (mut work, over) = (Work::default(), Over::default());
        // The first work measures the speed of the loop.
        work.run(1_000_000, &over);
        let (owed, before) = (work.owed, clock::thread_cpu_time());
        for _ in 0..20 {
            work.run(500_000, &over);
        }
        let used = i64::try_from(clock::thread_cpu_time() - before).expect("it is short");
        // It may be more: a virtual machine also counts the time during which it was kept from running.
        assert!(used >= 10_000_000 + owed, "{used} ns, owed {owed}");
    }

    #[test]
    fn what_took_too_long_is_taken_off_the_next_work() {
        let (mut work, over) = (Work::default(), Over::default());
        work.owed = -2_000_000;
        work.run(500_000, &over);
        assert_eq!(work.owed, -1_500_000);
    }

    #[test]
    fn busy_waiting_is_measured_in_wall_time() {
        let (mut work, over) = (Work::default(), Over::default());
        let before = clock::monotonic();
        work.run_for(2_000_000, &over);
        assert!(clock::monotonic() - before >= 2_000_000);
    }

    #[test]
    fn the_end_of_the_run_ends_work() {
        let (mut work, over) = (Work::default(), Over::default());
        over.set();
        work.run(u64::MAX, &over);
        work.run_for(1 << 40, &over);
        work.walk(u64::MAX, 1 << 12, &over);
    }

    #[test]
    fn memory_and_device_take_any_amount() {
        let mut work = Work::default();
        work.touch(10 << 20);
        work.write(5 << 20).expect("/dev/null takes it");
        work.walk(1000, 100, &Over::default());
    }
}
