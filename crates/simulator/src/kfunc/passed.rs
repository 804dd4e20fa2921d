//! The arguments that schedulers pass to functions.
//!
//! Arguments on which this model itself relies are looked up: tasks, maps, functions of the scheduler. Anything else in their place is an error of the
//! scheduler.
//!
//! Plain memory, such as buffers, texts, masks, iterators and locks, is accessed where the scheduler says it is, as its own code would. Whether it
//! is the scheduler's was checked when the object was loaded, as far as the check could follow; where it could not, the scheduler's code is as
//! unchecked, and a scheduler of the user's own runs in a process in which it can harm only its own run.

use std::ops::Range;

use fairground_bpf::Entry;

use crate::constants::ExitKind;
use crate::kernel::Kernel;
use crate::maps::Map;
use crate::structures::{
    CidTopology, CpuMask, DsqIterator, GroupIterator, InsertVtimeArgs, NumberIterator,
    SelectCpuAndArgs,
};
use crate::task::TaskRef;

impl Kernel<'_> {
    /// Ejects the scheduler, which has passed something else in place of a `what`.
    #[cold]
    pub(super) fn refuse_passed(&mut self, what: &str) {
        let message = format!("there is no {what} where one was passed");
        self.fail(ExitKind::Error, message);
    }

    /// The task at `address`, if there is one: mostly the one that a callback is about.
    #[inline(always)]
    pub(crate) fn task_at(&self, address: u64) -> Option<TaskRef> {
        let near = self.calls.direct_dispatch.flatten().unwrap_or(self.here.current);
        if near.address() == address { Some(near) } else { self.tasks.at(address) }
    }

    /// The task at `address`. `None` for NULL, and if there is none, which is an error.
    #[inline]
    pub(super) fn passed_task(&mut self, address: u64) -> Option<TaskRef> {
        let task = self.task_at(address);
        if task.is_none() && address != 0 {
            self.refuse_passed("task_struct");
        }
        task
    }

    /// The map at `address`. `None` if there is none, which is an error.
    #[inline]
    pub(super) fn passed_map(&mut self, address: u64) -> Option<&mut Map> {
        let place = self.memory.maps.find(address);
        if place.is_none() {
            self.refuse_passed("map");
        }
        place.map(|place| &mut self.memory.maps[place])
    }

    /// The scheduler's function at `address`. `None` if there is none, which is an error.
    pub(super) fn passed_function(&mut self, address: u64) -> Option<Entry> {
        let function = self.scheduler.code.entry_at(address as usize);
        if function.is_none() {
            self.refuse_passed("function");
        }
        function
    }
}

/// Where data can be: not in the first page, nor where the addresses of a kernel are.
const DATA: Range<u64> = 4096..1 << 48;

/// Types of which any bytes are a value.
///
/// # Safety
///
/// The type consists of integers and arrays of them.
pub(crate) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($type:ty),*) => { $(
        // SAFETY: it consists of integers and arrays of them.
        unsafe impl Plain for $type {}
    )* };
}
plain!(u8, u32, i32, u64, [u64; 2], CidTopology);
plain!(NumberIterator, GroupIterator, DsqIterator, InsertVtimeArgs, SelectCpuAndArgs);

/// The value at `address`.
pub(crate) fn load<T: Plain>(address: u64) -> T {
    // SAFETY: any bytes are a value. On the address, see the top of this module.
    unsafe { (address as *const T).read_unaligned() }
}

/// Writes a value to `address`.
pub(super) fn store<T: Plain>(address: u64, value: T) {
    // SAFETY: on the address, see the top of this module.
    unsafe { (address as *mut T).write_unaligned(value) };
}

/// Replaces the value at `address`; returns the one before.
pub(super) fn replace<T: Plain>(address: u64, value: T) -> T {
    let before = load(address);
    store(address, value);
    before
}

/// The CPU mask at `address`, the kernel's or the scheduler's own, to be used at once.
pub(super) fn mask<'m>(address: u64) -> &'m mut CpuMask {
    // SAFETY: any bytes are a value. On the address, see the top of this module; the kernel's masks are in cells of their own.
    unsafe { &mut *(address as *mut CpuMask) }
}

/// Copies `size` bytes, which may overlap.
pub(crate) fn copy(source: u64, target: u64, size: usize) {
    // SAFETY: on the addresses, see the top of this module.
    unsafe { std::ptr::copy(source as *const u8, target as *mut u8, size) };
}

/// Pages of memory are at least this large.
pub(super) const PAGE: u64 = 4096;

/// Whether there is memory at the address of a page. The process can make no system call to read it safely, but may have it made present.
pub(super) fn is_memory(page: u64) -> bool {
    // No process has the first page, nor the kernel's half.
    if page == 0 || page >= 1 << 63 {
        return false;
    }
    // SAFETY: this changes no contents, and the system checks the address.
    let result = unsafe {
        libc::madvise(
            std::ptr::without_provenance_mut(page as usize),
            PAGE as usize,
            libc::MADV_POPULATE_READ,
        )
    };
    let error = std::io::Error::last_os_error().raw_os_error();
    // Linux before 5.14 does not know how, and memory under protection may be the arena's.
    result == 0 || !matches!(error, Some(libc::ENOMEM | libc::EFAULT))
}

/// Reads `length` bytes; `None` for addresses that no object can have.
pub(super) fn data(address: u64, length: usize) -> Option<Vec<u8>> {
    let is_possible = DATA.contains(&address) && DATA.contains(&(address + length as u64));
    // SAFETY: on the address, see the top of this module. The bytes are copied before anything else can happen to them.
    is_possible
        .then(|| unsafe { std::slice::from_raw_parts(address as *const u8, length) }.to_vec())
}

/// The same, but empty for such addresses.
pub(crate) fn read_bytes(address: u64, length: usize) -> Vec<u8> {
    data(address, length).unwrap_or_default()
}

/// Writes `bytes` to the `size` bytes at `target`: those that there is room for, and zeros after them.
pub(crate) fn write_bytes(target: u64, size: usize, bytes: &[u8]) {
    if size == 0 {
        return;
    }
    let length = bytes.len().min(size);
    // SAFETY: on the address, see the top of this module. `bytes` are this model's, and not part of the scheduler's memory.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), target as *mut u8, length);
        std::ptr::write_bytes((target as *mut u8).add(length), 0, size - length);
    }
}

/// Writes a text and a zero byte to the `size` bytes at `target`, as much as there is room for. Returns how many bytes that were.
pub(super) fn write_string(target: u64, size: usize, text: &str) -> u64 {
    if size == 0 {
        return 0;
    }
    let length = text.len().min(size - 1);
    write_bytes(target, size, &text.as_bytes()[..length]);
    length as u64 + 1
}

/// Reads a zero-terminated string of at most `limit` bytes.
pub(super) fn read_string(address: u64, limit: usize) -> String {
    let bytes = string_bytes(address, limit).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The bytes of a zero-terminated string, at most `limit`; `None` for addresses that no object can have.
pub(super) fn string_bytes(address: u64, limit: usize) -> Option<Vec<u8>> {
    if !DATA.contains(&address) {
        return None;
    }
    let bytes = (address..).take(limit).map(load::<u8>);
    Some(bytes.take_while(|byte| *byte != 0).collect())
}
