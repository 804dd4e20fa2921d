//! Tasks that displace one another from the last-level caches, where the machine has the size of those and the workload has footprints.
//!
//! A task uses all of its footprint again each time it gets a CPU, and first fetches what is no longer there. A cache keeps what was used
//! last and replaces the rest (fully associative, least recently used), but nothing of a task that runs beside it. This is the reload transient
//! of D. Thiébaut and H. Stone, "Footprints in the cache", ACM Transactions on Computer Systems 5 (1987), at its upper bound: a task that
//! returns uses all that it had.

use fairground_events::TaskId;
use fairground_machine::{CacheSize, Distance, LINE};

use crate::cost::CostModel;
use crate::kernel::Kernel;
use crate::task::TaskRef;

/// What a last-level cache holds, the least recently used first: whose it is, and how many bytes.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    held: Vec<(TaskId, u64)>,
}

impl Cache {
    /// `task` uses `bytes`, of at most `size` that the cache has; returns how many of them it did not hold. Others lose as many as there is no room
    /// for, those for which `is_running` holds last.
    fn use_bytes(
        &mut self,
        task: TaskId,
        bytes: u64,
        size: u64,
        is_running: impl Fn(TaskId) -> bool,
    ) -> u64 {
        let bytes = bytes.min(size);
        let known = self.held.iter().position(|(of, _)| *of == task);
        let held = known.map_or(0, |place| self.held.remove(place).1);
        let others: u64 = self.held.iter().map(|(_, bytes)| bytes).sum();
        let mut excess = (others + bytes).saturating_sub(size);
        for spares_running in [true, false] {
            for (of, bytes) in &mut self.held {
                if excess == 0 {
                    break;
                }
                if !(spares_running && is_running(*of)) {
                    let lost = excess.min(*bytes);
                    *bytes -= lost;
                    excess -= lost;
                }
            }
        }
        self.held.retain(|(_, bytes)| *bytes > 0);
        self.held.push((task, bytes));
        bytes - held.min(bytes)
    }
}

impl Kernel<'_> {
    /// How long `next`, which gets `cpu`, takes to fetch what is not in that one's caches. Where a task has a footprint, that says what the last-level
    /// cache lacks; elsewhere only a migration has a cost, which is the same for all tasks.
    #[inline]
    pub(crate) fn refill(&mut self, cpu: usize, next: TaskRef) -> u64 {
        let known = self.machine.hardware.cache.filter(|_| next.footprint > 0);
        let fetched = known.map_or(0, |size| self.fetch_footprint(cpu, next, size));
        let distance = match next.last_ran_on {
            Some(last) if last != cpu => self.machine.distance(last, cpu),
            _ => return fetched,
        };
        let distance = match known {
            Some(_) => distance.min(Distance::Cache),
            None => distance,
        };
        fetched + CostModel::by_distance(&self.settings.cost.migration, distance)
    }

    fn fetch_footprint(&mut self, cpu: usize, next: TaskRef, size: CacheSize) -> u64 {
        let number = self.topology.cache_of[cpu];
        let cpus = &self.topology.caches[number];
        let is_running = |task| cpus.iter().any(|cpu| self.cpus[cpu].current.id == task);
        let cache = &mut self.hardware.caches[number];
        let fetched = cache.use_bytes(next.id, next.footprint, size.bytes, is_running);
        fetched.div_ceil(LINE) * size.line_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_fetches_what_others_displaced() {
        let mut cache = Cache::default();
        let mut used = |task, bytes| cache.use_bytes(TaskId(task), bytes, 1000, |_| false);
        assert_eq!(used(1, 600), 600);
        assert_eq!(used(1, 600), 0);
        assert_eq!(used(2, 300), 300, "there is room for both");
        assert_eq!(used(1, 600), 0);
        assert_eq!(used(3, 200), 200, "which the second loses 100 to, as the first was used later");
        assert_eq!(used(2, 300), 100);
        assert_eq!(used(1, 600), 100);
        assert_eq!(used(4, 5000), 1000, "no more than there is room for");
        assert_eq!(used(1, 600), 600);
    }

    #[test]
    fn a_task_that_runs_beside_keeps_its_own() {
        let mut cache = Cache::default();
        let mut used =
            |task, bytes| cache.use_bytes(TaskId(task), bytes, 1000, |other| other == TaskId(1));
        assert_eq!(used(1, 600), 600);
        for turn in 0..5 {
            assert_eq!(used(2, 400), 400, "{turn}");
            assert_eq!(used(3, 400), 400, "{turn}");
        }
        assert_eq!(used(1, 600), 0);
        assert_eq!(used(4, 900), 900, "but there is not room for both");
        assert_eq!(used(1, 600), 500);
    }
}
