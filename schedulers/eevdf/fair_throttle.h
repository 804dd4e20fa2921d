/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fair_throttle.h - tasks of throttled groups, in the fair class of Linux 6.18 to 7.3
 *
 * A group that has no runtime on a CPU stays in its tree. The running task leaves the tree on its
 * return to user mode, and so does any other once it has been picked: into limbo, a queue from
 * which nobody picks. When the group has runtime again they come back like tasks that wake, but
 * preempt nobody.
 */
#pragma once

#include "eevdf.h"
#include "virtual_time.h"
#include "fair_bandwidth.h"

/* The task stops competing on @cfs_rq, as if it fell asleep. */
static __always_inline void dequeue_throttled(struct run_queue *cfs_rq, struct task_ctx *se,
					      u64 now)
{
	u32 level, group = se->group;
	struct group_rq *rq, *above;
	struct fair_group *tg;

	save_lag(cfs_rq, se, true, now);
	if (se->in_tree) {
		tree_del(cfs_rq, se);
		update_load_avg(se, now, true, 0);
	} else {
		clear_curr(cfs_rq);
	}
	util_est_update(se);
	account_dequeue_from(cfs_rq, se, now);
	count_in_groups(se, -1, false, now);
	se->throttled = true;
	/* The time for which a group is said to be throttled begins when the first task leaves */
	for_each_group_rq(tg, rq, above, level, group, cfs_rq->cpu) {
		if (rq->throttled && !rq->throttled_clock)
			rq->throttled_clock = now;
	}
}

/* Of the running task, if it has to leave: it will be put into limbo when it is put. */
__noinline bool throttle_curr(struct run_queue *cfs_rq __arg_nonnull,
			      struct task_struct *curr __arg_trusted, u64 now)
{
	struct task_ctx *se = task_ctx_of(curr);

	if (!se || (curr->flags & (PF_KTHREAD | PF_EXITING)) ||
	    !check_cfs_rq_runtime(se->group, cfs_rq->cpu, now))
		return false;
	store_curr(cfs_rq, se, now);
	dequeue_throttled(cfs_rq, se, now);
	scx_bpf_task_set_slice(curr, 0);
	return true;
}

/* The first task of a queue has been picked: puts it into limbo if it has to leave. */
__noinline bool throttle_first(struct run_queue *cfs_rq __arg_nonnull, u64 dsq, u64 now)
{
	struct task_ctx *se;
	struct task_struct *p;
	bool moved = false;

	for_each_queued(p, se, dsq, 0) {
		if (se->group && !(p->flags & (PF_KTHREAD | PF_EXITING)) &&
		    check_cfs_rq_runtime(se->group, cfs_rq->cpu, now))
			moved = scx_bpf_dsq_move(DSQ_ITERATOR, p, throttled_dsq(cfs_rq->cpu), 0);
		if (moved) {
			clear_buddies(cfs_rq, p->pid);
			dequeue_throttled(cfs_rq, se, now);
		}
		break;
	}
	return moved;
}

/*
 * A task in limbo that was taken off its queue for a change, or has just been put: goes back there
 * if its groups are still throttled.
 */
static __always_inline bool enqueue_throttled(struct task_struct *p, struct task_ctx *se, s32 cpu,
					      u64 enq_flags)
{
	if (throttled_hierarchy(se->group, cpu)) {
		scx_bpf_dsq_insert(p, throttled_dsq(cpu), MAX_RUN, enq_flags);
		return true;
	}
	se->throttled = false;
	return false;
}

/* Ends the throttling of the groups that have been given runtime. */
static __always_inline void unthrottle_groups(struct run_queue *cfs_rq, u64 now)
{
	struct cfs_bandwidth *cfs_b;
	struct cpu_stat *stat;
	struct group_rq *rq;
	u32 group;

	bpf_for(group, 1, nr_groups) {
		rq = group_rq_of(group, cfs_rq->cpu);
		if (!rq || !rq->refilled)
			continue;
		rq->refilled = false;
		cfs_b = cfs_bandwidth_of(group);
		stat = cpu_stat_of(group);
		/* Tasks that have run since may have used it up */
		if (!rq->throttled || !cfs_b || !stat || rq->runtime_remaining <= 0)
			continue;
		if (rq->throttled_clock)
			__sync_fetch_and_add(&stat->throttled_time,
					     elapsed(rq->throttled_clock, now));
		rq->throttled = 0;
		rq->throttled_clock = 0;
		__sync_fetch_and_add(&cfs_b->nr_throttled_rqs, -1);
		cfs_rq->nr_throttled--;
	}
}

/*
 * A task in limbo comes back as one that wakes. True if it is eligible. A function of its own,
 * because the verifier would follow each of its branches through the rest of the walk over the
 * queue.
 */
__noinline bool rejoin(struct run_queue *cfs_rq __arg_nonnull, struct task_struct *p __arg_trusted,
		       struct task_ctx *se __arg_nonnull, u64 now)
{
	struct virtual_time time;

	se->throttled = false;
	join(cfs_rq, se, p, false, now);
	update_load_avg(se, now, false, 0);
	return enter(cfs_rq, se, cfs_rq->cpu, &time, now);
}

/* Groups have been given runtime on this CPU: their tasks come back. */
__noinline int unthrottle(struct run_queue *cfs_rq __arg_nonnull, u64 now)
{
	struct task_struct *p;
	struct task_ctx *se;
	bool eligible;

	cfs_rq->refilled = false;
	unthrottle_groups(cfs_rq, now);
	/* Not all that call this are in a read-side section */
	bpf_rcu_read_lock();
	for_each_queued(p, se, throttled_dsq(cfs_rq->cpu), 0) {
		if (throttled_hierarchy(se->group, cfs_rq->cpu))
			continue;
		eligible = rejoin(cfs_rq, p, se, now);
		scx_bpf_dsq_move_set_vtime(DSQ_ITERATOR, eligible ? se->deadline : se->vruntime);
		scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p, cfs_rq->last_dsq, 0);
	}
	bpf_rcu_read_unlock();
	hrtick_update(cfs_rq, now);
	return 0;
}
