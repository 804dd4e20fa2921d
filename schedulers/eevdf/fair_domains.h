/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fair_domains.h - the data with which the fair class of Linux 7.3 balances load at the levels of
 * the machine (machine_levels.h)
 *
 * The functions are in fair_balance.h.
 */
#pragma once

#include "machine_levels.h"

/* How busy a group is, least busy first */
enum group_type {
	GROUP_HAS_SPARE,
	GROUP_FULLY_BUSY,
	GROUP_MISFIT_TASK,
	GROUP_SMT_BALANCE,
	GROUP_IMBALANCED,
	GROUP_OVERLOADED,
};

/* The unit in which balancing moves tasks and measures the imbalance */
enum migration_type {
	MIGRATE_LOAD,
	MIGRATE_UTIL,
	MIGRATE_TASK,
	MIGRATE_MISFIT,
};

/* A CPU's balancing at one level; times in ticks of the era, intervals in milliseconds */
struct sched_domain {
	u64 last_balance;
	u32 balance_interval;
	u32 min_interval;
	u32 max_interval;
	u32 busy_factor;
	u32 imbalance_pct;
	u32 cache_nice_tries;
	u32 flags;
	u32 nr_balance_failed;
	/* Allowed imbalance between nodes, tasks */
	u32 imb_numa_nr;
	/* Of newly idle balancing: calls, successes, and how many of 1024 are worth a try */
	u32 newidle_call;
	u32 newidle_success;
	u32 newidle_ratio;
	u64 newidle_stamp;
	u64 max_newidle_lb_cost;
	u64 last_decay_max_lb_cost;
};

struct sg_lb_stats {
	u64 avg_load;
	u64 group_load;
	u64 group_capacity;
	u64 group_util;
	u64 group_runnable;
	u64 misfit_task_load;
	u64 min_capacity;
	u64 max_capacity;
	u32 sum_nr_running;
	u32 sum_h_nr_running;
	u32 idle_cpus;
	u32 group_weight;
	u32 group_type;
	u32 cores;
	u32 first;
	bool smt;
};

/* Where a waiting task would be on another CPU */
struct placement {
	s64 vlag;
	u64 h_load;
	u64 vruntime;
	u64 deadline;
	bool eligible;
};

/* Search for the CPU on which a waking task costs least; the rest is of the domain at hand */
struct energy_env {
	u64 now;
	u64 task_busy_time;
	/* Use of its CPUs without the task, and their capacity */
	u64 pd_busy_time;
	u64 pd_cap;
	/* What the task's last CPU can spare, -1: of no use; the other that can spare most */
	s64 prev_spare_cap;
	s64 max_spare_cap;
	s32 max_spare_cap_cpu;
};

/* Virtual time of a CPU, such that v is eligible if avg >= (v - zero) * load */
struct virtual_time {
	u64 zero;
	s64 avg;
	u64 load;
};

/*
 * One attempt of a CPU to balance a domain, or a search for the idlest CPU for a new task. It is
 * kept here because a program and all the functions it calls share a stack of 512 bytes.
 */
struct lb_env {
	u64 now;
	u32 level;
	u32 idle;
	s32 new_dst_cpu;
	/* The group of the CPU that balances */
	struct topology_span dst_grpmask;
	u32 migration_type;
	s64 imbalance;
	u32 loop;
	u32 loop_max;
	bool some_pinned;
	bool all_pinned;
	bool dst_pinned;
	struct pinned_cpus pinned;

	struct group_walk walk;

	/* The source CPU's virtual time and longest slice, and the place for the task at hand */
	u64 src_avruntime;
	u64 src_max_slice;
	struct virtual_time src_time;
	struct placement place;
	s32 pulled;

	struct sg_lb_stats sgs;
	struct sg_lb_stats local;
	/* For a new task: the idlest */
	struct sg_lb_stats busiest;
	bool has_busiest;
	bool prefer_sibling;
	u64 total_load;
	u64 total_capacity;
	u64 sum_util;
	bool overutilized;

	struct energy_env eenv;
};
