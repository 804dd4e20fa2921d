/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * groups.h - control groups on one virtual time: a task's weight among all tasks
 *
 * At each level a group's weight is divided among the runnable tasks and groups in it, by their
 * weights. So groups need no queues, and their shares hold across CPUs as those of tasks do. For
 * tasks of the root nothing here is called.
 */
#pragma once

#include "control_groups.h"

struct group {
	struct control_group cgroup;
	/* Weights of the runnable tasks and groups in it, and how many tasks are in it and below */
	u64 load;
	u32 nr_runnable;
	/* Its own in the sum of the group above: 0 if nothing in it is runnable */
	u64 counted;
};

DEFINE_ARRAY(ARRAY, groups, NR_GROUPS, struct group)

static __always_inline struct group *group_of(u32 number)
{
	return bpf_map_lookup_elem(&groups, &number);
}

static __always_inline struct control_group *control_group_of(u32 number)
{
	struct group *g = group_of(number);

	return g ? &g->cgroup : NULL;
}

/* Walk over a group and those above it, without the root. */
#define for_each_group(g, level, group)							\
	bpf_for(level, 0, MAX_GROUP_DEPTH)						\
		if (!(group) || !((g) = group_of(group)) ||				\
		    ((group) = (g)->cgroup.parent, 0))					\
			break;								\
		else

/* Weight and number of a group's runnable tasks change by as much, and so do the sums above. */
__noinline int change_sums(u32 group, s64 weight, s32 number)
{
	u32 level, runnable;
	struct group *g;
	u64 counted;

	for_each_group(g, level, group) {
		__sync_fetch_and_add(&g->load, weight);
		runnable = __sync_fetch_and_add(&g->nr_runnable, number) + number;
		counted = shares_of_tasks(g->cgroup.shares, runnable, nr_cpus);
		counted = runnable ? max(counted, MIN_SHARES) : 0;
		weight = counted - __sync_lock_test_and_set(&g->counted, counted);
	}
	return 0;
}

/* The task counts in its group as one of this weight, of none if it is not runnable. */
static __always_inline void count_in_group(struct task_ctx *t, u64 weight)
{
	if (!t->group || t->counted == weight)
		return;
	change_sums(t->group, weight - t->counted, !!weight - !!t->counted);
	t->counted = weight;
}

/* The weight among all tasks of one of @weight: at each level, times its part of the group's. */
__noinline u64 weight_in_groups(u32 group, u64 weight)
{
	u64 part = NICE_0_LOAD;
	struct group *g;
	u32 level;

	for_each_group(g, level, group) {
		part = max(part * weight / (max(g->load, weight) ?: 1), MIN_SHARES);
		weight = g->counted ?: g->cgroup.shares;
	}
	return max(part * weight / NICE_0_LOAD, MIN_SHARES);
}

static __always_inline void set_shares(struct cgroup *cgrp, u64 shares)
{
	u32 number = own_group_number(cgrp);
	struct group *g = number ? group_of(number) : NULL;

	if (!g)
		return;
	g->cgroup.shares = shares;
	change_sums(number, 0, 0);
}

void BPF_STRUCT_OPS(carousel_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	set_shares(cgrp, shares_of_weight(weight));
}

void BPF_STRUCT_OPS(carousel_cgroup_set_idle, struct cgroup *cgrp, bool idle)
{
	set_shares(cgrp, shares_of(idle, DEFAULT_CGROUP_WEIGHT));
}
