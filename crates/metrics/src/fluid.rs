//! The ideal fluid processor: what an ideal scheduler gives tasks of the same weights and demands.
//!
//! All tasks with the same weight and the same allowed CPUs are served at the same rate, so they form a *class*, and
//! service is accumulated per class: a task's own service is the growth of its class's service since the task joined.
//! An event therefore costs time in the number of classes (a few tens), not of tasks.
//!
//! The processor learns a task's demand as the real machine reveals it. A task that slept with less ideal than real
//! service is served on until it has caught up (*draining*); a task that slept with more gives the surplus back to those
//! it was taken from.

use crate::cpu_sets::{CpuSets, SetId};
use crate::rates::{self, Demand};
use fairground_events::Nanoseconds;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Surplus below this is not worth handing on, in nanoseconds of work.
const NEGLIGIBLE: f64 = 0.001;

/// The ideal fluid processor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fluid {
    now: Nanoseconds,
    /// Work that overhead took from the real machine and that the next call of `advance` takes from the ideal one.
    lost: f64,
    classes: Vec<Class>,
    class_of: BTreeMap<(u64, SetId), usize>,
    /// Classes with tasks in service, by falling weight.
    active: Vec<usize>,
    members: Vec<Member>,
    /// Whether `rate` and `bottleneck` of the active classes are out of date.
    stale: bool,
    /// Sum of the rates of all tasks in service.
    total_rate: f64,
    solver: rates::Solver,
}

#[derive(Clone, Debug)]
struct Class {
    weight: f64,
    set: SetId,
    /// Tasks in service.
    count: usize,
    /// Service one task of the class would have received had it been in service all along.
    service: f64,
    /// Growth of `service` per nanosecond.
    rate: f64,
    /// What keeps the rate from being higher, if it is shared with others.
    bottleneck: Option<usize>,
    /// Draining tasks by the class service at which they have caught up; entries of an old generation are void.
    draining: BinaryHeap<Reverse<(Ordered, u32, u32)>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    class: usize,
    phase: Phase,
    /// Class service when `service` was brought up to date.
    base: f64,
    /// Service received until then.
    service: f64,
    /// All that the task will ever get unless it becomes runnable again; valid while draining.
    demand: f64,
    generation: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Phase {
    #[default]
    Absent,
    /// Runnable in the real machine.
    Runnable,
    /// Not runnable any more but still behind its real service.
    Draining,
}

/// A non-negative number with a total order.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ordered(f64);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Fluid {
    /// Service that the task has received so far.
    pub(crate) fn service(&self, task: usize) -> f64 {
        match self.members.get(task) {
            None => 0.0,
            Some(member) if member.phase == Phase::Absent => member.service,
            Some(member) => member.service + self.classes[member.class].service - member.base,
        }
    }

    /// Service that all tasks have received so far.
    pub(crate) fn total_service(&self) -> f64 {
        (0..self.members.len()).map(|task| self.service(task)).sum()
    }

    /// Sets or changes a task's weight and allowed CPUs.
    pub(crate) fn describe(&mut self, task: usize, weight: u64, set: SetId) {
        if task >= self.members.len() {
            self.members.resize(task + 1, Member::default());
        }
        let class = self.class(weight, set);
        let member = self.members[task];
        if member.class == class {
            return;
        }
        if member.phase == Phase::Absent {
            self.members[task].class = class;
            return;
        }
        self.leave(task);
        self.members[task].class = class;
        self.join(task);
        if member.phase == Phase::Draining {
            self.drain(task);
        }
    }

    /// The task became runnable.
    pub(crate) fn activate(&mut self, task: usize) {
        match self.members[task].phase {
            Phase::Absent => {
                self.members[task].phase = Phase::Runnable;
                self.join(task);
            }
            Phase::Draining => {
                let member = &mut self.members[task];
                member.phase = Phase::Runnable;
                member.generation += 1;
            }
            Phase::Runnable => {}
        }
    }

    /// The task is no longer runnable, and `received` is all the service that the real machine gave it.
    pub(crate) fn deactivate(&mut self, task: usize, received: f64, cpus: &CpuSets) {
        if self.members[task].phase != Phase::Runnable {
            return;
        }
        self.refresh(cpus);
        let surplus = self.service(task) - received;
        self.members[task].demand = received;
        if surplus < 0.0 {
            self.members[task].phase = Phase::Draining;
            self.drain(task);
        } else {
            let bottleneck = self.shared_bottleneck(self.members[task].class, cpus);
            self.complete(task);
            if let Some(bottleneck) = bottleneck {
                self.hand_on(surplus, bottleneck);
            }
        }
    }

    /// The real machine lost `work` to overhead: so does the ideal one, at the expense of all tasks in service now, in
    /// proportion to their rates.
    pub(crate) fn lose(&mut self, work: f64) {
        self.lost += work;
    }

    /// The machine changed (a CPU went on- or offline).
    pub(crate) fn machine_changed(&mut self) {
        self.stale = true;
        self.solver.forget();
    }

    /// Serves all tasks until `now`.
    pub(crate) fn advance(&mut self, now: Nanoseconds, cpus: &CpuSets) {
        // Class services grow by rate times time; the time left is a float because completions fall between nanoseconds.
        let mut left = (now - self.now) as f64;
        self.now = now;
        while left > 0.0 && !self.active.is_empty() {
            self.refresh(cpus);
            match self.next_completion() {
                Some((span, class)) if span <= left => {
                    self.grow(span);
                    left -= span;
                    let Some(Reverse((_, task, _))) = self.classes[class].draining.pop() else {
                        unreachable!("a completion comes from an entry")
                    };
                    self.complete(task as usize);
                }
                _ => {
                    self.grow(left);
                    left = 0.0;
                }
            }
        }
        if self.lost > 0.0 {
            self.refresh(cpus);
            if self.total_rate > 0.0 {
                // As if service had paused for as long as the loss takes to make up.
                self.grow(-self.lost / self.total_rate);
            }
            self.lost = 0.0;
        }
    }

    fn class(&mut self, weight: u64, set: SetId) -> usize {
        *self.class_of.entry((weight, set)).or_insert_with(|| {
            self.classes.push(Class {
                weight: weight as f64,
                set,
                count: 0,
                service: 0.0,
                rate: 0.0,
                bottleneck: None,
                draining: BinaryHeap::new(),
            });
            self.classes.len() - 1
        })
    }

    fn join(&mut self, task: usize) {
        let member = &mut self.members[task];
        let index = member.class;
        member.base = self.classes[index].service;
        self.classes[index].count += 1;
        if self.classes[index].count == 1 {
            let weight = self.classes[index].weight;
            let at = self
                .active
                .partition_point(|&other| self.classes[other].weight >= weight);
            self.active.insert(at, index);
        }
        self.stale = true;
    }

    fn leave(&mut self, task: usize) {
        let service = self.service(task);
        let member = &mut self.members[task];
        member.service = service;
        member.generation += 1;
        let index = member.class;
        self.classes[index].count -= 1;
        if self.classes[index].count == 0 {
            self.active.retain(|&class| class != index);
            self.classes[index].draining.clear();
        }
        self.stale = true;
    }

    /// Ends the service of a task with exactly its demand.
    fn complete(&mut self, task: usize) {
        self.leave(task);
        let member = &mut self.members[task];
        member.phase = Phase::Absent;
        member.service = member.demand;
    }

    fn drain(&mut self, task: usize) {
        let missing = self.members[task].demand - self.service(task);
        let member = self.members[task];
        let class = &mut self.classes[member.class];
        class.draining.push(Reverse((
            Ordered(class.service + missing),
            u32::try_from(task).expect("task numbers have 32 bits"),
            member.generation,
        )));
    }

    fn grow(&mut self, span: f64) {
        for &index in &self.active {
            let class = &mut self.classes[index];
            class.service += class.rate * span;
        }
    }

    /// The first draining task that catches up: in how many nanoseconds, and its class.
    fn next_completion(&mut self) -> Option<(f64, usize)> {
        let mut first: Option<(f64, usize)> = None;
        for &index in &self.active {
            let class = &mut self.classes[index];
            let Some(target) = Self::first_target(class, &self.members) else {
                continue;
            };
            let missing = (target - class.service).max(0.0);
            let span = if missing == 0.0 {
                0.0
            } else {
                missing / class.rate
            };
            if span.is_finite() && first.is_none_or(|(best, _)| span < best) {
                first = Some((span, index));
            }
        }
        first
    }

    /// The class service at which its first draining task has caught up.
    fn first_target(class: &mut Class, members: &[Member]) -> Option<f64> {
        while let Some(&Reverse((target, task, generation))) = class.draining.peek() {
            if members[task as usize].generation == generation {
                return Some(target.0);
            }
            class.draining.pop();
        }
        None
    }

    /// The bottleneck that a task of this class shares with others, who would have had what it did not need.
    fn shared_bottleneck(&self, class: usize, cpus: &CpuSets) -> Option<usize> {
        let class = &self.classes[class];
        class.bottleneck.or_else(|| {
            self.active
                .iter()
                .map(|&other| &self.classes[other])
                .find(|other| other.bottleneck.is_some() && cpus.overlap(class.set, other.set))
                .and_then(|other| other.bottleneck)
        })
    }

    /// Gives `surplus` to the tasks at a bottleneck, by weight. Some draining tasks may thereby have more than they need,
    /// so what they have too much goes round again.
    fn hand_on(&mut self, mut surplus: f64, bottleneck: usize) {
        while surplus > NEGLIGIBLE {
            let takers: Vec<usize> = self
                .active
                .iter()
                .copied()
                .filter(|&index| self.classes[index].bottleneck == Some(bottleneck))
                .collect();
            let weight: f64 = takers
                .iter()
                .map(|&index| self.classes[index].weight * self.classes[index].count as f64)
                .sum();
            if takers.is_empty() {
                return;
            }
            let per_weight = surplus / weight;
            surplus = 0.0;
            for index in takers {
                let class = &mut self.classes[index];
                class.service += per_weight * class.weight;
                let service = class.service;
                while let Some(target) = Self::first_target(&mut self.classes[index], &self.members)
                {
                    if target > service {
                        break;
                    }
                    let Some(Reverse((_, task, _))) = self.classes[index].draining.pop() else {
                        unreachable!("a target comes from an entry")
                    };
                    surplus += service - target;
                    self.complete(task as usize);
                }
            }
        }
    }

    /// Brings rates up to date with the tasks in service.
    fn refresh(&mut self, cpus: &CpuSets) {
        if !self.stale {
            return;
        }
        self.stale = false;
        let classes = &self.classes;
        let demands = self.active.iter().map(|&index| Demand {
            weight: classes[index].weight,
            set: classes[index].set,
            tasks: classes[index].count,
        });
        self.solver.solve(demands, cpus);
        self.total_rate = 0.0;
        for (&index, solution) in self.active.iter().zip(self.solver.rates()) {
            let class = &mut self.classes[index];
            class.rate = solution.rate;
            class.bottleneck = solution.bottleneck;
            self.total_rate += solution.rate * class.count as f64;
        }
    }
}

/// The weight that stands for a real-time policy: so much above every weight of a fair policy that the rest gets what
/// real-time tasks leave.
pub(crate) const REAL_TIME_WEIGHT: u64 = 1 << 50;
