/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * eevdf.h - the tunables of eevdf, its counters, and its records of CPUs and tasks
 */
#pragma once

#include "fairground.bpf.h"

/* Weights have ten fraction bits, since groups make them small */
#define LOAD_SCALE 1024ULL
#define NICE_0_LOAD (NICE_0_WEIGHT * LOAD_SCALE)

#include "fair_state.h"
#include "in_interrupt.h"
#include "pelt.h"
#include "clocks.h"
#include "fair_domains.h"

/* ---- Tunables; scheduler.toml explains them -------------------------------------------------- */

const volatile u32 hz = 250;
const volatile u64 sched_base_slice = 700 * NSEC_PER_USEC;
const volatile bool place_lag = true;
const volatile bool place_deadline_initial = true;
const volatile bool run_to_parity = true;
const volatile bool delay_dequeue = true;
const volatile bool hrtick = true;
/* enum preempt_model */
const volatile u32 preempt = 0;
const volatile u64 sched_migration_cost = 500 * NSEC_PER_USEC;
const volatile bool sched_energy_aware = true;

/* ---- Statistics, in the order of scheduler.toml ---------------------------------------------- */

enum statistic {
	STAT_WAKEUPS,
	STAT_FORKS,
	STAT_WAKEUP_PREEMPTIONS,
	STAT_SHORT_PREEMPTIONS,
	STAT_LAZY_PREEMPTIONS,
	STAT_TICK_PREEMPTIONS,
	STAT_HRTICKS,
	STAT_DEADLINES,
	STAT_ELIGIBLE_MOVES,
	STAT_DELAYED_DEQUEUES,
	STAT_DELAYED_WAKEUPS,
	STAT_DELAYED_PICKS,
	STAT_UNEVEN_SUMS,
	STAT_RESCUES,
	STAT_YIELDS,
	STAT_AFFINE_WAKEUPS,
	STAT_IDLE_WAKEUPS,
	STAT_BALANCES,
	/* In the order of enum cpu_idle_type */
	STAT_PULLED_BUSY,
	STAT_PULLED_IDLE,
	STAT_PULLED_NEWLY_IDLE,
	STAT_PUSHED_ACTIVE,
	STAT_THROTTLINGS,
	NR_STATISTICS,
};

DEFINE_STATISTICS(NR_STATISTICS)

#define SCHED_IDLE_WEIGHT 3

/* Number of tasks that one balancing examines */
#define sched_nr_migrate 32

/* Limits of a slice that a task asks for itself */
#define MIN_CUSTOM_SLICE (NSEC_PER_MSEC / 10)
#define MAX_CUSTOM_SLICE (100 * NSEC_PER_MSEC)

/* Number of sleeping tasks that a CPU can keep competing; any more are dequeued at once */
#define NR_DELAYED 64

/* CPUs with a lock and a timer of their own, a power of two; others share a lock, without timer */
#define NR_LOCKS 1024

/* No timer is set for less time, nor reset for a smaller difference */
#define HRTICK_SHORTEST (10 * NSEC_PER_USEC)
#define HRTICK_MARGIN (5 * NSEC_PER_USEC)

/* Within these, a key multiplied by the sum of weights fits in 64 bits */
#define KEY_LIMIT (1LL << 33)
#define LOAD_LIMIT (1ULL << 29)

/* Distance beyond which a NUMA domain neither balances forks nor pulls wake-ups */
#define NODE_RECLAIM_DISTANCE 30

/* Imbalance between nodes that a pair of tasks may cause */
#define NUMA_IMBALANCE_MIN 2

/* Sides of a newly idle CPU's dice */
#define NEWIDLE_DICE 1024

/* Bits of task_struct.__state other than sleep: stopped, traced, parked, dead, waking, frozen */
#define SPECIAL_STATES 0x82cc

static __always_inline u32 balance_rules(void)
{
	return BALANCE_7_3;
}

static __always_inline u64 migration_cost(void)
{
	return sched_migration_cost;
}

/* A task that sleeps with negative lag, and competes until that is used up */
struct delayed_entity {
	/* 0: free */
	s32 pid;
	u64 h_load;
	u64 vruntime;
	u64 deadline;
	u64 slice;
};

/* Run queue of a CPU */
struct run_queue {
	FAIR_QUEUE_STATE
	/* Sums over waiting and delayed tasks, not the running one; under the lock in rq_locks */
	s64 sum_w_vruntime;
	u64 sum_weight;
	u64 zero_vruntime;

	/* Runnable tasks with policy SCHED_IDLE */
	u32 nr_idle;
	/* Runnable and delayed tasks whose slice is not the base slice */
	u32 nr_custom;
	u32 nr_delayed;
	/* Runs no task of any class */
	bool idle;
	u32 capacity;

	/* Groups throttled here; may some go on; have the running task's groups no runtime left */
	u32 nr_throttled;
	bool refilled;
	bool out_of_runtime;

	/* Of the running task */
	u32 curr_group;
	bool curr_idle_policy;
	bool curr_custom;
	u64 curr_deadline;
	u64 curr_slice;
	/* Virtual time until which it keeps the CPU if it is eligible */
	u64 vprot;
	/*
	 * Clock at which the request ends between ticks, and at which the timer fires, which may be
	 * earlier; 0: not set
	 */
	u64 hrtick_time;
	u64 timer_time;
	/* need_resched was set without an interrupt */
	bool need_resched_lazy;

	/* The queue into which the CPU last put a task: most likely the one that is not empty */
	u64 last_dsq;

	/* The task that has just come from another CPU, or 0 */
	s32 pulled_pid;
	/* Buddy: the task that should run next if it is eligible, or 0 */
	s32 next_pid;
	u64 next_vruntime;
	u64 next_slice;

	/* Results of best_waiting() and sort_waiting(), best_delayed() */
	u64 best_deadline;
	u64 delayed_deadline;

	/* Load of the entities of groups */
	u64 group_load;
	/*
	 * Averages of the load of other tasks, of runnable and running ones, and the amounts that
	 * other CPUs added or took away
	 */
	u64 pelt_last;
	u64 load_avg;
	u64 runnable_avg;
	u64 util_avg;
	s64 moved_load;
	s64 moved_runnable;
	s64 moved_util;
	/* Sum of the estimated utilization of the runnable tasks */
	u64 util_est;
	u64 misfit_task_load;
	/* The clock of the averages, when it was that, and how far it stays behind the time */
	u64 clock_pelt;
	u64 clock_task;
	u64 lost_idle_time;
	/*
	 * The averages have changed since the last request for a frequency; clocks of that, and of
	 * the last update while idle
	 */
	bool decayed;
	u64 sugov_last_update;
	u64 blocked_at;
	u64 iowait_boost;

	BALANCE_STATE
	/* In a group's first CPU, by the group's level: pinned tasks kept it from being balanced */
	bool group_imbalance[NR_LEVELS];
	/* In the first CPU of a last-level cache: shared by its CPUs */
	bool has_idle_cores;
	u32 nr_idle_scan;
	struct lb_env env;

	/* Slots below delayed_top may be taken */
	u32 delayed_top;
	struct delayed_entity delayed[NR_DELAYED];
};

DEFINE_PER_CPU(struct run_queue, run_queue)

/* The run queue of @cpu, which is most likely @near. */
static __always_inline struct run_queue *run_queue_beside(struct run_queue *near, s32 cpu)
{
	return near && near->cpu == cpu ? near : run_queue_of(cpu);
}

/* Walk over the slots below @top that may hold delayed tasks. */
#define for_each_slot(slot, i, cfs_rq, top)						\
	bpf_for(i, 0, top)								\
		if ((i) >= NR_DELAYED || !((slot) = &(cfs_rq)->delayed[i])) break; else

#include "fair_running.h"

/* The scheduler's record of a task */
struct task_ctx {
	FAIR_TASK_STATE
	/*
	 * Weight of its policy and nice value, which weight is for a task of the root, otherwise 0;
	 * and in the tree
	 */
	u32 own_weight;
	u64 h_load;
	/*
	 * Number of its group, 0 for the root; one plus the CPU where it counts there, with which
	 * weight, and whether as runnable
	 */
	u32 group;
	s32 group_cpu;
	u64 group_weight;
	bool group_runnable;
	/* It has left the tree, until its groups have runtime */
	bool throttled;
	u64 deadline;
	u64 slice;
	s64 vlag;
	u64 vprot;
	/* One plus the CPU whose sums include the task as waiting, or 0; changed atomically */
	s32 in_tree;
	/* One plus the CPU where it competes while it sleeps, or 0, and its slot there */
	s32 delayed_cpu;
	u32 delayed_slot;
	/* One plus the CPU to which active balancing pushes the task, or 0 */
	s32 push_cpu;
	/* The deadline is relative to vruntime */
	bool rel_deadline;
	bool custom_slice;
	bool idle_policy;
	/* By its policy or a group, it takes only the time that others leave */
	bool counts_idle;
	/* Clock when it last ran */
	u64 exec_start;

	/* Averages of being runnable and running, out of 1024; one plus the CPU that sums them */
	u64 pelt_last;
	u64 load_avg;
	u64 util_avg;
	u64 util_est;
	u64 util_est_counted;
	s32 pelt_cpu;

	/* How often it wakes a different task than before: the wake-up rate of wake_wide() */
	u32 wakee_flips;
	u64 wakee_flip_decay;
	s32 last_wakee;
	s32 recent_used_cpu;
};

DEFINE_TASK_DATA(struct task_ctx, task_ctx_map, task_ctx)

static __always_inline u64 waits_since(const struct task_ctx *se)
{
	return se->wait_start;
}

#include "starving_queue.h"

/* CPUs' records may not contain locks or timers, so they are here */
struct rq_lock {
	struct bpf_spin_lock lock;
	struct bpf_timer hrtick;
};

DEFINE_ARRAY(ARRAY, rq_locks, NR_LOCKS, struct rq_lock)

/* Set by init() from the tunables and the machine */
/* Base slice, scaled by the number of CPUs */
static u64 base_slice;
static bool smt_active;
static bool asym_active;

/* Virtual times wrap around: the sign of the difference counts. */
static __always_inline u64 min_vruntime(u64 a, u64 b)
{
	return time_before(b, a) ? b : a;
}

/* n / d for signed numbers, rounded toward zero (BPF divides unsigned ones). */
static __always_inline s64 divide(s64 n, u64 d)
{
	return n < 0 ? -(s64)((u64)-n / (d ?: 1)) : (s64)((u64)n / (d ?: 1));
}

/* n / d, rounded down. */
static __always_inline s64 divide_floor(s64 n, u64 d)
{
	return n < 0 ? -(s64)(((u64)-n + d - 1) / (d ?: 1)) : (s64)((u64)n / (d ?: 1));
}

/* Dispatch queues of a CPU: tasks known to be eligible, by deadline; others, by virtual runtime. */
static __always_inline u64 eligible_dsq(s32 cpu)
{
	return (u64)(u32)cpu * 2;
}

static __always_inline u64 ineligible_dsq(s32 cpu)
{
	return (u64)(u32)cpu * 2 + 1;
}

/* Tasks that compete: runnable or delayed. */
static __always_inline u32 h_nr_queued(const struct run_queue *cfs_rq)
{
	return cfs_rq->nr_running + cfs_rq->nr_delayed;
}

/* ---- What the headers call of eevdf.bpf.c ---------------------------------------------------- */

/* The running task's state goes from the run queue into its record; no task of ours runs. */
static void store_curr(struct run_queue *cfs_rq, struct task_ctx *se, u64 now);
static void clear_curr(struct run_queue *cfs_rq);
static void clear_buddies(struct run_queue *cfs_rq, s32 pid);
static bool hrtick_update(struct run_queue *cfs_rq, u64 now);
static void join(struct run_queue *cfs_rq, struct task_ctx *se, struct task_struct *p, bool initial,
		 u64 now);
static bool enter(struct run_queue *cfs_rq, struct task_ctx *se, s32 cpu, struct virtual_time *time,
		  u64 now);
bool wakeup_preempt(struct task_struct *p, struct run_queue *cfs_rq, struct task_ctx *se,
		    struct virtual_time *time, bool fork);
