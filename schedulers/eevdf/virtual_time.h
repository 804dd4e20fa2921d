/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * virtual_time.h - the virtual time of a CPU, and who is eligible at it
 *
 * V is the average of the virtual runtimes of all competing tasks, by their weights. A task's lag
 * is V less its own virtual runtime, and it is eligible while that is not negative.
 */
#pragma once

#include "eevdf.h"

/* Time in which a task of @weight uses up @vdelta of virtual time, rounded up. */
static __always_inline u64 time_of_virtual(u64 vdelta, u64 weight)
{
	if (weight == NICE_0_LOAD)
		return vdelta;
	return (vdelta * weight + NICE_0_LOAD - 1) / NICE_0_LOAD;
}

static __always_inline u32 task_weight(const struct task_struct *p)
{
	return p->policy == SCHED_IDLE ? SCHED_IDLE_WEIGHT : weight_of_nice(task_nice(p));
}

/* The slice that @p asks for: the base slice, or its own. */
static __always_inline u64 task_slice(const struct task_struct *p)
{
	u64 slice;

	if (!p->se.custom_slice)
		return base_slice;
	slice = p->se.slice;
	return slice < MIN_CUSTOM_SLICE ? MIN_CUSTOM_SLICE : min(slice, MAX_CUSTOM_SLICE);
}

static __always_inline struct rq_lock *lock_of(const struct run_queue *cfs_rq)
{
	u32 key = (u32)cfs_rq->cpu % NR_LOCKS;

	return bpf_map_lookup_elem(&rq_locks, &key);
}

/* Takes the lock of a CPU's sums; NULL on a single CPU, where nothing interrupts a callback. */
static __always_inline struct rq_lock *lock_sums(const struct run_queue *cfs_rq)
{
	struct rq_lock *lock = topology_nr_online == 1 ? NULL : lock_of(cfs_rq);

	if (lock)
		bpf_spin_lock(&lock->lock);
	return lock;
}

static __always_inline void unlock_sums(struct rq_lock *lock)
{
	if (lock)
		bpf_spin_unlock(&lock->lock);
}

/*
 * Adds a waiting or delayed entity to the sums, or removes it if the weight is negative:
 * sum_w_vruntime = Sum (v_i - v0) * w_i. Returns the sums, without the running task.
 */
static __always_inline struct virtual_time sum_w_vruntime_add(struct run_queue *cfs_rq,
							      u64 vruntime, s64 weight)
{
	struct rq_lock *lock = lock_sums(cfs_rq);
	struct virtual_time time;

	time.zero = cfs_rq->zero_vruntime;
	time.avg = cfs_rq->sum_w_vruntime += (s64)(vruntime - time.zero) * weight;
	time.load = cfs_rq->sum_weight += weight;
	unlock_sums(lock);
	return time;
}

/*
 * Virtual time V = v0 + Sum (v_i - v0) * w_i / Sum w_i over all competing tasks, including the
 * running one, rounded down, so that a task placed there is eligible. The reference v0 becomes V.
 */
static __always_inline u64 avg_vruntime(struct run_queue *cfs_rq, u64 now)
{
	bool curr = cfs_rq->curr;
	u64 curr_vruntime = curr_vruntime_at(cfs_rq, now);
	u64 curr_weight = cfs_rq->curr_weight, weight, vruntime;
	struct rq_lock *lock = lock_sums(cfs_rq);
	s64 runtime, delta = 0;

	weight = cfs_rq->sum_weight;
	if (weight) {
		runtime = cfs_rq->sum_w_vruntime;
		if (curr) {
			runtime += (s64)(curr_vruntime - cfs_rq->zero_vruntime) * curr_weight;
			weight += curr_weight;
		}
		delta = divide_floor(runtime, weight);
	} else if (curr) {
		delta = curr_vruntime - cfs_rq->zero_vruntime;
	}
	cfs_rq->sum_w_vruntime -= cfs_rq->sum_weight * delta;
	cfs_rq->zero_vruntime += delta;
	vruntime = cfs_rq->zero_vruntime;
	unlock_sums(lock);
	return vruntime;
}

/* Makes the reference v0 another one. */
static __always_inline void move_zero(struct run_queue *cfs_rq, s64 delta)
{
	struct rq_lock *lock = lock_sums(cfs_rq);

	cfs_rq->sum_w_vruntime -= (s64)cfs_rq->sum_weight * delta;
	cfs_rq->zero_vruntime += delta;
	unlock_sums(lock);
}

/* Adds the running task to sums of the others. */
static __always_inline void add_curr(const struct run_queue *cfs_rq, struct virtual_time *time,
				     u64 now)
{
	if (!cfs_rq->curr)
		return;
	time->avg += (s64)(curr_vruntime_at(cfs_rq, now) - time->zero) * cfs_rq->curr_weight;
	time->load += cfs_rq->curr_weight;
}

/* The current sums over all competing tasks, for any number of calls of vruntime_eligible(). */
static __always_inline void virtual_time_of(struct run_queue *cfs_rq, struct virtual_time *time,
					    u64 now)
{
	*time = sum_w_vruntime_add(cfs_rq, 0, 0);
	add_curr(cfs_rq, time, now);
}

/* V of these sums. */
static __always_inline u64 average_of(const struct virtual_time *time)
{
	return time->zero + divide_floor(time->avg, time->load);
}

/*
 * lag_i >= 0 means v_i <= V, which without division error is
 *
 *	Sum (v_j - v0) * w_j >= (v_i - v0) * Sum w_j
 */
static __always_inline bool vruntime_eligible(const struct virtual_time *time, u64 vruntime)
{
	s64 key = vruntime - time->zero;

	if (key >= KEY_LIMIT || key <= -KEY_LIMIT || time->load >= LOAD_LIMIT)
		return divide_floor(time->avg, time->load) >= key;
	return time->avg >= key * (s64)time->load;
}

/*
 * Shortest or longest slice of all competing tasks. The kernel has them at the root of its tree;
 * here a CPU that has tasks with slices of their own examines all its tasks.
 */
__noinline u64 scan_slices(struct run_queue *cfs_rq __arg_nonnull, bool want_longest)
{
	u64 shortest = cfs_rq->curr ? cfs_rq->curr_slice : ~0ULL;
	u64 longest = cfs_rq->curr ? cfs_rq->curr_slice : 0;
	struct delayed_entity *delayed;
	struct task_ctx *se;
	struct task_struct *p;
	u32 i;

	bpf_rcu_read_lock();
	bpf_for(i, 0, 2) {
		for_each_queued(p, se, i ? ineligible_dsq(cfs_rq->cpu) : eligible_dsq(cfs_rq->cpu),
				0) {
			shortest = min(shortest, se->slice);
			longest = max(longest, se->slice);
		}
	}
	bpf_rcu_read_unlock();
	for_each_slot(delayed, i, cfs_rq, cfs_rq->delayed_top) {
		if (delayed->pid) {
			shortest = min(shortest, delayed->slice);
			longest = max(longest, delayed->slice);
		}
	}
	return want_longest ? longest : shortest;
}

static __always_inline u64 cfs_rq_min_slice(struct run_queue *cfs_rq)
{
	return cfs_rq->nr_custom ? scan_slices(cfs_rq, false) : base_slice;
}

static __always_inline u64 cfs_rq_max_slice(struct run_queue *cfs_rq)
{
	return cfs_rq->nr_custom ? scan_slices(cfs_rq, true) : base_slice;
}

/* Lag that a task may keep when it leaves a CPU where the longest slice is @max_slice. */
static __always_inline s64 max_lag(const struct task_ctx *se, u64 max_slice)
{
	return calc_delta_fair(max(max_slice, se->slice) + tick_nsec, se->h_load);
}

/* vlag = V - v, within limits. */
static __always_inline s64 entity_lag(struct run_queue *cfs_rq, const struct task_ctx *se,
				      u64 avruntime)
{
	s64 limit = max_lag(se, cfs_rq_max_slice(cfs_rq));

	return clamp(avruntime - se->vruntime, -limit, limit);
}

/* Adds the task to the sums of @cfs_rq, as waiting. */
static __always_inline struct virtual_time tree_add(struct run_queue *cfs_rq, struct task_ctx *se)
{
	se->in_tree = cfs_rq->cpu + 1;
	return sum_w_vruntime_add(cfs_rq, se->vruntime, se->h_load);
}

/* Removes it, most likely from the sums of @near: it no longer waits. */
static __always_inline void tree_del(struct run_queue *near, struct task_ctx *se)
{
	s32 old = __sync_lock_test_and_set(&se->in_tree, 0);
	struct run_queue *cfs_rq;

	if (!old)
		return;
	cfs_rq = run_queue_beside(near, old - 1);
	if (cfs_rq)
		sum_w_vruntime_add(cfs_rq, se->vruntime, -(s64)se->h_load);
}

/* ---- Placement ------------------------------------------------------------------------------- */

/* Keeps lag and deadline when the weight changes: the service owed is lag * weight. */
static __always_inline void rescale_entity(struct task_ctx *se, u64 weight)
{
	if (!se->h_load || se->h_load == weight)
		return;
	se->vlag = divide(se->vlag * se->h_load, weight);
	if (se->rel_deadline)
		se->deadline = divide((s64)se->deadline * se->h_load, weight);
}

/*
 * Lag with which to place a task so that it has @vlag afterwards: its arrival moves V by w * lag /
 * (W + w) toward itself, so
 *
 *	lag = vlag * (W + w) / W
 */
static __always_inline s64 inflate_lag(struct run_queue *cfs_rq, s64 vlag, u64 weight)
{
	u64 load = cfs_rq->sum_weight;
	s64 lag;

	if (cfs_rq->curr)
		load += cfs_rq->curr_weight;
	if (!place_lag || !vlag || !load)
		return 0;
	lag = vlag + divide(vlag * (s64)weight, load);
	/* The reference moves toward a heavy task, of whose key a multiple would not fit 64 bits */
	if (weight > load)
		move_zero(cfs_rq, -lag);
	return lag;
}

/*
 * Gives a task that comes to @cfs_rq its virtual runtime and deadline; @nr_queued others compete
 * there, with V at @avruntime.
 */
static __always_inline void place_entity(struct run_queue *cfs_rq, struct task_ctx *se,
					 u32 nr_queued, bool initial, u64 avruntime)
{
	u64 vslice = calc_delta_fair(se->slice, se->h_load);

	se->vruntime = avruntime;
	if (nr_queued)
		se->vruntime -= inflate_lag(cfs_rq, se->vlag, se->h_load);
	se->vruntime_cpu = cfs_rq->cpu + 1;

	if (se->rel_deadline) {
		se->deadline += se->vruntime;
		se->rel_deadline = false;
		return;
	}

	/* The others are halfway through their slices on average: a new one begins with half */
	if (place_deadline_initial && initial)
		vslice /= 2;

	/* vd_i = ve_i + r_i / w_i */
	se->deadline = se->vruntime + vslice;
}

/* A leaving task keeps its lag and, unless it sleeps, its deadline relative to vruntime. */
static __always_inline void save_lag(struct run_queue *cfs_rq, struct task_ctx *se, bool sleep,
				     u64 now)
{
	se->vlag = entity_lag(cfs_rq, se, avg_vruntime(cfs_rq, now));
	if (!sleep && !se->rel_deadline) {
		se->deadline -= se->vruntime;
		se->rel_deadline = true;
	}
}
