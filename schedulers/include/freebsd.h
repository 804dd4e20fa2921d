/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * freebsd.h - the common parts of FreeBSD's schedulers: two clocks, priorities by range, a thread's
 * slice, run queues of 64 lists
 *
 * FreeBSD counts `ticks` at hz and calls the scheduler at stathz, a different rate so that no
 * thread can hide from both. Priorities are 0 to 255, smaller is better; four share a list of a run
 * queue.
 *
 * The scheduler's struct td_sched has priority, slice, sliceend, running, charged_until and
 * waiting_since; STAT_RESCUES counts threads that had waited for too long. The tunables hz and
 * stathz are here.
 */
#pragma once

#include "starvation.h"

/* Calls of the scheduler's per-tick hook per second, and timer ticks per second */
const volatile u32 stathz = 127;
const volatile u32 hz = 1000;

/* Whose rules, in schedulers that have a tunable for it */
enum freebsd_release {
	FREEBSD_9,
	FREEBSD_8,
};

/* ---- Priorities ------------------------------------------------------------------------------ */

/* FreeBSD 9: priority range of each class of threads */
#define PRI_MAX_ITHD 47
#define PRI_MIN_REALTIME 48
#define PRI_MAX_REALTIME 79
#define PRI_MIN_KERN 80
#define PRI_MIN_TIMESHARE 120
/* FreeBSD 8; what comes before has other numbers there, too, in the same order */
#define PRI_MIN_TIMESHARE_8 160
#define PRI_MAX_TIMESHARE 223
#define PRI_MIN_IDLE 224
#define PRI_MAX_IDLE 255

/* The FreeBSD class of a Linux task. Real-time tasks never come here. */
enum thread_class {
	THREAD_TIMESHARE,
	/* SCHED_IDLE: idprio */
	THREAD_IDLE,
	/* A kernel thread: never returns to user mode, so it keeps a kernel priority */
	THREAD_KERNEL,
	/* A kernel thread bound to one CPU: does the work of interrupt threads */
	THREAD_INTERRUPT,
};

static __always_inline enum thread_class thread_class_of(const struct task_struct *p)
{
	if (p->policy == SCHED_IDLE)
		return THREAD_IDLE;
	if (!(p->flags & PF_KTHREAD))
		return THREAD_TIMESHARE;
	return p->nr_cpus_allowed == 1 ? THREAD_INTERRUPT : THREAD_KERNEL;
}

static __always_inline s32 clamped(s32 priority, s32 least, s32 most)
{
	return priority < least ? least : priority > most ? most : priority;
}

/* User priority of a thread whose use of the CPU does not count */
static __always_inline s32 static_priority(const struct task_struct *p)
{
	switch (thread_class_of(p)) {
	case THREAD_KERNEL:
		return PRI_MIN_KERN;
	case THREAD_INTERRUPT:
		return PRI_MAX_ITHD;
	default:
		return PRI_MIN_IDLE + (u32)(task_nice(p) + 20) * 31 / 39;
	}
}

/* ---- Clocks ---------------------------------------------------------------------------------- */

/* Length of a tick of stathz, and number of that at @now; the kernel's `ticks` are those of hz. */
static __always_inline u64 stat_tick_length(void)
{
	return NSEC_PER_SEC / (stathz ?: 1);
}

static __always_inline u64 stat_tick_at(u64 now)
{
	return now / stat_tick_length();
}

/* ---- The slice ------------------------------------------------------------------------------- */

/* Time until the tick at which the slice ends, nanoseconds */
static __always_inline u64 slice_left(const struct td_sched *ts, u64 now)
{
	return time_to_multiple(now, ts->slice > 0 ? ts->slice : 1, stat_tick_length());
}

/* Takes a tick from the slice. True if that ends it; the next one has @slice. */
static __always_inline bool slice_ends(struct td_sched *ts, u32 slice)
{
	if (ts->sliceend || --ts->slice > 0)
		return false;
	ts->slice = slice;
	ts->sliceend = true;
	return true;
}

/* Charges a running thread one tick of stathz; defined by the scheduler. */
static void sched_clock(struct task_struct *p, struct td_sched *ts);

/* Charges a running thread the ticks since it was last charged. */
static __noinline void charge_ticks(struct task_struct *p, struct td_sched *ts, u64 now)
{
	u64 from, tick = stat_tick_at(now);
	int i;

	if (!ts->running)
		return;
	from = __sync_lock_test_and_set(&ts->charged_until, tick);
	if (from >= tick)
		return;
	/* No slice is longer, however long the tick was kept away */
	bpf_for(i, 0, tick - from < 1000 ? tick - from : 1000)
		sched_clock(p, ts);
}

void BPF_STRUCT_OPS(freebsd_tick, struct task_struct *p)
{
	struct td_sched *ts = td_sched_of(p);
	u64 now = scx_bpf_now();

	if (!ts)
		return;
	charge_ticks(p, ts, now);
	scx_bpf_task_set_slice(p, ts->sliceend ? 0 : slice_left(ts, now));
}

/* ---- Run queues ------------------------------------------------------------------------------ */

/* Lists of a run queue, and priorities that share one */
#define RQ_NQS 64
#define RQ_PPQ 4

/* The list of a priority */
static __always_inline u32 list_of(s32 priority)
{
	u32 index = (u32)priority / RQ_PPQ;

	return index < RQ_NQS ? index : RQ_NQS - 1;
}

/*
 * A run queue is one dispatch queue ordered by place: a thread's list, best first, and in the lower
 * bits its place in the list. Threads at the same place stay in order of arrival. List numbers may
 * wrap around, as ULE's calendar does.
 */
#define LIST_SHIFT 48

static __always_inline u16 list_at(u64 place)
{
	return place >> LIST_SHIFT;
}

/* How many threads have been put at the head of a list */
static u64 put_in_front;

/* The place at the end of a list, or at its head. */
static __always_inline u64 place_in(u16 list, bool head)
{
	u64 end = ((u64)list << LIST_SHIFT) + (1ULL << (LIST_SHIFT - 1));

	return head ? end - 1 - __sync_fetch_and_add(&put_in_front, 1) : end;
}

/* The first thread of a run queue */
struct runq_head {
	u64 place;
	s32 priority;
};

/* A priority that is worse than all others */
#define NO_PRIORITY 256

/* runq_choose(), but only looks at the thread; false if there is none. */
__noinline bool runq_choose(u64 runq, struct runq_head *head __arg_nonnull)
{
	struct task_struct *p;

	head->priority = NO_PRIORITY;
	bpf_rcu_read_lock();
	p = scx_bpf_dsq_peek(runq);
	if (p) {
		struct td_sched *ts = td_sched_of(p);

		head->place = p->scx.dsq_vtime;
		if (ts)
			head->priority = ts->priority;
	}
	bpf_rcu_read_unlock();
	return head->priority != NO_PRIORITY;
}

/* ---- No thread waits for ever ---------------------------------------------------------------- */

/* Moves a run queue's threads that have waited too long to the front of @front, for a slice. */
__noinline u32 rescue(u64 runq, u64 front)
{
	u64 now = scx_bpf_now();
	struct task_struct *p;
	u32 rescued = 0;

	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, runq, 0) {
		struct td_sched *ts = td_sched_of(p);

		if (!ts || !ts->priority || !starved_for(ts->waiting_since, now))
			continue;
		scx_bpf_dsq_move_set_vtime(DSQ_ITERATOR, place_in(0, false));
		if (!scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p, front, 0))
			continue;
		count(STAT_RESCUES);
		ts->priority = 0;
		rescued++;
	}
	bpf_rcu_read_unlock();
	return rescued;
}
