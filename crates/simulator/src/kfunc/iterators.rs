//! Open-coded iterators other than those over dispatch queues.

use super::{error, kernel_functions};
use crate::constants::*;
use crate::structures::NumberIterator;

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
