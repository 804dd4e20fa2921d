//! The CPUs of the machine, which of them are online, and the sets of CPUs that tasks may use.

use fairground_events::CpuId;
use std::collections::BTreeMap;

/// Number of an interned set of allowed CPUs.
pub(crate) type SetId = u32;

/// The set of all CPUs.
pub(crate) const ALL_CPUS: SetId = 0;

/// The machine as the metrics see it: capacities, online CPUs, and every distinct set of allowed CPUs so far.
#[derive(Clone, Debug)]
pub(crate) struct CpuSets {
    /// Work per nanosecond of each CPU: 1.0 for capacity 1024.
    speeds: Vec<f64>,
    online: Vec<bool>,
    sets: Vec<Set>,
    ids: BTreeMap<Vec<CpuId>, SetId>,
}

#[derive(Clone, Debug)]
struct Set {
    members: Vec<bool>,
    capacity: CapacityCurve,
}

/// The most work per nanosecond that k tasks can do on a set of CPUs, for every k.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CapacityCurve {
    /// `sums[k]` is the sum of the k fastest CPUs' speeds; `sums[0]` is 0.
    sums: Vec<f64>,
}

impl CapacityCurve {
    fn new(mut speeds: Vec<f64>) -> Self {
        speeds.sort_by(|a, b| b.total_cmp(a));
        let mut sums = Vec::with_capacity(speeds.len() + 1);
        let mut sum = 0.0;
        sums.push(sum);
        for speed in speeds {
            sum += speed;
            sums.push(sum);
        }
        Self { sums }
    }

    /// Work per nanosecond of `tasks` tasks, each on at most one CPU at a time.
    pub(crate) fn of(&self, tasks: usize) -> f64 {
        self.sums[tasks.min(self.cpus())]
    }

    /// Number of CPUs.
    pub(crate) fn cpus(&self) -> usize {
        self.sums.len() - 1
    }
}

impl CpuSets {
    /// A machine of CPUs with these capacities (1024 is the reference), all online.
    pub(crate) fn new(capacities: &[u32]) -> Self {
        let cpus = capacities.len();
        let mut this = Self {
            speeds: capacities.iter().map(|&c| f64::from(c) / 1024.0).collect(),
            online: vec![true; cpus],
            sets: Vec::new(),
            ids: BTreeMap::new(),
        };
        this.push(vec![true; cpus]);
        this
    }

    fn push(&mut self, members: Vec<bool>) -> SetId {
        let id = SetId::try_from(self.sets.len()).expect("fewer than 2^32 CPU sets");
        let capacity = self.curve(&members);
        self.sets.push(Set { members, capacity });
        id
    }

    fn curve(&self, members: &[bool]) -> CapacityCurve {
        CapacityCurve::new(
            (0..self.speeds.len())
                .filter(|&cpu| members[cpu] && self.online[cpu])
                .map(|cpu| self.speeds[cpu])
                .collect(),
        )
    }

    /// The number of the set of `allowed` CPUs; empty means all. CPUs that the machine does not have are ignored.
    pub(crate) fn intern(&mut self, allowed: &[CpuId]) -> SetId {
        if allowed.is_empty() {
            return ALL_CPUS;
        }
        if let Some(&id) = self.ids.get(allowed) {
            return id;
        }
        let mut members = vec![false; self.speeds.len()];
        for cpu in allowed {
            if let Some(member) = members.get_mut(cpu.0 as usize) {
                *member = true;
            }
        }
        let id = match self.sets.iter().position(|set| set.members == members) {
            Some(known) => known as SetId,
            None => self.push(members),
        };
        self.ids.insert(allowed.to_vec(), id);
        id
    }

    /// Takes a CPU online or offline.
    pub(crate) fn set_online(&mut self, cpu: usize, online: bool) {
        self.online[cpu] = online;
        for id in 0..self.sets.len() {
            self.sets[id].capacity = self.curve(&self.sets[id].members);
        }
    }

    /// Number of CPUs, online or not.
    pub(crate) fn cpus(&self) -> usize {
        self.speeds.len()
    }

    /// Work per nanosecond of `cpu`.
    pub(crate) fn speed(&self, cpu: usize) -> f64 {
        self.speeds[cpu]
    }

    /// Whether `cpu` is online.
    pub(crate) fn is_online(&self, cpu: usize) -> bool {
        self.online[cpu]
    }

    /// Whether `cpu` is in the set.
    pub(crate) fn contains(&self, set: SetId, cpu: usize) -> bool {
        self.sets[set as usize].members[cpu]
    }

    /// Capacity of the online CPUs in the set.
    pub(crate) fn capacity(&self, set: SetId) -> &CapacityCurve {
        &self.sets[set as usize].capacity
    }

    /// Capacity of the online CPUs in any of the sets.
    pub(crate) fn union_capacity(&self, sets: &[SetId]) -> CapacityCurve {
        self.curve(&self.union(sets))
    }

    /// Members of any of the sets.
    pub(crate) fn union(&self, sets: &[SetId]) -> Vec<bool> {
        let mut members = vec![false; self.speeds.len()];
        for &set in sets {
            for (member, &more) in members.iter_mut().zip(&self.sets[set as usize].members) {
                *member |= more;
            }
        }
        members
    }

    /// Whether every CPU of `inner` is in `outer`.
    pub(crate) fn is_subset(&self, inner: SetId, outer: &[bool]) -> bool {
        self.sets[inner as usize].members.iter().zip(outer).all(|(&inner, &outer)| outer || !inner)
    }

    /// Whether the sets share a CPU.
    pub(crate) fn overlap(&self, a: SetId, b: SetId) -> bool {
        let (a, b) = (&self.sets[a as usize], &self.sets[b as usize]);
        a.members.iter().zip(&b.members).any(|(&a, &b)| a && b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(numbers: &[u32]) -> Vec<CpuId> {
        numbers.iter().map(|&n| CpuId(n)).collect()
    }

    #[test]
    fn equal_sets_have_one_number() {
        let mut sets = CpuSets::new(&[1024; 4]);
        assert_eq!(sets.intern(&[]), ALL_CPUS);
        assert_eq!(sets.intern(&cpus(&[0, 1, 2, 3])), ALL_CPUS);
        let pair = sets.intern(&cpus(&[0, 2]));
        assert_ne!(pair, ALL_CPUS);
        assert_eq!(sets.intern(&cpus(&[0, 2, 9])), pair);
        assert!(sets.contains(pair, 2) && !sets.contains(pair, 1));
    }

    #[test]
    fn capacity_counts_the_fastest_online_cpus_first() {
        let mut sets = CpuSets::new(&[512, 1024, 512]);
        assert_eq!(sets.capacity(ALL_CPUS).of(1), 1.0);
        assert_eq!(sets.capacity(ALL_CPUS).of(2), 1.5);
        assert_eq!(sets.capacity(ALL_CPUS).of(9), 2.0);
        sets.set_online(1, false);
        assert_eq!(sets.capacity(ALL_CPUS).of(1), 0.5);
        assert_eq!(sets.capacity(ALL_CPUS).cpus(), 2);
    }

    #[test]
    fn sets_compare() {
        let mut sets = CpuSets::new(&[1024; 4]);
        let low = sets.intern(&cpus(&[0, 1]));
        let middle = sets.intern(&cpus(&[1, 2]));
        let high = sets.intern(&cpus(&[2, 3]));
        assert!(sets.overlap(low, middle) && !sets.overlap(low, high));
        let union = sets.union(&[low, middle]);
        assert!(sets.is_subset(low, &union) && !sets.is_subset(high, &union));
        assert_eq!(sets.union_capacity(&[low, middle]).cpus(), 3);
    }
}
