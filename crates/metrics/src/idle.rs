//! Idle CPUs that a waiting task could have used.

use crate::cpu_sets::{ALL_CPUS, CpuSets, SetId};
use fairground_events::Nanoseconds;

/// Waiting tasks, counted by their set of allowed CPUs.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitingTasks {
    by_set: Vec<usize>,
    total: usize,
    /// Those of fair policies, by their set.
    crowds: Vec<Crowd>,
}

/// Waiting tasks of fair policies with the same set of allowed CPUs.
#[derive(Clone, Copy, Debug, Default)]
struct Crowd {
    tasks: usize,
    /// Since when there has been one without interruption.
    since: Nanoseconds,
}

impl WaitingTasks {
    /// A task with this set, of a fair policy or not, begins to wait now.
    pub(crate) fn add(&mut self, set: SetId, fair: bool, now: Nanoseconds) {
        let set = set as usize;
        if set >= self.by_set.len() {
            self.by_set.resize(set + 1, 0);
            self.crowds.resize(set + 1, Crowd::default());
        }
        if fair {
            let crowd = &mut self.crowds[set];
            if crowd.tasks == 0 {
                crowd.since = now;
            }
            crowd.tasks += 1;
        }
        self.by_set[set] += 1;
        self.total += 1;
    }

    /// The sets of which tasks of fair policies wait, and since when there has been one of each without interruption.
    pub(crate) fn crowds(&self) -> impl Iterator<Item = (SetId, Nanoseconds)> {
        let crowds = self.crowds.iter().enumerate();
        crowds.filter_map(|(set, crowd)| (crowd.tasks > 0).then_some((set as SetId, crowd.since)))
    }

    /// Since when there has been a waiting task of a fair policy with this set without interruption, if there is one left.
    #[inline]
    pub(crate) fn last_of(&self, set: SetId) -> Option<Nanoseconds> {
        let crowd = self.crowds[set as usize];
        (crowd.tasks == 1).then_some(crowd.since)
    }

    /// A task with this set, of a fair policy or not, no longer waits.
    pub(crate) fn remove(&mut self, set: SetId, fair: bool) {
        if fair {
            self.crowds[set as usize].tasks -= 1;
        }
        self.by_set[set as usize] -= 1;
        self.total -= 1;
    }

    /// How many there are.
    #[inline]
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// How many idle CPUs could run waiting tasks at the same time: the size of a maximum matching between them.
    #[inline]
    pub(crate) fn usable(&self, idle: &IdleCpus, cpus: &CpuSets) -> usize {
        if self.total == 0 || idle.count == 0 {
            return 0;
        }
        let usable = self.usable_by_unrestricted(idle.count);
        usable.unwrap_or_else(|| self.usable_by_restricted(idle, cpus))
    }

    /// The same with so many idle CPUs, if none of the waiting tasks is restricted.
    #[inline]
    pub(crate) fn usable_by_unrestricted(&self, idle: usize) -> Option<usize> {
        (self.unrestricted() == self.total).then(|| self.total.min(idle))
    }

    /// How many of them may use all CPUs.
    fn unrestricted(&self) -> usize {
        self.by_set.first().copied().unwrap_or(0)
    }

    /// The size of the matching if only some of the waiting tasks are unrestricted.
    #[inline(never)]
    fn usable_by_restricted(&self, idle: &IdleCpus, cpus: &CpuSets) -> usize {
        let mut matching =
            Matching { waiting: &self.by_set, cpus, assigned: vec![Vec::new(); self.by_set.len()] };
        let mut matched = 0;
        for cpu in (0..cpus.cpus()).filter(|&cpu| idle.idle[cpu]) {
            if matching.place(cpu, &mut vec![false; self.by_set.len()]) {
                matched += 1;
            }
        }
        // Unrestricted tasks fit on any CPU that the others leave.
        matched + self.unrestricted().min(idle.count - matched)
    }
}

/// The online CPUs that run no task.
#[derive(Clone, Debug)]
pub(crate) struct IdleCpus {
    idle: Vec<bool>,
    /// By CPU, since when it has been idle or not.
    since: Vec<Nanoseconds>,
    count: usize,
}

impl IdleCpus {
    /// `cpus` CPUs, all idle.
    pub(crate) fn new(cpus: usize) -> Self {
        Self { idle: vec![true; cpus], since: vec![0; cpus], count: cpus }
    }

    /// How many are idle.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Since when `cpu` has been idle, if it is.
    #[inline]
    pub(crate) fn since(&self, cpu: usize) -> Option<Nanoseconds> {
        self.idle[cpu].then(|| self.since[cpu])
    }

    /// The CPU of a set that has been idle for longest, the first of equals, and since when.
    pub(crate) fn longest_in(&self, set: SetId, cpus: &CpuSets) -> Option<(usize, Nanoseconds)> {
        let allowed = (0..cpus.cpus()).filter(|&cpu| cpus.contains(set, cpu));
        let idle = allowed.filter_map(|cpu| Some((cpu, self.since(cpu)?)));
        idle.min_by_key(|(_, since)| *since)
    }

    /// Marks `cpu` as idle or not from `now` on.
    pub(crate) fn set(&mut self, cpu: usize, idle: bool, now: Nanoseconds) {
        if self.idle[cpu] != idle {
            self.idle[cpu] = idle;
            self.since[cpu] = now;
            if idle {
                self.count += 1;
            } else {
                self.count -= 1;
            }
        }
    }
}

/// A matching under construction between idle CPUs and restricted waiting tasks.
struct Matching<'a> {
    waiting: &'a [usize],
    cpus: &'a CpuSets,
    /// CPUs assigned to the tasks of each set.
    assigned: Vec<Vec<usize>>,
}

impl Matching<'_> {
    /// Finds a task for `cpu`, reassigning other CPUs if necessary (an augmenting path).
    fn place(&mut self, cpu: usize, visited: &mut [bool]) -> bool {
        for set in 0..self.waiting.len() {
            let id = set as SetId;
            if id == ALL_CPUS
                || self.waiting[set] == 0
                || visited[set]
                || !self.cpus.contains(id, cpu)
            {
                continue;
            }
            visited[set] = true;
            if self.assigned[set].len() < self.waiting[set] {
                self.assigned[set].push(cpu);
                return true;
            }
            for position in 0..self.assigned[set].len() {
                if self.place(self.assigned[set][position], visited) {
                    self.assigned[set][position] = cpu;
                    return true;
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairground_events::CpuId;

    fn set(sets: &mut CpuSets, cpus: &[u32]) -> SetId {
        sets.intern(&cpus.iter().map(|&n| CpuId(n)).collect::<Vec<_>>())
    }

    #[test]
    fn without_restrictions_the_smaller_number_counts() {
        let sets = CpuSets::new(&[1024; 4]);
        let mut idle = IdleCpus::new(4);
        let mut waiting = WaitingTasks::default();
        assert_eq!(waiting.usable(&idle, &sets), 0);
        waiting.add(ALL_CPUS, true, 0);
        waiting.add(ALL_CPUS, true, 0);
        assert_eq!(waiting.usable(&idle, &sets), 2);
        for cpu in 0..3 {
            idle.set(cpu, false, 0);
        }
        assert_eq!(waiting.usable(&idle, &sets), 1);
        waiting.remove(ALL_CPUS, true);
        waiting.remove(ALL_CPUS, true);
        assert_eq!(waiting.usable(&idle, &sets), 0);
    }

    #[test]
    fn a_task_counts_only_where_it_is_allowed() {
        let mut sets = CpuSets::new(&[1024; 2]);
        let first = set(&mut sets, &[0]);
        let mut idle = IdleCpus::new(2);
        idle.set(0, false, 0);
        let mut waiting = WaitingTasks::default();
        waiting.add(first, true, 0);
        assert_eq!(waiting.usable(&idle, &sets), 0);
        idle.set(0, true, 0);
        waiting.add(first, true, 0);
        assert_eq!(waiting.usable(&idle, &sets), 1);
    }

    #[test]
    fn earlier_choices_are_revised() {
        // CPU 0 is first assigned to {0, 1} and must move to {0}, which only it can serve.
        let mut sets = CpuSets::new(&[1024; 3]);
        let both = set(&mut sets, &[0, 1]);
        let first = set(&mut sets, &[0]);
        let idle = IdleCpus::new(3);
        let mut waiting = WaitingTasks::default();
        waiting.add(both, true, 0);
        waiting.add(first, true, 0);
        assert_eq!(waiting.usable(&idle, &sets), 2);
        waiting.add(first, true, 0);
        assert_eq!(waiting.usable(&idle, &sets), 2);
        waiting.add(ALL_CPUS, true, 0);
        assert_eq!(waiting.usable(&idle, &sets), 3);
    }
}
