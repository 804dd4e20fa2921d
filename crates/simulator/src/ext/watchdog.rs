//! The list of runnable tasks, and the watchdog over it.

use crate::clock::Due;
use crate::constants::*;
use crate::kernel::Kernel;
use crate::task::{Class, TaskRef};

impl Kernel<'_> {
    pub(super) fn set_runnable(&mut self, cpu: usize, mut task: TaskRef) {
        if task.seen.scx.flags & SCX_TASK_RESET_RUNNABLE_AT != 0 {
            task.runnable_since = self.clock.now();
            task.seen.scx.runnable_at = self.jiffies();
            task.seen.scx.flags &= !SCX_TASK_RESET_RUNNABLE_AT;
        }
        self.append_runnable(cpu, task);
    }

    /// Puts a task at the end of a run queue's list.
    pub(super) fn append_runnable(&mut self, cpu: usize, mut task: TaskRef) {
        task.runnable_place = Some(self.tasks.next_runnable_place());
        task.seen.scx.runnable_cpu = cpu as i32;
    }

    /// The waiting tasks of a CPU's run queue (`rq->scx.runnable_list`).
    pub(crate) fn runnable_list(&self, cpu: usize) -> Vec<TaskRef> {
        let tasks = self.tasks.workload().iter().copied().chain(self.tasks.hidden());
        let mut list: Vec<TaskRef> =
            tasks.filter(|task| task.runnable_place.is_some() && task.cpu() == cpu).collect();
        list.sort_by_key(|task| task.runnable_place);
        list
    }

    pub(super) fn clear_runnable(&mut self, mut task: TaskRef, reset: bool) {
        task.runnable_place = None;
        task.seen.scx.runnable_cpu = -1;
        if reset {
            task.seen.scx.flags |= SCX_TASK_RESET_RUNNABLE_AT;
            task.seen.scx.reenq_cnt = 0;
        }
    }

    /// The kernel's tick count.
    pub(crate) fn jiffies(&mut self) -> u64 {
        let length = self.tick_length();
        self.jiffies.at(self.clock.now(), length, self.settings.uptime)
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
        let ticks = |time: u64| self.ticks_until(time) * length;
        let stalled = self
            .tasks
            .workload()
            .iter()
            .copied()
            .chain(self.tasks.hidden())
            .filter(|task| task.runnable_place.is_some() && task.class == Class::Ext)
            .filter(|task| ticks(now) > ticks(task.runnable_since) + timeout)
            .min_by_key(|task| (task.cpu(), task.runnable_place));
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
        self.clock.at(now + timeout / 2, Due::Watchdog);
    }
}
