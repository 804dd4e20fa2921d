//! How real-time tasks find a CPU: the priorities at which CPUs work (`cpupri.c`), and push and pull between them (`rt.c`).

use super::deadline::Arrival;
use super::real_time::NO_PRIORITY;
use crate::idle::distribute;
use crate::kernel::Kernel;
use crate::structures::CpuMask;
use crate::task::{Class, TaskRef};

/// The capacity that a real-time task asks for (`sysctl_sched_uclamp_util_min_rt_default`), which the largest CPUs have.
const WANTED_CAPACITY: u64 = 1024;

/// The level of a CPU with a deadline task (`CPUPRI_HIGHER`).
const DEADLINE_LEVEL: i32 = 100;

impl Kernel<'_> {
    /// At which of the 101 levels a CPU works: 0 without a real-time task, whether it is idle or not, then the real-time priorities, and above
    /// them deadlines (`convert_prio`).
    fn level(&self, cpu: usize) -> i32 {
        if self.earliest_deadline(cpu).is_some() {
            return DEADLINE_LEVEL;
        }
        NO_PRIORITY - self.cpus[cpu].real_time.highest()
    }

    /// Whether a CPU that `task` may use works at a lower level than the task would (`cpupri_find` without a mask).
    pub(super) fn has_lower_cpu(&self, task: TaskRef) -> bool {
        let wanted = NO_PRIORITY - task.seen.prio;
        (0..self.cpus.len()).any(|cpu| {
            self.cpus[cpu].online && task.seen.cpus_mask.test(cpu) && self.level(cpu) < wanted
        })
    }

    /// Whether a CPU has the capacity that real-time tasks ask for; all have on machines whose CPUs are equal (`rt_task_fits_capacity`).
    fn fits_capacity(&self, cpu: usize) -> bool {
        !self.topology.unequal || self.cpus[cpu].capacity >= WANTED_CAPACITY
    }

    /// The CPUs of the lowest level below that of `task`; of those that fit it, if any do (`cpupri_find_fitness`).
    fn lowest_cpus(&self, task: TaskRef) -> Option<CpuMask> {
        let find = |fitting: bool| {
            let mut lowest = NO_PRIORITY - task.seen.prio;
            let mut found = None;
            for cpu in (0..self.cpus.len()).filter(|&cpu| self.cpus[cpu].online) {
                let level = self.level(cpu);
                if level > lowest
                    || level == lowest && found.is_none()
                    || !task.seen.cpus_mask.test(cpu)
                    || fitting && !self.fits_capacity(cpu)
                {
                    continue;
                }
                if level < lowest {
                    lowest = level;
                    found = Some(CpuMask::default());
                }
                if let Some(mask) = &mut found {
                    mask.set(cpu);
                }
            }
            found
        };
        find(true).or_else(|| self.topology.unequal.then(|| find(false)).flatten())
    }

    /// The CPU that does the least important work of those that `task` may use, the nearest of equals; `None` if all do work that is at least as
    /// important (`find_lowest_rq`).
    fn find_lowest(&mut self, task: TaskRef) -> Option<usize> {
        if task.seen.nr_cpus_allowed == 1 {
            return None;
        }
        let lowest = self.lowest_cpus(task)?;
        self.nearest(task.cpu(), &lowest)
    }

    /// The CPU of `mask` that is nearest to `home`: that one itself, or one in the smallest domain around it, where the running CPU comes
    /// first, and otherwise each in turn.
    pub(super) fn nearest(&mut self, home: usize, mask: &CpuMask) -> Option<usize> {
        if mask.test(home) {
            return Some(home);
        }
        let topology = &self.topology;
        let node = topology.node_of[home];
        let mut around = topology.nodes[node];
        let near = [topology.siblings[home], topology.caches[topology.cache_of[home]], around];
        let distance = |other: usize| {
            let row = node * topology.nodes.len();
            self.machine.node_distances[row + other]
        };
        let others = &topology.nodes_by_distance[node];
        let far = others.chunk_by(|&a, &b| distance(a) == distance(b));
        let far = far.map(|others| {
            for cpu in others.iter().flat_map(|&other| topology.nodes[other].iter()) {
                around.set(cpu);
            }
            around
        });
        let here = mask.test(self.context.cpu).then_some(self.context.cpu);
        let previous = &mut self.cpus[self.context.cpu].distributed;
        near.into_iter().chain(far).find_map(|span| {
            let here = here.filter(|&here| span.test(here));
            here.or_else(|| distribute(mask, &span, previous, topology))
        })
    }

    /// `select_task_rq_rt`: a waking task stays where it was, even if it preempts another there, unless that one cannot go or is as important.
    pub(super) fn real_time_select_cpu(&mut self, task: TaskRef, previous: usize) -> usize {
        let current = self.cpus[previous].current;
        let stays = current.class != Class::RealTime
            || current.seen.nr_cpus_allowed > 1 && current.seen.prio > task.seen.prio;
        if stays && self.fits_capacity(previous) {
            return previous;
        }
        match self.find_lowest(task) {
            Some(cpu)
                if (!stays || self.fits_capacity(cpu))
                    && task.seen.prio < self.cpus[cpu].real_time.highest() =>
            {
                cpu
            }
            _ => previous,
        }
    }

    /// Pushes tasks that wait on `cpu` to CPUs that do less important work (`push_rt_tasks`).
    pub(super) fn push_real_time(&mut self, cpu: usize) {
        while self.push_one_real_time(cpu) {}
    }

    /// Pushes the first task that may go, if there is a place for it; returns whether it has gone (`push_rt_task`).
    fn push_one_real_time(&mut self, cpu: usize) -> bool {
        let mut waiting = self.cpus[cpu].real_time.pushable().iter();
        let Some(&task) = waiting.find(|task| task.seen.migration_disabled == 0) else {
            return false;
        };
        if task.seen.prio < self.cpus[cpu].current.seen.prio {
            self.resched(cpu);
            return false;
        }
        match self.find_lowest(task) {
            Some(target)
                if target != cpu && task.seen.prio < self.cpus[target].real_time.highest() =>
            {
                self.lock_run_queue(target);
                self.move_waiting(task, target);
                self.unlock_run_queue(target);
                self.run_deferred(target);
                true
            }
            _ => false,
        }
    }

    /// Moves a waiting deadline or real-time task to another CPU, which reschedules (`move_queued_task_locked`).
    pub(super) fn move_waiting(&mut self, task: TaskRef, target: usize) {
        if task.class == Class::Deadline {
            self.deadline_dequeue(task.cpu(), task);
            self.set_task_cpu(task, target);
            self.deadline_enqueue(target, task, Arrival::Moved);
        } else {
            self.real_time_dequeue(task.cpu(), task, 0);
            self.set_task_cpu(task, target);
            self.real_time_enqueue(target, task, 0);
        }
        self.wakeup_preempt(target, task);
        self.resched(target);
    }

    /// Pushes a task that has woken and stays behind another, or the tasks that it keeps waiting (`task_woken_rt`).
    pub(super) fn real_time_woken(&mut self, cpu: usize, task: TaskRef) {
        let current = self.cpus[cpu].current;
        if current != task
            && !self.cpus[cpu].need_resched
            && task.seen.nr_cpus_allowed > 1
            && current.class >= Class::RealTime
            && (current.seen.nr_cpus_allowed < 2 || current.seen.prio <= task.seen.prio)
        {
            self.push_real_time(cpu);
        }
    }

    /// Before the next task of `cpu` is picked: if its deadline or real-time task has gone and the rest is less important, it pulls tasks that wait
    /// elsewhere (`prev_balance`).
    pub(super) fn balance(&mut self, cpu: usize, previous: TaskRef, stopped: bool) {
        if previous.class < Class::RealTime && !stopped {
            return;
        }
        let was_deadline = previous.class == Class::Deadline;
        if was_deadline && !self.cpus[cpu].deadline.has(previous) {
            self.pull_deadline(cpu);
        }
        if self.earliest_deadline(cpu).is_some() {
            return;
        }
        let has_gone =
            was_deadline || previous.class == Class::RealTime && previous.seen.on_rq == 0;
        let highest = self.cpus[cpu].real_time.highest();
        // The stopper has the highest priority.
        if stopped && highest > 0 || has_gone && highest > previous.seen.prio {
            self.pull_real_time(cpu);
        }
    }

    /// Moves the running task of `cpu` to a CPU that does less important work, so that one that may not leave `cpu` can run (`push_cpu_stop`).
    pub(super) fn push_running(&mut self, cpu: usize) {
        let task = self.cpus[cpu].current;
        if task.seen.migration_disabled != 0 {
            return;
        }
        let target = match task.class {
            Class::Deadline => self.find_later(task).filter(|&to| self.would_be_first(task, to)),
            Class::RealTime => self
                .find_lowest(task)
                .filter(|&to| task.seen.prio < self.cpus[to].real_time.highest()),
            Class::Fair | Class::Ext | Class::Idle => None,
        };
        if let Some(target) = target.filter(|&target| target != cpu) {
            self.push_off(task, Some(target));
        }
    }

    /// Takes from every other CPU the most important task that waits there, if it is more important than all that `cpu` has (`pull_rt_task`).
    pub(super) fn pull_real_time(&mut self, cpu: usize) {
        if !self.cpus[cpu].online {
            return;
        }
        for from in 0..self.cpus.len() {
            let source = &self.cpus[from];
            if from == cpu || !source.online {
                continue;
            }
            let mut waiting = source.real_time.pushable().iter();
            let found = waiting.find(|task| task.seen.cpus_mask.test(cpu)).copied();
            let Some(task) = found else { continue };
            let is_higher = task.seen.prio < self.cpus[cpu].real_time.highest();
            // One that is about to preempt the task that runs there stays.
            if !is_higher || task.seen.prio < source.current.seen.prio {
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
