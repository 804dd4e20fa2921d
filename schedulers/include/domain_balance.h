/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * domain_balance.h - when a CPU balances, and the walk over its domains, in Linux 2.6.22 to 7.3
 *
 * See machine_levels.h; runnable_load.h counts the tasks. The functions declared first differ
 * between releases. The scheduler's struct run_queue has BALANCE_STATE.
 */
#pragma once

#include "machine_levels.h"
#include "runnable_load.h"

/*
 * Balances one domain of a CPU: returns how many tasks came, a negative number if none did but the
 * CPU must not count as idle, or BALANCE_ELSEWHERE.
 */
static s32 balance_domain(struct run_queue *rq, struct sched_domain *sd, u32 level, u32 idle);

/* Does a CPU count as idle although it runs tasks? */
static bool sched_idle_rq(const struct run_queue *rq);

/* Do tasks stay where they are, however load is spread? Then idle CPUs have nothing to look for. */
static bool load_is_left_alone(void);

/*
 * The cost of moving a task away from its cache, nanoseconds: a CPU that is idle for less than that
 * on average does not look for tasks.
 */
static u64 migration_cost(void);

/* Held while a domain with SD_SERIALIZE is balanced */
static u32 balancing;

/* The group of a level's domain that @rq is in: the span of the level below. */
static __always_inline struct topology_span own_group(const struct run_queue *rq, u32 level)
{
	u32 below = level - 1;

	/* The verifier must see this number checked, not the level */
	barrier_var(below);
	return rq->span[below < NR_LEVELS ? below : LEVEL_SELF];
}

/*
 * The next group of @rq's domain of a level: its first CPU, or NULL after the last group. The walk
 * begins at position @from and wraps around. Its state is in a CPU's record, because the verifier
 * would follow every value of local variables.
 */
static __always_inline struct run_queue *
next_group(struct group_walk *walk, const struct run_queue *rq, u32 level, u32 from, u32 step)
{
	const struct topology_span *span = &rq->span[level];
	struct run_queue *group_rq;
	u32 below = level - 1;

	barrier_var(below);
	if (!step) {
		walk->next = from;
		walk->left = span->count;
	}
	group_rq = run_queue_of(cpu_at(walk->next));
	if (!walk->left || !group_rq || below >= NR_LEVELS)
		return NULL;
	walk->first = walk->next;
	walk->count = group_rq->span[below].count;
	walk->left -= min(walk->count, walk->left);
	walk->next += walk->count;
	if (walk->next >= span->first + span->count)
		walk->next = span->first;
	return group_rq;
}

#define for_each_group(group_rq, step, walk, rq, level, from)				\
	bpf_for(step, 0, (rq)->span[level].count)					\
		if (!((group_rq) = next_group(walk, rq, level, from, step))) break; else

/* The lowest level at which two CPUs are in one domain, or NR_LEVELS. */
static __always_inline u32 common_level(const struct run_queue *rq, const struct run_queue *other)
{
	u32 level, position = other->span[LEVEL_SELF].first;

	for (level = LEVEL_SMT; level < NR_LEVELS; level++)
		if (position >= rq->span[level].first &&
		    position < rq->span[level].first + rq->span[level].count)
			return level;
	return NR_LEVELS;
}

/*
 * Asks the busiest CPU to hand this CPU one task, running or not, the next time it schedules; false
 * if it has been asked already.
 */
static __always_inline bool ask_for_push(struct run_queue *busiest, s32 this_cpu)
{
	if (__sync_val_compare_and_swap(&busiest->push_cpu, 0, this_cpu + 1))
		return false;
	scx_bpf_kick_cpu(busiest->cpu, SCX_KICK_PREEMPT);
	return true;
}

/*
 * Ticks between two balancings of a domain. In 7.3 those of a busy CPU are not multiples of each
 * other, so that levels do not coincide.
 */
static __always_inline u64 balance_interval(const struct run_queue *rq,
					    const struct sched_domain *sd, u32 idle)
{
	bool busy = idle != CPU_IDLE && !sched_idle_rq(rq);
	u64 interval = msecs_to_jiffies(sd->balance_interval * (busy ? sd->busy_factor : 1));

	if (busy && balance_rules() == BALANCE_7_3)
		interval = max(interval - 1, 1);
	if (balance_rules() == BALANCE_2_6_22)
		return interval;
	/* From 2.6.24 on at most a tenth of a second for every CPU of the machine */
	return min(interval, max(NSEC_PER_SEC * nr_online / 10 / (tick_nsec ?: 1), 1));
}

/* Balances the domains that are due, innermost first, as the timer tick does. */
__noinline int rebalance_domains(struct run_queue *rq __arg_nonnull, u32 idle, u64 now)
{
	u64 ticks = balance_ticks_at(now);
	u64 next_balance = ticks + balance_ticks_at(60 * NSEC_PER_SEC);
	struct sched_domain *sd;
	u32 level;

	for_each_domain(sd, level, rq) {
		u64 interval = balance_interval(rq, sd, idle);
		s32 moved = 0;

		if (ticks >= sd->last_balance + interval) {
			bool serialize = sd->flags & SD_SERIALIZE;
			bool taken = serialize && __sync_val_compare_and_swap(&balancing, 0, 1);

			if (!taken) {
				moved = balance_domain(rq, sd, level, idle);
				if (serialize)
					balancing = 0;
			}
			/* Tasks have come, or the core is busy: no longer idle */
			if (moved)
				idle = moved < 0 || rq->nr_running ? CPU_NOT_IDLE : CPU_IDLE;
			/* Before 7.3, a CPU that finds another balancing tries at the next tick */
			if (!taken || balance_rules() == BALANCE_7_3)
				sd->last_balance = ticks;
			if (balance_rules() == BALANCE_7_3)
				interval = balance_interval(rq, sd, idle);
		}
		next_balance = min(next_balance, sd->last_balance + interval);
		if (moved == BALANCE_ELSEWHERE)
			break;
	}
	rq->next_balance = next_balance;
	return 0;
}

static __always_inline bool balancing_is_due(const struct run_queue *rq, u64 now)
{
	return balance_ticks_at(now) >= rq->next_balance;
}

/*
 * Can idle CPUs find anything? Two tasks on a CPU, two busy threads of a core, or two busy CPUs of
 * a cache if there are more caches.
 */
static __always_inline bool worth_balancing(void)
{
	bool caches = topology_nr_llcs > 1 && topology_nr_llcs < topology_nr_online;
	u32 position, core = ~0U, llc = ~0U;
	struct run_queue *rq;

	if (load_is_left_alone())
		return false;
	if (nr_overloaded)
		return true;
	if (topology_nr_cores >= topology_nr_online && !caches)
		return false;

	for_each_rq_in_span(rq, position, 0, nr_cpus) {
		if (!rq->nr_running)
			continue;
		if (rq->span[LEVEL_SMT].first == core ||
		    (caches && rq->span[LEVEL_MC].first == llc))
			return true;
		core = rq->span[LEVEL_SMT].first;
		llc = rq->span[LEVEL_MC].first;
	}
	return false;
}

/* Prepares the run queue of a CPU except for its domains: balancing is due from now on. */
static __always_inline void init_balancing(struct run_queue *rq, s32 cpu)
{
	rq->cpu = cpu;
	rq->exists = cpu_exists(cpu);
	nr_online += rq->exists;
	rq->next_balance = balance_ticks_at(scx_bpf_now());
	rq->avg_idle = 2 * migration_cost();
}
