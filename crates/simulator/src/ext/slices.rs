//! Slices of tasks: how they are set and used up.

use fairground_events::Condition;

use crate::constants::*;
use crate::kernel::Kernel;
use crate::task::{Class, TaskRef};
use crate::tracing::Hook;

impl Kernel<'_> {
    /// Sets the slice of a task (`scx_set_task_slice`), overriding earlier requests.
    pub(crate) fn set_slice(&mut self, mut task: TaskRef, slice: u64) {
        task.seen.scx.slice = slice;
        task.requested_slice = None;
    }

    /// Sets the slice of a task for the scheduler: at once if the lock of its run queue is held, otherwise when its CPU next checks the slice
    /// (`scx_bpf_task_set_slice`).
    pub(crate) fn set_slice_for_scheduler(&mut self, mut task: TaskRef, slice: u64) {
        let is_held = self.locked_run_queue().is_some_and(|cpu| {
            task.seen.scx.runnable_cpu == cpu as i32 || self.cpus[cpu].current == task
        });
        if is_held {
            self.set_slice(task, slice);
        } else {
            task.requested_slice = Some(slice);
        }
    }

    /// `apply_task_slice_oob`.
    pub(super) fn apply_requested_slice(&mut self, mut task: TaskRef) {
        if let Some(slice) = task.requested_slice.take() {
            task.seen.scx.slice = slice;
        }
    }

    /// `apply_slice_vtime`: the slice that an insertion asks for. 0 keeps the present one.
    pub(crate) fn apply_slice(&mut self, mut task: TaskRef, slice: u64, flags: u64) {
        if slice != 0 {
            task.seen.scx.slice = slice;
            if flags & SCX_ENQ_SLICE_DFL == 0 {
                task.requested_slice = None;
            }
        } else if task.seen.scx.slice == 0 {
            task.seen.scx.slice = 1;
        }
    }

    pub(super) fn refill_slice(&mut self, mut task: TaskRef) {
        task.seen.scx.slice = SCX_SLICE_DFL;
        self.statistics.SCX_EV_REFILL_SLICE_DFL += 1;
    }

    /// Charges the current task of `cpu` for its time (`update_curr_scx`).
    #[inline(always)]
    pub(crate) fn update_current(&mut self, cpu: usize) {
        let state = self.cpu(cpu);
        let (task, now) = (state.current, state.clock(self.clock.now()));
        self.apply_requested_slice(task);
        let ran = now.saturating_sub(task.seen.se.exec_start);
        if ran > 0 {
            self.charge_time(cpu, task, now, ran);
        }
    }

    /// Tells the sinks whether the slice of a running task has an end, if that has changed. The scheduler may have set it at any time.
    pub(super) fn tell_slice(&mut self, mut task: TaskRef) {
        let is_endless = task.seen.scx.slice == SCX_SLICE_INF;
        if self.settings.details && task.told_endless != is_endless {
            task.told_endless = is_endless;
            self.tell_condition(task, Condition::Endless, is_endless);
        }
    }

    #[inline(never)]
    fn charge_time(&mut self, cpu: usize, mut task: TaskRef, now: u64, ran: u64) {
        self.tell_slice(task);
        task.seen.se.exec_start = now;
        task.seen.se.sum_exec_runtime += ran;
        self.trace(Hook::SchedStatRuntime, &[task.address(), ran]);
        if task.seen.scx.slice != SCX_SLICE_INF {
            task.seen.scx.slice = task.seen.scx.slice.saturating_sub(ran);
        }
        self.charge_server(cpu, Class::Ext, ran, false);
    }
}
