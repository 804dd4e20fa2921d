//! Control groups in the ideal: the effect of groups on the weights of their tasks.
//!
//! As in the kernel, whose tasks are all in one tree, a group's part of the CPUs belongs to its tasks, each of which weighs
//!
//! ```text
//! w * product(part of the group / sum of the weights in it)
//! ```
//!
//! over the groups that it is in. The sums are over the whole machine, of the tasks that the ideal serves, and how a group's part grows with its
//! tasks and the CPUs is the machine's [`CgroupMode`].

use fairground_events::{CgroupMode, GroupId, GroupInfo};

/// The heaviest that a group may be in [`CgroupMode::Max`]: as a task of nice -20.
const HEAVIEST: f64 = 88_761.0;

/// The control groups of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    groups: Vec<Group>,
}

#[derive(Clone, Debug)]
struct Group {
    info: GroupInfo,
    /// Tasks in service in it and below.
    tasks: usize,
    /// Sum of the weights of tasks in it and of groups in it.
    weight: f64,
    /// The weight in the root of one unit of weight in the group.
    factor: f64,
}

impl Groups {
    /// Sets or changes the attributes of a group.
    pub(crate) fn describe(&mut self, group: GroupId, info: &GroupInfo) {
        match self.groups.get_mut(group.0 as usize) {
            Some(known) => known.info.clone_from(info),
            None => {
                self.groups.push(Group { info: info.clone(), tasks: 0, weight: 0.0, factor: 1.0 })
            }
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The groups that have a quota, with the CPUs that it comes to.
    pub(crate) fn quotas(&self) -> impl Iterator<Item = (GroupId, f64)> + '_ {
        let groups = self.groups.iter().enumerate();
        groups
            .filter_map(|(number, group)| Some((GroupId(number as u32), group.info.quota?.cpus())))
    }

    /// Whether `group` is `outer` or in it.
    pub(crate) fn is_within(&self, group: Option<GroupId>, outer: GroupId) -> bool {
        let above = |group: &GroupId| self.groups[group.0 as usize].info.parent;
        std::iter::successors(group, above).any(|group| group == outer)
    }

    /// Number of groups.
    pub(crate) fn count(&self) -> usize {
        self.groups.len()
    }

    /// The path of a group.
    pub(crate) fn path(&self, group: usize) -> &str {
        &self.groups[group].info.path
    }

    /// The group that a group is in, unless that is the root.
    pub(crate) fn parent(&self, group: usize) -> Option<usize> {
        self.groups[group].info.parent.map(|parent| parent.0 as usize)
    }

    /// Computes the effective weights if these are all the tasks in service: each entry has a group, a weight, and how many tasks have both. While
    /// there is no CPU for them, which others may have, the weights are those on one.
    pub(crate) fn weigh(
        &mut self,
        tasks: impl Iterator<Item = (GroupId, f64, usize)>,
        cpus: usize,
    ) {
        let cpus = cpus.max(1);
        for group in &mut self.groups {
            (group.tasks, group.weight) = (0, 0.0);
        }
        for (group, weight, tasks) in tasks {
            let group = &mut self.groups[group.0 as usize];
            group.weight += weight * tasks as f64;
            group.tasks += tasks;
        }
        // A group is described after the one that it is in, so those below come first in reverse.
        for index in (0..self.groups.len()).rev() {
            let (tasks, part) = (self.groups[index].tasks, self.groups[index].part(cpus));
            if let (Some(parent), true) = (self.parent(index), tasks > 0) {
                self.groups[parent].tasks += tasks;
                self.groups[parent].weight += part;
            }
        }
        for index in 0..self.groups.len() {
            let above = self.parent(index).map_or(1.0, |parent| self.groups[parent].factor);
            let group = &mut self.groups[index];
            group.factor = above * group.part(cpus) / group.weight;
        }
    }

    /// The weight in the root of one unit of weight in the group, as computed last.
    pub(crate) fn factor(&self, group: GroupId) -> f64 {
        self.groups[group.0 as usize].factor
    }
}

impl Group {
    /// Its part relative to its siblings, with its tasks on a machine of so many CPUs.
    fn part(&self, cpus: usize) -> f64 {
        let shares = f64::from(self.info.shares);
        match self.info.mode {
            CgroupMode::Smp => shares,
            CgroupMode::Concur => shares * self.tasks.min(cpus) as f64,
            // On each CPU all its shares, which comes to the same for a group that has tasks on all of them.
            CgroupMode::Up => shares * cpus as f64,
            CgroupMode::Max => (shares * cpus as f64).min(HEAVIEST),
            CgroupMode::Tasks => shares * self.tasks as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups with these parents and shares.
    fn groups(mode: CgroupMode, list: &[(Option<u32>, u32)]) -> Groups {
        let mut groups = Groups::default();
        for (index, &(parent, shares)) in list.iter().enumerate() {
            let info = GroupInfo {
                path: format!("/{index}"),
                parent: parent.map(GroupId),
                shares,
                mode,
                quota: None,
            };
            groups.describe(GroupId(index as u32), &info);
        }
        groups
    }

    /// The weight of one of each group's tasks, of which there are so many, all of nice 0.
    fn weights(groups: &mut Groups, tasks: &[usize], cpus: usize) -> Vec<f64> {
        let given = tasks.iter().enumerate().filter(|(_, tasks)| **tasks > 0);
        let given = given.map(|(group, tasks)| (GroupId(group as u32), 1024.0, *tasks));
        groups.weigh(given, cpus);
        let weight = |group| 1024.0 * groups.factor(GroupId(group as u32));
        (0..tasks.len()).map(weight).collect()
    }

    #[test]
    fn a_groups_tasks_divide_its_shares() {
        let mut two = groups(CgroupMode::Concur, &[(None, 1024), (None, 3072)]);
        assert_eq!(weights(&mut two, &[1, 8], 1), [1024.0, 384.0]);
    }

    #[test]
    fn a_group_in_a_group_has_its_part_of_that() {
        let list = [(None, 1024), (Some(0), 3072), (Some(0), 1024)];
        let mut nested = groups(CgroupMode::Smp, &list);
        let found = weights(&mut nested, &[0, 1, 3], 4);
        assert_eq!(found[1..], [768.0, 256.0 / 3.0]);
    }

    #[test]
    fn tasks_have_weights_while_others_have_all_cpus() {
        let mut two = groups(CgroupMode::Concur, &[(None, 1024), (None, 3072)]);
        assert_eq!(weights(&mut two, &[1, 8], 0), [1024.0, 384.0]);
    }

    #[test]
    fn how_a_part_grows_is_the_machines_mode() {
        // One task in the first group, eight in the second, on four CPUs: the first task's part of the weight.
        let part = |mode| {
            let mut two = groups(mode, &[(None, 1024), (None, 1024)]);
            let found = weights(&mut two, &[1, 8], 4);
            found[0] / (found[0] + 8.0 * found[1])
        };
        assert_eq!(part(CgroupMode::Smp), 0.5);
        assert_eq!(part(CgroupMode::Max), 0.5);
        assert_eq!(part(CgroupMode::Concur), 0.2);
        assert_eq!(part(CgroupMode::Tasks), 1.0 / 9.0);
    }
}
