/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sched_domains.h - how Linux 2.6.22 to 3.0 balance load at the levels of the machine, and what a CPU remembers of each
 *
 * The functions are in load_balance.h.
 *
 * The file that includes this has defined before
 *
 *   balance_rules    whose rules apply: BALANCE_2_6_22, BALANCE_2_6_24 or BALANCE_3_0
 *   sched_mc         CONFIG_SCHED_MC: whether CPUs that share a cache are a level
 *
 * and has a `struct sched_domains domains` in its struct run_queue.
 */
#pragma once

#include "machine_levels.h"

#define BALANCE_2_6_22 0
#define BALANCE_2_6_24 1
#define BALANCE_3_0 2

/* Load averages kept; domains use source_load() and target_load() of types 0 to 3 */
#define CPU_LOAD_IDX_MAX 3

enum balance_idleness {
	CPU_IDLE,
	CPU_NOT_IDLE,
	CPU_NEWLY_IDLE,
};

#define SD_BALANCE_NEWIDLE 1
#define SD_BALANCE_FORK 2
#define SD_WAKE_AFFINE 4
#define SD_WAKE_IDLE 8
#define SD_WAKE_BALANCE 16
#define SD_SHARE_CPUPOWER 32
#define SD_SERIALIZE 64
#define SD_SHARE_PKG_RESOURCES 128
#define SD_PREFER_SIBLING 256

/* include/linux/topology.h and the x86-64 node values; intervals in milliseconds */
struct domain_parameters {
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
};

/* The same in 2.6.22 and 2.6.24 */
#define CPU_DOMAIN												\
	{													\
		.min_interval = 1, .max_interval = 4, .busy_factor = 64, .imbalance_pct = 125,			\
		.cache_nice_tries = 1,										\
		.busy_idx = 2, .idle_idx = 1, .newidle_idx = 2, .wake_idx = 1, .forkexec_idx = 1,		\
		.flags = SD_BALANCE_NEWIDLE | SD_WAKE_AFFINE,							\
	}

#define NODE_DOMAIN												\
	{													\
		.min_interval = 8, .max_interval = 32, .busy_factor = 32, .imbalance_pct = 125,			\
		.cache_nice_tries = 2,										\
		.busy_idx = 3, .idle_idx = 2, .wake_idx = 1, .forkexec_idx = 1,					\
		.flags = SD_BALANCE_FORK | SD_WAKE_BALANCE | SD_SERIALIZE,					\
	}

static const struct domain_parameters domain_parameters_2_6_22[NR_LEVELS] = {
	[LEVEL_SMT] = {
		.min_interval = 1, .max_interval = 2, .busy_factor = 64, .imbalance_pct = 110, .newidle_idx = 1,
		.flags = SD_BALANCE_NEWIDLE | SD_WAKE_AFFINE | SD_WAKE_IDLE | SD_SHARE_CPUPOWER,
	},
	/* Not tuned yet: as the level above */
	[LEVEL_MC] = CPU_DOMAIN,
	[LEVEL_CPU] = CPU_DOMAIN,
	[LEVEL_NODE] = NODE_DOMAIN,
};

static const struct domain_parameters domain_parameters_2_6_24[NR_LEVELS] = {
	[LEVEL_SMT] = {
		.min_interval = 1, .max_interval = 2, .busy_factor = 64, .imbalance_pct = 110,
		.flags = SD_BALANCE_NEWIDLE | SD_WAKE_AFFINE | SD_WAKE_IDLE | SD_SHARE_CPUPOWER,
	},
	[LEVEL_MC] = {
		.min_interval = 1, .max_interval = 4, .busy_factor = 64, .imbalance_pct = 125,
		.cache_nice_tries = 1,
		.busy_idx = 2, .wake_idx = 1, .forkexec_idx = 1,
		.flags = SD_BALANCE_NEWIDLE | SD_WAKE_AFFINE | SD_WAKE_IDLE,
	},
	[LEVEL_CPU] = CPU_DOMAIN,
	[LEVEL_NODE] = NODE_DOMAIN,
};

static const struct domain_parameters domain_parameters_3_0[NR_LEVELS] = {
	[LEVEL_SMT] = {
		.min_interval = 1, .max_interval = 2, .busy_factor = 64, .imbalance_pct = 110,
		.flags = SD_BALANCE_NEWIDLE | SD_BALANCE_FORK | SD_WAKE_AFFINE | SD_SHARE_CPUPOWER | SD_SHARE_PKG_RESOURCES,
	},
	[LEVEL_MC] = {
		.min_interval = 1, .max_interval = 4, .busy_factor = 64, .imbalance_pct = 125,
		.cache_nice_tries = 1, .busy_idx = 2,
		.flags = SD_BALANCE_NEWIDLE | SD_BALANCE_FORK | SD_WAKE_AFFINE | SD_SHARE_PKG_RESOURCES | SD_PREFER_SIBLING,
	},
	[LEVEL_CPU] = {
		.min_interval = 1, .max_interval = 4, .busy_factor = 64, .imbalance_pct = 125,
		.cache_nice_tries = 1, .busy_idx = 2, .idle_idx = 1,
		.flags = SD_BALANCE_NEWIDLE | SD_BALANCE_FORK | SD_WAKE_AFFINE | SD_PREFER_SIBLING,
	},
	[LEVEL_NODE] = {
		.min_interval = 8, .max_interval = 32, .busy_factor = 32, .imbalance_pct = 125,
		.cache_nice_tries = 1, .busy_idx = 3, .idle_idx = 2,
		.flags = SD_BALANCE_NEWIDLE | SD_BALANCE_FORK | SD_WAKE_AFFINE | SD_SERIALIZE,
	},
};

/* Only rules that a scheduler has as a constant leave a table behind */
static __always_inline const struct domain_parameters *parameters_of(u32 level)
{
	if (level >= NR_LEVELS)
		level = LEVEL_SELF;
	if (balance_rules == BALANCE_2_6_22)
		return &domain_parameters_2_6_22[level];
	return balance_rules == BALANCE_2_6_24 ? &domain_parameters_2_6_24[level] : &domain_parameters_3_0[level];
}

/* What a CPU remembers of its balancing at one level; times in ticks of the era, the interval in milliseconds */
struct sched_domain {
	u64 last_balance;
	u32 balance_interval;
	u32 nr_balance_failed;
};

/* One look of a CPU at one of its domains */
struct balance_attempt {
	u64 now;
	u32 level;
	u32 idle;
	/* False if another CPU of this one's group balances this level and those above */
	bool balance;
	/* 3.0: groups of the level below shall have one task each first, while this CPU's group has room */
	bool prefer_sibling;
	/* All CPUs of the domain are idle, and that matters */
	bool sd_idle;
	struct pinned_cpus pinned;

	/* The walk over the groups of the domain: where the next one begins, and how many CPUs are left */
	u32 group_first;
	u32 left;

	/* The group that was looked at last: its first CPU and first idle CPU, or -1, and sums */
	s32 first_cpu;
	s32 first_idle_cpu;
	u64 avg_load;
	u64 max_cpu_load;
	u64 min_cpu_load;
	u64 sum_nr_running;
	u64 sum_weighted_load;
	/* Tasks of the CPU with the highest load */
	u64 max_nr_running;
	u64 idle_cpus;

	/* The domain, this CPU's group (this_), and the busiest of the others (busiest_, max_load) */
	u64 total_load;
	u64 total_power;
	u64 this_load;
	u64 this_power;
	u64 this_nr_running;
	u64 this_load_per_task;
	u64 this_idle_cpus;
	bool this_has_capacity;
	u64 max_load;
	u64 busiest_power;
	u64 busiest_nr_running;
	u64 busiest_load_per_task;
	u64 busiest_idle_cpus;
	u64 busiest_capacity;
	bool busiest_has_capacity;
	u32 busiest_first;
	u32 busiest_count;
	bool group_imb;

	/* Load to move */
	u64 imbalance;
	bool all_pinned;
};

/* A CPU's part in balancing */
struct sched_domains {
	/* Averages of the load over ticks, the clock of the next tick that will update them, and the last load for each task */
	u64 cpu_load[CPU_LOAD_IDX_MAX];
	u64 next_load_tick;
	u64 avg_load_per_task;
	/* When balancing is due (tick), and the CPU that a push has been asked for plus one, or 0 */
	u64 next_balance;
	s32 push_cpu;
	/* 3.0: clock since when the CPU has been idle, 0 if it is not, and how long it is on average */
	u64 idle_stamp;
	u64 avg_idle;
	struct sched_domain sd[NR_LEVELS];
	struct balance_attempt attempt;
};
