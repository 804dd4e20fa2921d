/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fair_load.h - how much tasks and CPUs have been runnable and running lately, as averaged by the
 * fair class of Linux 7.3
 *
 * Per-entity load tracking: averages out of 1024 in which the weight of the past halves every 32 ms
 * (pelt.h), for each task, and summed up for each CPU, whose sums include its sleeping tasks until
 * those wake elsewhere; and an estimate of a task's use when it wakes.
 */
#pragma once

#include "eevdf.h"
#include "fair_frequency.h"

/* Applies the amounts that other CPUs have added to an average or taken from it. */
static __always_inline void take_moved(u64 *average, s64 *moved_here)
{
	s64 moved = __sync_lock_test_and_set(moved_here, 0);

	if (moved)
		*average = (s64)*average > -moved ? *average + moved : 0;
}

/* Updates the averages of a CPU to @now; called before a change of the averaged values. */
static __always_inline void update_cfs_rq_load_avg(struct run_queue *cfs_rq, u64 now)
{
	if (!tracks_load())
		return;

	update_rq_clock_pelt(cfs_rq, now);
	now = rq_clock_pelt(cfs_rq, now);
	if (time_before(cfs_rq->pelt_last, now)) {
		u64 factor = pelt_factor(now - cfs_rq->pelt_last);

		if (topology_nr_clocks &&
		    cfs_rq->pelt_last >> PELT_PERIOD_SHIFT != now >> PELT_PERIOD_SHIFT)
			cfs_rq->decayed = true;
		cfs_rq->load_avg = pelt_average(cfs_rq->load_avg, cfs_rq->load_weight, factor);
		cfs_rq->runnable_avg = pelt_average(cfs_rq->runnable_avg,
						    cfs_rq->nr_running * 1024ULL, factor);
		cfs_rq->util_avg = pelt_average(cfs_rq->util_avg,
						cfs_rq->curr ? running_util(cfs_rq) : 0, factor);
		cfs_rq->pelt_last = now;
	}

	take_moved(&cfs_rq->load_avg, &cfs_rq->moved_load);
	take_moved(&cfs_rq->runnable_avg, &cfs_rq->moved_runnable);
	take_moved(&cfs_rq->util_avg, &cfs_rq->moved_util);
}

/* An average of a CPU after the time of @factor, without fraction. */
static __always_inline u64 average_at(u64 average, u64 target, s64 moved, u64 factor)
{
	s64 value = pelt_average(average, target, factor) + moved;

	return value > 0 ? value >> PELT_SHIFT : 0;
}

static __always_inline u64 load_factor(const struct run_queue *cfs_rq, u64 now)
{
	now = rq_clock_pelt(cfs_rq, now);
	return pelt_factor(time_before(cfs_rq->pelt_last, now) ? now - cfs_rq->pelt_last : 0);
}

static __always_inline u64 cpu_load(const struct run_queue *cfs_rq, u64 now)
{
	return average_at(cfs_rq->load_avg, cfs_rq->load_weight, cfs_rq->moved_load,
			  load_factor(cfs_rq, now)) +
	       cfs_rq->group_load;
}

static __always_inline u64 cpu_runnable(const struct run_queue *cfs_rq, u64 now)
{
	return average_at(cfs_rq->runnable_avg, cfs_rq->nr_running * 1024ULL,
			  cfs_rq->moved_runnable, load_factor(cfs_rq, now));
}

static __always_inline u64 cpu_util_avg(const struct run_queue *cfs_rq, u64 now)
{
	return average_at(cfs_rq->util_avg, cfs_rq->curr ? running_util(cfs_rq) : 0,
			  cfs_rq->moved_util, load_factor(cfs_rq, now));
}

/* Utilization: its average, or the estimated need of the CPU's tasks if that is more. */
static __always_inline u64 cpu_util_cfs(const struct run_queue *cfs_rq, u64 now)
{
	return min(max(cpu_util_avg(cfs_rq, now), cfs_rq->util_est), cfs_rq->capacity);
}

/* The same, or the average of runnable tasks if they wait for one another. */
static __always_inline u64 cpu_util_cfs_boost(const struct run_queue *cfs_rq, u64 now)
{
	return min(max(cpu_util_cfs(cfs_rq, now), cpu_runnable(cfs_rq, now)), cfs_rq->capacity);
}

/* Updates the averages of a task to @now; it has been in the given state since the last update. */
static __always_inline void update_load_avg(struct task_ctx *se, u64 now, bool runnable,
					    u32 running_util)
{
	u64 factor;

	if (!tracks_load())
		return;
	now = clock_pelt_of(se->pelt_cpu, now);
	if (!time_before(se->pelt_last, now))
		return;
	factor = pelt_factor(now - se->pelt_last);
	se->load_avg = pelt_average(se->load_avg, runnable ? 1024 : 0, factor);
	se->util_avg = pelt_average(se->util_avg, running_util, factor);
	se->pelt_last = now;
}

u64 load_in_groups(const struct task_ctx *se __arg_nonnull);

/*
 * Load of a task: its weight times the fraction of time it is runnable; in a group, its part of the
 * load of the group's entity.
 */
static __always_inline u64 task_h_load(const struct task_ctx *se)
{
	if (se->group)
		return load_in_groups(se);
	return se->weight * (se->load_avg >> PELT_SHIFT) / 1024;
}

static __always_inline u64 task_util_est(const struct task_ctx *se)
{
	return max(se->util_avg, se->util_est) >> PELT_SHIFT;
}

static __always_inline void move_group_averages(const struct task_ctx *se, s32 cpu, s64 sign);

static __always_inline void move_averages(struct run_queue *cfs_rq, const struct task_ctx *se,
					  s64 sign)
{
	__sync_fetch_and_add(&cfs_rq->moved_load, sign * (s64)(se->weight * se->load_avg / 1024));
	__sync_fetch_and_add(&cfs_rq->moved_runnable, sign * (s64)se->load_avg);
	__sync_fetch_and_add(&cfs_rq->moved_util, sign * (s64)se->util_avg);
	if (se->group)
		move_group_averages(se, cfs_rq->cpu, sign);
}

/* Moves the averages of a task from the CPU that has them to @cfs_rq, which may be NULL. */
static __always_inline void attach_entity_load_avg(struct run_queue *cfs_rq, struct task_ctx *se)
{
	u64 now = topology_nr_clocks ? scx_bpf_now() : 0;
	u64 passed = clock_pelt_of(se->pelt_cpu, now) - se->pelt_last;
	struct run_queue *old_rq;

	if (!tracks_load() || se->pelt_cpu == (cfs_rq ? cfs_rq->cpu + 1 : 0))
		return;
	if (se->pelt_cpu) {
		old_rq = run_queue_of(se->pelt_cpu - 1);
		if (old_rq) {
			move_averages(old_rq, se, -1);
			old_rq->decayed = topology_nr_clocks;
		}
	}
	se->pelt_cpu = 0;
	if (cfs_rq) {
		move_averages(cfs_rq, se, 1);
		se->pelt_cpu = cfs_rq->cpu + 1;
		cfs_rq->decayed = topology_nr_clocks;
	}
	if (topology_nr_clocks)
		se->pelt_last = clock_pelt_of(se->pelt_cpu, now) - passed;
}

/*
 * A task's use when it falls asleep, as the estimate for when it wakes: rises at once, falls
 * slowly.
 */
static __always_inline void util_est_update(struct task_ctx *se)
{
	if (se->util_avg >= se->util_est)
		se->util_est = se->util_avg;
	else
		se->util_est -= (se->util_est - se->util_avg) / 4;
}

/* A new task counts as always runnable, and as using up to half of its CPU's spare capacity. */
static __always_inline void post_init_entity_util_avg(struct run_queue *cfs_rq, struct task_ctx *se,
						      u64 now)
{
	u64 util = cpu_util_cfs(cfs_rq, now);
	u64 cap = cfs_rq->capacity > util ? (cfs_rq->capacity - util) / 2 : 0;

	se->pelt_last = now;
	se->load_avg = 1024ULL << PELT_SHIFT;
	se->util_avg = cap;
	if (util)
		se->util_avg = min(cap,
				   util * (se->h_load / LOAD_SCALE) / (cpu_load(cfs_rq, now) + 1));
	se->util_avg <<= PELT_SHIFT;
}

/* ---- Counts of a CPU ------------------------------------------------------------------------- */

static __always_inline void before_load_changes(struct run_queue *cfs_rq, u64 now)
{
	update_cfs_rq_load_avg(cfs_rq, now);
}

/* With a real-time task, a task that waits behind it makes the CPU overloaded. */
#define count_real_time_task(cfs_rq, number, now) __sync_fetch_and_add(&nr_overloaded, number)

/* Further sums over a CPU's runnable tasks. */
static __always_inline void count_besides(struct run_queue *cfs_rq, struct task_ctx *se, s32 number)
{
	__sync_fetch_and_add(&cfs_rq->util_est, number * (s64)se->util_est_counted);
	if (se->custom_slice)
		__sync_fetch_and_add(&cfs_rq->nr_custom, number);
	if (se->counts_idle)
		__sync_fetch_and_add(&cfs_rq->nr_idle, number);
}

#include "runnable_load.h"

/* Runnable tasks of all classes */
static __always_inline u32 rq_nr_running(const struct run_queue *cfs_rq)
{
	return cfs_rq->nr_running + cfs_rq->real_time;
}

/* The capacity that real-time tasks leave of a CPU: next to nothing while one runs. */
static __always_inline u64 capacity_of(const struct run_queue *cfs_rq)
{
	return cfs_rq->real_time ? 1 : cfs_rq->capacity;
}

/* With a margin of a fifth. */
static __always_inline bool fits_capacity(u64 util, u64 capacity)
{
	return util * 1280 < capacity * 1024;
}

/* Clearly more, by a twentieth. */
static __always_inline bool capacity_greater(u64 capacity, u64 other)
{
	return capacity * 1024 > other * 1078;
}

/* Makes the task count on @cfs_rq and nowhere else. */
static __always_inline void account_entity_enqueue(struct run_queue *cfs_rq, struct task_ctx *se,
						   u64 now)
{
	if (!se->on_rq)
		se->util_est_counted = se->util_est >> PELT_SHIFT;
	account_enqueue(cfs_rq, se, se->weight, now);
}
