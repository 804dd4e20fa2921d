//! A kernel verifier's knowledge of the structures that schedulers see.

use fairground_linux::Release;

use crate::structures;

/// Whether a scheduler may write to that part of a kernel structure (`bpf_scx_btf_struct_access`).
pub(crate) fn may_write(structure: &str, offset: i64, size: u64, cid_form: bool) -> bool {
    // Structures that this model does not have are the scheduler's own.
    if structures::find(structure).is_none() {
        return true;
    }
    let fields: &[[&str; 2]] = match cid_form {
        true => &[["scx", "disallow"]],
        false => &[["scx", "slice"], ["scx", "dsq_vtime"], ["scx", "disallow"]],
    };
    structure == "task_struct"
        && fields
            .iter()
            .filter_map(|path| structures::resolve(structure, path.as_slice(), Release::NEWEST))
            .any(|field| {
                let start = i64::from(field.offset);
                offset >= start
                    && offset.saturating_add_unsigned(size) <= start + i64::from(field.size)
            })
}

/// Whether structures of that name are objects that only the kernel creates.
pub(crate) fn is_object(structure: &str) -> bool {
    matches!(
        structure,
        "task_struct" | "cgroup" | "cpumask" | "bpf_cpumask" | "rq" | "cgroup_subsys_state"
    )
}

/// Whether the first member of `structure` is a `first`.
pub(crate) fn begins_with(structure: &str, first: &str) -> bool {
    matches!((structure, first), ("bpf_cpumask", "cpumask") | ("cgroup", "cgroup_subsys_state"))
}
