/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * best_task.h - a walk over a list of waiting tasks that ends with the best one
 *
 *	bpf_iter_scx_dsq_new(&it, list, 0);
 *	while ((p = bpf_iter_scx_dsq_next(&it)))
 *		if (... better than the one kept ... && keep_task(&best, p))
 *			...
 *	moved = take_task(&it, best);
 *
 * The walk holds a reference to the best task so far. Another CPU may still take that task; then it
 * is not moved, and the caller walks again.
 */
#pragma once

#include "fairground.bpf.h"

/* The last and first places handed out, for lists by place; there is room on either side. */
static u64 last_place = 1ULL << 61;
static u64 first_place = 1ULL << 61;

/* A place after all others */
static __always_inline u64 place_at_end(void)
{
	return __sync_fetch_and_add(&last_place, 1) + 1;
}

/* A place before all others */
static __always_inline u64 place_at_front(void)
{
	return __sync_fetch_and_add(&first_place, -1ULL) - 1;
}

/* Most walks, if other CPUs take the chosen task meanwhile, before it is left to the next event. */
#define SCHEDULE_ATTEMPTS 4

/* Keeps @p in place of the task kept so far; false if @p is about to be freed. */
static __always_inline bool keep_task(struct task_struct **best, struct task_struct *p)
{
	struct task_struct *better = bpf_task_acquire(p);

	if (!better)
		return false;
	if (*best)
		bpf_task_release(*best);
	*best = better;
	return true;
}

/* Ends the walk. */
static __always_inline void end_walk(struct bpf_iter_scx_dsq *it, struct task_struct *best)
{
	bpf_iter_scx_dsq_destroy(it);
	if (best)
		bpf_task_release(best);
}

/* Ends the walk and moves the kept task to this CPU. False if none, or taken by another CPU. */
static __always_inline bool take_task(struct bpf_iter_scx_dsq *it, struct task_struct *best)
{
	bool moved = best && scx_bpf_dsq_move(it, best, SCX_DSQ_LOCAL, 0);

	end_walk(it, best);
	return moved;
}
