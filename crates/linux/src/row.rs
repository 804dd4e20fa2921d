//! The words of the tables' rows.

use fairground_bpf::{Argument, CallResult, Contract, Effect, Region};

use crate::release::{Release, Releases};

/// A kind of callbacks and programs that may call certain kernel functions (`scx_kf_allow_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Only have to choose a CPU.
    SelectCpu,
    /// May put tasks on queues.
    Enqueue,
    /// May move tasks between queues.
    Dispatch,
    /// Are told that the scheduler loses a CPU.
    CpuRelease,
    /// Run without a run queue lock.
    Unlocked,
    /// May give the CPUs their ids.
    InitCids,
}

/// A set of groups, each in some releases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups(Vec<(Group, Releases)>);

impl Groups {
    /// Reads names with commas between; `NAME@RELEASES` is a member in those releases only, and `-` is no group.
    pub(crate) fn read(text: &str) -> Groups {
        let names = text.split(',').filter(|name| *name != "-");
        Groups(names.map(Groups::read_one).collect())
    }

    fn read_one(text: &str) -> (Group, Releases) {
        let (name, releases) = text.split_once('@').unwrap_or((text, ".."));
        let group = match name {
            "select_cpu" => Group::SelectCpu,
            "enqueue" => Group::Enqueue,
            "dispatch" => Group::Dispatch,
            "cpu_release" => Group::CpuRelease,
            "unlocked" => Group::Unlocked,
            "init_cids" => Group::InitCids,
            other => panic!("no group {other}"),
        };
        (group, Releases::read(releases))
    }

    /// Whether `release` has the group among them.
    pub fn contain(&self, group: Group, release: Release) -> bool {
        let mut groups = self.0.iter();
        groups.any(|(one, releases)| *one == group && releases.contains(release))
    }

    /// Whether the two have a group in common in `release`.
    pub fn meet(&self, others: &Groups, release: Release) -> bool {
        let mut groups = others.0.iter();
        groups.any(|(one, releases)| releases.contains(release) && self.contain(*one, release))
    }
}

/// The rows of a table: lines that are neither empty nor comments, as words.
pub(crate) fn rows(
    table: &'static str,
) -> impl Iterator<Item = std::str::SplitWhitespace<'static>> {
    let lines = table.lines().filter(|line| !line.is_empty());
    lines.filter(|line| !line.starts_with('#')).map(str::split_whitespace)
}

/// Adds a word of a row to a call's contract. `false` if the word is about something else.
pub(crate) fn add(contract: &mut Contract, word: &'static str) -> bool {
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    match key {
        "args" => contract.arguments = arguments(value),
        "result" => {
            contract.result = match value {
                "any" => CallResult::Any,
                "or-null" => CallResult::OrNull,
                "map-value" => CallResult::MapValue,
                "object" => CallResult::Object,
                "memory" => CallResult::Memory,
                other => panic!("no result {other}"),
            }
        }
        "sleeps" => contract.sleeps = true,
        "in-spin-lock" => contract.in_spin_lock = true,
        _ => match effect(key, value) {
            Some(effect) => contract.effect = effect,
            None => return false,
        },
    }
    true
}

fn effect(key: &str, value: &str) -> Option<Effect> {
    Some(match key {
        "acquire" => Effect::Acquire,
        "release" => Effect::Release(0),
        "keep" => Effect::Keep(1),
        "exchange" => Effect::Exchange,
        "iterate" => Effect::Iterate,
        "next" => Effect::Next,
        "end" => Effect::EndIteration,
        "enter" => Effect::Enter(region(value)),
        "leave" => Effect::Leave(region(value)),
        _ => return None,
    })
}

fn region(name: &str) -> Region {
    match name {
        "rcu" => Region::Rcu,
        "spin-lock" => Region::SpinLock,
        "no-preemption" => Region::NoPreemption,
        "no-interrupts" => Region::NoInterrupts,
        other => panic!("no region {other}"),
    }
}

/// Arguments that are not named may be anything.
fn arguments(names: &str) -> [Argument; 5] {
    let mut arguments = [Argument::Any; 5];
    for (argument, name) in arguments.iter_mut().zip(names.split(',')) {
        *argument = match name {
            "any" => Argument::Any,
            "declared" => Argument::Declared,
            "map" => Argument::Map,
            "key" => Argument::Key,
            "value" => Argument::Value,
            "room" => Argument::Room,
            "sized" => Argument::Sized,
            "object" => Argument::Object,
            "place" => Argument::Place,
            other => panic!("no argument {other}"),
        };
    }
    arguments
}
