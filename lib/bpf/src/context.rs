//! The context with which compiled code is called.

use std::ffi::c_void;

/// Memory for the stacks of functions that call one another.
#[derive(Debug)]
pub struct Stack(Box<[u128]>);

impl Stack {
    /// Maximum stack of a function, in bytes.
    pub(crate) const LIMIT: u16 = 512;

    /// How deep functions may call one another on any kernel, [`crate::Linker::call_frames`].
    pub(crate) const CALL_DEPTH: usize = 16;

    /// How many calls of compiled functions may be nested, each made by a helper or kernel function that the one before has called. The caller
    /// has to check that; compiled code does not.
    pub const NESTED_CALLS: usize = 16;

    /// Room for as many.
    pub fn new() -> Stack {
        let bytes = Self::NESTED_CALLS * Self::CALL_DEPTH * usize::from(Self::LIMIT);
        Stack(vec![0; bytes / size_of::<u128>()].into())
    }

    /// The address after its end, for [`Context::stack`].
    pub fn top(&mut self) -> *mut u8 {
        self.0.as_mut_ptr_range().end.cast()
    }
}

impl Default for Stack {
    fn default() -> Self {
        Self::new()
    }
}

/// Zeros, for loads of up to 8 bytes at offsets below 4096.
pub type NullPage = [u64; 513];

/// See [`Context::null_page`].
pub static NULL_PAGE: NullPage = [0; 513];

/// The place of the elements of a map that is an array, for code that takes the place of a look-up.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct ArrayHead {
    /// The address of the first element.
    pub elements: u64,
    /// How many elements there are; in an array for each CPU, how many each has.
    pub count: u64,
    /// Bytes from an element to the next.
    pub stride: u64,
    /// Bytes from the elements of a CPU to those of the next; 0 if all share them.
    pub cpu_stride: u64,
}

/// The state of one simulation, passed to every compiled function and from
/// there to every helper and kernel function.
///
/// Compiled code reads and writes it by offset, so it must not move while code
/// runs, and its first fields may not be reordered.
#[repr(C)]
#[derive(Debug)]
pub struct Context {
    /// The caller's; compiled code only passes it on.
    pub kernel: *mut c_void,
    /// BPF instructions executed so far, as compiled code counts them: right whenever it calls a function, and when it returns.
    pub instructions: u64,
    /// If a loop continues although `instructions` is above this, [`crate::Linker::runaway`] is called, and all running compiled functions
    /// return 0. From then on the limit is 0: set it again before the next call.
    pub instruction_limit: u64,
    /// Start of the arena as compiled code accesses it: its kernel form.
    pub arena: *mut u8,
    /// Start of the arena as it is stored in memory: its user form. The lower
    /// 32 bits are 0.
    pub arena_user: u64,
    /// Memory that loads from kernel structures through null pointers read: [`NULL_PAGE`].
    pub null_page: *const NullPage,
    /// Where the stack of the next function begins: the end of a [`Stack`], from which functions take theirs downwards. Separate from the
    /// machine's stack, so that the code's data there has short offsets.
    pub stack: *mut u8,
    /// Maps and sections of global variables, in the order of
    /// [`crate::Object::slots`]. A map that is an array, also one for each CPU, begins with an [`ArrayHead`].
    pub slots: *const *mut u8,
    /// The sizes in bytes of the sections in [`Context::slots`], at the same places.
    pub slot_sizes: *const u64,
    /// The CPU that the code runs on.
    pub cpu: usize,
    /// The number of CPUs.
    pub cpus: usize,
    /// Cost so far of the work that the code is part of, besides that of BPF instructions. Code that takes the place of a call adds to it.
    pub spent: u64,
    /// The cost of a call, unless it costs instructions ([`crate::Native::instructions`]).
    pub call_cost: u64,
    /// Number of accesses through null pointers into the arena so far, which do nothing and load 0, and the place of the last one
    /// ([`crate::Code::place`]).
    pub null_accesses: u64,
    /// See [`Context::null_accesses`].
    pub null_access_place: u64,
}

/// A compiled function. Programs get a pointer to an array of 64-bit
/// arguments as `r1`; callbacks and subprograms get up to five arguments.
///
/// Helpers and kernel functions have this signature too; all five arguments
/// are always passed, also to functions with fewer parameters.
pub type Entry =
    unsafe extern "C" fn(context: *mut Context, r1: u64, r2: u64, r3: u64, r4: u64, r5: u64) -> u64;
