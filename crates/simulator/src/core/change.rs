//! Changes of a task's policy, nice value or affinity, and moving it off a CPU that it may no longer use.

use super::deadline::Arrival;
use super::fair::FAIR_SLICE;
use crate::clock::Due;
use crate::constants::*;
use crate::core::Successor;
use crate::kernel::Kernel;
use crate::structures::CpuMask;
use crate::task::{Class, TaskRef};

impl Kernel<'_> {
    /// Runs `change` on a task that is dequeued before and enqueued after, as for any change of attributes (`sched_change_begin`,
    /// `sched_change_end`). The task is in class `to` afterwards; `flags` are those of the kernel's caller.
    pub(crate) fn with_change(
        &mut self,
        mut task: TaskRef,
        flags: u64,
        to: Class,
        change: impl FnOnce(&mut Self, TaskRef),
    ) {
        let cpu = task.cpu();
        let from = task.class;
        let running = self.cpus[cpu].current == task;
        let queued = task.seen.on_rq != 0;
        self.lock_run_queue(cpu);
        let mut flags = flags | DEQUEUE_NOCLOCK;
        if from != to {
            flags |= DEQUEUE_CLASS;
        }
        if running {
            self.cpus[cpu].account_progress(self.clock.now());
        }
        if queued {
            self.take_off(cpu, task, flags);
        }
        if running && from == Class::Ext {
            // put_prev_task_scx() for a task that is not queued.
            self.cpus[cpu].kick_sync += 1;
            self.update_current(cpu);
        }
        if from == Class::Ext && to != Class::Ext {
            self.disable_task(task);
        }
        let priority = task.seen.prio;
        change(self, task);
        task.set_class(to);
        if from != to {
            self.tell_class(task);
        }
        if queued && priority < task.seen.prio {
            flags |= ENQUEUE_HEAD;
        }
        if from != Class::Ext && to == Class::Ext {
            self.switch_to_ext(task);
        }
        if queued {
            self.put_back(cpu, task, flags);
        }
        if running {
            match to {
                Class::Ext => self.ext_set_next(cpu, task),
                _ => task.seen.se.exec_start = self.run_queue_clock(cpu),
            }
        }
        if from != to {
            self.class_changed(task, from, queued);
        } else if to == Class::RealTime {
            self.real_time_priority_changed(cpu, task, priority);
        }
        self.unlock_run_queue(cpu);
    }

    /// Dequeues a task for a change.
    fn take_off(&mut self, cpu: usize, task: TaskRef, flags: u64) {
        let running = self.cpus[cpu].current == task;
        match task.class {
            Class::Ext => return self.ext_dequeue(cpu, task, flags),
            Class::Fair => {
                if running {
                    self.update_fair(cpu, task);
                }
                self.cpus[cpu].fair.retain(|other| *other != task);
            }
            Class::RealTime => return self.real_time_dequeue(cpu, task, flags),
            Class::Deadline => return self.deadline_dequeue(cpu, task),
            Class::Idle => return,
        }
        self.cpus[cpu].rq.nr_running -= 1;
    }

    /// Enqueues a task again after a change.
    fn put_back(&mut self, cpu: usize, task: TaskRef, flags: u64) {
        let running = self.cpus[cpu].current == task;
        match task.class {
            Class::Ext => self.ext_enqueue(cpu, task, flags),
            Class::Fair if running => self.cpus[cpu].rq.nr_running += 1,
            Class::Fair => self.fair_enqueue(cpu, task, false),
            Class::RealTime => self.real_time_enqueue(cpu, task, flags),
            Class::Deadline if flags & DEQUEUE_MOVE != 0 => {
                self.deadline_enqueue(cpu, task, Arrival::Changed);
            }
            Class::Deadline => self.deadline_enqueue(cpu, task, Arrival::Moved),
            Class::Idle => {}
        }
    }

    /// The consequences of a change of class.
    fn class_changed(&mut self, mut task: TaskRef, from: Class, queued: bool) {
        let cpu = task.cpu();
        let running = self.cpus[cpu].current == task;
        if running {
            self.cpus[cpu].next_class = task.class;
        }
        if task.class == Class::Fair {
            task.fair_slice = FAIR_SLICE;
        }
        if queued && running {
            self.resched(cpu);
        } else if queued {
            self.wakeup_preempt(cpu, task);
        }
        match from {
            Class::Deadline => self.switched_from_deadline(cpu, task),
            Class::RealTime => self.switched_from_real_time(cpu, task),
            Class::Fair | Class::Ext | Class::Idle => {}
        }
    }

    /// Before a pass through the scheduler: a task in a section without migration may use only its CPU from now on (`migrate_disable_switch`).
    pub(super) fn keep_on_cpu(&mut self, cpu: usize, task: TaskRef) {
        if task.seen.migration_disabled != 0 && task.is_allowed_by_own_mask() {
            let only: *const CpuMask = &raw const *self.cpus[cpu].mask;
            self.allow_by(task, only);
        }
    }

    /// The running task ends a section without migration (`migrate_enable`).
    pub(crate) fn enable_migration(&mut self, mut task: TaskRef) {
        let cpu = task.cpu();
        task.seen.migration_disabled -= 1;
        if !task.is_allowed_by_own_mask() {
            let own: *const CpuMask = &raw const task.seen.cpus_mask;
            self.allow_by(task, own);
        }
        if std::mem::take(&mut self.cpus[cpu].goes_offline) {
            let due = Due::Offline { cpu: cpu as u32 };
            self.clock.at(self.local_time(), due);
        }
    }

    /// Lets another mask than before say which CPUs a task may use; its affinity stays (`set_cpus_allowed_common`).
    fn allow_by(&mut self, task: TaskRef, mask: *const CpuMask) {
        self.with_change(task, DEQUEUE_SAVE, task.class, |kernel, mut task| {
            task.seen.cpus_ptr = mask;
            if task.class == Class::Ext {
                kernel.call_set_cpumask(task);
            }
        });
        self.emit_task(task);
    }

    /// Moves a task that may no longer run where it is to the CPU that was chosen for it (`migration_cpu_stop`) or to any that will do
    /// (`__balance_push_cpu_stop`).
    pub(crate) fn push_off(&mut self, mut task: TaskRef, chosen: Option<usize>) {
        let from = task.cpu();
        let running = self.cpus[from].current == task;
        if running {
            // The stopper runs instead of it for a moment, represented by the idle task.
            self.cpus[from].account_progress(self.clock.now());
            let idle = self.cpus[from].idle;
            self.put_previous(
                from,
                task,
                Successor { class: Class::RealTime, task: idle, stopper: true },
            );
            self.trace_switch(task, idle, task.seen.__state);
            self.set_current(from, idle);
            task.seen.on_cpu = 0;
            let time = self.run_queue_clock(from).max(self.local_time());
            self.tell_switch(time, from, task, idle);
            task.off_cpu_at = time;
            self.cpus[from].next_class = Class::Idle;
            self.cpus[from].stopped = true;
        }
        let to = chosen.unwrap_or_else(|| self.fallback_cpu(task, from));
        // The task reaches its target no earlier than it has left its old CPU.
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
                self.real_time_dequeue(from, task, 0);
                self.set_task_cpu(task, to);
                self.real_time_enqueue(to, task, 0);
            }
            Class::Deadline => {
                self.deadline_dequeue(from, task);
                self.set_task_cpu(task, to);
                self.deadline_enqueue(to, task, Arrival::Moved);
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
