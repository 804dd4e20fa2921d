//! Locks and caches.

use std::hint::{black_box, spin_loop};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::threads::{BATCHES, Helper, OnCpu, time_per_call, undisturbed};
use super::{Calibration, Pairs};
use crate::clock;

/// Working set of a migrating task: a typical second-level cache.
const WORKING_SET: usize = 256 << 10;

/// Bytes in a cache line.
const LINE: usize = 64;

/// Messages in a batch.
const MESSAGES: u64 = 200;

/// A message that waits longer than this, in loop iterations, waits for a CPU and not for a cache line.
const PATIENCE: u64 = 2_000_000;

/// Taking and releasing an uncontended lock.
pub fn lock(result: &mut Calibration) {
    let lock = AtomicBool::new(false);
    let ns = time_per_call(10_000, || {
        black_box(lock.swap(true, Ordering::Acquire));
        lock.store(false, Ordering::Release);
    });
    result.add("lock", ns, "fairground calibrate: an uncontended spin lock in user space");
}

/// Nanoseconds for a cache line from one CPU to another: half a round trip. `None` if the CPUs do not run at the same time.
fn transfer(from: u32, to: u32) -> io::Result<Option<u64>> {
    let bound = OnCpu::bind(from)?;
    let word = Arc::new(AtomicU64::new(0));
    let partner = {
        let word = Arc::clone(&word);
        Helper::start(to, None, None, move || {
            let seen = word.load(Ordering::Acquire);
            if seen % 2 == 1 {
                word.store(seen + 1, Ordering::Release);
            } else {
                spin_loop();
            }
        })?
    };
    let mut batches = Vec::new();
    let mut next = 0;
    for _ in 0..BATCHES {
        let begin = clock::monotonic();
        for _ in 0..MESSAGES {
            word.store(next + 1, Ordering::Release);
            let mut turns = 0;
            while word.load(Ordering::Acquire) != next + 2 {
                spin_loop();
                turns += 1;
                if turns > PATIENCE {
                    return Ok(None);
                }
            }
            next += 2;
        }
        batches.push((clock::monotonic() - begin) / (2 * MESSAGES));
    }
    drop((partner, bound));
    Ok(Some(undisturbed(batches)))
}

fn walk(memory: &mut [u8]) -> u64 {
    let begin = clock::monotonic();
    for line in memory.chunks_mut(LINE) {
        line[0] = line[0].wrapping_add(1);
    }
    black_box(&mut *memory);
    clock::monotonic() - begin
}

/// How much longer a walk through a working set takes on a CPU that has not cached it.
fn refill(from: u32, to: u32) -> io::Result<u64> {
    let mut memory = vec![0_u8; WORKING_SET];
    let mut differences = Vec::new();
    for _ in 0..BATCHES {
        let there = OnCpu::bind(from)?;
        for _ in 0..4 {
            walk(&mut memory);
        }
        drop(there);
        let here = OnCpu::bind(to)?;
        let first = walk(&mut memory);
        let warm = (0..3).map(|_| walk(&mut memory)).min().unwrap_or(first);
        drop(here);
        differences.push(first.saturating_sub(warm));
    }
    Ok(undisturbed(differences))
}

pub fn measure_by_distance(result: &mut Calibration, pairs: &Pairs) -> io::Result<()> {
    let (mut transfers, mut refills) = ([None; 4], [None; 4]);
    for (place, pair) in pairs.iter().enumerate() {
        let Some((from, to)) = *pair else { continue };
        transfers[place] = transfer(from, to)?;
        refills[place] = Some(refill(from, to)?);
    }
    result.add_by_distance(
        "lock_transfer",
        transfers,
        "fairground calibrate: half a round trip of a cache line between two spinning threads",
    );
    result.add_by_distance(
        "migration",
        refills,
        "fairground calibrate: first walk through 256 KiB that another CPU wrote, less the next ones",
    );
    Ok(())
}
