//! Changes of a task's policy, nice or CPUs, and moving it off a CPU that it may no longer use.

use fairground_events::{CpuId, EventKind};

use super::fair::FAIR_SLICE;
use super::real_time::ROUND_ROBIN_QUANTUM;
use crate::constants::*;
use crate::core::Successor;
use crate::kernel::Kernel;
use crate::task::{Class, TaskRef};

impl Kernel<'_> {
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
        let to = self.fallback_cpu(task, from);
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
