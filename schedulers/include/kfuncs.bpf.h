/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kfuncs.bpf.h - the kernel functions that schedulers call, Linux 6.18 to 7.3
 *
 * Where a kfunc was renamed or changed its signature between 6.18 and 7.3, this file settles the
 * difference, and nothing else does: schedulers call the plain name. The variants are weak symbols;
 * bpf_ksym_exists() of the absent one is 0 and the verifier (and the simulator) drop the branch.
 *
 * How variants get their names: the loader cuts the last "___suffix" off a symbol's name before it
 * looks the symbol up. So scx_bpf_dsq_insert___void names the kernel's scx_bpf_dsq_insert, and
 * scx_bpf_dsq_insert___v2___bool names the kernel's scx_bpf_dsq_insert___v2.
 *
 * The parts under RCU below are so in every callback that may not sleep. To the verifier of 6.18,
 * timer callbacks can sleep, and every function that is neither static nor inline: those take the
 * read lock themselves. Others must not, for where it is let go, 6.18 invalidates the iterators of
 * their callers.
 */
#ifndef FAIRGROUND_KFUNCS_BPF_H
#define FAIRGROUND_KFUNCS_BPF_H

/* The kernel functions are declared here; a generated vmlinux.h must not do so again */
#define BPF_NO_KFUNC_PROTOTYPES

#include "vmlinux.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/*
 * Enumerators whose value is not the same in 6.18 and 7.3 (6.19 renumbered the kernel's enqueue
 * flags): read from the running kernel. Use the names as ever.
 */
#define SCX_ENQ_HEAD bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_HEAD)
#define SCX_ENQ_CPU_SELECTED bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_CPU_SELECTED)

/*
 * An enumerator that older kernels lack: its value, or 0 there. For instance
 * ENUMERATOR_OR_ZERO(enum scx_enq_flags, SCX_ENQ_IMMED), which is 7.1.
 */
#define ENUMERATOR_OR_ZERO(type, enumerator)						\
	(bpf_core_enum_value_exists(type, enumerator) ?					\
		 bpf_core_enum_value(type, enumerator) : 0)

/* Dispatch queues */

s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
void scx_bpf_destroy_dsq(u64 dsq_id) __ksym;
s32 scx_bpf_dsq_nr_queued(u64 dsq_id) __ksym;
u32 scx_bpf_dispatch_nr_slots(void) __ksym;
void scx_bpf_dispatch_cancel(void) __ksym;

int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags) __ksym;
struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym;
void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym;

void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it__iter, u64 slice) __ksym;
void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it__iter, u64 vtime) __ksym;
bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id,
		      u64 enq_flags) __ksym;
bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id,
			    u64 enq_flags) __ksym;

struct task_struct *scx_bpf_dsq_peek___since619(u64 dsq_id) __ksym __weak;

/*
 * The first task of a dispatch queue, NULL if there is none. An iterator, which 6.18 needs, takes
 * three times as long.
 */
static __always_inline struct task_struct *scx_bpf_dsq_peek(u64 dsq_id)
{
	struct task_struct *p;

	if (bpf_ksym_exists(scx_bpf_dsq_peek___since619))
		return scx_bpf_dsq_peek___since619(dsq_id);

	bpf_for_each(scx_dsq, p, dsq_id, 0)
		return p;
	return NULL;
}

/* The iterator inside bpf_for_each(scx_dsq, ...), as the first argument of scx_bpf_dsq_move() */
#define DSQ_ITERATOR (&___it)

bool scx_bpf_dsq_insert___v2___bool(struct task_struct *p, u64 dsq_id, u64 slice,
				    u64 enq_flags) __ksym __weak;
void scx_bpf_dsq_insert___void(struct task_struct *p, u64 dsq_id, u64 slice,
			       u64 enq_flags) __ksym __weak;

/*
 * Puts @p into a FIFO dispatch queue for @slice nanoseconds (0 keeps its own). False if the kernel
 * found @p not to be this scheduler's to insert; 6.18 does not tell and the answer is true.
 */
static __always_inline bool scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice,
					       u64 enq_flags)
{
	if (bpf_ksym_exists(scx_bpf_dsq_insert___v2___bool))
		return scx_bpf_dsq_insert___v2___bool(p, dsq_id, slice, enq_flags);

	scx_bpf_dsq_insert___void(p, dsq_id, slice, enq_flags);
	return true;
}

bool __scx_bpf_dsq_insert_vtime(struct task_struct *p,
				struct scx_bpf_dsq_insert_vtime_args *args) __ksym __weak;
void scx_bpf_dsq_insert_vtime___void(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
				     u64 enq_flags) __ksym __weak;

/* Puts @p into a dispatch queue ordered by virtual time, smallest @vtime first. */
static __always_inline bool scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice,
						     u64 vtime, u64 enq_flags)
{
	if (bpf_core_type_exists(struct scx_bpf_dsq_insert_vtime_args)) {
		struct scx_bpf_dsq_insert_vtime_args args = {
			.dsq_id = dsq_id,
			.slice = slice,
			.vtime = vtime,
			.enq_flags = enq_flags,
		};

		return __scx_bpf_dsq_insert_vtime(p, &args);
	}

	scx_bpf_dsq_insert_vtime___void(p, dsq_id, slice, vtime, enq_flags);
	return true;
}

bool scx_bpf_dsq_move_to_local___v2___flags(u64 dsq_id, u64 enq_flags) __ksym __weak;
bool scx_bpf_dsq_move_to_local___plain(u64 dsq_id) __ksym __weak;

/*
 * Moves the first task of a dispatch queue that may run here to this CPU's local queue. Kernels
 * before 7.1 know no @enq_flags and leave them out.
 */
static __always_inline bool scx_bpf_dsq_move_to_local(u64 dsq_id, u64 enq_flags)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local___v2___flags))
		return scx_bpf_dsq_move_to_local___v2___flags(dsq_id, enq_flags);

	return scx_bpf_dsq_move_to_local___plain(dsq_id);
}

void scx_bpf_dsq_reenq___since71(u64 dsq_id, u64 reenq_flags) __ksym __weak;
void scx_bpf_reenqueue_local___v2___void(void) __ksym __weak;
u32 scx_bpf_reenqueue_local___count(void) __ksym __weak;

/* Hands this CPU's local tasks back to ops.enqueue(); before 6.19 only in ops.cpu_release(). */
static __always_inline void scx_bpf_reenqueue_local(void)
{
	if (bpf_ksym_exists(scx_bpf_dsq_reenq___since71))
		scx_bpf_dsq_reenq___since71(SCX_DSQ_LOCAL, 0);
	else if (bpf_ksym_exists(scx_bpf_reenqueue_local___v2___void))
		scx_bpf_reenqueue_local___v2___void();
	else
		scx_bpf_reenqueue_local___count();
}

/* Slice and virtual time of a task */

bool scx_bpf_task_set_slice___since619(struct task_struct *p, u64 slice) __ksym __weak;
bool scx_bpf_task_set_dsq_vtime___since619(struct task_struct *p, u64 vtime) __ksym __weak;

/* Sets the rest of the slice of @p, nanoseconds. */
static __always_inline void scx_bpf_task_set_slice(struct task_struct *p, u64 slice)
{
	if (bpf_ksym_exists(scx_bpf_task_set_slice___since619))
		scx_bpf_task_set_slice___since619(p, slice);
	else
		p->scx.slice = slice;
}

/* Sets the virtual time of @p; not while @p is in a queue that is ordered by it. */
static __always_inline void scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime)
{
	if (bpf_ksym_exists(scx_bpf_task_set_dsq_vtime___since619))
		scx_bpf_task_set_dsq_vtime___since619(p, vtime);
	else
		p->scx.dsq_vtime = vtime;
}

/* CPUs */

s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
			   bool *is_idle) __ksym;

s32 __scx_bpf_select_cpu_and(struct task_struct *p, const struct cpumask *cpus_allowed,
			     struct scx_bpf_select_cpu_and_args *args) __ksym __weak;
s32 scx_bpf_select_cpu_and___five(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
				  const struct cpumask *cpus_allowed, u64 flags) __ksym __weak;

/* The kernel's default choice of an idle CPU, among @cpus_allowed; negative if there is none. */
static __always_inline s32 scx_bpf_select_cpu_and(struct task_struct *p, s32 prev_cpu,
						  u64 wake_flags,
						  const struct cpumask *cpus_allowed, u64 flags)
{
	if (bpf_core_type_exists(struct scx_bpf_select_cpu_and_args)) {
		struct scx_bpf_select_cpu_and_args args = {
			.prev_cpu = prev_cpu,
			.wake_flags = wake_flags,
			.flags = flags,
		};

		return __scx_bpf_select_cpu_and(p, cpus_allowed, &args);
	}

	return scx_bpf_select_cpu_and___five(p, prev_cpu, wake_flags, cpus_allowed, flags);
}

void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
bool scx_bpf_test_and_clear_cpu_idle(s32 cpu) __ksym;
s32 scx_bpf_pick_idle_cpu(const cpumask_t *cpus_allowed, u64 flags) __ksym;
s32 scx_bpf_pick_idle_cpu_node(const cpumask_t *cpus_allowed, int node, u64 flags) __ksym;
s32 scx_bpf_pick_any_cpu(const cpumask_t *cpus_allowed, u64 flags) __ksym;
s32 scx_bpf_pick_any_cpu_node(const cpumask_t *cpus_allowed, int node, u64 flags) __ksym;
u32 scx_bpf_nr_cpu_ids(void) __ksym;
u32 scx_bpf_nr_node_ids(void) __ksym;
int scx_bpf_cpu_node(s32 cpu) __ksym;
u32 scx_bpf_cpuperf_cap(s32 cpu) __ksym;
u32 scx_bpf_cpuperf_cur(s32 cpu) __ksym;
void scx_bpf_cpuperf_set(s32 cpu, u32 perf) __ksym;
const struct cpumask *scx_bpf_get_possible_cpumask(void) __ksym;
const struct cpumask *scx_bpf_get_online_cpumask(void) __ksym;
void scx_bpf_put_cpumask(const struct cpumask *cpumask) __ksym;
const struct cpumask *scx_bpf_get_idle_cpumask(void) __ksym;
const struct cpumask *scx_bpf_get_idle_smtmask(void) __ksym;
void scx_bpf_put_idle_cpumask(const struct cpumask *cpumask) __ksym;

/* The task that runs on @cpu now, under RCU; may be the idle task */
struct task_struct *scx_bpf_cpu_curr(s32 cpu) __ksym;

/* Tasks */

bool scx_bpf_task_running(const struct task_struct *p) __ksym;
s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
struct cgroup *scx_bpf_task_cgroup(struct task_struct *p) __ksym;
struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
struct task_struct *bpf_task_acquire(struct task_struct *p) __ksym;
void bpf_task_release(struct task_struct *p) __ksym;
struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level) __ksym;
void bpf_cgroup_release(struct cgroup *cgrp) __ksym;

/* All tasks: bpf_for_each(task, p, NULL, BPF_TASK_ITER_ALL_THREADS) { ... }, under RCU */
int bpf_iter_task_new(struct bpf_iter_task *it, struct task_struct *task__nullable,
		      unsigned int flags) __ksym;
struct task_struct *bpf_iter_task_next(struct bpf_iter_task *it) __ksym;
void bpf_iter_task_destroy(struct bpf_iter_task *it) __ksym;

/* CPU masks */

struct bpf_cpumask *bpf_cpumask_create(void) __ksym;
struct bpf_cpumask *bpf_cpumask_acquire(struct bpf_cpumask *cpumask) __ksym;
void bpf_cpumask_release(struct bpf_cpumask *cpumask) __ksym;
u32 bpf_cpumask_first(const struct cpumask *cpumask) __ksym;
u32 bpf_cpumask_first_zero(const struct cpumask *cpumask) __ksym;
u32 bpf_cpumask_first_and(const struct cpumask *src1, const struct cpumask *src2) __ksym;
void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *cpumask) __ksym;
void bpf_cpumask_clear_cpu(u32 cpu, struct bpf_cpumask *cpumask) __ksym;
bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *cpumask) __ksym;
bool bpf_cpumask_test_and_set_cpu(u32 cpu, struct bpf_cpumask *cpumask) __ksym;
bool bpf_cpumask_test_and_clear_cpu(u32 cpu, struct bpf_cpumask *cpumask) __ksym;
void bpf_cpumask_setall(struct bpf_cpumask *cpumask) __ksym;
void bpf_cpumask_clear(struct bpf_cpumask *cpumask) __ksym;
bool bpf_cpumask_and(struct bpf_cpumask *dst, const struct cpumask *src1,
		     const struct cpumask *src2) __ksym;
void bpf_cpumask_or(struct bpf_cpumask *dst, const struct cpumask *src1,
		    const struct cpumask *src2) __ksym;
bool bpf_cpumask_intersects(const struct cpumask *src1, const struct cpumask *src2) __ksym;
bool bpf_cpumask_subset(const struct cpumask *src1, const struct cpumask *src2) __ksym;
bool bpf_cpumask_empty(const struct cpumask *cpumask) __ksym;
void bpf_cpumask_copy(struct bpf_cpumask *dst, const struct cpumask *src) __ksym;
u32 bpf_cpumask_any_distribute(const struct cpumask *cpumask) __ksym;
u32 bpf_cpumask_any_and_distribute(const struct cpumask *src1,
				   const struct cpumask *src2) __ksym;
u32 bpf_cpumask_weight(const struct cpumask *cpumask) __ksym;

/* A mask of ours where the kernel's read-only type is asked for */
static __always_inline const struct cpumask *cast_mask(struct bpf_cpumask *mask)
{
	return (const struct cpumask *)mask;
}

/* Time, read-copy-update */

/* Nanoseconds; cheap, does not go backwards on one CPU, differs between CPUs by less than a tick */
u64 scx_bpf_now(void) __ksym;
void bpf_rcu_read_lock(void) __ksym;
void bpf_rcu_read_unlock(void) __ksym;

/* Messages */

void scx_bpf_exit_bstr(s64 exit_code, char *fmt, unsigned long long *data,
		       u32 data__sz) __ksym;
void scx_bpf_error_bstr(char *fmt, unsigned long long *data, u32 data__sz) __ksym;
void scx_bpf_dump_bstr(char *fmt, unsigned long long *data, u32 data__sz) __ksym;

/* A format and its arguments as the *_bstr() kfuncs want them, in format_ and arguments_ */
#define MESSAGE_ARGUMENTS(format, args...)						\
	static char format_[] = format;							\
	unsigned long long arguments_[___bpf_narg(args) ?: 1] = {};			\
											\
	_Pragma("GCC diagnostic push")							\
	_Pragma("GCC diagnostic ignored \"-Wint-conversion\"")				\
	___bpf_fill(arguments_, args);							\
	_Pragma("GCC diagnostic pop")

/* Ends the scheduler in good order; user space sees @code and the text. */
#define scx_bpf_exit(code, format, args...)						\
	({										\
		MESSAGE_ARGUMENTS(format, ##args)					\
		scx_bpf_exit_bstr(code, format_, arguments_, sizeof(arguments_));	\
	})

/* Ends the scheduler as failed; user space sees the text. */
#define scx_bpf_error(format, args...)							\
	({										\
		MESSAGE_ARGUMENTS(format, ##args)					\
		scx_bpf_error_bstr(format_, arguments_, sizeof(arguments_));		\
	})

/* Adds text to a debug dump, from ops.dump(), dump_cpu() and dump_task(). */
#define scx_bpf_dump(format, args...)							\
	({										\
		MESSAGE_ARGUMENTS(format, ##args)					\
		scx_bpf_dump_bstr(format_, arguments_, sizeof(arguments_));		\
	})

#endif /* FAIRGROUND_KFUNCS_BPF_H */
