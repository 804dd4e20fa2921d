//! Rates of the ideal fluid processor: weighted max-min fair, at most one CPU per task, on allowed CPUs only.
//!
//! *Water filling*: all rates grow in proportion to weight until some can grow no more, because a task has a whole CPU or a set of
//! CPUs is used up. Those stay fixed while the others keep growing.

use crate::cpu_sets::{ALL_CPUS, CapacityCurve, CpuSets, SetId};

/// With up to this many distinct sets of allowed CPUs, if some overlap without nesting, every union of them is a constraint.
const MOST_SETS_FOR_ALL_UNIONS: usize = 8;

/// Relative difference below which two fill levels count as equal.
const TOLERANCE: f64 = 1e-12;

/// Runnable tasks with the same weight and the same set of allowed CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Demand {
    pub(crate) weight: f64,
    pub(crate) set: SetId,
    /// Number of tasks, at least 1.
    pub(crate) tasks: usize,
}

impl Demand {
    /// The rate of each task when there is no other demand.
    pub(crate) fn rate_alone(&self, cpus: &CpuSets) -> f64 {
        let level = cpus.capacity(self.set).of(self.tasks) / (self.weight * self.tasks as f64);
        self.weight * level
    }
}

/// Computes rates; keeps its buffers and facts about the sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Solver {
    demands: Vec<Demand>,
    rates: Vec<f64>,
    segments: Vec<Segment>,
    /// The distinct sets for which `constraints` was computed, ascending.
    sets: Vec<SetId>,
    constraints: Vec<Constraint>,
}

/// Some of the demands together get at most this.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    /// Which, by their places.
    pub(crate) confines: Vec<bool>,
    pub(crate) capacity: f64,
}

/// Consecutive demands served at the same rate per weight.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Index after the last demand.
    end: usize,
    weight: f64,
    capacity: f64,
}

/// Tasks confined to a union of sets share its CPUs.
#[derive(Clone, Debug)]
struct Constraint {
    /// Whether tasks with the set `Solver::sets[i]` are confined to it.
    confines: Vec<bool>,
    capacity: CapacityCurve,
}

impl Solver {
    /// Forgets the facts about the sets, because the machine changed.
    pub(crate) fn forget(&mut self) {
        self.sets.clear();
        self.constraints.clear();
    }

    /// The rate of each task in work per nanosecond, for the demands solved last and in their order.
    pub(crate) fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// Computes the rates of `demands`, which must come in order of falling weight; `quotas` are limits beside those of the CPUs.
    pub(crate) fn solve(
        &mut self,
        demands: impl Iterator<Item = Demand>,
        quotas: &[Limit],
        cpus: &CpuSets,
    ) {
        self.demands.clear();
        self.demands.extend(demands);
        self.rates.clear();
        match self.demands.as_slice() {
            [] => {}
            _ if !quotas.is_empty() => self.solve_limits(quotas, cpus),
            [only] => self.rates.push(only.rate_alone(cpus)),
            [first, others @ ..] if others.iter().all(|demand| demand.set == first.set) => {
                self.solve_common_set(cpus.capacity(first.set));
            }
            _ => self.solve_limits(&[], cpus),
        }
    }

    /// All tasks have the same allowed CPUs. Any k tasks get at most the capacity of the k fastest CPUs, and the k heaviest reach that first. So
    /// the rates per weight are the slopes of the greatest convex function below all points (weight of the k heaviest tasks, capacity for
    /// k tasks).
    fn solve_common_set(&mut self, capacity: &CapacityCurve) {
        self.segments.clear();
        let mut tasks = 0;
        for (index, demand) in self.demands.iter().enumerate() {
            let before = capacity.of(tasks);
            tasks += demand.tasks;
            let mut segment = Segment {
                end: index + 1,
                weight: demand.weight * demand.tasks as f64,
                capacity: capacity.of(tasks) - before,
            };
            // A later segment with a smaller slope would give lighter tasks less per weight than heavier ones.
            while let Some(&last) = self.segments.last() {
                if last.capacity * segment.weight < segment.capacity * last.weight {
                    break;
                }
                segment.weight += last.weight;
                segment.capacity += last.capacity;
                self.segments.pop();
            }
            self.segments.push(segment);
        }
        for segment in &self.segments {
            let level = segment.capacity / segment.weight;
            while self.rates.len() < segment.end {
                self.rates.push(self.demands[self.rates.len()].weight * level);
            }
        }
    }

    /// Tasks have different allowed CPUs, or quotas: fill in steps, and find the limit that becomes tight first in each.
    fn solve_limits(&mut self, quotas: &[Limit], cpus: &CpuSets) {
        let mut limits = self.limits_of_sets(cpus);
        limits.extend_from_slice(quotas);
        let mut fixed = vec![false; self.demands.len()];
        self.rates.resize(self.demands.len(), 0.0);
        while fixed.contains(&false) {
            let own = |demand: &Demand| cpus.capacity(demand.set).of(1) / demand.weight;
            let growing = self.demands.iter().zip(&fixed);
            let growing = growing.filter(|(_, fixed)| !**fixed);
            let mut level =
                growing.fold(f64::INFINITY, |level, (demand, _)| level.min(own(demand)));
            let mut tight: Option<&Limit> = None;
            for limit in &limits {
                let full = self.full_at(limit, &fixed);
                if full < level * (1.0 - TOLERANCE) {
                    level = full;
                    tight = Some(limit);
                }
            }
            for (index, demand) in self.demands.iter().enumerate() {
                if fixed[index] {
                    continue;
                }
                let stop = match tight {
                    Some(limit) => limit.confines[index],
                    None => own(demand) <= level * (1.0 + TOLERANCE),
                };
                if stop {
                    fixed[index] = true;
                    self.rates[index] = demand.weight * level;
                }
            }
        }
    }

    /// The level at which the demands that still grow use up the rest of a limit; infinite if none of them does.
    fn full_at(&self, limit: &Limit, fixed: &[bool]) -> f64 {
        let (mut weight, mut used) = (0.0, 0.0);
        for (index, demand) in self.demands.iter().enumerate() {
            if !limit.confines[index] {
                continue;
            }
            if fixed[index] {
                used += self.rates[index] * demand.tasks as f64;
            } else {
                weight += demand.weight * demand.tasks as f64;
            }
        }
        if weight > 0.0 { (limit.capacity - used).max(0.0) / weight } else { f64::INFINITY }
    }

    /// The limit of the tasks confined to each union of sets.
    fn limits_of_sets(&mut self, cpus: &CpuSets) -> Vec<Limit> {
        self.learn_sets(cpus);
        let place = |demand: &Demand| {
            let place = self.sets.binary_search(&demand.set);
            place.expect("every demand's set was learnt")
        };
        let places: Vec<usize> = self.demands.iter().map(place).collect();
        let limit = |constraint: &Constraint| {
            let confines: Vec<bool> =
                { places.iter() }.map(|place| constraint.confines[*place]).collect();
            let confined = self.demands.iter().zip(&confines);
            let tasks = confined.filter(|(_, is)| **is).map(|(demand, _)| demand.tasks);
            Limit { capacity: constraint.capacity.of(tasks.sum()), confines }
        };
        self.constraints.iter().map(limit).collect()
    }

    /// Finds the constraints for the sets of the demands, unless they are already known.
    fn learn_sets(&mut self, cpus: &CpuSets) {
        let mut sets: Vec<SetId> = self.demands.iter().map(|demand| demand.set).collect();
        sets.sort_unstable();
        sets.dedup();
        if sets == self.sets {
            return;
        }
        let mut unions: Vec<Vec<SetId>> = sets.iter().map(|&set| vec![set]).collect();
        if !nested_or_disjoint(&sets, cpus) {
            if sets.len() <= MOST_SETS_FOR_ALL_UNIONS {
                unions = (1_usize..1 << sets.len())
                    .map(|chosen| {
                        (0..sets.len())
                            .filter(|index| chosen & (1 << index) != 0)
                            .map(|index| sets[index])
                            .collect()
                    })
                    .collect();
            } else {
                unions.push(sets.clone());
            }
        }
        let mut known: Vec<Vec<bool>> = Vec::new();
        self.constraints.clear();
        for union in unions {
            let members = cpus.union(&union);
            if known.contains(&members) {
                continue;
            }
            self.constraints.push(Constraint {
                confines: sets.iter().map(|&set| cpus.is_subset(set, &members)).collect(),
                capacity: cpus.union_capacity(&union),
            });
            known.push(members);
        }
        self.sets = sets;
    }
}

/// Whether any two of the sets are disjoint or one contains the other. If so, the sets are constraints enough, without unions.
fn nested_or_disjoint(sets: &[SetId], cpus: &CpuSets) -> bool {
    sets.iter().enumerate().all(|(index, &a)| {
        sets[..index].iter().all(|&b| {
            a == ALL_CPUS
                || b == ALL_CPUS
                || !cpus.overlap(a, b)
                || cpus.is_subset(a, &cpus.union(&[b]))
                || cpus.is_subset(b, &cpus.union(&[a]))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairground_events::CpuId;
    use proptest::prelude::*;

    fn demand(weight: f64, set: SetId, tasks: usize) -> Demand {
        Demand { weight, set, tasks }
    }

    fn solve(demands: &[Demand], cpus: &CpuSets) -> Vec<f64> {
        let mut solver = Solver::default();
        solver.solve(demands.iter().copied(), &[], cpus);
        solver.rates().to_vec()
    }

    fn set(cpus: &mut CpuSets, members: &[u32]) -> SetId {
        cpus.intern(&members.iter().map(|&n| CpuId(n)).collect::<Vec<_>>())
    }

    #[test]
    fn one_cpu_is_divided_by_weight() {
        let cpus = CpuSets::new(&[1024]);
        assert_eq!(solve(&[demand(3.0, 0, 1), demand(1.0, 0, 1)], &cpus), [0.75, 0.25]);
    }

    #[test]
    fn a_heavy_task_gets_one_cpu_and_the_others_the_rest() {
        let cpus = CpuSets::new(&[1024; 2]);
        assert_eq!(solve(&[demand(10.0, 0, 1), demand(1.0, 0, 2)], &cpus), [1.0, 0.5]);
    }

    #[test]
    fn no_task_gets_more_than_a_cpu() {
        let cpus = CpuSets::new(&[1024; 4]);
        assert_eq!(solve(&[demand(10.0, 0, 1), demand(1.0, 0, 1)], &cpus), [1.0, 1.0]);
        assert_eq!(solve(&[demand(1.0, 0, 5)], &cpus), [0.8]);
    }

    #[test]
    fn the_heaviest_tasks_get_the_fastest_cpus() {
        // One big CPU and two of half its speed. The heavy task gets all of the big one, the two light ones one small CPU each.
        let cpus = CpuSets::new(&[512, 1024, 512]);
        assert_eq!(solve(&[demand(4.0, 0, 1), demand(1.0, 0, 2)], &cpus), [1.0, 0.5]);
        // Three equal tasks take turns on all three.
        assert_eq!(solve(&[demand(1.0, 0, 3)], &cpus), [2.0 / 3.0]);
    }

    #[test]
    fn a_quota_limits_its_tasks_and_leaves_the_rest_to_others() {
        let cpus = CpuSets::new(&[1024; 2]);
        let quota = |confines: &[bool], capacity| Limit { confines: confines.to_vec(), capacity };
        let demands = [demand(1.0, 0, 4), demand(1.0, 0, 2)];
        let solve = |quotas: &[Limit]| {
            let mut solver = Solver::default();
            solver.solve(demands.iter().copied(), quotas, &cpus);
            solver.rates().to_vec()
        };
        assert_eq!(solve(&[quota(&[true, false], 0.2)]), [0.05, 0.9]);
        // One that is not reached changes nothing; the stricter of two counts.
        assert_eq!(solve(&[quota(&[true, false], 1.5)]), [1.0 / 3.0; 2]);
        let nested = [quota(&[true, true], 0.5), quota(&[true, false], 0.2)];
        assert_eq!(solve(&nested), [0.05, 0.15]);
    }

    #[test]
    fn pinned_tasks_share_their_cpu_only() {
        let mut cpus = CpuSets::new(&[1024; 2]);
        let first = set(&mut cpus, &[0]);
        // Three tasks pinned to CPU 0 and a free one, which has CPU 1 to itself.
        let rates = solve(&[demand(1.0, 0, 1), demand(1.0, first, 3)], &cpus);
        assert_eq!(rates[0], 1.0);
        assert!((rates[1] - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn overlapping_sets_are_shared_as_a_whole() {
        // Two tasks on {0, 1} and two on {1, 2}: three CPUs for four tasks.
        let mut cpus = CpuSets::new(&[1024; 3]);
        let low = set(&mut cpus, &[0, 1]);
        let high = set(&mut cpus, &[1, 2]);
        let rates = solve(&[demand(1.0, low, 2), demand(1.0, high, 2)], &cpus);
        assert!((rates[0] - 0.75).abs() < 1e-12 && (rates[1] - 0.75).abs() < 1e-12);
    }

    proptest! {
        /// For any weights and sets (up to four distinct ones, on equal CPUs), the rates are feasible and max-min fair:
        /// no set of CPUs is overcommitted, and each task has a whole CPU or is confined to a full set in which no task has
        /// more per weight.
        #[test]
        fn rates_are_feasible_and_max_min_fair(
            masks in prop::collection::vec(1_u32..32, 1..4),
            tasks in prop::collection::vec((1_u32..20, 0_usize..5, 1_usize..4), 1..7),
        ) {
            const CPUS: usize = 5;
            let mut cpus = CpuSets::new(&[1024; CPUS]);
            let sets: Vec<SetId> = masks
                .iter()
                .map(|mask| {
                    let members: Vec<u32> = (0..CPUS as u32).filter(|n| mask & (1 << n) != 0).collect();
                    set(&mut cpus, &members)
                })
                .chain([ALL_CPUS])
                .collect();
            let mut demands: Vec<Demand> = tasks
                .iter()
                .map(|&(weight, chosen, tasks)| demand(f64::from(weight), sets[chosen % sets.len()], tasks))
                .collect();
            demands.sort_by(|a, b| b.weight.total_cmp(&a.weight));
            let rates = solve(&demands, &cpus);
            // Use of every subset of CPUs by the tasks confined to it.
            let mut tight = Vec::new();
            for mask in 1_u32..1 << CPUS {
                let members: Vec<bool> = (0..CPUS).map(|n| mask & (1 << n) != 0).collect();
                let confined: Vec<usize> = (0..demands.len())
                    .filter(|&i| cpus.is_subset(demands[i].set, &members))
                    .collect();
                let used: f64 = confined.iter().map(|&i| rates[i] * demands[i].tasks as f64).sum();
                let size = f64::from(mask.count_ones());
                prop_assert!(used <= size + 1e-9, "{used} on {size} CPUs");
                if used >= size - 1e-9 {
                    tight.push(confined);
                }
            }
            for (i, demand) in demands.iter().enumerate() {
                prop_assert!(rates[i] <= 1.0 + 1e-9);
                let level = rates[i] / demand.weight;
                let limited = tight.iter().any(|confined| {
                    confined.contains(&i)
                        && confined.iter().all(|&j| rates[j] / demands[j].weight <= level + 1e-9)
                });
                prop_assert!(rates[i] >= 1.0 - 1e-9 || limited, "{demands:?} {rates:?}");
            }
        }
    }
}
