/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fair_groups.h - task groups of the fair class of Linux 7.3, whose tasks are all in one tree
 *
 * A group has, for each CPU, the sum of the weights in it, and an entity whose weight is the part
 * of the group's shares that goes to this CPU: that of its load here in its load everywhere. A
 * task's weight in the tree is its own, times the entity's weight and divided by the sum of the
 * queue that it is in, at each level:
 *
 *	h = w * product(entity's weight / sum of weights)
 *
 * Tasks of the root have h = w, and nothing here is called for them. Names are those of
 * kernel/sched/fair.c.
 */
#pragma once

#include "eevdf.h"
#include "control_groups.h"
#include "fair_load.h"

/* The heaviest that an entity may have in some modes: that of nice -20 */
#define MAX_ENTITY_WEIGHT (88761ULL * LOAD_SCALE)

struct fair_group {
	struct control_group cgroup;
	bool has_quota;
	/* The parts of their averages that its CPUs have contributed */
	s64 load_avg;
	s64 runnable_avg;
};

DEFINE_ARRAY(ARRAY, task_groups, NR_GROUPS, struct fair_group)

static __always_inline struct fair_group *fair_group_of(u32 group)
{
	return bpf_map_lookup_elem(&task_groups, &group);
}

static __always_inline struct control_group *control_group_of(u32 number)
{
	struct fair_group *tg = fair_group_of(number);

	return tg ? &tg->cgroup : NULL;
}

/* Groups with a quota */
static u32 nr_quotas;

/* A group on one CPU; other CPUs change sums too, atomically */
struct group_rq {
	/*
	 * Sum of the weights of the tasks and entities in it, sleeping ones that still compete
	 * included, and their number
	 */
	u64 load_weight;
	u32 nr_queued;
	/* Runnable tasks in it and below */
	u32 h_nr_runnable;
	/* Weight of its entity, and the part that counts in the queue above: 0 if it is empty */
	u64 weight;
	u64 counted;
	/* Averages, and the amounts that other CPUs added or took away */
	u64 pelt_last;
	u64 load_avg;
	u64 runnable_avg;
	/* Sum of weights, without fraction, when there was one; the entity's load above */
	u64 last_weight;
	u64 entity_load;
	s64 moved_load;
	s64 moved_runnable;
	/* Part of the group's sums, and since when */
	u64 contributed_load;
	u64 contributed_runnable;
	u64 contributed_at;
	/* Its part of the group's runtime, or its debt */
	s64 runtime_remaining;
	/*
	 * Its place among the group's throttled CPUs, or 0; since when its tasks have been leaving;
	 * and whether it may go on
	 */
	u64 throttled;
	u64 throttled_clock;
	bool refilled;
};

DEFINE_ARRAY(PERCPU_ARRAY, group_rqs, NR_GROUPS, struct group_rq)

static __always_inline struct group_rq *group_rq_of(u32 group, s32 cpu)
{
	return bpf_map_lookup_percpu_elem(&group_rqs, &group, cpu);
}

/*
 * Walk over the groups that a task of @group is in on @cpu, from the inside out, without the root:
 * their records @tg and @rq, and @above, that of the group around, NULL if it is the root.
 */
#define for_each_group_rq(tg, rq, above, level, group, cpu)			\
	bpf_for(level, 0, MAX_GROUP_DEPTH)					\
		if (!(group) || !((tg) = fair_group_of(group)) ||		\
		    !((rq) = group_rq_of(group, cpu)) ||			\
		    ((group) = (tg)->cgroup.parent,				\
		     (above) = (group) ? group_rq_of(group, cpu) : NULL, 0))	\
			break;							\
		else

/* In fair_bandwidth.h */
static void init_cfs_bandwidth(u32 group, struct cgroup *cgrp,
			       const struct scx_cgroup_init_args *args);
static void exit_cfs_bandwidth(u32 group);
static void tg_set_cfs_bandwidth(u32 group, u64 period_us, u64 quota_us, u64 burst_us);
int check_enqueue_throttle(const struct fair_group *tg, struct group_rq *rq, s32 cpu, u64 now);
int return_cfs_rq_runtime(const struct fair_group *tg, struct group_rq *rq, u64 now);

/* ---- The weight of a group's entity ---------------------------------------------------------- */

static __always_inline void update_group_rq_load_avg(struct group_rq *rq, s32 cpu, u64 now)
{
	u64 factor;

	now = clock_pelt_of(cpu + 1, now);
	if (time_before(rq->pelt_last, now)) {
		factor = pelt_factor(now - rq->pelt_last);
		rq->load_avg = pelt_average(rq->load_avg, rq->load_weight / LOAD_SCALE, factor);
		rq->runnable_avg = pelt_average(rq->runnable_avg, rq->h_nr_runnable * 1024ULL,
						factor);
		rq->pelt_last = now;
	}
	take_moved(&rq->load_avg, &rq->moved_load);
	take_moved(&rq->runnable_avg, &rq->moved_runnable);
}

/* Do averages that have become @a and @b differ from the contribution by more than a 64th? */
static __always_inline bool differs(u64 average, u64 contributed)
{
	u64 delta = average > contributed ? average - contributed : contributed - average;

	return delta > contributed / 64;
}

/* Updates a CPU's part of the group's sums: at most once a millisecond, if it has changed much. */
static __always_inline void update_tg_load_avg(struct fair_group *tg, struct group_rq *rq, u64 now)
{
	u64 load = rq->load_avg >> PELT_SHIFT, runnable = rq->runnable_avg >> PELT_SHIFT;

	if (now - rq->contributed_at < NSEC_PER_MSEC)
		return;
	if (!differs(load, rq->contributed_load) && !differs(runnable, rq->contributed_runnable))
		return;
	__sync_fetch_and_add(&tg->load_avg, (s64)load - (s64)rq->contributed_load);
	__sync_fetch_and_add(&tg->runnable_avg, (s64)runnable - (s64)rq->contributed_runnable);
	rq->contributed_load = load;
	rq->contributed_runnable = runnable;
	rq->contributed_at = now;
}

/* Runnable tasks of a group, on average, at least one. */
static __always_inline u64 tg_tasks(const struct fair_group *tg)
{
	return tg->runnable_avg < 1024 ? 1 : (u64)tg->runnable_avg / 1024;
}

/*
 * The weight of a group's entity: shares * load here / load everywhere. A function of its own,
 * because stacks are small and calls deep.
 */
__noinline u64 calc_group_shares(const struct fair_group *tg __arg_nonnull,
				 const struct group_rq *rq __arg_nonnull)
{
	u64 load = max(rq->load_weight / LOAD_SCALE, rq->load_avg >> PELT_SHIFT);
	u64 shares = tg->cgroup.shares, limit;
	s64 total = tg->load_avg - (s64)rq->contributed_load + (s64)load;

	if (topology_cgroup_mode == CGROUP_UP)
		return shares;
	shares = shares_of_tasks(shares, tg_tasks(tg), nr_online);
	limit = topology_cgroup_mode == CGROUP_MAX ? MAX_ENTITY_WEIGHT : shares;
	if (total > 0)
		shares = shares * load / (u64)total;
	return clamp(shares, MIN_SHARES, limit);
}

/* Another task or entity comes to a group's queue on @cpu if @number is 1, or leaves it if -1. */
static __always_inline void count_queued(const struct fair_group *tg, struct group_rq *rq, s32 cpu,
					 s32 number, u64 now)
{
	u32 before = __sync_fetch_and_add(&rq->nr_queued, number);

	if (!tg || !nr_quotas)
		return;
	if (number > 0 && !before)
		check_enqueue_throttle(tg, rq, cpu, now);
	else if (number < 0 && before == 1)
		return_cfs_rq_runtime(tg, rq, now);
}

/* Makes @weight that of the entity of @rq, a queue on @cpu of @tg, in the queue above, if any. */
static __always_inline void count_entity(const struct fair_group *tg, struct group_rq *rq,
					 struct group_rq *above, s32 cpu, u64 weight, u64 now)
{
	u64 counted = __sync_lock_test_and_set(&rq->counted, weight);

	if (!above || counted == weight)
		return;
	update_group_rq_load_avg(above, cpu, now);
	__sync_fetch_and_add(&above->load_weight, weight - counted);
	if (!counted || !weight)
		count_queued(fair_group_of(tg->cgroup.parent), above, cpu, weight ? 1 : -1, now);
}

/* Load of a group's entity: its weight times the part of the time it has been runnable on @cpu. */
static __always_inline void update_entity_load(const struct fair_group *tg, struct group_rq *rq,
					       s32 cpu)
{
	u64 average = rq->load_avg >> PELT_SHIFT, load;
	struct run_queue *cfs_rq;

	if (rq->load_weight)
		rq->last_weight = rq->load_weight / LOAD_SCALE;
	load = rq->weight / LOAD_SCALE * min(average, rq->last_weight) / (rq->last_weight ?: 1);
	cfs_rq = tg->cgroup.parent || load == rq->entity_load ? NULL : run_queue_of(cpu);
	if (cfs_rq)
		__sync_fetch_and_add(&cfs_rq->group_load, load - rq->entity_load);
	rq->entity_load = load;
}

/* Updates the averages of a group on this CPU, and its entity's weight. */
static __always_inline void update_cfs_group(struct fair_group *tg, struct group_rq *rq,
					     struct group_rq *above, s32 cpu, u64 now)
{
	update_group_rq_load_avg(rq, cpu, now);
	update_tg_load_avg(tg, rq, now);
	if (rq->nr_queued)
		rq->weight = calc_group_shares(tg, rq);
	update_entity_load(tg, rq, cpu);
	count_entity(tg, rq, above, cpu, rq->nr_queued ? rq->weight : 0, now);
}

/* ---- The weight of a task in its groups ------------------------------------------------------ */

/*
 * Adds a task of @weight to the sums of @group on @cpu, or takes it away if that is negative, or
 * leaves them; @runnable is the change of the number of runnable tasks. Brings the weights of the
 * entities up to date.
 */
__noinline int change_group_sums(u32 group, s32 cpu, s64 weight, s32 runnable, u64 now)
{
	struct group_rq *rq, *above;
	struct fair_group *tg;
	u32 level;

	for_each_group_rq(tg, rq, above, level, group, cpu) {
		update_group_rq_load_avg(rq, cpu, now);
		if (!level && weight) {
			__sync_fetch_and_add(&rq->load_weight, weight);
			count_queued(tg, rq, cpu, weight > 0 ? 1 : -1, now);
		}
		__sync_fetch_and_add(&rq->h_nr_runnable, runnable);
		update_cfs_group(tg, rq, above, cpu, now);
	}
	return 0;
}

/*
 * Adds the averages of a task to those of its groups on @cpu, or takes them away: of its load, the
 * part that the weights leave at each level.
 */
static __always_inline void move_group_averages(const struct task_ctx *se, s32 cpu, s64 sign)
{
	struct group_rq *rq, *above;
	u64 load = se->own_weight * se->load_avg / 1024, now = scx_bpf_now();
	u32 level, group = se->group;
	struct fair_group *tg;

	for_each_group_rq(tg, rq, above, level, group, cpu) {
		__sync_fetch_and_add(&rq->moved_load, sign * (s64)load);
		__sync_fetch_and_add(&rq->moved_runnable, sign * (s64)se->load_avg);
		load = load * (rq->weight / LOAD_SCALE) /
		       (rq->load_weight / LOAD_SCALE ?: se->own_weight);
		update_group_rq_load_avg(rq, cpu, now);
		update_entity_load(tg, rq, cpu);
	}
}

/* Load of a task that is in a group. */
__noinline u64 load_in_groups(const struct task_ctx *se __arg_nonnull)
{
	u64 load = se->own_weight * (se->load_avg >> PELT_SHIFT) / 1024;
	struct group_rq *rq, *above;
	u32 level, group = se->group;
	struct fair_group *tg;

	for_each_group_rq(tg, rq, above, level, group, se->pelt_cpu - 1)
		load = load * rq->entity_load / ((rq->load_avg >> PELT_SHIFT) + 1);
	return load;
}

/*
 * Makes the task count in its groups on @cpu and nowhere else, as runnable or as a sleeper that
 * still competes; nowhere if @cpu is -1.
 */
static __always_inline void count_in_groups(struct task_ctx *se, s32 cpu, bool runnable, u64 now)
{
	u64 weight = (u64)se->own_weight * LOAD_SCALE;
	s32 old = se->group_cpu - 1;
	bool stays = old == cpu && se->group_weight == weight;

	if (old >= 0)
		change_group_sums(se->group, old, stays ? 0 : -(s64)se->group_weight,
				  -(s32)se->group_runnable, now);
	if (cpu >= 0)
		change_group_sums(se->group, cpu, stays ? 0 : weight, runnable, now);
	se->group_cpu = cpu + 1;
	se->group_weight = weight;
	se->group_runnable = cpu >= 0 && runnable;
}

static __always_inline void leave_groups(struct task_ctx *se, u64 now)
{
	if (se->group_cpu)
		count_in_groups(se, -1, false, now);
}

/* The task's weight in the tree of @cpu: its own, times the parts that its groups leave of it. */
__noinline u64 calc_prop_weight(const struct task_ctx *se __arg_nonnull, s32 cpu)
{
	u64 h = NICE_0_LOAD, weight = (u64)se->own_weight * LOAD_SCALE;
	struct group_rq *rq, *above;
	u32 level, group = se->group;
	struct fair_group *tg;

	for_each_group_rq(tg, rq, above, level, group, cpu) {
		h = max(h * weight / (rq->load_weight ?: 1), MIN_SHARES);
		weight = rq->counted;
	}
	return max(h * weight / NICE_0_LOAD, MIN_SHARES);
}

/* Is a group that the task is in one of those that take the time that others leave (cpu.idle)? */
static __always_inline bool group_is_idle(u32 group)
{
	struct fair_group *tg;
	u32 level;

	bpf_for(level, 0, MAX_GROUP_DEPTH) {
		tg = group ? fair_group_of(group) : NULL;
		if (!tg)
			break;
		if (tg->cgroup.sched_idle)
			return true;
		group = tg->cgroup.parent;
	}
	return false;
}

/* The running task's tick: the averages and weights of its groups. */
__noinline int tick_groups(const struct task_ctx *se __arg_nonnull, s32 cpu, u64 now)
{
	struct group_rq *rq, *above;
	u32 level, group = se->group;
	struct fair_group *tg;

	for_each_group_rq(tg, rq, above, level, group, cpu)
		update_cfs_group(tg, rq, above, cpu, now);
	return 0;
}

/* Lets the averages of groups that have left this CPU fade. */
__noinline int update_blocked_groups(s32 cpu, u64 now)
{
	struct fair_group *tg;
	struct group_rq *rq;
	u32 group;

	bpf_for(group, 1, nr_groups) {
		tg = fair_group_of(group);
		rq = group_rq_of(group, cpu);
		if (tg && rq && (rq->contributed_load || rq->contributed_runnable)) {
			update_group_rq_load_avg(rq, cpu, now);
			update_tg_load_avg(tg, rq, now);
			update_entity_load(tg, rq, cpu);
		}
	}
	return 0;
}

/* ---- Groups come, change and go -------------------------------------------------------------- */

/* A group's shares have changed: so do its entities' weights on all CPUs. */
static __always_inline void set_shares(u32 group, u64 shares)
{
	struct fair_group *tg = fair_group_of(group);
	u64 now = scx_bpf_now();
	s32 cpu;

	if (!tg || !group)
		return;
	tg->cgroup.shares = shares;
	bpf_for(cpu, 0, nr_cpus)
		change_group_sums(group, cpu, 0, 0, now);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(eevdf_cgroup_init, struct cgroup *cgrp,
			     struct scx_cgroup_init_args *args)
{
	s32 error = number_group(cgrp, args);
	u32 number = own_group_number(cgrp);

	if (!error && number)
		init_cfs_bandwidth(number, cgrp, args);
	return error;
}

void BPF_STRUCT_OPS_SLEEPABLE(eevdf_cgroup_exit, struct cgroup *cgrp)
{
	u32 number = own_group_number(cgrp);
	struct fair_group *tg = fair_group_of(number);
	struct group_rq *rq;
	s32 cpu;

	if (!tg || !number)
		return;
	exit_cfs_bandwidth(number);
	bpf_for(cpu, 0, nr_cpus) {
		rq = group_rq_of(number, cpu);
		if (rq)
			__builtin_memset(rq, 0, sizeof(*rq));
	}
	tg->load_avg = 0;
	tg->runnable_avg = 0;
	tg->cgroup.used = false;
}

void BPF_STRUCT_OPS(eevdf_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	set_shares(own_group_number(cgrp), shares_of_weight(weight));
}

void BPF_STRUCT_OPS(eevdf_cgroup_set_idle, struct cgroup *cgrp, bool idle)
{
	u32 number = own_group_number(cgrp);
	struct fair_group *tg = fair_group_of(number);

	if (tg)
		tg->cgroup.sched_idle = idle;
	set_shares(number, shares_of(idle, DEFAULT_CGROUP_WEIGHT));
}

void BPF_STRUCT_OPS(eevdf_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us,
		    u64 burst_us)
{
	tg_set_cfs_bandwidth(own_group_number(cgrp), period_us, quota_us, burst_us);
}
