/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * quotas.h - CPU time that control groups may use (cpu.max)
 *
 * A group has one account for all CPUs. It gets the quota when a period ends, and pays for its
 * tasks, by a debt if it is empty. Tasks of a group without runtime are held in a queue of their
 * CPU, from which nobody takes them, until a timer ends the period.
 */
#pragma once

/* Runtime of a group without a quota */
#define NO_LIMIT ((s64)(~0ULL >> 1))

struct account {
	struct bpf_spin_lock lock;
	struct bpf_timer timer;
	u64 quota, period, burst;
	s64 runtime;
	/* Clock at which the period ends, and whether the timer is set for that */
	u64 ends;
	u32 timer_set;
	u32 nr_held;
};

DEFINE_ARRAY(ARRAY, accounts, NR_GROUPS, struct account)

/* A group's held tasks on a CPU, and since when there are some */
struct held {
	u32 number;
	u64 since;
};

DEFINE_ARRAY(PERCPU_ARRAY, held_tasks, NR_GROUPS, struct held)

/* Groups with a quota */
static u32 nr_quotas;

static __always_inline struct account *account_of(u32 group)
{
	return bpf_map_lookup_elem(&accounts, &group);
}

/* Of two amounts of runtime, either of which may be a debt. */
static __always_inline s64 lesser(s64 a, s64 b)
{
	return a < b ? a : b;
}

/* Adds to an account what periods that have ended bring, and takes @time. Returns the rest. */
__noinline s64 use_account(u32 group, u64 time, u64 now)
{
	struct cpu_stat *stat = cpu_stat_of(group);
	struct account *a = account_of(group);
	u64 ended = 0;
	s64 left;

	if (!a || !stat || !a->quota)
		return NO_LIMIT;
	bpf_spin_lock(&a->lock);
	if (!time_before(now, a->ends)) {
		ended = (now - a->ends) / (a->period ?: 1) + 1;
		a->ends += ended * a->period;
		a->runtime = lesser(a->runtime + (s64)(ended * a->quota),
				    (s64)(a->quota + a->burst));
	}
	a->runtime -= time;
	left = a->runtime;
	bpf_spin_unlock(&a->lock);
	/* As the kernel counts: up to the first period in which nobody asks for runtime */
	stat->nr_periods += min(ended, 2);
	stat->nr_throttled += a->nr_held ? min(ended, 2) : 0;
	return left;
}

/* Charges the groups of a task with @time. Returns its part of what they may still use. */
__noinline s64 use_runtime(u32 group, u64 time, u64 now)
{
	s64 least = NO_LIMIT, left;
	struct group *g;
	u32 level;

	for_each_group(g, level, group) {
		left = use_account(g->cgroup.number, time, now);
		if (left > 0 && left < NO_LIMIT)
			left = (u64)left / max(min(g->nr_runnable, nr_cpus), 1);
		least = lesser(least, left);
	}
	return least;
}

/* May a quota stop the task? Not if others need what it does. */
static __always_inline bool is_limited(const struct task_struct *p, const struct task_ctx *t)
{
	return nr_quotas && t->group && !(p->flags & (PF_KTHREAD | PF_EXITING));
}

/* If a group of the task has no runtime, counts it as held on @cpu until the end of the period. */
__noinline bool hold(struct task_ctx *t __arg_nonnull, s32 cpu, u64 now)
{
	u32 level, group = t->group;
	struct account *a;
	struct held *held;
	struct group *g;

	for_each_group(g, level, group) {
		t->held_by = g->cgroup.number;
		if (use_account(t->held_by, 0, now) > 0)
			continue;
		a = account_of(t->held_by);
		held = bpf_map_lookup_percpu_elem(&held_tasks, &t->held_by, cpu);
		if (!a || !held)
			break;
		if (!__sync_fetch_and_add(&held->number, 1))
			held->since = now;
		__sync_fetch_and_add(&a->nr_held, 1);
		if (!__sync_lock_test_and_set(&a->timer_set, 1))
			bpf_timer_start(&a->timer, a->ends - now, 0);
		t->held_on = cpu;
		return true;
	}
	t->held_by = 0;
	return false;
}

static __always_inline void end_hold(struct task_ctx *t, u64 now)
{
	struct cpu_stat *stat;
	struct account *a;
	struct held *held;

	if (!t->held_by)
		return;
	stat = cpu_stat_of(t->held_by);
	a = account_of(t->held_by);
	held = bpf_map_lookup_percpu_elem(&held_tasks, &t->held_by, t->held_on);
	t->held_by = 0;
	if (!held || !a || !stat)
		return;
	__sync_fetch_and_add(&a->nr_held, -1);
	if (__sync_fetch_and_add(&held->number, -1) == 1)
		__sync_fetch_and_add(&stat->throttled_time, elapsed(held->since, now));
}

/* Held tasks whose groups have runtime again come back as if they woke, but preempt nobody. */
int release_held(s32 cpu, u64 now);

/* The CPU is to look for tasks that may come back. With a real-time task it would not look. */
static __always_inline void release_on(s32 cpu, u64 now)
{
	struct run_queue *rq = run_queue_of(cpu);
	bool real_time;

	if (!rq)
		return;
	rq->releases = true;
	bpf_rcu_read_lock();
	real_time = higher_class_runs(cpu);
	bpf_rcu_read_unlock();
	if (real_time)
		release_held(cpu, now);
	else
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* The end of a period, or a new quota */
static int refill(void *map, u32 *group, struct account *a)
{
	u64 now = scx_bpf_now();
	struct held *held;
	s32 cpu;

	if (use_account(*group, 0, now) <= 0) {
		bpf_timer_start(&a->timer, a->ends - now, 0);
		return 0;
	}
	a->timer_set = 0;
	bpf_for(cpu, 0, nr_cpus) {
		held = bpf_map_lookup_percpu_elem(&held_tasks, group, cpu);
		if (held && held->number)
			release_on(cpu, now);
	}
	return 0;
}

/* A quota per period and a burst, in us; all ones for no quota. The account is filled. */
static __always_inline void set_quota(u32 group, u64 period_us, u64 quota_us, u64 burst_us)
{
	struct account *a = group ? account_of(group) : NULL;
	u64 quota = quota_us == ~0ULL ? 0 : quota_us * NSEC_PER_USEC;

	if (!a)
		return;
	__sync_fetch_and_add(&nr_quotas, !!quota - !!a->quota);
	bpf_spin_lock(&a->lock);
	a->quota = quota;
	a->period = period_us * NSEC_PER_USEC;
	a->burst = burst_us * NSEC_PER_USEC;
	a->runtime = lesser(a->runtime + (s64)quota, (s64)(quota + a->burst));
	bpf_spin_unlock(&a->lock);
	a->timer_set = 1;
	bpf_timer_start(&a->timer, 0, 0);
}

void BPF_STRUCT_OPS(carousel_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us,
		    u64 quota_us, u64 burst_us)
{
	set_quota(own_group_number(cgrp), period_us, quota_us, burst_us);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(carousel_cgroup_init, struct cgroup *cgrp,
			     struct scx_cgroup_init_args *args)
{
	s32 error = number_group(cgrp, args);
	u32 number = own_group_number(cgrp);
	struct account *a = account_of(number);

	if (error || !number || !a || !bpf_core_field_exists(args->bw_quota_us))
		return error;
	new_cpu_stat(number, cgrp);
	/* It exists already where a group was before */
	bpf_timer_init(&a->timer, &accounts, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&a->timer, refill);
	a->ends = scx_bpf_now() + bpf_get_prandom_u32() % (100 * NSEC_PER_MSEC);
	if (args->bw_quota_us != ~0ULL)
		set_quota(number, args->bw_period_us, args->bw_quota_us, args->bw_burst_us);
	return 0;
}

void BPF_STRUCT_OPS_SLEEPABLE(carousel_cgroup_exit, struct cgroup *cgrp)
{
	u32 number = own_group_number(cgrp);
	struct account *a = account_of(number);
	struct group *g = group_of(number);

	if (!number || !a || !g)
		return;
	if (a->quota)
		__sync_fetch_and_add(&nr_quotas, -1);
	bpf_timer_cancel(&a->timer);
	a->quota = 0;
	a->runtime = 0;
	g->cgroup.used = false;
}
