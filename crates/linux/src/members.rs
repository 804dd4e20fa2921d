//! Members of the tables of callbacks.

use std::sync::LazyLock;

use crate::release::{Release, Releases};
use crate::row::{Groups, rows};

/// Type of a table of callbacks that identify CPUs by number.
pub const CPU_FORM: &str = "sched_ext_ops";
/// Type of a table of callbacks that identify CPUs by topological id.
pub const CID_FORM: &str = "sched_ext_ops_cid";

/// The kind of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberKind {
    /// A number, a text, or data of the kernel.
    Data,
    /// A callback.
    Callback {
        /// The groups of functions that it may call.
        groups: Groups,
        /// The releases in which it may sleep (`bpf_scx_check_member`).
        sleeps: Option<Releases>,
        /// The argument that may be NULL (`__nullable` in `ext.c`), by its number from 0.
        nullable: Option<usize>,
    },
}

/// A member of `struct sched_ext_ops`, of `struct sched_ext_ops_cid`, or of both.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name in the first, or in the second if it is in that alone.
    pub name: &'static str,
    /// The releases that have it there.
    cpu_form: Option<Releases>,
    /// Its name in the second.
    pub cid_name: &'static str,
    /// The releases that have it there.
    cid_form: Option<Releases>,
    /// Its kind.
    pub kind: MemberKind,
}

impl Member {
    /// Whether the tables of that form have it in `release`.
    pub fn is_in(&self, cid_form: bool, release: Release) -> bool {
        let releases = if cid_form { self.cid_form } else { self.cpu_form };
        releases.is_some_and(|releases| releases.contains(release))
    }

    /// The releases in which it may be a program that sleeps.
    pub fn sleeps(&self) -> Option<Releases> {
        match self.kind {
            MemberKind::Data => None,
            MemberKind::Callback { sleeps, .. } => sleeps,
        }
    }

    /// The releases that have it in tables of that form.
    pub fn releases(&self, cid_form: bool) -> Option<Releases> {
        if cid_form { self.cid_form } else { self.cpu_form }
    }
}

static MEMBERS: LazyLock<Vec<Member>> = LazyLock::new(|| {
    let read = |mut words: std::str::SplitWhitespace<'static>| {
        let mut next = || words.next().expect("a row has five words");
        let releases = |text: &str| (text != "-").then(|| Releases::read(text));
        let (name, cpu_form) = (next(), releases(next()));
        let (cid_name, cid_form) = (next(), releases(next()));
        let kind = match next() {
            "data" => MemberKind::Data,
            groups => {
                let mut sleeps = None;
                let mut nullable = None;
                for word in words {
                    match word.split_once(['=', '@']) {
                        Some(("nullable", number)) => nullable = number.parse().ok(),
                        Some(("sleeps", text)) => sleeps = releases(text),
                        None if word == "sleeps" => sleeps = Some(Releases::ALL),
                        _ => panic!("no callback is {word}"),
                    }
                }
                MemberKind::Callback { groups: Groups::read(groups), sleeps, nullable }
            }
        };
        Member { name, cpu_form, cid_name, cid_form, kind }
    };
    rows(include_str!("../tables/members.txt")).map(read).collect()
});

/// All of them, in the kernel's order.
pub fn members() -> impl Iterator<Item = &'static Member> {
    MEMBERS.iter()
}

/// The member of that name in tables of that form.
pub fn member(name: &str, cid_form: bool) -> Option<&'static Member> {
    members().find(|one| {
        one.releases(cid_form).is_some()
            && match cid_form {
                true => one.cid_name == name,
                false => one.name == name,
            }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_member_is_named_twice() {
        for cid_form in [false, true] {
            let there = members().filter(|one| one.releases(cid_form).is_some());
            let names = there.map(|one| if cid_form { one.cid_name } else { one.name });
            let names: Vec<&str> = names.collect();
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
            for name in names {
                assert!(member(name, cid_form).is_some());
            }
        }
        assert!(member("select_cpu", true).is_none());
    }

    #[test]
    fn what_may_sleep_depends_on_the_release() {
        let older = Release::new(7, 2);
        let may_sleep = |name: &str, release: Release| {
            let sleeps = member(name, false).unwrap().sleeps();
            sleeps.is_some_and(|releases| releases.contains(release))
        };
        assert!(may_sleep("init", Release::OLDEST));
        assert!(!may_sleep("cgroup_set_bandwidth", older));
        assert!(may_sleep("cgroup_set_bandwidth", Release::NEWEST));
        assert!(!may_sleep("cgroup_set_weight", Release::NEWEST));
        assert!(!may_sleep("flags", Release::NEWEST));
    }
}
