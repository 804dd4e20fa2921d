//! The real-time class: `kernel/sched/rt.c`.
//!
//! Its tasks wait on the queue of a CPU, but the queues together behave as one: a task that loses its CPU to a higher priority is pushed to
//! the CPU that does the least important work, and a CPU that has finished its own pulls tasks that wait elsewhere (`balance.rs`).

use crate::constants::*;
use crate::kernel::Kernel;
use crate::task::{Class, TaskRef};

/// Quantum of `SCHED_RR` (`RR_TIMESLICE`), nanoseconds; it is counted in ticks.
const ROUND_ROBIN_QUANTUM: u64 = 100_000_000;

/// The highest priority on an empty queue (`MAX_RT_PRIO - 1`), lower than that of any task of the class.
pub(super) const NO_PRIORITY: i32 = 99;

/// The queue of one CPU (`struct rt_rq`).
#[derive(Default)]
pub struct RealTimeQueue {
    /// All its runnable tasks, with the running one: by priority, and equals in the order of their turns.
    queued: Vec<TaskRef>,
    /// Those that another CPU may take: by priority, and equals in the order in which they began to wait (`pushable_tasks`).
    pushable: Vec<TaskRef>,
}

/// Inserts a task into a list that is ordered by priority, in front of its equals or behind them.
fn insert(list: &mut Vec<TaskRef>, task: TaskRef, at_head: bool) {
    let priority = task.seen.prio;
    let place = match at_head {
        true => list.partition_point(|other| other.seen.prio < priority),
        false => list.partition_point(|other| other.seen.prio <= priority),
    };
    list.insert(place, task);
}

impl RealTimeQueue {
    /// Whether no task of the class is runnable here.
    pub(crate) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }

    /// The tasks in the order in which they run.
    pub(crate) fn tasks(&self) -> &[TaskRef] {
        &self.queued
    }

    /// The tasks that another CPU may take, in the order in which they are offered.
    pub(super) fn pushable(&self) -> &[TaskRef] {
        &self.pushable
    }

    /// The kernel's number of the highest priority here (`highest_prio.curr`); lower numbers are higher priorities.
    pub(super) fn highest(&self) -> i32 {
        self.queued.first().map_or(NO_PRIORITY, |task| task.seen.prio)
    }

    /// Lets other CPUs take a task that has begun to wait, if it may run there.
    fn offer(&mut self, task: TaskRef) {
        if task.seen.nr_cpus_allowed > 1 {
            insert(&mut self.pushable, task, false);
        }
    }

    /// No longer lets other CPUs take a task.
    fn withhold(&mut self, task: TaskRef) {
        self.pushable.retain(|other| *other != task);
    }

    /// Moves a task in front of its equals or behind them (`requeue_task_rt`).
    fn requeue(&mut self, task: TaskRef, at_head: bool) {
        self.queued.retain(|other| *other != task);
        insert(&mut self.queued, task, at_head);
    }
}

/// Whether a dequeue or an enqueue with these flags changes the task's place among its equals (`move_entity`).
fn moves(flags: u64) -> bool {
    flags & (DEQUEUE_SAVE | DEQUEUE_MOVE) != DEQUEUE_SAVE
}

impl Kernel<'_> {
    /// `enqueue_task_rt`.
    pub(super) fn real_time_enqueue(&mut self, cpu: usize, task: TaskRef, flags: u64) {
        let running = self.cpus[cpu].current == task;
        let state = &mut self.cpus[cpu];
        if moves(flags) {
            insert(&mut state.real_time.queued, task, flags & ENQUEUE_HEAD != 0);
        }
        if !running {
            state.real_time.offer(task);
        }
        state.rq.nr_running += 1;
        self.update_frequency(cpu);
    }

    /// `dequeue_task_rt`.
    pub(super) fn real_time_dequeue(&mut self, cpu: usize, task: TaskRef, flags: u64) {
        if self.cpus[cpu].current == task {
            self.update_class_time(cpu, task);
        }
        let state = &mut self.cpus[cpu];
        if moves(flags) {
            state.real_time.queued.retain(|other| *other != task);
        }
        state.real_time.withhold(task);
        state.rq.nr_running -= 1;
        self.update_frequency(cpu);
    }

    /// `yield_task_rt`.
    pub(super) fn real_time_yield(&mut self, cpu: usize, task: TaskRef) {
        self.cpus[cpu].real_time.requeue(task, false);
    }

    /// `pick_task_rt`.
    pub(super) fn real_time_pick(&self, cpu: usize) -> Option<TaskRef> {
        self.cpus[cpu].real_time.queued.first().copied()
    }

    /// `put_prev_task_rt`.
    pub(super) fn real_time_put(&mut self, cpu: usize, task: TaskRef) {
        self.update_class_time(cpu, task);
        if task.seen.on_rq != 0 {
            self.cpus[cpu].real_time.offer(task);
        }
    }

    /// `set_next_task_rt`, but for the push that follows the switch.
    pub(super) fn real_time_set_next(&mut self, cpu: usize, mut task: TaskRef) {
        task.seen.se.exec_start = self.run_queue_clock(cpu);
        self.cpus[cpu].real_time.withhold(task);
    }

    /// `task_tick_rt`.
    pub(super) fn real_time_tick(&mut self, cpu: usize, mut task: TaskRef) {
        self.update_class_time(cpu, task);
        if task.seen.policy != SCHED_RR {
            return;
        }
        let quantum = (ROUND_ROBIN_QUANTUM / self.tick_length()).max(1);
        task.round_robin_ticks += 1;
        if u64::from(task.round_robin_ticks) < quantum {
            return;
        }
        task.round_robin_ticks = 0;
        let is_equal = |other: &&TaskRef| other.seen.prio == task.seen.prio;
        let queue = &mut self.cpus[cpu].real_time;
        if queue.queued.iter().filter(is_equal).count() > 1 {
            queue.requeue(task, false);
            self.resched(cpu);
        }
    }

    /// `wakeup_preempt_rt`.
    pub(super) fn real_time_wakeup_preempt(&mut self, cpu: usize, task: TaskRef) {
        let current = self.cpus[cpu].current;
        if current.class != Class::RealTime {
            return;
        }
        if task.seen.prio < current.seen.prio {
            self.resched(cpu);
        } else if task.seen.prio == current.seen.prio && !self.cpus[cpu].need_resched {
            self.preempt_equal(cpu, current, task);
        }
    }

    /// Puts a task that can only run here before its equal that runs, if that one can go elsewhere (`check_preempt_equal_prio`).
    fn preempt_equal(&mut self, cpu: usize, current: TaskRef, task: TaskRef) {
        let movable = |kernel: &Self, task: TaskRef| {
            task.seen.nr_cpus_allowed > 1 && kernel.has_lower_cpu(task)
        };
        if movable(self, current) && !movable(self, task) {
            self.cpus[cpu].real_time.requeue(task, true);
            self.resched(cpu);
        }
    }

    /// `prio_changed_rt`; the priority was `before`.
    pub(super) fn real_time_priority_changed(&mut self, cpu: usize, task: TaskRef, before: i32) {
        let priority = task.seen.prio;
        if task.seen.on_rq == 0 || priority == before {
            return;
        }
        let current = self.cpus[cpu].current;
        if current != task {
            if priority < current.seen.prio {
                self.resched(cpu);
            }
            return;
        }
        if priority > self.cpus[cpu].real_time.highest() {
            self.resched(cpu);
        }
        if before < priority {
            self.pull_real_time(cpu);
            self.run_deferred(cpu);
        }
    }

    /// `switched_from_rt`: once the last task of the class has left `cpu` for another class, the CPU pulls tasks that wait elsewhere. Only running
    /// tasks change their class here, so `switched_to_rt` has nothing to push.
    pub(super) fn switched_from_real_time(&mut self, cpu: usize, task: TaskRef) {
        if task.seen.on_rq != 0 && self.cpus[cpu].real_time.is_empty() {
            self.pull_real_time(cpu);
            self.run_deferred(cpu);
        }
    }
}
