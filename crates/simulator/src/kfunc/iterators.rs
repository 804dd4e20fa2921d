//! Open-coded iterators other than those over dispatch queues.

use std::mem::offset_of;

use super::passed::{load, read_bytes, replace, store};
use super::{error, kernel_functions};
use crate::constants::*;
use crate::kernel::Kernel;
use crate::structures::{GroupIterator, NumberIterator};
use crate::task::TaskRef;

/// Which tasks an iteration visits (`BPF_TASK_ITER_*`).
mod walk {
    pub const ALL_PROCESSES: u32 = 0;
    pub const ALL_THREADS: u32 = 1;
    pub const THREADS_OF_PROCESS: u32 = 2;
}

/// The elements that the iterations in progress visit. Iterations of a kind are nested; each is known by its place here plus 1.
#[derive(Default)]
pub struct Iterations {
    groups: Vec<Vec<u64>>,
    /// With how far each has come.
    tasks: Vec<(Vec<TaskRef>, usize)>,
    bits: Vec<Box<[u32]>>,
}

/// Whether iterations meet a task: it lives, or it is the first one of its process, which its parent keeps on the list, and has not left its CPU yet.
fn is_met(task: TaskRef) -> bool {
    let seen = &task.seen;
    let leads = seen.group_leader as u64 == task.address();
    seen.__state != TASK_DEAD || leads && seen.scx.flags & SCX_TASK_STATE_MASK != SCX_TASK_DEAD
}

impl Kernel<'_> {
    /// All tasks of the system that iterations meet and that are wanted, in a fixed order.
    fn living_tasks(&self, wanted: impl Fn(TaskRef) -> bool) -> Vec<TaskRef> {
        let all = (0..).map_while(|place| self.tasks.nth(place));
        all.filter(|task| is_met(*task) && wanted(*task)).collect()
    }

    /// Begins an iteration over tasks with the iterator whose first word is at `place`.
    fn begin_task_walk(&mut self, place: u64, visited: Vec<TaskRef>) -> u64 {
        self.calls.iterations.tasks.push((visited, 0));
        let number = self.calls.iterations.tasks.len() as u64;
        store(place, number);
        0
    }

    /// The next task of an iteration; 0 at its end, or if it never began.
    fn next_of_task_walk(&mut self, place: u64) -> u64 {
        let walk = load::<u64>(place).checked_sub(1);
        let walk = walk.and_then(|number| self.calls.iterations.tasks.get_mut(number as usize));
        let Some((visited, next)) = walk else {
            return 0;
        };
        while let Some(task) = visited.get(*next).copied() {
            *next += 1;
            if is_met(task) {
                self.context.spent += self.settings.cost.task_walk;
                return task.address();
            }
        }
        0
    }

    /// Ends an iteration.
    fn end_task_walk(&mut self, place: u64) -> u64 {
        if let Some(number) = replace::<u64>(place, 0).checked_sub(1) {
            self.calls.iterations.tasks.truncate(number as usize);
        }
        0
    }
}

kernel_functions! { TABLE;
    fn bpf_iter_num_new(kernel, place, start, end) costing 9 inline FirstNumber {
        let (start, end) = (start as i32, end as i32);
        store(place, NumberIterator { current: 0, end: 0 });
        if start > end {
            return error(EINVAL);
        }
        // The kernel limits the span of an iteration to BPF_MAX_LOOPS.
        if i64::from(end) - i64::from(start) > 8 * 1024 * 1024 {
            return error(E2BIG);
        }
        store(place, NumberIterator { current: start.wrapping_sub(1), end });
        0
    }

    fn bpf_iter_num_next(kernel, place) costing 7 inline NextNumber {
        let NumberIterator { current, end } = load(place);
        // The number before the least one there is wraps around.
        let next = current.wrapping_add(1);
        if next >= end {
            store(place, NumberIterator { current: 0, end: 0 });
            return 0;
        }
        store(place, NumberIterator { current: next, end });
        place + offset_of!(NumberIterator, current) as u64
    }

    fn bpf_iter_num_destroy(kernel, place) costing 1 inline LastNumber {
        store(place, NumberIterator { current: 0, end: 0 });
        0
    }

    fn bpf_iter_css_new(kernel, place, start, order) {
        let mut iterator = GroupIterator { order: 0, position: 0, unused: 0 };
        store(place, iterator);
        let Some(visited) = kernel.groups.iteration(start, order as u32) else { return error(EINVAL) };
        kernel.calls.iterations.groups.push(visited);
        iterator.order = kernel.calls.iterations.groups.len() as u64;
        store(place, iterator);
        0
    }

    fn bpf_iter_css_next(kernel, place) {
        let mut iterator = load::<GroupIterator>(place);
        let order = iterator.order.checked_sub(1).and_then(|place| kernel.calls.iterations.groups.get(place as usize));
        let next = order.and_then(|order| order.get(iterator.position as usize)).copied();
        iterator.position = iterator.position.wrapping_add(1);
        store(place, iterator);
        next.unwrap_or(0)
    }

    fn bpf_iter_css_destroy(kernel, place) {
        let iterator = load::<GroupIterator>(place);
        store(place, GroupIterator { order: 0, ..iterator });
        if let Some(number) = iterator.order.checked_sub(1) {
            kernel.calls.iterations.groups.truncate(number as usize);
        }
        0
    }

    fn bpf_iter_bits_new(kernel, place, bits, words) {
        const BITS_WORDS_MAX: u64 = 511;
        store(place, [0_u64; 2]);
        let words = u64::from(words as u32);
        if words > BITS_WORDS_MAX {
            return error(E2BIG);
        }
        // The iteration visits the bits as they are now.
        let bytes = read_bytes(bits, words as usize * 8);
        if bytes.is_empty() {
            return error(EINVAL);
        }
        let set = |bit: &u32| bytes[*bit as usize / 8] >> (bit % 8) & 1 == 1;
        kernel.calls.iterations.bits.push((0..words as u32 * 64).filter(set).collect());
        store(place, [kernel.calls.iterations.bits.len() as u64, 0]);
        0
    }

    fn bpf_iter_bits_next(kernel, place) {
        let [number, position] = load::<[u64; 2]>(place);
        let order = number.checked_sub(1).and_then(|number| kernel.calls.iterations.bits.get(number as usize));
        let next = order.and_then(|order| order.get(position as usize));
        store(place, [number, position.wrapping_add(1)]);
        next.map_or(0, |bit| &raw const *bit as u64)
    }

    fn bpf_iter_bits_destroy(kernel, place) {
        if let Some(number) = replace::<u64>(place, 0).checked_sub(1) {
            kernel.calls.iterations.bits.truncate(number as usize);
        }
        0
    }

    fn bpf_iter_task_new(kernel, iterator, task, flags) {
        let is_leader = |task: TaskRef| task.seen.group_leader as u64 == task.address();
        let visited = match flags as u32 {
            walk::ALL_PROCESSES => kernel.living_tasks(is_leader),
            walk::ALL_THREADS => kernel.living_tasks(|_| true),
            walk::THREADS_OF_PROCESS if task != 0 => {
                let first = kernel.passed_task(task);
                let process = first.map(|task| task.seen.group_leader);
                let threads = kernel.living_tasks(|task| Some(task.seen.group_leader) == process);
                // Threads before the one that it begins with are not visited.
                threads.into_iter().skip_while(|task| Some(*task) != first).collect()
            }
            _ => {
                store(iterator, 0_u64);
                return error(EINVAL);
            }
        };
        kernel.begin_task_walk(iterator, visited)
    }

    fn bpf_iter_task_next(kernel, iterator) { kernel.next_of_task_walk(iterator) }
    fn bpf_iter_task_destroy(kernel, iterator) { kernel.end_task_walk(iterator) }

    fn bpf_iter_css_task_new(kernel, iterator, css, flags) {
        const PROCESSES: u32 = 1;
        const PROCESSES_OF_THREADED: u32 = 3;
        let flags = flags as u32;
        let group = kernel.groups.number_of_css(css);
        let (Some(group), 0 | PROCESSES | PROCESSES_OF_THREADED) = (group, flags) else {
            store(iterator, 0_u64);
            return error(EINVAL);
        };
        let visited = kernel.living_tasks(|task| {
            task.cgroup == group && (flags == 0 || task.seen.group_leader as u64 == task.address())
        });
        kernel.begin_task_walk(iterator, visited)
    }

    fn bpf_iter_css_task_next(kernel, iterator) { kernel.next_of_task_walk(iterator) }
    fn bpf_iter_css_task_destroy(kernel, iterator) { kernel.end_task_walk(iterator) }
}
