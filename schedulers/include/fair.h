/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fair.h - virtual time, slices and preemption of the Completely Fair Scheduler (2.6.24, 3.0)
 *
 * The work of kernel/sched_fair.c on one CPU, without its tree, for schedulers that order tasks by
 * virtual runtime. The virtual runtime of a waiting task is in p->scx.dsq_vtime; that of the
 * running task, which is in no queue, is in the run queue.
 *
 * The scheduler's struct run_queue has CFS_QUEUE_STATE and struct task_ctx has CFS_TASK_STATE. Its
 * tunables or constants are release (enum cfs_release), sched_latency, sched_min_granularity,
 * sched_wakeup_granularity, sched_tunable_scaling, wakeup_preempt and new_fair_sleepers.
 */
#pragma once

#include "fair_running.h"
#include "runnable_load.h"

/* The queue of the tasks that wait for the CPU. */
static u64 leftmost_dsq(const struct run_queue *rq);

/* Charges the running task's time elsewhere, too. */
static void charge_besides(struct run_queue *rq, u64 delta_exec);

/* sysctl limit of the scaled latency, 2.6.24 */
#define LATENCY_LIMIT (200 * NSEC_PER_MSEC)

/*
 * Constants, the release's or as set, scaled by the number of CPUs. Volatile, because otherwise
 * clang keeps a variable that can only have one value besides 0 in a byte, and the kernel rejects a
 * variable whose length is not that of its type.
 */
static volatile u64 latency;
static volatile u64 min_granularity;
static volatile u64 wakeup_granularity;
static volatile u32 nr_latency;

static __always_inline u32 task_weight(const struct task_struct *p)
{
	if (p->policy == SCHED_IDLE)
		return release == RELEASE_2_6_24 ? 2 : 3;
	return weight_of_nice(task_nice(p));
}

/*
 * The period in which every task runs once: p = latency, or latency * n / nr_latency for many
 * tasks; 3.0: min_granularity * n.
 */
static __always_inline u64 sched_period(u64 nr_running)
{
	if (nr_running <= nr_latency)
		return latency;
	return release == RELEASE_2_6_24 ? latency * nr_running / nr_latency :
					   min_granularity * nr_running;
}

/* The running task's share of the period: s = p * w / W. */
static __always_inline u64 sched_slice(const struct run_queue *rq)
{
	return sched_period(rq->nr_running) * rq->curr_weight / rq->load_weight;
}

/* Virtual time of one slice among @nr_running tasks, the new one included: vs = p * 1024 / W. */
static __always_inline u64 sched_vslice(u64 nr_running, u64 load_weight)
{
	return sched_period(nr_running) * NICE_0_WEIGHT / (load_weight ?: 1);
}

/* The leftmost waiting task, NULL if none waits. */
static __always_inline struct task_struct *leftmost_task(const struct run_queue *rq)
{
	return rq->nr_running > rq->curr ? scx_bpf_dsq_peek(leftmost_dsq(rq)) : NULL;
}

/* The virtual runtime of the leftmost waiting task; false if none waits. */
static __always_inline bool leftmost_vruntime(const struct run_queue *rq, u64 *vruntime)
{
	struct task_struct *p = leftmost_task(rq);

	if (p)
		*vruntime = p->scx.dsq_vtime;
	return p;
}

/* min_vruntime as it is at @now, without changing anything. */
static __always_inline u64 min_vruntime_at(const struct run_queue *rq, u64 now)
{
	u64 vruntime, leftmost;

	if (!rq->curr)
		return rq->min_vruntime;

	vruntime = curr_vruntime_at(rq, now);
	/* Then it stays, whichever task is leftmost */
	if (!time_before(rq->min_vruntime, vruntime))
		return rq->min_vruntime;
	if (leftmost_vruntime(rq, &leftmost) && time_before(leftmost, vruntime))
		vruntime = leftmost;

	return max_vruntime(rq->min_vruntime, vruntime);
}

/*
 * Converts a virtual runtime on @from to one on @to: v -= old min_vruntime - new min_vruntime, in
 * 2.6.24 as each CPU's last event left them.
 */
static __always_inline u64 vruntime_on(const struct run_queue *to, const struct run_queue *from,
				       u64 vruntime, u64 now)
{
	if (release == RELEASE_2_6_24)
		return vruntime - (from->min_vruntime - to->min_vruntime);
	return vruntime - (min_vruntime_at(from, now) - min_vruntime_at(to, now));
}

/* The virtual runtime of a task that comes to @rq, relative to @rq. */
static __always_inline u64 set_task_cpu(struct run_queue *rq, struct task_ctx *t,
					const struct task_struct *p, u64 now)
{
	u64 vruntime = p->scx.dsq_vtime;
	struct run_queue *old_rq;

	/* Otherwise clang loads one through a pointer of either kind, which the verifier rejects */
	barrier_var(vruntime);
	if (t->put)
		vruntime = t->vruntime;
	t->put = false;

	if (t->vruntime_cpu == rq->cpu + 1)
		return vruntime;

	old_rq = run_queue_of(t->vruntime_cpu - 1);
	if (old_rq)
		vruntime = vruntime_on(rq, old_rq, vruntime, now);
	t->vruntime_cpu = rq->cpu + 1;
	return vruntime;
}

/* A task that is older than the scheduler starts level with the others. */
static __always_inline void begin_level(struct run_queue *rq, struct task_ctx *t)
{
	if (t->vruntime_cpu)
		return;
	t->vruntime_cpu = rq->cpu + 1;
	t->vruntime = rq->min_vruntime;
	t->put = true;
}

/* 3.0: the task is no longer a buddy. */
static __always_inline void clear_buddies(struct run_queue *rq, s32 pid)
{
	if (rq->next == pid)
		rq->next = 0;
	if (rq->last == pid)
		rq->last = 0;
	if (rq->skip == pid)
		rq->skip = 0;
}

/*
 * Charges the running task up to @now. 2.6.24 moves min_vruntime even if no time has passed: the
 * queue, or the running task, may be another.
 */
static __always_inline void update_curr(struct run_queue *rq, u64 now)
{
	bool ran = time_before(rq->exec_start, now);
	u64 delta_exec;

	if (!rq->curr || !(ran || release == RELEASE_2_6_24))
		return;

	rq->min_vruntime = min_vruntime_at(rq, now);
	if (!ran)
		return;
	delta_exec = now - rq->exec_start;
	rq->curr_vruntime += calc_delta_fair(delta_exec, rq->curr_weight);
	rq->slice_exec += delta_exec;
	rq->exec_start = now;
	charge_besides(rq, delta_exec);
}

/*
 * Defines ops.quiescent(): a task that leaves the queue, to sleep or for a change of attributes, no
 * longer counts and is no buddy.
 */
#define DEFINE_QUIESCENT(id)								\
	void BPF_STRUCT_OPS(id##_quiescent, struct task_struct *p, u64 deq_flags)	\
	{										\
		struct task_ctx *t = task_ctx_of(p);					\
		struct run_queue *rq;							\
											\
		if (!t)									\
			return;								\
		t->changing = !(deq_flags & SCX_DEQ_SLEEP);				\
		t->old_weight = t->weight;						\
		rq = account_dequeue(t, scx_bpf_now());					\
		if (rq)									\
			clear_buddies(rq, p->pid);					\
	}

/*
 * The task gets the CPU; returns when. After a mere change of attributes it comes here without
 * having been enqueued, and with another weight, or from another class, it may no longer be the one
 * to run. Only another policy begins a slice.
 */
static __always_inline u64 set_curr_task(struct run_queue *rq, struct task_ctx *t,
					 const struct task_struct *p)
{
	bool changed = t->changing, same_policy = rq->curr_policy == p->policy;
	u64 now = clock_of_pick(rq);

	uncount_real_time(rq, now);
	rq->curr_vruntime = set_task_cpu(rq, t, p, now);
	account_enqueue(rq, t, task_weight(p), now);
	rq->curr = true;
	rq->curr_pid = p->pid;
	rq->curr_prio = p->prio;
	rq->curr_policy = p->policy;
	rq->curr_weight = t->weight;
	rq->exec_start = now;
	rq->slice_exec = changed && same_policy ? t->slice_exec : 0;
	rq->need_resched = false;
	t->changing = false;
	if (changed && t->weight != t->old_weight)
		resched_curr(rq);
	return now;
}

/* The task has lost the CPU. */
static __always_inline void put_prev_task(struct run_queue *rq, struct task_ctx *t,
					  struct task_struct *p, bool runnable)
{
	u64 now = scx_bpf_now();

	/* If put back, dispatch() has done this, and the next one has left the queue since */
	if (!runnable)
		rq->min_vruntime = min_vruntime_at(rq, now);
	if (time_before(rq->exec_start, now))
		update_curr(rq, now);
	t->vruntime = rq->curr_vruntime;
	t->put = true;
	t->slice_exec = rq->slice_exec;
	t->last_ran = now;
	rq->curr = false;
	rq->curr_pid = 0;
	if (runnable)
		hand_back(p);
}

/* ---- The tick -------------------------------------------------------------------------------- */

/*
 * At the last tick, had the running task exceeded its slice? 3.0: or was the leftmost task more
 * than a slice behind in virtual time, after the running one had run for min_granularity? So a task
 * that narrowly missed preempting waits for less than a whole slice.
 */
static __always_inline bool check_preempt_tick(struct run_queue *rq, u64 now)
{
	u64 since_tick = hz ? min(now % (tick_nsec ?: 1), rq->slice_exec) : 0;
	u64 delta_exec = rq->slice_exec - since_tick;
	u64 ideal_runtime, leftmost;

	if (rq->nr_running <= 1)
		return false;
	ideal_runtime = sched_slice(rq);
	if (delta_exec > ideal_runtime) {
		clear_buddies(rq, rq->curr_pid);
		return true;
	}
	if (release == RELEASE_2_6_24 || !wakeup_preempt || delta_exec < min_granularity ||
	    !leftmost_vruntime(rq, &leftmost))
		return false;
	return time_before(leftmost + ideal_runtime,
			   rq->curr_vruntime - calc_delta_fair(since_tick, rq->curr_weight));
}

/*
 * The tick at which check_preempt_tick() will be true if nothing changes, but @never at the latest.
 * A task that is just coming to the CPU is not in the queue yet: if one @arrives, @arriving is its
 * virtual runtime.
 */
static __always_inline u64 preempt_tick(const struct run_queue *rq, bool arrives, u64 arriving,
					u64 never, u64 now)
{
	u64 ideal_runtime, left, least, leftmost = 0;
	bool waits;
	s64 lead;

	if (rq->nr_running <= 1)
		return never;
	ideal_runtime = sched_slice(rq);
	left = ideal_runtime > rq->slice_exec ? ideal_runtime - rq->slice_exec : 0;
	/* Besides the running task and the arriving one */
	waits = rq->nr_running > 1 + arrives && leftmost_vruntime(rq, &leftmost);
	if (arrives && (!waits || time_before(arriving, leftmost))) {
		leftmost = arriving;
		waits = true;
	}
	if (release == RELEASE_3_0 && wakeup_preempt && waits) {
		lead = (s64)(leftmost + ideal_runtime - curr_vruntime_at(rq, now));
		lead = lead > 0 ? (u64)lead * rq->curr_weight / NICE_0_WEIGHT : 0;
		least = min_granularity > rq->slice_exec ? min_granularity - rq->slice_exec : 0;
		left = min(left, max(lead, least));
	}
	/* The slice must be exceeded, not only reached */
	return min(never, tick_from(now + left + 1));
}

/* ---- Preemption and placement ---------------------------------------------------------------- */

/* 3.0: is @vruntime more than the granularity, as a task of @weight counts it, before @later? */
static __always_inline bool wakeup_preempt_entity(u64 later, u64 vruntime, u32 weight)
{
	return time_before(vruntime + calc_delta_fair(wakeup_granularity, weight), later);
}

/*
 * Should a task of @vruntime that has come to a busy CPU preempt: v + G * 1024 / w_curr < v_curr?
 * In 3.0 G is scaled by the weight of the arriving task, which then becomes the next buddy, and
 * SCHED_IDLE tasks give way to all others at once. With many runnable tasks the preempted one
 * becomes the last buddy.
 */
static __always_inline bool check_preempt_wakeup(struct run_queue *rq, const struct task_struct *p,
						 u32 weight, u64 vruntime)
{
	bool no_preemption = p->policy == SCHED_BATCH || !wakeup_preempt;

	if (release == RELEASE_2_6_24)
		return !no_preemption &&
		       wakeup_preempt_entity(rq->curr_vruntime, vruntime, rq->curr_weight);

	if (rq->need_resched)
		return false;
	if (rq->curr_policy != SCHED_IDLE || p->policy == SCHED_IDLE) {
		/* Batch and idle tasks do not preempt; they wait for the tick */
		if (no_preemption || p->policy == SCHED_IDLE ||
		    !wakeup_preempt_entity(rq->curr_vruntime, vruntime, weight))
			return false;
		rq->next = p->pid;
	}
	if (rq->nr_running >= nr_latency && rq->curr_policy != SCHED_IDLE)
		rq->last = rq->curr_pid;
	return true;
}

/* Virtual runtime of a task that wakes up. */
static __always_inline u64 place_entity(const struct run_queue *rq, u64 se_vruntime)
{
	u64 vruntime = rq->min_vruntime;

	/* A sleeper gains at most a latency over min_vruntime; 3.0's GENTLE_FAIR_SLEEPERS: half */
	if (new_fair_sleepers)
		vruntime -= release == RELEASE_2_6_24 ? latency : latency / 2;
	return max_vruntime(se_vruntime, vruntime);
}

/*
 * The constants of the release, or as set, multiplied by 1 + log2(CPUs); 3.0 counts at most 8 CPUs,
 * 2.6.24 limits the latency.
 */
static __always_inline void set_constants(u32 online)
{
	bool v3_0 = release == RELEASE_3_0;
	u64 factor = 1;

	latency = sched_latency ?: (v3_0 ? 6 : 20) * NSEC_PER_MSEC;
	min_granularity = sched_min_granularity ?: v3_0 ? 750 * NSEC_PER_USEC : 4 * NSEC_PER_MSEC;
	wakeup_granularity = sched_wakeup_granularity ?: (v3_0 ? 1 : 10) * NSEC_PER_MSEC;
	nr_latency = (latency + min_granularity - 1) / (min_granularity ?: 1);

	if (sched_tunable_scaling)
		factor = scale_factor(v3_0 ? min(online, 8) : online);
	latency *= factor;
	if (!v3_0 && factor > 1)
		latency = min(latency, LATENCY_LIMIT);
	min_granularity *= factor;
	wakeup_granularity *= factor;
}
