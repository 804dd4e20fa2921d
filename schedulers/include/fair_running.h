/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fair_running.h - the running task of a fair class: its virtual runtime, and its slice, which ends
 * at a tick of the era, or earlier if another task comes
 *
 * The scheduler's struct run_queue has FAIR_QUEUE_STATE.
 */
#pragma once

#include "fair_state.h"
#include "cpus_and_ticks.h"

/* A task that nothing limits reschedules at least this often */
#define MAX_RUN NSEC_PER_SEC

/* The clock when a task begins to run: that of its pick; the kernel reads it once for both. */
static __always_inline u64 clock_of_pick(struct run_queue *rq)
{
	u64 now = rq->picked_at ?: scx_bpf_now();

	rq->picked_at = 0;
	return now;
}

/* The running task's virtual runtime at @now; other CPUs may ask for it. */
static __always_inline u64 curr_vruntime_at(const struct run_queue *rq, u64 now)
{
	u64 vruntime = rq->curr_vruntime;

	if (time_before(rq->exec_start, now))
		vruntime += calc_delta_fair(now - rq->exec_start, rq->curr_weight);
	return vruntime;
}

/* Makes the CPU put back its running task and pick again. */
static __always_inline void resched_curr(struct run_queue *rq)
{
	rq->need_resched = true;
	scx_bpf_kick_cpu(rq->cpu, SCX_KICK_PREEMPT);
}

/* First tick at or after @time; with hz = 0 the kernel's own ticks do the rounding. */
static __always_inline u64 tick_from(u64 time)
{
	return hz ? (time + tick_nsec - 1) / (tick_nsec ?: 1) * tick_nsec : time;
}

/* Lets the task that runs, or is about to, run until @end. */
static __always_inline void run_until(struct run_queue *rq, struct task_struct *p, u64 end, u64 now)
{
	rq->slice_end = end;
	/* Asking the kernel costs more than checking */
	if (p->scx.slice != end - now)
		scx_bpf_task_set_slice(p, end - now);
}

/* Another task has come: ends the running one's slice, which the kernel counts down, at @end. */
static __always_inline void end_slice_at(struct run_queue *rq, u64 end)
{
	struct task_struct *curr;
	u64 earlier, slice;

	if (!time_before(end, rq->slice_end))
		return;
	curr = scx_bpf_cpu_curr(rq->cpu);
	if (!curr || curr->pid != rq->curr_pid)
		return;
	slice = curr->scx.slice;
	if (!slice)
		return;
	/* The kernel last charged it earlier, so subtract the difference between the ends */
	earlier = rq->slice_end - end;
	scx_bpf_task_set_slice(curr, slice > earlier ? slice - earlier : 1);
	rq->slice_end = end;
}
