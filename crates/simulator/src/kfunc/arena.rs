//! Arenas: sparse memory that a scheduler lays out itself.

use memmap2::{MmapMut, MmapOptions};
use region::Protection;

use super::kernel_functions;
use crate::lockstep::Companion;
use crate::strays;

/// Size of the window that an arena address can reach.
const WINDOW: usize = 1 << 32;
/// Size of a page.
pub const PAGE: usize = 4096;
/// Where schedulers see the arena unless a loader maps it elsewhere.
const USER_BASE: u64 = 0x7f00_0000_0000;

/// Sets the protection of pages of the arena. If the system refuses for lack of memory, they all stay accessible.
pub fn protect(start: *const u8, length: usize, protection: Protection) {
    // SAFETY: the pages belong to an arena, which contains nothing of the simulator's own.
    let _ = unsafe { region::protect(start, length, protection) };
}

/// The memory of the one arena that a scheduler can have.
pub struct Arena {
    memory: MmapMut,
    /// Its address as schedulers see it; only the upper half matters.
    user: u64,
    /// Number of pages that the map may hold.
    pages: usize,
    used: Vec<bool>,
}

impl Arena {
    /// An empty arena of `pages` pages, or the reason why there is no memory for it.
    pub fn new(pages: usize) -> Result<Arena, String> {
        // A guard area beyond the window keeps accesses with an offset inside the mapping.
        let memory = MmapOptions::new()
            .len(WINDOW + (1 << 16))
            .no_reserve_swap()
            .map_anon()
            .map_err(|error| format!("no memory for the scheduler's arena: {error}"))?;
        // Pages that were never allocated are inaccessible: an access faults and is reported.
        protect(memory.as_ptr(), memory.len(), Protection::NONE);
        let start = memory.as_ptr() as usize;
        strays::watch(start..start + memory.len());
        let pages = pages.min(WINDOW / PAGE);
        Ok(Arena {
            memory,
            user: USER_BASE,
            pages,
            used: vec![false; pages],
        })
    }

    /// Shares its memory with the loader, if the loader has an arena.
    pub fn share(&mut self, companion: &mut Companion) {
        let size = self.pages * PAGE;
        if let Some(user) = companion.arena(self.base(), size) {
            self.user = user;
            protect(self.memory.as_ptr(), size, Protection::NONE);
        }
    }

    /// The address at which schedulers see the byte at `offset`.
    pub fn user(&self, offset: usize) -> u64 {
        self.user + offset as u64
    }

    /// Address of its first byte.
    pub fn base(&mut self) -> *mut u8 {
        self.memory.as_mut_ptr()
    }

    /// The `length` bytes to which `pointer`, in its kernel or user form, points, if all of them are allocated.
    pub fn memory(&mut self, pointer: u64, length: usize) -> Option<&mut [u8]> {
        let inside = pointer.wrapping_sub(self.base() as u64);
        let offset = if inside < WINDOW as u64 {
            inside as usize
        } else {
            (pointer & 0xffff_ffff) as usize
        };
        let end = offset.checked_add(length)?;
        let pages = self.used.get(offset / PAGE..end.div_ceil(PAGE))?;
        pages
            .iter()
            .all(|used| *used)
            .then(|| &mut self.memory[offset..end])
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
        let start = self.memory[first * PAGE..].as_ptr();
        protect(start, count * PAGE, Protection::READ_WRITE);
        let pages = start as usize..start as usize + count * PAGE;
        for (page, _) in strays::found() {
            if pages.contains(&page) {
                let offset = page - self.base() as usize;
                self.memory[offset..offset + PAGE].fill(0);
            }
        }
        Some(first)
    }

    /// Accesses to pages that were not allocated: the address as schedulers see it, and the first instruction that touched the page.
    pub fn strays(&mut self) -> Vec<(u64, usize)> {
        let base = self.base() as usize;
        let strays = strays::found().into_iter();
        strays
            .map(|(page, instruction)| (self.user(page - base), instruction))
            .collect()
    }

    /// Frees `count` pages from `first` on; they read as zeros when allocated again.
    pub fn free(&mut self, first: usize, count: usize) {
        let last = (first + count).min(self.pages);
        for page in first..last {
            if std::mem::take(&mut self.used[page]) {
                let memory = &mut self.memory[page * PAGE..(page + 1) * PAGE];
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
        let memory = &mut self.memory[first * PAGE..][..data.len()];
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
