/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * starving_queue.h - takes starving tasks (starvation.h) out of a dispatch queue
 *
 * The file that includes this has defined before waits_since(t), since when a task waits, and, where it wants to know later whom it
 * has rescued, mark_rescued(t).
 */
#pragma once

#ifndef mark_rescued
#define mark_rescued(t)
#endif

/*
 * Moves the first task of a queue that has waited for starvation_limit to this CPU's local queue: true if there is one. Looks at
 * @depth tasks, 0 for all, from the front or, with SCX_DSQ_ITER_REV in @flags, from the back.
 */
static __always_inline bool rescue_from_queue(u64 dsq, u64 flags, u32 depth)
{
	u64 now = scx_bpf_now();
	struct task_struct *p;
	struct task_ctx *t;
	u32 seen = 0;

	for_each_queued(p, t, dsq, flags) {
		if (depth && seen++ >= depth)
			break;
		if (starved_for(waits_since(t), now) && scx_bpf_dsq_move(DSQ_ITERATOR, p, SCX_DSQ_LOCAL, 0)) {
			mark_rescued(t);
			return true;
		}
	}
	return false;
}
