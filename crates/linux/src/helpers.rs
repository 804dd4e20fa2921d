//! Helpers.

use std::sync::LazyLock;

use fairground_bpf::{Argument, CallResult, Contract};

use crate::row::{add, rows};

/// A helper (`enum bpf_func_id` in `include/uapi/linux/bpf.h`). All releases have the same: new functions of the kernel have names instead of
/// numbers.
#[derive(Clone, Debug)]
pub struct Helper {
    /// Its name.
    pub name: &'static str,
    /// Its requirements and guarantees.
    pub contract: Contract,
    /// Whether callbacks of a scheduler may call it: programs of any type may (`bpf_base_func_proto()`), or these
    /// (`bpf_scx_get_func_proto()`).
    pub for_callbacks: bool,
    /// Whether the model does without it although callbacks may call it.
    pub is_lacking: bool,
    /// Another one that does the same in the model.
    pub alike: Option<&'static str>,
}

static HELPERS: LazyLock<Vec<Helper>> = LazyLock::new(|| {
    let read = |mut words: std::str::SplitWhitespace<'static>| {
        let mut next = || words.next().expect("a row has two words");
        let mut helper = Helper {
            name: next(),
            contract: Contract {
                arguments: [Argument::Any; 5],
                result: CallResult::Number,
                ..Contract::default()
            },
            for_callbacks: next() == "scx",
            is_lacking: false,
            alike: None,
        };
        for word in words {
            match word.strip_prefix("as=") {
                Some(name) => helper.alike = Some(name),
                None if word == "lacking" => helper.is_lacking = true,
                None => assert!(add(&mut helper.contract, word), "{}: {word}", helper.name),
            }
        }
        helper
    };
    rows(include_str!("../tables/helpers.txt")).map(read).collect()
});

/// The helper with that number (`BPF_FUNC_*`).
pub fn helper(number: u32) -> Option<&'static Helper> {
    HELPERS.get(usize::try_from(number).ok()?.checked_sub(1)?)
}

/// All of them with their numbers.
pub fn helpers() -> impl Iterator<Item = (u32, &'static Helper)> {
    (1..).zip(HELPERS.iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn helpers_have_their_numbers() {
        for (number, name) in [
            (1, "bpf_map_lookup_elem"),
            (80, "bpf_get_current_cgroup_id"),
            (211, "bpf_cgrp_storage_delete"),
        ] {
            assert_eq!(helper(number).map(|one| one.name), Some(name));
        }
        assert!(helper(0).is_none() && helper(212).is_none());
        let names: BTreeSet<&str> = helpers().map(|(_, one)| one.name).collect();
        assert_eq!(names.len(), helpers().count());
        for alike in helpers().filter_map(|(_, one)| one.alike) {
            assert!(names.contains(alike), "{alike}");
        }
    }
}
