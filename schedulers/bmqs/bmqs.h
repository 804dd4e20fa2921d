/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bmqs.h - the tunables of bmqs, its counters, and its records of tasks and run queues
 */
#pragma once

#include "fairground.bpf.h"
#include "best_task.h"
#include "idle_task.h"
#include "starvation.h"
#include "task_attributes.h"
#include "tick_counter.h"
#include "topology.h"

/* ---- Tunables -------------------------------------------------------------------------------- */

/* Timer ticks per second */
const volatile u32 hz = 100;

/* Time slices of nice 19 and nice -20, microseconds, and the number of steps between them */
const volatile u32 min_nice_tslice = 10000;
const volatile u32 max_nice_tslice = 65000;
const volatile u32 nice_tslice_steps = 39;
/* Limit of a parent's slice when it gets the rest of its dead child's, ms */
const volatile u32 max_tslice = 200;
const volatile u32 max_dynprio = 40;
const volatile u32 mm_affinity_bonus = 1;
/*
 * Effect of sched_yield(): 0 ends the slice and takes a point; 1, as in 2.5.1, does neither but
 * moves the task to the end of its list
 */
const volatile u32 yield_rule;

/* MSI between CPUs, by what they share: how long one may idle seeing the other overloaded, ms */
const volatile u32 msi_core = 20;
const volatile u32 msi_cache = 50;
const volatile u32 msi_node = 50;
/*
 * For CPUs of different nodes: for each 10 by which the distance between the nodes exceeds 10, the
 * distance of a node to itself
 */
const volatile u32 msi_remote = 100;

/* Weight of a task in a run queue, MSTW, ms */
const volatile u32 mvtsk_cost = 24;
/* Length of a run queue that counts as overloaded */
const volatile u32 min_mov_rqlen = 2;
/* Scaling factor of move costs, Kd */
const volatile u32 kd = 16;
/* No task is taken from a CPU if that costs this much or more */
const volatile u32 max_move_cost = 1000;
/* Advantage of a task whose address space was the last one on the idle CPU, ms */
const volatile u32 move_mm_bonus = 20;

/* Real-time tasks of the same priority: 0 take turns (SCHED_RR), 1 keep the CPU (SCHED_FIFO) */
const volatile u32 realtime_policy;

/* Two lists per CPU: 0 no; 1 yes, CPU-bound tasks in order; 2 yes, CPU-bound tasks by goodness */
const volatile u32 dual_queue;
/* With more ticks than this a task belongs in the I/O-bound list; 0: the slice of nice 0 */
const volatile u32 dual_queue_threshold;

#define YIELD_OLD 1
#define REALTIME_FIFO 1
#define DUAL_QUEUE_FIFO 1

/* ---- Statistics, in the order of scheduler.toml ---------------------------------------------- */

enum statistic {
	STAT_SCHEDULES,
	STAT_LIST_STEPS,
	STAT_RECALCULATIONS,
	STAT_RECALCULATED_TASKS,
	STAT_DYN_PRIO_GAINED,
	STAT_IDLE_RESCHEDULES,
	STAT_PREEMPTIONS,
	STAT_YIELDS,
	STAT_YIELD_POINTS_LOST,
	STAT_FORKS_PLACED_ELSEWHERE,
	STAT_INHERITED,
	STAT_RT_WAKEUPS,
	STAT_RT_ON_LAST_CPU,
	STAT_RT_ON_OTHER_CPU,
	STAT_RT_ON_WEAKEST,
	STAT_RT_CHECKPOINTS,
	STAT_RESCUES,
	STAT_RT_RECHECKS,
	STAT_IDLE_PASSES,
	STAT_STEALS,
	NR_STATISTICS,
};

DEFINE_STATISTICS(NR_STATISTICS)

/* ---- Tasks and run queues -------------------------------------------------------------------- */

/* Run queues are numbered by their CPUs; this is the one of global real-time tasks. */
#define RT_QID (-1)
#define NO_QUEUE (-2)

/* Goodness below that of every task */
#define NOTHING -1000
#define REALTIME_GOODNESS 1000

/* The walk is also repeated after slices are handed out or a task is stolen. */
#define WALKS (SCHEDULE_ATTEMPTS + 2)

/* How many CPUs a CPU's balancing memory has room for */
#define MAX_CPUS 8192

struct task_ctx {
	/* time_slice: how many ticks are left */
	struct tick_counter counter;
	/* Points for the recalculations that it missed */
	s32 dyn_prio;
	/* Number of the last recalculation of its run queue for which it got a slice or a point */
	u32 rcl_last;
	/* Its run queue, also while it sleeps: that of the CPU it belongs to, or RT_QID */
	s32 task_qid;
	/* The run queue that counts it, NO_QUEUE while it is not runnable */
	s32 counted_on;
	/* CPU it ran on last */
	s32 processor;
	/* enum realtime_kind, and the priority if it is real-time */
	u32 realtime;
	u32 rt_priority;
	/* Place in the list of its queue: smaller is nearer the front */
	u64 place;
	/* Tick at which it last ran */
	u64 run_jtime;
	/* Since when it waits, nanoseconds */
	u64 waiting_since;
	/* Runnable: in a list or running */
	bool listed;
	/* It has just lost the CPU and goes back to its place */
	bool put_prev;
	/* SCHED_YIELD: gives way to every other task once */
	bool yielding;
	/* A global real-time task that has not run since it woke */
	bool fresh;
	/* Runs for a tick because it has waited for starvation_limit */
	bool rescued;
};

DEFINE_TASK_DATA(struct task_ctx, task_ctx_map, task_ctx)

static __always_inline u64 waits_since(const struct task_ctx *t)
{
	return t->waiting_since;
}

#include "starving_queue.h"

/* The second list of a queue comes after the first: its places have this bit set. */
#define CPU_BOUND (1ULL << 62)

struct run_queue {
	/* Runnable tasks of the queue, including the running one */
	u32 qnr_running;
	/* Recalculations so far */
	u32 rcl_curr;
	/* This CPU has found that all global real-time tasks up to this checkpoint have a CPU */
	u64 rtt_chkp;
	/* The loaded address space; kernel threads borrow it */
	u64 active_mm;
	/* The current task must call schedule() */
	u32 need_resched;
	bool online;
	/* Tick at which the current task must give way, 0 if there is none */
	u64 slice_end;
	/* When this CPU next looks for a starved task, nanoseconds */
	u64 rescue_at;
	/*
	 * Balancing: how many looks in a row found each CPU overloaded, and whether they are enough
	 * to take a task from it
	 */
	u8 ldhits[MAX_CPUS];
	bool hcpus[MAX_CPUS];
};

DEFINE_PER_CPU(struct run_queue, run_queue)

/* Runnable global real-time tasks */
static u32 rt_qnr_running;

/* Counts the wake-ups of global real-time tasks. */
static u64 grt_chkp;

static u32 nr_cpus;
static u32 num_online_cpus;

/* The list of a queue: a dispatch queue ordered by the tasks' places. */
static __always_inline u64 list_dsq(s32 qid)
{
	return qid - RT_QID;
}

static __always_inline bool is_realtime(const struct task_ctx *t)
{
	return t->realtime != REALTIME_NONE;
}

static __always_inline bool is_global(const struct task_ctx *t)
{
	return t->realtime == REALTIME_GLOBAL;
}

/* Also false for a CPU that does not exist. */
static __always_inline bool can_schedule(const struct task_struct *p, s32 cpu)
{
	struct run_queue *rq = run_queue_of(cpu);

	return rq && rq->online && can_run_on(p, cpu);
}
