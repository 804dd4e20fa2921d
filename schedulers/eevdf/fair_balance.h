/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fair_balance.h - the balancer of the fair class of Linux 7.3
 *
 * CPUs pull tasks from the busiest CPU of the busiest group, domain by domain: at intervals, and
 * when they run out of work. Names are those of kernel/sched/fair.c and topology.c.
 */
#pragma once

#include "eevdf.h"
#include "virtual_time.h"
#include "fair_bandwidth.h"
#include "fair_energy.h"

__noinline s32 sched_balance_rq(struct run_queue *this_rq __arg_nonnull,
				struct sched_domain *sd __arg_nonnull, u32 level, u32 idle);

static __always_inline s32 balance_domain(struct run_queue *rq, struct sched_domain *sd, u32 level,
					  u32 idle)
{
	return sched_balance_rq(rq, sd, level, idle);
}

/* Runs nothing but tasks with policy SCHED_IDLE. */
static __always_inline bool sched_idle_rq(const struct run_queue *cfs_rq)
{
	return cfs_rq->nr_running && cfs_rq->nr_running == cfs_rq->nr_idle;
}

#include "domain_balance.h"

/* The level of the next domain outward, or NR_LEVELS. */
static __always_inline u32 parent_level(const struct run_queue *cfs_rq, u32 level)
{
	u32 parent;

	for (parent = LEVEL_SMT; parent < NR_LEVELS; parent++) {
		if (parent > level && domain_exists(cfs_rq->span, parent))
			return parent;
	}
	return NR_LEVELS;
}

/* The run queue whose record the CPUs of a last-level cache share. */
static __always_inline struct run_queue *llc_of(const struct run_queue *cfs_rq)
{
	return run_queue_of(cpu_at(cfs_rq->span[LEVEL_MC].first));
}

static __always_inline bool available_idle_cpu(const struct run_queue *cfs_rq)
{
	return cfs_rq->exists && cfs_rq->idle && !cfs_rq->nr_running;
}

static __always_inline bool choose_idle_cpu(const struct run_queue *cfs_rq, bool idle_policy)
{
	return available_idle_cpu(cfs_rq) || (!idle_policy && sched_idle_rq(cfs_rq));
}

/* Are all other CPUs of the core idle? */
static __always_inline bool is_core_idle(const struct run_queue *cfs_rq)
{
	u32 first = cfs_rq->span[LEVEL_SMT].first, position;
	struct run_queue *sibling;

	for_each_rq_in_span(sibling, position, first, cfs_rq->span[LEVEL_SMT].count)
		if (sibling->cpu != cfs_rq->cpu && !available_idle_cpu(sibling))
			return false;
	return true;
}

/* Remembers the load of the running task if this CPU is too slow for it and a faster one is not. */
static __always_inline void update_misfit_status(struct run_queue *cfs_rq,
						 const struct task_struct *p,
						 const struct task_ctx *se)
{
	u64 load = 0;

	if (!asym_active)
		return;
	if (p && se && p->nr_cpus_allowed > 1 && cfs_rq->capacity < SCHED_CAPACITY_SCALE &&
	    !fits_capacity(task_util_est(se), cfs_rq->capacity))
		load = max(task_h_load(se), 1);
	if (!load != !cfs_rq->misfit_task_load)
		__sync_fetch_and_add(&nr_overloaded, load ? 1 : -1);
	cfs_rq->misfit_task_load = load;
}

static __always_inline bool group_is_overloaded(u32 imbalance_pct, const struct sg_lb_stats *sgs)
{
	if (sgs->sum_nr_running <= sgs->group_weight)
		return false;
	return sgs->group_capacity * 100 < sgs->group_util * imbalance_pct ||
	       sgs->group_capacity * imbalance_pct < sgs->group_runnable * 100;
}

static __always_inline bool group_has_capacity(u32 imbalance_pct, const struct sg_lb_stats *sgs)
{
	if (sgs->sum_nr_running < sgs->group_weight)
		return true;
	if (sgs->group_capacity * imbalance_pct < sgs->group_runnable * 100)
		return false;
	return sgs->group_capacity * 100 > sgs->group_util * imbalance_pct;
}

static __always_inline u32 group_classify(u32 imbalance_pct, const struct sg_lb_stats *sgs,
					  bool imbalanced, bool smt_balance)
{
	if (group_is_overloaded(imbalance_pct, sgs))
		return GROUP_OVERLOADED;
	if (imbalanced)
		return GROUP_IMBALANCED;
	if (smt_balance)
		return GROUP_SMT_BALANCE;
	if (sgs->misfit_task_load)
		return GROUP_MISFIT_TASK;
	if (!group_has_capacity(imbalance_pct, sgs))
		return GROUP_FULLY_BUSY;
	return GROUP_HAS_SPARE;
}

/* Adds the load of a CPU to the sums of its group. */
static __always_inline void add_cpu_load(struct sg_lb_stats *sgs, const struct run_queue *cfs_rq,
					 u64 now)
{
	sgs->group_load += cpu_load(cfs_rq, now);
	sgs->group_util += cpu_util_cfs(cfs_rq, now);
	sgs->group_runnable += cpu_runnable(cfs_rq, now);
	sgs->sum_h_nr_running += cfs_rq->nr_running;
	sgs->sum_nr_running += h_nr_queued(cfs_rq) + cfs_rq->real_time;
	sgs->idle_cpus += available_idle_cpu(cfs_rq);
}

/* Adds up the group of @count CPUs whose first is @group_rq into env->sgs of @this_rq. */
__noinline int update_sg_lb_stats(struct run_queue *this_rq __arg_nonnull,
				  const struct sched_domain *sd __arg_nonnull,
				  const struct run_queue *group_rq __arg_nonnull, u32 count,
				  bool local_group)
{
	struct lb_env *env = &this_rq->env;
	struct sg_lb_stats *sgs = &env->sgs;
	struct run_queue *cfs_rq;
	u32 position, level = env->level;
	bool imbalanced;

	__builtin_memset(sgs, 0, sizeof(*sgs));
	sgs->first = group_rq->span[LEVEL_SELF].first;
	sgs->min_capacity = ~0ULL;
	/* The group consists of threads of one core */
	sgs->smt = count > 1 && group_rq->span[LEVEL_SMT].count == count;

	for_each_rq_in_span(cfs_rq, position, sgs->first, count) {
		u64 capacity;

		if (!cfs_rq->exists)
			continue;
		sgs->group_weight++;
		sgs->cores += cfs_rq->span[LEVEL_SMT].first == position;
		capacity = capacity_of(cfs_rq);
		sgs->group_capacity += capacity;
		sgs->min_capacity = min(sgs->min_capacity, capacity);
		sgs->max_capacity = max(sgs->max_capacity, capacity);
		if (is_pinned(&env->pinned, cfs_rq->cpu))
			continue;

		add_cpu_load(sgs, cfs_rq, env->now);
		if (cpu_overutilized(cfs_rq, env->now))
			env->overutilized = true;
		if (!local_group && (sd->flags & SD_ASYM_CPUCAPACITY) &&
		    !available_idle_cpu(cfs_rq))
			sgs->misfit_task_load = max(sgs->misfit_task_load,
						    cfs_rq->misfit_task_load);
	}
	/* A CPU that is not faster cannot help a misfit task */
	if (sgs->misfit_task_load && !capacity_greater(this_rq->capacity, sgs->max_capacity))
		sgs->misfit_task_load = 0;

	imbalanced = is_within(level, LEVEL_SMT, NR_LEVELS) && group_rq->group_imbalance[level];
	sgs->group_type = group_classify(sd->imbalance_pct, sgs, imbalanced,
					 !local_group && env->idle != CPU_NOT_IDLE && sgs->smt &&
						 sgs->sum_h_nr_running > 1);
	if (sgs->group_type == GROUP_OVERLOADED)
		sgs->avg_load = sgs->group_load * SCHED_CAPACITY_SCALE / (sgs->group_capacity ?: 1);
	return 0;
}

/* Is the group env->sgs busier than env->busiest, the busiest so far? */
static __always_inline bool update_sd_pick_busiest(const struct run_queue *this_rq,
						   const struct lb_env *env, u32 flags)
{
	const struct sg_lb_stats *sgs = &env->sgs, *busiest = &env->busiest;

	if (!sgs->sum_h_nr_running)
		return false;
	/* Only a CPU with nothing else to do can help a task that does not fit */
	if ((flags & SD_ASYM_CPUCAPACITY) && sgs->group_type == GROUP_MISFIT_TASK &&
	    (env->local.group_type != GROUP_HAS_SPARE || !is_core_idle(this_rq)))
		return false;
	/* And a slower CPU cannot help a task that has a CPU to itself */
	if ((flags & SD_ASYM_CPUCAPACITY) && sgs->group_type <= GROUP_FULLY_BUSY &&
	    capacity_greater(sgs->min_capacity, this_rq->capacity))
		return false;

	if (!env->has_busiest || sgs->group_type > busiest->group_type)
		return true;
	if (sgs->group_type < busiest->group_type)
		return false;

	switch (sgs->group_type) {
	case GROUP_OVERLOADED:
		return sgs->avg_load > busiest->avg_load;
	case GROUP_IMBALANCED:
		return false;
	case GROUP_MISFIT_TASK:
		return sgs->misfit_task_load > busiest->misfit_task_load;
	case GROUP_FULLY_BUSY:
		/* Threads that share a core need help most */
		return !busiest->smt;
	case GROUP_SMT_BALANCE:
		if (!sgs->idle_cpus && !busiest->idle_cpus)
			return !busiest->smt;
		break;
	case GROUP_HAS_SPARE:
		if (sgs->smt != busiest->smt)
			return !(sgs->smt && sgs->sum_h_nr_running <= 1);
		break;
	}
	/* Fewest idle CPUs, then most tasks */
	if (sgs->idle_cpus != busiest->idle_cpus)
		return sgs->idle_cpus < busiest->idle_cpus;
	return sgs->sum_nr_running > busiest->sum_nr_running;
}

/* How many tasks the busiest group has more than this one, in proportion to their cores. */
static __always_inline s64 sibling_imbalance(const struct lb_env *env)
{
	const struct sg_lb_stats *local = &env->local, *busiest = &env->busiest;
	s64 imbalance;

	if (env->idle == CPU_NOT_IDLE || !busiest->sum_nr_running)
		return 0;
	if (busiest->cores == local->cores) {
		imbalance = (s64)busiest->sum_nr_running - local->sum_nr_running;
		return imbalance > 0 ? imbalance : 0;
	}

	imbalance = (s64)local->cores * busiest->sum_nr_running -
		    (s64)busiest->cores * local->sum_nr_running;
	if (imbalance < 0)
		imbalance = 0;
	imbalance = (u64)(2 * imbalance + local->cores + busiest->cores) /
		    (local->cores + busiest->cores);
	if (imbalance <= 1 && !local->sum_nr_running && busiest->sum_nr_running > 1)
		imbalance = 2;
	return imbalance;
}

/* An imbalance between nodes is allowed as long as few tasks run. */
static __always_inline s64 adjust_numa_imbalance(s64 imbalance, u32 dst_running, u32 imb_numa_nr)
{
	if (dst_running > imb_numa_nr)
		return imbalance;
	return imbalance <= NUMA_IMBALANCE_MIN ? 0 : imbalance;
}

/* What to move from the busiest group to this one, in which unit; env->imbalance 0: nothing. */
static __always_inline void calculate_imbalance(struct lb_env *env, const struct sched_domain *sd)
{
	struct sg_lb_stats *local = &env->local, *busiest = &env->busiest;
	u64 avg_load;

	env->migration_type = MIGRATE_TASK;
	env->imbalance = 1;

	switch (busiest->group_type) {
	case GROUP_MISFIT_TASK:
		env->migration_type = MIGRATE_MISFIT;
		return;
	case GROUP_SMT_BALANCE:
	case GROUP_IMBALANCED:
		return;
	}

	if (local->group_type == GROUP_HAS_SPARE) {
		if (busiest->group_type > GROUP_FULLY_BUSY && !(sd->flags & SD_SHARE_LLC)) {
			/* Fill the rest of this group's capacity */
			env->migration_type = MIGRATE_UTIL;
			env->imbalance = local->group_capacity > local->group_util ?
					 local->group_capacity - local->group_util : 0;
			if (env->idle != CPU_NOT_IDLE && !env->imbalance) {
				env->migration_type = MIGRATE_TASK;
				env->imbalance = 1;
			}
			return;
		}
		if (busiest->group_weight == 1 || env->prefer_sibling)
			env->imbalance = sibling_imbalance(env);
		else
			env->imbalance = local->idle_cpus > busiest->idle_cpus ?
					 local->idle_cpus - busiest->idle_cpus : 0;
		if (sd->flags & SD_NUMA)
			env->imbalance = adjust_numa_imbalance(env->imbalance,
							       local->sum_nr_running + 1,
							       sd->imb_numa_nr);
		env->imbalance >>= 1;
		return;
	}

	avg_load = env->total_load * SCHED_CAPACITY_SCALE / (env->total_capacity ?: 1);
	env->migration_type = MIGRATE_LOAD;
	env->imbalance = 0;
	if (local->group_type < GROUP_OVERLOADED)
		local->avg_load = local->group_load * SCHED_CAPACITY_SCALE /
				  (local->group_capacity ?: 1);
	if (local->avg_load >= busiest->avg_load || local->avg_load >= avg_load ||
	    busiest->avg_load <= avg_load)
		return;

	/* Bring neither this group above the average nor the busiest below it */
	env->imbalance = min((busiest->avg_load - avg_load) * busiest->group_capacity,
			     (avg_load - local->avg_load) * local->group_capacity) /
			 SCHED_CAPACITY_SCALE;
}

/* How many CPUs of an LLC a wake-up looks at: fewer the busier they are, none from 85 % on. */
static __always_inline void update_idle_cpu_scan(const struct run_queue *this_rq,
						 const struct sched_domain *sd)
{
	u64 weight = this_rq->span[LEVEL_MC].count, x, y, pct = sd->imbalance_pct;
	struct run_queue *llc_rq = llc_of(this_rq);
	const struct lb_env *env = &this_rq->env;

	if (env->idle == CPU_NEWLY_IDLE || env->level >= NR_LEVELS || !llc_rq ||
	    this_rq->span[env->level].count != weight)
		return;
	x = env->sum_util / (weight ?: 1);
	y = min(x * x * pct * pct / (10000 * SCHED_CAPACITY_SCALE), SCHED_CAPACITY_SCALE);
	llc_rq->nr_idle_scan = (SCHED_CAPACITY_SCALE - y) * weight / SCHED_CAPACITY_SCALE;
}

/* Looks at all groups of the domain, beginning with this CPU's own: env->local, env->busiest. */
__noinline int update_sd_lb_stats(struct run_queue *this_rq __arg_nonnull,
				  const struct sched_domain *sd __arg_nonnull)
{
	struct lb_env *env = &this_rq->env;
	u32 level = env->level, own, step;
	struct run_queue *group_rq;

	if (!is_within(level, LEVEL_SMT, NR_LEVELS))
		return 0;
	env->has_busiest = false;
	env->prefer_sibling = false;
	env->total_load = 0;
	env->total_capacity = 0;
	env->sum_util = 0;
	env->overutilized = false;
	own = own_group(this_rq, level).first;

	for_each_group(group_rq, step, &env->walk, this_rq, level, own) {
		update_sg_lb_stats(this_rq, sd, group_rq, env->walk.count, !step);
		if (!step) {
			env->local = env->sgs;
		} else if (update_sd_pick_busiest(this_rq, env, sd->flags)) {
			env->busiest = env->sgs;
			env->has_busiest = true;
			/* The groups are domains themselves, whose tasks should rather be spread */
			env->prefer_sibling = env->walk.count > 1 &&
					      (group_rq->sd[level - 1].flags & SD_PREFER_SIBLING);
		}
		env->total_load += env->sgs.group_load;
		env->total_capacity += env->sgs.group_capacity;
		env->sum_util += env->sgs.group_util;
	}
	/* Only the outermost domain sees that no CPU is */
	if (env->overutilized || parent_level(this_rq, level) == NR_LEVELS)
		rd_overutilized = env->overutilized;
	update_idle_cpu_scan(this_rq, sd);
	return 0;
}

/* Is there a group to take from, and how much? False if all is balanced. */
__noinline bool sched_balance_find_src_group(struct lb_env *env __arg_nonnull,
					     const struct sched_domain *sd __arg_nonnull)
{
	const struct sg_lb_stats *local = &env->local, *busiest = &env->busiest;
	u64 avg_load;

	env->imbalance = 0;
	if (!env->has_busiest)
		return false;
	if (busiest->group_type == GROUP_MISFIT_TASK)
		goto force_balance;
	/* Tasks stay where they cost least */
	if (load_is_left_alone())
		return false;
	if (busiest->group_type == GROUP_IMBALANCED)
		goto force_balance;
	if (local->group_type > busiest->group_type)
		return false;

	if (local->group_type == GROUP_OVERLOADED) {
		avg_load = env->total_load * SCHED_CAPACITY_SCALE / (env->total_capacity ?: 1);
		if (local->avg_load >= busiest->avg_load || local->avg_load >= avg_load ||
		    100 * busiest->avg_load <= sd->imbalance_pct * local->avg_load)
			return false;
	}

	if (env->prefer_sibling && local->group_type == GROUP_HAS_SPARE &&
	    sibling_imbalance(env) > 1)
		goto force_balance;

	if (busiest->group_type != GROUP_OVERLOADED) {
		/* An idle CPU should help, not this one */
		if (env->idle == CPU_NOT_IDLE)
			return false;
		if (busiest->group_type == GROUP_SMT_BALANCE && local->smt != busiest->smt)
			goto force_balance;
		if (busiest->group_weight > 1 && local->idle_cpus <= busiest->idle_cpus + 1)
			return false;
		if (busiest->sum_h_nr_running == 1)
			return false;
	}

force_balance:
	calculate_imbalance(env, sd);
	return env->imbalance > 0;
}

/*
 * How much a CPU of the busiest group has of the kind that @this_rq should pull: load, utilization,
 * tasks, or the load of a misfit task; 0 if nothing should be taken from it. A function of its own,
 * because the verifier would follow each of its branches through the rest of the walk.
 */
__noinline u64 load_to_move(const struct run_queue *this_rq __arg_nonnull,
			    const struct sched_domain *sd __arg_nonnull,
			    const struct run_queue *cfs_rq __arg_nonnull)
{
	const struct lb_env *env = &this_rq->env;
	u32 nr_running = cfs_rq->nr_running;
	u64 load;

	if (!nr_running || is_pinned(&env->pinned, cfs_rq->cpu))
		return 0;
	/* No single task from a faster CPU to a slower one */
	if ((sd->flags & SD_ASYM_CPUCAPACITY) && nr_running == 1 &&
	    !capacity_greater(this_rq->capacity, cfs_rq->capacity) &&
	    !(smt_active && !is_core_idle(cfs_rq)))
		return 0;

	switch (env->migration_type) {
	case MIGRATE_LOAD:
		load = cpu_load(cfs_rq, env->now);
		if (nr_running == 1 && !cfs_rq->real_time && (s64)load > env->imbalance)
			return 0;
		return load;
	case MIGRATE_UTIL:
		if (nr_running == 1)
			return 0;
		return max(cpu_util_cfs(cfs_rq, env->now),
			   min(cpu_runnable(cfs_rq, env->now), cfs_rq->capacity));
	case MIGRATE_TASK:
		return nr_running;
	case MIGRATE_MISFIT:
		return cfs_rq->misfit_task_load;
	}
	return 0;
}

/* The CPU of the busiest group to take from, relative to capacities; -1 if there is none. */
__noinline s32 sched_balance_find_src_rq(const struct run_queue *this_rq __arg_nonnull,
					 const struct sched_domain *sd __arg_nonnull)
{
	u64 busiest_load = 0, busiest_capacity = 1, load, capacity;
	const struct lb_env *env = &this_rq->env;
	struct run_queue *cfs_rq;
	s32 busiest = -1;
	u32 position;

	for_each_rq_in_span(cfs_rq, position, env->busiest.first, env->busiest.group_weight) {
		load = load_to_move(this_rq, sd, cfs_rq);
		capacity = env->migration_type == MIGRATE_LOAD ? capacity_of(cfs_rq) : 1;
		if (load * busiest_capacity > busiest_load * capacity) {
			busiest_load = load;
			busiest_capacity = capacity;
			busiest = cfs_rq->cpu;
		}
	}
	return busiest;
}

static __always_inline bool kthread_is_per_cpu(const struct task_struct *p)
{
	return (p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1;
}

/* Did the task run so recently that its data may still be in the CPU's cache? */
static __always_inline bool task_hot(const struct task_struct *p, const struct task_ctx *se,
				     const struct run_queue *src_rq, const struct run_queue *dst_rq,
				     u32 flags, u64 now)
{
	if (se->idle_policy || (flags & SD_SHARE_CPUCAPACITY))
		return false;
	if (dst_rq->nr_running && src_rq->next_pid == p->pid)
		return true;
	return (s64)(now - se->exec_start) < (s64)sched_migration_cost;
}

/* May the waiting task be moved? */
static __always_inline bool can_migrate_task(struct lb_env *env, const struct sched_domain *sd,
					     struct task_struct *p, const struct task_ctx *se,
					     struct run_queue *src_rq, struct run_queue *dst_rq)
{
	u32 position;
	s32 cpu;

	/* It would be ineligible there, too: moved only if all else has failed */
	if (!sd->nr_balance_failed && place_lag && h_nr_queued(dst_rq) &&
	    !vruntime_eligible(&env->src_time, se->vruntime))
		return false;
	if (dst_rq->nr_throttled && throttled_hierarchy(se->group, dst_rq->cpu))
		return false;
	if (kthread_is_per_cpu(p))
		return false;

	if (!task_allowed(p, dst_rq->cpu)) {
		env->some_pinned = true;
		if (env->idle == CPU_NEWLY_IDLE || env->dst_pinned || is_migration_disabled(p))
			return false;
		/* Another CPU of this group may take it */
		for_each_cpu_in_span(cpu, position, env->dst_grpmask.first,
				     env->dst_grpmask.count) {
			if (cpu != dst_rq->cpu && bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
				env->dst_pinned = true;
				env->new_dst_cpu = cpu;
				break;
			}
		}
		return false;
	}
	env->all_pinned = false;

	return !task_hot(p, se, src_rq, dst_rq, sd->flags, env->now) ||
	       sd->nr_balance_failed > sd->cache_nice_tries;
}

/* Is the task within the amount left to move? Subtracts it if so. */
static __always_inline bool within_imbalance(struct lb_env *env, const struct sched_domain *sd,
					     const struct task_ctx *se,
					     const struct run_queue *src_rq)
{
	s64 amount = 1;

	switch (env->migration_type) {
	case MIGRATE_LOAD:
	case MIGRATE_UTIL:
		/* A task that is too large becomes small enough after several failures */
		amount = env->migration_type == MIGRATE_LOAD ? max(task_h_load(se), 1) :
							       task_util_est(se);
		if (amount >> min(sd->nr_balance_failed, 63) > env->imbalance)
			return false;
		break;
	case MIGRATE_MISFIT:
		if (fits_capacity(task_util_est(se), src_rq->capacity))
			return false;
		amount = env->imbalance;
		break;
	}
	env->imbalance -= amount;
	return true;
}

/*
 * The weight of a waiting task on another CPU, where it counts in its groups from now on; its lag,
 * place->vlag, remains the same service.
 */
static __always_inline void weigh_on(struct run_queue *dst_rq, struct task_ctx *se,
				     struct placement *place, u64 now)
{
	place->h_load = se->h_load;
	if (!se->group)
		return;
	count_in_groups(se, dst_rq->cpu, true, now);
	place->h_load = calc_prop_weight(se, dst_rq->cpu);
	place->vlag = divide(place->vlag * (s64)se->h_load, place->h_load);
}

/*
 * The place of a waiting task that weighs place->h_load on another CPU: it keeps its lag,
 * place->vlag, and its relative deadline. A function of its own, as is account_moved_entity(),
 * because the verifier would follow each of its branches through the rest of the walk.
 */
__noinline int place_on(struct run_queue *dst_rq __arg_nonnull,
			const struct task_ctx *se __arg_nonnull,
			struct placement *place __arg_nonnull, u64 now)
{
	struct virtual_time time = {};

	place->vruntime = avg_vruntime(dst_rq, now);
	if (h_nr_queued(dst_rq))
		place->vruntime -= inflate_lag(dst_rq, place->vlag, place->h_load);
	place->deadline = se->deadline - se->vruntime;
	if (place->h_load != se->h_load)
		place->deadline = divide((s64)place->deadline * (s64)se->h_load, place->h_load);
	place->deadline += place->vruntime;
	virtual_time_of(dst_rq, &time, now);
	time.avg += (s64)(place->vruntime - time.zero) * (s64)place->h_load;
	time.load += place->h_load;
	place->eligible = vruntime_eligible(&time, place->vruntime);
	return 0;
}

/* Moves the accounting of a task moved to another queue; it may have left meanwhile. */
__noinline int account_moved_entity(struct task_ctx *se __arg_nonnull,
				    struct run_queue *from __arg_nonnull,
				    struct run_queue *to __arg_nonnull,
				    const struct placement *place __arg_nonnull, u64 now)
{
	u64 vruntime = se->vruntime;

	if (__sync_val_compare_and_swap(&se->in_tree, from->cpu + 1, 0) != from->cpu + 1)
		return 0;
	sum_w_vruntime_add(from, vruntime, -(s64)se->h_load);
	if (se->group)
		se->h_load = place->h_load;
	se->vruntime = place->vruntime;
	se->deadline = place->deadline;
	se->vlag = place->vlag;
	se->vruntime_cpu = to->cpu + 1;
	tree_add(to, se);

	if (account_move(se, from, to, now))
		attach_entity_load_avg(to, se);
	hrtick_update(to, now);
	return 0;
}

/*
 * Moves task @p of an iteration over a queue of @from to @to, with the lag in @place; the rest of
 * @place is set to its new place.
 */
#define move_entity(p, se, from, to, place, now)						\
	({											\
		bool moved_;									\
												\
		weigh_on(to, se, place, now);							\
		place_on(to, se, place, now);							\
		scx_bpf_dsq_move_set_vtime(DSQ_ITERATOR, (place)->eligible ? (place)->deadline : \
									     (place)->vruntime); \
		moved_ = scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p,				\
						(place)->eligible ? eligible_dsq((to)->cpu) :	\
								    ineligible_dsq((to)->cpu), 0); \
		if (moved_) {									\
			clear_buddies(from, (p)->pid);						\
			account_moved_entity(se, from, to, place, now);				\
			(to)->pulled_pid = (p)->pid;						\
		} else if ((se)->group) {							\
			count_in_groups(se, (from)->cpu, true, now);				\
		}										\
		moved_;										\
	})

/*
 * Takes tasks from one queue of @src_rq to @dst_rq, until env->imbalance is used up or all have
 * been looked at. Adds their number to env->pulled.
 */
__noinline int detach_tasks(struct lb_env *env __arg_nonnull,
			    const struct sched_domain *sd __arg_nonnull,
			    struct run_queue *src_rq __arg_nonnull,
			    struct run_queue *dst_rq __arg_nonnull, bool eligible)
{
	u64 dsq = eligible ? eligible_dsq(src_rq->cpu) : ineligible_dsq(src_rq->cpu);
	struct task_struct *p;
	s64 limit;

	env->src_avruntime = avg_vruntime(src_rq, env->now);
	virtual_time_of(src_rq, &env->src_time, env->now);

	bpf_for_each(scx_dsq, p, dsq, 0) {
		struct task_ctx *se;
		s64 imbalance = env->imbalance;

		if (imbalance <= 0 || (env->idle != CPU_NOT_IDLE && rq_nr_running(src_rq) <= 1))
			break;
		if (env->loop++ >= env->loop_max)
			break;
		se = task_ctx_of(p);
		if (!se || !can_migrate_task(env, sd, p, se, src_rq, dst_rq) ||
		    !within_imbalance(env, sd, se, src_rq))
			continue;

		limit = max_lag(se, env->src_max_slice);
		env->place.vlag = clamp(env->src_avruntime - se->vruntime, -limit, limit);
		if (!move_entity(p, se, src_rq, dst_rq, &env->place, env->now)) {
			env->imbalance = imbalance;
			continue;
		}
		env->pulled++;
		/* One is enough to end idleness */
		if (env->idle == CPU_NEWLY_IDLE) {
			env->imbalance = 0;
			break;
		}
	}
	return 0;
}

/* Moves tasks from @src_rq to @dst_rq, first those that are owed service. Returns how many. */
static __always_inline s32 move_tasks(struct lb_env *env, const struct sched_domain *sd,
				      struct run_queue *src_rq, struct run_queue *dst_rq)
{
	env->loop = 0;
	env->dst_pinned = false;
	/* The running task is not moved, but counts here */
	if (env->all_pinned && !curr_is_pinned(src_rq->cpu, dst_rq->cpu))
		env->all_pinned = false;

	env->pulled = 0;
	env->src_max_slice = cfs_rq_max_slice(src_rq);
	detach_tasks(env, sd, src_rq, dst_rq, true);
	if (env->imbalance > 0)
		detach_tasks(env, sd, src_rq, dst_rq, false);
	count_by(STAT_PULLED_BUSY + env->idle, env->pulled);
	return env->pulled;
}

/* Tasks have been put into a queue of a CPU that is not locked: makes it reschedule. */
static __always_inline void kick_for_pulled(struct run_queue *cfs_rq)
{
	cfs_rq->need_resched = true;
	scx_bpf_kick_cpu(cfs_rq->cpu, cfs_rq->curr ? SCX_KICK_PREEMPT : SCX_KICK_IDLE);
}

/*
 * Should this CPU balance the domain? The first idle CPU of its group should, preferably on an idle
 * core, otherwise the first CPU of the group. A newly idle CPU always may.
 */
static __always_inline bool should_we_balance(const struct run_queue *this_rq,
					      const struct sched_domain *sd, u32 level, u32 idle)
{
	struct topology_span group = own_group(this_rq, level);
	struct run_queue *cfs_rq;
	s32 idle_smt = -1;
	u32 position;

	if (idle == CPU_NEWLY_IDLE)
		return !this_rq->nr_running;

	for_each_rq_in_span(cfs_rq, position, group.first, group.count) {
		if (!available_idle_cpu(cfs_rq) &&
		    !(cfs_rq->cpu == this_rq->cpu && idle == CPU_IDLE))
			continue;
		if (smt_active && !(sd->flags & SD_SHARE_CPUCAPACITY) && !is_core_idle(cfs_rq)) {
			if (idle_smt < 0)
				idle_smt = cfs_rq->cpu;
			continue;
		}
		return cfs_rq->cpu == this_rq->cpu;
	}
	return (idle_smt >= 0 ? idle_smt : cpu_at(group.first)) == this_rq->cpu;
}

/* Balances one domain of this CPU. Returns how many tasks moved, or BALANCE_ELSEWHERE. */
__noinline s32 sched_balance_rq(struct run_queue *this_rq __arg_nonnull,
				struct sched_domain *sd __arg_nonnull, u32 level, u32 idle)
{
	struct run_queue *busiest = NULL, *dst_rq, *group_rq;
	bool all_pinned = false, balanced = true;
	struct lb_env *env = &this_rq->env;
	u32 round, again, parent;
	s32 ld_moved = 0;

	if (level >= NR_LEVELS || !should_we_balance(this_rq, sd, level, idle))
		return BALANCE_ELSEWHERE;
	group_rq = run_queue_of(cpu_at(this_rq->span[level].first));
	parent = parent_level(this_rq, level);

	env->now = scx_bpf_now();
	env->level = level;
	env->dst_grpmask = own_group(this_rq, level);
	env->idle = idle;
	env->pinned.number = 0;
	env->migration_type = MIGRATE_LOAD;
	count(STAT_BALANCES);

	bpf_for(round, 0, MAX_PINNED_CPUS + 1) {
		balanced = true;
		env->all_pinned = false;
		update_sd_lb_stats(this_rq, sd);
		if (!sched_balance_find_src_group(env, sd))
			break;
		busiest = run_queue_of(sched_balance_find_src_rq(this_rq, sd));
		if (!busiest || busiest->cpu == this_rq->cpu)
			break;
		balanced = false;

		if (rq_nr_running(busiest) > 1) {
			env->all_pinned = true;
			env->some_pinned = false;
			env->loop_max = min(sched_nr_migrate, rq_nr_running(busiest));
			ld_moved += move_tasks(env, sd, busiest, this_rq);

			/* Tasks that may not run here, but on a neighbour */
			bpf_for(again, 0, MAX_PINNED_CPUS) {
				dst_rq = run_queue_of(env->new_dst_cpu);
				if (!env->dst_pinned || env->imbalance <= 0 || !dst_rq)
					break;
				if (move_tasks(env, sd, busiest, dst_rq) > 0) {
					ld_moved++;
					kick_for_pulled(dst_rq);
				}
			}

			/* The next level may even out load that affinities keep here */
			if (parent < NR_LEVELS && group_rq && env->some_pinned &&
			    env->imbalance > 0)
				group_rq->group_imbalance[parent] = true;
		}
		if (!env->all_pinned)
			break;

		all_pinned = true;
		balanced = true;
		if (round < MAX_PINNED_CPUS) {
			env->pinned.cpus[round] = busiest->cpu;
			env->pinned.number = round + 1;
		}
	}

	if (ld_moved) {
		sd->nr_balance_failed = 0;
		goto unbalanced;
	}
	if (balanced) {
		if (parent < NR_LEVELS && group_rq && !all_pinned)
			group_rq->group_imbalance[parent] = false;
		sd->nr_balance_failed = 0;
		goto backoff;
	}

	if (idle != CPU_NEWLY_IDLE && env->migration_type != MIGRATE_MISFIT)
		sd->nr_balance_failed++;
	/* Must the running task of the busiest CPU be moved by force? */
	if (busiest && (env->migration_type == MIGRATE_MISFIT ||
			(env->migration_type == MIGRATE_TASK &&
			 sd->nr_balance_failed > sd->cache_nice_tries + 2))) {
		if (curr_is_pinned(busiest->cpu, this_rq->cpu)) {
			all_pinned = true;
			goto backoff;
		}
		ask_for_push(busiest, this_rq->cpu);
	}
unbalanced:
	sd->balance_interval = sd->min_interval;
	return ld_moved;

backoff:
	/* Balanced, or nothing can be done: look less often */
	if (idle != CPU_NEWLY_IDLE && env->migration_type != MIGRATE_MISFIT &&
	    ((all_pinned && sd->balance_interval < MAX_PINNED_INTERVAL) ||
	     sd->balance_interval < sd->max_interval))
		sd->balance_interval *= 2;
	return 0;
}

/* Counts an attempt of a newly idle CPU; after 1024 their success decides how often to try. */
static __always_inline void update_newidle_stats(struct sched_domain *sd, u32 success)
{
	u64 now;

	sd->newidle_call++;
	sd->newidle_success += success;
	if (sd->newidle_call < 1024)
		return;

	/* Rare attempts are always worthwhile */
	now = scx_bpf_now();
	sd->newidle_ratio = min(1024, sd->newidle_success + ((now - sd->newidle_stamp) >> 22));
	sd->newidle_stamp = now;
	sd->newidle_call /= 2;
	sd->newidle_success /= 2;
}

static __always_inline void update_newidle_cost(struct sched_domain *sd, u64 cost)
{
	u64 now = scx_bpf_now();

	if (cost > sd->max_newidle_lb_cost) {
		sd->max_newidle_lb_cost = cost;
		sd->last_decay_max_lb_cost = now;
	} else if (now > sd->last_decay_max_lb_cost + NSEC_PER_SEC) {
		sd->max_newidle_lb_cost = sd->max_newidle_lb_cost * 253 / 256;
		sd->last_decay_max_lb_cost = now;
	}
}

/* Balances when the CPU has just run out of tasks; stops at the first level that yields a task. */
__noinline int sched_balance_newidle(struct run_queue *cfs_rq __arg_nonnull)
{
	u64 next_balance = balance_ticks_at(scx_bpf_now() + NSEC_PER_SEC), t0, t1, curr_cost = 0;
	struct sched_domain *sd;
	s32 pulled_task = 0;
	u32 level;

	update_misfit_status(cfs_rq, NULL, NULL);
	t0 = bpf_ktime_get_ns();

	for_each_domain(sd, level, cfs_rq) {
		u32 weight = 1, dice;

		next_balance = min(next_balance,
				   sd->last_balance + balance_interval(cfs_rq, sd, CPU_IDLE));

		/* No CPU has two tasks, or this one has work again too soon for the search */
		if (!nr_overloaded || cfs_rq->avg_idle < curr_cost + sd->max_newidle_lb_cost)
			break;

		if (sd->newidle_ratio < NEWIDLE_DICE) {
			dice = bpf_get_prandom_u32() % NEWIDLE_DICE;
			weight = 1 + sd->newidle_ratio;
			if (dice > weight) {
				update_newidle_stats(sd, 0);
				continue;
			}
			weight = (NEWIDLE_DICE + weight / 2) / weight;
		}

		pulled_task = sched_balance_rq(cfs_rq, sd, level, CPU_NEWLY_IDLE);
		t1 = bpf_ktime_get_ns();
		curr_cost += t1 - t0;
		update_newidle_stats(sd, pulled_task > 0 ? weight : 0);
		update_newidle_cost(sd, t1 - t0);
		t0 = t1;
		if (pulled_task)
			break;
	}
	/* It may have been set with the long interval of a busy CPU */
	cfs_rq->next_balance = min(cfs_rq->next_balance, next_balance);
	return 0;
}

/* Should the task pulled to this CPU, the last one if several, preempt the running task? */
__noinline bool pulled_preempts(struct run_queue *cfs_rq __arg_nonnull)
{
	struct task_struct *p = bpf_task_from_pid(cfs_rq->pulled_pid);
	struct virtual_time time = {};
	bool preempts = false;
	struct task_ctx *se;

	cfs_rq->pulled_pid = 0;
	if (!p)
		return false;
	se = task_ctx_of(p);
	if (se && se->in_tree == cfs_rq->cpu + 1) {
		virtual_time_of(cfs_rq, &time, scx_bpf_now());
		preempts = wakeup_preempt(p, cfs_rq, se, &time, false);
	}
	bpf_task_release(p);
	return preempts;
}

/* Hands the first suitable waiting task to the CPU that asked for one. False if there is none. */
__noinline bool push_waiting(struct run_queue *busiest __arg_nonnull,
			     struct run_queue *target __arg_nonnull)
{
	struct placement *place = &busiest->env.place;
	u64 now = scx_bpf_now();
	struct task_struct *p;
	struct task_ctx *se;
	bool moved = false;

	for_each_queued(p, se, eligible_dsq(busiest->cpu), 0) {
		if (!task_allowed(p, target->cpu) || kthread_is_per_cpu(p))
			continue;
		place->vlag = entity_lag(busiest, se, avg_vruntime(busiest, now));
		moved = move_entity(p, se, busiest, target, place, now);
		if (moved)
			break;
	}
	if (moved) {
		count(STAT_PUSHED_ACTIVE);
		kick_for_pulled(target);
	}
	return moved;
}

/*
 * Gives the running task to the CPU that asked for one. It leaves this CPU at once, so that the
 * next pick ignores it, and enqueue() inserts it there. False if it may not run there.
 */
__noinline bool push_running(struct task_struct *prev __arg_trusted,
			     struct run_queue *busiest __arg_nonnull, s32 target_cpu)
{
	struct task_ctx *se = task_ctx_of(prev);
	u64 now = scx_bpf_now();

	if (!se || !task_allowed(prev, target_cpu))
		return false;
	se->push_cpu = target_cpu + 1;
	store_curr(busiest, se, now);
	save_lag(busiest, se, false, now);
	clear_curr(busiest);
	account_dequeue(se, now);
	scx_bpf_task_set_slice(prev, 0);
	return true;
}

/* Are there CPUs of different capacity in the span? */
__noinline bool has_asym_capacity(u32 first, u32 number)
{
	u64 low = ~0ULL, high = 0;
	u32 position;

	bpf_for(position, first, first + number) {
		const volatile struct cpu_topology *place = topology_of(cpu_at(position));

		if (place && place->capacity) {
			low = min(low, place->capacity);
			high = max(high, place->capacity);
		}
	}
	return low < high;
}

/* Parameters of the domain of a level: sd_init() of kernel/sched/topology.c. */
__noinline int sd_init(struct run_queue *cfs_rq __arg_nonnull, u32 level)
{
	u32 weight, nr_llcs, node, other;
	struct sched_domain *sd;
	u64 now = scx_bpf_now();

	if (!is_within(level, LEVEL_SMT, NR_LEVELS))
		return 0;
	sd = &cfs_rq->sd[level];
	weight = cfs_rq->span[level].count;

	sd->min_interval = weight;
	sd->max_interval = 2 * weight;
	sd->balance_interval = weight;
	sd->busy_factor = 16;
	sd->imbalance_pct = 117;
	sd->cache_nice_tries = 1;
	sd->flags = SD_BALANCE_NEWIDLE | SD_BALANCE_FORK | SD_WAKE_AFFINE | SD_PREFER_SIBLING;
	if (level <= LEVEL_MC)
		sd->flags |= SD_SHARE_LLC;
	if (level == LEVEL_SMT) {
		sd->flags |= SD_SHARE_CPUCAPACITY;
		sd->imbalance_pct = 110;
		sd->cache_nice_tries = 0;
	}
	if (asym_active && has_asym_capacity(cfs_rq->span[level].first, weight)) {
		sd->flags |= SD_ASYM_CPUCAPACITY;
		cfs_rq->sd[level - 1].flags &= ~SD_PREFER_SIBLING;
	}

	if (level == LEVEL_NUMA && topology_nr_nodes > 1) {
		sd->cache_nice_tries = 2;
		sd->flags &= ~SD_PREFER_SIBLING;
		sd->flags |= SD_NUMA | SD_SERIALIZE;
		bpf_for(node, 0, topology_nr_nodes) {
			bpf_for(other, 0, topology_nr_nodes) {
				if (topology_distance(node, other) > NODE_RECLAIM_DISTANCE)
					sd->flags &= ~(SD_BALANCE_FORK | SD_WAKE_AFFINE);
			}
		}
		/* An eighth of a node with one cache, or a task for each cache */
		nr_llcs = cfs_rq->span[LEVEL_PKG].count / (cfs_rq->span[LEVEL_MC].count ?: 1);
		sd->imb_numa_nr = max(1, nr_llcs == 1 ? cfs_rq->span[LEVEL_PKG].count >> 3 :
							nr_llcs);
	}

	sd->last_balance = balance_ticks_at(now);
	/* Assume that half of the attempts succeed */
	sd->newidle_call = 512;
	sd->newidle_success = 256;
	sd->newidle_ratio = 512;
	sd->newidle_stamp = now;
	sd->last_decay_max_lb_cost = now;
	return 0;
}

/* Averages of an idle CPU fade, and with them what it needs of a frequency that others share. */
static __always_inline void balance_in_vain(struct run_queue *rq, u64 now)
{
	if (!topology_nr_clocks || (!rq->iowait_boost && now - rq->blocked_at < BLOCKED_PERIOD))
		return;
	rq->blocked_at = now;
	update_cfs_rq_load_avg(rq, now);
	cpufreq_update_util(rq, false, now);
}

#include "idle_tick.h"
