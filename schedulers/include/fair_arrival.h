/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fair_arrival.h - a task comes to a CPU's queue, in fair classes that balance load by domains
 *
 * The scheduler's struct task_ctx has FAIR_TASK_STATE and push_cpu, one plus the CPU to which
 * active balancing pushes the task, or 0; STAT_PUSHED_ACTIVE counts that.
 */
#pragma once

#include "fair_state.h"
#include "runnable_load.h"

struct arrival {
	/* The task's CPU, and the CPU whose queue it joins */
	s32 task_cpu;
	s32 cpu;
	bool wakeup;
	bool new_task;
	/* It was off the queue only for a change of attributes */
	bool changing;
	/* The task was running and has been put: the CPU has its next task already */
	bool put_prev;
};

/* Why ops.enqueue() is called. */
static __always_inline struct arrival arrival_of(struct task_struct *p, struct task_ctx *t,
						 u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct arrival a = {
		.task_cpu = cpu,
		.cpu = cpu,
		.wakeup = enq_flags & SCX_ENQ_WAKEUP,
		.new_task = t->new_task,
		.changing = t->changing,
	};

	t->new_task = false;
	t->changing = false;
	if (t->push_cpu) {
		/* Active balancing sends the task, which has just been put, to another CPU */
		if (!a.wakeup && task_allowed(p, t->push_cpu - 1)) {
			a.cpu = t->push_cpu - 1;
			count(STAT_PUSHED_ACTIVE);
		}
		t->push_cpu = 0;
	} else if (a.changing && t->vruntime_cpu && task_allowed(p, t->vruntime_cpu - 1)) {
		/* The balancer may have moved it to a queue that has not run it yet: it stays */
		a.cpu = t->vruntime_cpu - 1;
	}
	a.put_prev = t->on_rq == a.cpu + 1 && !a.wakeup && !(enq_flags & SCX_ENQ_LAST);
	return a;
}

/* The task has joined the queue of a CPU where no task of this scheduler runs. */
static __always_inline void arrive_where_none_runs(struct run_queue *rq, const struct arrival *a,
						   u64 now)
{
	if (higher_class_runs(a->cpu))
		count_real_time(rq, now);
	/* The kernel itself wakes an idle CPU for a task that wakes on it */
	if (!a->wakeup || a->cpu != a->task_cpu)
		scx_bpf_kick_cpu(a->cpu, SCX_KICK_IDLE);
}

/* Defines ops.init_task(): all that is known about a task is whether it is new. */
#define DEFINE_INIT_TASK(id)							\
	s32 BPF_STRUCT_OPS_SLEEPABLE(id##_init_task, struct task_struct *p,	\
				     struct scx_init_task_args *args)		\
	{									\
		struct task_ctx *t = new_task_ctx(p);				\
										\
		if (!t)								\
			return -ENOMEM;						\
		t->new_task = args->fork;					\
		return 0;							\
	}
