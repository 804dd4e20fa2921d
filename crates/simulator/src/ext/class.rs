//! The core's questions to the class: which CPU, which task, a switch, a tick.

use super::dispatch::Verdict;
use crate::constants::*;
use crate::core::Successor;
use crate::kernel::Kernel;
use crate::operations::Op;
use crate::rules;
use crate::structures::CpuReleaseArgs;
use crate::task::{Class, TaskRef};
use crate::tracing::Hook;

impl Kernel<'_> {
    /// `yield_task_scx`.
    pub(crate) fn ext_yield(&mut self, cpu: usize, task: TaskRef) {
        self.update_current(cpu);
        if self.operations.has(Op::Yield) {
            self.call(Op::Yield, &[task.address(), 0]);
        } else {
            self.set_slice(task, 0);
        }
    }

    /// `select_task_rq_scx`.
    pub(crate) fn ext_select_cpu(
        &mut self,
        task: TaskRef,
        previous: usize,
        wake_flags: u64,
    ) -> usize {
        let call = [task.address(), previous as u64, wake_flags];
        self.trace(Hook::SelectTaskRqScx, &call);
        let cpu = self.choose_cpu(task, previous, wake_flags);
        self.trace_return(Hook::SelectTaskRqScx, &call, cpu as u64);
        cpu
    }

    fn choose_cpu(&mut self, mut task: TaskRef, previous: usize, wake_flags: u64) -> usize {
        if self.operations.has(Op::SelectCpu) {
            self.calls.direct_dispatch = Some(Some(task));
            let cpu = self
                .call(Op::SelectCpu, &[task.address(), self.cpu_argument(previous), wake_flags])
                as i32;
            let cpu = self.cpu_from_scheduler(cpu);
            self.calls.direct_dispatch = None;
            task.seen.scx.selected_cpu = cpu;
            return if self.cpu_is_valid(cpu, "from ops.select_cpu()") {
                cpu as usize
            } else {
                previous
            };
        }
        let picked = self.select_cpu_default(task, previous as i32, wake_flags, None, 0);
        let cpu = if picked >= 0 {
            self.statistics.SCX_EV_REFILL_SLICE_DFL += 1;
            task.seen.scx.ddsp_slice = SCX_SLICE_DFL;
            task.seen.scx.ddsp_enq_flags = SCX_ENQ_SLICE_DFL;
            task.seen.scx.ddsp_dsq_id = SCX_DSQ_LOCAL;
            if !rules::sets_slices_late(self.settings.release) {
                self.apply_slice(task, SCX_SLICE_DFL, SCX_ENQ_SLICE_DFL);
            }
            picked as usize
        } else {
            previous
        };
        task.seen.scx.selected_cpu = cpu as i32;
        cpu
    }

    /// `do_pick_task_scx`.
    pub(crate) fn ext_pick(&mut self, cpu: usize, previous: TaskRef) -> Option<TaskRef> {
        let mut state = self.cpu(cpu);
        state.kick_sync += 1;
        if self.dispatch_one(cpu, previous) == Verdict::Previous {
            if previous.seen.scx.slice == 0 {
                self.refill_slice(previous);
            }
            return Some(previous);
        }
        let first = state.local.first()?;
        if first.seen.scx.slice == 0 {
            if !self.warned_zero_slice {
                self.warned_zero_slice = true;
                let message =
                    format!("sched_ext: {} has zero slice in do_pick_task_scx()", first.label());
                self.say(message);
            }
            self.refill_slice(first);
        }
        Some(first)
    }

    /// `set_next_task_scx`.
    pub(crate) fn ext_set_next(&mut self, cpu: usize, mut task: TaskRef) {
        if task.seen.scx.flags & SCX_TASK_QUEUED != 0 {
            self.ops_dequeue(task, SCX_DEQ_CORE_SCHED_EXEC);
            self.dispatch_dequeue(task);
        }
        let now = self.run_queue_clock(cpu);
        task.seen.se.exec_start = now;
        if task.seen.scx.flags & SCX_TASK_QUEUED != 0 {
            self.call(Op::Running, &[task.address()]);
        }
        self.clear_runnable(task, true);
        self.apply_requested_slice(task);
        self.tell_slice(task);
    }

    fn switch_class(&mut self, cpu: usize, next: Successor) {
        if !self.operations.has_cpu_preempt()
            || next.class < Class::Ext
            || self.cpus[cpu].rq.scx.cpu_released
        {
            return;
        }
        // SCX_CPU_PREEMPT_RT, DL, STOP, UNKNOWN.
        let reason = match next.task.seen.policy {
            _ if next.stopper => 2,
            SCHED_DEADLINE => 1,
            _ if next.class == Class::Fair => 3,
            _ => 0,
        };
        let mut args = CpuReleaseArgs { reason, task: next.task.address() as *mut _ };
        self.call(Op::CpuRelease, &[cpu as u64, &raw mut args as u64]);
        self.cpus[cpu].rq.scx.cpu_released = true;
    }

    /// `put_prev_task_scx`.
    pub(crate) fn ext_put_previous(&mut self, cpu: usize, mut task: TaskRef, next: Successor) {
        let mut state = self.cpu(cpu);
        state.kick_sync += 1;
        self.update_current(cpu);
        if task.seen.scx.flags & SCX_TASK_QUEUED != 0 {
            self.call(Op::Stopping, &[task.address(), 1]);
            self.set_runnable(cpu, task);
            if task.seen.scx.slice != 0 {
                if task.seen.scx.flags & SCX_TASK_IMMED != 0 {
                    task.seen.scx.flags |= SCX_TASK_REENQ_PREEMPTED;
                    self.do_enqueue(cpu, task, SCX_ENQ_REENQ, -1);
                    task.seen.scx.flags &= !SCX_TASK_REENQ_REASON_MASK;
                } else {
                    let local = state.local;
                    self.dispatch_enqueue(local, task, 0, 0, SCX_ENQ_HEAD);
                }
            } else if next.class < Class::Ext {
                self.do_enqueue(cpu, task, SCX_ENQ_LAST, -1);
                if task.dsq == Some(state.local) {
                    self.resched_from_interrupt(cpu);
                }
            } else {
                self.do_enqueue(cpu, task, 0, -1);
            }
        }
        if next.class != Class::Ext {
            self.switch_class(cpu, next);
        }
    }

    /// `task_tick_scx`.
    pub(crate) fn ext_tick(&mut self, cpu: usize, task: TaskRef) {
        let call = [self.run_queue_address(cpu), task.address(), 0];
        self.trace(Hook::TaskTickScx, &call);
        self.update_current(cpu);
        self.call(Op::Tick, &[task.address()]);
        self.tell_slice(task);
        if task.seen.scx.slice == 0 {
            self.resched(cpu);
        }
        self.trace_return(Hook::TaskTickScx, &call, 0);
    }
}
