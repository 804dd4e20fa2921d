/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A queue for each control group. The group that has had the least CPU time for its weight comes
 * first, unless its quota is used up: a small scheduler without a mistake, from which tests make
 * some with one.
 */
#include "fairground.bpf.h"

const volatile u64 slice_ns = 5000000;

#define MAX_GROUPS 64
#define MAX_DEPTH 8
/* The whole machine */
#define ONE (1ULL << 20)

struct group {
	/* The group above; 0 is the root */
	u32 parent;
	u32 weight;
	bool used;
	/* Runnable tasks in it and below, and the weights of the groups in it that have some */
	u32 nr_runnable;
	u32 load;
	/* Its CPU time by weight, and the virtual time of its tasks */
	u64 vtime, tasks_vtime;
	/* CPU time in a period, the rest of it, which may be a debt, and when the period ends */
	u64 quota, period, ends;
	s64 runtime;
};

static struct group groups[MAX_GROUPS];
static u64 vtime_now;

struct task_ctx {
	u32 group;
	u64 began;
};

DEFINE_TASK_DATA(struct task_ctx, task_ctx_map, task_ctx)

struct {
	__uint(type, BPF_MAP_TYPE_CGRP_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} numbers SEC(".maps");

static struct group *group_at(u32 number)
{
	return &groups[number % MAX_GROUPS];
}

static u32 number_of(struct cgroup *cgrp)
{
	u32 *number = bpf_cgrp_storage_get(&numbers, cgrp, NULL, 0);

	return number ? *number : 0;
}

/* Walk over a group and those above it, without the root. */
#define for_each_group(g, level, number)						\
	for ((level) = 0; (level) < MAX_DEPTH && (number); (level)++,			\
	     (number) = (g)->parent)							\
		if (!((g) = group_at(number))) {} else

/* Its part of the machine: at each level its weight, of those that have runnable tasks. */
static u64 part_of(u32 number)
{
	u64 part = ONE;
	struct group *g;
	u32 level;

	for_each_group(g, level, number)
		part = part * g->weight / (group_at(g->parent)->load ?: g->weight);
	return part ?: 1;
}

/* It has not wanted, or not been allowed, to run: that earns nothing. */
static void catch_up(struct group *g)
{
	if (time_before(g->vtime, vtime_now))
		g->vtime = vtime_now;
}

/* A task begins to be runnable if @change is 1, or ends if -1. */
static void count(u32 number, s32 change)
{
	struct group *g, *above;
	u32 level, before;

	for_each_group(g, level, number) {
		above = group_at(g->parent);
		before = g->nr_runnable;
		g->nr_runnable += change;
		if (!before) {
			above->load += g->weight;
			catch_up(g);
		} else if (!g->nr_runnable) {
			above->load -= g->weight;
		}
	}
}

/* Is the quota of a group, or of one above it, used up until its period ends? */
static bool is_used_up(u32 number)
{
	u64 now = scx_bpf_now(), ended;
	bool used_up = false;
	struct group *g;
	u32 level;

	for_each_group(g, level, number) {
		if (!g->quota)
			continue;
		if (!time_before(now, g->ends)) {
			ended = (now - g->ends) / g->period + 1;
			g->ends += ended * g->period;
			g->runtime += ended * g->quota;
			if (g->runtime > (s64)g->quota)
				g->runtime = g->quota;
		}
		if (g->runtime <= 0)
			used_up = true;
	}
	return used_up;
}

s32 BPF_STRUCT_OPS(groups_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;

	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
}

void BPF_STRUCT_OPS(groups_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = task_ctx_of(p);
	u64 vtime = p->scx.dsq_vtime;
	struct group *g;
	s32 cpu;

	if (!t)
		return;
	if ((enq_flags & SCX_ENQ_LAST) && !is_used_up(t->group)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags);
		return;
	}
	g = group_at(t->group);
	if (time_before(vtime, g->tasks_vtime - slice_ns))
		vtime = g->tasks_vtime - slice_ns;
	scx_bpf_dsq_insert_vtime(p, t->group, slice_ns, vtime, enq_flags);
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* The group with queued tasks that comes first, of those that are not in @tried; -1 if none. */
static s32 first_group(u64 tried)
{
	s32 number, first = -1;

	bpf_for(number, 0, MAX_GROUPS) {
		if ((tried & 1ULL << number) || !scx_bpf_dsq_nr_queued(number))
			continue;
		if (is_used_up(number))
			catch_up(group_at(number));
		else if (first < 0 || time_before(group_at(number)->vtime, group_at(first)->vtime))
			first = number;
	}
	return first;
}

void BPF_STRUCT_OPS(groups_dispatch, s32 cpu, struct task_struct *prev)
{
	u64 tried = 0;
	s32 number;
	u32 i;

	bpf_for(i, 0, MAX_GROUPS) {
		number = first_group(tried);
		if (number < 0 || scx_bpf_dsq_move_to_local(number, 0))
			break;
		tried |= 1ULL << number;
	}
}

void BPF_STRUCT_OPS(groups_runnable, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = task_ctx_of(p);

	if (t)
		count(t->group, 1);
}

void BPF_STRUCT_OPS(groups_running, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);
	struct group *g;

	if (!t)
		return;
	t->began = p->se.sum_exec_runtime;
	g = group_at(t->group);
	if (time_before(g->tasks_vtime, p->scx.dsq_vtime))
		g->tasks_vtime = p->scx.dsq_vtime;
	if (time_before(vtime_now, g->vtime))
		vtime_now = g->vtime;
}

void BPF_STRUCT_OPS(groups_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *t = task_ctx_of(p);
	u32 level, number;
	struct group *g;
	u64 used;

	if (!t)
		return;
	used = p->se.sum_exec_runtime - t->began;
	p->scx.dsq_vtime += used * 100 / p->scx.weight;
	number = t->group;
	group_at(number)->vtime += used * ONE / part_of(number);
	for_each_group(g, level, number)
		g->runtime -= used;
}

void BPF_STRUCT_OPS(groups_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *t = task_ctx_of(p);

	if (t)
		count(t->group, -1);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(groups_init_task, struct task_struct *p,
			     struct scx_init_task_args *args)
{
	struct task_ctx *t = new_task_ctx(p);

	if (!t)
		return -ENOMEM;
	bpf_rcu_read_lock();
	t->group = number_of(args->cgroup);
	bpf_rcu_read_unlock();
	p->scx.dsq_vtime = group_at(t->group)->tasks_vtime;
	return 0;
}

/* A real-time task takes the CPU: others run the tasks that were to run there. */
void BPF_STRUCT_OPS(groups_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local();
}

static void set_quota(struct group *g, u64 period_us, u64 quota_us)
{
	g->quota = quota_us == ~0ULL ? 0 : quota_us * NSEC_PER_USEC;
	g->period = period_us * NSEC_PER_USEC;
	g->runtime = g->quota;
	g->ends = scx_bpf_now() + g->period;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(groups_cgroup_init, struct cgroup *cgrp,
			     struct scx_cgroup_init_args *args)
{
	u32 *number = bpf_cgrp_storage_get(&numbers, cgrp, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct cgroup *above;
	struct group *g;
	u32 i;

	if (!number)
		return -ENOMEM;
	bpf_for(i, cgrp->level ? 1 : 0, MAX_GROUPS) {
		g = group_at(i);
		if (g->used)
			continue;
		*number = i;
		g->used = true;
		g->weight = args->weight;
		g->vtime = vtime_now;
		set_quota(g, args->bw_period_us, args->bw_quota_us);
		above = i ? bpf_cgroup_ancestor(cgrp, cgrp->level - 1) : NULL;
		if (above) {
			g->parent = number_of(above);
			bpf_cgroup_release(above);
		}
		return 0;
	}
	return -ENOMEM;
}

void BPF_STRUCT_OPS_SLEEPABLE(groups_cgroup_exit, struct cgroup *cgrp)
{
	group_at(number_of(cgrp))->used = false;
}

/* The task, which is in no queue now, goes to another group. */
void BPF_STRUCT_OPS(groups_cgroup_move, struct task_struct *p, struct cgroup *from,
		    struct cgroup *to)
{
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return;
	t->group = number_of(to);
	p->scx.dsq_vtime = group_at(t->group)->tasks_vtime;
}

void BPF_STRUCT_OPS(groups_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	struct group *g = group_at(number_of(cgrp));

	if (g->nr_runnable)
		group_at(g->parent)->load += weight - g->weight;
	g->weight = weight;
}

void BPF_STRUCT_OPS(groups_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us,
		    u64 burst_us)
{
	set_quota(group_at(number_of(cgrp)), period_us, quota_us);
}

/* Groups whose period has ended may have tasks waiting beside idle CPUs. */
static bool kick_idle(void)
{
	s32 cpu, nr_cpus = scx_bpf_nr_cpu_ids();

	bpf_for(cpu, 0, nr_cpus)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return true;
}

DEFINE_TIMER(look, kick_idle, slice_ns)

s32 BPF_STRUCT_OPS_SLEEPABLE(groups_init)
{
	s32 error = init_look() ?: start_look();
	u32 number;

	bpf_for(number, 0, MAX_GROUPS)
		error = error ?: scx_bpf_create_dsq(number, NUMA_NO_NODE);
	return error;
}

DEFINE_SCHEDULER(groups,
	CALLBACKS_OF(groups, select_cpu, enqueue, dispatch, runnable, running, stopping, quiescent,
		     init_task, cpu_release, cgroup_init, cgroup_exit, cgroup_move,
		     cgroup_set_weight, cgroup_set_bandwidth, init)
	.flags = SCX_OPS_ENQ_LAST,
	.name = "groups");
