/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * machine_levels.h - the levels of the machine at which Linux balances load, from 2.6.22 on
 *
 * A CPU balances in a domain for each level that has more CPUs than the one below: the threads of its core, the CPUs that share its
 * last-level cache, its node, the machine. The groups of a domain are the domains of the level below. A run queue has a member
 * `struct topology_span span[NR_LEVELS]`: the CPUs of each level that are around it. tick_nsec, the length of a tick of the
 * era, has been defined before.
 */
#pragma once

/* CPUs whose tasks are all pinned that one balancing attempt steps over before it gives up */
#define MAX_PINNED_CPUS 8

/* Up to where tasks that may not move lengthen the interval, milliseconds */
#define MAX_PINNED_INTERVAL 512

/* Innermost first; the domain of level l has as its groups the spans of level l - 1. Releases of today have two other names. */
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

/* CPUs that have been found to hold pinned tasks only, and are left out */
struct pinned_cpus {
	u32 number;
	s32 cpus[MAX_PINNED_CPUS];
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

/*
 * Sets the spans of a CPU. Caches that reach beyond a node count as the node's. If nobody asks for @caches they are no level; if the
 * topology is not known they are like level @unknown.
 */
static __always_inline void init_spans(struct topology_span *span, s32 cpu, bool caches, enum level unknown)
{
	const volatile struct cpu_topology *place = topology_of(cpu);

	span[LEVEL_SELF].first = place ? place->position : cpu;
	span[LEVEL_SELF].count = 1;
	span[LEVEL_SMT] = span[LEVEL_SELF];
	span[LEVEL_NODE].first = 0;
	span[LEVEL_NODE].count = nr_cpus;
	span[LEVEL_CPU] = span[LEVEL_NODE];
	span[LEVEL_MC] = span[unknown];

	if (!place)
		return;
	span[LEVEL_SMT].first = place->core_cpus.first;
	span[LEVEL_SMT].count = place->core_cpus.count;
	span[LEVEL_CPU].first = place->node_cpus.first;
	span[LEVEL_CPU].count = place->node_cpus.count;
	span[LEVEL_MC] = span[LEVEL_CPU];
	if (!caches) {
		span[LEVEL_MC] = span[LEVEL_SMT];
	} else if (place->llc_cpus.count <= place->node_cpus.count) {
		span[LEVEL_MC].first = place->llc_cpus.first;
		span[LEVEL_MC].count = place->llc_cpus.count;
	}
}
