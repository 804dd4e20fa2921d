//! Memory of isolated simulations: the same addresses in every run.
//!
//! A scheduler sees the addresses of tasks and map values, and may print them or sort by them. Memory addresses differ from one process to
//! the next, so an isolated simulation, which has its own process, gets all its memory from a region at a fixed address.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

/// The address of the region: far from where Linux puts programs, libraries, heaps and stacks.
const BASE: usize = 0x2000_0000_0000;
/// Its size: the maximum for an isolated simulation.
const SIZE: usize = 8 << 30;
/// Its least size, where the system allows no more address space.
const LEAST: usize = 256 << 20;
/// Reserved for a crash report, when the rest of the memory cannot be trusted.
const RESERVE: usize = 1 << 20;

/// Sizes up to this are multiples of [`STEP`]; above it there are four per power of two.
const SMALL: usize = 1024;
const STEP: usize = 16;
const CLASSES: usize = SMALL / STEP + 4 * usize::BITS as usize;

/// The program's allocator: the system's, until [`isolate`] is called.
pub struct Allocator;

struct Region {
    next: usize,
    end: usize,
    /// Freed blocks by class; each begins with the address of the next.
    free: [usize; CLASSES],
}

struct Shared(UnsafeCell<Region>);

// SAFETY: used only by the process of an isolated simulation, which has a single thread.
unsafe impl Sync for Shared {}

static ISOLATED: AtomicBool = AtomicBool::new(false);
static REGION: Shared =
    Shared(UnsafeCell::new(Region { next: BASE, end: BASE, free: [0; CLASSES] }));

/// Takes all further memory of this process from the region.
///
/// # Safety
///
/// The process must have one thread and never get another.
pub(crate) unsafe fn isolate() -> io::Result<()> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let mut size = SIZE;
    loop {
        // SAFETY: the flags replace no other mapping.
        let region = unsafe { libc::mmap(BASE as *mut _, size, protection, flags, -1, 0) };
        if region as usize == BASE {
            // SAFETY: see `Shared`.
            unsafe { &mut *REGION.0.get() }.end = BASE + size - RESERVE;
            ISOLATED.store(true, Ordering::Relaxed);
            return Ok(());
        }
        if region != libc::MAP_FAILED {
            return Err(io::Error::other("the system does not map memory at a fixed address"));
        }
        if size == LEAST {
            return Err(io::Error::last_os_error());
        }
        size /= 2;
    }
}

/// Takes all further memory from the reserve: after a crash the rest is in an unknown state. Only an isolated simulation has a reserve;
/// returns whether this is one.
pub(crate) fn use_reserve() -> bool {
    if !ISOLATED.load(Ordering::Relaxed) {
        return false;
    }
    // SAFETY: as for `Shared`; the crash has ended all other use.
    let region = unsafe { &mut *REGION.0.get() };
    *region = Region { next: region.end, end: region.end + RESERVE, free: [0; CLASSES] };
    true
}

/// The class for blocks of at least `size` bytes, and their size.
fn class_of(size: usize) -> (usize, usize) {
    let size = size.max(1);
    if size <= SMALL {
        let number = size.div_ceil(STEP);
        return (number, number * STEP);
    }
    let power = (size - 1).ilog2();
    let quarter = 1usize << (power - 2);
    let rounded = size.next_multiple_of(quarter);
    let place = (rounded - (1 << power)) / quarter;
    (SMALL / STEP + 4 * (power as usize - 10) + place, rounded)
}

impl Region {
    /// A block, and whether it has never been used and is therefore zeroed.
    fn take(&mut self, layout: Layout) -> (*mut u8, bool) {
        let (class, size) = class_of(layout.size());
        let block = self.free[class];
        if block != 0 && block.is_multiple_of(layout.align()) {
            // SAFETY: a freed block holds the address of the next.
            self.free[class] = unsafe { *(block as *const usize) };
            return (block as *mut u8, false);
        }
        let start = self.next.next_multiple_of(layout.align());
        match start.checked_add(size).filter(|end| *end <= self.end) {
            Some(end) => {
                self.next = end;
                (start as *mut u8, true)
            }
            None => (null_mut(), false),
        }
    }

    fn give_back(&mut self, block: *mut u8, layout: Layout) {
        let (class, _) = class_of(layout.size());
        // SAFETY: the block is at least a word long and no longer in use.
        unsafe { *block.cast::<usize>() = self.free[class] };
        self.free[class] = block as usize;
    }
}

// SAFETY: blocks have the requested size and alignment, and are used for nothing else until they are freed.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !ISOLATED.load(Ordering::Relaxed) {
            // SAFETY: guaranteed by our caller.
            return unsafe { System.alloc(layout) };
        }
        // SAFETY: see `Shared`.
        unsafe { &mut *REGION.0.get() }.take(layout).0
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !ISOLATED.load(Ordering::Relaxed) {
            // SAFETY: guaranteed by our caller.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: see `Shared`.
        let (block, is_zero) = unsafe { &mut *REGION.0.get() }.take(layout);
        if !is_zero && !block.is_null() {
            // SAFETY: the block has the requested size.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if (BASE..BASE + SIZE).contains(&(block as usize)) {
            // SAFETY: see `Shared`; only isolated simulations have such blocks.
            unsafe { &mut *REGION.0.get() }.give_back(block, layout);
        } else {
            // SAFETY: guaranteed by our caller: a block that is not from the region is from the system.
            unsafe { System.dealloc(block, layout) };
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !ISOLATED.load(Ordering::Relaxed) {
            // SAFETY: guaranteed by our caller.
            return unsafe { System.realloc(block, layout, size) };
        }
        // SAFETY: guaranteed by our caller, and both blocks are at least as long as the copied part.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(block, size.min(layout.size()));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_apart_and_large_enough() {
        let mut last = (0, 0);
        for size in (0..5000).chain((5000..1 << 22).step_by(333)) {
            let (class, rounded) = class_of(size);
            assert!(rounded >= size && rounded.is_multiple_of(STEP), "{size}");
            assert!(rounded <= size + size / 4 + STEP, "{size}: {rounded}");
            assert!((class == last.0) == (rounded == last.1), "{size}");
            assert!(class >= last.0 && class < CLASSES, "{size}");
            last = (class, rounded);
        }
        assert!(class_of(isize::MAX as usize).0 < CLASSES);
    }
}
