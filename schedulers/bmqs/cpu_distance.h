/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cpu_distance.h - balancing by distance, the second half of BMQS: where a new task goes, and which
 * tasks an idle CPU takes from others
 */
#pragma once

#include "bmqs.h"

/* In bmqs.bpf.c */
static void belong_to(struct task_ctx *t, s32 qid);
static void count_on(struct task_ctx *t, s32 qid);

/* Entries of the distance map are bytes. */
#define MAX_DISTANCE 255

/* cpu_distance(i, j): an entry of the map cpus_dmap, ( MSI(i, j) * HZ ) / 1000 ticks */
__noinline u32 cpu_distance(s32 i, s32 j)
{
	const volatile struct cpu_topology *a = topology_of(i), *b = topology_of(j);
	u64 msi, ticks;
	s32 nodes;

	if (i == j)
		return 0;
	if (!a || !b) {
		msi = msi_cache;
	} else if (a->core == b->core) {
		msi = msi_core;
	} else if (a->node != b->node) {
		nodes = topology_distance(a->node, b->node);
		msi = nodes > 10 ? (u64)msi_remote * (u32)(nodes - 10) / 10 : msi_remote;
	} else {
		msi = a->llc == b->llc ? msi_cache : msi_node;
	}
	ticks = ms_to_ticks(msi);
	return ticks < MAX_DISTANCE ? ticks : MAX_DISTANCE;
}

/* QNR * Kq, where Kq = Kd * ( MSTW * HZ ) / 1000 */
static __always_inline s64 queue_weight(const struct run_queue *rq)
{
	return (u64)rq->qnr_running * mvtsk_cost * hz * kd / 1000;
}

/* MC(i, j) = DIST(i, j) * Kd - QNR(i) * Kq: the cost of moving a task from i to an idle CPU j */
static __always_inline s64 move_cost(const struct run_queue *src_rq, s32 src_cpu, s32 dst_cpu)
{
	return (s64)cpu_distance(src_cpu, dst_cpu) * kd - queue_weight(src_rq);
}

/* The distance of a CPU for a new task: the nearer and emptier the CPU, the better. */
static __always_inline s64 rt_cpu_dist(const struct run_queue *src_rq, s32 src_cpu, s32 dst_cpu)
{
	return (s64)cpu_distance(src_cpu, dst_cpu) * kd + queue_weight(src_rq);
}

/* ---- New tasks ------------------------------------------------------------------------------- */

/* task_cpu_place(): a new task's CPU, this one unless another is closer by distance plus load. */
__noinline s32 task_cpu_place(struct task_struct *p __arg_trusted, s32 this_cpu)
{
	struct run_queue *rq = run_queue_of(this_cpu);
	s64 cdist, min_cdist;
	s32 i, best_cpu = this_cpu;

	if (!rq)
		return this_cpu;
	min_cdist = rt_cpu_dist(rq, this_cpu, this_cpu);
	bpf_for(i, 0, nr_cpus) {
		rq = run_queue_of(i);
		if (i == this_cpu || !rq || !can_schedule(p, i))
			continue;
		cdist = rt_cpu_dist(rq, i, this_cpu);
		if (cdist < min_cdist) {
			min_cdist = cdist;
			best_cpu = i;
		}
	}
	return best_cpu;
}

/* ---- Balancing ------------------------------------------------------------------------------- */

/* The longer ago a task last ran, the better it is to move. */
static __always_inline s64 move_goodness(const struct task_struct *p, const struct task_ctx *t,
					 u64 this_mm, u64 jiffies)
{
	s64 mgds = jiffies - t->run_jtime;

	if ((u64)p->mm == this_mm || !p->mm)
		mgds += ms_to_ticks(move_mm_bonus);
	return mgds;
}

/* try_steal_task(): moves the task with the best goodness from a loaded CPU to the idle one. */
__noinline bool try_steal_task(s32 src_cpu, s32 dst_cpu)
{
	struct run_queue *rq = run_queue_of(dst_cpu);
	struct task_struct *tsk, *mvtsk = NULL;
	u64 jiffies = tick_at(scx_bpf_now());
	struct task_ctx *chosen = NULL;
	struct bpf_iter_scx_dsq it;
	bool moved = false;
	s64 mgdns = -1;

	if (!rq)
		return false;
	bpf_iter_scx_dsq_new(&it, list_dsq(src_cpu), 0);
	while ((tsk = bpf_iter_scx_dsq_next(&it))) {
		struct task_ctx *t = task_ctx_of(tsk);
		s64 mvg;

		/* task_foreign(): real-time tasks and tasks of another queue are left alone */
		if (!t || is_realtime(t) || t->task_qid != src_cpu || !can_schedule(tsk, dst_cpu))
			continue;
		mvg = move_goodness(tsk, t, rq->active_mm, jiffies);
		if (mvg <= mgdns || !keep_task(&mvtsk, tsk))
			continue;
		mgdns = mvg;
		chosen = t;
	}
	if (mvtsk && chosen) {
		u64 place = place_at_front() | (chosen->place & CPU_BOUND);

		scx_bpf_dsq_move_set_vtime(&it, place);
		moved = scx_bpf_dsq_move_vtime(&it, mvtsk, list_dsq(dst_cpu), 0);
		if (moved) {
			belong_to(chosen, dst_cpu);
			chosen->place = place;
			count_on(chosen, dst_cpu);
		}
	}
	end_walk(&it, mvtsk);
	return moved;
}

/*
 * Looks at all other CPUs: counts how often in a row each was overloaded, and lists those that were
 * for long enough. A kernel real-time task that runs on a CPU counts as part of its queue, like a
 * local one.
 */
__noinline bool count_hits(s32 this_cpu)
{
	struct run_queue *this_rq = run_queue_of(this_cpu);
	bool found = false;
	u32 i;

	if (!this_rq)
		return false;
	bpf_for(i, 0, nr_cpus) {
		struct run_queue *rq = run_queue_of(i);
		u8 hits = 0;

		if (i >= MAX_CPUS)
			break;
		if ((s32)i != this_cpu && rq && rq->online &&
		    rq->qnr_running + higher_class_runs(i) >= min_mov_rqlen)
			hits = this_rq->ldhits[i] < MAX_DISTANCE ? this_rq->ldhits[i] + 1 :
								   MAX_DISTANCE;
		this_rq->ldhits[i] = hits;
		this_rq->hcpus[i] = hits && hits >= cpu_distance(this_cpu, i);
		found |= this_rq->hcpus[i];
	}
	return found;
}

/* The listed CPU from which it costs least to take a task, or -1. Removes it from the list. */
__noinline s32 cheapest_cpu(s32 this_cpu)
{
	struct run_queue *this_rq = run_queue_of(this_cpu);
	s64 ccost, min_cost = max_move_cost;
	u32 i, max_cpu = MAX_CPUS;

	if (!this_rq)
		return -1;
	bpf_for(i, 0, nr_cpus) {
		struct run_queue *rq = run_queue_of(i);

		if (i >= MAX_CPUS)
			break;
		if (!rq || !this_rq->hcpus[i])
			continue;
		ccost = move_cost(rq, i, this_cpu);
		if (ccost < min_cost) {
			min_cost = ccost;
			max_cpu = i;
		}
	}
	if (max_cpu >= MAX_CPUS)
		return -1;
	this_rq->hcpus[max_cpu] = false;
	return max_cpu;
}

/* get_remote_task(): for a CPU that has nothing to run. True if it took a task from another. */
__noinline bool get_remote_task(s32 this_cpu)
{
	struct run_queue *this_rq = run_queue_of(this_cpu);
	s32 i, max_cpu;

	count(STAT_IDLE_PASSES);
	if (!this_rq || !count_hits(this_cpu))
		return false;
	bpf_for(i, 0, nr_cpus) {
		max_cpu = cheapest_cpu(this_cpu);
		if (max_cpu < 0)
			break;
		if (try_steal_task(max_cpu, this_cpu)) {
			count(STAT_STEALS);
			/* The count starts over after a steal */
			bpf_for(i, 0, nr_cpus)
				if (i < MAX_CPUS)
					this_rq->ldhits[i] = 0;
			return true;
		}
	}
	return false;
}
