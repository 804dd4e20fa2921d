//! Open-coded iterators other than those over dispatch queues.

use super::{error, kernel_functions};
use crate::constants::*;
use crate::structures::{GroupIterator, NumberIterator};

kernel_functions! { TABLE;
    fn bpf_iter_num_new(kernel, iterator, start, end) {
        // SAFETY: the scheduler passes its iterator, which lives on its stack.
        let iterator = unsafe { &mut *(iterator as *mut NumberIterator) };
        let (start, end) = (start as i32, end as i32);
        if start > end {
            *iterator = NumberIterator { current: 0, end: 0 };
            return error(EINVAL);
        }
        // The kernel limits the span of an iteration to BPF_MAX_LOOPS.
        if i64::from(end) - i64::from(start) > 8 * 1024 * 1024 {
            *iterator = NumberIterator { current: 0, end: 0 };
            return error(E2BIG);
        }
        *iterator = NumberIterator { current: start.wrapping_sub(1), end };
        0
    }

    fn bpf_iter_num_next(kernel, iterator) {
        // The kernel inlines these; a loop over numbers costs its instructions only.
        kernel.spent -= kernel.settings.cost.kfunc;
        // SAFETY: as above.
        let iterator = unsafe { &mut *(iterator as *mut NumberIterator) };
        if i64::from(iterator.current) + 1 >= i64::from(iterator.end) {
            *iterator = NumberIterator { current: 0, end: 0 };
            return 0;
        }
        iterator.current += 1;
        &raw mut iterator.current as u64
    }

    fn bpf_iter_num_destroy(kernel, iterator) {
        // SAFETY: as above.
        unsafe { *(iterator as *mut NumberIterator) = NumberIterator { current: 0, end: 0 } };
        0
    }

    fn bpf_iter_css_new(kernel, iterator, start, order) {
        // SAFETY: the scheduler passes its iterator, which lives on its stack.
        let iterator = unsafe { &mut *(iterator as *mut GroupIterator) };
        *iterator = GroupIterator { order: 0, position: 0, unused: 0 };
        let Some(visited) = kernel.groups.iteration(start, order as u32) else { return error(EINVAL) };
        kernel.group_iterations.push(visited);
        iterator.order = kernel.group_iterations.len() as u64;
        0
    }

    fn bpf_iter_css_next(kernel, iterator) {
        // SAFETY: as above.
        let iterator = unsafe { &mut *(iterator as *mut GroupIterator) };
        let order = iterator.order.checked_sub(1).and_then(|place| kernel.group_iterations.get(place as usize));
        let next = order.and_then(|order| order.get(iterator.position as usize)).copied();
        iterator.position += 1;
        next.unwrap_or(0)
    }

    fn bpf_iter_css_destroy(kernel, iterator) {
        // SAFETY: as above.
        let iterator = unsafe { &mut *(iterator as *mut GroupIterator) };
        // Iterations lie one inside the other.
        if let Some(place) = std::mem::take(&mut iterator.order).checked_sub(1) {
            kernel.group_iterations.truncate(place as usize);
        }
        0
    }

    fn bpf_iter_bits_new(kernel, iterator, bits, words) {
        const BITS_WORDS_MAX: u64 = 511;
        // SAFETY: the scheduler passes its iterator of two words, which lives on its stack.
        let iterator = unsafe { &mut *(iterator as *mut [u64; 2]) };
        *iterator = [0; 2];
        let words = u64::from(words as u32);
        if bits < 4096 || words == 0 {
            return error(EINVAL);
        }
        if words > BITS_WORDS_MAX {
            return error(E2BIG);
        }
        // The bits are those of this moment.
        let bytes = super::read_bytes(bits, words as usize * 8);
        let set = |bit: &u32| bytes[*bit as usize / 8] >> (bit % 8) & 1 == 1;
        kernel.bit_iterations.push((0..words as u32 * 64).filter(set).collect());
        iterator[0] = kernel.bit_iterations.len() as u64;
        0
    }

    fn bpf_iter_bits_next(kernel, iterator) {
        // SAFETY: as above.
        let iterator = unsafe { &mut *(iterator as *mut [u64; 2]) };
        let order = iterator[0].checked_sub(1).and_then(|place| kernel.bit_iterations.get(place as usize));
        let next = order.and_then(|order| order.get(iterator[1] as usize));
        iterator[1] += 1;
        next.map_or(0, |bit| &raw const *bit as u64)
    }

    fn bpf_iter_bits_destroy(kernel, iterator) {
        // SAFETY: as above.
        let iterator = unsafe { &mut *(iterator as *mut [u64; 2]) };
        if let Some(place) = std::mem::take(&mut iterator[0]).checked_sub(1) {
            kernel.bit_iterations.truncate(place as usize);
        }
        0
    }

    fn bpf_iter_task_new(kernel, iterator, task, flags) {
        // SAFETY: the iterator is at least three words long.
        unsafe { *(iterator as *mut u64) = 0 };
        0
    }

    fn bpf_iter_task_next(kernel, iterator) {
        // SAFETY: as above.
        let position = unsafe { &mut *(iterator as *mut u64) };
        while let Some(task) = kernel.nth_task(*position as usize) {
            *position += 1;
            if task.seen.__state != TASK_DEAD {
                kernel.spent += kernel.settings.cost.task_walk;
                return task.address();
            }
        }
        0
    }

    fn bpf_iter_task_destroy(kernel, iterator) { 0 }
}
