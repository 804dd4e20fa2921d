/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * control_groups.h - the control groups of the machine, by number
 *
 * The scheduler has its own records of NR_GROUPS groups; control_group_of() finds the struct
 * control_group in one of them. Number 0 is the root, of which no record is used.
 */
#pragma once

#include "nice.h"
#include "topology.h"

#ifndef LOAD_SCALE
#error "Define LOAD_SCALE, how much a weight of 1 is, before including control_groups.h"
#endif

/* Groups that can be told apart, with the root; further ones are part of the group above them */
#define NR_GROUPS 256
/* Levels below the root that count */
#define MAX_GROUP_DEPTH 16

/* Shares of an unchanged group and of one with cpu.idle, before they are scaled */
#define DEFAULT_CGROUP_WEIGHT 100
#define IDLE_SHARES 3
/* No weight is smaller */
#define MIN_SHARES 2

/* How shares grow with the machine and the tasks (topology_cgroup_mode) */
enum cgroup_mode {
	CGROUP_UP,
	CGROUP_SMP,
	CGROUP_CONCUR,
	CGROUP_MAX,
	CGROUP_TASKS,
};

struct control_group {
	bool used;
	bool sched_idle;
	u32 number;
	u32 parent;
	u64 shares;
};

/* The number of a control group: its own, or for want of room that of the group above */
struct group_number {
	u32 number;
	bool own;
};

struct {
	__uint(type, BPF_MAP_TYPE_CGRP_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct group_number);
} group_numbers SEC(".maps");

/* One more than the highest number so far */
static u32 nr_groups;

static struct control_group *control_group_of(u32 number);

/* A CPU's throttled tasks: the bit tells the kernel that runs this scheduler what they are. */
static __always_inline u64 throttled_dsq(s32 cpu)
{
	return 1ULL << 61 | (u32)cpu;
}

/* The figures of cpu.stat for a group, for the kernel that runs this scheduler; times in ns */
struct cpu_stat {
	u64 cgroup_id;
	u64 nr_periods;
	u64 nr_throttled;
	u64 throttled_time;
};

DEFINE_ARRAY(ARRAY, cpu_stat, NR_GROUPS, struct cpu_stat)

static __always_inline struct cpu_stat *cpu_stat_of(u32 group)
{
	return bpf_map_lookup_elem(&cpu_stat, &group);
}

/* A group begins to have figures. */
static __always_inline void new_cpu_stat(u32 group, const struct cgroup *cgrp)
{
	struct cpu_stat *stat = cpu_stat_of(group);

	if (!stat)
		return;
	__builtin_memset(stat, 0, sizeof(*stat));
	stat->cgroup_id = cgrp->kn->id;
}

/* The number under which the tasks of a control group are known. */
static __always_inline u32 group_number(struct cgroup *cgrp)
{
	struct group_number *record = bpf_cgrp_storage_get(&group_numbers, cgrp, NULL, 0);

	return record ? record->number : 0;
}

/* The same, but 0 if it is not the group's own. */
static __always_inline u32 own_group_number(struct cgroup *cgrp)
{
	struct group_number *record = bpf_cgrp_storage_get(&group_numbers, cgrp, NULL, 0);

	return record && record->own ? record->number : 0;
}

/* The number of the group of a task that is new to the scheduler, for ops.init_task(). */
static __always_inline u32 first_group_number(const struct scx_init_task_args *args)
{
	u32 number = 0;

	if (bpf_core_field_exists(args->cgroup)) {
		bpf_rcu_read_lock();
		number = group_number(args->cgroup);
		bpf_rcu_read_unlock();
	}
	return number;
}

static __always_inline u64 shares_of_weight(u32 weight)
{
	weight = weight * NICE_0_WEIGHT + DEFAULT_CGROUP_WEIGHT / 2;
	return weight / DEFAULT_CGROUP_WEIGHT * LOAD_SCALE;
}

/* Shares of a group with cpu.idle, or without it of one with this weight. */
static __always_inline u64 shares_of(bool idle, u32 weight)
{
	return idle ? IDLE_SHARES * LOAD_SCALE : shares_of_weight(weight);
}

/* Shares of a group of this weight in which so many tasks are runnable, on so many CPUs. */
static __always_inline u64 shares_of_tasks(u64 shares, u64 tasks, u32 cpus)
{
	switch (topology_cgroup_mode) {
	case CGROUP_UP:
	case CGROUP_CONCUR:
		return shares * min(tasks, cpus);
	case CGROUP_MAX:
		return shares * cpus;
	case CGROUP_TASKS:
		return shares * tasks;
	}
	return shares;
}

/* Its number of the group above @cgrp, which is at @level. */
static __always_inline u32 parent_number(struct cgroup *cgrp, int level)
{
	struct cgroup *above = bpf_cgroup_ancestor(cgrp, level - 1);
	u32 number;

	if (!above)
		return 0;
	number = group_number(above);
	bpf_cgroup_release(above);
	return number;
}

/* Gives a new group a number, unless all are in use, and records its settings. 0, or an error. */
static __always_inline s32 number_group(struct cgroup *cgrp,
					const struct scx_cgroup_init_args *args)
{
	struct group_number *record;
	int level = cgrp->level;
	struct control_group *group;
	u32 i;

	/* The root's number is 0, as that of a group without a record */
	if (!level)
		return 0;
	record = bpf_cgrp_storage_get(&group_numbers, cgrp, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!record)
		return -ENOMEM;
	record->number = parent_number(cgrp, level);
	bpf_for(i, 1, NR_GROUPS) {
		group = control_group_of(i);
		if (!group || group->used)
			continue;
		group->used = true;
		group->number = i;
		group->parent = record->number;
		group->sched_idle = bpf_core_field_exists(args->sched_idle) && args->sched_idle;
		group->shares = shares_of(group->sched_idle, args->weight);
		record->number = i;
		record->own = true;
		nr_groups = max(nr_groups, i + 1);
		break;
	}
	return 0;
}
