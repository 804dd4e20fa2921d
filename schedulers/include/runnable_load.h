/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * runnable_load.h - number and total weight of the runnable tasks of a CPU
 *
 * A task, running or waiting, counts on one CPU from when it becomes runnable until it sleeps, and
 * its count moves with it between queues. Other CPUs move tasks too, so counts change atomically,
 * and the CPU that changes a task's mark (on_rq) changes the counts.
 *
 * The scheduler's struct run_queue has cpu, nr_running, load_weight, real_time, and curr, whether
 * one of its tasks runs; struct task_ctx has on_rq (the CPU plus one, or 0) and weight. The weight
 * of a real-time task is REAL_TIME_WEIGHT, unless count_real_time_task(rq, number, now) counts it.
 */
#pragma once

#include "fairground.bpf.h"

#ifndef count_real_time_task
#ifndef REAL_TIME_WEIGHT
#error "Define REAL_TIME_WEIGHT or count_real_time_task() before including runnable_load.h"
#endif
#define count_real_time_task(rq, number, now) load_change(rq, REAL_TIME_WEIGHT, number, now)
#endif

static void before_load_changes(struct run_queue *rq, u64 now);

/* Counts more of a task than its weight. */
static void count_besides(struct run_queue *rq, struct task_ctx *t, s32 number);

/* CPUs with more than one runnable task: without any there is nothing to balance */
static u32 nr_overloaded;

/* Adds a task of @weight to the sums of a CPU if @number is 1, removes it if -1. */
static __always_inline void load_change(struct run_queue *rq, u32 weight, s32 number, u64 now)
{
	before_load_changes(rq, now);
	__sync_fetch_and_add(&rq->load_weight, number * (s64)weight);
	if (__sync_fetch_and_add(&rq->nr_running, number) == (number > 0 ? 1 : 2))
		__sync_fetch_and_add(&nr_overloaded, number);
}

static __always_inline void count_task(struct run_queue *rq, struct task_ctx *t, s32 number,
				       u64 now)
{
	load_change(rq, t->weight, number, now);
	count_besides(rq, t, number);
}

/* A real-time task takes the CPU, or was found to have taken it while idle. */
static __always_inline void count_real_time(struct run_queue *rq, u64 now)
{
	if (real_time_came(&rq->real_time))
		count_real_time_task(rq, 1, now);
}

/* The CPU is this scheduler's again. */
static __always_inline void uncount_real_time(struct run_queue *rq, u64 now)
{
	if (real_time_left(&rq->real_time))
		count_real_time_task(rq, -1, now);
}

/* Do tasks wait behind a real-time task that took the CPU when it was idle? */
static __always_inline void notice_real_time(struct run_queue *rq, u64 now)
{
	if (rq->nr_running && !rq->curr && !rq->real_time && higher_class_runs(rq->cpu))
		count_real_time(rq, now);
}

/* Defines ops.cpu_release() of a scheduler. */
#define DEFINE_CPU_RELEASE(id)								\
	void BPF_STRUCT_OPS(id##_cpu_release, s32 cpu, struct scx_cpu_release_args *args)	\
	{										\
		struct run_queue *rq = run_queue_of(cpu);				\
											\
		if (rq)									\
			count_real_time(rq, scx_bpf_now());				\
		scx_bpf_reenqueue_local();						\
	}

/* Makes the task count on @rq and nowhere else; with @weight, if it did not count yet. */
static __always_inline void account_enqueue(struct run_queue *rq, struct task_ctx *t, u32 weight,
					    u64 now)
{
	struct run_queue *old_rq;
	s32 old;

	if (t->on_rq == rq->cpu + 1)
		return;

	old = __sync_lock_test_and_set(&t->on_rq, rq->cpu + 1);
	if (old) {
		old_rq = run_queue_of(old - 1);
		if (old_rq)
			count_task(old_rq, t, -1, now);
	} else {
		t->weight = weight;
	}
	count_task(rq, t, 1, now);
}

/* Makes the task count nowhere. Returns the run queue on which it did, or NULL. */
static __always_inline struct run_queue *account_dequeue(struct task_ctx *t, u64 now)
{
	s32 old = __sync_lock_test_and_set(&t->on_rq, 0);
	struct run_queue *rq = old ? run_queue_of(old - 1) : NULL;

	if (rq)
		count_task(rq, t, -1, now);
	return rq;
}

/* The same, cheaper for a task that counts on @rq unless it has been moved meanwhile. */
static __always_inline void account_dequeue_from(struct run_queue *rq, struct task_ctx *t, u64 now)
{
	if (__sync_val_compare_and_swap(&t->on_rq, rq->cpu + 1, 0) == rq->cpu + 1)
		count_task(rq, t, -1, now);
	else
		account_dequeue(t, now);
}

/* Moves the load of a task that was moved to another queue; false if it has left meanwhile. */
static __always_inline bool account_move(struct task_ctx *t, struct run_queue *from,
					 struct run_queue *to, u64 now)
{
	if (__sync_val_compare_and_swap(&t->on_rq, from->cpu + 1, to->cpu + 1) != from->cpu + 1)
		return false;
	count_task(from, t, -1, now);
	count_task(to, t, 1, now);
	return true;
}
