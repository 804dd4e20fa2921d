/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * task_data.h - a scheduler's record of every task
 *
 * DEFINE_TASK_DATA(struct task_ctx, task_ctx_map, task_ctx) defines the map task_ctx_map and three
 * functions. task_ctx_of(p) returns the record of a task, or NULL if it has none, so callers must
 * check; expected_task_ctx(p) also ends the scheduler in that case. new_task_ctx(p), for
 * ops.init_task(), makes one, zeroed, if there is memory. The kernel frees it with the task.
 * FreeBSD's schedulers call their records td_sched, as FreeBSD does, so pieces that all schedulers
 * share say task_record and record_of(p). DEFINE_TASK_STORAGE() is the same for a second record.
 *
 * for_each_queued(p, t, dsq, flags) walks over the tasks of a dispatch queue, in a scheduler that
 * calls its records task_ctx: @t is that of @p.
 */
#pragma once

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "kernel_constants.h"

/*
 * A member's unit, "ns" or "2^-32", for fairground task, which prints the beginning of
 * task_statistics
 */
#define __unit(text) __attribute__((btf_decl_tag(text)))

#define DEFINE_TASK_STORAGE(record_type, map_name, name)					\
	struct {										\
		__uint(type, BPF_MAP_TYPE_TASK_STORAGE);					\
		__uint(map_flags, BPF_F_NO_PREALLOC);						\
		__type(key, int);								\
		__type(value, record_type);							\
	} map_name SEC(".maps");								\
												\
	static __always_inline __maybe_unused record_type *name##_of(struct task_struct *p)	\
	{											\
		return bpf_task_storage_get(&map_name, p, NULL, 0);				\
	}											\
												\
	static __always_inline __maybe_unused record_type *expected_##name(struct task_struct *p) \
	{											\
		record_type *record = name##_of(p);						\
												\
		if (!record)									\
			scx_bpf_error("task %d has no data", p->pid);				\
		return record;									\
	}											\
												\
	static __always_inline __maybe_unused record_type *new_##name(struct task_struct *p)	\
	{											\
		return bpf_task_storage_get(&map_name, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE); \
	}

#define DEFINE_TASK_DATA(record_type, map_name, name)						\
	DEFINE_TASK_STORAGE(record_type, map_name, name)					\
												\
	typedef record_type task_record;							\
												\
	static __always_inline __maybe_unused task_record *record_of(struct task_struct *p)	\
	{											\
		return name##_of(p);								\
	}

#define for_each_queued(p, t, dsq, flags)						\
	bpf_for_each(scx_dsq, p, dsq, flags)						\
		if (!((t) = task_ctx_of(p))) {} else

/*
 * The heir of a task that is exiting: its parent, or for a thread the leader of its process. NULL
 * if it only leaves the scheduler.
 */
static __always_inline struct task_struct *heir_of(struct task_struct *p,
						   const struct scx_exit_task_args *args)
{
	if (args->cancelled || !(p->flags & PF_EXITING))
		return NULL;
	return p->pid == p->tgid ? p->real_parent : p->group_leader;
}
