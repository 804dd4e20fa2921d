//! The real-time class: `kernel/sched/rt.c`.

use crate::constants::*;
use crate::kernel::Kernel;
use crate::task::{Class, TaskRef};

/// Quantum of `SCHED_RR` (`RR_TIMESLICE`).
pub(super) const ROUND_ROBIN_QUANTUM: u64 = 100_000_000;

/// Whether a task of equal priority is next: this one has yielded, or its quantum is used up or was refilled at a tick.
fn has_had_its_turn(task: TaskRef) -> bool {
    let filled_up = task.seen.policy == SCHED_RR && task.class_slice == ROUND_ROBIN_QUANTUM;
    task.class_slice == 0 || filled_up
}

impl Kernel<'_> {
    pub(super) fn real_time_enqueue(&mut self, cpu: usize, task: TaskRef, at_head: bool) {
        let queue = &mut self.cpus[cpu].real_time;
        if at_head {
            queue.insert(0, task)
        } else {
            queue.push(task)
        }
        self.cpus[cpu].rq.nr_running += 1;
    }

    /// Reschedules if a waiting task now has a higher priority than the running one (`prio_changed_rt`).
    pub(super) fn real_time_priority_changed(&mut self, cpu: usize, task: TaskRef) {
        let mut waiting = self.cpus[cpu].real_time.iter();
        if waiting.any(|other| other.seen.prio < task.seen.prio) {
            self.resched(cpu);
        }
    }

    pub(super) fn real_time_put(&mut self, cpu: usize, mut task: TaskRef) {
        self.update_class_time(cpu, task);
        if task.seen.__state == TASK_RUNNING {
            // A preempted task stays in front of its equals; a used-up quantum or a yield sends it to the back.
            let at_head = !has_had_its_turn(task);
            if task.class_slice == 0 {
                task.class_slice = ROUND_ROBIN_QUANTUM;
            }
            let queue = &mut self.cpus[cpu].real_time;
            if at_head {
                queue.insert(0, task)
            } else {
                queue.push(task)
            }
        }
    }

    /// The allowed CPU that runs at the lowest priority; the previous one if it is good enough (`find_lowest_rq`).
    pub(super) fn real_time_select_cpu(&mut self, task: TaskRef, previous: usize) -> usize {
        if self.cpus[previous].current.seen.prio > task.seen.prio && task.allowed().test(previous) {
            let idle_elsewhere = self.cpus[previous].current.class != Class::RealTime;
            if idle_elsewhere {
                return previous;
            }
        }
        let best = task
            .allowed()
            .iter()
            .take_while(|&cpu| cpu < self.cpus.len())
            .filter(|&cpu| self.cpus[cpu].online)
            .max_by_key(|&cpu| {
                (
                    self.cpus[cpu].current.seen.prio,
                    cpu == previous,
                    std::cmp::Reverse(cpu),
                )
            });
        match best {
            Some(cpu) if self.cpus[cpu].current.seen.prio > task.seen.prio => cpu,
            _ => previous,
        }
    }

    pub(super) fn real_time_pick(&mut self, cpu: usize, previous: TaskRef) -> Option<TaskRef> {
        let best = self.cpus[cpu]
            .real_time
            .iter()
            .copied()
            .min_by_key(|task| task.seen.prio);
        let stays = previous.class == Class::RealTime && previous.seen.__state == TASK_RUNNING;
        match best {
            Some(best) if stays => {
                let turn = has_had_its_turn(previous);
                let better = best.seen.prio < previous.seen.prio;
                Some(
                    if better || (turn && best.seen.prio == previous.seen.prio) {
                        best
                    } else {
                        previous
                    },
                )
            }
            Some(best) => Some(best),
            None => stays.then_some(previous),
        }
    }
}
