//! Wake-ups: how a task gets a CPU, and the work on that CPU (`try_to_wake_up()`).

use fairground_events::{CpuId, EventKind, OverheadKind, TaskId};

use super::deadline::Arrival;
use super::fair::FAIR_SLICE;
use crate::clock::Due;
use crate::constants::*;
use crate::kernel::Kernel;
use crate::task::{Class, TaskRef};
use crate::tracing::Hook;

impl Kernel<'_> {
    /// Wakes `task` (`try_to_wake_up`); `waker` is the waking task, if there is one.
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
            // It is still on its way off its CPU; the waker does not wait for that.
            self.queue_wakeup(task, task.cpu(), false, waker);
        } else {
            self.wait_until_off_cpu(task);
            let (cpu, selected) = self.select_waking_cpu(task, wake_flags);
            let comes = task.cpu() != cpu;
            self.set_task_cpu(task, cpu);
            if self.may_queue_wakeup(task, cpu) {
                self.queue_wakeup(task, cpu, comes, waker);
            } else {
                let selected = if selected { SCX_ENQ_CPU_SELECTED } else { 0 };
                self.lock_run_queue(cpu);
                self.finish_wakeup(cpu, task, comes, selected);
                self.emit_wake(task, cpu, waker);
                self.woken(cpu, task);
                self.unlock_run_queue(cpu);
                self.run_deferred(cpu);
            }
        }
        self.trace_return(Hook::TryToWakeUp, &call, 1);
    }

    #[inline(always)]
    fn emit_wake(&mut self, task: TaskRef, cpu: usize, waker: Option<TaskId>) {
        self.emit(EventKind::Wake { task: task.id, cpu: CpuId(cpu as u32), waker });
    }

    /// `ttwu_do_activate`; the task `comes` from another CPU or not.
    fn finish_wakeup(&mut self, cpu: usize, mut task: TaskRef, comes: bool, selected: u64) {
        let flags = SCX_ENQ_WAKEUP | ENQUEUE_NOCLOCK | selected;
        let flags = flags | if comes { ENQUEUE_MIGRATED } else { 0 };
        self.activate(cpu, task, flags);
        self.wakeup_preempt(cpu, task);
        task.seen.__state = TASK_RUNNING;
        self.trace(Hook::SchedWakeup, &[task.address()]);
    }

    /// The actions of a woken task's class for the task and for the tasks that it keeps waiting (`task_woken`).
    #[inline(always)]
    fn woken(&mut self, cpu: usize, task: TaskRef) {
        match task.class {
            Class::Deadline => self.deadline_woken(cpu, task),
            Class::RealTime => self.real_time_woken(cpu, task),
            Class::Fair | Class::Ext | Class::Idle => {}
        }
    }

    /// Whether the wake-up of `task` may be handed to `cpu` (`ttwu_queue_cond`). Tasks of other classes are always woken directly here.
    fn may_queue_wakeup(&self, task: TaskRef, cpu: usize) -> bool {
        if self.operations.flags & SCX_OPS_ALLOW_QUEUED_WAKEUP == 0
            || task.class != Class::Ext
            || !self.cpus[cpu].online
            || !task.allowed().test(cpu)
        {
            return false;
        }
        let cache = |cpu: usize| self.topology.cache_of[cpu];
        cache(self.context.cpu) != cache(cpu)
            || cpu != self.context.cpu && self.cpus[cpu].rq.nr_running == 0
    }

    /// Hands a wake-up to the CPU that the task goes to (`__ttwu_queue_wakelist`).
    fn queue_wakeup(&mut self, task: TaskRef, cpu: usize, comes: bool, waker: Option<TaskId>) {
        let mut state = self.cpu(cpu);
        self.emit_wake(task, cpu, waker);
        state.wake_list.push((task, comes));
        if state.wake_list.len() == 1 {
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
            self.finish_wakeup(cpu, task, comes, 0);
        }
        self.unlock_run_queue(cpu);
        self.run_deferred(cpu);
    }

    /// Chooses the CPU for a waking task, and charges the waker for the wake-up.
    fn select_waking_cpu(&mut self, task: TaskRef, wake_flags: u64) -> (usize, bool) {
        let (here, elsewhere) = (self.settings.cost.wakeup, self.settings.cost.wakeup_remote);
        self.context.spent += here.min(elsewhere);
        let (cpu, selected) = self.select_cpu(task, task.cpu(), wake_flags);
        let cost = if cpu == self.context.cpu { here } else { elsewhere };
        self.context.spent += cost - here.min(elsewhere);
        (cpu, selected)
    }

    /// Wakes a task that was just forked (`wake_up_new_task`).
    pub(crate) fn wake_new(&mut self, mut task: TaskRef) {
        self.trace(Hook::WakeUpNewTask, &[task.address()]);
        task.seen.__state = TASK_RUNNING;
        let (cpu, _) = self.select_waking_cpu(task, SCX_WAKE_FORK);
        let waker = self.cpus[self.context.cpu].current;
        let waker = (waker != self.cpus[self.context.cpu].idle).then_some(waker.id);
        task.seen.thread_info.cpu = cpu as u32;
        task.seen.wake_cpu = cpu as i32;
        self.lock_run_queue(cpu);
        // Unlike a wake-up, a fork does not tell the enqueue that a CPU was chosen.
        self.activate(cpu, task, SCX_ENQ_INITIAL | ENQUEUE_NOCLOCK);
        self.trace(Hook::SchedWakeupNew, &[task.address()]);
        self.wakeup_preempt(cpu, task);
        self.emit_wake(task, cpu, waker);
        self.woken(cpu, task);
        self.unlock_run_queue(cpu);
        self.run_deferred(cpu);
        self.trace_return(Hook::WakeUpNewTask, &[task.address()], 0);
    }

    fn activate(&mut self, cpu: usize, mut task: TaskRef, flags: u64) {
        task.seen.on_rq = 1;
        match task.class {
            Class::Ext => self.ext_enqueue(cpu, task, flags),
            Class::Fair => self.fair_enqueue(cpu, task, flags & SCX_ENQ_WAKEUP != 0),
            Class::RealTime => self.real_time_enqueue(cpu, task, 0),
            Class::Deadline => self.deadline_enqueue(cpu, task, Arrival::Wakes),
            Class::Idle => {}
        }
    }

    /// `wakeup_preempt`: whether the arrival of `task` on `cpu` makes it reschedule.
    pub(crate) fn wakeup_preempt(&mut self, cpu: usize, task: TaskRef) {
        let mut state = self.cpu(cpu);
        let next_class = state.next_class;
        if task.class > next_class {
            if task.class > Class::Ext && state.rq.scx.nr_immed > 0 {
                self.schedule_local_reenqueue(cpu, 0);
            }
            state.next_class = task.class;
            self.resched(cpu);
        } else if task.class == next_class {
            let current = state.current;
            match task.class {
                Class::Deadline => self.deadline_wakeup_preempt(cpu, task),
                Class::RealTime => self.real_time_wakeup_preempt(cpu, task),
                Class::Fair
                    if current.class == Class::Fair
                        && (current.fair_vruntime.wrapping_sub(task.fair_vruntime) as i64)
                            > FAIR_SLICE as i64 =>
                {
                    self.resched(cpu);
                }
                Class::Fair | Class::Ext | Class::Idle => {}
            }
        }
    }

    fn select_cpu(&mut self, mut task: TaskRef, previous: usize, wake_flags: u64) -> (usize, bool) {
        let (mut cpu, mut selected) = (previous, false);
        if task.seen.nr_cpus_allowed > 1 && task.seen.migration_disabled == 0 {
            cpu = match task.class {
                Class::Ext => self.ext_select_cpu(task, previous, wake_flags),
                Class::Deadline if wake_flags & SCX_WAKE_TTWU != 0 => {
                    self.deadline_select_cpu(task, previous)
                }
                Class::Deadline => previous,
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
    pub(crate) fn fallback_cpu(&mut self, task: TaskRef, cpu: usize) -> usize {
        let node = self.machine.cpus[cpu].node;
        let usable =
            |kernel: &Self, other: usize| kernel.cpus[other].online && task.allowed().test(other);
        let near = task.allowed().iter().find(|&other| {
            other < self.cpus.len() && usable(self, other) && self.machine.cpus[other].node == node
        });
        let any = near.or_else(|| {
            task.allowed().iter().find(|&other| other < self.cpus.len() && usable(self, other))
        });
        if let Some(any) = any {
            return any;
        }
        self.set_allowed(task, self.possible);
        let online = (0..self.cpus.len()).find(|&other| self.cpus[other].online);
        online.unwrap_or(cpu)
    }

    #[inline(always)]
    pub(crate) fn set_task_cpu(&mut self, task: TaskRef, cpu: usize) {
        if task.cpu() != cpu {
            self.migrate(task, cpu);
        }
    }

    #[inline(never)]
    fn migrate(&mut self, mut task: TaskRef, cpu: usize) {
        let (from, to) = (CpuId(task.cpu() as u32), CpuId(cpu as u32));
        self.trace(Hook::SchedMigrateTask, &[task.address(), cpu as u64]);
        task.seen.thread_info.cpu = cpu as u32;
        task.seen.wake_cpu = cpu as i32;
        task.seen.se.nr_migrations += 1;
        self.emit(EventKind::Migrate { task: task.id, from, to });
    }
}
