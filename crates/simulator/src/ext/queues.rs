//! Dispatch queues: how tasks get onto them and off again.

use fairground_events::EventKind;

use crate::constants::*;
use crate::dispatch_queue::DsqRef;
use crate::kernel::Kernel;
use crate::operations::Op;
use crate::rules;
use crate::task::{Class, OpsState, TaskRef};

impl Kernel<'_> {
    /// `find_dsq_for_dispatch`: the queue that `dsq_id` means on `cpu`.
    pub(crate) fn dsq_for_dispatch(&mut self, cpu: usize, dsq_id: u64, task_cpu: usize) -> DsqRef {
        if dsq_id == SCX_DSQ_LOCAL {
            return self.cpus[cpu].local;
        }
        if dsq_id & SCX_DSQ_LOCAL_ON == SCX_DSQ_LOCAL_ON {
            let target = (dsq_id & SCX_DSQ_LOCAL_CPU_MASK) as u32 as i32;
            let target = self.cpu_from_scheduler(target);
            if !self.cpu_is_valid(target, "in SCX_DSQ_LOCAL_ON dispatch verdict") {
                return self.cpus[task_cpu].global;
            }
            return self.cpus[target as usize].local;
        }
        if dsq_id == SCX_DSQ_GLOBAL {
            return self.cpus[task_cpu].global;
        }
        match self.dsqs.by_id(dsq_id) {
            Some(queue) => queue,
            None => {
                self.fail(ExitKind::Error, format!("non-existent DSQ 0x{dsq_id:x}"));
                self.cpus[task_cpu].global
            }
        }
    }

    /// `rq_is_open`: whether a task put on the local queue of `cpu` would run at once.
    fn run_queue_is_open(&self, cpu: usize, flags: u64) -> bool {
        let state = &self.cpus[cpu];
        if state.next_class > Class::Ext {
            return false;
        }
        state.next_class < Class::Ext || state.in_dispatch || flags & SCX_ENQ_PREEMPT != 0
    }

    pub(super) fn count_in(&mut self, queue: DsqRef, mut task: TaskRef, flags: u64) {
        let Some(cpu) = queue.local_to else {
            return;
        };
        if flags & SCX_ENQ_IMMED != 0 {
            task.seen.scx.flags |= SCX_TASK_IMMED;
        }
        if task.seen.scx.flags & SCX_TASK_IMMED != 0 {
            self.cpus[cpu].rq.scx.nr_immed += 1;
            if queue.len() > 1 || !self.run_queue_is_open(cpu, flags) {
                self.schedule_local_reenqueue(cpu, 0);
            }
        }
    }

    /// Takes `task` off its queue.
    pub(crate) fn unlink(&mut self, mut task: TaskRef) {
        let Some(mut queue) = task.dsq.take() else { return };
        if self.settings.details || queue.holds_back {
            self.report_move(queue, task, false);
        }
        task.seen.scx.dsq = std::ptr::null_mut();
        queue.remove(task);
        if task.seen.scx.flags & SCX_TASK_IMMED != 0
            && let Some(cpu) = queue.local_to
        {
            self.cpus[cpu].rq.scx.nr_immed = self.cpus[cpu].rq.scx.nr_immed.saturating_sub(1);
        }
    }

    pub(super) fn link(&mut self, mut queue: DsqRef, mut task: TaskRef) {
        task.dsq = Some(queue);
        task.seen.scx.dsq = &raw mut queue.handle;
        if self.settings.details || queue.holds_back {
            self.report_move(queue, task, true);
        }
    }

    /// Tells the sinks that a task comes to a queue or leaves it; in one in which the scheduler holds tasks back, that it waits for a quota.
    #[cold]
    fn report_move(&mut self, queue: DsqRef, moved: TaskRef, begins: bool) {
        let (task, name) = (moved.id, queue.name());
        if self.settings.details {
            let is_ordered = moved.seen.scx.dsq_flags & SCX_TASK_DSQ_ON_PRIQ != 0;
            let vtime = is_ordered.then_some(moved.seen.scx.dsq_vtime);
            let slice = moved.seen.scx.slice;
            self.emit(match begins {
                true => EventKind::Insert { task, queue: name, slice, vtime },
                false => EventKind::Remove { task, queue: name },
            });
        }
        if queue.holds_back {
            self.emit(EventKind::Throttle { task, begins });
        }
    }

    /// `task_leave_custody`, including its call of `ops.dequeue`.
    pub(super) fn leave_custody(&mut self, mut task: TaskRef, flags: u64) {
        if task.seen.scx.flags & SCX_TASK_IN_CUSTODY == 0 || task.seen.scx.sticky_cpu >= 0 {
            return;
        }
        task.seen.scx.flags &= !SCX_TASK_IN_CUSTODY;
        if rules::tells_of_custody(self.settings.release) {
            self.call(Op::Dequeue, &[task.address(), flags]);
        }
    }

    pub(super) fn after_local_insert(&mut self, cpu: usize, task: TaskRef, flags: u64) {
        let state = self.cpu(cpu);
        self.leave_custody(task, 0);
        if task.class > state.next_class {
            self.wakeup_preempt(cpu, task);
        }
        if state.in_dispatch {
            return;
        }
        let current = state.current;
        if flags & SCX_ENQ_PREEMPT != 0 && task != current && current.class == Class::Ext {
            self.set_slice(current, 0);
            self.resched(cpu);
        }
    }

    /// Puts `task` on a queue (`scx_dispatch_enqueue`). `cpu` is the run queue the task is on.
    pub(crate) fn dispatch_enqueue(
        &mut self,
        mut queue: DsqRef,
        mut task: TaskRef,
        slice: u64,
        vtime: u64,
        mut flags: u64,
    ) {
        let local_to = queue.local_to;
        if local_to.is_none() {
            self.charge_dsq_lock(queue, 0);
            if !queue.live {
                self.fail(ExitKind::Error, "attempting to dispatch to a destroyed dsq".into());
                queue = self.cpus[task.cpu()].global;
            }
        }
        let id = queue.id();
        if id & SCX_DSQ_FLAG_BUILTIN != 0 && flags & SCX_ENQ_DSQ_PRIQ != 0 {
            self.fail(ExitKind::Error, "cannot use vtime ordering for built-in DSQs".into());
            flags &= !SCX_ENQ_DSQ_PRIQ;
        }
        if flags & SCX_ENQ_APPLY_SLICE != 0 && rules::sets_slices_late(self.settings.release) {
            self.apply_slice(task, slice, flags);
            if flags & SCX_ENQ_DSQ_PRIQ != 0 {
                task.seen.scx.dsq_vtime = vtime;
            }
        }
        if flags & SCX_ENQ_DSQ_PRIQ != 0 {
            if !queue.has_ordered() && queue.has_fifo() {
                self.fail(
                    ExitKind::Error,
                    format!("DSQ ID 0x{id:016x} already had FIFO-enqueued tasks"),
                );
            }
            let vtime = task.seen.scx.dsq_vtime;
            queue.push_ordered(task, vtime);
        } else {
            if queue.has_ordered() {
                self.fail(
                    ExitKind::Error,
                    format!("DSQ ID 0x{id:016x} already had PRIQ-enqueued tasks"),
                );
            }
            queue.push(task, flags & (SCX_ENQ_HEAD | SCX_ENQ_PREEMPT) != 0);
        }
        self.link(queue, task);
        self.count_in(queue, task, flags);
        match local_to {
            Some(cpu) => self.after_local_insert(cpu, task, flags),
            None if id == SCX_DSQ_GLOBAL => self.leave_custody(task, 0),
            None => task.seen.scx.flags |= SCX_TASK_IN_CUSTODY,
        }
        if flags & SCX_ENQ_CLEAR_OPSS != 0 {
            task.ops_state = OpsState::None;
        }
    }

    /// `scx_dispatch_dequeue`.
    pub(super) fn dispatch_dequeue(&mut self, mut task: TaskRef) {
        if task.dsq.is_some() {
            self.unlink(task);
        } else {
            let cpu = task.cpu();
            self.cpus[cpu].deferred_locals.retain(|other| *other != task);
            task.seen.scx.holding_cpu = -1;
        }
    }
}
