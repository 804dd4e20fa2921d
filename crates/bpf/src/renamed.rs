//! Former names of kernel functions.

/// Old and new names of the functions that Linux 6.13 renamed; the old names no longer exist.
const RENAMED: &[(&str, &str)] = &[
    ("scx_bpf_consume", "scx_bpf_dsq_move_to_local"),
    ("scx_bpf_dispatch", "scx_bpf_dsq_insert"),
    ("scx_bpf_dispatch_from_dsq", "scx_bpf_dsq_move"),
    (
        "scx_bpf_dispatch_from_dsq_set_slice",
        "scx_bpf_dsq_move_set_slice",
    ),
    (
        "scx_bpf_dispatch_from_dsq_set_vtime",
        "scx_bpf_dsq_move_set_vtime",
    ),
    ("scx_bpf_dispatch_vtime", "scx_bpf_dsq_insert_vtime"),
    ("scx_bpf_dispatch_vtime_from_dsq", "scx_bpf_dsq_move_vtime"),
];

/// The present name of a kernel function that Linux 6.13 renamed, for messages about a scheduler that uses the old name. `None` for all others.
#[must_use]
pub fn name_since(old: &str) -> Option<&'static str> {
    let found = RENAMED.iter().find(|one| one.0 == old)?;
    Some(found.1)
}
