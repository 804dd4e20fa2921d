/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ebs.h - the tunables of ebs, its counters and parameters, and its records of tasks and CPUs
 */
#pragma once

#include "fairground.bpf.h"

/* By the document's own rules a task of the mean level may wait for 24 s */
#define STARVATION_LIMIT 20000

#include "fixed_point.h"
#include "pending_signals.h"
#include "starvation.h"
#include "task_attributes.h"
#include "topology.h"

#define NR_LEVELS (MAX_PRIO - MAX_RT_PRIO)
/* The SCHED_NORMAL level of a ratio of 1.0 */
#define MEAN_LEVEL (NR_LEVELS / 2)
/* Worse than all SCHED_NORMAL levels */
#define BACKGROUND_LEVEL NR_LEVELS
#define NO_LEVEL (NR_LEVELS + 1)
/* Better than all others: a task that would otherwise wait too long */
#define OVERDUE_LEVEL (-1)

/* Ticks in the turn of such a task: the rest of the current one, and a whole one */
#define OVERDUE_TICKS 2

#define MIN_SHARES 1
#define DEFAULT_SHARES 20
#define MAX_SHARES 420

/* ---- Tunables -------------------------------------------------------------------------------- */

/* Ticks of the era per second */
const volatile u32 hz = 1000;

/* Milliseconds, as in the document; the initial values of `parameters` */
const volatile u32 half_life = 5000;
const volatile u32 time_slice = 100;

/*
 * Which of the two patches: the full one, or the basic one with shares by nice, soft caps, and a
 * fixed half life and slice
 */
const volatile u32 patch;

#define PATCH_BASIC 1

/* ---- Statistics, in the order of scheduler.toml ---------------------------------------------- */

enum statistic {
	STAT_WAKEUPS,
	STAT_PREEMPTIONS,
	STAT_SLICES_EXPIRED,
	STAT_YIELDS,
	STAT_FORKS,
	STAT_PROMOTIONS,
	STAT_SINBINNED,
	STAT_SINBIN_NS,
	STAT_BACKGROUND_RUNS,
	STAT_OVERDUE,
	STAT_PULLED_IDLE,
	STAT_PULLED_BUSY,
	NR_STATISTICS,
};

DEFINE_STATISTICS(NR_STATISTICS)

/*
 * /proc/cpu_half_life and /proc/timeslice, in milliseconds. The administrator may write them while
 * the scheduler runs. Values out of range are ignored.
 */
struct parameters {
	u32 half_life_ms;
	u32 time_slice_ms;
};

DEFINE_ARRAY(ARRAY, parameters, 1, struct parameters)

/* ---- Tasks ----------------------------------------------------------------------------------- */

/* Bits of ebs_task.flags */
enum ebs_task_flags {
	EBS_HARD_CAP = 1 << 0,
	EBS_SOFT_CAP = 1 << 1,
	EBS_BACKGROUND = 1 << 2,
	EBS_IN_SINBIN = 1 << 3,
};

/*
 * A task's public statistics, at the start of its record in the map task_statistics. The layout is
 * stable: new members are added at the end. Times are in nanoseconds.
 */
struct ebs_task {
	/* sizeof(struct ebs_task) */
	u32 size;
	u32 flags;
	/* 1 to 420, and the corresponding nice value */
	u32 shares;
	s32 nice;
	/* Estimated usage rate as of `estimated_at`, and cap */
	u64 usage __unit("2^-32");
	u64 cap __unit("2^-32");
	u64 estimated_at __unit("ns");
	/* Priority as last calculated, 100 to 140 */
	s32 prio;
	u32 reserved;
	/* Time on a CPU, waiting for one, and in the sinbin; the rest is sleep */
	u64 run_time __unit("ns");
	u64 wait_time __unit("ns");
	u64 sinbin_time __unit("ns");
	u64 wakeups;
	/* How often it got a CPU, used up a slice, lost the CPU before that, went to the sinbin */
	u64 runs;
	u64 slices;
	u64 preempted;
	u64 sinbinned;
	/*
	 * Levels gained by promotion while it waited; how often it ran because it had waited too
	 * long
	 */
	u64 promotions;
	u64 overdue;
};

struct task_ctx {
	struct ebs_task public;
	/*
	 * Time up to which usage is accounted for; length of the period not yet in the estimate,
	 * and time on a CPU in it
	 */
	u64 accounted;
	u64 period;
	u64 busy;
	/* Cap above which it is kept off the run queue; ONE if there is none */
	u64 hard_cap;
	/*
	 * When it last became runnable or lost the CPU, time spent in the sinbin since, and when it
	 * last went there
	 */
	u64 waiting_since;
	u64 waited_in_sinbin;
	u64 sinbinned_at;
	/* When it leaves the sinbin */
	u64 release_at;
	/* Time up to which run_time is counted, and tick up to which the slice is charged */
	u64 started;
	u64 charged_until;
	/* Ticks left of the slice; and of the turn of a task that has waited too long, or 0 */
	u32 slice_left;
	u32 overdue;
	/* Level at which it was queued */
	s32 level;
	s32 static_prio;
	/*
	 * One plus the CPU whose run queue counts the task, or 0; its weight there; and the CPU in
	 * whose sinbin it is
	 */
	s32 on_rq;
	u32 weight;
	s32 sinbin_cpu;
	u32 in_sinbin;
	bool running;
	/* Still in the slice it got from its parent */
	bool first_time_slice;
	/* Goes to the end of its list although its slice is not used up */
	bool yielded;
	/* Is being woken synchronously: the waker is about to sleep */
	bool sync;
};

DEFINE_TASK_DATA(struct task_ctx, task_statistics, task_ctx)

/* ---- Run queues ------------------------------------------------------------------------------ */

static u32 nr_cpu_ids;
static u32 num_online_cpus;
static u64 tick_nsec;

/* A CPU's run queue. It begins with public statistics, laid out as stably as struct ebs_task. */
struct run_queue {
	/* Number of bytes up to and including in_sinbin */
	u32 size;
	u32 nr_running;
	/* Highest usage per share, as of `entitlement_at`, in units of 2^-32 */
	u64 effective_entitlement_per_share;
	u64 entitlement_at;
	/* Priority of the running task, 100 to 140; 99 if it has waited too long, 141: none */
	s32 curr_prio;
	u32 in_sinbin;

	s32 cpu;
	/* A real-time task has the CPU and is counted */
	u32 real_time;
	/* In 2.6.2 the load is the number of tasks */
	u64 load_weight;
	/* A task of this scheduler runs; the CPU is idle */
	bool curr;
	bool idle;
	/* Time before which no task can have waited too long, nanoseconds */
	u64 rescue_at;
};

DEFINE_PER_CPU(struct run_queue, run_queue)

/* Queues are compared by their lengths */
#define REAL_TIME_WEIGHT 1

static __always_inline void before_load_changes(struct run_queue *rq, u64 now)
{
}

static __always_inline void count_besides(struct run_queue *rq, struct task_ctx *t, s32 number)
{
}

#include "runnable_load.h"

/* DSQs of a CPU: the waiting tasks, by when they are due, and the sinbin, by time of release */
static __always_inline u64 waiting_dsq(s32 cpu)
{
	return (u64)cpu * 2;
}

static __always_inline u64 sinbin_dsq(s32 cpu)
{
	return (u64)cpu * 2 + 1;
}
