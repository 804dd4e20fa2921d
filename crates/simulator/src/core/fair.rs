//! The fair class, a stand-in for the kernel's own under a scheduler that switches partially.

use std::cmp::Reverse;

use crate::constants::*;
use crate::kernel::Kernel;
use crate::task::{Class, TaskRef};

/// Slice of the fair class.
pub(super) const FAIR_SLICE: u64 = 2_800_000;

impl Kernel<'_> {
    pub(super) fn update_fair(&mut self, cpu: usize, mut task: TaskRef) {
        let ran = self.update_class_time(cpu, task);
        task.fair_slice = task.fair_slice.saturating_sub(ran);
        self.charge_server(cpu, Class::Fair, ran, false);
        task.fair_vruntime += ran * 1024 / task.seen.se.load.weight.max(1);
        let least = self.cpus[cpu]
            .fair
            .iter()
            .map(|task| task.fair_vruntime)
            .chain([task.fair_vruntime])
            .min();
        if let Some(least) = least {
            self.cpus[cpu].fair_min_vruntime = self.cpus[cpu].fair_min_vruntime.max(least);
        }
    }

    pub(super) fn fair_enqueue(&mut self, cpu: usize, mut task: TaskRef, waking: bool) {
        let floor = self.cpus[cpu].fair_min_vruntime;
        let credit = if waking { FAIR_SLICE } else { 0 };
        task.fair_vruntime = task.fair_vruntime.max(floor.saturating_sub(credit));
        self.cpus[cpu].fair.push(task);
        self.cpus[cpu].rq.nr_running += 1;
        self.start_deadline_server(cpu, Class::Fair);
    }

    pub(super) fn fair_select_cpu(&mut self, task: TaskRef, previous: usize) -> usize {
        let load = |kernel: &Self, cpu: usize| {
            kernel.cpus[cpu].rq.nr_running + u32::from(kernel.cpus[cpu].current.class > Class::Fair)
        };
        if task.allowed().test(previous) && load(self, previous) == 0 {
            return previous;
        }
        task.allowed()
            .iter()
            .take_while(|&cpu| cpu < self.cpus.len())
            .filter(|&cpu| self.cpus[cpu].online)
            .min_by_key(|&cpu| (load(self, cpu), cpu != previous))
            .unwrap_or(previous)
    }

    /// A CPU that would be idle takes a task that waits elsewhere, from the CPU where most do; returns whether there was one
    /// (`sched_balance_newidle`). Where all tasks are sched_ext's, there is none to look for.
    pub(super) fn fair_pull(&mut self, cpu: usize) -> bool {
        if self.operations.flags & SCX_OPS_SWITCH_PARTIAL == 0 || !self.cpus[cpu].online {
            return false;
        }
        let movable =
            |task: &TaskRef| task.allowed().test(cpu) && task.seen.migration_disabled == 0;
        let first = |from: usize| {
            let waiting = &self.cpus[from].fair;
            let task = waiting.iter().copied().find(movable)?;
            Some((waiting.len(), Reverse(from), task))
        };
        let found = { (0..self.cpus.len()).filter_map(first) }
            .max_by_key(|(waiting, from, _)| (*waiting, *from));
        let Some((_, Reverse(from), task)) = found else {
            return false;
        };
        self.lock_run_queue(from);
        self.wait_until_off_cpu(task);
        self.cpus[from].fair.retain(|other| *other != task);
        self.cpus[from].rq.nr_running -= 1;
        self.set_task_cpu(task, cpu);
        self.fair_enqueue(cpu, task, false);
        self.unlock_run_queue(from);
        true
    }

    #[inline]
    pub(crate) fn fair_pick(&mut self, cpu: usize, previous: TaskRef) -> Option<TaskRef> {
        let has_tasks = previous.class == Class::Fair || !self.cpus[cpu].fair.is_empty();
        if has_tasks { self.pick_by_vruntime(cpu, previous) } else { None }
    }

    fn pick_by_vruntime(&mut self, cpu: usize, previous: TaskRef) -> Option<TaskRef> {
        let least =
            self.cpus[cpu].fair.iter().copied().min_by_key(|task| (task.fair_vruntime, task.id));
        let stays = previous.class == Class::Fair && previous.seen.__state == TASK_RUNNING;
        let mut next = match least {
            Some(least)
                if !stays
                    || previous.fair_slice == 0
                    || (previous.fair_vruntime.wrapping_sub(least.fair_vruntime) as i64)
                        > FAIR_SLICE as i64 =>
            {
                least
            }
            _ if stays => previous,
            _ => return None,
        };
        if next != previous || next.fair_slice == 0 {
            next.fair_slice = FAIR_SLICE;
        }
        Some(next)
    }
}
