/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fair_select_cpu.h - where the fair class of Linux 7.3 puts a waking or new task
 *
 * A new task goes to the idlest CPU of the idlest group, domain by domain. A waking one goes to its
 * waker's CPU or its last one, or to an idle one that shares the cache with that. Names are those
 * of kernel/sched/fair.c.
 */
#pragma once

#include "eevdf.h"
#include "fair_balance.h"

/*
 * Adds up into env->sgs the CPUs that a new task may use, of the group of @count CPUs at position
 * @first. False if there are none.
 */
__noinline bool update_sg_wakeup_stats(struct task_struct *p __arg_trusted,
				       struct lb_env *env __arg_nonnull, u32 first, u32 count,
				       u32 imbalance_pct)
{
	struct sg_lb_stats *sgs = &env->sgs;
	struct run_queue *cfs_rq;
	bool allowed = false;
	u32 position;

	__builtin_memset(sgs, 0, sizeof(*sgs));
	sgs->first = first;
	for_each_rq_in_span(cfs_rq, position, first, count) {
		if (!cfs_rq->exists)
			continue;
		sgs->group_weight++;
		sgs->group_capacity += capacity_of(cfs_rq);
		sgs->max_capacity = max(sgs->max_capacity, capacity_of(cfs_rq));
		if (!bpf_cpumask_test_cpu(cfs_rq->cpu, p->cpus_ptr))
			continue;
		allowed = true;
		add_cpu_load(sgs, cfs_rq, env->now);
	}
	sgs->group_type = group_classify(imbalance_pct, sgs, false, false);
	sgs->avg_load = sgs->group_load * SCHED_CAPACITY_SCALE / (sgs->group_capacity ?: 1);
	return allowed;
}

/* Is the group @sgs idler than the idlest so far? */
static __always_inline bool update_pick_idlest(const struct sg_lb_stats *idlest,
					       const struct sg_lb_stats *sgs)
{
	if (sgs->group_type != idlest->group_type)
		return sgs->group_type < idlest->group_type;
	switch (sgs->group_type) {
	case GROUP_OVERLOADED:
	case GROUP_FULLY_BUSY:
		return sgs->avg_load < idlest->avg_load;
	case GROUP_HAS_SPARE:
		if (sgs->idle_cpus != idlest->idle_cpus)
			return sgs->idle_cpus > idlest->idle_cpus;
		return sgs->group_util < idlest->group_util;
	}
	return false;
}

/* Is the idlest group enough better than this CPU's own? */
static __always_inline bool worth_leaving(struct task_struct *p, const struct sg_lb_stats *local,
					  const struct sg_lb_stats *idlest,
					  const struct sched_domain *sd)
{
	u64 imbalance = NICE_0_LOAD * (sd->imbalance_pct - 100) / 100;
	s64 difference;

	if (local->group_type != idlest->group_type)
		return local->group_type > idlest->group_type;

	switch (local->group_type) {
	case GROUP_OVERLOADED:
	case GROUP_FULLY_BUSY:
		if ((sd->flags & SD_NUMA) && idlest->avg_load + imbalance >= local->avg_load)
			return false;
		return idlest->avg_load < local->avg_load + imbalance &&
		       100 * local->avg_load > sd->imbalance_pct * idlest->avg_load;
	case GROUP_HAS_SPARE:
		/* Stay near the parent as long as the node has few tasks */
		if (sd->flags & SD_NUMA) {
			difference = (s64)local->idle_cpus - idlest->idle_cpus;
			if (!adjust_numa_imbalance(difference < 0 ? -difference : difference,
						   local->sum_nr_running + 1,
						   min(sd->imb_numa_nr, p->nr_cpus_allowed)))
				return false;
		}
		return local->idle_cpus < idlest->idle_cpus;
	}
	return false;
}

/* The idlest group of a domain of @this_rq, in env->busiest; false: better stay in that CPU's. */
__noinline bool sched_balance_find_dst_group(struct task_struct *p __arg_trusted,
					     struct lb_env *env __arg_nonnull,
					     const struct run_queue *this_rq __arg_nonnull,
					     u32 level)
{
	bool has_local = false, has_idlest = false;
	const struct sched_domain *sd;
	struct run_queue *group_rq;
	u32 step, own;

	if (level >= NR_LEVELS)
		return false;
	sd = &this_rq->sd[level];
	own = own_group(this_rq, level).first;

	for_each_group(group_rq, step, &env->walk, this_rq, level, this_rq->span[level].first) {
		u32 first = env->walk.first;

		if (!update_sg_wakeup_stats(p, env, first, env->walk.count, sd->imbalance_pct))
			continue;
		if (first == own) {
			env->local = env->sgs;
			has_local = true;
		} else if (!has_idlest || update_pick_idlest(&env->busiest, &env->sgs)) {
			env->busiest = env->sgs;
			has_idlest = true;
		}
	}
	return has_idlest && (!has_local || worth_leaving(p, &env->local, &env->busiest, sd));
}

/* The CPU of env->busiest that was idle last, else the least loaded; @cpu if there is none. */
__noinline s32 sched_balance_find_dst_group_cpu(struct task_struct *p __arg_trusted,
						const struct lb_env *env __arg_nonnull, s32 cpu,
						bool idle_policy)
{
	u64 latest_idle_timestamp = 0, min_load = ~0ULL, load;
	s32 least_loaded_cpu = cpu, idle_cpu = -1;
	struct run_queue *cfs_rq;
	u32 position;

	for_each_rq_in_span(cfs_rq, position, env->busiest.first, env->busiest.group_weight) {
		s32 i = cfs_rq->cpu;

		if (!cfs_rq->exists || !bpf_cpumask_test_cpu(i, p->cpus_ptr))
			continue;
		if (!idle_policy && sched_idle_rq(cfs_rq))
			return i;
		if (available_idle_cpu(cfs_rq)) {
			if (idle_cpu < 0 || cfs_rq->idle_stamp > latest_idle_timestamp) {
				latest_idle_timestamp = cfs_rq->idle_stamp;
				idle_cpu = i;
			}
		} else if (idle_cpu < 0) {
			load = cpu_load(cfs_rq, env->now);
			if (load < min_load) {
				min_load = load;
				least_loaded_cpu = i;
			}
		}
	}
	return idle_cpu >= 0 ? idle_cpu : least_loaded_cpu;
}

/* A new task: the idlest CPU of the idlest group, domain by domain inward. env's CPU searches. */
__noinline s32 sched_balance_find_dst_cpu(struct task_struct *p __arg_trusted,
					  struct lb_env *env __arg_nonnull, s32 cpu,
					  bool idle_policy)
{
	u32 level, step;

	env->now = scx_bpf_now();
	bpf_for(step, 0, NR_LEVELS - 1) {
		struct run_queue *cfs_rq = run_queue_of(cpu);

		level = NR_LEVELS - 1 - step;
		if (!cfs_rq)
			break;
		if (domain_exists(cfs_rq->span, level) &&
		    (cfs_rq->sd[level].flags & SD_BALANCE_FORK) &&
		    sched_balance_find_dst_group(p, env, cfs_rq, level))
			cpu = sched_balance_find_dst_group_cpu(p, env, cpu, idle_policy);
	}
	return cpu;
}

static __always_inline void record_wakee(struct task_ctx *waker, const struct task_struct *p,
					 u64 now)
{
	if (now > waker->wakee_flip_decay + NSEC_PER_SEC) {
		waker->wakee_flips >>= 1;
		waker->wakee_flip_decay = now;
	}
	if (waker->last_wakee != p->pid) {
		waker->last_wakee = p->pid;
		waker->wakee_flips++;
	}
}

/* Do waker and wakee have too many partners for one cache? */
static __always_inline bool wake_wide(const struct run_queue *this_rq, const struct task_ctx *waker,
				      const struct task_ctx *se)
{
	u32 master = max(waker->wakee_flips, se->wakee_flips);
	u32 slave = min(waker->wakee_flips, se->wakee_flips);
	u32 factor = this_rq->span[LEVEL_MC].count;

	return slave >= factor && master >= slave * factor;
}

static __always_inline bool cpus_share_cache(const struct run_queue *one,
					     const struct run_queue *other)
{
	return one->span[LEVEL_MC].first == other->span[LEVEL_MC].first;
}

/* Should a task that last ran on @prev_rq wake on its waker's CPU? */
static __always_inline bool wake_affine(struct run_queue *this_rq, struct run_queue *prev_rq,
					const struct task_ctx *se, const struct task_ctx *waker,
					u32 imbalance_pct, bool sync, u64 now)
{
	u64 this_load, prev_load, current_load, task_load = task_h_load(se);

	/* If this CPU is idle, the wake-up comes from an interrupt */
	if (available_idle_cpu(this_rq) && cpus_share_cache(this_rq, prev_rq))
		return !available_idle_cpu(prev_rq);
	if (sync && this_rq->nr_running == 1)
		return true;
	if (available_idle_cpu(prev_rq))
		return false;

	this_load = cpu_load(this_rq, now);
	if (sync && waker) {
		current_load = task_h_load(waker);
		if (current_load > this_load)
			return true;
		this_load -= current_load;
	}
	this_load = (this_load + task_load) * 100 * prev_rq->capacity;
	prev_load = cpu_load(prev_rq, now);
	prev_load = prev_load > task_load ? prev_load - task_load : 0;
	prev_load *= (100 + (imbalance_pct - 100) / 2) * this_rq->capacity;
	return this_load < prev_load + sync;
}

/* Does the task fit a CPU of this capacity, and is its core free? */
static __always_inline bool asym_fits_cpu(const struct task_ctx *se, const struct run_queue *cfs_rq)
{
	if (!asym_active)
		return true;
	return fits_capacity(task_util_est(se), cfs_rq->capacity) &&
	       (!smt_active || is_core_idle(cfs_rq));
}

/* With CPUs of different speeds: the first idle one that is fast enough, else the fastest idle. */
__noinline s32 select_idle_capacity(struct task_struct *p __arg_trusted,
				    const struct task_ctx *se __arg_nonnull,
				    const struct run_queue *target_rq __arg_nonnull)
{
	struct topology_span span = target_rq->span[LEVEL_PKG];
	u32 start = target_rq->span[LEVEL_SELF].first - span.first, step, position;
	struct run_queue *cfs_rq;
	u64 best_cap = 0;
	s32 best_cpu = -1;

	bpf_for(step, 0, span.count) {
		s32 i;

		position = start + step;
		i = cpu_at(span.first + (position < span.count ? position : position - span.count));
		cfs_rq = run_queue_of(i);
		if (!cfs_rq || !bpf_cpumask_test_cpu(i, p->cpus_ptr) ||
		    !choose_idle_cpu(cfs_rq, se->idle_policy))
			continue;
		if (asym_fits_cpu(se, cfs_rq))
			return i;
		if (cfs_rq->capacity > best_cap) {
			best_cap = cfs_rq->capacity;
			best_cpu = i;
		}
	}
	return best_cpu;
}

/* How well a CPU suits a task that needs an idle one */
enum idle_match {
	NO_MATCH,
	/* Allowed, but not idle */
	ALLOWED_CPU,
	IDLE_CPU,
	/* Idle with all its siblings */
	IDLE_CORE,
};

__noinline u32 match_idle_cpu(struct task_struct *p __arg_trusted, s32 cpu, bool idle_policy)
{
	struct run_queue *cfs_rq = run_queue_of(cpu);

	if (!cfs_rq || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return NO_MATCH;
	if (!choose_idle_cpu(cfs_rq, idle_policy))
		return ALLOWED_CPU;
	return available_idle_cpu(cfs_rq) && is_core_idle(cfs_rq) ? IDLE_CORE : IDLE_CPU;
}

/*
 * An idle CPU that shares the cache of @target_rq: a wholly idle core if has_idle_core, otherwise
 * the first idle one of a few.
 */
__noinline s32 select_idle_cpu(struct task_struct *p __arg_trusted,
			       const struct run_queue *target_rq __arg_nonnull, bool has_idle_core,
			       bool idle_policy)
{
	struct topology_span span = target_rq->span[LEVEL_MC];
	u32 start = target_rq->span[LEVEL_SELF].first - span.first + 1, step, position, nr;
	struct run_queue *llc_rq = llc_of(target_rq);
	s32 idle_cpu = -1;

	if (!llc_rq || !llc_rq->nr_idle_scan)
		return -1;
	nr = llc_rq->nr_idle_scan + 1;

	bpf_for(step, 0, span.count) {
		s32 i;
		u32 match;

		position = start + step;
		i = cpu_at(span.first + (position < span.count ? position : position - span.count));
		match = match_idle_cpu(p, i, idle_policy);
		if (match == NO_MATCH)
			continue;
		if (!has_idle_core && !--nr)
			return -1;
		if (match == IDLE_CORE || (match == IDLE_CPU && !has_idle_core))
			return i;
		if (match == IDLE_CPU && idle_cpu < 0)
			idle_cpu = unlinked(i);
	}
	if (has_idle_core)
		llc_rq->has_idle_cores = false;
	return idle_cpu;
}

/* Another idle thread of the core of @target_rq. */
__noinline s32 select_idle_smt(struct task_struct *p __arg_trusted,
			       const struct run_queue *target_rq __arg_nonnull, bool idle_policy)
{
	struct run_queue *sibling;
	u32 position;

	for_each_rq_in_span(sibling, position, target_rq->span[LEVEL_SMT].first,
			    target_rq->span[LEVEL_SMT].count)
		if (sibling->cpu != target_rq->cpu &&
		    bpf_cpumask_test_cpu(sibling->cpu, p->cpus_ptr) &&
		    choose_idle_cpu(sibling, idle_policy))
			return sibling->cpu;
	return -1;
}

/* The CPU for a waking task: @target or an idle one close to it. */
static __always_inline s32 select_idle_sibling(struct task_struct *p, struct task_ctx *se, s32 prev,
					       s32 target, const struct task_struct *waker)
{
	struct run_queue *target_rq = run_queue_of(target), *prev_rq = run_queue_of(prev);
	struct run_queue *recent_rq, *llc_rq;
	bool idle_policy = se->idle_policy, has_idle_core = false;
	s32 recent_used_cpu, i;

	if (!target_rq || !prev_rq)
		return target;

	if (choose_idle_cpu(target_rq, idle_policy) && asym_fits_cpu(se, target_rq))
		return target;
	if (prev != target && cpus_share_cache(prev_rq, target_rq) &&
	    choose_idle_cpu(prev_rq, idle_policy) && asym_fits_cpu(se, prev_rq))
		return prev;

	/* A kernel thread of a CPU has done what the task queued there, and is about to sleep */
	if (kthread_is_per_cpu(waker) && !in_interrupt() &&
	    prev == (s32)bpf_get_smp_processor_id() && prev_rq->nr_running <= 1 &&
	    asym_fits_cpu(se, prev_rq))
		return prev;

	recent_used_cpu = se->recent_used_cpu - 1;
	se->recent_used_cpu = prev + 1;
	if (recent_used_cpu >= 0 && recent_used_cpu != prev && recent_used_cpu != target) {
		recent_rq = run_queue_of(recent_used_cpu);
		if (recent_rq && cpus_share_cache(recent_rq, target_rq) &&
		    choose_idle_cpu(recent_rq, idle_policy) &&
		    bpf_cpumask_test_cpu(recent_used_cpu, p->cpus_ptr) &&
		    asym_fits_cpu(se, recent_rq))
			return recent_used_cpu;
	}

	if (asym_active) {
		i = select_idle_capacity(p, se, target_rq);
		return i >= 0 ? i : target;
	}
	if (smt_active) {
		llc_rq = llc_of(target_rq);
		has_idle_core = llc_rq && llc_rq->has_idle_cores;
		if (!has_idle_core && cpus_share_cache(prev_rq, target_rq)) {
			i = select_idle_smt(p, prev_rq, idle_policy);
			if (i >= 0)
				return i;
		}
	}
	i = select_idle_cpu(p, target_rq, has_idle_core, idle_policy);
	return i >= 0 ? i : target;
}
