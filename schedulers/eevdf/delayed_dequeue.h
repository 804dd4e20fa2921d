/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * delayed_dequeue.h - sleeping tasks that compete until their debt is paid, Linux 6.12 to 7.3
 *
 * A task that went to sleep having received more service than its due would come back with its debt
 * forgotten. So it stays, as an entry that may be picked, and leaves when that happens or when its
 * lag reaches zero. The kernel leaves it in its tree, flagged; a sched_ext scheduler does not keep
 * sleeping tasks, so an entry in delayed[] of the run queue competes in its place.
 */
#pragma once

#include "eevdf.h"
#include "virtual_time.h"
#include "fair_groups.h"

/* The first free slot; NR_DELAYED if there is none. */
static __always_inline u32 free_slot(struct run_queue *cfs_rq)
{
	struct delayed_entity *delayed;
	u32 i;

	/* The common case */
	if (!cfs_rq->delayed[0].pid)
		return 0;
	for_each_slot(delayed, i, cfs_rq, NR_DELAYED)
		if (!delayed->pid)
			return i;
	return NR_DELAYED;
}

/* Leaves an entry for @se, which goes to sleep. False if there is no room. */
static __always_inline bool set_delayed(struct run_queue *cfs_rq, struct task_ctx *se, s32 pid)
{
	struct delayed_entity *delayed;
	u32 slot = free_slot(cfs_rq);

	if (slot >= NR_DELAYED)
		return false;
	delayed = &cfs_rq->delayed[slot];
	delayed->h_load = se->h_load;
	delayed->vruntime = se->vruntime;
	delayed->deadline = se->deadline;
	delayed->slice = se->slice;
	delayed->pid = pid;
	if (cfs_rq->delayed_top <= slot)
		cfs_rq->delayed_top = slot + 1;
	se->delayed_slot = slot;
	se->delayed_cpu = cfs_rq->cpu + 1;

	cfs_rq->nr_delayed++;
	if (se->custom_slice)
		__sync_fetch_and_add(&cfs_rq->nr_custom, 1);
	sum_w_vruntime_add(cfs_rq, se->vruntime, se->h_load);
	return true;
}

/*
 * The lag of a task that wakes or is picked while delayed. It was negative when the task fell
 * asleep, and has grown since; it must not shrink, nor exceed zero.
 */
static __always_inline s64 delayed_lag(struct run_queue *cfs_rq, const struct task_ctx *se,
				       u64 avruntime)
{
	return clamp(entity_lag(cfs_rq, se, avruntime), se->vlag, 0);
}

/*
 * Removes the entry of a delayed task from @cfs_rq, and puts the sums without it into @time. False
 * if another CPU has removed it.
 */
static __always_inline bool clear_delayed(struct run_queue *cfs_rq, struct delayed_entity *delayed,
					  struct virtual_time *time)
{
	u64 vruntime = delayed->vruntime, slice = delayed->slice, weight = delayed->h_load;
	s32 pid = delayed->pid;

	if (!pid || __sync_val_compare_and_swap(&delayed->pid, pid, 0) != pid)
		return false;
	*time = sum_w_vruntime_add(cfs_rq, vruntime, -(s64)weight);
	__sync_fetch_and_add(&cfs_rq->nr_delayed, -1);
	if (slice != base_slice)
		__sync_fetch_and_add(&cfs_rq->nr_custom, -1);
	return true;
}

/* A delayed task has been picked, so its debt is paid: dequeues it. */
__noinline int finish_delayed(struct run_queue *cfs_rq __arg_nonnull, u32 slot)
{
	struct delayed_entity *delayed;
	struct virtual_time time;
	struct task_ctx *se;
	struct task_struct *p;

	if (slot >= NR_DELAYED)
		return 0;
	delayed = &cfs_rq->delayed[slot];
	p = bpf_task_from_pid(delayed->pid);
	if (p) {
		se = task_ctx_of(p);
		if (se && se->delayed_cpu == cfs_rq->cpu + 1 && se->delayed_slot == slot) {
			se->vlag = delayed_lag(cfs_rq, se, avg_vruntime(cfs_rq, scx_bpf_now()));
			se->delayed_cpu = 0;
			leave_groups(se, scx_bpf_now());
		}
		bpf_task_release(p);
	}
	clear_delayed(cfs_rq, delayed, &time);
	count(STAT_DELAYED_PICKS);
	return 0;
}

/*
 * The task wakes, or leaves this scheduler: removes its entry, wherever it is, and sets the lag
 * that the task had while the sums included the entry. Puts the sums without it into @time. True if
 * the lag did not have to be limited.
 */
static __always_inline bool cancel_delayed(struct run_queue *near, struct task_ctx *se,
					   struct virtual_time *time, u64 now)
{
	struct run_queue *cfs_rq = run_queue_beside(near, se->delayed_cpu - 1);
	struct virtual_time with;
	u32 slot = se->delayed_slot;
	u64 avruntime = 0;

	if (cfs_rq && slot < NR_DELAYED) {
		if (clear_delayed(cfs_rq, &cfs_rq->delayed[slot], time))
			add_curr(cfs_rq, time, now);
		else
			*time = (struct virtual_time){ .zero = avg_vruntime(cfs_rq, now) };
		with = *time;
		with.avg += (s64)(se->vruntime - with.zero) * (s64)se->h_load;
		with.load += se->h_load;
		avruntime = average_of(&with);
		se->vlag = delayed_lag(cfs_rq, se, avruntime);
	}
	se->delayed_cpu = 0;
	return avruntime - se->vlag == se->vruntime;
}

/* ---- Picking the next task ------------------------------------------------------------------- */

/*
 * The eligible delayed task, at @time, with the earliest deadline, which must be before @deadline
 * if @limit; -1 if there is none. Stores its deadline in cfs_rq->delayed_deadline.
 */
__noinline s32 best_delayed(struct run_queue *cfs_rq __arg_nonnull,
			    const struct virtual_time *time __arg_nonnull, bool limit, u64 deadline)
{
	struct delayed_entity *delayed;
	s32 best = -1;
	u32 i;

	if (!cfs_rq->nr_delayed)
		return -1;

	/* From the top: the verifier would try every value of a counter from a constant on */
	for (i = cfs_rq->delayed_top; i && i <= NR_DELAYED && can_loop; i--) {
		delayed = &cfs_rq->delayed[i - 1];
		if (!delayed->pid || (limit && !time_before(delayed->deadline, deadline)) ||
		    !vruntime_eligible(time, delayed->vruntime))
			continue;
		best = i - 1;
		limit = true;
		deadline = delayed->deadline;
		cfs_rq->delayed_deadline = deadline;
	}
	return best;
}
