//! The sched_ext class: `kernel/sched/ext/ext.c` of Linux 7.3, function by function.

use fairground_events::{EventKind, OverheadKind};

use crate::cids;
use crate::constants::*;
use crate::core::Successor;
use crate::dispatch_queue::DsqIndex;
use crate::kernel::{BufferedInsert, Kernel};
use crate::operations::Op;
use crate::structures::{CpuAcquireArgs, CpuReleaseArgs, EnableArgs, ExitTaskArgs, InitTaskArgs};
use crate::task::{Class, OpsState, TaskRef};
use crate::tracing::Hook;

/// What a dispatch concluded (`enum scx_dsp_verdict`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    None,
    Local,
    Previous,
}

impl Kernel<'_> {
    pub(crate) fn dsq(&self, index: DsqIndex) -> &crate::dispatch_queue::DispatchQueue {
        &self.dsqs[index.0 as usize]
    }

    pub(crate) fn dsq_mut(&mut self, index: DsqIndex) -> &mut crate::dispatch_queue::DispatchQueue {
        &mut self.dsqs[index.0 as usize]
    }

    pub(crate) fn global_dsq(&self, cpu: usize) -> DsqIndex {
        self.global_dsqs[self.machine.cpus[cpu].node as usize]
    }

    /// Sets the slice of a task (`scx_set_task_slice`), whatever was asked for before.
    pub(crate) fn set_slice(&mut self, mut task: TaskRef, slice: u64) {
        task.seen.scx.slice = slice;
        task.requested_slice = None;
    }

    /// Sets the slice of a task for the scheduler: at once where the lock of its run queue is held, else when its CPU looks at the slice
    /// next (`scx_bpf_task_set_slice`).
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
    fn apply_requested_slice(&mut self, mut task: TaskRef) {
        if let Some(slice) = task.requested_slice.take() {
            task.seen.scx.slice = slice;
        }
    }

    /// `apply_slice_vtime`: what an insertion says of the slice. A slice of 0 keeps the one that there is.
    fn apply_slice(&mut self, mut task: TaskRef, slice: u64, flags: u64) {
        if slice != 0 {
            task.seen.scx.slice = slice;
            if flags & SCX_ENQ_SLICE_DFL == 0 {
                task.requested_slice = None;
            }
        } else if task.seen.scx.slice == 0 {
            task.seen.scx.slice = 1;
        }
    }

    fn refill_slice(&mut self, mut task: TaskRef) {
        task.seen.scx.slice = SCX_SLICE_DFL;
        self.statistics.SCX_EV_REFILL_SLICE_DFL += 1;
    }

    /// Charges the current task of `cpu` for its time (`update_curr_scx`).
    pub(crate) fn update_current(&mut self, cpu: usize) {
        let now = self.run_queue_clock(cpu);
        let mut task = self.cpus[cpu].current;
        self.apply_requested_slice(task);
        let ran = now.saturating_sub(task.seen.se.exec_start);
        if ran == 0 {
            return;
        }
        task.seen.se.exec_start = now;
        task.seen.se.sum_exec_runtime += ran;
        self.trace(Hook::SchedStatRuntime, &[task.address(), ran]);
        if task.seen.scx.slice != SCX_SLICE_INF {
            task.seen.scx.slice = task.seen.scx.slice.saturating_sub(ran);
        }
        self.charge_deadline_server(cpu, ran, false);
    }

    /// `rq_is_open`: whether a task put on the local queue of `cpu` would run at once.
    fn run_queue_is_open(&self, cpu: usize, flags: u64) -> bool {
        let state = &self.cpus[cpu];
        if state.next_class > Class::Ext {
            return false;
        }
        state.next_class < Class::Ext || state.in_dispatch || flags & SCX_ENQ_PREEMPT != 0
    }

    fn count_in(&mut self, index: DsqIndex, mut task: TaskRef, flags: u64) {
        let Some(cpu) = self.dsq(index).local_to else {
            return;
        };
        if flags & SCX_ENQ_IMMED != 0 {
            task.seen.scx.flags |= SCX_TASK_IMMED;
        }
        if task.seen.scx.flags & SCX_TASK_IMMED != 0 {
            self.cpus[cpu].rq.scx.nr_immed += 1;
            if self.dsq(index).len() > 1 || !self.run_queue_is_open(cpu, flags) {
                self.schedule_local_reenqueue(cpu, 0);
            }
        }
    }

    /// Takes `task` off the queue it is on.
    pub(crate) fn unlink(&mut self, mut task: TaskRef) {
        let Some(index) = task.dsq.take() else { return };
        if self.settings.details {
            let queue = self.dsq(index).name();
            let task = task.id;
            self.emit(EventKind::Remove { task, queue });
        }
        task.seen.scx.dsq = std::ptr::null_mut();
        self.dsq_mut(index).remove(task);
        if task.seen.scx.flags & SCX_TASK_IMMED != 0
            && let Some(cpu) = self.dsq(index).local_to
        {
            self.cpus[cpu].rq.scx.nr_immed = self.cpus[cpu].rq.scx.nr_immed.saturating_sub(1);
        }
    }

    fn link(&mut self, index: DsqIndex, mut task: TaskRef) {
        task.dsq = Some(index);
        let handle: *mut _ = &mut *self.dsq_mut(index).handle;
        task.seen.scx.dsq = handle;
        if self.settings.details {
            let is_ordered = task.seen.scx.dsq_flags & SCX_TASK_DSQ_ON_PRIQ != 0;
            self.emit(EventKind::Insert {
                task: task.id,
                queue: self.dsq(index).name(),
                slice: task.seen.scx.slice,
                vtime: is_ordered.then_some(task.seen.scx.dsq_vtime),
            });
        }
    }

    /// `task_leave_custody`, with the call of `ops.dequeue` that goes with it.
    fn leave_custody(&mut self, mut task: TaskRef, flags: u64) {
        if task.seen.scx.flags & SCX_TASK_IN_CUSTODY == 0 || task.seen.scx.sticky_cpu >= 0 {
            return;
        }
        task.seen.scx.flags &= !SCX_TASK_IN_CUSTODY;
        self.call(Op::Dequeue, &[task.address(), flags]);
    }

    fn after_local_insert(&mut self, cpu: usize, task: TaskRef, flags: u64) {
        self.leave_custody(task, 0);
        if task.class > self.cpus[cpu].next_class {
            self.wakeup_preempt(cpu, task);
        }
        if self.cpus[cpu].in_dispatch {
            return;
        }
        let current = self.cpus[cpu].current;
        if flags & SCX_ENQ_PREEMPT != 0 && task != current && current.class == Class::Ext {
            self.set_slice(current, 0);
            self.resched(cpu);
        }
    }

    /// Puts `task` on a queue (`scx_dispatch_enqueue`). `cpu` is the run queue the task is on.
    pub(crate) fn dispatch_enqueue(
        &mut self,
        mut index: DsqIndex,
        mut task: TaskRef,
        slice: u64,
        vtime: u64,
        mut flags: u64,
    ) {
        let local_to = self.dsq(index).local_to;
        if local_to.is_none() {
            self.charge_dsq_lock(index, 0);
            if !self.dsq(index).live {
                self.fail(
                    ExitKind::Error,
                    "attempting to dispatch to a destroyed dsq".into(),
                );
                index = self.global_dsq(task.cpu());
            }
        }
        let id = self.dsq(index).id();
        if id & SCX_DSQ_FLAG_BUILTIN != 0 && flags & SCX_ENQ_DSQ_PRIQ != 0 {
            self.fail(
                ExitKind::Error,
                "cannot use vtime ordering for built-in DSQs".into(),
            );
            flags &= !SCX_ENQ_DSQ_PRIQ;
        }
        if flags & SCX_ENQ_APPLY_SLICE != 0 {
            self.apply_slice(task, slice, flags);
            if flags & SCX_ENQ_DSQ_PRIQ != 0 {
                task.seen.scx.dsq_vtime = vtime;
            }
        }
        if flags & SCX_ENQ_DSQ_PRIQ != 0 {
            if !self.dsq(index).has_ordered() && self.dsq(index).has_fifo() {
                self.fail(
                    ExitKind::Error,
                    format!("DSQ ID 0x{id:016x} already had FIFO-enqueued tasks"),
                );
            }
            let vtime = task.seen.scx.dsq_vtime;
            self.dsq_mut(index).push_ordered(task, vtime);
        } else {
            if self.dsq(index).has_ordered() {
                self.fail(
                    ExitKind::Error,
                    format!("DSQ ID 0x{id:016x} already had PRIQ-enqueued tasks"),
                );
            }
            self.dsq_mut(index)
                .push(task, flags & (SCX_ENQ_HEAD | SCX_ENQ_PREEMPT) != 0);
        }
        self.link(index, task);
        self.count_in(index, task, flags);
        match local_to {
            Some(cpu) => self.after_local_insert(cpu, task, flags),
            None if id == SCX_DSQ_GLOBAL => self.leave_custody(task, 0),
            None => task.seen.scx.flags |= SCX_TASK_IN_CUSTODY,
        }
        if flags & SCX_ENQ_CLEAR_OPSS != 0 {
            task.ops_state = OpsState::None;
        }
    }

    /// `find_dsq_for_dispatch`: the queue that `dsq_id` means on `cpu`.
    pub(crate) fn dsq_for_dispatch(
        &mut self,
        cpu: usize,
        dsq_id: u64,
        task_cpu: usize,
    ) -> DsqIndex {
        if dsq_id == SCX_DSQ_LOCAL {
            return self.cpus[cpu].local;
        }
        if dsq_id & SCX_DSQ_LOCAL_ON == SCX_DSQ_LOCAL_ON {
            let target = (dsq_id & SCX_DSQ_LOCAL_CPU_MASK) as u32 as i32;
            let target = self.cpu_from_scheduler(target);
            if !self.cpu_is_valid(target, "in SCX_DSQ_LOCAL_ON dispatch verdict") {
                return self.global_dsq(task_cpu);
            }
            return self.cpus[target as usize].local;
        }
        if dsq_id == SCX_DSQ_GLOBAL {
            return self.global_dsq(task_cpu);
        }
        match self.dsq_numbers.get(dsq_id) {
            Some(index) => index,
            None => {
                self.fail(ExitKind::Error, format!("non-existent DSQ 0x{dsq_id:x}"));
                self.global_dsq(task_cpu)
            }
        }
    }

    /// `scx_cpu_valid`: whether `cpu` exists; unloads the scheduler if not.
    pub(crate) fn cpu_is_valid(&mut self, cpu: i32, place: &str) -> bool {
        if cpu >= 0 && (cpu as usize) < self.cpus.len() {
            return true;
        }
        let place = if place.is_empty() {
            String::new()
        } else {
            format!(" {place}")
        };
        self.fail(ExitKind::Error, format!("invalid CPU {cpu}{place}"));
        false
    }

    fn clear_direct_dispatch(&mut self, mut task: TaskRef) {
        task.seen.scx.ddsp_dsq_id = SCX_DSQ_INVALID;
        task.seen.scx.ddsp_enq_flags = 0;
    }

    fn run_direct_dispatch(&mut self, mut task: TaskRef, flags: u64) {
        let cpu = task.cpu();
        let index = self.dsq_for_dispatch(cpu, task.seen.scx.ddsp_dsq_id, cpu);
        task.seen.scx.ddsp_enq_flags |= flags;
        if self
            .dsq(index)
            .local_to
            .is_some_and(|local_to| local_to != cpu)
        {
            // Another CPU's local queue: moved when this run queue is let go.
            task.ops_state = OpsState::None;
            self.cpus[cpu].deferred_locals.push(task);
            return;
        }
        let (slice, vtime, flags) = (
            task.seen.scx.ddsp_slice,
            task.seen.scx.ddsp_vtime,
            task.seen.scx.ddsp_enq_flags,
        );
        self.clear_direct_dispatch(task);
        self.dispatch_enqueue(
            index,
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
        sticky_cpu: i32,
    ) {
        let local = self.cpus[cpu].local;
        if sticky_cpu == cpu as i32 {
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
        let fallback = if !self.cpus[cpu].online {
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
            Some(self.global_dsq(task.cpu()))
        } else {
            None
        };
        if let Some(index) = fallback {
            self.refill_slice(task);
            self.clear_direct_dispatch(task);
            self.dispatch_enqueue(index, task, 0, 0, flags);
            return;
        }
        task.seen.scx.ops_qseq = task.seen.scx.ops_qseq.wrapping_add(1).max(1);
        task.ops_state = OpsState::Queueing;
        self.direct_dispatch = Some(Some(task));
        self.call(Op::Enqueue, &[task.address(), flags]);
        self.direct_dispatch = None;
        if task.seen.scx.ddsp_dsq_id != SCX_DSQ_INVALID {
            self.run_direct_dispatch(task, flags);
            return;
        }
        task.seen.scx.flags |= SCX_TASK_IN_CUSTODY;
        task.ops_state = OpsState::Queued;
    }

    fn set_runnable(&mut self, cpu: usize, mut task: TaskRef) {
        if task.seen.scx.flags & SCX_TASK_RESET_RUNNABLE_AT != 0 {
            task.runnable_since = self.clock.now();
            task.seen.scx.runnable_at = self.jiffies();
            task.seen.scx.flags &= !SCX_TASK_RESET_RUNNABLE_AT;
        }
        task.on_runnable_list = true;
        task.seen.scx.runnable_cpu = cpu as i32;
    }

    fn clear_runnable(&mut self, mut task: TaskRef, reset: bool) {
        task.on_runnable_list = false;
        task.seen.scx.runnable_cpu = -1;
        if reset {
            task.seen.scx.flags |= SCX_TASK_RESET_RUNNABLE_AT;
            task.seen.scx.reenq_cnt = 0;
        }
    }

    /// The kernel's tick count; it starts near its wrap-around there, at 0 here.
    pub(crate) fn jiffies(&mut self) -> u64 {
        let now = self.clock.now();
        if now >= self.next_jiffy {
            let length = self.tick_length();
            self.jiffies = now / length;
            self.next_jiffy = (self.jiffies + 1) * length;
        }
        self.jiffies
    }

    /// `enqueue_task_scx`.
    pub(crate) fn ext_enqueue(&mut self, cpu: usize, mut task: TaskRef, flags: u64) {
        let call = [self.run_queue_address(cpu), task.address(), flags];
        self.trace(Hook::EnqueueTaskScx, &call);
        let mut sticky_cpu = task.seen.scx.sticky_cpu;
        if sticky_cpu >= 0 {
            task.seen.scx.sticky_cpu = -1;
        }
        if flags & ENQUEUE_RESTORE != 0 && self.cpus[cpu].current == task {
            sticky_cpu = cpu as i32;
        }
        if task.seen.scx.flags & SCX_TASK_QUEUED == 0 {
            self.set_runnable(cpu, task);
            task.seen.scx.flags |= SCX_TASK_QUEUED;
            if task.seen.on_rq == 0 {
                task.seen.on_rq = TASK_ON_RQ_QUEUED;
            }
            self.cpus[cpu].rq.scx.nr_running += 1;
            self.cpus[cpu].rq.nr_running += 1;
            if task.seen.on_rq != TASK_ON_RQ_MIGRATING {
                self.call(Op::Runnable, &[task.address(), flags]);
            }
            if self.cpus[cpu].rq.scx.nr_running == 1 {
                self.start_deadline_server(cpu);
            }
            self.do_enqueue(cpu, task, flags, sticky_cpu);
        }
        if flags & SCX_ENQ_CPU_SELECTED != 0 && cpu as i32 != task.seen.scx.selected_cpu {
            self.statistics.SCX_EV_SELECT_CPU_FALLBACK += 1;
        }
        self.trace_return(Hook::EnqueueTaskScx, &call, 0);
    }

    fn ops_dequeue(&mut self, mut task: TaskRef, flags: u64) {
        self.clear_runnable(task, false);
        if task.ops_state == OpsState::Queued {
            task.ops_state = OpsState::None;
        }
        self.leave_custody(task, flags);
    }

    /// `scx_dispatch_dequeue`.
    fn dispatch_dequeue(&mut self, mut task: TaskRef) {
        if task.dsq.is_some() {
            self.unlink(task);
        } else {
            let cpu = task.cpu();
            self.cpus[cpu]
                .deferred_locals
                .retain(|other| *other != task);
            task.seen.scx.holding_cpu = -1;
        }
    }

    /// `dequeue_task_scx`.
    pub(crate) fn ext_dequeue(&mut self, cpu: usize, mut task: TaskRef, mut flags: u64) {
        let call = [self.run_queue_address(cpu), task.address(), flags];
        self.trace(Hook::DequeueTaskScx, &call);
        if flags & SCX_DEQ_SLEEP == 0 {
            flags |= SCX_DEQ_SCHED_CHANGE;
        }
        if task.seen.scx.flags & SCX_TASK_QUEUED == 0 {
            self.trace_return(Hook::DequeueTaskScx, &call, 1);
            return;
        }
        self.ops_dequeue(task, flags);
        if self.cpus[cpu].current == task {
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
        self.cpus[cpu].rq.scx.nr_running -= 1;
        self.cpus[cpu].rq.nr_running -= 1;
        self.dispatch_dequeue(task);
        self.clear_direct_dispatch(task);
        self.trace_return(Hook::DequeueTaskScx, &call, 1);
    }

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
            self.direct_dispatch = Some(Some(task));
            self.in_select_cpu = true;
            let cpu = self.call(
                Op::SelectCpu,
                &[task.address(), self.cpu_argument(previous), wake_flags],
            ) as i32;
            let cpu = self.cpu_from_scheduler(cpu);
            self.in_select_cpu = false;
            self.direct_dispatch = None;
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
            picked as usize
        } else {
            previous
        };
        task.seen.scx.selected_cpu = cpu as i32;
        cpu
    }

    /// `task_can_run_on_remote_rq`.
    fn can_run_on_remote(&mut self, task: TaskRef, cpu: usize, enforce: bool) -> bool {
        if task.seen.migration_disabled != 0 {
            if enforce {
                let message = format!(
                    "SCX_DSQ_LOCAL[_ON] cannot move migration disabled {} from CPU {} to {cpu}",
                    task.label(),
                    task.cpu()
                );
                self.fail(ExitKind::Error, message);
            }
            return false;
        }
        if !task.allowed().test(cpu) {
            if enforce {
                let message = format!(
                    "SCX_DSQ_LOCAL[_ON] target CPU {cpu} not allowed for {}",
                    task.label()
                );
                self.fail(ExitKind::Error, message);
            }
            return false;
        }
        if !self.cpus[cpu].online {
            if enforce {
                self.statistics.SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE += 1;
            }
            return false;
        }
        true
    }

    /// Puts a task that is on no queue on the local queue of `cpu`, moving it there first if need be.
    fn move_to_local(&mut self, mut task: TaskRef, cpu: usize, flags: u64) {
        let from = task.cpu();
        if from != cpu {
            self.wait_until_off_cpu(task);
            if from != self.this_cpu {
                self.lock_run_queue(from);
            }
        }
        // The target finds the task no earlier than it has left where it was.
        if cpu != self.this_cpu {
            self.lock_run_queue(cpu);
        }
        if from != cpu {
            self.cpus[from].rq.scx.nr_running -= 1;
            self.cpus[from].rq.nr_running -= 1;
            self.set_task_cpu(task, cpu);
            self.cpus[cpu].rq.scx.nr_running += 1;
            self.cpus[cpu].rq.nr_running += 1;
            task.seen.scx.runnable_cpu = cpu as i32;
        }
        let local = self.cpus[cpu].local;
        self.dsq_mut(local)
            .push(task, flags & (SCX_ENQ_HEAD | SCX_ENQ_PREEMPT) != 0);
        self.link(local, task);
        self.count_in(local, task, flags);
        task.seen.scx.holding_cpu = -1;
        self.after_local_insert(cpu, task, flags);
    }

    /// `scx_consume_dispatch_q`: moves the first task that may run on `cpu` to its local queue.
    pub(crate) fn consume(&mut self, cpu: usize, index: DsqIndex, flags: u64) -> bool {
        if self.dsq(index).is_empty() {
            return false;
        }
        let mut visited = 0;
        let mut candidate = self.dsq(index).first();
        while let Some(task) = candidate {
            visited += 1;
            if task.cpu() == cpu || self.can_run_on_remote(task, cpu, false) {
                break;
            }
            candidate = task.dsq_next;
        }
        self.charge_dsq_lock(index, visited);
        let Some(task) = candidate else { return false };
        self.unlink(task);
        self.move_to_local(task, cpu, flags);
        true
    }

    fn consume_global(&mut self, cpu: usize) -> bool {
        let index = self.global_dsq(cpu);
        self.consume(cpu, index, 0)
    }

    /// `move_task_between_dsqs`: from a user queue to any queue.
    pub(crate) fn move_between(&mut self, task: TaskRef, mut flags: u64, mut index: DsqIndex) {
        if let Some(cpu) = self.dsq(index).local_to {
            if task.cpu() == cpu || self.can_run_on_remote(task, cpu, true) {
                self.unlink(task);
                self.move_to_local(task, cpu, flags);
                return;
            }
            index = self.global_dsq(task.cpu());
            flags |= SCX_ENQ_GDSQ_FALLBACK;
        }
        self.unlink(task);
        self.dispatch_enqueue(index, task, 0, 0, flags);
    }

    /// `dispatch_to_local_dsq`.
    pub(crate) fn dispatch_to_local(
        &mut self,
        index: DsqIndex,
        mut task: TaskRef,
        slice: u64,
        vtime: u64,
        flags: u64,
    ) {
        let Some(cpu) = self.dsq(index).local_to else {
            return;
        };
        task.ops_state = OpsState::None;
        if task.cpu() == cpu {
            self.dispatch_enqueue(
                index,
                task,
                slice,
                vtime,
                flags | SCX_ENQ_APPLY_SLICE | SCX_ENQ_CLEAR_OPSS,
            );
        } else if self.can_run_on_remote(task, cpu, true) {
            self.apply_slice(task, slice, flags);
            self.move_to_local(task, cpu, flags);
        } else {
            let global = self.global_dsq(task.cpu());
            let flags = flags | SCX_ENQ_APPLY_SLICE | SCX_ENQ_GDSQ_FALLBACK;
            self.dispatch_enqueue(global, task, slice, vtime, flags);
            return;
        }
        if self.cpus[cpu].current.class < Class::Ext {
            self.resched(cpu);
        }
    }

    /// `finish_dispatch`.
    fn finish_dispatch(&mut self, cpu: usize, entry: BufferedInsert) {
        let mut task = entry.task;
        if task.ops_state != OpsState::Queued || task.seen.scx.ops_qseq != entry.sequence {
            return;
        }
        task.ops_state = OpsState::Dispatching;
        let index = self.dsq_for_dispatch(cpu, entry.dsq_id, task.cpu());
        if self.dsq(index).local_to.is_some() {
            self.dispatch_to_local(index, task, entry.slice, entry.vtime, entry.flags);
        } else {
            let flags = entry.flags | SCX_ENQ_APPLY_SLICE | SCX_ENQ_CLEAR_OPSS;
            self.dispatch_enqueue(index, task, entry.slice, entry.vtime, flags);
        }
    }

    /// `scx_flush_dispatch_buf`.
    pub(crate) fn flush_buffer(&mut self, cpu: usize) {
        let mut position = 0;
        while position < self.cpus[cpu].buffer.len() {
            let entry = self.cpus[cpu].buffer[position];
            self.finish_dispatch(cpu, entry);
            position += 1;
        }
        self.cpus[cpu].dispatched += position as u32;
        self.cpus[cpu].buffer.clear();
    }

    /// `scx_dispatch_sched`.
    fn dispatch_scheduler(&mut self, cpu: usize, previous: TaskRef) -> Verdict {
        if self.consume_global(cpu) {
            return Verdict::Local;
        }
        if !self.operations.has(Op::Dispatch) || !self.cpus[cpu].online {
            return Verdict::None;
        }
        let passed = if previous.class == Class::Ext {
            previous.address()
        } else {
            0
        };
        let mut loops = SCX_DSP_MAX_LOOPS;
        loop {
            self.cpus[cpu].dispatched = 0;
            self.call(Op::Dispatch, &[self.cpu_argument(cpu), passed]);
            self.flush_buffer(cpu);
            if previous.seen.scx.flags & SCX_TASK_QUEUED != 0 && previous.seen.scx.slice != 0 {
                return Verdict::Previous;
            }
            if !self.dsq(self.cpus[cpu].local).is_empty() || self.consume_global(cpu) {
                return Verdict::Local;
            }
            loops -= 1;
            if loops == 0 {
                self.cpus[cpu].kicks.push((cpu as u32, 0));
                return Verdict::None;
            }
            if self.cpus[cpu].dispatched == 0 || self.exit.is_some() {
                return Verdict::None;
            }
        }
    }

    /// `dispatch_one`.
    fn dispatch_one(&mut self, cpu: usize, previous: TaskRef) -> Verdict {
        self.cpus[cpu].in_dispatch = true;
        if self.operations.has_cpu_preempt() && self.cpus[cpu].rq.scx.cpu_released {
            let mut args = CpuAcquireArgs {};
            self.call(Op::CpuAcquire, &[cpu as u64, &raw mut args as u64]);
            self.cpus[cpu].rq.scx.cpu_released = false;
        }
        let mut verdict = None;
        if previous.class == Class::Ext {
            self.update_current(cpu);
            if previous.seen.scx.flags & SCX_TASK_QUEUED != 0 && previous.seen.scx.slice != 0 {
                verdict = Some(Verdict::Previous);
            }
        }
        let local = self.cpus[cpu].local;
        if verdict.is_none() && !self.dsq(local).is_empty() {
            verdict = Some(Verdict::Local);
        }
        let mut verdict = match verdict {
            Some(verdict) => verdict,
            None => self.dispatch_scheduler(cpu, previous),
        };
        if verdict == Verdict::None
            && previous.class == Class::Ext
            && previous.seen.scx.flags & SCX_TASK_QUEUED != 0
            && self.operations.flags & SCX_OPS_ENQ_LAST == 0
        {
            self.statistics.SCX_EV_DISPATCH_KEEP_LAST += 1;
            verdict = Verdict::Previous;
        }
        if verdict != Verdict::None
            && self.dsq(local).len() > 1
            && self.cpus[cpu].rq.scx.nr_immed > 0
        {
            self.schedule_local_reenqueue(cpu, 0);
        }
        self.cpus[cpu].in_dispatch = false;
        verdict
    }

    /// `do_pick_task_scx`.
    pub(crate) fn ext_pick(&mut self, cpu: usize, previous: TaskRef) -> Option<TaskRef> {
        self.cpus[cpu].kick_sync += 1;
        if self.dispatch_one(cpu, previous) == Verdict::Previous {
            if previous.seen.scx.slice == 0 {
                self.refill_slice(previous);
            }
            return Some(previous);
        }
        let first = self.dsq(self.cpus[cpu].local).first()?;
        if first.seen.scx.slice == 0 {
            if !self.warned_zero_slice {
                self.warned_zero_slice = true;
                let message = format!(
                    "sched_ext: {} has zero slice in do_pick_task_scx()",
                    first.label()
                );
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
    }

    fn switch_class(&mut self, cpu: usize, next: Successor) {
        if !self.operations.has_cpu_preempt()
            || next.class < Class::Ext
            || self.cpus[cpu].rq.scx.cpu_released
        {
            return;
        }
        // SCX_CPU_PREEMPT_RT, DL, STOP.
        let reason = match next.task.seen.policy {
            _ if next.stopper => 2,
            SCHED_DEADLINE => 1,
            _ => 0,
        };
        let mut args = CpuReleaseArgs {
            reason,
            task: next.task.address() as *mut _,
        };
        self.call(Op::CpuRelease, &[cpu as u64, &raw mut args as u64]);
        self.cpus[cpu].rq.scx.cpu_released = true;
    }

    /// `put_prev_task_scx`.
    pub(crate) fn ext_put_previous(&mut self, cpu: usize, mut task: TaskRef, next: Successor) {
        self.cpus[cpu].kick_sync += 1;
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
                    let local = self.cpus[cpu].local;
                    self.dispatch_enqueue(local, task, 0, 0, SCX_ENQ_HEAD);
                }
            } else if next.class < Class::Ext {
                self.do_enqueue(cpu, task, SCX_ENQ_LAST, -1);
                if task.dsq == Some(self.cpus[cpu].local) {
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
        if task.seen.scx.slice == 0 {
            self.resched(cpu);
        }
        self.trace_return(Hook::TaskTickScx, &call, 0);
    }

    /// `ops.init_task`; the error is the number with which the scheduler refused.
    pub(crate) fn init_task(&mut self, mut task: TaskRef, fork: bool) -> Result<(), i32> {
        task.seen.scx.disallow = false;
        if self.operations.has(Op::InitTask) {
            let mut args = InitTaskArgs {
                fork,
                cgroup: self.groups.cgroup_address(task.cgroup),
            };
            let result = self.call(Op::InitTask, &[task.address(), &raw mut args as u64]) as i32;
            if result > 0 {
                let message = format!("ops.init_task() returned an invalid errno {result}");
                self.fail(ExitKind::Error, message);
                return Err(-EPROTO);
            }
            if result != 0 {
                return Err(result);
            }
            // Of tasks that are there at the load it would matter only to those that ask for sched_ext, which no workload can.
            if task.seen.scx.disallow && fork {
                let task = task.label();
                let message =
                    format!("ops.init_task() set task->scx.disallow for {task} during fork");
                self.fail(ExitKind::Error, message);
            }
        }
        task.seen.scx.flags = task.seen.scx.flags & !SCX_TASK_STATE_MASK | SCX_TASK_READY;
        task.seen.scx.flags |= SCX_TASK_RESET_RUNNABLE_AT;
        Ok(())
    }

    /// `scx_enable_task`.
    pub(crate) fn enable_task(&mut self, mut task: TaskRef) {
        task.seen.scx.weight = cgroup_weight(task.seen.se.load.weight);
        if self.operations.cid_form {
            let mut args = EnableArgs {
                cmask_arena_addr: self.allowed_cids(task),
            };
            self.call(Op::Enable, &[task.address(), &raw mut args as u64]);
            self.call_set_cpumask(task);
        } else {
            self.call(Op::Enable, &[task.address()]);
        }
        self.call(
            Op::SetWeight,
            &[task.address(), u64::from(task.seen.scx.weight)],
        );
        task.seen.scx.flags = task.seen.scx.flags & !SCX_TASK_STATE_MASK | SCX_TASK_ENABLED;
    }

    /// `scx_disable_task`.
    pub(crate) fn disable_task(&mut self, mut task: TaskRef) {
        if task.seen.scx.flags & SCX_TASK_STATE_MASK != SCX_TASK_ENABLED {
            return;
        }
        self.clear_direct_dispatch(task);
        self.call(Op::Disable, &[task.address()]);
        task.seen.scx.flags = task.seen.scx.flags & !SCX_TASK_STATE_MASK | SCX_TASK_READY;
        task.seen.scx.dsq_vtime = 0;
        task.seen.scx.slice = 0;
        task.seen.scx.reenq_cnt = 0;
        task.seen.scx.flags |= SCX_TASK_RESET_RUNNABLE_AT;
    }

    /// `ops.exit_task`.
    pub(crate) fn exit_task(&mut self, mut task: TaskRef, cancelled: bool) {
        if task.seen.scx.flags & SCX_TASK_STATE_MASK == SCX_TASK_NONE {
            return;
        }
        let mut args = ExitTaskArgs { cancelled };
        self.call(Op::ExitTask, &[task.address(), &raw mut args as u64]);
        task.seen.scx.flags &= !SCX_TASK_STATE_MASK;
    }

    /// Tells the scheduler a task's new weight (`reweight_task_scx`).
    pub(crate) fn reweight(&mut self, mut task: TaskRef) {
        if task.seen.scx.flags & SCX_TASK_STATE_MASK != SCX_TASK_ENABLED {
            return;
        }
        task.seen.scx.weight = cgroup_weight(task.seen.se.load.weight);
        self.call(
            Op::SetWeight,
            &[task.address(), u64::from(task.seen.scx.weight)],
        );
    }

    /// Tells the scheduler a task's affinity.
    pub(crate) fn call_set_cpumask(&mut self, task: TaskRef) {
        if !self.operations.has(Op::SetCpumask) {
            return;
        }
        let mask = if self.operations.cid_form {
            self.allowed_cids(task)
        } else {
            task.seen.cpus_ptr as u64
        };
        self.call(Op::SetCpumask, &[task.address(), mask]);
    }

    /// The ids of the CPUs that a task may use, in the arena's memory for this (`scx_call_op_set_cpumask`): its address there.
    fn allowed_cids(&mut self, task: TaskRef) -> u64 {
        let count = self.cpus.len();
        let to_cpu = &self.cids.to_cpu;
        let bytes = cids::mask_bytes(count, |cid| task.allowed().test(to_cpu[cid]));
        let address = self.cid_masks + (self.this_cpu * bytes.len()) as u64;
        let arena = self.arena.as_mut();
        if let Some(memory) = arena.and_then(|arena| arena.memory(address, bytes.len())) {
            memory.copy_from_slice(&bytes);
        }
        address
    }

    /// The stall watchdog (`scx_watchdog_workfn`).
    pub(crate) fn handle_watchdog(&mut self) {
        if self.settings.duration.is_none()
            && let Some(reasons) = self.deadlock()
        {
            self.programs.failure = Some(format!("deadlock: {reasons}"));
            return;
        }
        let timeout = self.operations.timeout_ms * 1_000_000;
        let now = self.clock.now();
        let length = self.tick_length();
        let stalled = self
            .tasks
            .iter()
            .copied()
            .chain(self.hidden_tasks())
            .filter(|task| task.on_runnable_list && task.class == Class::Ext)
            .find(|task| now / length * length > task.runnable_since / length * length + timeout);
        if let Some(task) = stalled {
            let waited = (now - task.runnable_since) / 1_000_000;
            let message = format!(
                "{} failed to run for {}.{:03}s",
                task.label(),
                waited / 1000,
                waited % 1000
            );
            self.fail_on(ExitKind::ErrorStall, task.cpu() as i32, message);
            return;
        }
        self.clock
            .at(now + timeout / 2, crate::clock::Due::Watchdog);
    }

    /// Takes a CPU offline or online with what goes with it (`sched_cpu_deactivate`, `sched_cpu_activate`).
    pub(crate) fn set_online(&mut self, cpu: usize, online: bool) {
        let others = (0..self.cpus.len()).filter(|&other| other != cpu);
        let is_last = !online && !{ others }.any(|other| self.cpus[other].online);
        if self.cpus[cpu].online == online || is_last {
            return;
        }
        self.enter(cpu);
        self.emit(EventKind::CpuOnline {
            cpu: fairground_events::CpuId(cpu as u32),
            online,
        });
        if online {
            self.tell_of_hotplug(cpu, true);
            self.mark_online(cpu, true);
            // What was asked of the CPU while it was away is void.
            self.cpus[cpu].need_resched = false;
            self.resched(cpu);
        } else {
            self.finish_wakeups(cpu);
            self.mark_online(cpu, false);
            self.idle.forget(cpu, &self.topology);
            self.requeue_locally(cpu);
            self.tell_of_hotplug(cpu, false);
            for task in self.tasks_queued_on(cpu) {
                self.push_off(task);
            }
        }
        self.leave(OverheadKind::Scheduling);
    }

    pub(crate) fn mark_online(&mut self, cpu: usize, online: bool) {
        self.cpus[cpu].online = online;
        self.cpus[cpu].rq.online = i32::from(online);
        self.online.assign(cpu, online);
    }

    /// `handle_hotplug`: a scheduler that does not want to know is unloaded.
    fn tell_of_hotplug(&mut self, cpu: usize, online: bool) {
        self.online.assign(cpu, online);
        self.write_online_cids();
        let (op, direction) = match online {
            true => (Op::CpuOnline, "online"),
            false => (Op::CpuOffline, "offline"),
        };
        if self.operations.has(op) {
            self.call(op, &[self.cpu_argument(cpu)]);
            return;
        }
        let code = SCX_ECODE_ACT_RESTART | SCX_ECODE_RSN_HOTPLUG;
        let message = format!("cpu {cpu} going {direction}, exiting scheduler");
        let kind = ExitKind::UnregisteredKernel;
        self.exit_with(kind, code as i64, cpu as i32, message);
    }

    /// The tasks on the run queue of `cpu`.
    fn tasks_queued_on(&self, cpu: usize) -> Vec<TaskRef> {
        let tasks = self.tasks.iter().copied();
        tasks
            .filter(|task| task.cpu() == cpu && task.seen.on_rq != 0 && task.class != Class::Idle)
            .collect()
    }

    /// Puts the waiting tasks of a CPU that goes offline on its local queue, where the kernel fetches them (`rq_offline_scx`): taken off
    /// and put back, they fall there since the CPU is gone.
    fn requeue_locally(&mut self, cpu: usize) {
        let local = self.cpus[cpu].local;
        for task in self.tasks_queued_on(cpu) {
            if task.class == Class::Ext && task.on_runnable_list && task.dsq != Some(local) {
                let flags = DEQUEUE_SAVE | DEQUEUE_MOVE | DEQUEUE_NOCLOCK;
                self.ext_dequeue(cpu, task, flags);
                let flags = ENQUEUE_RESTORE | ENQUEUE_MOVE | ENQUEUE_NOCLOCK;
                self.ext_enqueue(cpu, task, flags);
            }
        }
    }
}

/// The kernel's conversion of a load weight to the cgroup scale, 1 to 10000 with 100 for nice 0.
pub(crate) fn cgroup_weight(weight: u64) -> u32 {
    ((weight * 100 + 512) / 1024).clamp(1, 10_000) as u32
}
