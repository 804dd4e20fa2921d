//! What compiled code is called with.

use std::ffi::c_void;

/// The state of one simulation, passed to every compiled function and from
/// there to every helper and kernel function.
///
/// Compiled code reads and writes it by offset, so it must not move while code
/// runs, and its first fields may not be reordered.
#[repr(C)]
#[derive(Debug)]
pub struct Context {
    /// Of the caller; compiled code only passes it on.
    pub kernel: *mut c_void,
    /// BPF instructions executed so far; compiled code adds to it.
    pub instructions: u64,
    /// When a loop goes on although `instructions` is above this,
    /// [`crate::Linker::runaway`] is called, and all compiled functions that
    /// are running return 0. The limit is 0 from then on: set it again before
    /// the next call.
    pub instruction_limit: u64,
    /// Start of the arena as compiled code accesses it: its kernel form.
    pub arena: *mut u8,
    /// Start of the arena as it is stored in memory: its user form. The lower
    /// 32 bits are 0.
    pub arena_user: u64,
    /// Maps and sections of global variables, in the order of
    /// [`crate::Object::slots`].
    pub slots: *const *mut u8,
}

/// A compiled function. Programs get a pointer to an array of 64-bit
/// arguments as `r1`; callbacks and subprograms get up to five arguments.
///
/// Helpers and kernel functions have this signature too; all five arguments
/// are always passed, whatever they declare.
pub type Entry =
    unsafe extern "C" fn(context: *mut Context, r1: u64, r2: u64, r3: u64, r4: u64, r5: u64) -> u64;
