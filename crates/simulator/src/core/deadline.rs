//! `SCHED_DEADLINE`: earliest deadline first, each task within its bandwidth (`kernel/sched/deadline.c`).
//!
//! A task has a runtime for each of its periods, and has to get it by a deadline. It runs before all tasks of other classes until the runtime
//! is used up, and is then throttled until its next period (constant bandwidth server). Which tasks exist is limited, so that all can have
//! their runtimes: `admission.rs`. How they are spread over CPUs: `deadline_balance.rs`.

use fairground_events::{Condition, OverheadKind, TaskId};

use crate::clock::Due;
use crate::kernel::Kernel;
use crate::task::{Class, TaskRef};

/// Binary digits of times that the kernel drops where it multiplies two of them (`DL_SCALE`).
const SCALE: u32 = 10;
/// Binary digits of a bandwidth after the point (`BW_SHIFT`).
const BANDWIDTH_SHIFT: u32 = 20;
/// The shortest time until the budget of a task is enforced, nanoseconds (`hrtick_start`).
const TICK_MIN: u64 = 10_000;

/// `runtime` per `period` as the kernel counts bandwidth (`to_ratio`).
pub(super) fn ratio(runtime: u64, period: u64) -> u64 {
    (runtime << BANDWIDTH_SHIFT) / period.max(1)
}

/// The bandwidth of a CPU that these tasks need, of 1024 (`cpu_bw_dl`).
pub(crate) fn bandwidth_as_capacity(tasks: &[TaskRef]) -> u64 {
    let bandwidth = tasks.iter().map(|task| ratio(task.deadline.runtime, task.deadline.period));
    (bandwidth.sum::<u64>() * 1024) >> BANDWIDTH_SHIFT
}

/// The deadline scheduling of one task (`struct sched_dl_entity`).
#[derive(Debug, Default)]
pub struct DeadlineEntity {
    /// Runtime per period, nanoseconds; 0 under other policies.
    pub(super) runtime: u64,
    /// Time from the beginning of a period until the deadline.
    pub(super) relative: u64,
    /// Length of a period.
    pub(super) period: u64,
    /// Remaining runtime.
    left: i64,
    /// The current deadline; 0 before the first period.
    pub(crate) deadline: u64,
    /// Whether it waits for its next period.
    throttled: bool,
    /// Whether it has given up the rest of its runtime.
    yielded: bool,
    /// Number of the timer that begins its next period.
    timer: u32,
    /// Whether that timer is armed.
    armed: bool,
    /// The CPU whose timer it is.
    timer_cpu: usize,
}

impl DeadlineEntity {
    /// Sets the parameters, all 0 when the task leaves the class; the current period goes on if there is one (`__setparam_dl`).
    pub(crate) fn set(&mut self, runtime: u64, period: u64, relative: u64) {
        (self.runtime, self.period, self.relative) = (runtime, period, relative);
        if runtime == 0 {
            *self = Self { timer: self.timer.wrapping_add(1), ..Self::default() };
        }
    }

    fn begin_period(&mut self, now: u64) {
        self.deadline = now + self.relative;
        self.left = self.runtime as i64;
    }

    fn next_period(&self) -> u64 {
        self.deadline - self.relative + self.period
    }

    /// Whether the remaining runtime is more than its share of the time left until the deadline (`dl_entity_overflow`).
    fn overflows(&self, now: u64) -> bool {
        let left = (self.relative >> SCALE) as i64 * (self.left >> SCALE);
        let right = ((self.deadline - now) >> SCALE) * (self.runtime >> SCALE);
        left > right as i64
    }

    /// A wake-up: the period goes on if the rest of it can be had without taking more than the bandwidth (`update_dl_entity`).
    fn wake(&mut self, now: u64) {
        let is_over = self.deadline == 0 || self.deadline < now;
        if !is_over && !self.overflows(now) {
            return;
        }
        if !is_over && self.relative < self.period {
            // A deadline before the end of the period: only as much runtime as fits in before it.
            let density = u128::from(ratio(self.runtime, self.relative));
            let laxity = u128::from(self.deadline - now);
            self.left = ((density * laxity) >> BANDWIDTH_SHIFT) as i64;
            return;
        }
        self.begin_period(now);
    }

    /// Gives it the runtime of its next period (`replenish_dl_entity`).
    fn replenish(&mut self, now: u64) {
        if self.yielded {
            self.left = self.left.min(0);
        }
        while self.left <= 0 {
            self.deadline += self.period;
            self.left += self.runtime as i64;
        }
        if self.deadline < now {
            self.begin_period(now);
        }
        self.yielded = false;
        self.throttled = false;
    }
}

/// The queue of one CPU (`struct dl_rq`).
#[derive(Default)]
pub struct DeadlineQueue {
    /// Its runnable tasks that are not throttled, with the running one, by deadline.
    queued: Vec<TaskRef>,
    /// Those that another CPU may take, by deadline.
    pushable: Vec<TaskRef>,
    /// Number of the timer that enforces the running task's budget.
    tick: u32,
}

fn insert(list: &mut Vec<TaskRef>, task: TaskRef) {
    let deadline = task.deadline.deadline;
    let place = list.partition_point(|other| other.deadline.deadline <= deadline);
    list.insert(place, task);
}

impl DeadlineQueue {
    /// Whether no task of the class can run here.
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

    /// Whether the task is queued: runnable and not throttled.
    pub(super) fn has(&self, task: TaskRef) -> bool {
        self.queued.contains(&task)
    }

    fn withhold(&mut self, task: TaskRef) {
        self.pushable.retain(|other| *other != task);
    }

    fn offer(&mut self, task: TaskRef) {
        if task.seen.nr_cpus_allowed > 1 {
            insert(&mut self.pushable, task);
        }
    }
}

/// Why a task is enqueued, as far as this class asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It wakes, or is new.
    Wakes,
    /// Its next period begins.
    Replenished,
    /// Its attributes have changed.
    Changed,
    /// It comes from another CPU.
    Moved,
}

impl Kernel<'_> {
    /// `enqueue_task_dl`.
    pub(super) fn deadline_enqueue(&mut self, cpu: usize, mut task: TaskRef, why: Arrival) {
        let now = self.run_queue_clock(cpu);
        self.check_constrained(task, now);
        let entity = &mut task.deadline;
        if entity.throttled && why != Arrival::Replenished {
            return;
        }
        match why {
            Arrival::Wakes => entity.wake(now),
            Arrival::Replenished => entity.replenish(now),
            Arrival::Changed if entity.deadline == 0 || entity.deadline < now => {
                entity.begin_period(now);
            }
            Arrival::Changed | Arrival::Moved => {}
        }
        let running = self.cpus[cpu].current == task;
        let state = &mut self.cpus[cpu];
        insert(&mut state.deadline.queued, task);
        if !running {
            state.deadline.offer(task);
        }
        state.rq.nr_running += 1;
        self.update_frequency(cpu);
    }

    /// Throttles a task whose deadline is before the end of its period and that comes between the two (`dl_check_constrained_dl`).
    fn check_constrained(&mut self, mut task: TaskRef, now: u64) {
        let entity = &task.deadline;
        let comes_between = entity.deadline != 0
            && entity.relative < entity.period
            && entity.deadline < now
            && now < entity.next_period();
        if !entity.throttled && comes_between && self.start_deadline_timer(task, now) {
            task.deadline.throttled = true;
            task.deadline.left = task.deadline.left.min(0);
        }
    }

    /// `dequeue_task_dl`.
    pub(super) fn deadline_dequeue(&mut self, cpu: usize, task: TaskRef) {
        if self.cpus[cpu].current == task {
            self.update_deadline(cpu, task);
        }
        self.take_off_deadline_queue(cpu, task);
    }

    fn take_off_deadline_queue(&mut self, cpu: usize, task: TaskRef) {
        let state = &mut self.cpus[cpu];
        state.deadline.withhold(task);
        if state.deadline.has(task) {
            state.deadline.queued.retain(|other| *other != task);
            state.rq.nr_running -= 1;
            self.update_frequency(cpu);
        }
    }

    /// Charges the running task for its time, and throttles it once the runtime is used up (`update_curr_dl`).
    pub(super) fn update_deadline(&mut self, cpu: usize, mut task: TaskRef) {
        if !self.cpus[cpu].deadline.has(task) {
            return;
        }
        let ran = self.update_class_time(cpu, task);
        let scale = self.cpus[cpu].scale;
        let entity = &mut task.deadline;
        entity.left -= (ran * scale / 1024) as i64;
        if entity.left > 0 && !entity.yielded {
            return;
        }
        entity.throttled = true;
        self.take_off_deadline_queue(cpu, task);
        let now = self.run_queue_clock(cpu);
        if !self.start_deadline_timer(task, now) {
            self.deadline_enqueue(cpu, task, Arrival::Replenished);
        }
        if self.cpus[cpu].deadline.tasks().first() != Some(&task) {
            self.resched(cpu);
        }
    }

    /// Arms the timer that begins the next period; `false` if the time has passed (`start_dl_timer`).
    fn start_deadline_timer(&mut self, mut task: TaskRef, now: u64) -> bool {
        let time = task.deadline.next_period();
        // The kernel compares whole microseconds.
        if time + 1000 <= now {
            return false;
        }
        let (cpu, number) = (task.cpu(), task.id.0);
        let entity = &mut task.deadline;
        if !std::mem::replace(&mut entity.armed, true) {
            entity.timer = entity.timer.wrapping_add(1);
            entity.timer_cpu = cpu;
            let due = Due::DeadlineTask { task: number, timer: entity.timer };
            self.clock.at(time, due);
        }
        self.tell_condition(task, Condition::UsedUp, true);
        true
    }

    /// The next period of a throttled task begins (`dl_task_timer`).
    pub(crate) fn handle_deadline_task(&mut self, number: u32, timer: u32, due: Due) {
        let mut task = self.tasks.any(TaskId(number));
        if task.deadline.timer != timer || !task.deadline.armed {
            return;
        }
        let mut at = task.deadline.timer_cpu;
        if !self.cpus[at].online {
            at = self.online.first().unwrap_or(at);
        }
        if self.postponed(at, due) {
            return;
        }
        task.deadline.armed = false;
        if !task.deadline.throttled {
            return;
        }
        self.tell_condition(task, Condition::UsedUp, false);
        self.interrupt(at);
        self.context.spent += self.settings.cost.timer;
        if task.seen.on_rq == 0 {
            let now = self.clock.now();
            task.deadline.replenish(now);
        } else {
            self.return_throttled(task);
        }
        self.settle(OverheadKind::Interrupt);
        self.leave(OverheadKind::Scheduling);
    }

    /// Puts a throttled task back on its queue.
    fn return_throttled(&mut self, task: TaskRef) {
        let mut cpu = task.cpu();
        if !self.cpus[cpu].online {
            // `dl_task_offline_migration`.
            let any = self.online.first();
            cpu = self.find_later(task).or(any).unwrap_or(cpu);
            self.set_task_cpu(task, cpu);
        }
        self.lock_run_queue(cpu);
        self.deadline_enqueue(cpu, task, Arrival::Replenished);
        if self.cpus[cpu].current.class == Class::Deadline {
            self.deadline_wakeup_preempt(cpu, task);
        } else {
            self.resched(cpu);
        }
        self.push_one_deadline(cpu);
        self.unlock_run_queue(cpu);
        self.run_deferred(cpu);
    }

    /// `yield_task_dl`: gives up the CPU until the next period.
    pub(super) fn deadline_yield(&mut self, cpu: usize, mut task: TaskRef) {
        task.deadline.yielded = true;
        self.update_deadline(cpu, task);
    }

    /// The task with the earliest deadline, unless the deadline server has an earlier one (`pick_task_dl`).
    pub(crate) fn deadline_pick(&self, cpu: usize) -> Option<TaskRef> {
        self.cpus[cpu].deadline.queued.first().copied()
    }

    /// `put_prev_task_dl`.
    pub(super) fn deadline_put(&mut self, cpu: usize, task: TaskRef) {
        self.update_deadline(cpu, task);
        let queue = &mut self.cpus[cpu].deadline;
        queue.tick = queue.tick.wrapping_add(1);
        if queue.has(task) {
            queue.offer(task);
        }
    }

    /// `set_next_task_dl`, but for the push that follows the switch; a timer enforces the budget.
    pub(super) fn deadline_set_next(&mut self, cpu: usize, mut task: TaskRef) {
        task.seen.se.exec_start = self.run_queue_clock(cpu);
        self.cpus[cpu].deadline.withhold(task);
        self.start_deadline_tick(cpu, task);
    }

    fn start_deadline_tick(&mut self, cpu: usize, task: TaskRef) {
        let queue = &mut self.cpus[cpu].deadline;
        queue.tick = queue.tick.wrapping_add(1);
        let due = Due::DeadlineTick { cpu: cpu as u32, timer: queue.tick };
        let delay = u64::try_from(task.deadline.left).unwrap_or(0).max(TICK_MIN);
        let time = self.run_queue_clock(cpu) + delay;
        self.clock.at(time, due);
    }

    /// The budget of the running task is used up (`hrtick` for this class).
    pub(crate) fn handle_deadline_tick(&mut self, cpu: usize, timer: u32, due: Due) {
        let current = self.cpus[cpu].current;
        if self.cpus[cpu].deadline.tick != timer
            || current.class != Class::Deadline
            || self.postponed(cpu, due)
        {
            return;
        }
        self.interrupt(cpu);
        self.cpus[cpu].account_progress(self.clock.now());
        self.context.spent += self.settings.cost.timer;
        self.settle(OverheadKind::Interrupt);
        self.cpus[cpu].update_clock(self.clock.now());
        self.update_deadline(cpu, current);
        if current.deadline.left > 0 && self.deadline_pick(cpu) == Some(current) {
            self.start_deadline_tick(cpu, current);
        }
        self.leave(OverheadKind::Scheduling);
    }

    /// `wakeup_preempt_dl`.
    pub(super) fn deadline_wakeup_preempt(&mut self, cpu: usize, task: TaskRef) {
        let current = self.cpus[cpu].current;
        if current.class != Class::Deadline {
            return;
        }
        let (new, old) = (task.deadline.deadline, current.deadline.deadline);
        // `check_preempt_equal_dl`: an equal that cannot move comes at once if the running one can.
        let comes_first = |kernel: &Self| {
            let movable =
                |task: TaskRef| task.seen.nr_cpus_allowed > 1 && kernel.has_later_cpu(task);
            movable(current) && !movable(task)
        };
        if new < old || new == old && !self.cpus[cpu].need_resched && comes_first(self) {
            self.resched(cpu);
        }
    }
}
