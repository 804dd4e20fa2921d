//! The scheduler core above the classes: wake-ups, rescheduling, the switch, ticks. `kernel/sched/core.c`.

use fairground_events::{CpuId, EventKind, OverheadKind, TaskId};

use crate::clock::Due;
use crate::constants::*;
use crate::cost::CostModel;
use crate::kernel::Kernel;
use crate::program::Action;
use crate::surroundings::is_hidden;
use crate::task::{Class, TaskRef};
use crate::tracing::Hook;

/// Quantum of `SCHED_RR` (`RR_TIMESLICE`).
const ROUND_ROBIN_QUANTUM: u64 = 100_000_000;
/// Slice of the fair class that stands in for the kernel's own scheduler.
const FAIR_SLICE: u64 = 2_800_000;

/// What takes the CPU after a task is put back.
#[derive(Clone, Copy)]
pub(crate) struct Successor {
    /// Its class.
    pub class: Class,
    /// The task, or the idle task for the stopper.
    pub task: TaskRef,
    /// Whether it is the stopper, which moves tasks between CPUs.
    pub stopper: bool,
}

/// Whether an equal of this real-time task is next: it has yielded, or its quantum is used up and, at a tick, filled up again.
fn has_had_its_turn(task: TaskRef) -> bool {
    let filled_up = task.seen.policy == SCHED_RR && task.class_slice == ROUND_ROBIN_QUANTUM;
    task.class_slice == 0 || filled_up
}

impl Kernel<'_> {
    /// Asks `cpu` to go through the scheduler (`resched_curr`).
    pub(crate) fn resched(&mut self, cpu: usize) {
        if self.cpus[cpu].need_resched {
            return;
        }
        self.cpus[cpu].need_resched = true;
        if cpu != self.this_cpu {
            self.resched_from_interrupt(cpu);
        }
    }

    pub(crate) fn resched_from_interrupt(&mut self, cpu: usize) {
        self.cpus[cpu].need_resched = true;
        let time = self.local_time() + self.settings.cost.interrupt;
        self.clock.at(time, Due::Reschedule { cpu: cpu as u32 });
    }

    /// Accounts what the current task of `cpu` did for its program until now.
    pub(crate) fn account_progress(&mut self, cpu: usize) {
        let now = self.clock.now();
        let state = &mut self.cpus[cpu];
        if state.progress_at == now {
            return;
        }
        let from = state.progress_at.max(state.resume_at);
        state.progress_at = now;
        if now > from {
            let capacity = state.capacity;
            let mut current = state.current;
            current.execution.progress(now - from, capacity);
        }
    }

    /// Sets when the current task's program step ends.
    pub(crate) fn arm_completion(&mut self, cpu: usize) {
        self.account_progress(cpu);
        let now = self.clock.now();
        let state = &mut self.cpus[cpu];
        state.completion_at = if state.current == state.idle {
            u64::MAX
        } else {
            let start = state.resume_at.max(now).max(state.progress_at);
            state.current.execution.completes_at(start, state.capacity)
        };
        self.arm(cpu);
    }

    /// Tells the clock when `cpu` has something of its own to do next.
    fn arm(&mut self, cpu: usize) {
        let state = &self.cpus[cpu];
        let time = state.completion_at.min(state.tick_at);
        self.clock.set_cpu(cpu, time);
    }

    /// The tick of `cpu`, or the end of its task's program step.
    pub(crate) fn handle_cpu(&mut self, cpu: usize) {
        let now = self.clock.now();
        if self.cpus[cpu].tick_at <= now {
            self.handle_tick(cpu);
            return;
        }
        self.account_progress(cpu);
        let current = self.cpus[cpu].current;
        if current == self.cpus[cpu].idle
            || self.cpus[cpu].resume_at > now
            || !current.execution.step_is_done(now)
        {
            self.arm_completion(cpu);
            return;
        }
        self.enter(cpu);
        self.continue_program(cpu);
        self.leave(OverheadKind::Scheduling);
    }

    /// Lets the current task of `cpu` go on with its program until it needs time, waits, or ends.
    pub(crate) fn continue_program(&mut self, cpu: usize) {
        while !self.cpus[cpu].need_resched && self.exit.is_none() {
            let mut current = self.cpus[cpu].current;
            match self.advance_program(current) {
                Action::Compute => return,
                Action::Yield => {
                    match current.class {
                        Class::Ext => self.ext_yield(cpu, current),
                        Class::Fair => current.class_slice = 0,
                        Class::RealTime => current.class_slice = 0,
                        Class::Idle => {}
                    }
                    current.seen.nvcsw += 1;
                    self.schedule(cpu);
                    self.deliver_kicks(cpu);
                    if self.cpus[cpu].current != current {
                        return;
                    }
                }
                action @ (Action::Block | Action::BlockOnDisk) => {
                    let on_disk = action == Action::BlockOnDisk;
                    current.seen.in_iowait = if on_disk { IN_IOWAIT } else { 0 };
                    current.seen.__state = if on_disk {
                        TASK_UNINTERRUPTIBLE
                    } else {
                        TASK_INTERRUPTIBLE
                    };
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
        if !is_hidden(task.id) {
            self.live_tasks -= 1;
        }
    }

    /// Wakes `task` (`try_to_wake_up`); `waker` is the task that does it, if one does.
    pub(crate) fn wake(&mut self, mut task: TaskRef, waker: Option<TaskRef>, sync: bool) {
        if matches!(task.seen.__state, TASK_RUNNING | TASK_WAKING | TASK_DEAD) {
            return;
        }
        let mut wake_flags = SCX_WAKE_TTWU;
        if sync {
            wake_flags |= SCX_WAKE_SYNC;
        }
        let call = [task.address(), u64::from(TASK_NORMAL), wake_flags];
        self.trace(Hook::TryToWakeUp, &call);
        self.trace(Hook::SchedWaking, &[task.address()]);
        if let Some(mut waker) = waker {
            // record_wakee(): decay and count flips of the waker's wakee.
            let now = self.clock.now();
            if now > waker.seen.wakee_flip_decay_ts + 1_000_000_000 {
                waker.seen.wakee_flips >>= 1;
                waker.seen.wakee_flip_decay_ts = now;
            }
            if waker.seen.last_wakee as u64 != task.address() {
                waker.seen.last_wakee = task.address() as *mut _;
                waker.seen.wakee_flips += 1;
            }
        }
        task.seen.__state = TASK_WAKING;
        let waker = waker.map(|waker| waker.id);
        let leaves = task.off_cpu_at > self.local_time();
        if leaves && self.may_queue_wakeup(task, task.cpu()) {
            // It is still on its way off its CPU, which is not waited for.
            self.queue_wakeup(task, task.cpu(), false, waker);
        } else {
            self.wait_until_off_cpu(task);
            let (cpu, selected) = self.select_waking_cpu(task, wake_flags);
            let comes = task.cpu() != cpu;
            self.set_task_cpu(task, cpu);
            if self.may_queue_wakeup(task, cpu) {
                self.queue_wakeup(task, cpu, comes, waker);
            } else {
                let flags = SCX_ENQ_WAKEUP | if selected { SCX_ENQ_CPU_SELECTED } else { 0 };
                self.lock_run_queue(cpu);
                self.finish_wakeup(cpu, task, flags);
                self.emit_wake(task, cpu, waker);
                self.unlock_run_queue(cpu);
                self.run_deferred(cpu);
            }
        }
        self.trace_return(Hook::TryToWakeUp, &call, 1);
    }

    fn emit_wake(&mut self, task: TaskRef, cpu: usize, waker: Option<TaskId>) {
        self.emit(EventKind::Wake {
            task: task.id,
            cpu: CpuId(cpu as u32),
            waker,
        });
    }

    /// `ttwu_do_activate`.
    fn finish_wakeup(&mut self, cpu: usize, mut task: TaskRef, flags: u64) {
        self.activate(cpu, task, flags);
        self.wakeup_preempt(cpu, task);
        task.seen.__state = TASK_RUNNING;
        self.trace(Hook::SchedWakeup, &[task.address()]);
    }

    /// Whether the wake-up of `task` may be handed to `cpu` (`ttwu_queue_cond`). Tasks of other classes are woken directly here.
    fn may_queue_wakeup(&self, task: TaskRef, cpu: usize) -> bool {
        if self.operations.flags & SCX_OPS_ALLOW_QUEUED_WAKEUP == 0
            || task.class != Class::Ext
            || !self.cpus[cpu].online
            || !task.allowed().test(cpu)
        {
            return false;
        }
        let cache = |cpu: usize| self.topology.cache_of[cpu];
        cache(self.this_cpu) != cache(cpu)
            || cpu != self.this_cpu && self.cpus[cpu].rq.nr_running == 0
    }

    /// Hands a wake-up to the CPU that the task goes to (`__ttwu_queue_wakelist`).
    fn queue_wakeup(&mut self, task: TaskRef, cpu: usize, comes: bool, waker: Option<TaskId>) {
        self.emit_wake(task, cpu, waker);
        self.cpus[cpu].wake_list.push((task, comes));
        if self.cpus[cpu].wake_list.len() == 1 {
            let time = self.local_time() + self.settings.cost.interrupt;
            self.clock.at(time, Due::Wakeups { cpu: cpu as u32 });
        }
    }

    /// Wake-ups that were handed to a CPU arrive there (`sched_ttwu_pending`).
    pub(crate) fn handle_wakeups(&mut self, cpu: usize, due: Due) {
        let left = self.cpus[cpu].wake_list.iter();
        let left = left.map(|(task, _)| task.off_cpu_at).max().unwrap_or(0);
        if self.postponed(cpu, due) {
            return;
        }
        if left > self.clock.now() {
            self.clock.at(left, due);
            return;
        }
        self.interrupt(cpu);
        self.finish_wakeups(cpu);
        self.leave(OverheadKind::Scheduling);
    }

    /// Finishes the wake-ups that were handed to `cpu`.
    pub(crate) fn finish_wakeups(&mut self, cpu: usize) {
        let tasks = std::mem::take(&mut self.cpus[cpu].wake_list);
        if tasks.is_empty() {
            return;
        }
        self.lock_run_queue(cpu);
        for (task, comes) in tasks {
            let flags = SCX_ENQ_WAKEUP | if comes { ENQUEUE_MIGRATED } else { 0 };
            self.finish_wakeup(cpu, task, flags);
        }
        self.unlock_run_queue(cpu);
        self.run_deferred(cpu);
    }

    /// Chooses the CPU for a task that wakes up, with what the wake-up costs the waker.
    fn select_waking_cpu(&mut self, task: TaskRef, wake_flags: u64) -> (usize, bool) {
        let (here, elsewhere) = (self.settings.cost.wakeup, self.settings.cost.wakeup_remote);
        self.spent += here.min(elsewhere);
        let (cpu, selected) = self.select_cpu(task, task.cpu(), wake_flags);
        let cost = if cpu == self.this_cpu {
            here
        } else {
            elsewhere
        };
        self.spent += cost - here.min(elsewhere);
        (cpu, selected)
    }

    /// Wakes a task that was just forked (`wake_up_new_task`).
    pub(crate) fn wake_new(&mut self, mut task: TaskRef) {
        self.trace(Hook::WakeUpNewTask, &[task.address()]);
        task.seen.__state = TASK_RUNNING;
        let (cpu, _) = self.select_waking_cpu(task, SCX_WAKE_FORK);
        let waker = self.cpus[self.this_cpu].current;
        let waker = (waker != self.cpus[self.this_cpu].idle).then_some(waker.id);
        task.seen.thread_info.cpu = cpu as u32;
        task.seen.wake_cpu = cpu as i32;
        self.lock_run_queue(cpu);
        // Unlike a wake-up, a fork does not tell the enqueue that a CPU was chosen.
        self.activate(cpu, task, SCX_ENQ_INITIAL);
        self.trace(Hook::SchedWakeupNew, &[task.address()]);
        self.wakeup_preempt(cpu, task);
        self.emit_wake(task, cpu, waker);
        self.unlock_run_queue(cpu);
        self.run_deferred(cpu);
        self.trace_return(Hook::WakeUpNewTask, &[task.address()], 0);
    }

    fn activate(&mut self, cpu: usize, mut task: TaskRef, flags: u64) {
        task.seen.on_rq = 1;
        match task.class {
            Class::Ext => self.ext_enqueue(cpu, task, flags),
            Class::Fair => self.fair_enqueue(cpu, task, flags & SCX_ENQ_WAKEUP != 0),
            Class::RealTime => self.real_time_enqueue(cpu, task, false),
            Class::Idle => {}
        }
    }

    /// `wakeup_preempt`: whether the arrival of `task` on `cpu` makes it reschedule.
    pub(crate) fn wakeup_preempt(&mut self, cpu: usize, task: TaskRef) {
        let next_class = self.cpus[cpu].next_class;
        if task.class > next_class {
            if task.class > Class::Ext && self.cpus[cpu].rq.scx.nr_immed > 0 {
                self.schedule_local_reenqueue(cpu, 0);
            }
            self.cpus[cpu].next_class = task.class;
            self.resched(cpu);
        } else if task.class == next_class {
            let current = self.cpus[cpu].current;
            let preempts = match task.class {
                Class::RealTime => task.seen.prio < current.seen.prio,
                Class::Fair => {
                    current.class == Class::Fair
                        && (current.fair_vruntime.wrapping_sub(task.fair_vruntime) as i64)
                            > FAIR_SLICE as i64
                }
                Class::Ext | Class::Idle => false,
            };
            if preempts {
                self.resched(cpu);
            }
        }
    }

    fn select_cpu(&mut self, mut task: TaskRef, previous: usize, wake_flags: u64) -> (usize, bool) {
        let (mut cpu, mut selected) = (previous, false);
        if task.seen.nr_cpus_allowed > 1 && task.seen.migration_disabled == 0 {
            cpu = match task.class {
                Class::Ext => self.ext_select_cpu(task, previous, wake_flags),
                Class::RealTime => self.real_time_select_cpu(task, previous),
                Class::Fair => self.fair_select_cpu(task, previous),
                Class::Idle => previous,
            };
            selected = true;
        } else if let Some(only) = task.allowed().first() {
            cpu = only;
        }
        if !task.allowed().test(cpu) || !self.cpus[cpu].online {
            cpu = self.fallback_cpu(task, cpu);
        }
        task.seen.wake_cpu = cpu as i32;
        (cpu, selected)
    }

    /// An allowed online CPU, near `cpu` if possible; affinity is dropped if there is none (`select_fallback_rq`).
    pub(crate) fn fallback_cpu(&mut self, mut task: TaskRef, cpu: usize) -> usize {
        let node = self.machine.cpus[cpu].node;
        let usable =
            |kernel: &Self, other: usize| kernel.cpus[other].online && task.allowed().test(other);
        let near = task.allowed().iter().find(|&other| {
            other < self.cpus.len() && usable(self, other) && self.machine.cpus[other].node == node
        });
        let any = near.or_else(|| {
            task.allowed()
                .iter()
                .find(|&other| other < self.cpus.len() && usable(self, other))
        });
        if let Some(any) = any {
            return any;
        }
        task.seen.cpus_mask = self.possible;
        task.seen.nr_cpus_allowed = self.cpus.len() as i32;
        self.emit_task(task);
        if task.class == Class::Ext {
            self.call_set_cpumask(task);
        }
        let online = (0..self.cpus.len()).find(|&other| self.cpus[other].online);
        online.unwrap_or(cpu)
    }

    pub(crate) fn set_task_cpu(&mut self, mut task: TaskRef, cpu: usize) {
        let from = task.cpu();
        if from != cpu {
            self.trace(Hook::SchedMigrateTask, &[task.address(), cpu as u64]);
            task.seen.thread_info.cpu = cpu as u32;
            task.seen.wake_cpu = cpu as i32;
            task.seen.se.nr_migrations += 1;
            self.emit(EventKind::Migrate {
                task: task.id,
                from: CpuId(from as u32),
                to: CpuId(cpu as u32),
            });
        }
    }

    /// Picks and switches to the next task of `cpu` (`__schedule`).
    pub(crate) fn schedule(&mut self, cpu: usize) {
        self.account_progress(cpu);
        self.settle(OverheadKind::Scheduling);
        let begin = self.local_time();
        self.lock_run_queue(cpu);
        let previous = self.cpus[cpu].current;
        let state = previous.seen.__state;
        let stopped = std::mem::take(&mut self.cpus[cpu].stopped);
        if previous != self.cpus[cpu].idle && previous.seen.__state != TASK_RUNNING {
            self.deactivate(cpu, previous);
        }
        let mut rounds = 0;
        let next = loop {
            self.cpus[cpu].next_class = previous.class;
            match self.pick_next(cpu, previous) {
                Some(next) => break next,
                None if rounds < 8 => rounds += 1,
                None => break self.cpus[cpu].idle,
            }
        };
        let waits = std::mem::take(&mut self.cpus[cpu].waits_for_kicks);
        self.spent += waits.saturating_sub(self.local_time());
        self.cpus[cpu].need_resched = false;
        self.cpus[cpu].next_class = next.class;
        if next != previous {
            if !stopped {
                self.put_previous(
                    cpu,
                    previous,
                    Successor {
                        class: next.class,
                        task: next,
                        stopper: false,
                    },
                );
            }
            self.set_next(cpu, previous, next);
        } else if next == self.cpus[cpu].idle {
            self.update_idle(cpu, true, stopped);
        }
        self.emit(EventKind::Pass {
            cpu: CpuId(cpu as u32),
            duration: self.local_time() - begin,
        });
        self.settle(OverheadKind::Scheduling);
        if next != previous {
            self.trace_switch(previous, next, state);
            self.switch(cpu, previous, next);
        }
        self.unlock_run_queue(cpu);
        self.run_deferred(cpu);
        if next != previous {
            self.switched(cpu, next);
        }
    }

    fn deactivate(&mut self, cpu: usize, mut task: TaskRef) {
        match task.class {
            Class::Ext => self.ext_dequeue(cpu, task, SCX_DEQ_SLEEP),
            Class::Fair => self.update_fair(cpu, task),
            Class::RealTime | Class::Idle => {}
        }
        if task.class != Class::Ext {
            self.cpus[cpu].rq.nr_running -= 1;
        }
        task.seen.on_rq = 0;
    }

    fn pick_next(&mut self, cpu: usize, previous: TaskRef) -> Option<TaskRef> {
        if let Some(next) = self.pick_by_deadline_server(cpu, previous) {
            return Some(next);
        }
        if let Some(next) = self.real_time_pick(cpu, previous) {
            return Some(next);
        }
        if let Some(next) = self.fair_pick(cpu, previous) {
            return Some(next);
        }
        let picked = self.ext_pick(cpu, previous);
        if !self.cpus[cpu].real_time.is_empty() {
            return None;
        }
        Some(picked.unwrap_or(self.cpus[cpu].idle))
    }

    fn put_previous(&mut self, cpu: usize, previous: TaskRef, next: Successor) {
        match previous.class {
            Class::Ext => self.ext_put_previous(cpu, previous, next),
            Class::Fair => {
                self.update_fair(cpu, previous);
                if previous.seen.__state == TASK_RUNNING {
                    self.cpus[cpu].fair.push(previous);
                }
            }
            Class::RealTime => self.real_time_put(cpu, previous),
            Class::Idle => {
                let idle = self.run_queue_clock(cpu) - previous.seen.se.exec_start;
                self.charge_deadline_server(cpu, idle, true);
                self.update_idle(cpu, false, true);
            }
        }
    }

    fn set_next(&mut self, cpu: usize, mut previous: TaskRef, mut next: TaskRef) {
        let now = self.run_queue_clock(cpu);
        previous.seen.on_cpu = 0;
        if previous != self.cpus[cpu].idle && previous.seen.__state == TASK_RUNNING {
            previous.seen.nivcsw += 1;
        }
        next.seen.on_cpu = 1;
        match next.class {
            Class::Ext => self.ext_set_next(cpu, next),
            Class::Fair => {
                next.seen.se.exec_start = now;
                self.cpus[cpu].fair.retain(|task| *task != next);
            }
            Class::RealTime => {
                next.seen.se.exec_start = now;
                self.cpus[cpu].real_time.retain(|task| *task != next);
            }
            Class::Idle => {
                next.seen.se.exec_start = now;
                self.update_idle(cpu, true, true);
            }
        }
        // What the class has called so far still saw who leaves as the current task (`rq->curr`).
        self.set_current(cpu, next);
        self.cpus[cpu].progress_at = self.clock.now();
    }

    /// Runs the programs that are there for a switch. The CPU has a new current task and still works in the context of the one before.
    fn trace_switch(&mut self, previous: TaskRef, next: TaskRef, state: u32) {
        if !self.tracing.wants(Hook::SchedSwitch) {
            return;
        }
        self.leaving = Some(previous);
        // Tasks are preempted on their way out of the kernel, which counts as no preemption.
        let arguments = [0, previous.address(), next.address(), u64::from(state)];
        self.trace(Hook::SchedSwitch, &arguments);
        self.leaving = None;
        self.settle(OverheadKind::Scheduling);
    }

    /// The switch itself (`context_switch`): behind it, `next` executes its first instruction.
    fn switch(&mut self, cpu: usize, mut previous: TaskRef, mut next: TaskRef) {
        self.charge(cpu, OverheadKind::Switch, self.settings.cost.context_switch);
        let idle = self.cpus[cpu].idle;
        let id = |task: TaskRef| (task != idle).then_some(task.id);
        self.emit(EventKind::Switch {
            cpu: CpuId(cpu as u32),
            prev: id(previous),
            next: id(next),
        });
        self.tell_loader_switch(cpu, previous, next);
        self.context_switches += 1;
        let now = self.run_queue_clock(cpu);
        previous.off_cpu_at = now;
        if next == idle {
            return;
        }
        if let Some(last) = next.last_ran_on
            && last != cpu
        {
            let refill =
                CostModel::by_distance(&self.settings.cost.migration, self.distance(last, cpu));
            if refill > 0 {
                let state = &mut self.cpus[cpu];
                state.resume_at = state.resume_at.max(now) + refill;
                self.emit(EventKind::Overhead {
                    cpu: CpuId(cpu as u32),
                    kind: OverheadKind::Migration,
                    duration: refill,
                });
            }
        }
        next.last_ran_on = Some(cpu);
    }

    fn switched(&mut self, cpu: usize, next: TaskRef) {
        if next == self.cpus[cpu].idle {
            self.cpus[cpu].tick_at = u64::MAX;
            return;
        }
        if self.cpus[cpu].tick_at == u64::MAX {
            self.cpus[cpu].tick_at = self.next_tick();
        }
        // A task that only goes on computing needs no event of its own for that.
        self.begin_run(next);
    }

    fn handle_tick(&mut self, cpu: usize) {
        let now = self.clock.now();
        let busy_until = self.cpus[cpu].kernel_until;
        if busy_until > now {
            self.cpus[cpu].tick_at = busy_until;
            self.arm(cpu);
            return;
        }
        self.cpus[cpu].tick_at = self.next_tick();
        self.enter(cpu);
        self.account_progress(cpu);
        self.spent += self.settings.cost.tick;
        self.settle(OverheadKind::Interrupt);
        self.update_clock(cpu);
        let mut current = self.cpus[cpu].current;
        self.cpus[cpu].preempt_count = HARDIRQ_OFFSET;
        let run_queue = self.run_queue_address(cpu);
        match current.class {
            Class::Ext => self.ext_tick(cpu, current),
            Class::RealTime => {
                self.update_class_time(cpu, current);
                if current.seen.policy == SCHED_RR && current.class_slice == 0 {
                    current.class_slice = ROUND_ROBIN_QUANTUM;
                    if self.cpus[cpu]
                        .real_time
                        .iter()
                        .any(|task| task.seen.prio == current.seen.prio)
                    {
                        self.resched(cpu);
                    }
                }
            }
            Class::Fair => {
                self.update_fair(cpu, current);
                if !self.cpus[cpu].fair.is_empty() && current.class_slice == 0 {
                    self.resched(cpu);
                }
            }
            Class::Idle => {}
        }
        self.trace(Hook::ScxTick, &[run_queue]);
        self.trace_return(Hook::ScxTick, &[run_queue], 0);
        self.cpus[cpu].preempt_count = 0;
        // One that may end just now keeps its place in the order of arrival.
        self.end_sleeps(cpu, cpu, now);
        self.leave(OverheadKind::Scheduling);
    }

    fn update_class_time(&mut self, cpu: usize, mut task: TaskRef) -> u64 {
        let now = self.run_queue_clock(cpu);
        let ran = now - task.seen.se.exec_start;
        task.seen.se.exec_start = now;
        task.seen.se.sum_exec_runtime += ran;
        if ran > 0 {
            self.trace(Hook::SchedStatRuntime, &[task.address(), ran]);
        }
        if task.seen.policy != SCHED_FIFO {
            task.class_slice = task.class_slice.saturating_sub(ran);
        }
        ran
    }

    fn update_fair(&mut self, cpu: usize, mut task: TaskRef) {
        let ran = self.update_class_time(cpu, task);
        task.fair_vruntime += ran * 1024 / task.seen.se.load.weight.max(1);
        let least = self.cpus[cpu]
            .fair
            .iter()
            .map(|task| task.fair_vruntime)
            .chain([task.fair_vruntime])
            .min();
        if let Some(least) = least {
            self.cpus[cpu].fair_min_vruntime = self.cpus[cpu].fair_min_vruntime.max(least);
        }
    }

    fn fair_enqueue(&mut self, cpu: usize, mut task: TaskRef, waking: bool) {
        let floor = self.cpus[cpu].fair_min_vruntime;
        let credit = if waking { FAIR_SLICE } else { 0 };
        task.fair_vruntime = task.fair_vruntime.max(floor.saturating_sub(credit));
        self.cpus[cpu].fair.push(task);
        self.cpus[cpu].rq.nr_running += 1;
    }

    fn fair_select_cpu(&mut self, task: TaskRef, previous: usize) -> usize {
        let load = |kernel: &Self, cpu: usize| {
            kernel.cpus[cpu].rq.nr_running + u32::from(kernel.cpus[cpu].current.class > Class::Fair)
        };
        if task.allowed().test(previous) && load(self, previous) == 0 {
            return previous;
        }
        task.allowed()
            .iter()
            .take_while(|&cpu| cpu < self.cpus.len())
            .filter(|&cpu| self.cpus[cpu].online)
            .min_by_key(|&cpu| (load(self, cpu), cpu != previous))
            .unwrap_or(previous)
    }

    fn fair_pick(&mut self, cpu: usize, previous: TaskRef) -> Option<TaskRef> {
        let least = self.cpus[cpu]
            .fair
            .iter()
            .copied()
            .min_by_key(|task| (task.fair_vruntime, task.id));
        let stays = previous.class == Class::Fair && previous.seen.__state == TASK_RUNNING;
        let mut next = match least {
            Some(least)
                if !stays
                    || previous.class_slice == 0
                    || (previous.fair_vruntime.wrapping_sub(least.fair_vruntime) as i64)
                        > FAIR_SLICE as i64 =>
            {
                least
            }
            _ if stays => previous,
            _ => return None,
        };
        if next != previous || next.class_slice == 0 {
            next.class_slice = FAIR_SLICE;
        }
        Some(next)
    }

    fn real_time_enqueue(&mut self, cpu: usize, task: TaskRef, at_head: bool) {
        let queue = &mut self.cpus[cpu].real_time;
        if at_head {
            queue.insert(0, task)
        } else {
            queue.push(task)
        }
        self.cpus[cpu].rq.nr_running += 1;
    }

    fn real_time_put(&mut self, cpu: usize, mut task: TaskRef) {
        self.update_class_time(cpu, task);
        if task.seen.__state == TASK_RUNNING {
            // Preempted tasks stay in front of their equals; a used-up quantum or a yield goes to the back.
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

    /// The lowest-priority CPU that is allowed, the previous one if it is good enough (`find_lowest_rq`).
    fn real_time_select_cpu(&mut self, task: TaskRef, previous: usize) -> usize {
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

    fn real_time_pick(&mut self, cpu: usize, previous: TaskRef) -> Option<TaskRef> {
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

    /// Runs `change` on a task with the task taken off and put back as attribute changes do (`sched_change`).
    pub(crate) fn with_change(
        &mut self,
        mut task: TaskRef,
        change: impl FnOnce(&mut Self, TaskRef),
    ) {
        let cpu = task.cpu();
        let running = self.cpus[cpu].current == task;
        let queued = task.seen.on_rq != 0;
        if running {
            self.account_progress(cpu);
        }
        if queued {
            match task.class {
                Class::Ext => self.ext_dequeue(cpu, task, DEQUEUE_SAVE),
                Class::Fair => {
                    if running {
                        self.update_fair(cpu, task);
                    }
                    self.cpus[cpu].fair.retain(|other| *other != task);
                    self.cpus[cpu].rq.nr_running -= 1;
                }
                Class::RealTime => {
                    if running {
                        self.update_class_time(cpu, task);
                    }
                    self.cpus[cpu].real_time.retain(|other| *other != task);
                    self.cpus[cpu].rq.nr_running -= 1;
                }
                Class::Idle => {}
            }
        }
        if running && task.class == Class::Ext {
            self.update_current(cpu);
        }
        let before = task.class;
        change(self, task);
        if before == Class::Ext && task.class != Class::Ext {
            self.disable_task(task);
        } else if before != Class::Ext && task.class == Class::Ext {
            self.enable_task(task);
            self.call_set_cpumask(task);
        }
        if queued {
            match task.class {
                Class::Ext => self.ext_enqueue(cpu, task, ENQUEUE_RESTORE),
                Class::Fair if running => self.cpus[cpu].rq.nr_running += 1,
                Class::Fair => self.fair_enqueue(cpu, task, false),
                Class::RealTime if running => self.cpus[cpu].rq.nr_running += 1,
                Class::RealTime => self.real_time_enqueue(cpu, task, false),
                Class::Idle => {}
            }
        }
        if running {
            match task.class {
                Class::Ext => self.ext_set_next(cpu, task),
                _ => task.seen.se.exec_start = self.run_queue_clock(cpu),
            }
        }
        if before != task.class {
            self.cpus[cpu].next_class = if running {
                task.class
            } else {
                self.cpus[cpu].next_class
            };
            if task.class == Class::RealTime || task.class == Class::Fair {
                task.class_slice = if task.class == Class::Fair {
                    FAIR_SLICE
                } else {
                    ROUND_ROBIN_QUANTUM
                };
            }
            if queued && running {
                self.resched(cpu);
            } else if queued {
                self.wakeup_preempt(cpu, task);
            }
        }
    }

    /// Moves a task that may no longer run where it is (`migration_cpu_stop`).
    pub(crate) fn push_off(&mut self, mut task: TaskRef) {
        let from = task.cpu();
        let running = self.cpus[from].current == task;
        let to = self.fallback_cpu(task, from);
        if running {
            // The stopper runs instead of it for a moment.
            self.account_progress(from);
            let idle = self.cpus[from].idle;
            self.put_previous(
                from,
                task,
                Successor {
                    class: Class::RealTime,
                    task: idle,
                    stopper: true,
                },
            );
            self.set_current(from, idle);
            task.seen.on_cpu = 0;
            let time = self.run_queue_clock(from).max(self.local_time());
            let leaves = EventKind::Switch {
                cpu: CpuId(from as u32),
                prev: Some(task.id),
                next: None,
            };
            self.emit_at(time, leaves);
            self.tell_loader_switch(from, task, idle);
            task.off_cpu_at = time;
            self.cpus[from].next_class = Class::Idle;
            self.cpus[from].stopped = true;
        }
        // The target finds the task no earlier than it has left where it was.
        self.wait_until_off_cpu(task);
        self.lock_run_queue(to);
        match task.class {
            Class::Ext => {
                task.seen.on_rq = TASK_ON_RQ_MIGRATING;
                self.ext_dequeue(from, task, DEQUEUE_NOCLOCK);
                self.set_task_cpu(task, to);
                self.ext_enqueue(to, task, ENQUEUE_MIGRATED);
                task.seen.on_rq = TASK_ON_RQ_QUEUED;
            }
            Class::Fair => {
                self.cpus[from].fair.retain(|other| *other != task);
                self.cpus[from].rq.nr_running -= 1;
                self.set_task_cpu(task, to);
                self.fair_enqueue(to, task, false);
            }
            Class::RealTime => {
                self.cpus[from].real_time.retain(|other| *other != task);
                self.cpus[from].rq.nr_running -= 1;
                self.set_task_cpu(task, to);
                self.real_time_enqueue(to, task, false);
            }
            Class::Idle => {}
        }
        self.wakeup_preempt(to, task);
        if running {
            self.resched(from);
        }
        self.unlock_run_queue(to);
        self.run_deferred(to);
    }
}
