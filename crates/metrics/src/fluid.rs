//! The ideal fluid processor: the service that an ideal scheduler gives to tasks with the same weights and demands.
//!
//! All tasks with the same weight and the same allowed CPUs are served at the same rate. They form a *class*, and service is
//! accumulated per class: a task's own service is the growth of its class's service since the task joined. The cost of an event
//! therefore depends on the number of classes (a few tens), not of tasks. With control groups, tasks of one group have classes of their own, whose
//! weights change with the number of tasks in service (`groups.rs`).
//!
//! The processor learns a task's demand as the real machine reveals it. A task that goes to sleep with less ideal than real service
//! is served until it has caught up (*draining*). A task that goes to sleep with more gives the surplus back to tasks that could not
//! run at full rate meanwhile: to each task at most the service that its class has been *denied* since the task woke, and to all tasks of
//! a group with a quota at most what they have left *unused* of it since then.

use crate::cpu_sets::{ALL_CPUS, CpuSets, SetId};
use crate::float;
use crate::groups::Groups;
use crate::rates::{self, Demand, Limit};
use fairground_events::{GroupId, Nanoseconds};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Surplus too small to hand on, in nanoseconds of work.
const NEGLIGIBLE: f64 = 0.001;

/// Slightly more than 1: a value above a product times this is above the exact product in spite of rounding.
const NEARLY_ONE: f64 = 1.000_000_001;

/// Number of stale entries that a queue of draining tasks may hold before they are removed.
const SPARE_ENTRIES: usize = 64;

/// The ideal fluid processor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fluid {
    now: Nanoseconds,
    /// Work that the real machine lost to overhead. The next `advance` takes it from the ideal one.
    lost: f64,
    classes: Vec<Class>,
    class_of: BTreeMap<(Option<GroupId>, u64, SetId), usize>,
    groups: Groups,
    /// What groups with quotas have left of them.
    unused: Vec<Unused>,
    /// Classes with tasks in service, heaviest first.
    active: Vec<usize>,
    members: Vec<Member>,
    /// Whether the rates of the active classes are out of date.
    stale: bool,
    /// Sum of the rates of all tasks in service.
    total_rate: f64,
    solver: rates::Solver,
    /// Classes that get part of a surplus; kept to save allocations.
    takers: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Class {
    /// Weight of each task, and its weight with the factor of its group.
    own_weight: f64,
    weight: f64,
    group: Option<GroupId>,
    set: SetId,
    /// Tasks in service.
    count: usize,
    /// Service that a task of the class would have received if it had always been in service.
    service: f64,
    rates: Rates,
    /// The rates while no other class is active, for 1, 2, 3, ... tasks, as far as they have been needed.
    rates_alone: Vec<Rates>,
    /// How much more a task of the class would have received with a whole CPU to itself whenever the class was in service.
    denied: f64,
    /// The class service at which the first draining task has caught up; infinite if there is none.
    target: f64,
    /// Draining tasks by the class service at which they have caught up; entries of an old generation are stale.
    draining: BinaryHeap<Reverse<Entry>>,
}

/// What the tasks of a group might have been served besides within its quota, while any of them was in service.
#[derive(Clone, Copy, Debug)]
struct Unused {
    group: GroupId,
    service: f64,
    /// Growth of the service per nanosecond; `None` if the group has no quota any more.
    rate: Option<f64>,
}

/// The rates at which a class is served.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    /// Growth of the class's service per nanosecond, and the rest up to a whole CPU.
    each: f64,
    rest: f64,
    /// The rates of all its tasks together.
    total: f64,
}

impl Unused {
    fn grow(&mut self, span: f64) {
        self.service += self.rate.unwrap_or(0.0) * span;
    }

    /// What has been left since it was as `before`, where its place is `place`. Groups that are new there had nothing left.
    fn since(&self, place: usize, before: &[f64]) -> f64 {
        match self.rate {
            Some(_) => self.service - before.get(place).copied().unwrap_or(0.0),
            None => f64::INFINITY,
        }
    }
}

impl Class {
    /// The demand of so many of its tasks.
    fn demand(&self, tasks: usize) -> Demand {
        Demand { weight: self.weight, set: self.set, tasks }
    }

    /// The rates if each of so many tasks gets `rate`.
    fn rates(&self, rate: f64, tasks: usize, cpus: &CpuSets) -> Rates {
        Rates { each: rate, rest: cpus.capacity(self.set).of(1) - rate, total: rate * tasks as f64 }
    }

    /// When the next draining task catches up, in nanoseconds from now; `None` if none does within `span`.
    #[inline]
    fn next_completion(&self, span: f64) -> Option<f64> {
        let missing = (self.target - self.service).max(0.0);
        // Spares most divisions; those that decide are exact.
        if missing > self.rates.each * span * NEARLY_ONE {
            return None;
        }
        let needed = if missing == 0.0 { 0.0 } else { missing / self.rates.each };
        (needed <= span).then_some(needed)
    }

    /// Serves the tasks for so long.
    #[inline]
    fn grow(&mut self, span: f64) {
        self.service += self.rates.each * span;
        self.denied += self.rates.rest * span;
    }

    /// Takes the draining task that catches up first out of the queue; there must be one.
    #[inline]
    fn pop(&mut self) -> usize {
        let Some(Reverse(entry)) = self.draining.pop() else {
            unreachable!("a target comes from an entry")
        };
        entry.task()
    }

    /// Finds the rates without other active classes for so many tasks, and for fewer.
    #[cold]
    fn find_rates_alone(&mut self, tasks: usize, cpus: &CpuSets) {
        for tasks in self.rates_alone.len() + 1..=tasks {
            let rate = self.demand(tasks).rate_alone(cpus);
            let rates = self.rates(rate, tasks, cpus);
            self.rates_alone.push(rates);
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Member {
    class: usize,
    phase: Phase,
    /// Class service when `service` was last updated.
    base: f64,
    /// Service received by then.
    service: f64,
    /// All the service that the task will get unless it becomes runnable again; valid while draining.
    demand: f64,
    generation: u32,
    /// The service that each class had been denied when the task woke. Classes created later are missing: they had been denied nothing.
    denied_at_wake: Vec<f64>,
    /// The same of what groups had left unused.
    unused_at_wake: Vec<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Phase {
    #[default]
    Absent,
    /// Runnable on the real machine.
    Runnable,
    /// No longer runnable, but still behind its real service.
    Draining,
}

/// A draining task in its class's queue: the class service at which it has caught up, the task, and its generation, from the most
/// significant bits to the least. One comparison without a branch orders all three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(i128);

impl Entry {
    fn new(target: f64, task: usize, generation: u32) -> Self {
        let task = u32::try_from(task).expect("task numbers have 32 bits");
        // Numbers order like their bits, but negative ones the other way round.
        let bits = target.to_bits().cast_signed();
        let order = bits ^ (bits >> 63 & i64::MAX);
        Self(i128::from(order) << 64 | i128::from(task) << 32 | i128::from(generation))
    }

    fn target(self) -> f64 {
        let order = (self.0 >> 64) as i64;
        f64::from_bits((order ^ (order >> 63 & i64::MAX)).cast_unsigned())
    }

    fn task(self) -> usize {
        (self.0 as u64 >> 32) as usize
    }

    fn generation(self) -> u32 {
        self.0 as u32
    }
}

impl Fluid {
    /// Service received by the task so far.
    #[inline]
    pub(crate) fn service(&self, task: usize) -> f64 {
        match self.members.get(task) {
            None => 0.0,
            Some(member) if member.phase == Phase::Absent => member.service,
            Some(member) => member.service + self.classes[member.class].service - member.base,
        }
    }

    /// The control groups.
    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The control groups, of which some setting changes.
    pub(crate) fn groups_mut(&mut self) -> &mut Groups {
        self.stale = true;
        &mut self.groups
    }

    /// Sets or changes a task's control group, weight and allowed CPUs.
    pub(crate) fn describe(
        &mut self,
        task: usize,
        group: Option<GroupId>,
        weight: u64,
        set: SetId,
    ) {
        if task >= self.members.len() {
            self.members.resize(task + 1, Member::default());
        }
        let class = self.class(group, weight, set);
        let phase = self.members[task].phase;
        if self.members[task].class == class {
            return;
        }
        if phase == Phase::Absent {
            self.members[task].class = class;
            return;
        }
        let service = self.service(task);
        self.leave(task, service);
        self.members[task].class = class;
        self.join(task);
        if phase == Phase::Draining {
            self.drain(task, service);
        }
    }

    /// The task became runnable.
    pub(crate) fn activate(&mut self, task: usize) {
        match self.members[task].phase {
            Phase::Absent => self.join(task),
            Phase::Draining => {
                self.members[task].generation += 1;
                self.find_target(self.members[task].class);
            }
            Phase::Runnable => return,
        }
        let member = &mut self.members[task];
        member.phase = Phase::Runnable;
        member.denied_at_wake.clear();
        member.denied_at_wake.extend(self.classes.iter().map(|class| class.denied));
        member.unused_at_wake.clear();
        member.unused_at_wake.extend(self.unused.iter().map(|unused| unused.service));
    }

    /// The task is no longer runnable; the real machine gave it `received` service in all.
    pub(crate) fn deactivate(&mut self, task: usize, received: f64, cpus: &CpuSets) {
        if self.members[task].phase != Phase::Runnable {
            return;
        }
        let service = self.service(task);
        let surplus = service - received;
        self.members[task].demand = received;
        if surplus < 0.0 {
            self.members[task].phase = Phase::Draining;
            self.drain(task, service);
        } else {
            self.complete(task);
            self.hand_on(surplus, task, cpus);
        }
    }

    /// The real machine lost `work` to overhead. So does the ideal one, at the expense of all tasks in service now, in
    /// proportion to their rates.
    pub(crate) fn lose(&mut self, work: f64) {
        self.lost += work;
    }

    /// The machine changed: a CPU went online or offline.
    pub(crate) fn machine_changed(&mut self) {
        self.stale = true;
        self.solver.forget();
        for class in &mut self.classes {
            class.rates_alone.clear();
        }
    }

    /// Whether all tasks have been served up to `now`.
    #[inline]
    pub(crate) fn is_at(&self, now: Nanoseconds) -> bool {
        self.now == now && self.lost == 0.0
    }

    /// Serves all tasks up to `now`.
    #[inline(never)]
    pub(crate) fn advance(&mut self, now: Nanoseconds, cpus: &CpuSets) {
        // Class service grows by rate times time. The time left is a float because completions fall between nanoseconds.
        let mut left = float(now - self.now);
        self.now = now;
        if let [only] = *self.active {
            self.refresh(cpus);
            let class = &mut self.classes[only];
            // By far the most frequent case.
            if class.next_completion(left).is_none() {
                class.grow(left);
                self.unused.iter_mut().for_each(|unused| unused.grow(left));
                if self.lost > 0.0 && self.total_rate > 0.0 {
                    class.service -= class.rates.each * (self.lost / self.total_rate);
                }
                self.lost = 0.0;
                return;
            }
        }
        while left > 0.0 && !self.active.is_empty() {
            self.refresh(cpus);
            let completion = self.next_completion(left);
            let span = completion.map_or(left, |(span, _)| span);
            for &index in &self.active {
                self.classes[index].grow(span);
            }
            self.unused.iter_mut().for_each(|unused| unused.grow(span));
            left -= span;
            if let Some((_, class)) = completion {
                let task = self.classes[class].pop();
                self.complete(task);
            }
        }
        if self.lost > 0.0 {
            self.refresh(cpus);
            if self.total_rate > 0.0 {
                // As if service had paused for as long as it takes to make up for the loss.
                let pause = self.lost / self.total_rate;
                for &index in &self.active {
                    let class = &mut self.classes[index];
                    class.service -= class.rates.each * pause;
                }
            }
            self.lost = 0.0;
        }
    }

    fn class(&mut self, group: Option<GroupId>, weight: u64, set: SetId) -> usize {
        *self.class_of.entry((group, weight, set)).or_insert_with(|| {
            self.classes.push(Class {
                own_weight: weight as f64,
                weight: weight as f64,
                group,
                set,
                count: 0,
                service: 0.0,
                rates: Rates::default(),
                rates_alone: Vec::new(),
                denied: 0.0,
                target: f64::INFINITY,
                draining: BinaryHeap::new(),
            });
            self.classes.len() - 1
        })
    }

    #[inline]
    fn join(&mut self, task: usize) {
        let member = &mut self.members[task];
        let index = member.class;
        member.base = self.classes[index].service;
        self.classes[index].count += 1;
        if self.classes[index].count == 1 {
            let weight = self.classes[index].weight;
            let at = self.active.partition_point(|&other| self.classes[other].weight >= weight);
            self.active.insert(at, index);
        }
        self.stale = true;
    }

    /// The task leaves its class with this much service.
    #[inline]
    fn leave(&mut self, task: usize, service: f64) {
        let member = &mut self.members[task];
        member.service = service;
        member.generation += 1;
        let index = member.class;
        self.classes[index].count -= 1;
        if self.classes[index].count == 0 {
            self.active.retain(|&class| class != index);
            self.classes[index].draining.clear();
        }
        self.find_target(index);
        self.stale = true;
    }

    /// Ends the service of a task, at exactly its demand.
    #[inline]
    fn complete(&mut self, task: usize) {
        self.members[task].phase = Phase::Absent;
        self.leave(task, self.members[task].demand);
    }

    /// Lets a task with this much service catch up with its demand.
    fn drain(&mut self, task: usize, service: f64) {
        let member = &self.members[task];
        let missing = member.demand - service;
        let class = &mut self.classes[member.class];
        if class.draining.len() > 2 * class.count + SPARE_ENTRIES {
            // Stale entries after a valid one would pile up.
            let members = &self.members;
            class
                .draining
                .retain(|&Reverse(entry)| members[entry.task()].generation == entry.generation());
        }
        let target = class.service + missing;
        if target < class.target {
            class.target = target;
        }
        let entry = Entry::new(target, task, member.generation);
        class.draining.push(Reverse(entry));
    }

    /// When the next draining task catches up, in nanoseconds from now, and its class; `None` if none does within `span`.
    fn next_completion(&self, span: f64) -> Option<(f64, usize)> {
        let mut first: Option<(f64, usize)> = None;
        for &index in &self.active {
            if let Some(needed) = self.classes[index].next_completion(span)
                && first.is_none_or(|(best, _)| needed < best)
            {
                first = Some((needed, index));
            }
        }
        first
    }

    /// Brings the target of a class up to date after one of its tasks has stopped draining.
    #[inline]
    fn find_target(&mut self, index: usize) {
        let class = &mut self.classes[index];
        class.target = f64::INFINITY;
        while let Some(&Reverse(entry)) = class.draining.peek() {
            if self.members[entry.task()].generation == entry.generation() {
                class.target = entry.target();
                break;
            }
            class.draining.pop();
        }
    }

    /// Divides the `surplus` of `task` by weight among the tasks of classes that share CPUs with it. None gets more than its class has
    /// been denied since `task` woke, or than it still needs, and those of a group with a quota together no more than they have left of it.
    /// This goes in rounds, each of which ends when a task or a group has enough.
    fn hand_on(&mut self, mut surplus: f64, task: usize, cpus: &CpuSets) {
        let giver = &self.classes[self.members[task].class];
        let (set, group) = (giver.set, giver.group);
        let denied_at_wake = std::mem::take(&mut self.members[task].denied_at_wake);
        let unused_at_wake = std::mem::take(&mut self.members[task].unused_at_wake);
        for unused in &mut self.unused {
            if self.groups.is_within(group, unused.group) {
                unused.service += surplus;
            }
        }
        while surplus > NEGLIGIBLE {
            let mut weight = 0.0;
            let mut most = f64::INFINITY;
            self.takers.clear();
            for &index in &self.active {
                let class = &self.classes[index];
                let denied = class.denied - denied_at_wake.get(index).copied().unwrap_or(0.0);
                if denied > NEGLIGIBLE
                    && cpus.overlap(set, class.set)
                    && self.left_unused(class.group, &unused_at_wake) > NEGLIGIBLE
                {
                    self.takers.push(index);
                    weight += class.weight * class.count as f64;
                    most = most.min(denied / class.weight);
                    most = most.min((class.target - class.service).max(0.0) / class.weight);
                }
            }
            if self.takers.is_empty() {
                break;
            }
            for (place, unused) in self.unused.iter().enumerate() {
                let weight = self.weight_of_takers(unused.group);
                if weight > 0.0 {
                    most = most.min(unused.since(place, &unused_at_wake) / weight);
                }
            }
            let per_weight = most.min(surplus / weight);
            surplus -= per_weight * weight;
            for place in 0..self.unused.len() {
                let taken = per_weight * self.weight_of_takers(self.unused[place].group);
                self.unused[place].service -= taken;
            }
            for place in 0..self.takers.len() {
                let index = self.takers[place];
                let class = &mut self.classes[index];
                class.service += per_weight * class.weight;
                class.denied -= per_weight * class.weight;
                self.complete_satisfied(index);
            }
        }
        self.members[task].denied_at_wake = denied_at_wake;
        self.members[task].unused_at_wake = unused_at_wake;
    }

    /// What the quotas of a group and of those around it leave its tasks to take, beside what was left at some earlier time.
    fn left_unused(&self, group: Option<GroupId>, before: &[f64]) -> f64 {
        let confining = self.unused.iter().enumerate();
        confining
            .filter(|(_, unused)| self.groups.is_within(group, unused.group))
            .map(|(place, unused)| unused.since(place, before))
            .fold(f64::INFINITY, f64::min)
    }

    /// The weight of the tasks within a group that get part of a surplus.
    fn weight_of_takers(&self, group: GroupId) -> f64 {
        let takers = self.takers.iter().map(|&index| &self.classes[index]);
        takers
            .filter(|class| self.groups.is_within(class.group, group))
            .map(|class| class.weight * class.count as f64)
            .sum()
    }

    /// Completes the draining tasks of a class that have enough.
    fn complete_satisfied(&mut self, index: usize) {
        let service = self.classes[index].service;
        while self.classes[index].target <= service + NEGLIGIBLE {
            let task = self.classes[index].pop();
            self.complete(task);
        }
    }

    /// Brings rates up to date with the tasks in service.
    #[inline]
    fn refresh(&mut self, cpus: &CpuSets) {
        if !self.stale {
            return;
        }
        self.stale = false;
        // By far the most frequent case: a shortcut around the general solution.
        let [only] = *self.active else {
            return self.solve(cpus);
        };
        if self.groups.quotas().next().is_some() || !self.unused.is_empty() {
            return self.solve(cpus);
        }
        let class = &mut self.classes[only];
        if class.rates_alone.len() < class.count {
            class.find_rates_alone(class.count, cpus);
        }
        class.rates = class.rates_alone[class.count - 1];
        self.total_rate = class.rates.total;
    }

    /// Finds the weights of the active classes, which depend on each other through their groups.
    fn weigh(&mut self, cpus: &CpuSets) {
        let classes = self.active.iter().map(|&index| &self.classes[index]);
        let grouped =
            classes.filter_map(|class| Some((class.group?, class.own_weight, class.count)));
        self.groups.weigh(grouped, cpus.capacity(ALL_CPUS).cpus());
        for &index in &self.active {
            let class = &mut self.classes[index];
            let factor = class.group.map_or(1.0, |group| self.groups.factor(group));
            class.weight = class.own_weight * factor;
        }
        let weight = |index: &usize| self.classes[*index].weight;
        self.active.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    }

    /// Finds what the groups with quotas leave unused of them at the present rates.
    fn find_unused(&mut self, quotas: &[Limit]) {
        self.unused.iter_mut().for_each(|unused| unused.rate = None);
        for ((group, _), limit) in self.groups.quotas().zip(quotas) {
            let confined =
                self.active.iter().zip(&limit.confines).filter(|(_, confined)| **confined);
            let used: f64 = confined.map(|(&index, _)| self.classes[index].rates.total).sum();
            let is_served = limit.confines.contains(&true);
            let rate = Some(if is_served { (limit.capacity - used).max(0.0) } else { 0.0 });
            match self.unused.iter_mut().find(|unused| unused.group == group) {
                Some(unused) => unused.rate = rate,
                None => self.unused.push(Unused { group, service: 0.0, rate }),
            }
        }
    }

    /// A group's quota as a limit on the active classes.
    fn limit(&self, (group, cpus): (GroupId, f64)) -> Limit {
        let is_within = |&index: &usize| self.groups.is_within(self.classes[index].group, group);
        Limit { confines: self.active.iter().map(is_within).collect(), capacity: cpus }
    }

    /// Finds the rates of the active classes.
    #[inline(never)]
    fn solve(&mut self, cpus: &CpuSets) {
        if !self.groups.is_empty() {
            self.weigh(cpus);
        }
        let demand = |&index: &usize| self.classes[index].demand(self.classes[index].count);
        let demands = self.active.iter().map(demand);
        let quotas: Vec<Limit> = self.groups.quotas().map(|quota| self.limit(quota)).collect();
        self.solver.solve(demands, &quotas, cpus);
        self.total_rate = 0.0;
        for (&index, &rate) in self.active.iter().zip(self.solver.rates()) {
            let class = &mut self.classes[index];
            class.rates = class.rates(rate, class.count, cpus);
            self.total_rate += class.rates.total;
        }
        self.find_unused(&quotas);
    }
}

/// The weight that stands for a real-time policy. It is so far above any fair weight that fair tasks get only the time that real-time tasks
/// leave.
pub(crate) const REAL_TIME_WEIGHT: u64 = 1 << 50;

#[cfg(test)]
mod tests {
    use super::*;
    use fairground_events::{CgroupMode, GroupInfo, Quota};
    use proptest::prelude::*;

    /// The same processor for one CPU, task by task: simple and slow.
    struct Plain {
        weights: Vec<u64>,
        service: Vec<f64>,
        /// `None` if absent, infinite if runnable; otherwise the service up to which the task drains.
        limits: Vec<Option<f64>>,
        /// The service that a task was denied, by weight.
        denied: BTreeMap<u64, f64>,
        denied_at_wake: Vec<BTreeMap<u64, f64>>,
    }

    impl Plain {
        fn new(weights: &[u64]) -> Self {
            Self {
                weights: weights.to_vec(),
                service: vec![0.0; weights.len()],
                limits: vec![None; weights.len()],
                denied: BTreeMap::new(),
                denied_at_wake: vec![BTreeMap::new(); weights.len()],
            }
        }

        fn active(&self) -> Vec<usize> {
            (0..self.limits.len()).filter(|&task| self.limits[task].is_some()).collect()
        }

        /// Divides an amount among tasks by weight, but gives none more than it still needs, nor more per weight than `most`.
        /// Returns how much was given.
        fn divide(&mut self, tasks: &[usize], amount: f64, most: f64) -> f64 {
            let weight: u64 = tasks.iter().map(|&task| self.weights[task]).sum();
            let per_weight = tasks
                .iter()
                .filter_map(|&task| {
                    Some((self.limits[task]? - self.service[task]) / self.weights[task] as f64)
                })
                .fold(most.min(amount / weight as f64), f64::min);
            for &task in tasks {
                self.service[task] += per_weight * self.weights[task] as f64;
                if self.limits[task].is_some_and(|limit| self.service[task] >= limit - 1e-6) {
                    self.service[task] = self.limits[task].take().unwrap_or(0.0);
                }
            }
            per_weight * weight as f64
        }

        fn serve(&mut self, mut time: f64) {
            while time > 1e-9 && !self.active().is_empty() {
                let active = self.active();
                let served = self.divide(&active, time, f64::INFINITY);
                let weight: u64 = active.iter().map(|&task| self.weights[task]).sum();
                let weights: std::collections::BTreeSet<u64> =
                    active.iter().map(|&task| self.weights[task]).collect();
                for own in weights {
                    *self.denied.entry(own).or_default() +=
                        served * (1.0 - own as f64 / weight as f64);
                }
                time -= served;
            }
        }

        fn activate(&mut self, task: usize) {
            if self.limits[task] != Some(f64::INFINITY) {
                self.limits[task] = Some(f64::INFINITY);
                self.denied_at_wake[task] = self.denied.clone();
            }
        }

        fn deactivate(&mut self, task: usize, received: f64) {
            if self.service[task] < received {
                self.limits[task] = Some(received);
                return;
            }
            let mut surplus = self.service[task] - received;
            self.service[task] = received;
            self.limits[task] = None;
            let before = self.denied_at_wake[task].clone();
            while surplus > NEGLIGIBLE {
                let denied = |weight: u64| {
                    self.denied.get(&weight).unwrap_or(&0.0) - before.get(&weight).unwrap_or(&0.0)
                };
                let takers: Vec<usize> = self
                    .active()
                    .into_iter()
                    .filter(|&task| denied(self.weights[task]) > NEGLIGIBLE)
                    .collect();
                if takers.is_empty() {
                    break;
                }
                let most = takers
                    .iter()
                    .map(|&task| denied(self.weights[task]) / self.weights[task] as f64)
                    .fold(f64::INFINITY, f64::min);
                let weight: u64 = takers.iter().map(|&task| self.weights[task]).sum();
                let weights: std::collections::BTreeSet<u64> =
                    takers.iter().map(|&task| self.weights[task]).collect();
                let given = self.divide(&takers, surplus, most);
                for own in weights {
                    *self.denied.entry(own).or_default() -= given * own as f64 / weight as f64;
                }
                surplus -= given;
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Activate(usize),
        /// A task stops with this much more than the ideal gave it, or less if negative.
        Deactivate(usize, f64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0_usize..6).prop_map(Step::Activate),
            (0_usize..6, -50.0..50.0).prop_map(|(task, off)| Step::Deactivate(task, off)),
        ]
    }

    proptest! {
        #[test]
        fn classes_serve_as_single_tasks_would(
            weights in prop::collection::vec(prop_oneof![Just(1_u64), Just(2), Just(5)], 6),
            steps in prop::collection::vec((0_u64..100, step()), 1..200),
        ) {
            let cpus = CpuSets::new(&[1024]);
            let mut fluid = Fluid::default();
            let mut plain = Plain::new(&weights);
            for (task, &weight) in weights.iter().enumerate() {
                fluid.describe(task, None, weight, ALL_CPUS);
            }
            let mut now = 0;
            for (span, step) in steps {
                now += span;
                fluid.advance(now, &cpus);
                plain.serve(span as f64);
                match step {
                    Step::Activate(task) => {
                        fluid.activate(task);
                        plain.activate(task);
                    }
                    Step::Deactivate(task, off) => {
                        if plain.limits[task] == Some(f64::INFINITY) {
                            let received = (plain.service[task] + off).max(0.0);
                            fluid.deactivate(task, received, &cpus);
                            plain.deactivate(task, received);
                        }
                    }
                }
                for task in 0..6 {
                    let (found, expected) = (fluid.service(task), plain.service[task]);
                    prop_assert!((found - expected).abs() < 0.1, "task {task}: {found}, not {expected}");
                }
            }
        }
    }

    /// Service that a draining task does not need is not subtracted from the service that its class was denied.
    #[test]
    fn what_nobody_needed_stays_denied() {
        let cpus = CpuSets::new(&[1024]);
        let mut fluid = Fluid::default();
        for (task, weight) in [2, 2, 5, 5].into_iter().enumerate() {
            fluid.describe(task, None, weight, ALL_CPUS);
        }
        for task in 0..3 {
            fluid.activate(task);
        }
        // Task 2 is still served until it has 27.
        fluid.deactivate(2, 27.0, &cpus);
        fluid.advance(38, &cpus);
        // Of the 76 / 9 that task 1 gives back, task 2 needs 27 - 190 / 9, and task 0 gets the rest: it now has 11. Weight 5 was denied
        // 38 - 190 / 9 and got 27 - 190 / 9 of it, which leaves 11 for the next task with this weight.
        fluid.deactivate(1, 0.0, &cpus);
        assert!((fluid.service(0) - 11.0).abs() < 0.01);
        fluid.activate(3);
        fluid.deactivate(0, 0.0, &cpus);
        let found = fluid.service(3);
        assert!((found - 11.0).abs() < 0.01, "{found}");
    }

    /// A sleeper beside a group of two hogs that may use a fifth of a CPU gives back 50 of every 80 ns.
    #[test]
    fn what_is_given_back_lifts_no_group_over_its_quota() {
        let cpus = CpuSets::new(&[1024, 1024]);
        let group = |quota| GroupInfo {
            path: "/group".to_owned(),
            parent: None,
            shares: 1024,
            mode: CgroupMode::default(),
            quota,
        };
        let fifth = Quota { runtime: 20, period: 100, burst: 0 };
        let mut fluid = Fluid::default();
        fluid.groups_mut().describe(GroupId(0), &group(Some(fifth)));
        let groups = [Some(GroupId(0)), Some(GroupId(0)), None];
        for (task, group) in groups.into_iter().enumerate() {
            fluid.describe(task, group, 1024, ALL_CPUS);
        }
        fluid.activate(0);
        fluid.activate(1);
        let of_group = |fluid: &Fluid| fluid.service(0) + fluid.service(1);
        let sleeper = |fluid: &mut Fluid, period: u64| {
            fluid.activate(2);
            fluid.advance(100 * period + 80, &cpus);
            fluid.deactivate(2, 30.0 * (period + 1) as f64, &cpus);
            fluid.advance(100 * period + 100, &cpus);
        };
        (0..10).for_each(|period| sleeper(&mut fluid, period));
        assert!((of_group(&fluid) - 200.0).abs() < 0.01, "{}", of_group(&fluid));
        // Without the quota, the three have two CPUs, and the hogs get the 50 that they were denied beside the sleeper.
        fluid.groups_mut().describe(GroupId(0), &group(None));
        sleeper(&mut fluid, 10);
        assert!((of_group(&fluid) - 370.0).abs() < 0.01, "{}", of_group(&fluid));
    }

    #[test]
    fn sleeping_again_and_again_takes_no_memory() {
        let cpus = CpuSets::new(&[1024]);
        let mut fluid = Fluid::default();
        for task in 0..2 {
            fluid.describe(task, None, 1024, ALL_CPUS);
            fluid.activate(task);
        }
        // The first task ends far behind. The second, even farther behind, keeps sleeping and waking.
        fluid.deactivate(0, 1e9, &cpus);
        for now in 1..10_000 {
            fluid.advance(now, &cpus);
            fluid.deactivate(1, 2e9 + now as f64, &cpus);
            fluid.activate(1);
        }
        assert!(fluid.classes[0].draining.len() < 100);
    }
}
