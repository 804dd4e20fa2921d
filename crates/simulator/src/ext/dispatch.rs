//! How a CPU gets its next task: `ops.dispatch()`, and moves between queues.

use crate::constants::*;
use crate::dispatch_queue::DsqRef;
use crate::kernel::{BufferedInsert, Kernel};
use crate::operations::Op;
use crate::structures::CpuAcquireArgs;
use crate::task::{Class, OpsState, TaskRef};

/// The conclusion of a dispatch (`enum scx_dsp_verdict`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    None,
    Local,
    Previous,
}

impl Kernel<'_> {
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
                let message =
                    format!("SCX_DSQ_LOCAL[_ON] target CPU {cpu} not allowed for {}", task.label());
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

    /// Puts a task that is on no queue on the local queue of `cpu`, after moving it to that CPU if need be.
    fn move_to_local(&mut self, mut task: TaskRef, cpu: usize, flags: u64) {
        let mut state = self.cpu(cpu);
        let from = task.cpu();
        if from != cpu {
            self.wait_until_off_cpu(task);
            if from != self.context.cpu {
                self.lock_run_queue(from);
            }
        }
        // The task reaches its target no earlier than it has left its old CPU.
        if cpu != self.context.cpu {
            self.lock_run_queue(cpu);
        }
        if from != cpu {
            self.cpus[from].rq.scx.nr_running -= 1;
            self.cpus[from].rq.nr_running -= 1;
            self.set_task_cpu(task, cpu);
            state.rq.scx.nr_running += 1;
            state.rq.nr_running += 1;
            self.append_runnable(cpu, task);
            if state.rq.scx.nr_running == 1 {
                self.start_deadline_server(cpu, Class::Ext);
            }
        }
        let mut local = state.local;
        local.push(task, flags & (SCX_ENQ_HEAD | SCX_ENQ_PREEMPT) != 0);
        self.link(local, task);
        self.count_in(local, task, flags);
        task.seen.scx.holding_cpu = -1;
        self.after_local_insert(cpu, task, flags);
    }

    /// `scx_consume_dispatch_q`: moves the first task that may run on `cpu` to its local queue.
    #[inline(always)]
    pub(crate) fn consume(&mut self, cpu: usize, queue: DsqRef, flags: u64) -> bool {
        !queue.is_empty() && self.consume_first(cpu, queue, flags)
    }

    #[inline(never)]
    fn consume_first(&mut self, cpu: usize, queue: DsqRef, flags: u64) -> bool {
        let mut visited = 0;
        let mut candidate = queue.first();
        while let Some(task) = candidate {
            visited += 1;
            if task.cpu() == cpu || self.can_run_on_remote(task, cpu, false) {
                break;
            }
            candidate = task.dsq_next;
        }
        self.charge_dsq_lock(queue, visited);
        let Some(task) = candidate else { return false };
        self.unlink(task);
        self.move_to_local(task, cpu, flags);
        true
    }

    fn consume_global(&mut self, cpu: usize) -> bool {
        self.consume(cpu, self.cpus[cpu].global, 0)
    }

    /// `move_task_between_dsqs`: from a user queue to any queue.
    pub(crate) fn move_between(&mut self, task: TaskRef, mut flags: u64, mut queue: DsqRef) {
        if let Some(cpu) = queue.local_to {
            if task.cpu() == cpu || self.can_run_on_remote(task, cpu, true) {
                self.unlink(task);
                self.move_to_local(task, cpu, flags);
                return;
            }
            queue = self.cpus[task.cpu()].global;
            flags |= SCX_ENQ_GDSQ_FALLBACK;
        }
        self.unlink(task);
        self.dispatch_enqueue(queue, task, 0, 0, flags);
    }

    /// `dispatch_to_local_dsq`.
    pub(crate) fn dispatch_to_local(
        &mut self,
        queue: DsqRef,
        mut task: TaskRef,
        slice: u64,
        vtime: u64,
        flags: u64,
    ) {
        let Some(cpu) = queue.local_to else {
            return;
        };
        task.ops_state = OpsState::None;
        if task.cpu() == cpu {
            self.dispatch_enqueue(
                queue,
                task,
                slice,
                vtime,
                flags | SCX_ENQ_APPLY_SLICE | SCX_ENQ_CLEAR_OPSS,
            );
        } else if self.can_run_on_remote(task, cpu, true) {
            self.apply_slice(task, slice, flags);
            self.move_to_local(task, cpu, flags);
        } else {
            let global = self.cpus[task.cpu()].global;
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
        let queue = self.dsq_for_dispatch(cpu, entry.dsq_id, task.cpu());
        if queue.local_to.is_some() {
            self.dispatch_to_local(queue, task, entry.slice, entry.vtime, entry.flags);
        } else {
            let flags = entry.flags | SCX_ENQ_APPLY_SLICE | SCX_ENQ_CLEAR_OPSS;
            self.dispatch_enqueue(queue, task, entry.slice, entry.vtime, flags);
        }
    }

    /// `scx_flush_dispatch_buf`.
    pub(crate) fn flush_buffer(&mut self, cpu: usize) {
        let mut state = self.cpu(cpu);
        if state.buffer.is_empty() {
            return;
        }
        let mut position = 0;
        while position < state.buffer.len() {
            let entry = state.buffer[position];
            self.finish_dispatch(cpu, entry);
            position += 1;
        }
        state.dispatched += position as u32;
        state.buffer.clear();
    }

    /// `scx_dispatch_sched`.
    fn dispatch_scheduler(&mut self, cpu: usize, previous: TaskRef) -> Verdict {
        let mut state = self.cpu(cpu);
        if self.consume_global(cpu) {
            return Verdict::Local;
        }
        if !self.operations.has(Op::Dispatch) || !state.online {
            return Verdict::None;
        }
        let passed = if previous.class == Class::Ext { previous.address() } else { 0 };
        let mut loops = SCX_DSP_MAX_LOOPS;
        loop {
            state.dispatched = 0;
            self.call(Op::Dispatch, &[self.cpu_argument(cpu), passed]);
            self.flush_buffer(cpu);
            if previous.seen.scx.flags & SCX_TASK_QUEUED != 0 && previous.seen.scx.slice != 0 {
                return Verdict::Previous;
            }
            if !state.local.is_empty() || self.consume_global(cpu) {
                return Verdict::Local;
            }
            loops -= 1;
            if loops == 0 {
                state.kicks.push((cpu as u32, 0));
                return Verdict::None;
            }
            if state.dispatched == 0 || self.exit.is_some() {
                return Verdict::None;
            }
        }
    }

    /// `dispatch_one`.
    pub(super) fn dispatch_one(&mut self, cpu: usize, previous: TaskRef) -> Verdict {
        let mut state = self.cpu(cpu);
        state.in_dispatch = true;
        if self.operations.has_cpu_preempt() && state.rq.scx.cpu_released {
            let mut args = CpuAcquireArgs {};
            self.call(Op::CpuAcquire, &[cpu as u64, &raw mut args as u64]);
            state.rq.scx.cpu_released = false;
        }
        let mut verdict = None;
        if previous.class == Class::Ext {
            self.update_current(cpu);
            if previous.seen.scx.flags & SCX_TASK_QUEUED != 0 && previous.seen.scx.slice != 0 {
                verdict = Some(Verdict::Previous);
            }
        }
        let local = state.local;
        if verdict.is_none() && !local.is_empty() {
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
        if verdict != Verdict::None && local.len() > 1 && state.rq.scx.nr_immed > 0 {
            self.schedule_local_reenqueue(cpu, 0);
        }
        state.in_dispatch = false;
        verdict
    }
}
