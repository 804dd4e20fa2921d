//! How deadline tasks are spread over CPUs, so that those with the earliest deadlines run (`cpudeadline.c` and `deadline.c`).

use crate::kernel::Kernel;
use crate::structures::CpuMask;
use crate::task::{Class, TaskRef};

impl Kernel<'_> {
    /// The earliest deadline on a CPU, of a task or of its deadline server; `None`: nothing of this class is there (`earliest_dl.curr`).
    pub(super) fn earliest_deadline(&self, cpu: usize) -> Option<u64> {
        let state = &self.cpus[cpu];
        let first = state.deadline.tasks().first();
        let task = first.map(|task| task.deadline.deadline);
        let server = state.deadline_servers.first();
        let server = server.map(|(deadline, _)| deadline);
        task.into_iter().chain(server).min()
    }

    /// Whether `task` would be the first of this class on `cpu` (`dl_task_is_earliest_deadline`).
    pub(super) fn would_be_first(&self, task: TaskRef, cpu: usize) -> bool {
        let earliest = self.earliest_deadline(cpu);
        earliest.is_none_or(|earliest| task.deadline.deadline < earliest)
    }

    /// The CPU whose earliest deadline is the latest (`cpudl_maximum`).
    fn latest_cpu(&self) -> Option<(usize, u64)> {
        let cpus = (0..self.cpus.len()).filter(|&cpu| self.cpus[cpu].online);
        let busy = cpus.filter_map(|cpu| Some((cpu, self.earliest_deadline(cpu)?)));
        busy.reduce(|best, other| if other.1 > best.1 { other } else { best })
    }

    /// Whether the CPU with the latest deadline would take `task` (`cpudl_find` without a mask).
    pub(super) fn has_later_cpu(&self, task: TaskRef) -> bool {
        self.latest_cpu().is_some_and(|(cpu, latest)| {
            task.seen.cpus_mask.test(cpu) && task.deadline.deadline < latest
        })
    }

    /// Whether a CPU is fast enough to give a task its runtime by the deadline (`dl_task_fits_capacity`).
    fn fits_deadline(&self, task: TaskRef, cpu: usize) -> bool {
        task.deadline.relative * self.cpus[cpu].capacity / 1024 >= task.deadline.runtime
    }

    /// The CPUs without this class that fit `task`, or the largest of them if none does; if there are none, the one with the latest deadline, if
    /// that is later than the task's (`cpudl_find`).
    fn later_cpus(&self, task: TaskRef) -> Option<CpuMask> {
        let mut mask = CpuMask::default();
        let free: Vec<usize> = (0..self.cpus.len())
            .filter(|&cpu| self.cpus[cpu].online && task.seen.cpus_mask.test(cpu))
            .filter(|&cpu| self.earliest_deadline(cpu).is_none())
            .collect();
        let fits = |cpu: &usize| !self.topology.unequal || self.fits_deadline(task, *cpu);
        for &cpu in free.iter().filter(|cpu| fits(cpu)) {
            mask.set(cpu);
        }
        if mask.first().is_some() {
            return Some(mask);
        }
        let home = task.cpu();
        let largest = free
            .into_iter()
            .max_by_key(|&cpu| (self.cpus[cpu].capacity, cpu == home, std::cmp::Reverse(cpu)));
        let (latest, _) = self.latest_cpu().unzip();
        let latest = latest.filter(|_| self.has_later_cpu(task));
        mask.set(largest.or(latest)?);
        Some(mask)
    }

    /// A CPU where `task` would come first, the nearest of equals; `None` if there is none (`find_later_rq`).
    pub(super) fn find_later(&mut self, task: TaskRef) -> Option<usize> {
        if task.seen.nr_cpus_allowed == 1 {
            return None;
        }
        let later = self.later_cpus(task)?;
        self.nearest(task.cpu(), &later)
    }

    /// `select_task_rq_dl`: a waking task stays where it was, unless one with an earlier deadline runs there, or one that cannot go.
    pub(super) fn deadline_select_cpu(&mut self, task: TaskRef, previous: usize) -> usize {
        let current = self.cpus[previous].current;
        let goes = current.class == Class::Deadline
            && (current.seen.nr_cpus_allowed < 2
                || task.deadline.deadline >= current.deadline.deadline)
            || self.topology.unequal && !self.fits_deadline(task, previous);
        if !goes {
            return previous;
        }
        match self.find_later(task) {
            Some(cpu) if self.would_be_first(task, cpu) => cpu,
            _ => previous,
        }
    }

    /// Pushes tasks that wait on `cpu` to CPUs where it comes first (`push_dl_tasks`).
    pub(super) fn push_deadline(&mut self, cpu: usize) {
        while self.push_one_deadline(cpu) {}
    }

    /// Pushes the first task that may go, if there is a place for it; returns whether it has gone (`push_dl_task`).
    pub(super) fn push_one_deadline(&mut self, cpu: usize) -> bool {
        let mut waiting = self.cpus[cpu].deadline.pushable().iter();
        let Some(&task) = waiting.find(|task| task.seen.migration_disabled == 0) else {
            return false;
        };
        let current = self.cpus[cpu].current;
        if current.class == Class::Deadline
            && task.deadline.deadline < current.deadline.deadline
            && current.seen.nr_cpus_allowed > 1
        {
            self.resched(cpu);
            return false;
        }
        match self.find_later(task) {
            Some(target) if target != cpu && self.would_be_first(task, target) => {
                self.lock_run_queue(target);
                self.move_waiting(task, target);
                self.unlock_run_queue(target);
                self.run_deferred(target);
                true
            }
            _ => false,
        }
    }

    /// Pushes a task that has woken and stays behind another, or the tasks that it keeps waiting (`task_woken_dl`).
    pub(super) fn deadline_woken(&mut self, cpu: usize, task: TaskRef) {
        let current = self.cpus[cpu].current;
        if current != task
            && !self.cpus[cpu].need_resched
            && task.seen.nr_cpus_allowed > 1
            && current.class == Class::Deadline
            && (current.seen.nr_cpus_allowed < 2
                || task.deadline.deadline >= current.deadline.deadline)
        {
            self.push_deadline(cpu);
        }
    }

    /// `switched_from_dl`: once the last task of the class has left `cpu` for another class, the CPU pulls tasks that wait elsewhere.
    pub(super) fn switched_from_deadline(&mut self, cpu: usize, task: TaskRef) {
        if task.seen.on_rq != 0 && self.earliest_deadline(cpu).is_none() {
            self.pull_deadline(cpu);
            self.run_deferred(cpu);
        }
    }

    /// Takes from every other CPU the task with the earliest deadline that waits there, if it would come first here (`pull_dl_task`).
    pub(super) fn pull_deadline(&mut self, cpu: usize) {
        if !self.cpus[cpu].online {
            return;
        }
        for from in 0..self.cpus.len() {
            let source = &self.cpus[from];
            if from == cpu || !source.online {
                continue;
            }
            let mut waiting = source.deadline.pushable().iter();
            let found = waiting.find(|task| task.seen.cpus_mask.test(cpu)).copied();
            let Some(task) = found else { continue };
            let current = source.current;
            // One that is about to preempt the task that runs there stays.
            let preempts = current.class == Class::Deadline
                && task.deadline.deadline < current.deadline.deadline;
            if preempts || !self.would_be_first(task, cpu) {
                continue;
            }
            if task.seen.migration_disabled != 0 {
                self.push_running(from);
                continue;
            }
            self.lock_run_queue(from);
            self.move_waiting(task, cpu);
            self.unlock_run_queue(from);
        }
    }
}
