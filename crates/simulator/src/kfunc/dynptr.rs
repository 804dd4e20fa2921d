//! Dynamic pointers (`struct bpf_dynptr`): memory with an offset, a size, and whether it may be written, all known only at run time.

use super::passed::{Plain, copy, load, store, write_bytes};
use super::{error, kernel_functions};
use crate::constants::*;
use crate::maps::Store;

/// A dynamic pointer as the kernel lays it out (`struct bpf_dynptr_kern`). Without an address it is null.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Dynptr {
    address: u64,
    /// How many bytes can be accessed, with [`READ_ONLY`].
    size: u32,
    /// Where they begin, from the address.
    offset: u32,
}

// SAFETY: it consists of integers.
unsafe impl Plain for Dynptr {}

/// Bit of the size that says that the memory may only be read.
const READ_ONLY: u32 = 1 << 31;
/// Largest size (`DYNPTR_MAX_SIZE`).
const LARGEST: u64 = (1 << 24) - 1;

impl Dynptr {
    fn size(self) -> u64 {
        u64::from(self.size & !READ_ONLY)
    }

    fn is_null(self) -> bool {
        self.address == 0
    }

    fn is_read_only(self) -> bool {
        self.size & READ_ONLY != 0
    }

    /// The address of `length` bytes at `offset`.
    fn place(self, offset: u64, length: u64) -> Result<u64, i64> {
        if self.is_null() {
            return Err(EINVAL);
        }
        let (offset, length) = (offset & 0xffff_ffff, length & 0xffff_ffff);
        if offset + length > self.size() {
            return Err(E2BIG);
        }
        Ok(self.address + u64::from(self.offset) + offset)
    }

    /// The same for bytes that are to be written.
    fn place_to_write(self, offset: u64, length: u64) -> Result<u64, i64> {
        if self.is_read_only() {
            return Err(EINVAL);
        }
        self.place(offset, length)
    }

    /// The part from `start` to `end`.
    fn part(self, start: u64, end: u64) -> Result<Dynptr, i64> {
        let (start, end) = (start & 0xffff_ffff, end & 0xffff_ffff);
        if self.is_null() || start > end {
            return Err(EINVAL);
        }
        if end > self.size() {
            return Err(ERANGE);
        }
        Ok(Dynptr {
            size: (end - start) as u32 | self.size & READ_ONLY,
            offset: self.offset + start as u32,
            ..self
        })
    }
}

fn status(outcome: Result<(), i64>) -> u64 {
    outcome.map_or_else(error, |()| 0)
}

kernel_functions! { HELPERS;
    fn bpf_dynptr_from_mem(kernel, data, size, flags, place) {
        let size = u64::from(size as u32);
        let outcome = match () {
            () if size > LARGEST => Err(E2BIG),
            () if flags != 0 => Err(EINVAL),
            () => Ok(Dynptr { address: data, size: size as u32, offset: 0 }),
        };
        store(place, outcome.unwrap_or_default());
        status(outcome.map(|_| ()))
    }

    fn bpf_dynptr_read(kernel, target, length, source, offset, flags) {
        let place = load::<Dynptr>(source).place(offset, length);
        let place = if flags == 0 { place } else { Err(EINVAL) };
        status(place.map(|place| copy(place, target, length as u32 as usize)))
    }

    fn bpf_dynptr_write(kernel, target, offset, source, length, flags) {
        let place = load::<Dynptr>(target).place_to_write(offset, length);
        let place = if flags == 0 { place } else { Err(EINVAL) };
        status(place.map(|place| copy(source, place, length as u32 as usize)))
    }

    fn bpf_dynptr_data(kernel, pointer, offset, length) {
        load::<Dynptr>(pointer).place_to_write(offset, length).unwrap_or(0)
    }

    fn bpf_ringbuf_reserve_dynptr(kernel, address, size, flags, place) {
        store(place, Dynptr::default());
        let size = u64::from(size as u32);
        if flags != 0 {
            return error(EINVAL);
        }
        if size > LARGEST {
            return error(E2BIG);
        }
        let record = kernel.reserve_record(address, size);
        if record == 0 {
            return error(EINVAL);
        }
        store(place, Dynptr { address: record, size: size as u32, offset: 0 });
        0
    }

    fn bpf_ringbuf_submit_dynptr(kernel, place, flags) {
        kernel.end_record(load::<Dynptr>(place).address, true);
        store(place, Dynptr::default());
        0
    }

    fn bpf_ringbuf_discard_dynptr(kernel, place, flags) {
        kernel.end_record(load::<Dynptr>(place).address, false);
        store(place, Dynptr::default());
        0
    }
}

kernel_functions! { TABLE;
    fn bpf_dynptr_is_null(kernel, pointer) { u64::from(load::<Dynptr>(pointer).is_null()) }

    fn bpf_dynptr_is_rdonly(kernel, pointer) {
        let pointer = load::<Dynptr>(pointer);
        u64::from(!pointer.is_null() && pointer.is_read_only())
    }

    fn bpf_dynptr_size(kernel, pointer) {
        let pointer = load::<Dynptr>(pointer);
        if pointer.is_null() { error(EINVAL) } else { pointer.size() }
    }

    fn bpf_dynptr_adjust(kernel, place, start, end) {
        let part = load::<Dynptr>(place).part(start, end);
        status(part.map(|part| store(place, part)))
    }

    fn bpf_dynptr_clone(kernel, source, target) {
        let pointer = load::<Dynptr>(source);
        store(target, pointer);
        if pointer.is_null() { error(EINVAL) } else { 0 }
    }

    // The memory is in one piece, so that no program needs its buffer.
    fn bpf_dynptr_slice(kernel, pointer, offset, buffer, length) {
        load::<Dynptr>(pointer).place(offset, length).unwrap_or(0)
    }

    fn bpf_dynptr_slice_rdwr(kernel, pointer, offset, buffer, length) {
        load::<Dynptr>(pointer).place_to_write(offset, length).unwrap_or(0)
    }

    fn bpf_dynptr_copy(kernel, target, target_offset, source, source_offset, length) {
        let source = load::<Dynptr>(source).place(source_offset, length);
        let target = load::<Dynptr>(target).place_to_write(target_offset, length);
        let both = source.and_then(|source| Ok((source, target?)));
        status(both.map(|(source, target)| copy(source, target, length as u32 as usize)))
    }

    fn bpf_dynptr_memset(kernel, pointer, offset, length, byte) {
        let place = load::<Dynptr>(pointer).place_to_write(offset, length);
        let length = length as u32 as usize;
        status(place.map(|place| write_bytes(place, length, &vec![byte as u8; length])))
    }
}

/// A record in a ring buffer.
impl crate::kernel::Kernel<'_> {
    /// Reserves a record of `size` bytes in the ring buffer at `address`; 0 if there is no room.
    pub(super) fn reserve_record(&mut self, address: u64, size: u64) -> u64 {
        let Some(map) = self.passed_map(address) else {
            return 0;
        };
        let room = map.max_entries as u64;
        match &mut map.store {
            Store::Records { reserved, .. } if size <= room => {
                let words = crate::maps::words(size as usize).max(1);
                let mut record = vec![0_u64; words].into_boxed_slice();
                let place = record.as_mut_ptr() as u64;
                reserved.push(record);
                place
            }
            _ => 0,
        }
    }

    /// Ends the writing of a record: it is submitted, or else forgotten.
    pub(super) fn end_record(&mut self, record: u64, submit: bool) {
        for map in self.memory.maps.all_mut() {
            if let Store::Records { reserved, submitted } = &mut map.store {
                let before = reserved.len();
                reserved.retain(|kept| kept.as_ptr() as u64 != record);
                if submit {
                    *submitted += (before - reserved.len()) as u64;
                }
            }
        }
    }
}
