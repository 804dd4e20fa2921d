//! Work that waits until a run queue is unlocked: kicks, moves to other CPUs' local queues, reenqueues.

use crate::constants::*;
use crate::dispatch_queue::DsqRef;
use crate::kernel::Kernel;
use crate::task::{Class, TaskRef};

impl Kernel<'_> {
    /// `scx_kick_cpu`: asks for a kick; it is delivered when the current work on this CPU ends.
    pub(crate) fn kick(&mut self, cpu: usize, flags: u64) {
        if flags & SCX_KICK_IDLE != 0 {
            if flags & (SCX_KICK_PREEMPT | SCX_KICK_WAIT) != 0 {
                self.fail(ExitKind::Error, "PREEMPT/WAIT cannot be used with SCX_KICK_IDLE".into());
            }
            if self.can_skip_idle_kick(cpu) {
                return;
            }
        }
        let this_cpu = self.context.cpu;
        let kicks = &mut self.cpus[this_cpu].kicks;
        // A CPU is kicked once no matter how often that is asked for; a full kick replaces one for idle CPUs.
        match kicks.iter_mut().find(|kick| kick.0 == cpu as u32) {
            Some(kick) if flags & SCX_KICK_IDLE != 0 => {
                if kick.1 & SCX_KICK_IDLE != 0 {
                    kick.1 |= flags;
                }
            }
            Some(kick) => kick.1 = (kick.1 | flags) & !SCX_KICK_IDLE,
            None => kicks.push((cpu as u32, flags)),
        }
    }

    fn can_skip_idle_kick(&self, cpu: usize) -> bool {
        self.cpus[cpu].current != self.cpus[cpu].idle && !self.cpus[cpu].in_dispatch
    }

    /// `kick_cpus_irq_workfn`.
    #[inline(always)]
    pub(crate) fn deliver_kicks(&mut self, from: usize) {
        if !self.cpus[from].kicks.is_empty() {
            self.deliver_pending_kicks(from);
        }
    }

    #[inline(never)]
    fn deliver_pending_kicks(&mut self, from: usize) {
        let kicks = std::mem::take(&mut self.cpus[from].kicks);
        self.context.spent += self.settings.cost.irq_work;
        for (cpu, flags) in kicks {
            let cpu = cpu as usize;
            if flags & SCX_KICK_IDLE != 0 {
                if !self.can_skip_idle_kick(cpu) && self.cpus[cpu].online {
                    self.resched(cpu);
                }
                continue;
            }
            let class = self.cpus[cpu].current.class;
            if !self.cpus[cpu].online || class > Class::Ext {
                continue;
            }
            if flags & SCX_KICK_PREEMPT != 0 && class == Class::Ext {
                let current = self.cpus[cpu].current;
                self.set_slice(current, 0);
            }
            self.resched(cpu);
            if flags & SCX_KICK_WAIT != 0 && class == Class::Ext && cpu != from {
                self.wait_for_kicked(from, cpu);
            }
        }
    }

    /// Makes `from` wait in its next pass through the scheduler until `cpu`, which was just kicked, has begun one: when the interrupt has
    /// arrived there and the CPU has finished its current work.
    fn wait_for_kicked(&mut self, from: usize, cpu: usize) {
        let arrives = self.local_time() + self.settings.cost.interrupt;
        let begins = arrives.max(self.cpus[cpu].kernel_until);
        let state = &mut self.cpus[from];
        state.waits_for_kicks = state.waits_for_kicks.max(begins);
        self.resched(from);
    }

    /// `scx_schedule_reenq_local`, which makes no CPU reschedule.
    pub(crate) fn schedule_local_reenqueue(&mut self, cpu: usize, flags: u64) {
        let pending = &mut self.cpus[cpu].deferred_reenqueue;
        *pending = Some(pending.unwrap_or(0) | flags);
        self.cpus[self.context.cpu].deferred_of.push(cpu);
    }

    /// `schedule_dsq_reenq` for a user queue.
    pub(crate) fn schedule_user_reenqueue(&mut self, dsq: DsqRef, flags: u64) {
        let this_cpu = self.context.cpu;
        let pending = &mut self.cpus[this_cpu].deferred_user_reenqueue;
        match pending.iter_mut().find(|(queued, _)| *queued == dsq) {
            Some(entry) => entry.1 |= flags,
            None => pending.push((dsq, flags)),
        }
    }

    /// Runs all deferred work that an irq_work of `cpu` is to do (`deferred_irq_workfn`).
    #[inline(never)]
    pub(crate) fn run_deferred_of_all(&mut self, cpu: usize) {
        for other in std::mem::take(&mut self.cpus[cpu].deferred_of) {
            self.lock_run_queue(other);
            self.run_deferred(other);
            self.unlock_run_queue(other);
        }
        self.run_deferred(cpu);
    }

    /// `run_deferred`.
    #[inline(always)]
    pub(crate) fn run_deferred(&mut self, cpu: usize) {
        let state = self.cpu(cpu);
        let has_other_work =
            state.deferred_reenqueue.is_some() || !state.deferred_user_reenqueue.is_empty();
        if has_other_work || !state.deferred_locals.is_empty() {
            self.run_all_deferred(cpu);
        }
    }

    #[inline(never)]
    fn run_all_deferred(&mut self, cpu: usize) {
        let mut state = self.cpu(cpu);
        loop {
            if !state.deferred_locals.is_empty() {
                let mut task = state.deferred_locals.remove(0);
                let (slice, vtime) = (task.seen.scx.ddsp_slice, task.seen.scx.ddsp_vtime);
                let (dsq_id, flags) = (task.seen.scx.ddsp_dsq_id, task.seen.scx.ddsp_enq_flags);
                task.seen.scx.ddsp_dsq_id = SCX_DSQ_INVALID;
                task.seen.scx.ddsp_enq_flags = 0;
                let index = self.dsq_for_dispatch(cpu, dsq_id, task.cpu());
                self.dispatch_to_local(index, task, slice, vtime, flags);
            } else if let Some(flags) = state.deferred_reenqueue.take() {
                self.reenqueue_local(cpu, flags);
            } else if let Some((dsq, flags)) = state.deferred_user_reenqueue.pop() {
                self.reenqueue_user(dsq, flags);
            } else {
                break;
            }
            if self.exit.is_some() {
                break;
            }
        }
    }

    /// `reenq_local`; returns the number of tasks reenqueued.
    pub(crate) fn reenqueue_local(&mut self, cpu: usize, flags: u64) -> u32 {
        let open = self.cpus[cpu].next_class < Class::Ext || self.cpus[cpu].in_dispatch;
        let local = self.cpus[cpu].local;
        let mut candidates: Vec<(TaskRef, u32)> = Vec::new();
        let mut next = local.first();
        let mut first = true;
        while let Some(task) = next {
            next = task.dsq_next;
            let is_first = std::mem::replace(&mut first, false);
            if task.seen.scx.flags & SCX_TASK_IMMED != 0 && (!is_first || !open) {
                self.statistics.SCX_EV_REENQ_IMMED += 1;
                candidates.push((task, SCX_TASK_REENQ_IMMED));
            } else if flags & SCX_REENQ_ANY != 0 {
                candidates.push((task, SCX_TASK_REENQ_KFUNC));
            }
        }
        for (task, _) in &candidates {
            self.unlink(*task);
        }
        for (task, reason) in &candidates {
            self.reenqueue(cpu, *task, *reason);
        }
        candidates.len() as u32
    }

    fn reenqueue_user(&mut self, mut dsq: DsqRef, flags: u64) {
        if !dsq.live || flags & SCX_REENQ_ANY == 0 {
            return;
        }
        let iteration = dsq.start_iteration(false);
        while let (Some(task), _) = dsq.next_of_iteration(iteration) {
            self.unlink(task);
            self.reenqueue(task.cpu(), task, SCX_TASK_REENQ_KFUNC);
            if self.exit.is_some() {
                break;
            }
        }
        dsq.end_iteration(iteration);
    }

    fn reenqueue(&mut self, cpu: usize, mut task: TaskRef, reason: u32) {
        task.seen.scx.flags = task.seen.scx.flags & !SCX_TASK_REENQ_REASON_MASK | reason;
        self.do_enqueue(cpu, task, SCX_ENQ_REENQ, -1);
        task.seen.scx.flags &= !SCX_TASK_REENQ_REASON_MASK;
    }
}
