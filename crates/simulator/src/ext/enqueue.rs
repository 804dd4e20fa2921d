//! How a task becomes runnable and ceases to be so: `ops.enqueue()`, direct dispatch, `ops.dequeue()`.

use crate::constants::*;
use crate::kernel::Kernel;
use crate::operations::Op;
use crate::rules;
use crate::task::{Class, OpsState, TaskRef};
use crate::tracing::Hook;

impl Kernel<'_> {
    /// `scx_cpu_valid`: whether `cpu` exists; unloads the scheduler if not.
    #[inline(always)]
    pub(crate) fn cpu_is_valid(&mut self, cpu: i32, place: &str) -> bool {
        (cpu as u32 as usize) < self.cpus.len() || self.refuse_cpu(cpu, place)
    }

    #[cold]
    fn refuse_cpu(&mut self, cpu: i32, place: &str) -> bool {
        let place = if place.is_empty() { String::new() } else { format!(" {place}") };
        self.fail(ExitKind::Error, format!("invalid CPU {cpu}{place}"));
        false
    }

    pub(super) fn clear_direct_dispatch(&mut self, mut task: TaskRef) {
        task.seen.scx.ddsp_dsq_id = SCX_DSQ_INVALID;
        task.seen.scx.ddsp_enq_flags = 0;
    }

    fn run_direct_dispatch(&mut self, mut task: TaskRef, flags: u64) {
        let cpu = task.cpu();
        let queue = self.dsq_for_dispatch(cpu, task.seen.scx.ddsp_dsq_id, cpu);
        task.seen.scx.ddsp_enq_flags |= flags;
        if queue.local_to.is_some_and(|local_to| local_to != cpu) {
            // Another CPU's local queue: moved when this run queue is unlocked.
            task.ops_state = OpsState::None;
            self.cpus[cpu].deferred_locals.push(task);
            return;
        }
        let (slice, vtime, flags) =
            (task.seen.scx.ddsp_slice, task.seen.scx.ddsp_vtime, task.seen.scx.ddsp_enq_flags);
        self.clear_direct_dispatch(task);
        self.dispatch_enqueue(
            queue,
            task,
            slice,
            vtime,
            flags | SCX_ENQ_APPLY_SLICE | SCX_ENQ_CLEAR_OPSS,
        );
    }

    /// `scx_do_enqueue_task`.
    pub(crate) fn do_enqueue(
        &mut self,
        cpu: usize,
        mut task: TaskRef,
        mut flags: u64,
        sticky: i32,
    ) {
        let state = self.cpu(cpu);
        let local = state.local;
        if sticky == cpu as i32 {
            self.dispatch_enqueue(local, task, 0, 0, flags);
            return;
        }
        task.seen.scx.flags &= !SCX_TASK_IMMED;
        if flags & SCX_ENQ_REENQ != 0 {
            task.seen.scx.reenq_cnt += 1;
            if task.seen.scx.reenq_cnt > 1 {
                self.statistics.SCX_EV_REENQ_REPEAT += 1;
            }
            if task.seen.scx.reenq_cnt > SCX_REENQ_MAX_REPEAT {
                let message = format!(
                    "{} reenqueued {} times without running",
                    task.label(),
                    task.seen.scx.reenq_cnt
                );
                self.fail(ExitKind::ErrorReenqueue, message);
                return;
            }
        }
        let operations = self.operations.flags;
        let fallback = if !state.online {
            Some(local)
        } else if task.seen.scx.ddsp_dsq_id != SCX_DSQ_INVALID {
            self.run_direct_dispatch(task, flags);
            return;
        } else if operations & SCX_OPS_ENQ_EXITING == 0 && task.seen.flags & PF_EXITING != 0 {
            self.statistics.SCX_EV_ENQ_SKIP_EXITING += 1;
            flags |= SCX_ENQ_RESCUE;
            Some(local)
        } else if operations & SCX_OPS_ENQ_MIGRATION_DISABLED == 0
            && task.seen.migration_disabled != 0
        {
            self.statistics.SCX_EV_ENQ_SKIP_MIGRATION_DISABLED += 1;
            Some(local)
        } else if !self.operations.has(Op::Enqueue) {
            Some(self.cpus[task.cpu()].global)
        } else {
            None
        };
        if let Some(queue) = fallback {
            self.refill_slice(task);
            self.clear_direct_dispatch(task);
            self.dispatch_enqueue(queue, task, 0, 0, flags);
            return;
        }
        task.seen.scx.ops_qseq = task.seen.scx.ops_qseq.wrapping_add(1).max(1);
        task.ops_state = OpsState::Queueing;
        self.calls.direct_dispatch = Some(Some(task));
        let told = rules::for_program(flags, self.settings.release);
        self.call(Op::Enqueue, &[task.address(), told]);
        self.calls.direct_dispatch = None;
        if task.seen.scx.ddsp_dsq_id != SCX_DSQ_INVALID {
            self.run_direct_dispatch(task, flags);
            return;
        }
        task.seen.scx.flags |= SCX_TASK_IN_CUSTODY;
        task.ops_state = OpsState::Queued;
    }

    /// `enqueue_task_scx`.
    pub(crate) fn ext_enqueue(&mut self, cpu: usize, mut task: TaskRef, flags: u64) {
        let mut state = self.cpu(cpu);
        let call = [self.run_queue_address(cpu), task.address(), flags];
        self.trace(Hook::EnqueueTaskScx, &call);
        let mut sticky_cpu = task.seen.scx.sticky_cpu;
        if sticky_cpu >= 0 {
            task.seen.scx.sticky_cpu = -1;
        }
        if flags & ENQUEUE_RESTORE != 0 && state.current == task {
            sticky_cpu = cpu as i32;
        }
        if task.seen.scx.flags & SCX_TASK_QUEUED == 0 {
            self.set_runnable(cpu, task);
            task.seen.scx.flags |= SCX_TASK_QUEUED;
            if task.seen.on_rq == 0 {
                task.seen.on_rq = TASK_ON_RQ_QUEUED;
            }
            state.rq.scx.nr_running += 1;
            state.rq.nr_running += 1;
            if task.seen.on_rq != TASK_ON_RQ_MIGRATING {
                let told = rules::for_program(flags, self.settings.release);
                self.call(Op::Runnable, &[task.address(), told]);
            }
            if state.rq.scx.nr_running == 1 {
                self.start_deadline_server(cpu, Class::Ext);
            }
            self.do_enqueue(cpu, task, flags, sticky_cpu);
        }
        if flags & SCX_ENQ_CPU_SELECTED != 0 && cpu as i32 != task.seen.scx.selected_cpu {
            self.statistics.SCX_EV_SELECT_CPU_FALLBACK += 1;
        }
        self.trace_return(Hook::EnqueueTaskScx, &call, 0);
    }

    pub(super) fn ops_dequeue(&mut self, mut task: TaskRef, flags: u64) {
        self.clear_runnable(task, false);
        if task.ops_state == OpsState::Queued {
            task.ops_state = OpsState::None;
            if !rules::tells_of_custody(self.settings.release) {
                self.call(Op::Dequeue, &[task.address(), flags]);
            }
        }
        self.leave_custody(task, flags);
    }

    /// `dequeue_task_scx`.
    pub(crate) fn ext_dequeue(&mut self, cpu: usize, mut task: TaskRef, mut flags: u64) {
        let mut state = self.cpu(cpu);
        let call = [self.run_queue_address(cpu), task.address(), flags];
        self.trace(Hook::DequeueTaskScx, &call);
        if flags & SCX_DEQ_SLEEP == 0 && rules::tells_of_custody(self.settings.release) {
            flags |= SCX_DEQ_SCHED_CHANGE;
        }
        if task.seen.scx.flags & SCX_TASK_QUEUED == 0 {
            self.trace_return(Hook::DequeueTaskScx, &call, 1);
            return;
        }
        self.ops_dequeue(task, flags);
        if state.current == task {
            self.update_current(cpu);
            self.call(Op::Stopping, &[task.address(), 0]);
        }
        if task.seen.on_rq != TASK_ON_RQ_MIGRATING {
            self.call(Op::Quiescent, &[task.address(), flags]);
        }
        if flags & SCX_DEQ_SLEEP != 0 {
            task.seen.scx.flags |= SCX_TASK_DEQD_FOR_SLEEP;
        } else {
            task.seen.scx.flags &= !SCX_TASK_DEQD_FOR_SLEEP;
        }
        task.seen.scx.flags &= !SCX_TASK_QUEUED;
        state.rq.scx.nr_running -= 1;
        state.rq.nr_running -= 1;
        self.dispatch_dequeue(task);
        self.clear_direct_dispatch(task);
        self.trace_return(Hook::DequeueTaskScx, &call, 1);
    }
}
