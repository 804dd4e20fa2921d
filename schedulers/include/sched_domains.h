/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sched_domains.h - how Linux 2.6.22 to 3.0 balance load at the levels of the machine, and a CPU's
 * record of each
 *
 * The functions are in load_balance.h.
 */
#pragma once

#include "machine_levels.h"

/* Load averages kept; domains use source_load() and target_load() of types 0 to 3 */
#define CPU_LOAD_IDX_MAX 3

/*
 * A CPU's domain of one level: parameters from include/linux/topology.h, or x86-64's for nodes, and
 * the CPU's balancing state
 */
struct sched_domain {
	/* Milliseconds */
	u32 min_interval;
	u32 max_interval;
	u32 busy_factor;
	u32 imbalance_pct;
	u32 cache_nice_tries;
	u32 busy_idx;
	u32 idle_idx;
	u32 newidle_idx;
	u32 wake_idx;
	u32 forkexec_idx;
	u32 flags;
	/* Milliseconds, and ticks of the era */
	u32 balance_interval;
	u64 last_balance;
	u32 nr_balance_failed;
};

/*
 * Initial values of the levels: shortest and longest interval, busy_factor, imbalance_pct,
 * cache_nice_tries; the load index for busy, idle and newly idle CPUs, wake-ups and forks; flags.
 * CPU and NODE are the same in 2.6.22 and 2.6.24; 2.6.22 does not tune MC yet.
 */
#define SD_2_6 (SD_BALANCE_NEWIDLE | SD_WAKE_AFFINE)
#define SD_3_0 (SD_BALANCE_NEWIDLE | SD_BALANCE_FORK | SD_WAKE_AFFINE)

#define CPU_DOMAIN { 1, 4, 64, 125, 1,  2, 1, 2, 1, 1,  SD_2_6 }
#define NODE_DOMAIN { 8, 32, 32, 125, 2,  3, 2, 0, 1, 1, \
		      SD_BALANCE_FORK | SD_WAKE_BALANCE | SD_SERIALIZE }

static const struct sched_domain domains_2_6_22[NR_LEVELS] = {
	[LEVEL_SMT] = { 1, 2, 64, 110, 0,  0, 0, 1, 0, 0,
			SD_2_6 | SD_WAKE_IDLE | SD_SHARE_CPUPOWER },
	[LEVEL_MC] = CPU_DOMAIN,
	[LEVEL_CPU] = CPU_DOMAIN,
	[LEVEL_NODE] = NODE_DOMAIN,
};

static const struct sched_domain domains_2_6_24[NR_LEVELS] = {
	[LEVEL_SMT] = { 1, 2, 64, 110, 0,  0, 0, 0, 0, 0,
			SD_2_6 | SD_WAKE_IDLE | SD_SHARE_CPUPOWER },
	[LEVEL_MC] = { 1, 4, 64, 125, 1,  2, 0, 0, 1, 1,  SD_2_6 | SD_WAKE_IDLE },
	[LEVEL_CPU] = CPU_DOMAIN,
	[LEVEL_NODE] = NODE_DOMAIN,
};

static const struct sched_domain domains_3_0[NR_LEVELS] = {
	[LEVEL_SMT] = { 1, 2, 64, 110, 0,  0, 0, 0, 0, 0,
			SD_3_0 | SD_SHARE_CPUPOWER | SD_SHARE_PKG_RESOURCES },
	[LEVEL_MC] = { 1, 4, 64, 125, 1,  2, 0, 0, 0, 0,
		       SD_3_0 | SD_SHARE_PKG_RESOURCES | SD_PREFER_SIBLING },
	[LEVEL_CPU] = { 1, 4, 64, 125, 1,  2, 1, 0, 0, 0,  SD_3_0 | SD_PREFER_SIBLING },
	[LEVEL_NODE] = { 8, 32, 32, 125, 1,  3, 2, 0, 0, 0,  SD_3_0 | SD_SERIALIZE },
};

/* Initial values of a level. If balance_rules() is constant, only that release's table remains. */
static __always_inline const struct sched_domain *initial_domain(u32 level)
{
	if (level >= NR_LEVELS)
		level = LEVEL_SELF;
	if (balance_rules() == BALANCE_2_6_22)
		return &domains_2_6_22[level];
	return balance_rules() == BALANCE_2_6_24 ? &domains_2_6_24[level] : &domains_3_0[level];
}

/* A group of CPUs in one balancing attempt */
struct group_stats {
	/* Position of its first CPU, how many it has; first that exists, first idle, or -1 */
	u32 first;
	u32 count;
	s32 first_cpu;
	s32 first_idle_cpu;
	/* Sum of the loads, estimated high or low, then relative to power; actual load */
	u64 avg_load;
	u64 sum_weighted_load;
	u64 power;
	u64 sum_nr_running;
	u64 idle_cpus;
	/* Tasks that it has room for, and whether it has fewer */
	u64 capacity;
	bool has_capacity;
	/* Extreme loads of its CPUs, tasks of the most loaded; whether loads differ too much */
	u64 max_cpu_load;
	u64 min_cpu_load;
	u64 max_nr_running;
	bool imb;
};

/* A CPU's attempt to balance one of its domains */
struct balance_attempt {
	u64 now;
	u32 level;
	u32 idle;
	/* False if another CPU of this one's group balances this level and those above */
	bool balance;
	/* 3.0: groups should first have one task each, while this CPU's group has room */
	bool prefer_sibling;
	/* All CPUs of the domain are idle, and that matters */
	bool sd_idle;
	struct pinned_cpus pinned;
	struct group_walk walk;

	/* The group being examined, this CPU's, the busiest other one; sums over the domain */
	struct group_stats group;
	struct group_stats local;
	struct group_stats busiest;
	u64 total_load;
	u64 total_power;

	/* Load still to be moved, number of tasks moved, whether none examined may run here */
	s64 imbalance;
	u32 pulled;
	bool all_pinned;
};

/* A CPU's balancing state besides BALANCE_STATE */
struct sched_domains {
	/*
	 * Averages of the load over ticks, the clock of the next tick that will update them, and
	 * the last load per task
	 */
	u64 cpu_load[CPU_LOAD_IDX_MAX];
	u64 next_load_tick;
	u64 avg_load_per_task;
	struct balance_attempt attempt;
};
