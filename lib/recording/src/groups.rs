//! The control groups of a recording, and those of the workload that it stands for.

use std::collections::{BTreeMap, BTreeSet};

use fairground_events::{Policy, load_weight};
use fairground_workload::{Bandwidth, Group, GroupChange, GroupSettings, Share};

use crate::record::GroupDescription;

/// Deepest nesting that is followed; a damaged file may have groups that contain each other.
const DEPTH: usize = 32;
/// Numbers of sessions have this bit, which those of folders have not: `SESSION_NUMBERS` of `crates/kernel/bpf/groups.h`.
const SESSION_NUMBERS: u64 = 1 << 63;

/// A group, as far as descriptions tell.
#[derive(Clone, Debug)]
struct Known {
    parent: u64,
    name: String,
    session: bool,
    /// Its settings since which times, on the clock of the entries.
    settings: Vec<(u64, GroupSettings)>,
}

/// The groups that a recording describes, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    known: BTreeMap<u64, Known>,
}

impl Groups {
    /// Takes note of a description.
    pub fn describe(&mut self, time: u64, group: &GroupDescription) {
        let settings = settings(group);
        let known = self.known.entry(group.number).or_insert_with(|| Known {
            parent: group.parent,
            name: match group.session {
                true => format!("session-{}", group.number & !SESSION_NUMBERS),
                false => group.name.clone(),
            },
            session: group.session,
            settings: Vec::new(),
        });
        if known.settings.last().is_none_or(|last| last.1 != settings) {
            known.settings.push((time, settings));
        }
    }

    /// The path of a group; `None` for the root and for one that was not described.
    pub fn path(&self, number: u64) -> Option<String> {
        let names: Vec<&str> = self.upwards(number).map(|(_, group)| group.name.as_str()).collect();
        let path: String = names.iter().rev().map(|name| format!("/{name}")).collect();
        (!path.is_empty()).then_some(path)
    }

    /// A group and those above it.
    fn upwards(&self, number: u64) -> impl Iterator<Item = (u64, &Known)> {
        let next = |number: u64| self.known.get(&number).map(|group| (number, group));
        std::iter::successors(next(number), move |(_, group)| next(group.parent)).take(DEPTH)
    }

    /// These groups and those above them, as groups of a workload that begins at `origin`: those above come first. Two groups of one name
    /// that followed each other are one.
    pub fn of_workload(&self, numbers: &BTreeSet<u64>, origin: u64) -> Vec<Group> {
        let mut paths: BTreeMap<String, Vec<(u64, GroupSettings)>> = BTreeMap::new();
        let used: BTreeSet<u64> = numbers
            .iter()
            .flat_map(|number| self.upwards(*number))
            .map(|(number, _)| number)
            .collect();
        for number in used {
            if let Some(path) = self.path(number) {
                paths.entry(path).or_default().extend(&self.known[&number].settings);
            }
        }
        paths.into_iter().map(|(path, settings)| group(path, settings, origin)).collect()
    }

    /// Whether one of these groups is a session.
    pub fn have_sessions(&self, numbers: &BTreeSet<u64>) -> bool {
        let known = |number: &u64| self.known.get(number).is_some_and(|group| group.session);
        numbers.iter().any(known)
    }
}

/// The group with this path and these settings since those times.
fn group(path: String, mut settings: Vec<(u64, GroupSettings)>, origin: u64) -> Group {
    settings.sort_by_key(|(time, _)| *time);
    let mut group = Group {
        path,
        // The first description is as old as its first task that was seen: it says nothing of the time before.
        settings: settings.first().map_or_else(GroupSettings::default, |first| first.1),
        changes: Vec::new(),
    };
    for (time, settings) in settings.into_iter().skip(1) {
        match time.checked_sub(origin) {
            Some(at) if at > 0 => group.changes.push(GroupChange { at, settings }),
            _ => group.settings = settings,
        }
    }
    group
}

/// The settings that a description tells.
fn settings(group: &GroupDescription) -> GroupSettings {
    let default = GroupSettings::default();
    let is_nice = |nice: &i32| load_weight(Policy::Normal, *nice) == group.shares;
    let share = match (-20..=19).find(is_nice) {
        _ if group.idle => Share::Idle,
        // That of a new group.
        Some(0) => default.share,
        Some(nice) => Share::Nice(nice),
        None => {
            Share::Weight(((u64::from(group.shares) * 100 + 512) / 1024).clamp(1, 10_000) as u32)
        }
    };
    let period = match group.period {
        0 => default.bandwidth.period,
        period => period,
    };
    GroupSettings { share, bandwidth: Bandwidth { quota: group.quota, period, burst: group.burst } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(number: u64, parent: u64, name: &str, shares: u32) -> GroupDescription {
        GroupDescription {
            number,
            parent,
            name: name.to_owned(),
            shares,
            period: 100_000_000,
            ..GroupDescription::default()
        }
    }

    #[test]
    fn settings_are_those_of_the_kernels_files() {
        let share = |shares| settings(&described(1, 0, "a", shares)).share;
        assert_eq!(share(1024), Share::Weight(100));
        assert_eq!(share(3072), Share::Weight(300));
        assert_eq!(share(10), Share::Weight(1));
        assert_eq!(share(3121), Share::Nice(-5), "cpu.weight.nice takes the table's");
        let idle = GroupDescription { idle: true, ..described(1, 0, "a", 3) };
        assert_eq!(settings(&idle).share, Share::Idle);
    }

    #[test]
    fn groups_above_come_first_and_later_settings_are_changes() {
        let mut groups = Groups::default();
        groups.describe(10, &described(7, 5, "x", 1024));
        groups.describe(10, &described(5, 0, "a", 3072));
        groups.describe(90, &described(7, 5, "x", 2048));
        groups.describe(150, &described(7, 5, "x", 2048));
        groups.describe(150, &described(5, 0, "a", 1024));
        groups.describe(10, &described(9, 0, "unused", 1024));
        assert_eq!(groups.path(7).as_deref(), Some("/a/x"));
        assert_eq!(groups.path(0), None);
        let made = groups.of_workload(&BTreeSet::from([7]), 100);
        let paths: Vec<&str> = made.iter().map(|group| group.path.as_str()).collect();
        assert_eq!(paths, ["/a", "/a/x"]);
        assert_eq!(made[1].settings.share, Share::Weight(200), "changed before the beginning");
        assert_eq!(made[1].changes, []);
        assert_eq!(made[0].settings.share, Share::Weight(300));
        assert_eq!(made[0].changes[0].at, 50);
    }

    #[test]
    fn groups_that_contain_each_other_end() {
        let mut groups = Groups::default();
        groups.describe(0, &described(1, 2, "a", 1024));
        groups.describe(0, &described(2, 1, "b", 1024));
        assert!(groups.path(1).is_some());
    }
}
