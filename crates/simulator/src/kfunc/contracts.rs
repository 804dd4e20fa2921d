//! What a kernel's verifier knows about the functions that schedulers call: the flags of kernel functions (`KF_ACQUIRE`, `KF_RET_NULL` and so
//! on) and the prototypes of helpers. The parameters of a kernel function are in its declaration.

use fairground_bpf::Argument::{Any, Declared, Key, Map, Object, Place, Room, Sized, Value};
use fairground_bpf::{Argument, Contract, Effect, Outcome, Region};

use crate::structures;

/// The contract of the kernel function called `name`.
pub(crate) fn of_function(name: &str) -> Contract {
    Contract {
        arguments: arguments(name),
        result: result(name),
        effect: effect(name),
        sleeps: matches!(name, "scx_bpf_create_dsq" | "bpf_copy_from_user_str"),
        in_spin_lock: ["bpf_list_", "bpf_rbtree_", "bpf_iter_num_", "bpf_arena_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
            || name.starts_with("bpf_res_spin_")
            || matches!(
                name,
                "bpf_refcount_acquire_impl" | "bpf_refcount_acquire" | "bpf_rdonly_cast"
            ),
    }
}

fn arguments(name: &str) -> [Argument; 5] {
    match name {
        "bpf_res_spin_lock" | "bpf_res_spin_unlock" => [Place, Any, Any, Any, Any],
        "bpf_res_spin_lock_irqsave" | "bpf_res_spin_unlock_irqrestore" => {
            [Place, Declared, Any, Any, Any]
        }
        // A task to begin with, or NULL.
        "bpf_iter_task_new" => [Declared, Any, Declared, Declared, Declared],
        // Any number is a valid address in the arena.
        "scx_bpf_sub_grant"
        | "scx_bpf_sub_revoke"
        | "scx_bpf_sub_caps"
        | "scx_bpf_cid_override" => [Any; 5],
        // Arguments that describe a type are filled in by the loader, or ignored.
        "bpf_obj_new_impl"
        | "bpf_obj_drop_impl"
        | "bpf_refcount_acquire_impl"
        | "bpf_percpu_obj_new_impl"
        | "bpf_percpu_obj_drop_impl"
        | "bpf_rdonly_cast"
        | "bpf_cast_to_kern_ctx"
        | "bpf_refcount_acquire" => [Any; 5],
        // The kernel adds arguments that a declaration does not have.
        "bpf_wq_init" => [Place, Map, Any, Any, Any],
        "bpf_wq_set_callback" | "bpf_wq_start" | "bpf_timer_cancel_async" => {
            [Place, Any, Any, Any, Any]
        }
        _ => [Declared; 5],
    }
}

fn result(name: &str) -> Outcome {
    match name {
        "bpf_task_acquire"
        | "bpf_task_from_pid"
        | "bpf_task_from_vpid"
        | "bpf_cgroup_acquire"
        | "bpf_cgroup_ancestor"
        | "bpf_cgroup_from_id"
        | "bpf_cpumask_create"
        | "bpf_obj_new"
        | "bpf_obj_new_impl"
        | "bpf_percpu_obj_new_impl"
        | "bpf_list_pop_front"
        | "bpf_list_pop_back"
        | "bpf_list_del"
        | "bpf_list_front"
        | "bpf_list_back"
        | "bpf_rbtree_remove"
        | "bpf_rbtree_first"
        | "bpf_rbtree_root"
        | "bpf_rbtree_left"
        | "bpf_rbtree_right"
        | "scx_bpf_locked_rq"
        | "scx_bpf_cpu_curr"
        | "scx_bpf_cid_curr"
        | "scx_bpf_tid_to_task"
        | "scx_bpf_dsq_peek" => Outcome::OrNull,
        "bpf_dynptr_slice" | "bpf_dynptr_slice_rdwr" => Outcome::Any,
        "bpf_rdonly_cast"
        | "bpf_cast_to_kern_ctx"
        | "bpf_arena_alloc_pages"
        | "scx_bpf_online_cmask" => Outcome::Any,
        _ if name.starts_with("bpf_iter_") && name.ends_with("_next") => Outcome::OrNull,
        _ => Outcome::Declared,
    }
}

fn effect(name: &str) -> Effect {
    match name {
        "bpf_task_acquire"
        | "bpf_task_from_pid"
        | "bpf_task_from_vpid"
        | "bpf_cgroup_acquire"
        | "bpf_cgroup_ancestor"
        | "bpf_cgroup_from_id"
        | "scx_bpf_task_cgroup"
        | "bpf_cpumask_create"
        | "bpf_cpumask_acquire"
        | "scx_bpf_get_idle_cpumask"
        | "scx_bpf_get_idle_cpumask_node"
        | "scx_bpf_get_idle_smtmask"
        | "scx_bpf_get_idle_smtmask_node"
        | "scx_bpf_get_possible_cpumask"
        | "scx_bpf_get_online_cpumask"
        | "bpf_obj_new"
        | "bpf_obj_new_impl"
        | "bpf_percpu_obj_new_impl"
        | "bpf_refcount_acquire_impl"
        | "bpf_refcount_acquire"
        | "bpf_list_pop_front"
        | "bpf_list_pop_back"
        | "bpf_list_del"
        | "bpf_rbtree_remove" => Effect::Acquire,
        "bpf_task_release"
        | "bpf_cgroup_release"
        | "bpf_cpumask_release"
        | "scx_bpf_put_idle_cpumask"
        | "scx_bpf_put_cpumask"
        | "bpf_obj_drop"
        | "bpf_obj_drop_impl"
        | "bpf_percpu_obj_drop_impl" => Effect::Release(0),
        "bpf_list_push_front_impl"
        | "bpf_list_push_back_impl"
        | "bpf_list_push_front"
        | "bpf_list_push_back"
        | "bpf_list_add"
        | "bpf_rbtree_add"
        | "bpf_rbtree_add_impl" => Effect::Keep(1),
        "bpf_rcu_read_lock" => Effect::Enter(Region::Rcu),
        "bpf_rcu_read_unlock" => Effect::Leave(Region::Rcu),
        "bpf_preempt_disable" => Effect::Enter(Region::NoPreemption),
        "bpf_preempt_enable" => Effect::Leave(Region::NoPreemption),
        "bpf_local_irq_save" => Effect::Enter(Region::NoInterrupts),
        "bpf_local_irq_restore" => Effect::Leave(Region::NoInterrupts),
        _ if !name.starts_with("bpf_iter_") => Effect::None,
        _ if name.ends_with("_new") => Effect::Iterate,
        _ if name.ends_with("_next") => Effect::Next,
        _ if name.ends_with("_destroy") => Effect::EndIteration,
        _ => Effect::None,
    }
}

/// The helper that returns the current task as an object; another returns its address as a number.
const GET_CURRENT_TASK_BTF: u32 = 158;

/// The contract of the helper with this number, which is implemented by the function called `name`.
pub(crate) fn of_helper(number: u32, name: &str) -> Contract {
    let contract = |arguments: &[Argument], result: Outcome| {
        let mut all = [Any; 5];
        all[..arguments.len()].copy_from_slice(arguments);
        Contract {
            arguments: all,
            result,
            ..Contract::default()
        }
    };
    let status = |arguments: &[Argument]| contract(arguments, Outcome::Number);
    let with = |effect: Effect, contract: Contract| Contract { effect, ..contract };
    match name {
        _ if number == GET_CURRENT_TASK_BTF => contract(&[], Outcome::Any),
        "bpf_map_lookup_elem" | "bpf_map_lookup_percpu_elem" => {
            contract(&[Map, Key], Outcome::MapValue)
        }
        "bpf_map_update_elem" => status(&[Map, Key, Value]),
        "bpf_map_delete_elem" => status(&[Map, Key]),
        "bpf_map_push_elem" => status(&[Map, Value]),
        "bpf_map_pop_elem" | "bpf_map_peek_elem" => status(&[Map, Room]),
        "bpf_for_each_map_elem" => status(&[Map]),
        "bpf_task_storage_get" | "bpf_cgrp_storage_get" => {
            contract(&[Map, Object], Outcome::MapValue)
        }
        "bpf_task_storage_delete" | "bpf_cgrp_storage_delete" => status(&[Map, Object]),
        "bpf_probe_read_kernel" | "bpf_probe_read_kernel_str" | "bpf_get_current_comm" => {
            status(&[Sized])
        }
        "bpf_probe_read_user" | "bpf_probe_read_user_str" | "bpf_copy_from_user_task" => {
            status(&[Sized])
        }
        "bpf_copy_from_user" => Contract {
            sleeps: true,
            ..status(&[Sized])
        },
        "bpf_strtol" | "bpf_strtoul" => status(&[Sized]),
        "bpf_dynptr_data" => contract(&[], Outcome::Any),
        "bpf_ringbuf_reserve_dynptr" => status(&[Map]),
        "bpf_trace_printk" => status(&[Sized]),
        "bpf_trace_vprintk" => status(&[Sized, Any, Sized]),
        "bpf_snprintf" => status(&[Sized, Any, Any, Sized]),
        "bpf_strncmp" => status(&[Sized]),
        "bpf_spin_lock" => with(Effect::Enter(Region::SpinLock), status(&[Place])),
        "bpf_spin_unlock" => Contract {
            in_spin_lock: true,
            ..with(Effect::Leave(Region::SpinLock), status(&[Place]))
        },
        "bpf_ringbuf_output" => status(&[Map, Sized]),
        "bpf_ringbuf_query" => status(&[Map]),
        "bpf_ringbuf_reserve" => with(Effect::Acquire, contract(&[Map], Outcome::Memory)),
        "bpf_ringbuf_submit" | "bpf_ringbuf_discard" => with(Effect::Release(0), status(&[Object])),
        "bpf_timer_init" => status(&[Place, Map]),
        "bpf_timer_set_callback" | "bpf_timer_start" | "bpf_timer_cancel" => status(&[Place]),
        "bpf_kptr_xchg" => Contract {
            in_spin_lock: true,
            ..with(Effect::Exchange, contract(&[Place], Outcome::Object))
        },
        // The verifier knows that it is below the number of CPUs.
        "bpf_get_smp_processor_id" | "bpf_per_cpu_ptr" | "bpf_this_cpu_ptr" => {
            contract(&[], Outcome::Any)
        }
        _ => status(&[]),
    }
}

/// Whether an argument of a callback may be NULL (`__nullable` in `ext.c`).
pub(crate) fn may_be_null(callback: &str, argument: usize) -> bool {
    matches!((callback, argument), ("dispatch" | "yield", 1))
}

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
            .filter_map(|path| structures::resolve(structure, path.as_slice()))
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
    matches!(
        (structure, first),
        ("bpf_cpumask", "cpumask") | ("cgroup", "cgroup_subsys_state")
    )
}
