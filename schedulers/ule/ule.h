/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ule.h - the tunables of ule, its counters, and its records of threads and CPUs
 */
#pragma once

#include "fairground.bpf.h"
#include "best_task.h"
#include "in_interrupt.h"
#include "starvation.h"
#include "topology.h"

/* ---- Tunables -------------------------------------------------------------------------------- */

/* Whose rules: enum freebsd_release */
const volatile u32 release = 0;

/* stathz ticks of a slice */
const volatile u32 slice = 12;

/* Scores below this are interactive */
const volatile u32 interact = 30;

/* Ticks of hz for which a cache is warm, for each of its levels */
const volatile u32 affinity = 1;

const volatile bool balance = true;
/* stathz ticks, on average */
const volatile u32 balance_interval = 127;

const volatile bool steal_idle = true;
/* Least load of a CPU to steal from, 0: the release's; within a core it is 1 */
const volatile u32 steal_thresh = 0;

/* Searches choose at random among CPUs with as many threads */
const volatile bool random_ties = true;

/*
 * Timers wake threads from the clock's own thread, which preempts, as in FreeBSD; else from the
 * interrupt, as in Linux
 */
const volatile bool clock_thread = true;

/* ---- Statistics, in the order of scheduler.toml ---------------------------------------------- */

enum statistic {
	STAT_TICKS,
	STAT_INTERACTIVE_TICKS,
	STAT_SCORES,
	STAT_PRIORITIES,
	STAT_RESCHEDULES,
	STAT_PREEMPTIONS,
	STAT_PICK_AFFINITY,
	STAT_STEALS,
	STAT_BALANCE_PASSES,
	STAT_BALANCED,
	STAT_CALENDAR_STEPS,
	STAT_FORKED_HISTORY,
	STAT_YIELDS,
	STAT_RESCUES,
	NR_STATISTICS,
};

DEFINE_STATISTICS(NR_STATISTICS)

/* ---- Threads --------------------------------------------------------------------------------- */

/* Fixed point of histories */
#define SCHED_TICK_SHIFT 10

/* Half of the range of scores */
#define SCHED_INTERACT_HALF 50

/* SCHED_SLP_RUN_MAX and SCHED_SLP_RUN_FORK: history that the score covers, a child keeps, ms */
#define SCHED_SLP_RUN_MAX 5000
#define SCHED_SLP_RUN_FORK 500

struct td_sched {
	/* History of running and of sleeping, `ticks` << SCHED_TICK_SHIFT */
	u64 runtime;
	u64 slptime;
	/* CPU use: `ticks` << SCHED_TICK_SHIFT that it ran from tick ftick to tick ltick */
	u64 ticks;
	u64 ftick;
	u64 ltick;
	/* `ticks` when it ran last, and so when it went to sleep; 0 for never */
	u64 rltick;
	/* stathz tick up to which the current run is charged */
	u64 charged_until;
	/* stathz ticks left of the slice; signed, as another CPU may look between two steps */
	s32 slice;
	/* td_priority, the one that counts, and td_user_pri, the one that user mode has */
	s32 priority;
	s32 user_pri;
	/*
	 * CPU whose load counts it, -1 while it is not runnable; and CPU that counts it as a thread
	 * that may be moved away
	 */
	s32 cpu;
	s32 transferable_on;
	/* Since when it waits, 0 if it does not */
	u64 waiting_since;
	bool running;
	bool sleeping;
	/* TDF_SLICEEND: a thread that leaves without it was preempted */
	bool sliceend;
	/* Has just lost its CPU, and in a way that brings it to the head of its list */
	bool requeued;
	bool preempted;
	/*
	 * Lost it inside an interrupt, from which it returns to user mode by another way than ast()
	 */
	bool interrupted;
	/* Has sunk by yielding */
	bool yielding;
	/* Running while its attributes change */
	bool changing;
	/* Has lost its CPU because it may no longer use it */
	bool migrates;
};

DEFINE_TASK_DATA(struct td_sched, td_sched_map, td_sched)

#include "freebsd.h"

/* ---- Run queues ------------------------------------------------------------------------------ */

enum queue {
	QUEUE_REALTIME,
	QUEUE_TIMESHARE,
	QUEUE_IDLE,
	NR_QUEUES,
};

/* Run queues are numbered CPU by CPU. */
static __always_inline u64 runq_of(s32 cpu, u32 queue)
{
	return (u64)cpu * NR_QUEUES + queue;
}

struct tdq {
	/* Threads including the running one, and those that wait and may move */
	u32 load;
	u32 transferable;
	/* Best priority that waits or runs */
	s32 lowpri;
	/* Priority of the current thread: worst if idle, best for one above sched_ext */
	s32 curpri;
	/* The calendar, whose list numbers keep growing: where to insert and where to remove */
	u16 idx;
	u16 ridx;
	/* The queue that the last thread was put into */
	u64 last_runq;
	bool idle;
	/* Its current thread is displaced inside an interrupt */
	bool interrupted;
	/* Interrupted, but has not responded yet */
	bool ipipending;
	/* Number of the last search that leaves this CPU out */
	u64 left_out_by;
};

DEFINE_PER_CPU(struct tdq, tdq)

/*
 * The timeshare range of 9: interactive threads have the part of its first half that nice values
 * leave, PRI_MIN_BATCH begins the rest. 8 has interactive threads in its real-time range, which
 * ends where its timeshare range begins.
 */
#define PRI_MIN_INTERACT (release == FREEBSD_8 ? PRI_MIN_BATCH - 32 : PRI_MIN_TIMESHARE)
#define PRI_MAX_INTERACT (PRI_MIN_BATCH - 1)
#define PRI_MIN_BATCH (release == FREEBSD_8 ? PRI_MIN_TIMESHARE_8 : 152)

static u32 nr_cpu_ids;
static u32 num_online_cpus;

/* SCHED_TICK_TARG and SCHED_TICK_MAX: the window of CPU use is cut to 10 s when it reaches 11 s */
static __always_inline u64 sched_tick_targ(void)
{
	return 10 * (u64)hz;
}

static __always_inline u64 sched_tick_max(void)
{
	return 11 * (u64)hz;
}
