/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * o1.h - the tunables of o1, its counters, and its records of tasks and CPUs
 */
#pragma once

#include "fairground.bpf.h"
#include "in_interrupt.h"
#include "starvation.h"
#include "topology.h"

/* Priorities */
#define MAX_USER_PRIO (MAX_PRIO - MAX_RT_PRIO)

/* Load of one task of nice 0, and computing power of one CPU */
#define SCHED_LOAD_SCALE 128ULL

/* RTPRIO_TO_LOAD_WEIGHT of a medium priority; that of a task that took an idle CPU is unknown. */
#define REAL_TIME_WEIGHT (1024 + 50 * 128 / 100)

/*
 * How many tasks of each list a CPU checks when it looks for starving ones. The task that has
 * waited longest is first, except for one that had to make way and its children; and a pick should
 * cost the same for any number of tasks.
 */
#define RESCUE_DEPTH 4
#define RESCUE_INTERVAL NSEC_PER_SEC

/* Microseconds for which a task counts as cache-hot, by the level at which it would move */
#define CACHE_HOT_TIME_SHARED 0
#define CACHE_HOT_TIME_CPU 2500
#define CACHE_HOT_TIME_NODE 10000

/* A run queue without an ordinary task running: nothing can be better than this */
#define NO_CURRENT (-1)

/* ---- Tunables -------------------------------------------------------------------------------- */

/* Whose priorities: O1_2_6_22, or O1_2_6_2 for the kernel that EBS was compared with */
const volatile u32 release = 0;

/* Ticks of the era per second */
const volatile u32 hz = 250;

/* DEF_TIMESLICE, milliseconds, as the documents write it; the formulas turn it into ticks */
const volatile u32 def_timeslice = 100;

/* CONFIG_SCHED_MC */
const volatile bool sched_mc = true;

/* ---- Statistics, in the order of scheduler.toml ---------------------------------------------- */

enum statistic {
	STAT_WAKEUPS,
	STAT_PREEMPTIONS,
	STAT_SLICES_EXPIRED,
	STAT_REINSERTED_ACTIVE,
	STAT_EXPIRED_STARVING,
	STAT_ROUND_ROBINS,
	STAT_ARRAY_SWITCHES,
	STAT_YIELDS,
	STAT_CHILDREN_FIRST,
	STAT_SLICES_RETURNED,
	STAT_AFFINE_WAKEUPS,
	STAT_IDLE_WAKEUPS,
	STAT_BALANCES,
	STAT_PULLED_PERIODIC,
	STAT_PULLED_NEWLY_IDLE,
	STAT_PUSHED,
	STAT_RESCUED,
	NR_STATISTICS,
};

DEFINE_STATISTICS(NR_STATISTICS)

#include "sched_domains.h"

static __always_inline u32 balance_rules(void)
{
	return BALANCE_2_6_22;
}

/* However short its idle times are, a CPU that becomes idle looks for tasks. */
static __always_inline u64 migration_cost(void)
{
	return 0;
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

struct task_ctx {
	/* Nanoseconds of sleep credit, 0 to NS_MAX_SLEEP_AVG */
	u64 sleep_avg;
	/* Start of the current run, wait or sleep, and last switch away from it; nanoseconds */
	u64 timestamp;
	u64 last_ran;
	/* Tick up to which the current run is charged, and ticks left of the slice */
	u64 charged_until;
	/* CPU time when it left for another class */
	u64 left_after;
	u32 time_slice;
	s32 static_prio;
	s32 prio;
	s32 interactive_credit;
	/* enum sleep_type */
	u32 sleep_type;
	/* Still in the slice it got from its parent */
	bool first_time_slice;
	/* Goes to the front of its list: it ran without being requeued, so it keeps its place */
	bool at_head;
	/* A child has been put in front of the task */
	bool child_first;
	/* Sleeping uninterruptibly */
	bool uninterruptible;
	bool running;
	/* Runs for one tick because it has waited for starvation_limit */
	bool rescued;
	/* Share of the run queue's load; one plus the CPU that counts it, 0: not runnable */
	u32 weight;
	s32 on_rq;
	/* CPU to which active balancing pushes the task, -1 for none */
	s32 push_cpu;
	/* Index of the array the task is in, or was in last, and its CPU */
	u32 array;
	s32 array_cpu;
	/* Forked and not yet woken for the first time */
	bool new;
	/* Running while its attributes change */
	bool changing;
	/* SCHED_BATCH or SCHED_IDLE */
	bool batch;
	/* The waker said that it will soon leave the CPU on which the task wakes up */
	bool sync;
};

DEFINE_TASK_DATA(struct task_ctx, task_ctx_map, task_ctx)

static __always_inline u64 waits_since(const struct task_ctx *t)
{
	return t->timestamp;
}

#include "starving_queue.h"

/* ---- Run queues ------------------------------------------------------------------------------ */

struct run_queue {
	/* A bit for each list of an array that may hold tasks; 0 is priority 100 */
	u64 bitmap[2];
	/* Index of the active array; the other one is the expired array */
	u32 active;
	s32 cpu;
	/* Number of runnable tasks, including the running one, and the sum of their weights */
	u32 nr_running;
	u64 load_weight;
	/* Jiffies when the first task entered the expired array since the switch, 0: none */
	u64 expired_timestamp;
	/* Best static priority in the expired array */
	s32 best_expired_prio;
	/* When to look for starving tasks next, nanoseconds */
	u64 rescue_at;
	/* The running task, if there is one: its dynamic priority and weight */
	bool curr;
	s32 curr_prio;
	u32 curr_weight;
	/*
	 * While the CPU looks for the next task: the dynamic priority of the one that has just gone
	 * to sleep, else MAX_PRIO
	 */
	s32 prev_prio;
	/* When schedule() last chose a task, after looking for one on other CPUs */
	u64 scheduled_at;
	/* A real-time task has the CPU and is counted */
	u32 real_time;
	bool idle;
	/* Tasks may wait in the queue of pushed tasks */
	bool pushed_to;
	BALANCE_STATE
	struct sched_domains domains;
};

DEFINE_PER_CPU(struct run_queue, run_queue)

/* DSQs of a CPU: two arrays of lists, then the queue of tasks that other CPUs have pushed here */
#define DSQS_PER_CPU (2 * MAX_USER_PRIO + 1)

static __always_inline u64 list_dsq(s32 cpu, u32 array, u32 index)
{
	return (u64)cpu * DSQS_PER_CPU + (array & 1) * MAX_USER_PRIO + index;
}

static __always_inline u64 pushed_dsq(s32 cpu)
{
	return (u64)cpu * DSQS_PER_CPU + 2 * MAX_USER_PRIO;
}

/* Index of a priority's list in an array */
static __always_inline u32 prio_index(s32 prio)
{
	u32 index = prio - MAX_RT_PRIO;

	return index < MAX_USER_PRIO ? index : MAX_USER_PRIO - 1;
}

static __always_inline void set_list_bit(struct run_queue *rq, u32 array, u32 index)
{
	__sync_fetch_and_or(&rq->bitmap[array & 1], 1ULL << (index & 63));
}

/*
 * Clears the bit of a list that turned out empty; only the CPU itself does so. Another CPU may move
 * a task into the list meanwhile and sets the bit after that, so checking again after clearing
 * catches either order of the two.
 */
static __always_inline void clear_list_bit(struct run_queue *rq, u32 array, u32 index)
{
	__sync_fetch_and_and(&rq->bitmap[array & 1], ~(1ULL << (index & 63)));
	if (scx_bpf_dsq_nr_queued(list_dsq(rq->cpu, array, index)) > 0)
		set_list_bit(rq, array, index);
}

/*
 * A task has been picked from a list. If no other task waited, the list is empty now, and clearing
 * its bit spares the next pick finding out. A CPU that moves a task here counts it before it sets
 * the bit, so checking the number again catches either order of the two.
 */
static __always_inline void picked_from_list(struct run_queue *rq, u32 array, u32 index,
					     u32 not_waiting)
{
	if (rq->nr_running != not_waiting + 1)
		return;
	__sync_fetch_and_and(&rq->bitmap[array & 1], ~(1ULL << (index & 63)));
	if (rq->nr_running != not_waiting + 1)
		set_list_bit(rq, array, index);
}

static __always_inline void set_array(struct task_ctx *t, const struct run_queue *rq, u32 array)
{
	t->array = array & 1;
	t->array_cpu = rq->cpu;
}

static __always_inline bool is_expired(const struct run_queue *rq, const struct task_ctx *t)
{
	return t->array != (rq->active & 1);
}

static __always_inline void set_expired(const struct run_queue *rq, struct task_ctx *t,
					bool expired)
{
	set_array(t, rq, rq->active + expired);
}

/* 1 while no task is runnable on any CPU and the balancing timer is off */
static u32 balancing_is_off;
