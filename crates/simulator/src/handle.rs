//! Parts of a simulation that stay where they are, and handles to them.

use std::ops::{Deref, DerefMut, Index, IndexMut};
use std::ptr::NonNull;

/// A handle to a task, a CPU or a dispatch queue of one simulation.
///
/// These live as long as their simulation, at a fixed address, and a simulation runs on one thread; compiled scheduler
/// code holds the same addresses. References made here must therefore be short: no reference is held across a
/// call into the scheduler.
pub struct Handle<T>(NonNull<T>);

impl<T> Handle<T> {
    /// The address by which schedulers know it.
    pub fn address(self) -> u64 {
        self.0.as_ptr() as u64
    }

    /// The thing at an address.
    ///
    /// # Safety
    ///
    /// The address is null, or that of something in a [`Stock`] of this simulation.
    pub unsafe fn at(address: *mut T) -> Option<Handle<T>> {
        NonNull::new(address).map(Handle)
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Handle<T> {}

impl<T> Deref for Handle<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: see the type's documentation.
        unsafe { self.0.as_ref() }
    }
}

impl<T> DerefMut for Handle<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: see the type's documentation.
        unsafe { self.0.as_mut() }
    }
}

/// Everything of one kind in a simulation, in order of creation. Nothing is removed before the end.
pub struct Stock<T>(Vec<Handle<T>>);

impl<T> Stock<T> {
    /// Moves a thing to the heap, where it stays.
    pub fn add(&mut self, thing: T) -> Handle<T> {
        let handle = Handle(NonNull::from(Box::leak(Box::new(thing))));
        self.0.push(handle);
        handle
    }

    /// Handles of all.
    pub fn handles(&self) -> &[Handle<T>] {
        &self.0
    }

    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl<T> Default for Stock<T> {
    fn default() -> Self {
        Stock(Vec::new())
    }
}

impl<T> Index<usize> for Stock<T> {
    type Output = T;
    #[inline(always)]
    fn index(&self, place: usize) -> &T {
        &self.0[place]
    }
}

impl<T> IndexMut<usize> for Stock<T> {
    #[inline(always)]
    fn index_mut(&mut self, place: usize) -> &mut T {
        &mut self.0[place]
    }
}

impl<T> Drop for Stock<T> {
    fn drop(&mut self) {
        for handle in &self.0 {
            // SAFETY: `add` allocated it, and only this frees it. The kernel that has this and all handles ends with it, and so does the
            // scheduler's code.
            drop(unsafe { Box::from_raw(handle.0.as_ptr()) });
        }
    }
}
