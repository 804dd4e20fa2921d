//! Kernel functions.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use fairground_bpf::Contract;

use crate::release::{Release, Releases};
#[cfg(test)]
use crate::row::rows;
use crate::row::{Group, Groups, add};

/// A kernel function that programs may call.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// The releases that have it.
    pub releases: Releases,
    /// Its requirements and guarantees.
    pub contract: Contract,
    /// The callbacks and programs that may call it: those of any of these groups, or all.
    callers: Option<Groups>,
    /// Whether only schedulers whose callbacks identify CPUs by number may call it (`scx_kfunc_ids_cpu_only`).
    cpu_form: bool,
    /// The function to use in its place, if it has a successor.
    pub successor: Option<Successor>,
}

/// The successor of a kernel function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Successor {
    /// The function to use instead.
    pub name: &'static str,
    /// Differences in how it is called; empty if it is called alike.
    pub remark: &'static str,
}

impl Function {
    fn read(line: &'static str) -> Function {
        let (line, remark) = line.split_once(';').unwrap_or((line, ""));
        let mut words = line.split_whitespace();
        let mut next = || words.next().expect("a row has three words");
        let name = next();
        let mut function = Function {
            name,
            releases: Releases::read(next()),
            contract: Contract::default(),
            callers: match next() {
                "any" => None,
                groups => Some(Groups::read(groups)),
            },
            cpu_form: false,
            successor: None,
        };
        for word in words {
            match word.strip_prefix("now=") {
                Some(name) => {
                    let remark = remark.trim();
                    function.successor = Some(Successor { name, remark });
                }
                None if word == "cpu-form" => function.cpu_form = true,
                None => assert!(add(&mut function.contract, word), "{name}: {word}"),
            }
        }
        function
    }

    /// Whether a callback that is of the groups `given` may call it in `release`, where the scheduler is of the cid form or not.
    pub fn is_allowed_in(&self, given: &Groups, cid_form: bool, release: Release) -> bool {
        let callers = self.callers.as_ref();
        !(cid_form && self.cpu_form) && callers.is_none_or(|callers| callers.meet(given, release))
    }

    /// Whether a program that is no callback may call it in `release`: of kind `syscall`, or of another.
    pub fn is_allowed_in_program(&self, is_syscall: bool, release: Release) -> bool {
        let callers = self.callers.as_ref();
        callers.is_none_or(|callers| {
            let mut given = [Group::Unlocked, Group::SelectCpu].into_iter();
            is_syscall && given.any(|group| callers.contain(group, release))
        })
    }

    /// The remedy where a release has no function of this name, as the rest of a sentence about it.
    pub fn remedy(&self) -> Option<String> {
        let successor = self.successor.as_ref().zip(self.replaced_since());
        let successor =
            successor.map(|(Successor { name, remark }, since)| match remark.is_empty() {
                true => format!("since Linux {since} it is called {name}"),
                false => format!("since Linux {since} there is {name}, {remark}"),
            });
        let told: Vec<String> = successor.into_iter().chain(self.releases.way()).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// The release in which something took its place: the first that has a successor that is called alike, or no longer has the function.
    pub fn replaced_since(&self) -> Option<Release> {
        let successor = self.successor.as_ref()?;
        let successor = function(successor.name)
            .filter(|_| successor.remark.is_empty())
            .and_then(|one| one.releases.since);
        successor.or(self.releases.until)
    }
}

static FUNCTIONS: LazyLock<BTreeMap<&str, Function>> = LazyLock::new(|| {
    let lines = include_str!("../tables/functions.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let all = lines.map(Function::read);
    all.map(|function| (function.name, function)).collect()
});

/// The kernel function of that name, if any release has one.
pub fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.get(name)
}

/// All of them, by name.
pub fn functions() -> impl Iterator<Item = &'static Function> {
    FUNCTIONS.values()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_names_nothing_twice() {
        let names = rows(include_str!("../tables/functions.txt"));
        let names: Vec<&str> = names.filter_map(|mut row| row.next()).collect();
        assert!(names.is_sorted_by(|one, other| one < other));
        assert_eq!(names.len(), functions().count());
    }

    #[test]
    fn what_takes_the_place_of_a_function_is_there_when_it_goes() {
        for former in functions().filter(|one| one.successor.is_some()) {
            let until = former.releases.until.expect(former.name);
            let successor = &former.successor.as_ref().expect("filtered").name;
            let successor = function(successor).expect(former.name);
            assert!(successor.releases.contains(until), "{}", former.name);
        }
        let says = |name| function(name).and_then(Function::remedy);
        assert_eq!(
            says("scx_bpf_consume").as_deref(),
            Some(
                "since Linux 6.13 it is called scx_bpf_dsq_move_to_local; Linux 6.12 to 6.17 have it: --kernel 6.17"
            )
        );
        assert!(
            says("scx_bpf_cpu_rq").is_some_and(|text| text.starts_with("since Linux 7.3 there is"))
        );
        assert!(says("scx_bpf_now").is_some_and(|text| text.ends_with("have it: --kernel 7.3")));
    }
}
