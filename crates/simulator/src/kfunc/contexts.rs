//! Which program may call which kernel function: the groups of `kernel/sched/ext/ext.c`, and what its filter allows each callback and every
//! other kind of program. The kernel refuses to load a program that does otherwise.

/// A callback that only has to choose a CPU.
const SELECT_CPU: u32 = 1;
/// A callback that may put tasks on queues.
const ENQUEUE: u32 = 2;
/// A callback that may move tasks between queues.
const DISPATCH: u32 = 4;
/// The callback for a CPU that the scheduler loses.
const CPU_RELEASE: u32 = 8;
/// A callback that runs without a run queue lock.
const UNLOCKED: u32 = 16;
/// The callback that may give the CPUs their ids.
const INIT_CIDS: u32 = 32;

/// Functions of the CPU form that schedulers of the cid form may not call (`scx_kfunc_ids_cpu_only`).
const CPU_FORM_ONLY: &[&str] = &[
    "scx_bpf_kick_cpu",
    "scx_bpf_task_cpu",
    "scx_bpf_cpu_curr",
    "scx_bpf_cpu_node",
    "scx_bpf_cpuperf_cap",
    "scx_bpf_cpuperf_cur",
    "scx_bpf_cpuperf_set",
    "scx_bpf_get_possible_cpumask",
    "scx_bpf_get_online_cpumask",
    "scx_bpf_put_cpumask",
    "scx_bpf_select_cpu_dfl",
    "__scx_bpf_select_cpu_and",
    "scx_bpf_select_cpu_and",
    "scx_bpf_get_idle_cpumask",
    "scx_bpf_get_idle_cpumask_node",
    "scx_bpf_get_idle_smtmask",
    "scx_bpf_get_idle_smtmask_node",
    "scx_bpf_put_idle_cpumask",
    "scx_bpf_test_and_clear_cpu_idle",
    "scx_bpf_pick_idle_cpu",
    "scx_bpf_pick_idle_cpu_node",
    "scx_bpf_pick_any_cpu",
    "scx_bpf_pick_any_cpu_node",
];

/// The kinds of callback that may call a function; any one of them will do.
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
        | "scx_bpf_dsq_move_to_local___v2"
        | "scx_bpf_sub_dispatch" => DISPATCH,
        "scx_bpf_dsq_move"
        | "scx_bpf_dsq_move_vtime"
        | "scx_bpf_dsq_move_set_slice"
        | "scx_bpf_dsq_move_set_vtime" => DISPATCH | UNLOCKED,
        "scx_bpf_reenqueue_local" => CPU_RELEASE,
        "scx_bpf_create_dsq" => UNLOCKED,
        "scx_bpf_cid_override" => INIT_CIDS,
        _ => return None,
    })
}

/// The kinds that a callback is of.
fn given(op: &str) -> u32 {
    match op {
        "select_cpu" | "enqueue" => SELECT_CPU | ENQUEUE,
        "dispatch" => ENQUEUE | DISPATCH,
        "cpu_release" => CPU_RELEASE,
        "init_cids" => UNLOCKED | INIT_CIDS,
        "sub_ecaps_updated" => ENQUEUE | DISPATCH,
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
        | "cgroup_set_idle"
        | "sub_attach"
        | "sub_detach" => UNLOCKED,
        _ => 0,
    }
}

/// Whether the callback `op` of a scheduler of that form may call the kernel function.
pub(crate) fn allows(op: &str, cid_form: bool, function: &str) -> bool {
    if cid_form && CPU_FORM_ONLY.contains(&function) {
        return false;
    }
    needed(function).is_none_or(|needed| needed & given(op) != 0)
}

/// Whether a program of this section, which is not a callback, may call the kernel function.
pub(crate) fn allows_program(section: &str, function: &str) -> bool {
    let given = match section {
        "syscall" => UNLOCKED | SELECT_CPU,
        _ => 0,
    };
    needed(function).is_none_or(|needed| needed & given != 0)
}
