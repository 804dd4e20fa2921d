/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * o1_task.h - ticks, wake-up and fork of a task under the O(1) scheduler, the lists of a run queue, and who starves there
 *
 * What happens to a task beside its priority (o1_priority.h): schedulers that have the active and the expired array share it. The file
 * that includes this has defined before
 *
 *   struct run_queue     with curr_prio, cpu, nr_running and bitmap[], two or four words with a bit for each list that may hold tasks
 *   list_dsq()           the dispatch queue of a list: of a CPU, by the array and the list's index
 *   is_expired(rq, t), set_expired(rq, t, expired)   whether a task is in the expired array, or on its way there
 *   count_tick(name)     counts what comes of a tick
 *   waits_since(t)       since when a task waits
 *   RESCUE_DEPTH         how many tasks of a list are looked at when starving ones are looked for, 0 for all
 */
#ifndef FAIRGROUND_O1_TASK_H
#define FAIRGROUND_O1_TASK_H

/* ---- Lists ----------------------------------------------------------------------------------------------------- */

#define ARRAY_MASK (sizeof(((struct run_queue *)0)->bitmap) / sizeof(u64) - 1)

/* Index of a priority's list in an array */
static __always_inline u32 prio_index(s32 prio)
{
	u32 index = prio - MAX_RT_PRIO;

	return index < MAX_USER_PRIO ? index : MAX_USER_PRIO - 1;
}

static __always_inline void set_list_bit(struct run_queue *rq, u32 array, u32 index)
{
	__sync_fetch_and_or(&rq->bitmap[array & ARRAY_MASK], 1ULL << (index & 63));
}

/*
 * Clears the bit of a list that turned out empty; only the CPU itself does so. Another CPU may move a task into the list
 * meanwhile and sets the bit after that, so looking once more after clearing catches every order of the two.
 */
static __always_inline void clear_list_bit(struct run_queue *rq, u32 array, u32 index)
{
	__sync_fetch_and_and(&rq->bitmap[array & ARRAY_MASK], ~(1ULL << (index & 63)));
	if (scx_bpf_dsq_nr_queued(list_dsq(rq->cpu, array, index)) > 0)
		set_list_bit(rq, array, index);
}

/* ---- The tick -------------------------------------------------------------------------------------------------- */

/* task_running_tick() for one tick: true if the task has to make way. */
static __noinline bool task_running_tick(struct run_queue *rq, struct task_ctx *t, u64 jiffies)
{
	u32 turn;

	/* It has expired but was not switched away from yet */
	if (is_expired(rq, t))
		return true;

	if (t->time_slice)
		t->time_slice--;
	if (!t->time_slice) {
		count_tick(STAT_SLICES_EXPIRED);
		t->at_head = false;
		t->prio = effective_prio(t);
		t->time_slice = task_timeslice(t);
		t->first_time_slice = false;
		if (!rq->expired_timestamp)
			rq->expired_timestamp = jiffies;
		if (task_interactive(t)) {
			if (!expired_starving(rq, t, jiffies)) {
				count_tick(STAT_REINSERTED_ACTIVE);
				return true;
			}
			count_tick(STAT_EXPIRED_STARVING);
		}
		set_expired(rq, t, true);
		if (t->static_prio < rq->best_expired_prio)
			rq->best_expired_prio = t->static_prio;
		return true;
	}

	/* An interactive task takes turns with others of its priority within its slice */
	if (!task_interactive(t))
		return false;
	turn = timeslice_granularity(t);
	if (t->time_slice >= turn && (task_timeslice(t) - t->time_slice) % turn == 0) {
		count_tick(STAT_ROUND_ROBINS);
		t->at_head = false;
		return true;
	}
	return false;
}

/* Charges the running task the ticks that have passed since it was last charged: true if it has to make way. */
static __noinline bool charge_ticks(struct run_queue *rq, struct task_ctx *t, u64 now)
{
	u64 jiffies = jiffies_at(now);
	u64 from = t->charged_until;
	bool need_resched = false;
	int i;

	if (jiffies <= from)
		return false;
	t->charged_until = jiffies;
	/* No slice is longer than a thousand ticks, and past its end nothing more happens */
	bpf_for(i, 0, min(jiffies - from, 1000))
		need_resched |= task_running_tick(rq, t, from + 1 + i);
	rq->curr_prio = t->prio;
	return need_resched;
}

/* ---- Sleeping and waking up ------------------------------------------------------------------------------------ */

/* Kernel threads that wait without counting as load wait as older ones waited interruptibly. */
static __always_inline bool sleeps_uninterruptibly(const struct task_struct *p, u64 deq_flags)
{
	return (deq_flags & SCX_DEQ_SLEEP) && (p->__state & TASK_UNINTERRUPTIBLE) && !(p->__state & TASK_NOLOAD);
}

/* activate_task(): credits the sleep and puts the task's priority right. */
static void activate_task(struct task_struct *p, struct task_ctx *t, struct run_queue *rq, u64 now)
{
	if (t->uninterruptible)
		t->sleep_type = SLEEP_NONINTERACTIVE;
	t->uninterruptible = false;
	t->prio = recalc_task_prio(p, t, elapsed(t->timestamp, now));
	if (t->sleep_type == SLEEP_NORMAL)
		t->sleep_type = in_interrupt() ? SLEEP_INTERRUPTED : SLEEP_INTERACTIVE;
	t->timestamp = now;
	set_expired(rq, t, o1_release == O1_2_6_22 && batch_task(p));
	t->at_head = false;
}

/* First run after a wake-up: waiting on the queue counts as sleep, wholly or in part. The run begins. */
static __always_inline void credit_wait(struct task_struct *p, struct task_ctx *t, u64 now)
{
	u64 waited = elapsed(t->timestamp, now);

	if (t->sleep_type == SLEEP_INTERACTIVE)
		waited = waited * (ON_RUNQUEUE_WEIGHT * 128 / 100) / 128;
	if (t->sleep_type == SLEEP_INTERACTIVE || t->sleep_type == SLEEP_INTERRUPTED)
		t->prio = recalc_task_prio(p, t, waited);
	t->sleep_type = SLEEP_NORMAL;
	t->timestamp = now;
	t->last_ran = now;
	t->charged_until = jiffies_at(now);
}

/* ---- Fork ------------------------------------------------------------------------------------------------------ */

/* sched_fork(): parent and child share what is left of the parent's slice. Runs in the parent. */
static __always_inline void sched_fork(struct task_ctx *t, u64 now)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	s32 cpu = bpf_get_smp_processor_id();
	struct run_queue *rq = run_queue_of(cpu);
	struct task_ctx *parent_ctx = task_ctx_of(parent);

	if (!parent_ctx || !parent_ctx->running || !rq)
		return;
	if (charge_ticks(rq, parent_ctx, now))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	t->sleep_avg = parent_ctx->sleep_avg;
	t->time_slice = (parent_ctx->time_slice + 1) / 2;
	t->first_time_slice = true;
	parent_ctx->time_slice /= 2;
	if (!parent_ctx->time_slice) {
		parent_ctx->time_slice = 1;
		if (task_running_tick(rq, parent_ctx, jiffies_at(now))) {
			rq->curr_prio = parent_ctx->prio;
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		}
	}
}

/*
 * wake_up_new_task(): lowers the credit of child and parent. On the parent's CPU, a child with an address space of its
 * own goes directly in front of its parent, which this says; otherwise it queues like any other.
 */
static __noinline bool wake_up_new_task(struct task_struct *p, struct task_ctx *t, struct run_queue *rq, u64 now)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task_ctx *parent_ctx = task_ctx_of(parent);
	u32 step = max_sleep_avg() / max_bonus();

	set_expired(rq, t, o1_release == O1_2_6_22 && batch_task(p));
	t->at_head = false;
	t->timestamp = now;
	if (!parent_ctx || !parent_ctx->running) {
		t->prio = effective_prio(t);
		return false;
	}

	t->sleep_avg = jiffies_to_ns((u64)(current_bonus(t) * CHILD_PENALTY / 100) * step);
	t->prio = effective_prio(t);
	parent_ctx->sleep_avg = jiffies_to_ns((u64)(current_bonus(parent_ctx) * PARENT_PENALTY / 100) * step);

	if (rq->cpu != (s32)bpf_get_smp_processor_id() || p->mm == parent->mm)
		return false;
	t->prio = parent_ctx->prio;
	set_expired(rq, t, is_expired(rq, parent_ctx));
	t->at_head = true;
	parent_ctx->child_first = true;
	return true;
}

/* ---- Nobody waits for ever (not O(1)'s) ------------------------------------------------------------------------ */

#define RESCUE_INTERVAL NSEC_PER_SEC
#define mark_rescued(t) ((t)->rescued = true)

#include "starving_queue.h"

__noinline bool rescue_from_list(s32 cpu, u32 array, u32 index)
{
	return rescue_from_queue(list_dsq(cpu, array, index), 0, RESCUE_DEPTH);
}

/*
 * Runs a task that has waited for too long for one tick: the rules let tasks wait for longer than sched_ext's watchdog does. Looks
 * once a second, and again at the next pick if it has found one.
 */
__noinline bool rescue_starved(s32 cpu, u64 now)
{
	struct run_queue *rq = run_queue_of(cpu);
	u32 array, index;

	if (!rq || !starvation_limit || rq->nr_running <= 1 || time_before(now, rq->rescue_at))
		return false;
	for (array = 0; array <= ARRAY_MASK; array++) {
		u64 bitmap = rq->bitmap[array];

		bpf_for(index, 0, MAX_USER_PRIO)
			if ((bitmap & (1ULL << index)) && rescue_from_list(cpu, array, index)) {
				count(STAT_RESCUED);
				return true;
			}
	}
	rq->rescue_at = now + RESCUE_INTERVAL;
	return false;
}

/* Has nothing been picked for a second, so that nobody has looked? Slices may be set as long as that. */
static __always_inline bool rescue_overdue(const struct run_queue *rq, u64 now)
{
	return starvation_limit && rq->nr_running > 1 && !time_before(now, rq->rescue_at + RESCUE_INTERVAL);
}

#endif /* FAIRGROUND_O1_TASK_H */
