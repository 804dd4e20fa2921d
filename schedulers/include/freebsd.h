/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * freebsd.h - what FreeBSD's schedulers have in common: two clocks, priorities by range, run queues of 64 lists
 *
 * FreeBSD counts `ticks` at hz and calls the scheduler at stathz, a rate of its own so that nobody can hide from both.
 * Smaller numbers are better priorities, 0 to 255; four share a list of a run queue.
 *
 * This header expects fairground.bpf.h. It defines the tunables hz and stathz.
 */
#pragma once

/* Calls of the scheduler's per-tick hook in a second, and timer ticks in a second */
const volatile u32 stathz = 127;
const volatile u32 hz = 1000;

/* ---- Priorities ------------------------------------------------------------------------------------------------ */

/* FreeBSD 9: where a class of threads begins and ends */
#define PRI_MAX_ITHD 47
#define PRI_MIN_REALTIME 48
#define PRI_MAX_REALTIME 79
#define PRI_MIN_KERN 80
#define PRI_MAX_KERN 119
#define PRI_MIN_TIMESHARE 120
#define PRI_MAX_TIMESHARE 223
#define PRI_MIN_IDLE 224
#define PRI_MAX_IDLE 255

/* What a Linux task is to FreeBSD. Real-time tasks never come here. */
enum thread_class {
	THREAD_TIMESHARE,
	/* SCHED_IDLE: idprio */
	THREAD_IDLE,
	/* A kernel thread: never returns to user mode, so it keeps a kernel priority */
	THREAD_KERNEL,
	/* A kernel thread that is bound to one CPU: does what interrupt threads do */
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

/* ---- Clocks ---------------------------------------------------------------------------------------------------- */

/* Number of the stathz tick in which @now lies */
static __always_inline u64 stat_tick_at(u64 now)
{
	return tick_at(now, stathz);
}

/* The kernel's `ticks`: timer ticks since the clock's zero */
static __always_inline u64 ticks_at(u64 now)
{
	return tick_at(now, hz);
}

/* ---- Run queues ------------------------------------------------------------------------------------------------ */

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
 * Which of 64 lists hold threads; the lists themselves are dispatch queues with ids in a row. A thread counts from before it
 * is inserted until it runs, is inserted elsewhere or leaves, because the insertion that ops.enqueue() asks for happens
 * only after it has returned: a bit that another CPU cleared when it found the list empty would be lost. So a bit may be
 * set for a list that is empty; whoever picks goes on to the next one.
 */
struct runq {
	u64 bits;
	u32 length[RQ_NQS];
	/* Threads in all of them, and those of them that may move to another CPU */
	u32 threads;
	u32 transferable;
};

/* A list's number that the verifier sees to be one: the compiler, which may know it already, is kept from leaving the mask out. */
static __always_inline u32 runq_index(u32 index)
{
	barrier_var(index);
	return index & (RQ_NQS - 1);
}

/* Counts a thread that is about to be put into list @index. */
static __always_inline void runq_announce(struct runq *rq, u32 index)
{
	index = runq_index(index);
	__sync_fetch_and_add(&rq->length[index], 1);
	__sync_fetch_and_or(&rq->bits, 1ULL << index);
}

/* Counts it no more; the bit goes with the last one. */
static __always_inline void runq_forget(struct runq *rq, u32 index)
{
	index = runq_index(index);
	if (__sync_fetch_and_add(&rq->length[index], -1) != 1)
		return;
	__sync_fetch_and_and(&rq->bits, ~(1ULL << index));
	/* Another CPU may have announced a thread between the two */
	if (*(volatile u32 *)&rq->length[index])
		__sync_fetch_and_or(&rq->bits, 1ULL << index);
}

/* First set bit, RQ_NQS if there is none */
static __always_inline u32 runq_first(u64 bits)
{
	return bits ? (u32)__builtin_ctzll(bits) : RQ_NQS;
}
