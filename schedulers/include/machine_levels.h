/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * machine_levels.h - the levels of the machine at which Linux balances load, from 2.6.22 on
 *
 * A CPU balances in a domain for each level that has more CPUs than the one below: the threads of
 * its core, the CPUs that share its last-level cache, its node, the machine. The groups of a domain
 * are the domains of the level below. The work that all releases do at them is in domain_balance.h.
 * With hz = 0 ticks are those of the running kernel.
 */
#pragma once

#include "topology.h"
#include "cpus_and_ticks.h"

/* How many CPUs with only pinned tasks a balancing attempt skips before it gives up */
#define MAX_PINNED_CPUS 8

/* Limit to which pinned tasks lengthen the interval, milliseconds */
#define MAX_PINNED_INTERVAL 512

/*
 * Innermost first; the groups of a domain of level l are the spans of level l - 1. Current releases
 * call two of them differently.
 */
enum level {
	LEVEL_SELF,
	LEVEL_SMT,
	LEVEL_MC,
	LEVEL_CPU,
	LEVEL_NODE,
	NR_LEVELS,
	LEVEL_PKG = LEVEL_CPU,
	LEVEL_NUMA = LEVEL_NODE,
};

enum cpu_idle_type {
	CPU_NOT_IDLE,
	CPU_IDLE,
	CPU_NEWLY_IDLE,
};

#define BALANCE_2_6_22 0
#define BALANCE_2_6_24 1
#define BALANCE_3_0 2
#define BALANCE_7_3 3

/* Whose rules apply: one of these. */
static u32 balance_rules(void);

/* The flags of a domain; the last two names are those of 7.3 */
#define SD_BALANCE_NEWIDLE 1
#define SD_BALANCE_FORK 2
#define SD_WAKE_AFFINE 4
#define SD_WAKE_IDLE 8
#define SD_WAKE_BALANCE 16
#define SD_SHARE_CPUPOWER 32
#define SD_SERIALIZE 64
#define SD_SHARE_PKG_RESOURCES 128
#define SD_PREFER_SIBLING 256
#define SD_NUMA 512
#define SD_ASYM_CPUCAPACITY 1024
#define SD_SHARE_CPUCAPACITY SD_SHARE_CPUPOWER
#define SD_SHARE_LLC SD_SHARE_PKG_RESOURCES

/* Result of balancing a domain: another CPU of the group balances it and those above */
#define BALANCE_ELSEWHERE (-2)

/* A CPU's balancing state, in its run queue; struct sched_domain is that of the release */
#define BALANCE_STATE										\
	/* Numbers of CPUs may have gaps */							\
	bool exists;										\
	/* The CPUs around it at each level */							\
	struct topology_span span[NR_LEVELS];							\
	struct sched_domain sd[NR_LEVELS];							\
	/* When balancing is due (tick), and one plus the CPU that asked for a push, or 0 */	\
	u64 next_balance;									\
	s32 push_cpu;										\
	/* Clock since when the CPU has been idle, 0 if it is not; how long it is on average */	\
	u64 idle_stamp;										\
	u64 avg_idle;

/* CPUs found to have only pinned tasks, which are left out */
struct pinned_cpus {
	u32 number;
	s32 cpus[MAX_PINNED_CPUS];
};

/*
 * A walk over the groups of a domain: beginning and size of the current group; beginning of the
 * next one, number of CPUs left
 */
struct group_walk {
	u32 first;
	u32 count;
	u32 next;
	u32 left;
};

static __always_inline bool is_pinned(const struct pinned_cpus *pinned, s32 cpu)
{
	u32 i, number = min(pinned->number, MAX_PINNED_CPUS);

	if (!number)
		return false;
	bpf_for(i, 0, number) {
		if (i < MAX_PINNED_CPUS && pinned->cpus[i] == cpu)
			return true;
	}
	return false;
}

/* Is the task that runs on @cpu not allowed on @this_cpu? */
static __always_inline bool curr_is_pinned(s32 cpu, s32 this_cpu)
{
	struct task_struct *curr;
	bool pinned;

	bpf_rcu_read_lock();
	curr = scx_bpf_cpu_curr(cpu);
	pinned = curr && !bpf_cpumask_test_cpu(this_cpu, curr->cpus_ptr);
	bpf_rcu_read_unlock();
	return pinned;
}

/* How many CPUs exist */
static u32 nr_online;

/*
 * The first thing that ops.init() does. Even with the running kernel's ticks (hz = 0) the balancer
 * needs a tick length.
 */
static __always_inline void init_machine(void)
{
	nr_cpus = topology_nr_cpus ?: scx_bpf_nr_cpu_ids();
	tick_nsec = NSEC_PER_SEC / (hz ?: 250);
}

/* Ticks of the era since the clock's zero. */
static __always_inline u64 balance_ticks_at(u64 now)
{
	return now / (tick_nsec ?: 1);
}

static __always_inline u64 msecs_to_jiffies(u32 milliseconds)
{
	u64 jiffies = (milliseconds * NSEC_PER_MSEC + tick_nsec - 1) / (tick_nsec ?: 1);

	return jiffies ?: 1;
}

static __always_inline bool domain_exists(const struct topology_span *span, u32 level)
{
	return is_within(level, LEVEL_SMT, NR_LEVELS) && span[level].count > span[level - 1].count;
}

/* Walks over the domains of a CPU, innermost first. */
#define for_each_domain(sd, level, rq)							\
	bpf_for(level, LEVEL_SMT, NR_LEVELS)						\
		if (!domain_exists((rq)->span, level) || !((sd) = &(rq)->sd[level])) {} else

/*
 * Sets the spans of a CPU. Caches that span nodes count as the node's. Without @caches they are not
 * a level; without a known topology they are like level @unknown.
 */
static __always_inline void init_spans(struct topology_span *span, s32 cpu, bool caches,
				       enum level unknown)
{
	const volatile struct cpu_topology *place = topology_of(cpu);

	span[LEVEL_SELF].first = place ? place->position : cpu;
	span[LEVEL_SELF].count = 1;
	span[LEVEL_SMT] = span[LEVEL_SELF];
	span[LEVEL_NODE].first = 0;
	span[LEVEL_NODE].count = topology_nr_online ?: nr_cpus;
	span[LEVEL_CPU] = span[LEVEL_NODE];
	span[LEVEL_MC] = span[unknown];

	if (!place)
		return;
	span[LEVEL_SMT] = place->core_cpus;
	span[LEVEL_CPU] = place->node_cpus;
	if (!caches)
		span[LEVEL_MC] = span[LEVEL_SMT];
	else if (place->llc_cpus.count <= place->node_cpus.count)
		span[LEVEL_MC] = place->llc_cpus;
	else
		span[LEVEL_MC] = span[LEVEL_CPU];
}
