/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * global_realtime.h - which CPU of BMQS is interrupted for a global real-time task
 */
#pragma once

#include "bmqs.h"

/* In bmqs.bpf.c */
static s32 preemption_goodness(struct task_struct *current_task,
			       const struct task_ctx *current_data, struct task_struct *p,
			       const struct task_ctx *t, u64 this_mm, u64 now);
static void resched_cpu(struct run_queue *rq, s32 cpu, u64 kick_flags);

/* After waiting this long, a global real-time task is again looked for by all CPUs, ms */
const volatile u32 rt_recheck = 1000;

/* task_realtime() for a CPU's current task; tasks of the kernel's own classes count, too. */
static __always_inline bool runs_realtime(struct task_struct *tsk)
{
	struct task_ctx *t;

	if (is_idle(tsk))
		return false;
	if (!is_ordinary(tsk))
		return true;
	t = task_ctx_of(tsk);
	return t && is_realtime(t);
}

/* Steps one and two: interrupts the CPU for a global real-time task if it runs none. */
static __always_inline bool resched_unless_realtime(struct task_struct *p, s32 cpu)
{
	struct run_queue *rq = run_queue_of(cpu);
	struct task_struct *tsk;

	if (!rq || !can_schedule(p, cpu))
		return false;
	tsk = scx_bpf_cpu_curr(cpu);
	if (!tsk || runs_realtime(tsk))
		return false;
	if (is_idle(tsk)) {
		resched_cpu(rq, cpu, 0);
	} else {
		__sync_lock_test_and_set(&rq->need_resched, 1);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	return true;
}

/* Step three: the CPU whose real-time task is weakest, if it is weaker than this one. */
static __always_inline void resched_weakest(struct task_struct *p, const struct task_ctx *t)
{
	u64 now = scx_bpf_now();
	s32 cpu, maxpg = 0, target = -1;
	struct run_queue *rq;

	bpf_for(cpu, 0, nr_cpus) {
		struct task_ctx *current_data;
		struct task_struct *tsk;
		s32 pg;

		rq = run_queue_of(cpu);
		if (!rq || !can_schedule(p, cpu))
			continue;
		tsk = scx_bpf_cpu_curr(cpu);
		if (!tsk)
			continue;
		if (is_idle(tsk)) {
			target = cpu;
			break;
		}
		current_data = task_ctx_of(tsk);
		if (!current_data || !is_ordinary(tsk) || tsk->pid == p->pid)
			continue;
		pg = preemption_goodness(tsk, current_data, p, t, rq->active_mm, now);
		if (pg > maxpg) {
			maxpg = pg;
			target = cpu;
		}
	}
	rq = run_queue_of(target);
	if (target < 0 || !rq)
		return;
	count(STAT_RT_ON_WEAKEST);
	resched_cpu(rq, target, SCX_KICK_PREEMPT);
}

/*
 * For global real-time tasks, in three steps: the CPU it last ran on if that runs no real-time
 * task; otherwise the first CPU that runs none; otherwise the one whose real-time task is weakest.
 */
__noinline int rtt_reschedule_idle(struct task_struct *p __arg_trusted)
{
	struct task_ctx *t = task_ctx_of(p);
	s32 cpu;

	if (!t)
		return 0;
	bpf_rcu_read_lock();
	if (resched_unless_realtime(p, t->processor)) {
		count(STAT_RT_ON_LAST_CPU);
		goto told;
	}
	bpf_for(cpu, 0, nr_cpus) {
		if (resched_unless_realtime(p, cpu)) {
			count(STAT_RT_ON_OTHER_CPU);
			goto told;
		}
	}
	resched_weakest(p, t);
told:
	bpf_rcu_read_unlock();
	return 0;
}

/*
 * A global real-time task that has lost its CPU is overlooked by CPUs that have passed the
 * checkpoint, until another one wakes. Here it is treated as woken again after a while; so is one
 * that was not queued yet when the CPU interrupted for it looked, because no lock covers both.
 */
static __always_inline void recheck_realtime(u64 now)
{
	u64 limit = rt_recheck * NSEC_PER_MSEC, asked = 2 * tick_length();
	struct task_struct *p;

	if (scx_bpf_dsq_nr_queued(list_dsq(RT_QID)) <= 0)
		return;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, list_dsq(RT_QID), 0) {
		struct task_ctx *t = task_ctx_of(p);

		if (!t || time_before(now, t->waiting_since + (t->fresh ? asked : limit)))
			continue;
		count(STAT_RT_RECHECKS);
		t->waiting_since = now;
		__sync_fetch_and_add(&grt_chkp, 1);
		rtt_reschedule_idle(p);
	}
	bpf_rcu_read_unlock();
}
