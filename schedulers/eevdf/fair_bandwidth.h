/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fair_bandwidth.h - CPU time that task groups may use (cpu.max), in the fair class of Linux 7.3
 *
 * A group has a pool, which gets a quota every period. Its CPUs take slices from the pool and use
 * them up. A CPU that gets none is throttled until a timer has refilled the pool and pays its debt.
 * Its tasks leave the tree when they are next picked, or run (fair_throttle.h). Each level of the
 * hierarchy has a pool of its own.
 *
 * Names are those of kernel/sched/fair.c.
 */
#pragma once

#include "eevdf.h"
#include "fair_groups.h"

/* The runtime that a CPU takes from a pool at a time, and keeps when the group leaves */
#define BANDWIDTH_SLICE (5 * NSEC_PER_MSEC)
#define MIN_CFS_RQ_RUNTIME NSEC_PER_MSEC
/* Runtime given back is handed out after the former, unless a refill is nearer than the latter */
#define BANDWIDTH_SLACK_PERIOD (5 * NSEC_PER_MSEC)
#define MIN_BANDWIDTH_EXPIRATION (2 * NSEC_PER_MSEC)

/* The pool of a group; without a quota it has none */
struct cfs_bandwidth {
	struct bpf_spin_lock lock;
	struct bpf_timer period_timer;
	u64 quota;
	u64 period;
	u64 burst;
	u64 runtime;
	/* Clock at which the period ends */
	u64 expires;
	/* CPUs that are throttled, and how many have been */
	u32 nr_throttled_rqs;
	u64 throttlings;
	/* Nobody has asked for runtime in this period */
	bool idle;
	bool period_active;
	bool slack_started;
};

DEFINE_ARRAY(ARRAY, cfs_bandwidths, NR_GROUPS, struct cfs_bandwidth)

struct slack {
	struct bpf_timer timer;
};

DEFINE_ARRAY(ARRAY, slack_timers, NR_GROUPS, struct slack)

static __always_inline struct cfs_bandwidth *cfs_bandwidth_of(u32 group)
{
	return bpf_map_lookup_elem(&cfs_bandwidths, &group);
}

/* ---- Taking from the pool and giving back ---------------------------------------------------- */

/* Moves the end of the period beyond @now. Returns how many periods have ended. */
static __always_inline u64 forward_period(struct cfs_bandwidth *cfs_b, u64 now)
{
	u64 ended;

	if (time_before(now, cfs_b->expires))
		return 0;
	ended = (now - cfs_b->expires) / (cfs_b->period ?: 1) + 1;
	cfs_b->expires += ended * cfs_b->period;
	return ended;
}

/*
 * Takes up to @target from the pool, less the CPU's own; starts the period if there is none. True
 * if the CPU may go on.
 */
static __always_inline bool assign_cfs_rq_runtime(u32 group, struct group_rq *rq, u64 target,
						  u64 now)
{
	struct cfs_bandwidth *cfs_b = cfs_bandwidth_of(group);
	u64 amount = 0, left;
	bool start;

	if (!cfs_b)
		return true;
	bpf_spin_lock(&cfs_b->lock);
	start = !cfs_b->period_active;
	if (start) {
		cfs_b->period_active = true;
		forward_period(cfs_b, now);
	}
	if (cfs_b->runtime) {
		amount = min(cfs_b->runtime, (s64)target - rq->runtime_remaining);
		cfs_b->runtime -= amount;
		cfs_b->idle = false;
	}
	left = cfs_b->expires - now;
	bpf_spin_unlock(&cfs_b->lock);
	if (start)
		bpf_timer_start(&cfs_b->period_timer, left, 0);
	return (s64)(__sync_fetch_and_add(&rq->runtime_remaining, amount) + amount) > 0;
}

/* A task of @group ran for @delta on @cpu: charges its groups. True if one has no runtime left. */
__noinline bool account_cfs_rq_runtime(u32 group, s32 cpu, u64 delta, u64 now)
{
	struct group_rq *rq, *above;
	struct fair_group *tg;
	bool resched = false;
	u32 level;

	for_each_group_rq(tg, rq, above, level, group, cpu) {
		if (!tg->has_quota)
			continue;
		if ((s64)(__sync_fetch_and_add(&rq->runtime_remaining, -(s64)delta) - delta) > 0 ||
		    rq->throttled)
			continue;
		if (!assign_cfs_rq_runtime(tg->cgroup.number, rq, BANDWIDTH_SLICE, now))
			resched = true;
	}
	return resched;
}

/* The group has no runtime left on this CPU: throttled, unless a last attempt gets some. */
static __always_inline bool throttle_cfs_rq(const struct fair_group *tg, struct group_rq *rq,
					    s32 cpu, u64 now)
{
	struct cfs_bandwidth *cfs_b = cfs_bandwidth_of(tg->cgroup.number);
	struct run_queue *cfs_rq = run_queue_of(cpu);

	if (!cfs_b || !cfs_rq || assign_cfs_rq_runtime(tg->cgroup.number, rq, 1, now))
		return false;
	rq->throttled = __sync_fetch_and_add(&cfs_b->throttlings, 1) + 1;
	__sync_fetch_and_add(&cfs_b->nr_throttled_rqs, 1);
	cfs_rq->nr_throttled++;
	count(STAT_THROTTLINGS);
	return true;
}

/* Is a group that a task of @group is in throttled on @cpu, or does it have to be? */
__noinline bool check_cfs_rq_runtime(u32 group, s32 cpu, u64 now)
{
	struct group_rq *rq, *above;
	struct fair_group *tg;
	bool throttled = false;
	u32 level;

	for_each_group_rq(tg, rq, above, level, group, cpu) {
		if (!tg->has_quota || rq->runtime_remaining > 0)
			continue;
		if (rq->throttled || throttle_cfs_rq(tg, rq, cpu, now))
			throttled = true;
	}
	return throttled;
}

/* Is a group that a task of @group is in throttled on @cpu? */
__noinline bool throttled_hierarchy(u32 group, s32 cpu)
{
	struct group_rq *rq, *above;
	struct fair_group *tg;
	u32 level;

	for_each_group_rq(tg, rq, above, level, group, cpu)
		if (rq->throttled)
			return true;
	return false;
}

/*
 * Something comes to a queue of a group that was empty and does not run: it may have to be
 * throttled at once. This and the next are functions of their own, because the verifier would
 * follow each of their branches through the rest of a walk over the groups.
 */
__noinline int check_enqueue_throttle(const struct fair_group *tg __arg_nonnull,
				      struct group_rq *rq __arg_nonnull, s32 cpu, u64 now)
{
	if (!tg->has_quota || rq->throttled || rq->runtime_remaining > 0)
		return 0;
	if (!assign_cfs_rq_runtime(tg->cgroup.number, rq, BANDWIDTH_SLICE, now))
		throttle_cfs_rq(tg, rq, cpu, now);
	return 0;
}

/* The last of a group has left a CPU, which gives back its runtime, but for a little. */
__noinline int return_cfs_rq_runtime(const struct fair_group *tg __arg_nonnull,
				     struct group_rq *rq __arg_nonnull, u64 now)
{
	struct cfs_bandwidth *cfs_b = cfs_bandwidth_of(tg->cgroup.number);
	s64 slack_runtime = rq->runtime_remaining - (s64)MIN_CFS_RQ_RUNTIME;
	bool hand_out;
	u32 key = tg->cgroup.number;
	struct slack *slack;

	if (!tg->has_quota || slack_runtime <= 0 || !cfs_b)
		return 0;
	bpf_spin_lock(&cfs_b->lock);
	cfs_b->runtime += slack_runtime;
	hand_out = cfs_b->runtime > BANDWIDTH_SLICE && cfs_b->nr_throttled_rqs &&
		   !cfs_b->slack_started &&
		   !time_before(cfs_b->expires,
				now + BANDWIDTH_SLACK_PERIOD + MIN_BANDWIDTH_EXPIRATION);
	if (hand_out)
		cfs_b->slack_started = true;
	bpf_spin_unlock(&cfs_b->lock);
	__sync_fetch_and_add(&rq->runtime_remaining, -slack_runtime);
	slack = hand_out ? bpf_map_lookup_elem(&slack_timers, &key) : NULL;
	if (slack)
		bpf_timer_start(&slack->timer, BANDWIDTH_SLACK_PERIOD, 0);
	return 0;
}

/* ---- Refilling ------------------------------------------------------------------------------- */

/* In fair_throttle.h */
int unthrottle(struct run_queue *cfs_rq __arg_nonnull, u64 now);

/*
 * The CPU may go on, as soon as it looks; it is told to. One that a real-time task has would not
 * look, so its tasks come back at once.
 */
static __always_inline void unthrottle_on(s32 cpu, struct group_rq *rq)
{
	struct run_queue *cfs_rq = run_queue_of(cpu);
	bool real_time;

	rq->refilled = true;
	if (!cfs_rq)
		return;
	cfs_rq->refilled = true;
	bpf_rcu_read_lock();
	real_time = higher_class_runs(cpu);
	bpf_rcu_read_unlock();
	if (real_time)
		unthrottle(cfs_rq, scx_bpf_now());
	else
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/*
 * The CPU of @group that has been throttled for longest, of those that have not been given anything
 * since; -1 if there is none.
 */
static __always_inline s32 first_throttled(u32 group)
{
	struct group_rq *rq;
	u64 first = ~0ULL;
	s32 cpu, found = -1;

	bpf_for(cpu, 0, nr_cpus) {
		rq = group_rq_of(group, cpu);
		if (rq && rq->throttled && !rq->refilled && rq->throttled < first) {
			first = rq->throttled;
			found = cpu;
		}
	}
	return found;
}

/* Pays the debts of throttled CPUs, in order, and gives each 1 ns, while the pool has any. */
__noinline int distribute_cfs_runtime(u32 group)
{
	struct cfs_bandwidth *cfs_b = cfs_bandwidth_of(group);
	struct group_rq *rq;
	u64 amount;
	s32 cpu, i;

	bpf_for(i, 0, nr_cpus) {
		cpu = first_throttled(group);
		rq = cpu < 0 ? NULL : group_rq_of(group, cpu);
		if (!rq || !cfs_b)
			break;
		bpf_spin_lock(&cfs_b->lock);
		amount = min(cfs_b->runtime, 1 - rq->runtime_remaining);
		cfs_b->runtime -= amount;
		bpf_spin_unlock(&cfs_b->lock);
		if ((s64)(__sync_fetch_and_add(&rq->runtime_remaining, amount) + amount) <= 0)
			break;
		unthrottle_on(cpu, rq);
	}
	return 0;
}

/* A period ends: refills the pool. Stops after one in which nobody has asked for runtime. */
static int period_timer_fires(void *map, u32 *group, struct cfs_bandwidth *cfs_b)
{
	struct cpu_stat *stat = cpu_stat_of(*group);
	u64 now = bpf_ktime_get_ns(), ended, left;
	bool throttled, active;

	bpf_spin_lock(&cfs_b->lock);
	ended = forward_period(cfs_b, now);
	left = cfs_b->expires - now;
	throttled = cfs_b->nr_throttled_rqs;
	active = cfs_b->quota && !(cfs_b->idle && !throttled);
	if (ended && cfs_b->quota) {
		cfs_b->runtime = min(cfs_b->runtime + cfs_b->quota, cfs_b->quota + cfs_b->burst);
		cfs_b->idle = !throttled;
	}
	cfs_b->period_active = active;
	bpf_spin_unlock(&cfs_b->lock);

	if (stat && cfs_b->quota) {
		stat->nr_periods += ended;
		if (throttled)
			stat->nr_throttled += ended;
	}
	if (active && throttled)
		distribute_cfs_runtime(*group);
	if (active)
		bpf_timer_start(&cfs_b->period_timer, left, 0);
	return 0;
}

/* Runtime that CPUs have given back goes to those that are throttled. */
static int slack_timer_fires(void *map, u32 *group, struct slack *slack)
{
	struct cfs_bandwidth *cfs_b = cfs_bandwidth_of(*group);
	u64 now = bpf_ktime_get_ns();

	if (!cfs_b)
		return 0;
	cfs_b->slack_started = false;
	if (cfs_b->quota && cfs_b->runtime > BANDWIDTH_SLICE &&
	    !time_before(cfs_b->expires, now + MIN_BANDWIDTH_EXPIRATION))
		distribute_cfs_runtime(*group);
	return 0;
}

/* ---- Settings -------------------------------------------------------------------------------- */

/*
 * Gives a group a quota per period and a burst, in us; all ones for no quota. The pool is filled,
 * and throttled CPUs go on.
 */
static __always_inline void tg_set_cfs_bandwidth(u32 group, u64 period_us, u64 quota_us,
						 u64 burst_us)
{
	struct cfs_bandwidth *cfs_b = cfs_bandwidth_of(group);
	struct fair_group *tg = fair_group_of(group);
	bool has_quota = quota_us != ~0ULL;
	u64 now = bpf_ktime_get_ns(), left;
	struct group_rq *rq;
	s32 cpu;

	if (!group || !cfs_b || !tg)
		return;
	bpf_spin_lock(&cfs_b->lock);
	cfs_b->period = period_us * NSEC_PER_USEC;
	cfs_b->quota = has_quota ? quota_us * NSEC_PER_USEC : 0;
	cfs_b->burst = burst_us * NSEC_PER_USEC;
	cfs_b->runtime = min(cfs_b->runtime + cfs_b->quota, cfs_b->quota + cfs_b->burst);
	forward_period(cfs_b, now);
	left = cfs_b->expires - now;
	cfs_b->period_active = has_quota;
	bpf_spin_unlock(&cfs_b->lock);
	if (has_quota)
		bpf_timer_start(&cfs_b->period_timer, left, 0);
	if (tg->has_quota != has_quota)
		__sync_fetch_and_add(&nr_quotas, has_quota ? 1 : -1);
	tg->has_quota = has_quota;
	bpf_for(cpu, 0, nr_cpus) {
		rq = group_rq_of(group, cpu);
		if (!rq)
			continue;
		rq->runtime_remaining = 1;
		if (rq->throttled)
			unthrottle_on(cpu, rq);
	}
}

/* A new group, whose first period ends at a random time. */
static __always_inline void init_cfs_bandwidth(u32 group, struct cgroup *cgrp,
					       const struct scx_cgroup_init_args *args)
{
	struct slack *slack = bpf_map_lookup_elem(&slack_timers, &group);
	struct cfs_bandwidth *cfs_b = cfs_bandwidth_of(group);

	if (!cfs_b || !slack || !bpf_core_field_exists(args->bw_quota_us))
		return;
	new_cpu_stat(group, cgrp);
	/* They exist already where a group was before */
	bpf_timer_init(&cfs_b->period_timer, &cfs_bandwidths, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&cfs_b->period_timer, period_timer_fires);
	bpf_timer_init(&slack->timer, &slack_timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&slack->timer, slack_timer_fires);
	cfs_b->expires = bpf_ktime_get_ns() + bpf_get_prandom_u32() % (100 * NSEC_PER_MSEC);
	if (args->bw_quota_us != ~0ULL)
		tg_set_cfs_bandwidth(group, args->bw_period_us, args->bw_quota_us,
				     args->bw_burst_us);
}

static __always_inline void exit_cfs_bandwidth(u32 group)
{
	struct slack *slack = bpf_map_lookup_elem(&slack_timers, &group);
	struct cfs_bandwidth *cfs_b = cfs_bandwidth_of(group);
	struct fair_group *tg = fair_group_of(group);

	if (!cfs_b || !slack || !tg)
		return;
	bpf_timer_cancel(&cfs_b->period_timer);
	bpf_timer_cancel(&slack->timer);
	if (tg->has_quota)
		__sync_fetch_and_add(&nr_quotas, -1);
	tg->has_quota = false;
	cfs_b->quota = 0;
	cfs_b->runtime = 0;
	cfs_b->nr_throttled_rqs = 0;
	cfs_b->period_active = false;
}
