/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cpu_search.h - cpu_search() of ULE: the least or most loaded CPU by the tree of caches
 *
 * The topology's order of CPUs puts the members of a group side by side, so one walk over the CPUs,
 * from the last to the first, has seen all of a group when it comes to its first CPU, and compares
 * it with its siblings there.
 */
#pragma once

#include "ule.h"

/* Number of the last search */
static u64 searches;

/* Levels of the tree, from the smallest groups to the whole machine */
enum level {
	/* Hardware threads of a core */
	LEVEL_CORE,
	/* CPUs that share the last cache */
	LEVEL_LLC,
	LEVEL_PACKAGE,
	LEVEL_MACHINE,
	NR_LEVELS,
};

/* CG_SHARE_*: the cache that a group shares, whose level is the number of ticks it stays warm */
static __always_inline u32 cg_level(u32 level)
{
	return level == LEVEL_CORE ? 1 : level == LEVEL_LLC ? 3 : 0;
}

#define CG_SHARE_L2 2

/* The group of @cpu at @level. Without a known topology all CPUs share one cache. */
static __always_inline void group_span(u32 level, s32 cpu, struct topology_span *span)
{
	const volatile struct cpu_topology *place = topology_of(cpu);

	span->first = 0;
	span->count = nr_cpu_ids;
	if (!place) {
		if (level != LEVEL_CORE)
			return;
		span->first = cpu;
		span->count = 1;
		return;
	}
	switch (level) {
	case LEVEL_CORE:
		*span = place->core_cpus;
		break;
	case LEVEL_LLC:
		*span = place->llc_cpus;
		break;
	case LEVEL_PACKAGE:
		*span = place->package_cpus;
		break;
	}
}

/* False for a group no larger than the one inside it: the tree has no such node. */
static __always_inline bool group_exists(u32 level, s32 cpu)
{
	struct topology_span span, inner = { .count = 1 };

	group_span(level, cpu, &span);
	if (level > LEVEL_CORE)
		group_span(level - 1, cpu, &inner);
	return span.count > inner.count;
}

/* The best CPU of a group so far */
struct found {
	/* Sum over the group's CPUs */
	s64 total;
	/* Load of the chosen child, group or CPU, and of the chosen CPU with its random part */
	s64 load;
	s64 cpu_load;
	s32 cpu;
};

/* Number of a search that leaves no CPU out */
#define LEAVE_NONE_OUT (~0ULL)

/* sched_lowest() and sched_highest() */
struct cpu_search {
	/* Number of the search: CPUs marked with this or a later number are left out */
	u64 number;
	/* Where to look */
	struct topology_span span;
	/* Lowest: best priority on it worse than pri, load <= limit. Highest: load >= limit. */
	s32 pri;
	s32 limit;
	/* Preferred at equal loads, -1 for none */
	s32 prefer;
	bool highest;
	struct found found[NR_LEVELS];
};

static __always_inline void begin_group(struct found *f, bool highest)
{
	f->total = 0;
	f->load = highest ? -(1LL << 40) : 1LL << 40;
	f->cpu_load = f->load;
	f->cpu = -1;
}

/* How much less load the preferred CPU has than others with as many threads; a thread is 256 */
#define PREFERENCE 64

/* Compares the candidate of one child of a group, itself a CPU or a group, with the best so far. */
static __always_inline void compare_child(struct found *f, bool highest, s64 load, s64 cpu_load,
					  s32 cpu)
{
	bool better;

	if (cpu < 0)
		return;
	/* 8 takes the first of equals, which the walk meets last */
	if (release == FREEBSD_8)
		better = highest ? load >= f->load : load <= f->load;
	else if (highest)
		better = load > f->load || (load == f->load && cpu_load > f->cpu_load);
	else
		better = load < f->load || (load == f->load && cpu_load < f->cpu_load);
	if (!better)
		return;
	f->load = load;
	f->cpu_load = cpu_load;
	f->cpu = cpu;
}

/*
 * Threads of a CPU, including a running kernel real-time task. The balancing timer is not in an RCU
 * section of its own.
 */
static __always_inline u32 load_of(const struct tdq *tdq, s32 cpu)
{
	bool real_time;

	bpf_rcu_read_lock();
	real_time = higher_class_runs(cpu);
	bpf_rcu_read_unlock();
	return tdq->load + real_time;
}

/* One CPU of a search: a child of its core, which it may complete, and so on upwards. */
__noinline int visit_cpu(struct cpu_search *s __arg_nonnull, u32 position, bool allowed)
{
	s32 cpu = cpu_at(position), candidate = -1;
	bool preferred = !s->highest && cpu == s->prefer;
	struct tdq *tdq = tdq_of(cpu);
	struct topology_span span;
	s64 load, total, cpu_load;
	s32 threads;
	u32 level;

	if (!tdq || !cpu_exists(cpu))
		return 0;
	threads = load_of(tdq, cpu);
	load = (s64)threads * 256 - (preferred ? PREFERENCE : 0);
	cpu_load = load;
	if (random_ties && release == FREEBSD_9)
		cpu_load -= bpf_get_prandom_u32() & (PREFERENCE - 1);
	total = load;
	if (allowed && tdq->left_out_by < s->number &&
	    (s->highest ? threads >= s->limit && tdq->transferable :
			  threads <= s->limit && tdq->lowpri > s->pri))
		candidate = cpu;

	/*
	 * The walk goes down: at the first CPU of a group the group is complete, and becomes a
	 * child of the next larger one
	 */
	for (level = 0; level < NR_LEVELS; level++) {
		struct found *f = &s->found[level];

		f->total += total;
		compare_child(f, s->highest, load, cpu_load, candidate);
		group_span(level, cpu, &span);
		if (position != span.first || level == NR_LEVELS - 1)
			break;
		total = f->total;
		load = total;
		cpu_load = f->cpu_load;
		candidate = f->cpu;
		begin_group(f, s->highest);
	}
	return 0;
}

/*
 * cpu_search() among the CPUs of a group that @p may run on, from last to first. Groups are
 * compared by the sum of their loads, and CPUs by their load. Returns the CPU, or -1.
 */
__noinline s32 cpu_search(struct cpu_search *s __arg_nonnull,
			  struct task_struct *p __arg_trusted __arg_nullable)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	u32 i, level;

	for (level = 0; level < NR_LEVELS; level++)
		begin_group(&s->found[level], s->highest);
	bpf_rcu_read_lock();
	bpf_for(i, 0, s->span.count) {
		u32 position = s->span.first + s->span.count - 1 - i;
		s32 cpu = cpu_at(position);
		bool allowed = bpf_cpumask_test_cpu(cpu, online) &&
			       (!p || bpf_cpumask_test_cpu(cpu, p->cpus_ptr));

		visit_cpu(s, position, allowed);
	}
	bpf_rcu_read_unlock();
	scx_bpf_put_cpumask(online);
	/* Groups above the searched one stay incomplete, with one child */
	for (level = 0; level < NR_LEVELS; level++)
		if (s->found[level].cpu >= 0)
			return s->found[level].cpu;
	return -1;
}
