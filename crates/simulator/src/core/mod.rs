//! The scheduler core above the classes: wake-ups, rescheduling, the switch, ticks. `kernel/sched/core.c`.

mod admission;
mod balance;
mod change;
mod deadline;
mod deadline_balance;
mod fair;
mod real_time;
mod wakeup;

use fairground_events::{CpuId, EventKind, OverheadKind};

use crate::clock::Due;
use crate::constants::*;
use crate::kernel::Kernel;
use crate::program::Action;
use crate::surroundings::is_hidden;
use crate::task::{Class, TaskRef};
use crate::tracing::Hook;
pub use admission::check_deadline_tasks;
pub(crate) use deadline::bandwidth_as_capacity;
pub use deadline::{DeadlineEntity, DeadlineQueue};
pub use real_time::RealTimeQueue;

/// The task or class that takes over the CPU from a task that is put back.
#[derive(Clone, Copy)]
pub(crate) struct Successor {
    /// Its class.
    pub class: Class,
    /// The task; the idle task represents the stopper.
    pub task: TaskRef,
    /// Whether it is the stopper, which moves tasks between CPUs.
    pub stopper: bool,
}

impl Kernel<'_> {
    /// Asks `cpu` to reschedule (`resched_curr`).
    pub(crate) fn resched(&mut self, cpu: usize) {
        let mut state = self.cpu(cpu);
        if state.need_resched {
            return;
        }
        state.need_resched = true;
        if cpu != self.context.cpu {
            self.resched_from_interrupt(cpu);
        }
    }

    pub(crate) fn resched_from_interrupt(&mut self, cpu: usize) {
        self.cpus[cpu].need_resched = true;
        let time = self.local_time() + self.settings.cost.interrupt;
        self.clock.at(time, Due::Reschedule { cpu: cpu as u32 });
    }

    /// Sets when the current task's program step ends.
    pub(crate) fn arm_completion(&mut self, cpu: usize) {
        let now = self.clock.now();
        let mut state = self.cpu(cpu);
        state.account_progress(now);
        state.completion_at = if state.current == state.idle {
            u64::MAX
        } else {
            let start = state.resume_at.max(now).max(state.progress_at);
            state.current.execution.completes_at(start, state.speed)
        };
        let time = state.next_own();
        self.clock.set_cpu(cpu, time);
    }

    /// The tick of `cpu`, an interrupt that has waited, or the end of its task's program step.
    pub(crate) fn handle_cpu(&mut self, cpu: usize) {
        let mut state = self.cpu(cpu);
        let now = self.clock.now();
        if state.tick_at <= now {
            self.handle_tick(cpu);
            return;
        }
        if state.kernel_until <= now
            && let Some(due) = state.interrupts.pop_front()
        {
            self.handle(due);
            self.clock.set_cpu(cpu, self.cpus[cpu].next_own());
            return;
        }
        state.account_progress(now);
        let current = state.current;
        if current == state.idle || state.resume_at > now || !current.execution.step_is_done(now) {
            self.arm_completion(cpu);
            return;
        }
        self.enter(cpu);
        self.continue_program(cpu);
        self.leave(OverheadKind::Scheduling);
    }

    /// Lets the current task of `cpu` continue its program until it needs CPU time, waits, or ends.
    pub(crate) fn continue_program(&mut self, cpu: usize) {
        while !self.cpus[cpu].need_resched && self.exit.is_none() {
            let mut current = self.cpus[cpu].current;
            match self.advance_program(current) {
                Action::Compute => return,
                Action::Yield => {
                    match current.class {
                        Class::Ext => self.ext_yield(cpu, current),
                        Class::Fair => current.fair_slice = 0,
                        Class::RealTime => self.real_time_yield(cpu, current),
                        Class::Deadline => self.deadline_yield(cpu, current),
                        Class::Idle => {}
                    }
                    current.seen.nvcsw += 1;
                    self.schedule(cpu);
                    self.deliver_kicks(cpu);
                    if self.cpus[cpu].current != current || self.something_comes_first() {
                        return;
                    }
                }
                action @ (Action::Block | Action::BlockOnDisk) => {
                    let on_disk = action == Action::BlockOnDisk;
                    current.seen.in_iowait = if on_disk { IN_IOWAIT } else { 0 };
                    current.seen.__state =
                        if on_disk { TASK_UNINTERRUPTIBLE } else { TASK_INTERRUPTIBLE };
                    current.seen.nvcsw += 1;
                    self.emit(EventKind::Sleep { task: current.id });
                    self.schedule(cpu);
                    return;
                }
                Action::Exit => {
                    current.seen.flags |= PF_EXITING;
                    let is_last = current.is_last_of_its_process();
                    let arguments = [current.address(), u64::from(is_last)];
                    self.trace(Hook::SchedProcessExit, &arguments);
                    current.seen.__state = TASK_DEAD;
                    self.close_files(current);
                    self.emit(EventKind::Exit { task: current.id });
                    self.schedule(cpu);
                    self.finish_dead(current);
                    return;
                }
                Action::Failed => return,
            }
        }
    }

    fn finish_dead(&mut self, mut task: TaskRef) {
        if task.class == Class::Ext {
            self.disable_task(task);
        }
        self.exit_task(task, false);
        task.seen.scx.flags = task.seen.scx.flags & !SCX_TASK_STATE_MASK | SCX_TASK_DEAD;
        task.leave_process();
        task.storage.clear();
        task.deadline.set(0, 0, 0);
        if !is_hidden(task.id) {
            self.tasks.end_one(task);
        }
    }

    /// Picks and switches to the next task of `cpu` (`__schedule`).
    pub(crate) fn schedule(&mut self, cpu: usize) {
        let mut state = self.cpu(cpu);
        state.account_progress(self.clock.now());
        self.settle(OverheadKind::Scheduling);
        let begin = self.local_time();
        let previous = state.current;
        self.keep_on_cpu(cpu, previous);
        self.lock_run_queue(cpu);
        let was = previous.seen.__state;
        let stopped = std::mem::take(&mut state.stopped);
        if previous != state.idle && previous.seen.__state != TASK_RUNNING {
            self.deactivate(cpu, previous);
        }
        let mut rounds = 0;
        let next = loop {
            state.next_class = previous.class;
            self.balance(cpu, previous, stopped);
            match self.pick_next(cpu, previous) {
                Some(next) => break next,
                None if rounds < 8 => rounds += 1,
                None => break state.idle,
            }
        };
        let waits = std::mem::take(&mut state.waits_for_kicks);
        self.context.spent += waits.saturating_sub(self.local_time());
        state.need_resched = false;
        state.next_class = next.class;
        if next != previous {
            if !stopped {
                let successor = Successor { class: next.class, task: next, stopper: false };
                self.put_previous(cpu, previous, successor);
            }
            self.set_next(cpu, previous, next);
        } else if next == state.idle {
            self.update_idle(cpu, true, stopped);
        }
        // Charged first, since the time that the pass took began before its end.
        self.settle(OverheadKind::Scheduling);
        self.emit(EventKind::Pass { cpu: CpuId(cpu as u32), duration: self.local_time() - begin });
        if next != previous {
            self.trace_switch(previous, next, was);
            self.switch(cpu, previous, next);
            match next.class {
                Class::Deadline => self.push_deadline(cpu),
                Class::RealTime => self.push_real_time(cpu),
                Class::Fair | Class::Ext | Class::Idle => {}
            }
        }
        self.unlock_run_queue(cpu);
        self.run_deferred(cpu);
        if next != previous {
            self.switched(cpu, next);
        }
    }

    fn deactivate(&mut self, cpu: usize, mut task: TaskRef) {
        match task.class {
            Class::Ext => self.ext_dequeue(cpu, task, SCX_DEQ_SLEEP | DEQUEUE_NOCLOCK),
            Class::Fair => {
                self.update_fair(cpu, task);
                self.cpus[cpu].rq.nr_running -= 1;
            }
            Class::RealTime => self.real_time_dequeue(cpu, task, 0),
            Class::Deadline => self.deadline_dequeue(cpu, task),
            Class::Idle => {}
        }
        task.seen.on_rq = 0;
    }

    fn pick_next(&mut self, cpu: usize, previous: TaskRef) -> Option<TaskRef> {
        let state = self.cpu(cpu);
        if let Some(next) = self.pick_by_server(cpu, previous) {
            return Some(next);
        }
        let deadline = self.deadline_pick(cpu);
        if let Some(next) = deadline.or_else(|| self.real_time_pick(cpu)) {
            return Some(next);
        }
        if let Some(next) = self.fair_pick(cpu, previous) {
            return Some(next);
        }
        let picked = self.ext_pick(cpu, previous);
        if !state.real_time.is_empty() || !state.deadline.is_empty() {
            return None;
        }
        if picked.is_none() && self.fair_pull(cpu) {
            return self.fair_pick(cpu, previous);
        }
        Some(picked.unwrap_or(state.idle))
    }

    pub(super) fn put_previous(&mut self, cpu: usize, previous: TaskRef, next: Successor) {
        match previous.class {
            Class::Ext => self.ext_put_previous(cpu, previous, next),
            Class::Fair => {
                self.update_fair(cpu, previous);
                if previous.seen.__state == TASK_RUNNING {
                    self.cpus[cpu].fair.push(previous);
                }
            }
            Class::RealTime => self.real_time_put(cpu, previous),
            Class::Deadline => self.deadline_put(cpu, previous),
            Class::Idle => {
                let idle = self.run_queue_clock(cpu) - previous.seen.se.exec_start;
                self.charge_server(cpu, Class::Ext, idle, true);
                self.charge_server(cpu, Class::Fair, idle, true);
                self.update_idle(cpu, false, true);
            }
        }
    }

    fn set_next(&mut self, cpu: usize, mut previous: TaskRef, mut next: TaskRef) {
        let mut state = self.cpu(cpu);
        let now = self.run_queue_clock(cpu);
        previous.seen.on_cpu = 0;
        if previous != state.idle && previous.seen.__state == TASK_RUNNING {
            previous.seen.nivcsw += 1;
        }
        next.seen.on_cpu = 1;
        match next.class {
            Class::Ext => self.ext_set_next(cpu, next),
            Class::Fair => {
                next.seen.se.exec_start = now;
                state.fair.retain(|task| *task != next);
            }
            Class::RealTime => self.real_time_set_next(cpu, next),
            Class::Deadline => self.deadline_set_next(cpu, next),
            Class::Idle => {
                next.seen.se.exec_start = now;
                self.update_idle(cpu, true, true);
            }
        }
        // Up to here, the class still saw the previous task as the current one (`rq->curr`).
        self.set_current(cpu, next);
        state.progress_at = self.clock.now();
    }

    /// Runs the programs attached to a switch. The CPU has its new current task, but still runs in the context of the previous one.
    pub(super) fn trace_switch(&mut self, previous: TaskRef, next: TaskRef, state: u32) {
        if !self.tracing.wants(Hook::SchedSwitch) {
            return;
        }
        self.calls.context = Some(previous);
        // The first argument is false: tasks are preempted on their way out of the kernel, which does not count as preemption.
        let arguments = [0, previous.address(), next.address(), u64::from(state)];
        self.trace(Hook::SchedSwitch, &arguments);
        self.calls.context = None;
        self.settle(OverheadKind::Scheduling);
    }

    /// The switch itself (`context_switch`); after it, `next` executes its first instruction.
    fn switch(&mut self, cpu: usize, mut previous: TaskRef, mut next: TaskRef) {
        self.charge(OverheadKind::Switch, self.settings.cost.context_switch);
        if self.reports.is_open() {
            self.tell_switch(self.local_time(), cpu, previous, next);
        }
        self.context_switches += 1;
        let now = self.run_queue_clock(cpu);
        previous.off_cpu_at = now;
        self.hardware_switched(cpu, previous);
        let mut state = self.cpu(cpu);
        if next == state.idle {
            return;
        }
        let refill = self.refill(cpu, next);
        if refill > 0 {
            state.resume_at = state.resume_at.max(now) + refill;
            self.emit(EventKind::Overhead {
                cpu: CpuId(cpu as u32),
                kind: OverheadKind::Migration,
                duration: refill,
            });
        }
        next.last_ran_on = Some(cpu);
    }

    fn switched(&mut self, cpu: usize, next: TaskRef) {
        let mut state = self.cpu(cpu);
        if next == state.idle {
            state.tick_at = u64::MAX;
            return;
        }
        if state.tick_at == u64::MAX {
            state.tick_at = self.next_tick();
        }
        // A task that just keeps computing needs no event of its own.
        self.begin_run(next);
    }

    fn handle_tick(&mut self, cpu: usize) {
        let mut state = self.cpu(cpu);
        let now = self.clock.now();
        let busy_until = state.kernel_until;
        if busy_until > now {
            state.tick_at = busy_until;
            self.clock.set_cpu(cpu, self.cpus[cpu].next_own());
            return;
        }
        state.tick_at = self.next_tick();
        self.enter(cpu);
        if state.nap.is_some() {
            self.wake_cpu(cpu, true);
        }
        self.cpus[cpu].account_progress(self.clock.now());
        self.context.spent += self.settings.cost.tick;
        self.settle(OverheadKind::Interrupt);
        self.cpus[cpu].update_clock(self.clock.now());
        let current = state.current;
        state.preempt_count = HARDIRQ_OFFSET;
        let run_queue = self.run_queue_address(cpu);
        match current.class {
            Class::Ext => self.ext_tick(cpu, current),
            Class::RealTime => self.real_time_tick(cpu, current),
            Class::Deadline => self.update_deadline(cpu, current),
            Class::Fair => {
                self.update_fair(cpu, current);
                if !state.fair.is_empty() && current.fair_slice == 0 {
                    self.resched(cpu);
                }
            }
            Class::Idle => {}
        }
        self.trace(Hook::ScxTick, &[run_queue]);
        self.trace_return(Hook::ScxTick, &[run_queue], 0);
        state.preempt_count = 0;
        // One that may end just now keeps its place in the order of arrival.
        self.end_sleeps(cpu, cpu, now);
        self.leave(OverheadKind::Scheduling);
    }

    pub(super) fn update_class_time(&mut self, cpu: usize, mut task: TaskRef) -> u64 {
        let now = self.run_queue_clock(cpu);
        let ran = now - task.seen.se.exec_start;
        task.seen.se.exec_start = now;
        task.seen.se.sum_exec_runtime += ran;
        if ran > 0 {
            self.trace(Hook::SchedStatRuntime, &[task.address(), ran]);
        }
        ran
    }
}
