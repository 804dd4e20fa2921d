/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * starving_queue.h - takes starving tasks (starvation.h) out of a dispatch queue
 *
 * The scheduler's records of tasks (task_data.h) come first.
 */
#pragma once

#include "starvation.h"

/* Since when a task waits, nanoseconds. */
static u64 waits_since(const task_record *t);

/*
 * Moves the first task of a queue that has waited for starvation_limit and may run here to this
 * CPU's local queue, and returns its record; NULL if there is none. Looks at @depth tasks, 0 for
 * all, from the front or, with SCX_DSQ_ITER_REV in @flags, from the back.
 */
static __always_inline task_record *rescue_from_queue(u64 dsq, u64 flags, u32 depth)
{
	s32 cpu = bpf_get_smp_processor_id();
	u64 now = scx_bpf_now();
	struct task_struct *p;
	u32 seen = 0;

	bpf_for_each(scx_dsq, p, dsq, flags) {
		task_record *t = record_of(p);

		if (depth && seen++ >= depth)
			break;
		if (t && starved_for(waits_since(t), now) && can_run_on(p, cpu) &&
		    scx_bpf_dsq_move(DSQ_ITERATOR, p, SCX_DSQ_LOCAL, 0))
			return t;
	}
	return NULL;
}
