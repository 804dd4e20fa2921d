//! Arenas: sparse memory that a scheduler lays out itself.

use std::io;
use std::ops::Range;

use region::Protection;

use super::kernel_functions;
use crate::beside::LoaderBeside;
use crate::strays;

/// Size of the window that an arena address can reach.
const WINDOW: usize = 1 << 32;
/// Size of a page.
pub const PAGE: usize = 4096;
/// Where schedulers see the arena unless a loader maps it elsewhere.
const USER_BASE: u64 = 0x7f00_0000_0000;
/// Where the memory of the first arena of a process lies: far from where Linux puts anything else.
const KERNEL_BASE: usize = 0x2800_0000_0000;

/// Sets the protection of pages of the arena. If the system refuses for lack of memory, they all stay accessible.
pub fn protect(start: *const u8, length: usize, protection: Protection) {
    // SAFETY: the pages belong to an arena, which contains nothing of the simulator's own.
    let _ = unsafe { region::protect(start, length, protection) };
}

/// Memory that an arena address can reach, inaccessible at first: an access to pages that were never allocated faults and is reported.
struct Window {
    start: *mut u8,
}

impl Window {
    /// A guard area beyond the window keeps accesses with an offset inside the mapping.
    const LENGTH: usize = WINDOW + (1 << 16);

    /// A window with none of the addresses at which schedulers see the arena, from `user` on: a pointer is in one form or the other.
    fn apart_from(user: u64) -> Result<Window, String> {
        let user = user as usize..(user as usize).saturating_add(WINDOW);
        // The system chooses the place if this is not the process's first arena. It does not choose one that is in use.
        let mut unfit = Vec::new();
        loop {
            let window = Window::map()
                .map_err(|error| format!("no memory for the scheduler's arena: {error}"))?;
            let addresses = window.addresses();
            if addresses.end <= user.start || user.end <= addresses.start {
                return Ok(window);
            }
            unfit.push(window);
        }
    }

    fn map() -> io::Result<Window> {
        let place = KERNEL_BASE as *mut libc::c_void;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: without MAP_FIXED this replaces no other mapping.
        let start = unsafe { libc::mmap(place, Window::LENGTH, libc::PROT_NONE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Window { start: start.cast() })
    }

    fn addresses(&self) -> Range<usize> {
        let start = self.start as usize;
        start..start + Window::LENGTH
    }

    /// Bytes of pages that are allocated.
    fn bytes(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= WINDOW);
        // SAFETY: the bytes are part of the mapping and borrowed as long as the window.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the mapping is this window's own.
        unsafe { libc::munmap(self.start.cast(), Window::LENGTH) };
    }
}

/// The memory of the one arena that a scheduler can have.
pub struct Arena {
    window: Window,
    /// Its address as schedulers see it; only the upper half matters.
    user: u64,
    /// Number of pages that the map may hold.
    pages: usize,
    used: Vec<bool>,
}

impl Arena {
    /// An empty arena of `pages` pages, or the reason why there is no memory for it. With a loader that has an arena, its memory is the loader's.
    pub fn new(pages: usize, companion: Option<&mut LoaderBeside>) -> Result<Arena, String> {
        let loaders = companion.and_then(|companion| Some((companion.arena()?, companion)));
        let Some((user, companion)) = loaders else {
            return Arena::at(USER_BASE, pages);
        };
        let mut arena = Arena::at(user, pages)?;
        let size = arena.pages * PAGE;
        if !companion.map_arena(arena.base(), size) {
            return Err("the memory of the loader's arena cannot be shared".into());
        }
        protect(arena.base(), size, Protection::NONE);
        Ok(arena)
    }

    /// An empty arena that schedulers see from the address `user` on.
    fn at(user: u64, pages: usize) -> Result<Arena, String> {
        let window = Window::apart_from(user)?;
        strays::watch(window.addresses());
        let pages = pages.min(WINDOW / PAGE);
        Ok(Arena { window, user, pages, used: vec![false; pages] })
    }

    /// The address at which schedulers see the byte at `offset`.
    pub fn user(&self, offset: usize) -> u64 {
        self.user + offset as u64
    }

    /// Address of its first byte.
    pub fn base(&mut self) -> *mut u8 {
        self.window.start
    }

    /// The `length` bytes to which `pointer`, in its kernel or user form, points, if all of them are allocated.
    pub fn memory(&mut self, pointer: u64, length: usize) -> Option<&mut [u8]> {
        let inside = pointer.wrapping_sub(self.base() as u64);
        let offset =
            if inside < WINDOW as u64 { inside as usize } else { (pointer & 0xffff_ffff) as usize };
        let end = offset.checked_add(length)?;
        let pages = self.used.get(offset / PAGE..end.div_ceil(PAGE))?;
        pages.iter().all(|used| *used).then(|| self.window.bytes(offset..end))
    }

    /// Allocates `count` consecutive pages, at `at` if given; returns the number of the first.
    pub fn allocate(&mut self, at: Option<usize>, count: usize) -> Option<usize> {
        let fits = |arena: &Arena, first: usize| {
            first + count <= arena.pages
                && arena.used[first..first + count].iter().all(|used| !used)
        };
        // Page 0 stays free, so that no object has address 0.
        let first = match at {
            Some(first) => fits(self, first).then_some(first)?,
            None => (1..self.pages).find(|first| fits(self, *first))?,
        };
        self.used[first..first + count].fill(true);
        let start = self.base().wrapping_add(first * PAGE);
        protect(start, count * PAGE, Protection::READ_WRITE);
        let pages = start as usize..start as usize + count * PAGE;
        for (page, _) in strays::found() {
            if pages.contains(&page) {
                let offset = page - self.base() as usize;
                self.window.bytes(offset..offset + PAGE).fill(0);
            }
        }
        Some(first)
    }

    /// Accesses to pages that were not allocated: the address as schedulers see it, and the first instruction that touched the page.
    pub fn strays(&mut self) -> Vec<(u64, usize)> {
        let base = self.base() as usize;
        let strays = strays::found().into_iter();
        strays.map(|(page, instruction)| (self.user(page - base), instruction)).collect()
    }

    /// Frees `count` pages from `first` on; they read as zeros when allocated again.
    pub fn free(&mut self, first: usize, count: usize) {
        let last = (first + count).min(self.pages);
        for page in first..last {
            if std::mem::take(&mut self.used[page]) {
                let memory = self.window.bytes(page * PAGE..(page + 1) * PAGE);
                memory.fill(0);
                protect(memory.as_ptr(), PAGE, Protection::NONE);
            }
        }
    }

    /// Copies initial data to where libbpf places it, at the end, and marks the pages allocated; returns the offset. Data that a loader has put
    /// there is kept.
    pub fn place(&mut self, data: &[u8]) -> Option<usize> {
        let count = data.len().div_ceil(PAGE).max(1);
        let first = self.pages.checked_sub(count)?;
        let first = self.allocate(Some(first), count)?;
        let memory = self.window.bytes(first * PAGE..first * PAGE + data.len());
        if memory.iter().all(|byte| *byte == 0) {
            memory.copy_from_slice(data);
        }
        Some(first * PAGE)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        strays::watch(0..0);
    }
}

kernel_functions! { TABLE;
    fn bpf_arena_alloc_pages(kernel, map, address, count, node, flags) {
        let Some(arena) = &mut kernel.memory.arena else { return 0 };
        let at = (address != 0).then_some((address & 0xffff_ffff) as usize / PAGE);
        match arena.allocate(at, count as u32 as usize) {
            Some(first) => arena.user(first * PAGE),
            None => 0,
        }
    }

    fn bpf_arena_free_pages(kernel, map, address, count) {
        if let Some(arena) = &mut kernel.memory.arena {
            arena.free((address & 0xffff_ffff) as usize / PAGE, count as u32 as usize);
        }
        0
    }

    fn bpf_arena_reserve_pages(kernel, map, address, count) {
        let Some(arena) = &mut kernel.memory.arena else { return super::error(crate::constants::EINVAL) };
        let first = (address & 0xffff_ffff) as usize / PAGE;
        match arena.allocate(Some(first), count as u32 as usize) {
            Some(_) => 0,
            None => super::error(crate::constants::EBUSY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_has_one_form_wherever_the_memory_lies() {
        let likely = Window::map().unwrap();
        let user = likely.addresses().start.next_multiple_of(WINDOW) as u64;
        drop(likely);
        let mut arena = Arena::at(user, 8).unwrap();
        let page = arena.allocate(Some(5), 1).unwrap();
        let written = arena.user(page * PAGE);
        arena.memory(written, 1).unwrap()[0] = 7;
        let kernel = arena.base() as u64 + (page * PAGE) as u64;
        assert_eq!(arena.memory(kernel, 1), Some(&mut [7_u8][..]));
    }
}
