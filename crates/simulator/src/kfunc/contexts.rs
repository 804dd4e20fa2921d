//! Which callback may call which kernel function: the groups of `kernel/sched/ext/ext.c` and what its filter allows each
//! callback. The kernel refuses a program that does otherwise when it is loaded.

/// A callback that only has to choose a CPU.
const SELECT_CPU: u32 = 1;
/// A callback that may put tasks on queues.
const ENQUEUE: u32 = 2;
/// A callback that may move tasks between queues.
const DISPATCH: u32 = 4;
/// The callback of a CPU that is lost.
const CPU_RELEASE: u32 = 8;
/// A callback that holds no run queue's lock.
const UNLOCKED: u32 = 16;

/// What calls of a function need of the callback: any of these.
fn needed(function: &str) -> Option<u32> {
    Some(match function {
        "scx_bpf_select_cpu_dfl" | "scx_bpf_select_cpu_and" | "__scx_bpf_select_cpu_and" => {
            SELECT_CPU | UNLOCKED
        }
        "scx_bpf_dsq_insert"
        | "scx_bpf_dsq_insert___v2"
        | "scx_bpf_dsq_insert_vtime"
        | "__scx_bpf_dsq_insert_vtime" => ENQUEUE,
        "scx_bpf_dispatch_nr_slots"
        | "scx_bpf_dispatch_cancel"
        | "scx_bpf_dsq_move_to_local"
        | "scx_bpf_dsq_move_to_local___v2" => DISPATCH,
        "scx_bpf_dsq_move"
        | "scx_bpf_dsq_move_vtime"
        | "scx_bpf_dsq_move_set_slice"
        | "scx_bpf_dsq_move_set_vtime" => DISPATCH | UNLOCKED,
        "scx_bpf_reenqueue_local" => CPU_RELEASE,
        "scx_bpf_create_dsq" => UNLOCKED,
        _ => return None,
    })
}

/// What a callback is.
fn given(op: &str) -> u32 {
    match op {
        "select_cpu" | "enqueue" => SELECT_CPU | ENQUEUE,
        "dispatch" => ENQUEUE | DISPATCH,
        "cpu_release" => CPU_RELEASE,
        "init_task"
        | "dump"
        | "cpu_online"
        | "cpu_offline"
        | "init"
        | "exit"
        | "cgroup_init"
        | "cgroup_exit"
        | "cgroup_prep_move"
        | "cgroup_cancel_move"
        | "cgroup_set_weight"
        | "cgroup_set_bandwidth"
        | "cgroup_set_idle" => UNLOCKED,
        _ => 0,
    }
}

/// Whether the callback `op` may call the kernel function.
pub(crate) fn allows(op: &str, function: &str) -> bool {
    needed(function).is_none_or(|needed| needed & given(op) != 0)
}
