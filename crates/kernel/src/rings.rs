//! The rings to which each CPU writes its entries, in memory shared with the kernel: `struct ring` and `struct entry` of `bpf/recording.h`.

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::{MapHandle, OpenMapMut};
use memmap2::{MmapOptions, MmapRaw};

use crate::Error;
use crate::recorder::{Program, ends, failed};

/// Bytes of a `struct ring`, and of a `struct entry`.
const HEAD: usize = 64;
const ENTRY: usize = 40;
/// Entries of all rings together, and the minimum for each: a second of a CPU that does nothing but wake tasks.
const ALL: u32 = 1 << 20;
const LEAST: u32 = 1 << 15;

/// The beginning of a ring.
#[repr(C)]
struct Head {
    written: AtomicU64,
    taken: AtomicU64,
    lost: AtomicU64,
    of_the_kernel: [u64; 5],
}

/// Entries of each CPU's ring, on a machine of this many CPUs.
fn room(cpus: u32) -> u32 {
    (ALL / cpus.max(1).next_power_of_two()).max(LEAST)
}

/// Sizes a map of the program that is being loaded for this machine.
pub(crate) fn prepare(map: &mut OpenMapMut<'_>, cpus: u32) -> libbpf_rs::Result<()> {
    if ends(map.name(), ".rodata")
        && let Some(constants) = map.initial_value_mut()
    {
        // `room` is the program's only constant.
        constants[..4].copy_from_slice(&room(cpus).to_ne_bytes());
    }
    if map.name() == "rings" {
        map.set_max_entries(cpus)?;
    }
    if map.name() == "entries" {
        map.set_max_entries(cpus * room(cpus))?;
    }
    Ok(())
}

/// The rings of all CPUs.
pub(crate) struct Rings {
    heads: MmapRaw,
    entries: MmapRaw,
    cpus: usize,
    room: usize,
}

impl Rings {
    /// The rings of a program that [`prepare`] has sized for this many CPUs.
    pub fn of(program: &Program, cpus: u32) -> Result<Self, Error> {
        let (cpus, room) = (cpus as usize, room(cpus) as usize);
        Ok(Self {
            heads: shared(&program.map("rings")?, cpus * HEAD)?,
            entries: shared(&program.map("entries")?, cpus * room * ENTRY)?,
            cpus,
            room,
        })
    }

    fn heads(&self) -> &[Head] {
        debug_assert_eq!(size_of::<Head>(), HEAD);
        // SAFETY: the memory holds this many of them, page-aligned, and everything read here that changes is atomic.
        unsafe { std::slice::from_raw_parts(self.heads.as_ptr().cast(), self.cpus) }
    }

    /// Whether a ring is a quarter full.
    pub fn fill(&self) -> bool {
        let waiting =
            |head: &Head| head.written.load(Ordering::Acquire) - head.taken.load(Ordering::Relaxed);
        self.heads().iter().any(|head| waiting(head) >= self.room as u64 / 4)
    }

    /// Moves all entries to `to`, as bytes, one CPU after the other.
    pub fn take(&self, to: &mut Vec<u8>) {
        for (cpu, head) in self.heads().iter().enumerate() {
            let written = head.written.load(Ordering::Acquire);
            let mut taken = head.taken.load(Ordering::Relaxed);
            while taken < written {
                let place = taken as usize % self.room;
                let count = (self.room - place).min((written - taken) as usize);
                let start = (cpu * self.room + place) * ENTRY;
                // SAFETY: the entries are in the memory of this CPU's ring, and the kernel does not overwrite them until they are taken.
                to.extend_from_slice(unsafe {
                    std::slice::from_raw_parts(self.entries.as_ptr().add(start), count * ENTRY)
                });
                taken += count as u64;
            }
            head.taken.store(taken, Ordering::Release);
        }
    }

    /// Number of entries lost for lack of room.
    pub fn lost(&self) -> u64 {
        let lost = |head: &Head| head.lost.load(Ordering::Relaxed);
        self.heads().iter().map(lost).sum()
    }
}

/// The memory of a map.
fn shared(map: &MapHandle, length: usize) -> Result<MmapRaw, Error> {
    MmapOptions::new()
        .len(length)
        .map_raw(&map.as_fd())
        .map_err(|error| failed(&format!("its memory cannot be mapped: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_has_room() {
        assert_eq!(room(1), ALL);
        assert_eq!(room(3), ALL / 4);
        assert_eq!(room(1000), LEAST);
    }

    #[test]
    fn entries_are_taken_once_and_in_order() {
        let map = |length| MmapRaw::from(memmap2::MmapMut::map_anon(length).expect("memory"));
        let rings = Rings { heads: map(2 * HEAD), entries: map(2 * 4 * ENTRY), cpus: 2, room: 4 };
        let write = |cpu: usize, number: u64, value: u8| {
            let place = (cpu * 4 + number as usize % 4) * ENTRY;
            // SAFETY: the place is inside the memory.
            unsafe { rings.entries.as_mut_ptr().add(place).write_bytes(value, ENTRY) };
            rings.heads()[cpu].written.store(number + 1, Ordering::Release);
        };
        let take = || {
            let mut bytes = Vec::new();
            rings.take(&mut bytes);
            let entries: Vec<u8> = bytes.chunks(ENTRY).map(|entry| entry[0]).collect();
            assert!(bytes.chunks(ENTRY).all(|entry| entry == [entry[0]; ENTRY]));
            entries
        };
        assert!(!rings.fill());
        assert!(take().is_empty());
        for number in 0..3 {
            write(0, number, number as u8 + 1);
        }
        write(1, 0, 9);
        assert!(rings.fill());
        assert_eq!(take(), [1, 2, 3, 9]);
        assert!(take().is_empty());
        // Wraps around the end.
        for number in 3..6 {
            write(0, number, number as u8 + 1);
        }
        assert_eq!(take(), [4, 5, 6]);
    }
}
