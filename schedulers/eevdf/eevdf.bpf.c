// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * eevdf - the fair class of Linux 6.6 to 7.3: Earliest Eligible Virtual Deadline First
 *
 * As in CFS a task's virtual runtime grows with the time it runs, divided by its weight. The average of all virtual runtimes,
 * weighted, is the virtual time V of a CPU: a task behind it is owed service (its lag is positive) and is eligible, one ahead of
 * it has had too much. A task asks for a slice at a time; the virtual time by which it should have it is its deadline. The CPU
 * goes to the eligible task with the earliest deadline. What a task is owed or owes when it falls asleep it keeps.
 *
 * Names are those of kernel/sched/fair.c. The kernel keeps the waiting tasks of a CPU in one tree ordered by deadline, augmented
 * with the least virtual runtime of each subtree, and finds the task to run in O(log n). A dispatch queue cannot be augmented, so
 * the waiting tasks are in two: those known to be eligible, ordered by deadline, and the others, ordered by virtual runtime. When
 * V passes the first of the others it changes over, which is once for each request: O(log n) each, as the tree's.
 */
#include "fairground.bpf.h"
#include "in_interrupt.h"
#include "pelt.h"
#include "topology.h"
#include "virtual_runtime.h"

/* Tunables; scheduler.toml explains them */

const volatile u32 hz = 250;
const volatile u64 sched_base_slice = 700 * NSEC_PER_USEC;
const volatile u32 sched_tunable_scaling = 1;
const volatile bool place_lag = true;
const volatile bool place_deadline_initial = true;
const volatile bool place_rel_deadline = true;
const volatile bool run_to_parity = true;
const volatile bool preempt_short = true;
const volatile bool next_buddy = false;
const volatile bool pick_buddy = true;
const volatile bool cache_hot_buddy = true;
const volatile bool delay_dequeue = true;
const volatile bool delay_zero = true;
const volatile bool wakeup_preemption = true;
const volatile bool custom_slices = true;
const volatile u32 lag_limit = 0;
const volatile u32 slice_protection = 0;
const volatile u32 yield_rule = 0;
const volatile u32 sched_idle_weight = 3;
const volatile u64 sched_migration_cost = 500 * NSEC_PER_USEC;
const volatile u32 sched_nr_migrate = 32;
const volatile bool newidle_random = true;
const volatile u64 starvation_limit = 10 * NSEC_PER_SEC;

/* Values of lag_limit, slice_protection and yield_rule: whose kernel's way */
#define AS_IN_7_3 0
#define AS_IN_6_6 1

/* Values of sched_tunable_scaling */
#define SCALING_NONE 0
#define SCALING_LOG 1
#define SCALING_LINEAR 2

/* Counters, in the order of scheduler.toml */
enum statistic {
	WAKEUPS,
	FORKS,
	WAKEUP_PREEMPTIONS,
	SHORT_PREEMPTIONS,
	TICK_PREEMPTIONS,
	DEADLINES,
	ELIGIBLE_MOVES,
	DELAYED_DEQUEUES,
	DELAYED_WAKEUPS,
	DELAYED_PICKS,
	UNEVEN_SUMS,
	RESCUES,
	YIELDS,
	AFFINE_WAKEUPS,
	IDLE_WAKEUPS,
	BALANCES,
	PULLED_BUSY,
	PULLED_IDLE,
	PULLED_NEWLY_IDLE,
	PUSHED_ACTIVE,
	NR_STATISTICS,
};

DEFINE_STATISTICS(NR_STATISTICS);

#define NICE_0_LOAD NICE_0_WEIGHT

/* The ticks of a kernel that leaves the rate to the running kernel (hz = 0) still need a length */
#define DEFAULT_HZ 250

/* A task that nothing limits looks around at least this often */
#define MAX_RUN NSEC_PER_SEC

/* Limits of a slice that a task asks for itself */
#define MIN_CUSTOM_SLICE (NSEC_PER_MSEC / 10)
#define MAX_CUSTOM_SLICE (100 * NSEC_PER_MSEC)

/* How often a CPU looks whether one of its tasks starves */
#define RESCUE_INTERVAL (250 * NSEC_PER_MSEC)

/* Sleeping tasks that a CPU can keep in the competition; one more is dequeued at once */
#define NR_DELAYED 64

/* CPUs that share a lock for their sums, a power of two */
#define NR_LOCKS 1024

/* A key beyond this is decided by its sign: multiplied with the sum of weights it might not fit 64 bits */
#define KEY_LIMIT (1LL << 36)

/* Backoff when all tasks are pinned, milliseconds */
#define MAX_PINNED_INTERVAL 512

/* CPUs whose tasks are all pinned that one balancing attempt steps over before it gives up */
#define MAX_PINNED_CPUS 8

/* Distance beyond which a NUMA domain neither balances forks nor pulls wake-ups */
#define NODE_RECLAIM_DISTANCE 30

/* Imbalance between nodes that a pair of tasks may cause */
#define NUMA_IMBALANCE_MIN 2

/* A newly idle CPU's dice have so many sides */
#define NEWIDLE_DICE 1024

/* task_struct.__state that do not sleep in the ordinary way: stopped, traced, parked, dead, waking, frozen */
#define SPECIAL_STATES 0x82cc

/* Levels of the machine, innermost first; the domain of level l has as its groups the spans of level l - 1 */
enum level {
	LEVEL_SELF,
	LEVEL_SMT,
	LEVEL_MC,
	LEVEL_PKG,
	LEVEL_NUMA,
	NR_LEVELS,
};

enum cpu_idle_type {
	CPU_NOT_IDLE,
	CPU_IDLE,
	CPU_NEWLY_IDLE,
};

#define SD_BALANCE_NEWIDLE 1
#define SD_BALANCE_FORK 2
#define SD_WAKE_AFFINE 4
#define SD_SHARE_CPUCAPACITY 8
#define SD_SHARE_LLC 16
#define SD_PREFER_SIBLING 32
#define SD_SERIALIZE 64
#define SD_NUMA 128
#define SD_ASYM_CPUCAPACITY 256

/* How busy a group is, least first */
enum group_type {
	GROUP_HAS_SPARE,
	GROUP_FULLY_BUSY,
	GROUP_MISFIT_TASK,
	GROUP_SMT_BALANCE,
	GROUP_IMBALANCED,
	GROUP_OVERLOADED,
};

/* What an attempt to balance counts */
enum migration_type {
	MIGRATE_LOAD,
	MIGRATE_UTIL,
	MIGRATE_TASK,
	MIGRATE_MISFIT,
};

/* What a CPU remembers of its balancing at one level; times in ticks of the era, intervals in milliseconds */
struct sched_domain {
	u64 last_balance;
	u32 balance_interval;
	u32 min_interval;
	u32 max_interval;
	u32 imbalance_pct;
	u32 cache_nice_tries;
	u32 flags;
	u32 nr_balance_failed;
	/* Imbalance between nodes that is allowed, tasks */
	u32 imb_numa_nr;
	/* Success of balancing when newly idle: calls, successes, and of 1024 how many are worth a try */
	u32 newidle_call;
	u32 newidle_success;
	u32 newidle_ratio;
	u64 newidle_stamp;
	u64 max_newidle_lb_cost;
	u64 last_decay_max_lb_cost;
};

struct sg_lb_stats {
	u64 avg_load;
	u64 group_load;
	u64 group_capacity;
	u64 group_util;
	u64 group_runnable;
	u64 misfit_task_load;
	u64 min_capacity;
	u64 max_capacity;
	u32 sum_nr_running;
	u32 sum_h_nr_running;
	u32 idle_cpus;
	u32 group_weight;
	u32 group_type;
	u32 cores;
	u32 first;
	bool smt;
};

/* Virtual time of a CPU, such that v is eligible if avg >= (v - zero) * load */
struct virtual_time {
	u64 zero;
	s64 avg;
	u64 load;
};

/* Where a waiting task would be on another CPU */
struct placement {
	s64 vlag;
	u64 vruntime;
	u64 deadline;
	bool eligible;
};

/*
 * One look of a CPU at one of its domains, or for the idlest one to place a new task. A program and all that it calls have a stack
 * of 512 bytes, so what such a look keeps is here.
 */
struct lb_env {
	u64 now;
	u32 level;
	u32 idle;
	s32 dst_cpu;
	s32 src_cpu;
	s32 new_dst_cpu;
	/* The group of the CPU that looks */
	struct topology_span dst_grpmask;
	u32 migration_type;
	s64 imbalance;
	u32 loop;
	u32 loop_max;
	bool some_pinned;
	bool all_pinned;
	bool dst_pinned;
	/* CPUs that have been found to hold pinned tasks only, and are left out */
	u32 nr_pinned;
	s32 pinned[MAX_PINNED_CPUS];

	/* The walk over the groups: where the next one begins, and how many CPUs are left */
	u32 group_first;
	u32 left;

	/* The source CPU's virtual time, and the longest slice there; where the task goes that is looked at */
	u64 src_avruntime;
	u64 src_max_slice;
	struct virtual_time src_time;
	struct placement place;
	s32 pulled;

	struct sg_lb_stats sgs;
	struct sg_lb_stats local;
	/* Of a new task: the idlest */
	struct sg_lb_stats busiest;
	bool has_busiest;
	bool prefer_sibling;
	u64 total_load;
	u64 total_capacity;
	u64 sum_util;
};

/* A task that sleeps with negative lag and competes on until that is used up */
struct delayed_entity {
	/* 0: free */
	s32 pid;
	u32 weight;
	u64 vruntime;
	u64 deadline;
	u64 slice;
};

/* Run queue of a CPU */
struct cfs_rq {
	/* Sums over the waiting and the delayed tasks, without the running one; under the CPU's lock of rq_locks */
	s64 sum_w_vruntime;
	u64 sum_weight;
	u64 zero_vruntime;

	/* Sum of the weights and number of the runnable tasks, the running one included; changed atomically */
	u64 load_weight;
	u32 nr_running;
	/* Of these, with policy SCHED_IDLE */
	u32 nr_idle;
	/* Runnable and delayed tasks whose slice is not the base slice */
	u32 nr_custom;
	u32 nr_delayed;
	s32 cpu;
	/* Numbers of CPUs may have gaps */
	bool exists;
	/* Runs no task of any class */
	bool idle;
	u32 capacity;
	u64 idle_stamp;
	u64 avg_idle;

	/* The running task, if there is one */
	bool curr;
	/* The task that runs shall be put back and another be picked */
	bool need_resched;
	bool curr_idle_policy;
	bool curr_custom;
	s32 curr_pid;
	u32 curr_weight;
	u64 curr_vruntime;
	u64 curr_deadline;
	u64 curr_slice;
	/* Virtual time until which it keeps the CPU if it is eligible */
	u64 vprot;
	/* Clock up to which curr_vruntime is right, and when it was picked */
	u64 exec_start;
	/* Clock at which the kernel's slice, as set, ends */
	u64 slice_end;

	/* When to look for starving tasks next */
	u64 rescue_at;

	/* Buddy: the task that shall run next if it is eligible, or 0 */
	s32 next_pid;
	u64 next_vruntime;
	u64 next_deadline;
	u64 next_slice;

	/* Results of best_waiting() and sort_waiting(), best_delayed(), scan_slices() */
	u64 best_deadline;
	u64 delayed_deadline;
	u64 min_slice;
	u64 max_slice;

	/* Load, runnable and utilization averages, and what other CPUs took away or brought */
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

	/* Balancing: when due (tick), and the CPU that a push has been asked for plus one, or 0 */
	u64 next_balance;
	s32 push_cpu;
	struct topology_span span[NR_LEVELS];
	struct sched_domain sd[NR_LEVELS];
	/* In the first CPU of a group: pinned tasks kept it from being balanced; by the level whose group it is */
	bool group_imbalance[NR_LEVELS];
	/* In the first CPU of a last-level cache: shared by its CPUs */
	bool has_idle_cores;
	u32 nr_idle_scan;
	struct lb_env env;

	/* Slots below delayed_top may be taken */
	u32 delayed_top;
	struct delayed_entity delayed[NR_DELAYED];
};

DEFINE_PER_CPU(struct cfs_rq, cfs_rq);

/* What the scheduler keeps of a task */
struct sched_entity_data {
	u64 vruntime;
	u64 deadline;
	u64 slice;
	s64 vlag;
	u64 vprot;
	u32 weight;
	u32 old_weight;
	/* CPU whose counts hold the task plus one, or 0 if it is not runnable; changed atomically */
	s32 on_rq;
	/* CPU whose sums hold the task as waiting plus one, or 0; changed atomically */
	s32 in_tree;
	/* CPU to whose virtual time vruntime relates plus one, or 0 for none yet */
	s32 vruntime_cpu;
	/* CPU that keeps it in the competition while it sleeps plus one, or 0, and where */
	s32 delayed_cpu;
	u32 delayed_slot;
	/* CPU onto which active balancing pushes the task plus one, or 0 */
	s32 push_cpu;
	/* Forked and not yet placed */
	bool new_task;
	/* Taken off the queue only to change an attribute */
	bool changing;
	/* It ran until now, and whether it was eligible then */
	bool was_running;
	bool was_eligible;
	/* The deadline is relative to vruntime */
	bool rel_deadline;
	bool custom_slice;
	bool idle_policy;
	/* Its waker said that it will sleep, and had a choice of CPUs */
	bool wake_sync;
	/* Clock when it last ran, and when it was put into a queue */
	u64 exec_start;
	u64 wait_start;

	/* Averages of being runnable and of running, of 1024; the CPU whose sums hold them plus one */
	u64 pelt_last;
	u64 load_avg;
	u64 util_avg;
	u64 util_est;
	u64 util_est_counted;
	s32 pelt_cpu;

	/* How often it wakes another task than the last time, the wake-up rate of the document of wake_wide() */
	u32 wakee_flips;
	u64 wakee_flip_decay;
	s32 last_wakee;
	s32 recent_used_cpu;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct sched_entity_data);
} sched_entities SEC(".maps");

/* Records of CPUs may not hold locks, so they are here */
struct rq_lock {
	struct bpf_spin_lock lock;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NR_LOCKS);
	__type(key, u32);
	__type(value, struct rq_lock);
} rq_locks SEC(".maps");

struct idle_tick {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct idle_tick);
} idle_tick SEC(".maps");

/* Set by init() from the tunables and the machine */
static u32 nr_cpus;
/* Of these, the ones that exist */
static u32 nr_online;
static u64 tick_nsec;
/* Base slice, scaled by the number of CPUs */
static u64 base_slice;
static bool smt_active;
static bool asym_active;
static u32 max_load_balance_interval;

/* CPUs with more than one runnable task, or with a task that does not fit */
static u32 nr_overloaded;
/* Held while a domain with SD_SERIALIZE is balanced */
static u32 sched_balance_running;

static __always_inline struct sched_entity_data *entity_of(struct task_struct *p)
{
	return bpf_task_storage_get(&sched_entities, p, 0, 0);
}

static __always_inline u64 min(u64 a, u64 b)
{
	return a < b ? a : b;
}

static __always_inline u64 max(u64 a, u64 b)
{
	return a > b ? a : b;
}

/* Virtual times wrap around: the sign of the difference decides. */
static __always_inline u64 min_vruntime(u64 a, u64 b)
{
	return time_before(b, a) ? b : a;
}

static __always_inline s64 clamp(s64 value, s64 low, s64 high)
{
	return value < low ? low : value > high ? high : value;
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

/* Dispatch queues of a CPU: tasks known to be eligible, by deadline, and the others, by virtual runtime. */
static __always_inline u64 eligible_dsq(s32 cpu)
{
	return (u64)(u32)cpu * 2;
}

static __always_inline u64 ineligible_dsq(s32 cpu)
{
	return (u64)(u32)cpu * 2 + 1;
}

/* Ticks of the era since the clock's zero. */
static __always_inline u64 jiffies_at(u64 now)
{
	return now / (tick_nsec ?: 1);
}

/* First tick at @time or after it; with hz = 0 the kernel's own ticks do the rounding. */
static __always_inline u64 tick_from(u64 time)
{
	return hz ? (time + tick_nsec - 1) / (tick_nsec ?: 1) * tick_nsec : time;
}

static __always_inline u64 msecs_to_jiffies(u32 milliseconds)
{
	u64 jiffies = (milliseconds * NSEC_PER_MSEC + tick_nsec - 1) / (tick_nsec ?: 1);

	return jiffies ?: 1;
}

/* The CPU at a position of the machine's order, in which the CPUs of a domain lie side by side. */
static __always_inline s32 cpu_at(s32 position)
{
	return topology_nr_cpus ? topology_cpu_at(position) : position;
}

/* Tasks that compete: runnable or delayed. */
static __always_inline u32 h_nr_queued(const struct cfs_rq *cfs_rq)
{
	return cfs_rq->nr_running + cfs_rq->nr_delayed;
}

/*
 * Virtual time
 */

/* Time in which a task of @weight spends @vdelta of virtual time, rounded up. */
static __always_inline u64 time_of_virtual(u64 vdelta, u32 weight)
{
	if (weight == NICE_0_LOAD)
		return vdelta;
	return (vdelta * weight + NICE_0_LOAD - 1) / NICE_0_LOAD;
}

static __always_inline u32 task_weight(const struct task_struct *p)
{
	return p->policy == SCHED_IDLE ? sched_idle_weight : weight_of_nice(task_nice(p));
}

/* The slice that @p asks for: the base slice, or its own. */
static __always_inline u64 task_slice(const struct task_struct *p)
{
	u64 slice;

	if (!custom_slices || !p->se.custom_slice)
		return base_slice;
	slice = p->se.slice;
	return slice < MIN_CUSTOM_SLICE ? MIN_CUSTOM_SLICE : min(slice, MAX_CUSTOM_SLICE);
}

static __always_inline struct rq_lock *lock_of(const struct cfs_rq *cfs_rq)
{
	u32 key = (u32)cfs_rq->cpu % NR_LOCKS;

	return bpf_map_lookup_elem(&rq_locks, &key);
}

/* Counts a waiting or delayed entity into the sums: sum_w_vruntime = Sum (v_i - v0) * w_i. */
static __always_inline void sum_w_vruntime_add(struct cfs_rq *cfs_rq, u64 vruntime, u32 weight)
{
	struct rq_lock *lock = lock_of(cfs_rq);

	if (!lock)
		return;
	bpf_spin_lock(&lock->lock);
	cfs_rq->sum_w_vruntime += (s64)(vruntime - cfs_rq->zero_vruntime) * weight;
	cfs_rq->sum_weight += weight;
	bpf_spin_unlock(&lock->lock);
}

/* And out of them. */
static __always_inline void sum_w_vruntime_sub(struct cfs_rq *cfs_rq, u64 vruntime, u32 weight)
{
	struct rq_lock *lock = lock_of(cfs_rq);

	if (!lock)
		return;
	bpf_spin_lock(&lock->lock);
	cfs_rq->sum_w_vruntime -= (s64)(vruntime - cfs_rq->zero_vruntime) * weight;
	cfs_rq->sum_weight -= weight;
	bpf_spin_unlock(&lock->lock);
}

/* The running task's virtual runtime at @now, which other CPUs may ask for. */
static __always_inline u64 curr_vruntime_at(const struct cfs_rq *cfs_rq, u64 now)
{
	u64 vruntime = cfs_rq->curr_vruntime;

	if (time_before(cfs_rq->exec_start, now))
		vruntime += calc_delta_fair(now - cfs_rq->exec_start, cfs_rq->curr_weight);
	return vruntime;
}

/*
 * Virtual time V = v0 + Sum (v_i - v0) * w_i / Sum w_i over all that compete, the running task included, rounded down, so that
 * what is placed there is eligible. The reference v0 becomes V.
 */
static __always_inline u64 avg_vruntime(struct cfs_rq *cfs_rq, u64 now)
{
	struct rq_lock *lock = lock_of(cfs_rq);
	bool curr = cfs_rq->curr;
	u64 curr_vruntime = curr_vruntime_at(cfs_rq, now), curr_weight = cfs_rq->curr_weight, weight, vruntime;
	s64 runtime, delta = 0;

	if (!lock)
		return 0;
	bpf_spin_lock(&lock->lock);
	weight = cfs_rq->sum_weight;
	if (weight) {
		runtime = cfs_rq->sum_w_vruntime;
		if (curr) {
			runtime += (s64)(curr_vruntime - cfs_rq->zero_vruntime) * curr_weight;
			weight += curr_weight;
		}
		delta = divide_floor(runtime, weight);
	} else if (curr) {
		delta = curr_vruntime - cfs_rq->zero_vruntime;
	}
	cfs_rq->sum_w_vruntime -= cfs_rq->sum_weight * delta;
	cfs_rq->zero_vruntime += delta;
	vruntime = cfs_rq->zero_vruntime;
	bpf_spin_unlock(&lock->lock);
	return vruntime;
}

/* V as if the running task were not there, and one more: where it becomes ineligible. */
static __always_inline u64 ineligible_vruntime(struct cfs_rq *cfs_rq)
{
	struct rq_lock *lock = lock_of(cfs_rq);
	u64 vruntime;

	if (!lock)
		return 0;
	bpf_spin_lock(&lock->lock);
	vruntime = cfs_rq->zero_vruntime + 1;
	if (cfs_rq->sum_weight)
		vruntime += divide_floor(cfs_rq->sum_w_vruntime, cfs_rq->sum_weight);
	bpf_spin_unlock(&lock->lock);
	return vruntime;
}

/* The sums as they are, for any number of vruntime_eligible(). */
static __always_inline void virtual_time_of(struct cfs_rq *cfs_rq, struct virtual_time *time, u64 now)
{
	struct rq_lock *lock = lock_of(cfs_rq);
	bool curr = cfs_rq->curr;
	u64 curr_vruntime = curr_vruntime_at(cfs_rq, now), curr_weight = cfs_rq->curr_weight;

	if (!lock)
		return;
	bpf_spin_lock(&lock->lock);
	time->zero = cfs_rq->zero_vruntime;
	time->avg = cfs_rq->sum_w_vruntime;
	time->load = cfs_rq->sum_weight;
	bpf_spin_unlock(&lock->lock);
	if (curr) {
		time->avg += (s64)(curr_vruntime - time->zero) * curr_weight;
		time->load += curr_weight;
	}
}

/*
 * lag_i >= 0 means v_i <= V, which without the error of a division is
 *
 *	Sum (v_j - v0) * w_j >= (v_i - v0) * Sum w_j
 */
static __always_inline bool vruntime_eligible(const struct virtual_time *time, u64 vruntime)
{
	s64 key = vruntime - time->zero;

	if (key >= KEY_LIMIT)
		return false;
	if (key <= -KEY_LIMIT)
		return true;
	return time->avg >= key * (s64)time->load;
}

/* Is the running task owed service? */
static __always_inline bool curr_eligible(struct cfs_rq *cfs_rq, u64 now)
{
	struct virtual_time time = {};

	virtual_time_of(cfs_rq, &time, now);
	return vruntime_eligible(&time, cfs_rq->curr_vruntime);
}

/*
 * Shortest and longest slice of all that compete. The kernel has them at the root of its tree; here a CPU that has tasks with
 * slices of their own looks at all of its tasks.
 */
__noinline int scan_slices(s32 cpu)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(cpu);
	struct sched_entity_data *se;
	struct task_struct *p;
	u64 shortest, longest;
	u32 i;

	if (!cfs_rq)
		return 0;
	shortest = cfs_rq->curr ? cfs_rq->curr_slice : ~0ULL;
	longest = cfs_rq->curr ? cfs_rq->curr_slice : 0;

	bpf_for_each(scx_dsq, p, eligible_dsq(cpu), 0) {
		se = entity_of(p);
		if (se) {
			shortest = min(shortest, se->slice);
			longest = max(longest, se->slice);
		}
	}
	bpf_for_each(scx_dsq, p, ineligible_dsq(cpu), 0) {
		se = entity_of(p);
		if (se) {
			shortest = min(shortest, se->slice);
			longest = max(longest, se->slice);
		}
	}
	bpf_for(i, 0, cfs_rq->delayed_top) {
		struct delayed_entity *delayed;

		if (i >= NR_DELAYED)
			break;
		delayed = &cfs_rq->delayed[i];
		if (delayed->pid) {
			shortest = min(shortest, delayed->slice);
			longest = max(longest, delayed->slice);
		}
	}
	cfs_rq->min_slice = shortest;
	cfs_rq->max_slice = longest;
	return 0;
}

static __always_inline u64 cfs_rq_min_slice(struct cfs_rq *cfs_rq)
{
	if (!cfs_rq->nr_custom)
		return base_slice;
	scan_slices(cfs_rq->cpu);
	return cfs_rq->min_slice;
}

static __always_inline u64 cfs_rq_max_slice(struct cfs_rq *cfs_rq)
{
	if (!cfs_rq->nr_custom)
		return base_slice;
	scan_slices(cfs_rq->cpu);
	return cfs_rq->max_slice;
}

/* Lag that a task may keep on leaving a CPU where the longest slice is @max_slice. */
static __always_inline s64 max_lag(const struct sched_entity_data *se, u64 max_slice)
{
	if (lag_limit == AS_IN_6_6)
		return calc_delta_fair(max(2 * se->slice, tick_nsec), se->weight);
	return calc_delta_fair(max(max_slice, se->slice) + tick_nsec, se->weight);
}

/* vlag = V - v, within limits. */
static __always_inline s64 entity_lag(struct cfs_rq *cfs_rq, const struct sched_entity_data *se, u64 now)
{
	s64 limit = max_lag(se, cfs_rq_max_slice(cfs_rq));

	return clamp(avg_vruntime(cfs_rq, now) - se->vruntime, -limit, limit);
}

/*
 * Averages of load. A CPU's cover its sleeping tasks too, until those wake elsewhere.
 */

/* Brings the averages of a CPU up to @now; called before what they average changes. */
static __always_inline void update_cfs_rq_load_avg(struct cfs_rq *cfs_rq, u64 now)
{
	s64 moved;

	if (nr_cpus == 1)
		return;

	if (time_before(cfs_rq->pelt_last, now)) {
		u64 factor = pelt_factor(now - cfs_rq->pelt_last);

		cfs_rq->load_avg = pelt_average(cfs_rq->load_avg, cfs_rq->load_weight, factor);
		cfs_rq->runnable_avg = pelt_average(cfs_rq->runnable_avg, cfs_rq->nr_running * 1024ULL, factor);
		cfs_rq->util_avg = pelt_average(cfs_rq->util_avg, cfs_rq->curr ? cfs_rq->capacity : 0, factor);
		cfs_rq->pelt_last = now;
	}

	moved = __sync_lock_test_and_set(&cfs_rq->moved_load, 0);
	if (moved)
		cfs_rq->load_avg = (s64)cfs_rq->load_avg > -moved ? cfs_rq->load_avg + moved : 0;
	moved = __sync_lock_test_and_set(&cfs_rq->moved_runnable, 0);
	if (moved)
		cfs_rq->runnable_avg = (s64)cfs_rq->runnable_avg > -moved ? cfs_rq->runnable_avg + moved : 0;
	moved = __sync_lock_test_and_set(&cfs_rq->moved_util, 0);
	if (moved)
		cfs_rq->util_avg = (s64)cfs_rq->util_avg > -moved ? cfs_rq->util_avg + moved : 0;
}

/* An average of another CPU at @now, without fraction. */
static __always_inline u64 average_at(u64 average, u64 target, s64 moved, u64 factor)
{
	s64 value = pelt_average(average, target, factor) + moved;

	return value > 0 ? value >> PELT_SHIFT : 0;
}

static __always_inline u64 load_factor(const struct cfs_rq *cfs_rq, u64 now)
{
	return pelt_factor(time_before(cfs_rq->pelt_last, now) ? now - cfs_rq->pelt_last : 0);
}

static __always_inline u64 cpu_load(const struct cfs_rq *cfs_rq, u64 now)
{
	return average_at(cfs_rq->load_avg, cfs_rq->load_weight, cfs_rq->moved_load, load_factor(cfs_rq, now));
}

static __always_inline u64 cpu_runnable(const struct cfs_rq *cfs_rq, u64 now)
{
	return average_at(cfs_rq->runnable_avg, cfs_rq->nr_running * 1024ULL, cfs_rq->moved_runnable,
			  load_factor(cfs_rq, now));
}

/* Utilization: what it has been, or what the tasks there are known to need. */
static __always_inline u64 cpu_util_cfs(const struct cfs_rq *cfs_rq, u64 now)
{
	u64 util = average_at(cfs_rq->util_avg, cfs_rq->curr ? cfs_rq->capacity : 0, cfs_rq->moved_util,
			      load_factor(cfs_rq, now));

	return min(max(util, cfs_rq->util_est), cfs_rq->capacity);
}

/* Brings the averages of a task up to @now; until now it has been in the state given. */
static __always_inline void update_load_avg(struct sched_entity_data *se, u64 now, bool runnable, u32 running_capacity)
{
	u64 factor;

	if (nr_cpus == 1 || !time_before(se->pelt_last, now))
		return;
	factor = pelt_factor(now - se->pelt_last);
	se->load_avg = pelt_average(se->load_avg, runnable ? 1024 : 0, factor);
	se->util_avg = pelt_average(se->util_avg, running_capacity, factor);
	se->pelt_last = now;
}

/* Load of a task: its weight, by how much of the time it wants to run. */
static __always_inline u64 task_h_load(const struct sched_entity_data *se)
{
	return se->weight * (se->load_avg >> PELT_SHIFT) / 1024;
}

static __always_inline u64 task_util_est(const struct sched_entity_data *se)
{
	return max(se->util_avg, se->util_est) >> PELT_SHIFT;
}

static __always_inline void move_averages(struct cfs_rq *cfs_rq, const struct sched_entity_data *se, s64 sign)
{
	__sync_fetch_and_add(&cfs_rq->moved_load, sign * (s64)(se->weight * se->load_avg / 1024));
	__sync_fetch_and_add(&cfs_rq->moved_runnable, sign * (s64)se->load_avg);
	__sync_fetch_and_add(&cfs_rq->moved_util, sign * (s64)se->util_avg);
}

/* Takes the averages of a task out of the CPU that has them and into @cfs_rq, which may be NULL. */
static __always_inline void attach_entity_load_avg(struct cfs_rq *cfs_rq, struct sched_entity_data *se)
{
	struct cfs_rq *old_rq;

	if (nr_cpus == 1 || se->pelt_cpu == (cfs_rq ? cfs_rq->cpu + 1 : 0))
		return;
	if (se->pelt_cpu) {
		old_rq = cfs_rq_of(se->pelt_cpu - 1);
		if (old_rq)
			move_averages(old_rq, se, -1);
	}
	se->pelt_cpu = 0;
	if (cfs_rq) {
		move_averages(cfs_rq, se, 1);
		se->pelt_cpu = cfs_rq->cpu + 1;
	}
}

/* What the task used until it slept, as an estimate for when it wakes: rises at once, falls slowly. */
static __always_inline void util_est_update(struct sched_entity_data *se)
{
	if (se->util_avg >= se->util_est)
		se->util_est = se->util_avg;
	else
		se->util_est -= (se->util_est - se->util_avg) / 4;
}

/* A new task is taken to want all of its time, and half of what its CPU has left. */
static __always_inline void post_init_entity_util_avg(struct cfs_rq *cfs_rq, struct sched_entity_data *se, u64 now)
{
	u64 util = cpu_util_cfs(cfs_rq, now);
	u64 cap = cfs_rq->capacity > util ? (cfs_rq->capacity - util) / 2 : 0;

	se->pelt_last = now;
	se->load_avg = 1024ULL << PELT_SHIFT;
	se->util_avg = cap;
	if (util)
		se->util_avg = min(cap, util * se->weight / (cpu_load(cfs_rq, now) + 1));
	se->util_avg <<= PELT_SHIFT;
}

/*
 * Counts of a CPU
 */

/* Counts a task into those of a CPU. */
static __always_inline void load_add(struct cfs_rq *cfs_rq, struct sched_entity_data *se, u64 now)
{
	update_cfs_rq_load_avg(cfs_rq, now);
	__sync_fetch_and_add(&cfs_rq->load_weight, (u64)se->weight);
	__sync_fetch_and_add(&cfs_rq->util_est, se->util_est_counted);
	if (se->custom_slice)
		__sync_fetch_and_add(&cfs_rq->nr_custom, 1);
	if (se->idle_policy)
		__sync_fetch_and_add(&cfs_rq->nr_idle, 1);
	if (__sync_fetch_and_add(&cfs_rq->nr_running, 1) == 1)
		__sync_fetch_and_add(&nr_overloaded, 1);
}

/* And out of them. */
static __always_inline void load_sub(struct cfs_rq *cfs_rq, struct sched_entity_data *se, u64 now)
{
	update_cfs_rq_load_avg(cfs_rq, now);
	__sync_fetch_and_add(&cfs_rq->load_weight, -(u64)se->weight);
	__sync_fetch_and_add(&cfs_rq->util_est, -se->util_est_counted);
	if (se->custom_slice)
		__sync_fetch_and_add(&cfs_rq->nr_custom, -1);
	if (se->idle_policy)
		__sync_fetch_and_add(&cfs_rq->nr_idle, -1);
	if (__sync_fetch_and_add(&cfs_rq->nr_running, -1) == 2)
		__sync_fetch_and_add(&nr_overloaded, -1);
}

/* Makes the task count on @cfs_rq and nowhere else. */
static __always_inline void account_entity_enqueue(struct cfs_rq *cfs_rq, struct sched_entity_data *se, u64 now)
{
	struct cfs_rq *old_rq;
	s32 old;

	if (se->on_rq == cfs_rq->cpu + 1)
		return;

	old = __sync_lock_test_and_set(&se->on_rq, cfs_rq->cpu + 1);
	if (old) {
		old_rq = cfs_rq_of(old - 1);
		if (old_rq)
			load_sub(old_rq, se, now);
	} else {
		se->util_est_counted = se->util_est >> PELT_SHIFT;
	}
	load_add(cfs_rq, se, now);
}

/* Makes the task count nowhere. */
static __always_inline void account_entity_dequeue(struct sched_entity_data *se, u64 now)
{
	s32 old = __sync_lock_test_and_set(&se->on_rq, 0);
	struct cfs_rq *cfs_rq;

	if (!old)
		return;
	cfs_rq = cfs_rq_of(old - 1);
	if (cfs_rq)
		load_sub(cfs_rq, se, now);
}

/* Makes the task wait, in the sums of @cfs_rq. */
static __always_inline void tree_add(struct cfs_rq *cfs_rq, struct sched_entity_data *se)
{
	sum_w_vruntime_add(cfs_rq, se->vruntime, se->weight);
	se->in_tree = cfs_rq->cpu + 1;
}

/* Ends its waiting. */
static __always_inline void tree_del(struct sched_entity_data *se)
{
	s32 old = __sync_lock_test_and_set(&se->in_tree, 0);
	struct cfs_rq *cfs_rq;

	if (!old)
		return;
	cfs_rq = cfs_rq_of(old - 1);
	if (cfs_rq)
		sum_w_vruntime_sub(cfs_rq, se->vruntime, se->weight);
}

/*
 * Placement
 */

/* Keeps lag and deadline when the weight changes: what is owed is lag * weight. */
static __always_inline void rescale_entity(struct sched_entity_data *se, u32 weight)
{
	if (!se->weight || se->weight == weight)
		return;
	se->vlag = divide(se->vlag * se->weight, weight);
	if (se->rel_deadline)
		se->deadline = divide((s64)se->deadline * se->weight, weight);
}

/*
 * Lag with which to place a task so that it has @vlag afterwards: its arrival moves V by w * lag / (W + w) toward itself, so
 *
 *	lag = vlag * (W + w) / W
 */
static __always_inline s64 inflate_lag(const struct cfs_rq *cfs_rq, s64 vlag, u32 weight)
{
	u64 load = cfs_rq->sum_weight;

	if (cfs_rq->curr)
		load += cfs_rq->curr_weight;
	if (!place_lag || !vlag || !load)
		return 0;
	return vlag + divide(vlag * weight, load);
}

/* Gives a task that comes to @cfs_rq its virtual runtime and deadline; @nr_queued others compete there. */
static __always_inline void place_entity(struct cfs_rq *cfs_rq, struct sched_entity_data *se, u32 nr_queued, bool initial,
					 u64 now)
{
	u64 vslice = calc_delta_fair(se->slice, se->weight);

	se->vruntime = avg_vruntime(cfs_rq, now);
	if (nr_queued)
		se->vruntime -= inflate_lag(cfs_rq, se->vlag, se->weight);
	se->vruntime_cpu = cfs_rq->cpu + 1;

	if (place_rel_deadline && se->rel_deadline) {
		se->deadline += se->vruntime;
		se->rel_deadline = false;
		return;
	}
	se->rel_deadline = false;

	/* The others are halfway through their slices on average: a new one begins with half a slice */
	if (place_deadline_initial && initial)
		vslice /= 2;

	/* vd_i = ve_i + r_i / w_i */
	se->deadline = se->vruntime + vslice;
}

/* A task that leaves: its lag stays its own, and so does its deadline relative to its virtual runtime unless it sleeps. */
static __always_inline void save_lag(struct cfs_rq *cfs_rq, struct sched_entity_data *se, bool sleep, u64 now)
{
	se->vlag = entity_lag(cfs_rq, se, now);
	if (place_rel_deadline && !sleep && !se->rel_deadline) {
		se->deadline -= se->vruntime;
		se->rel_deadline = true;
	}
}

/*
 * Delayed dequeue. The kernel leaves a task that sleeps with negative lag in its tree, flagged, until it would be picked or
 * wakes. A sched_ext scheduler does not keep sleeping tasks, so what competes on in its place is a note in delayed[].
 */

/* Leaves a note of @se, which goes to sleep. False if there is no room. */
static __always_inline bool set_delayed(struct cfs_rq *cfs_rq, struct sched_entity_data *se, s32 pid)
{
	struct delayed_entity *delayed;
	u32 i;

	bpf_for(i, 0, NR_DELAYED) {
		if (i >= NR_DELAYED)
			break;
		delayed = &cfs_rq->delayed[i];
		if (delayed->pid)
			continue;

		delayed->weight = se->weight;
		delayed->vruntime = se->vruntime;
		delayed->deadline = se->deadline;
		delayed->slice = se->slice;
		delayed->pid = pid;
		if (cfs_rq->delayed_top <= i)
			cfs_rq->delayed_top = i + 1;
		se->delayed_slot = i;
		se->delayed_cpu = cfs_rq->cpu + 1;

		cfs_rq->nr_delayed++;
		if (se->custom_slice)
			__sync_fetch_and_add(&cfs_rq->nr_custom, 1);
		sum_w_vruntime_add(cfs_rq, se->vruntime, se->weight);
		return true;
	}
	return false;
}

/*
 * The lag of a task that wakes or is picked while delayed. It has grown since the task fell asleep, and may not have
 * shrunk, and it ends at zero.
 */
static __always_inline s64 delayed_lag(struct cfs_rq *cfs_rq, const struct sched_entity_data *se, u64 now)
{
	s64 vlag = entity_lag(cfs_rq, se, now);

	if (vlag < se->vlag)
		vlag = se->vlag;
	if (delay_zero && vlag > 0)
		vlag = 0;
	return vlag;
}

/* Takes the note of a delayed task out of @cfs_rq, once; the lag of the task is to be set before. */
static __always_inline void clear_delayed(struct cfs_rq *cfs_rq, struct delayed_entity *delayed)
{
	u64 vruntime = delayed->vruntime, slice = delayed->slice;
	u32 weight = delayed->weight;
	s32 pid = delayed->pid;

	if (!pid || __sync_val_compare_and_swap(&delayed->pid, pid, 0) != pid)
		return;
	sum_w_vruntime_sub(cfs_rq, vruntime, weight);
	__sync_fetch_and_add(&cfs_rq->nr_delayed, -1);
	if (slice != base_slice)
		__sync_fetch_and_add(&cfs_rq->nr_custom, -1);
}

/* A delayed task has been picked: now it is dequeued, its debt is paid. */
__noinline int finish_delayed(s32 cpu, u32 slot)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(cpu);
	struct delayed_entity *delayed;
	struct sched_entity_data *se;
	struct task_struct *p;

	if (!cfs_rq || slot >= NR_DELAYED)
		return 0;
	delayed = &cfs_rq->delayed[slot];
	p = bpf_task_from_pid(delayed->pid);
	if (p) {
		se = entity_of(p);
		if (se && se->delayed_cpu == cpu + 1 && se->delayed_slot == slot) {
			se->vlag = delayed_lag(cfs_rq, se, scx_bpf_now());
			se->delayed_cpu = 0;
		}
		bpf_task_release(p);
	}
	clear_delayed(cfs_rq, delayed);
	count(DELAYED_PICKS);
	return 0;
}

/* The task wakes, or leaves this scheduler: takes back its note, wherever it is. */
static __always_inline void cancel_delayed(struct sched_entity_data *se, u64 now)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(se->delayed_cpu - 1);
	u32 slot = se->delayed_slot;

	if (cfs_rq && slot < NR_DELAYED) {
		se->vlag = delayed_lag(cfs_rq, se, now);
		clear_delayed(cfs_rq, &cfs_rq->delayed[slot]);
	}
	se->delayed_cpu = 0;
}

/*
 * Picking the next task
 */

static __always_inline bool protect_slice(const struct cfs_rq *cfs_rq)
{
	return time_before(cfs_rq->curr_vruntime, cfs_rq->vprot);
}

static __always_inline void clear_buddies(struct cfs_rq *cfs_rq, s32 pid)
{
	if (cfs_rq->next_pid == pid)
		cfs_rq->next_pid = 0;
}

static __always_inline void set_next_buddy(struct cfs_rq *cfs_rq, const struct task_struct *p,
					   const struct sched_entity_data *se)
{
	if (se->idle_policy)
		return;
	cfs_rq->next_pid = p->pid;
	cfs_rq->next_vruntime = se->vruntime;
	cfs_rq->next_deadline = se->deadline;
	cfs_rq->next_slice = se->slice;
}

/*
 * The eligible delayed task with the earliest deadline before @deadline, if there is a limit; -1 if there is none. Its deadline is
 * cfs_rq->delayed_deadline.
 */
__noinline s32 best_delayed(s32 cpu, bool limit, u64 deadline)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(cpu);
	struct virtual_time time = {};
	s32 best = -1;
	u32 i;

	if (!cfs_rq || !cfs_rq->nr_delayed)
		return -1;
	virtual_time_of(cfs_rq, &time, scx_bpf_now());

	bpf_for(i, 0, cfs_rq->delayed_top) {
		struct delayed_entity *delayed;

		if (i >= NR_DELAYED)
			break;
		delayed = &cfs_rq->delayed[i];
		if (!delayed->pid || (limit && !time_before(delayed->deadline, deadline)) ||
		    !vruntime_eligible(&time, delayed->vruntime))
			continue;
		best = i;
		limit = true;
		deadline = delayed->deadline;
		cfs_rq->delayed_deadline = deadline;
	}
	return best;
}

/* Deadline of the best waiting task without moving any, into cfs_rq->best_deadline. False if none is eligible. */
__noinline bool best_waiting(s32 cpu)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(cpu);
	struct virtual_time time = {};
	struct sched_entity_data *se;
	struct task_struct *p;
	bool found = false;

	if (!cfs_rq)
		return false;
	virtual_time_of(cfs_rq, &time, scx_bpf_now());

	bpf_for_each(scx_dsq, p, eligible_dsq(cpu), 0) {
		se = entity_of(p);
		if (!se || !vruntime_eligible(&time, se->vruntime))
			continue;
		cfs_rq->best_deadline = se->deadline;
		found = true;
		break;
	}
	/* Those that V has passed since the last pick */
	bpf_for_each(scx_dsq, p, ineligible_dsq(cpu), 0) {
		se = entity_of(p);
		if (!se)
			continue;
		if (!vruntime_eligible(&time, se->vruntime))
			break;
		if (!found || time_before(se->deadline, cfs_rq->best_deadline)) {
			cfs_rq->best_deadline = se->deadline;
			found = true;
		}
	}
	return found;
}

/* Sorts the waiting tasks of a CPU as V is now. True if one is eligible: the first of eligible_dsq(), cfs_rq->best_deadline. */
__noinline bool sort_waiting(s32 cpu)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(cpu);
	struct virtual_time time = {};
	struct sched_entity_data *se;
	struct task_struct *p;
	bool found = false;
	u32 moved = 0;

	if (!cfs_rq)
		return false;
	virtual_time_of(cfs_rq, &time, scx_bpf_now());

	/* V passes them in the order of their virtual runtimes */
	bpf_for_each(scx_dsq, p, ineligible_dsq(cpu), 0) {
		se = entity_of(p);
		if (!se)
			continue;
		if (!vruntime_eligible(&time, se->vruntime))
			break;
		scx_bpf_dsq_move_set_vtime(DSQ_ITERATOR, se->deadline);
		moved += scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p, eligible_dsq(cpu), 0);
	}
	/* V goes back when tasks with positive lag come or tasks with negative lag leave */
	bpf_for_each(scx_dsq, p, eligible_dsq(cpu), 0) {
		se = entity_of(p);
		if (!se)
			continue;
		if (vruntime_eligible(&time, se->vruntime)) {
			cfs_rq->best_deadline = se->deadline;
			found = true;
			break;
		}
		scx_bpf_dsq_move_set_vtime(DSQ_ITERATOR, se->vruntime);
		moved += scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p, ineligible_dsq(cpu), 0);
	}
	count_by(ELIGIBLE_MOVES, moved);
	return found;
}

/* Takes the buddy for this CPU's next task. */
static __always_inline bool move_buddy_to_local(struct cfs_rq *cfs_rq)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	bool moved = false;

	p = bpf_task_from_pid(cfs_rq->next_pid);
	if (!p)
		return false;
	if (!bpf_iter_scx_dsq_new(&it, eligible_dsq(cfs_rq->cpu), 0))
		moved = scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL, 0);
	bpf_iter_scx_dsq_destroy(&it);
	bpf_task_release(p);
	return moved;
}

enum pick {
	PICK_NOTHING,
	PICK_CURR,
	PICK_MOVED,
	PICK_AGAIN,
};

/*
 * Earliest Eligible Virtual Deadline First: of the eligible tasks the one with the earliest deadline; the running task keeps
 * the CPU for its protected slice, and if its deadline is strictly earlier. Moves the pick to the local queue.
 */
__noinline s32 pick_eevdf(s32 cpu)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(cpu);
	struct virtual_time time = {};
	bool curr, found;
	s32 slot;

	if (!cfs_rq)
		return PICK_NOTHING;
	curr = cfs_rq->curr;
	if (h_nr_queued(cfs_rq) == 1 && curr)
		return PICK_CURR;

	found = sort_waiting(cpu);
	virtual_time_of(cfs_rq, &time, scx_bpf_now());

	if (pick_buddy && cfs_rq->next_pid) {
		if (vruntime_eligible(&time, cfs_rq->next_vruntime) && move_buddy_to_local(cfs_rq)) {
			cfs_rq->next_pid = 0;
			return PICK_MOVED;
		}
	}

	if (curr && !vruntime_eligible(&time, cfs_rq->curr_vruntime))
		curr = false;
	if (curr && protect_slice(cfs_rq))
		return PICK_CURR;

	/* A delayed task that is the pick ends to compete, and the pick is repeated */
	slot = best_delayed(cpu, found, cfs_rq->best_deadline);
	if (slot >= 0 && !(curr && time_before(cfs_rq->curr_deadline, cfs_rq->delayed_deadline))) {
		finish_delayed(cpu, slot);
		return PICK_AGAIN;
	}

	if (curr && (!found || time_before(cfs_rq->curr_deadline, cfs_rq->best_deadline)))
		return PICK_CURR;
	if (found)
		return scx_bpf_dsq_move_to_local(eligible_dsq(cpu), 0) ? PICK_MOVED : PICK_AGAIN;
	/* Someone is always eligible, unless another CPU is just taking a task away */
	if (scx_bpf_dsq_move_to_local(ineligible_dsq(cpu), 0))
		return PICK_MOVED;
	return cfs_rq->curr ? PICK_CURR : PICK_NOTHING;
}

/*
 * Runs a task that has waited for too long, out of turn. Weights differ by up to 29,587, so that EEVDF alone would let a light
 * task wait for minutes, longer than sched_ext's watchdog does. True if there is one.
 */
__noinline bool rescue_starved(s32 cpu)
{
	struct sched_entity_data *se;
	u64 now = scx_bpf_now();
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, ineligible_dsq(cpu), SCX_DSQ_ITER_REV) {
		se = entity_of(p);
		if (se && time_before(se->wait_start + starvation_limit, now) &&
		    scx_bpf_dsq_move(DSQ_ITERATOR, p, SCX_DSQ_LOCAL, 0)) {
			count(RESCUES);
			return true;
		}
	}
	bpf_for_each(scx_dsq, p, eligible_dsq(cpu), SCX_DSQ_ITER_REV) {
		se = entity_of(p);
		if (se && time_before(se->wait_start + starvation_limit, now) &&
		    scx_bpf_dsq_move(DSQ_ITERATOR, p, SCX_DSQ_LOCAL, 0)) {
			count(RESCUES);
			return true;
		}
	}
	return false;
}

static __always_inline s32 pick_next_entity(s32 cpu)
{
	s32 pick = PICK_NOTHING;
	u32 i;

	bpf_for(i, 0, 2 * NR_DELAYED) {
		pick = pick_eevdf(cpu);
		if (pick != PICK_AGAIN)
			break;
	}
	return pick;
}

/*
 * The running task
 */

/* Makes the CPU put back its running task and pick again. */
static __always_inline void resched_curr(struct cfs_rq *cfs_rq)
{
	cfs_rq->need_resched = true;
	scx_bpf_kick_cpu(cfs_rq->cpu, SCX_KICK_PREEMPT);
}

/*
 * Gives the running task a new deadline if it has used up its request: vd_i = ve_i + r_i / w_i. The kernel looks at every tick, and
 * @now; of a task that nobody disturbed, the ticks are made up for here. True if there is a new deadline.
 */
static __always_inline bool update_deadline(struct cfs_rq *cfs_rq, u64 now)
{
	u64 vruntime = cfs_rq->curr_vruntime, vslice, first, period, since;
	u32 weight = cfs_rq->curr_weight;

	if (time_before(vruntime, cfs_rq->curr_deadline))
		return false;

	if (!cfs_rq->curr_custom)
		cfs_rq->curr_slice = base_slice;
	vslice = calc_delta_fair(cfs_rq->curr_slice, weight);

	first = tick_from(now - min(now, time_of_virtual(vruntime - cfs_rq->curr_deadline, weight)));
	if (hz && first < now) {
		period = tick_from(cfs_rq->curr_slice) ?: tick_nsec;
		since = (now - first) % period;
		cfs_rq->curr_deadline = vruntime - calc_delta_fair(since, weight) + vslice;
		if (time_before(vruntime, cfs_rq->curr_deadline))
			goto out;
	}
	cfs_rq->curr_deadline = vruntime + vslice;
out:
	/* Keeps v0 close to all virtual runtimes */
	avg_vruntime(cfs_rq, now);
	count(DEADLINES);
	return true;
}

/* Charges the running task up to @now. True if it is to be picked against the others. */
static __always_inline bool update_curr(struct cfs_rq *cfs_rq, u64 now)
{
	bool resched;

	if (!cfs_rq->curr || !time_before(cfs_rq->exec_start, now))
		return false;

	cfs_rq->curr_vruntime = curr_vruntime_at(cfs_rq, now);
	cfs_rq->exec_start = now;
	resched = update_deadline(cfs_rq, now);

	if (h_nr_queued(cfs_rq) <= 1)
		return false;
	if (!resched && (slice_protection == AS_IN_6_6 || protect_slice(cfs_rq)))
		return false;
	clear_buddies(cfs_rq, cfs_rq->curr_pid);
	return true;
}

/* The virtual time until which a task that has been picked keeps the CPU: its deadline, or less if someone's slice is shorter. */
static __always_inline void set_protect_slice(struct cfs_rq *cfs_rq)
{
	u64 slice = sched_base_slice;

	cfs_rq->vprot = cfs_rq->curr_deadline;
	if (slice_protection == AS_IN_6_6) {
		if (!run_to_parity)
			cfs_rq->vprot = cfs_rq->curr_vruntime;
		return;
	}

	if (run_to_parity)
		slice = cfs_rq_min_slice(cfs_rq);
	if (slice >= cfs_rq->curr_slice)
		return;
	if (preempt_short)
		cfs_rq->vprot = min_vruntime(cfs_rq->vprot, ineligible_vruntime(cfs_rq));
	else
		cfs_rq->vprot = min_vruntime(cfs_rq->vprot, cfs_rq->curr_vruntime +
					     calc_delta_fair(slice, cfs_rq->curr_weight));
}

/* Someone has come and did not preempt: the protection lasts one slice from here at most, the shortest one. */
static __always_inline void update_protect_slice(struct cfs_rq *cfs_rq, u64 now)
{
	u64 slice = cfs_rq_min_slice(cfs_rq);
	u64 vruntime = min_vruntime(cfs_rq->curr_vruntime, avg_vruntime(cfs_rq, now));

	if (slice_protection == AS_IN_6_6)
		return;
	cfs_rq->vprot = min_vruntime(cfs_rq->vprot, vruntime + calc_delta_fair(slice, cfs_rq->curr_weight));
}

static __always_inline void cancel_protect_slice(struct cfs_rq *cfs_rq)
{
	if (protect_slice(cfs_rq))
		cfs_rq->vprot = cfs_rq->curr_vruntime;
}

/* Clock of the next tick that has something to do for the running task: its request or its protection ends, or balancing is due. */
static __always_inline u64 next_event(const struct cfs_rq *cfs_rq, u64 now)
{
	u64 end = now + MAX_RUN, until = cfs_rq->curr_deadline, left = 0;

	if (h_nr_queued(cfs_rq) > 1) {
		if (slice_protection != AS_IN_6_6)
			until = min_vruntime(until, cfs_rq->vprot);
		if (time_before(cfs_rq->curr_vruntime, until))
			left = time_of_virtual(until - cfs_rq->curr_vruntime, cfs_rq->curr_weight);
		end = min(end, tick_from(now + (left ?: 1)));
	}
	if (nr_cpus > 1)
		end = min(end, max(cfs_rq->next_balance * tick_nsec, tick_from(now + 1)));
	/* The tick looks whether the task fits this CPU */
	if (asym_active)
		end = min(end, now + 64 * NSEC_PER_MSEC);
	return end;
}

/* Lets the task that runs, or is about to, run until the next event. */
static __always_inline void set_slice(struct cfs_rq *cfs_rq, struct task_struct *p, u64 now)
{
	cfs_rq->slice_end = next_event(cfs_rq, now);
	scx_bpf_task_set_slice(p, cfs_rq->slice_end - now);
}

/* Another task has come to this CPU: the running task's slice may now end at an earlier tick. */
static __always_inline void shorten_slice(struct cfs_rq *cfs_rq, u64 now)
{
	u64 end = next_event(cfs_rq, now);
	struct task_struct *curr;
	u64 earlier, slice;

	if (!time_before(end, cfs_rq->slice_end))
		return;

	curr = scx_bpf_cpu_curr(cfs_rq->cpu);
	if (curr && curr->pid == cfs_rq->curr_pid) {
		/* The kernel has charged the slice up to some earlier moment, so take off what it ends earlier */
		earlier = cfs_rq->slice_end - end;
		slice = curr->scx.slice;
		if (slice) {
			scx_bpf_task_set_slice(curr, slice > earlier ? slice - earlier : 1);
			cfs_rq->slice_end = end;
		}
	}
}

/*
 * Preemption by a task that comes
 */

enum preempt_wakeup_action {
	PREEMPT_WAKEUP_NONE,
	PREEMPT_WAKEUP_PICK,
	PREEMPT_WAKEUP_SHORT,
	PREEMPT_WAKEUP_RESCHED,
};

/* Would @se, which is in the sums but in no queue yet, be picked now? Delayed tasks that would be are dequeued. */
static __always_inline bool is_the_pick(struct cfs_rq *cfs_rq, struct task_struct *p, struct sched_entity_data *se,
					bool protect, u64 now)
{
	struct virtual_time time = {};
	bool curr, eligible, found;
	u64 deadline;
	u32 i;
	s32 slot;

	bpf_for(i, 0, NR_DELAYED) {
		virtual_time_of(cfs_rq, &time, now);
		if (pick_buddy && protect && cfs_rq->next_pid && vruntime_eligible(&time, cfs_rq->next_vruntime))
			return cfs_rq->next_pid == p->pid;

		curr = vruntime_eligible(&time, cfs_rq->curr_vruntime);
		if (curr && protect && protect_slice(cfs_rq))
			return false;

		eligible = vruntime_eligible(&time, se->vruntime);
		found = best_waiting(cfs_rq->cpu);
		deadline = cfs_rq->best_deadline;
		if (eligible && (!found || time_before(se->deadline, deadline))) {
			found = true;
			deadline = se->deadline;
		} else {
			eligible = false;
		}
		if (curr && (!found || time_before(cfs_rq->curr_deadline, deadline))) {
			found = true;
			deadline = cfs_rq->curr_deadline;
			eligible = false;
		}
		slot = best_delayed(cfs_rq->cpu, found, deadline);
		if (slot < 0)
			return eligible;
		finish_delayed(cfs_rq->cpu, slot);
	}
	return false;
}

/* A synchronous waker says that it will sleep, which is not always true: let it first have some time. */
static __always_inline enum preempt_wakeup_action preempt_sync(const struct cfs_rq *cfs_rq, const struct sched_entity_data *se,
							       bool selected, u64 ran)
{
	u64 threshold = selected ? sched_migration_cost >> 2 : sched_migration_cost;

	if (time_before(se->deadline, cfs_rq->curr_deadline) && ran >= threshold)
		return PREEMPT_WAKEUP_RESCHED;
	return PREEMPT_WAKEUP_NONE;
}

/* Shall the task that has come take the CPU from the running one? If not, the protection of the latter may become shorter. */
static __always_inline bool wakeup_preempt(struct cfs_rq *cfs_rq, struct task_struct *p, struct sched_entity_data *se,
					   bool fork, u64 now)
{
	enum preempt_wakeup_action action = PREEMPT_WAKEUP_PICK;
	struct virtual_time time = {};

	if (!wakeup_preemption)
		return false;

	/* An idle task gives way to any other, and is not preempted by its like; batch tasks preempt nobody */
	if (cfs_rq->curr_idle_policy && !se->idle_policy)
		goto preempt;
	if (cfs_rq->curr_idle_policy != se->idle_policy || p->policy == SCHED_BATCH || p->policy == SCHED_IDLE)
		goto update;

	if (preempt_short && se->slice < cfs_rq->curr_slice) {
		action = PREEMPT_WAKEUP_SHORT;
	} else {
		if (fork)
			goto update;
		if (next_buddy && !(cfs_rq->next_pid && time_before(cfs_rq->next_deadline, se->deadline))) {
			set_next_buddy(cfs_rq, p, se);
			if (se->wake_sync)
				action = preempt_sync(cfs_rq, se, p->nr_cpus_allowed > 1, now - cfs_rq->exec_start);
		}
		if (action == PREEMPT_WAKEUP_NONE)
			return false;
		if (action == PREEMPT_WAKEUP_RESCHED)
			goto preempt;
	}

	if (is_the_pick(cfs_rq, p, se, action != PREEMPT_WAKEUP_SHORT, now))
		goto preempt;
	/* It asks for less than the running task and is owed it: do not let it wait */
	if (action == PREEMPT_WAKEUP_SHORT) {
		virtual_time_of(cfs_rq, &time, now);
		if (vruntime_eligible(&time, se->vruntime))
			goto preempt;
	}
update:
	if (run_to_parity)
		update_protect_slice(cfs_rq, now);
	return false;

preempt:
	cancel_protect_slice(cfs_rq);
	if (action == PREEMPT_WAKEUP_SHORT) {
		if (!(cfs_rq->next_pid && cfs_rq->next_slice < se->slice))
			set_next_buddy(cfs_rq, p, se);
		count(SHORT_PREEMPTIONS);
	}
	return true;
}

/*
 * Balancing
 */

static __always_inline bool domain_exists(const struct cfs_rq *cfs_rq, u32 level)
{
	return is_within(level, LEVEL_SMT, NR_LEVELS) && cfs_rq->span[level].count > cfs_rq->span[level - 1].count;
}

/* The level of the next domain outward, or NR_LEVELS. */
static __always_inline u32 parent_level(const struct cfs_rq *cfs_rq, u32 level)
{
	u32 parent;

	for (parent = LEVEL_SMT; parent < NR_LEVELS; parent++) {
		if (parent > level && domain_exists(cfs_rq, parent))
			return parent;
	}
	return NR_LEVELS;
}

/* Shared by the CPUs of a last-level cache. */
static __always_inline struct cfs_rq *llc_of(const struct cfs_rq *cfs_rq)
{
	return cfs_rq_of(cpu_at(cfs_rq->span[LEVEL_MC].first));
}

static __always_inline bool available_idle_cpu(const struct cfs_rq *cfs_rq)
{
	return cfs_rq->exists && cfs_rq->idle && !cfs_rq->nr_running;
}

/* Runs nothing but tasks with policy SCHED_IDLE. */
static __always_inline bool sched_idle_rq(const struct cfs_rq *cfs_rq)
{
	return cfs_rq->nr_running && cfs_rq->nr_running == cfs_rq->nr_idle;
}

static __always_inline bool choose_idle_cpu(const struct cfs_rq *cfs_rq, bool idle_policy)
{
	return available_idle_cpu(cfs_rq) || (!idle_policy && sched_idle_rq(cfs_rq));
}

/* Are all other CPUs of the core idle? */
static __always_inline bool is_core_idle(const struct cfs_rq *cfs_rq)
{
	u32 first = cfs_rq->span[LEVEL_SMT].first, position;

	bpf_for(position, first, first + cfs_rq->span[LEVEL_SMT].count) {
		struct cfs_rq *sibling = cfs_rq_of(cpu_at(position));

		if (sibling && sibling->cpu != cfs_rq->cpu && !available_idle_cpu(sibling))
			return false;
	}
	return true;
}

static __always_inline bool is_pinned(const struct lb_env *env, s32 cpu)
{
	u32 i, nr_pinned = min(env->nr_pinned, MAX_PINNED_CPUS);

	if (!nr_pinned)
		return false;
	bpf_for(i, 0, nr_pinned) {
		if (i < MAX_PINNED_CPUS && env->pinned[i] == cpu)
			return true;
	}
	return false;
}

/* With a margin of a fifth. */
static __always_inline bool fits_capacity(u64 util, u64 capacity)
{
	return util * 1280 < capacity * 1024;
}

/* Clearly more, by a twentieth. */
static __always_inline bool capacity_greater(u64 capacity, u64 other)
{
	return capacity * 1024 > other * 1078;
}

/* Remembers the load of the running task if this CPU is too slow for it and a faster one is not. */
static __always_inline void update_misfit_status(struct cfs_rq *cfs_rq, const struct task_struct *p,
						 const struct sched_entity_data *se)
{
	u64 load = 0;

	if (!asym_active)
		return;
	if (p && se && p->nr_cpus_allowed > 1 && cfs_rq->capacity < SCHED_CAPACITY_SCALE &&
	    !fits_capacity(task_util_est(se), cfs_rq->capacity))
		load = max(task_h_load(se), 1);
	if (!load != !cfs_rq->misfit_task_load)
		__sync_fetch_and_add(&nr_overloaded, load ? 1 : -1);
	cfs_rq->misfit_task_load = load;
}

static __always_inline bool group_is_overloaded(u32 imbalance_pct, const struct sg_lb_stats *sgs)
{
	if (sgs->sum_nr_running <= sgs->group_weight)
		return false;
	return sgs->group_capacity * 100 < sgs->group_util * imbalance_pct ||
	       sgs->group_capacity * imbalance_pct < sgs->group_runnable * 100;
}

static __always_inline bool group_has_capacity(u32 imbalance_pct, const struct sg_lb_stats *sgs)
{
	if (sgs->sum_nr_running < sgs->group_weight)
		return true;
	if (sgs->group_capacity * imbalance_pct < sgs->group_runnable * 100)
		return false;
	return sgs->group_capacity * 100 > sgs->group_util * imbalance_pct;
}

static __always_inline u32 group_classify(u32 imbalance_pct, const struct sg_lb_stats *sgs, bool imbalanced, bool smt_balance)
{
	if (group_is_overloaded(imbalance_pct, sgs))
		return GROUP_OVERLOADED;
	if (imbalanced)
		return GROUP_IMBALANCED;
	if (smt_balance)
		return GROUP_SMT_BALANCE;
	if (sgs->misfit_task_load)
		return GROUP_MISFIT_TASK;
	if (!group_has_capacity(imbalance_pct, sgs))
		return GROUP_FULLY_BUSY;
	return GROUP_HAS_SPARE;
}

/* Adds up the group at positions @first to @first + @count - 1 into env->sgs of @this_cpu. */
__noinline bool update_sg_lb_stats(s32 this_cpu, u32 first, u32 count, bool local_group)
{
	struct cfs_rq *this_rq = cfs_rq_of(this_cpu), *cfs_rq, *group_rq;
	struct sg_lb_stats *sgs;
	struct lb_env *env;
	bool imbalanced;
	u32 position, level, flags, pct;

	if (!this_rq)
		return false;
	env = &this_rq->env;
	sgs = &env->sgs;
	level = env->level;
	group_rq = cfs_rq_of(cpu_at(first));
	if (!is_within(level, LEVEL_SMT, NR_LEVELS) || !group_rq)
		return false;
	flags = this_rq->sd[level].flags;
	pct = this_rq->sd[level].imbalance_pct;

	__builtin_memset(sgs, 0, sizeof(*sgs));
	sgs->first = first;
	sgs->group_weight = 0;
	sgs->min_capacity = ~0ULL;
	/* The group consists of threads of one core */
	sgs->smt = count > 1 && group_rq->span[LEVEL_SMT].count == count;

	bpf_for(position, first, first + count) {
		u64 load, capacity;

		cfs_rq = cfs_rq_of(cpu_at(position));
		if (!cfs_rq || !cfs_rq->exists)
			continue;
		sgs->group_weight++;
		sgs->cores += cfs_rq->span[LEVEL_SMT].first == position;
		capacity = cfs_rq->capacity;
		sgs->group_capacity += capacity;
		sgs->min_capacity = min(sgs->min_capacity, capacity);
		sgs->max_capacity = max(sgs->max_capacity, capacity);
		if (is_pinned(env, cfs_rq->cpu))
			continue;

		load = cpu_load(cfs_rq, env->now);
		sgs->group_load += load;
		sgs->group_util += cpu_util_cfs(cfs_rq, env->now);
		sgs->group_runnable += cpu_runnable(cfs_rq, env->now);
		sgs->sum_h_nr_running += cfs_rq->nr_running;
		sgs->sum_nr_running += h_nr_queued(cfs_rq);
		if (available_idle_cpu(cfs_rq)) {
			sgs->idle_cpus++;
			continue;
		}
		if (!local_group && (flags & SD_ASYM_CPUCAPACITY) && cfs_rq->misfit_task_load > sgs->misfit_task_load)
			sgs->misfit_task_load = cfs_rq->misfit_task_load;
	}
	/* A slower or equal CPU is no help for what does not fit */
	if (sgs->misfit_task_load && !capacity_greater(this_rq->capacity, sgs->max_capacity))
		sgs->misfit_task_load = 0;

	imbalanced = group_rq->group_imbalance[level];
	sgs->group_type = group_classify(pct, sgs, imbalanced, !local_group && env->idle != CPU_NOT_IDLE && sgs->smt &&
					 sgs->sum_h_nr_running > 1);
	if (sgs->group_type == GROUP_OVERLOADED)
		sgs->avg_load = sgs->group_load * SCHED_CAPACITY_SCALE / (sgs->group_capacity ?: 1);
	return true;
}

/* Is the group env->sgs busier than env->busiest, the busiest so far? */
static __always_inline bool update_sd_pick_busiest(const struct cfs_rq *this_rq, const struct lb_env *env, u32 flags)
{
	const struct sg_lb_stats *sgs = &env->sgs, *busiest = &env->busiest;

	if (!sgs->sum_h_nr_running)
		return false;
	/* Only a CPU with nothing else to do can help a task that does not fit */
	if ((flags & SD_ASYM_CPUCAPACITY) && sgs->group_type == GROUP_MISFIT_TASK &&
	    (env->local.group_type != GROUP_HAS_SPARE || !is_core_idle(this_rq)))
		return false;
	/* And a slower CPU none that has a CPU for itself */
	if ((flags & SD_ASYM_CPUCAPACITY) && sgs->group_type <= GROUP_FULLY_BUSY &&
	    capacity_greater(sgs->min_capacity, this_rq->capacity))
		return false;

	if (!env->has_busiest || sgs->group_type > busiest->group_type)
		return true;
	if (sgs->group_type < busiest->group_type)
		return false;

	switch (sgs->group_type) {
	case GROUP_OVERLOADED:
		return sgs->avg_load > busiest->avg_load;
	case GROUP_IMBALANCED:
		return false;
	case GROUP_MISFIT_TASK:
		return sgs->misfit_task_load > busiest->misfit_task_load;
	case GROUP_FULLY_BUSY:
		/* Threads that share a core need help most */
		return !busiest->smt;
	case GROUP_SMT_BALANCE:
		if (!sgs->idle_cpus && !busiest->idle_cpus)
			return !busiest->smt;
		break;
	case GROUP_HAS_SPARE:
		if (sgs->smt != busiest->smt)
			return !(sgs->smt && sgs->sum_h_nr_running <= 1);
		break;
	}
	/* Fewest idle CPUs, then most tasks */
	if (sgs->idle_cpus != busiest->idle_cpus)
		return sgs->idle_cpus < busiest->idle_cpus;
	return sgs->sum_nr_running > busiest->sum_nr_running;
}

/* How many tasks the busiest group has more than this one, in proportion to their cores. */
static __always_inline s64 sibling_imbalance(const struct lb_env *env)
{
	const struct sg_lb_stats *local = &env->local, *busiest = &env->busiest;
	s64 imbalance;

	if (env->idle == CPU_NOT_IDLE || !busiest->sum_nr_running)
		return 0;
	if (busiest->cores == local->cores) {
		imbalance = (s64)busiest->sum_nr_running - local->sum_nr_running;
		return imbalance > 0 ? imbalance : 0;
	}

	imbalance = (s64)local->cores * busiest->sum_nr_running - (s64)busiest->cores * local->sum_nr_running;
	if (imbalance < 0)
		imbalance = 0;
	imbalance = (u64)(2 * imbalance + local->cores + busiest->cores) / (local->cores + busiest->cores);
	if (imbalance <= 1 && !local->sum_nr_running && busiest->sum_nr_running > 1)
		imbalance = 2;
	return imbalance;
}

/* An imbalance between nodes is allowed as long as few tasks run. */
static __always_inline s64 adjust_numa_imbalance(s64 imbalance, u32 dst_running, u32 imb_numa_nr)
{
	if (dst_running > imb_numa_nr)
		return imbalance;
	return imbalance <= NUMA_IMBALANCE_MIN ? 0 : imbalance;
}

/* What to move from the busiest group to this one, and counted how; env->imbalance is 0 if nothing. */
static __always_inline void calculate_imbalance(struct lb_env *env, const struct sched_domain *sd)
{
	struct sg_lb_stats *local = &env->local, *busiest = &env->busiest;
	u64 avg_load;

	env->migration_type = MIGRATE_TASK;
	env->imbalance = 1;

	switch (busiest->group_type) {
	case GROUP_MISFIT_TASK:
		env->migration_type = MIGRATE_MISFIT;
		return;
	case GROUP_SMT_BALANCE:
	case GROUP_IMBALANCED:
		return;
	}

	if (local->group_type == GROUP_HAS_SPARE) {
		if (busiest->group_type > GROUP_FULLY_BUSY && !(sd->flags & SD_SHARE_LLC)) {
			/* Fill what is left of this group's capacity */
			env->migration_type = MIGRATE_UTIL;
			env->imbalance = local->group_capacity > local->group_util ?
					 local->group_capacity - local->group_util : 0;
			if (env->idle != CPU_NOT_IDLE && !env->imbalance) {
				env->migration_type = MIGRATE_TASK;
				env->imbalance = 1;
			}
			return;
		}
		if (busiest->group_weight == 1 || env->prefer_sibling)
			env->imbalance = sibling_imbalance(env);
		else
			env->imbalance = local->idle_cpus > busiest->idle_cpus ? local->idle_cpus - busiest->idle_cpus : 0;
		if (sd->flags & SD_NUMA)
			env->imbalance = adjust_numa_imbalance(env->imbalance, local->sum_nr_running + 1, sd->imb_numa_nr);
		env->imbalance >>= 1;
		return;
	}

	avg_load = env->total_load * SCHED_CAPACITY_SCALE / (env->total_capacity ?: 1);
	env->migration_type = MIGRATE_LOAD;
	env->imbalance = 0;
	if (local->group_type < GROUP_OVERLOADED)
		local->avg_load = local->group_load * SCHED_CAPACITY_SCALE / (local->group_capacity ?: 1);
	if (local->avg_load >= busiest->avg_load || local->avg_load >= avg_load || busiest->avg_load <= avg_load)
		return;

	/* Bring neither this group above the average nor the busiest below it */
	env->imbalance = min((busiest->avg_load - avg_load) * busiest->group_capacity,
			     (avg_load - local->avg_load) * local->group_capacity) / SCHED_CAPACITY_SCALE;
}

/* The CPUs of a last-level cache that a wake-up looks at, fewer the busier they are: none from 85 % on. */
static __always_inline void update_idle_cpu_scan(const struct cfs_rq *this_rq, const struct lb_env *env)
{
	u64 weight = this_rq->span[LEVEL_MC].count, x, y, pct;
	struct cfs_rq *llc_rq = llc_of(this_rq);

	if (env->idle == CPU_NEWLY_IDLE || env->level >= NR_LEVELS || !llc_rq || this_rq->span[env->level].count != weight)
		return;
	pct = this_rq->sd[env->level].imbalance_pct;
	x = env->sum_util / (weight ?: 1);
	y = min(x * x * pct * pct / (10000 * SCHED_CAPACITY_SCALE), SCHED_CAPACITY_SCALE);
	llc_rq->nr_idle_scan = (SCHED_CAPACITY_SCALE - y) * weight / SCHED_CAPACITY_SCALE;
}

/* Looks at all groups of the domain: env->local, env->busiest. */
__noinline int update_sd_lb_stats(s32 this_cpu)
{
	struct cfs_rq *this_rq = cfs_rq_of(this_cpu), *group_rq;
	u32 level, group_first, group_count, step;
	const struct topology_span *span;
	struct lb_env *env;

	if (!this_rq)
		return 0;
	env = &this_rq->env;
	level = env->level;
	if (!is_within(level, LEVEL_SMT, NR_LEVELS))
		return 0;
	env->has_busiest = false;
	env->prefer_sibling = false;
	env->total_load = 0;
	env->total_capacity = 0;
	env->sum_util = 0;

	span = &this_rq->span[level];
	env->group_first = this_rq->span[level - 1].first;
	env->left = span->count;

	/* Group by group, beginning with this CPU's own */
	bpf_for(step, 0, span->count) {
		group_first = env->group_first;
		group_rq = cfs_rq_of(cpu_at(group_first));
		if (!env->left || !group_rq)
			break;
		group_count = group_rq->span[level - 1].count;
		update_sg_lb_stats(this_cpu, group_first, group_count, !step);
		if (!step) {
			env->local = env->sgs;
		} else if (update_sd_pick_busiest(this_rq, env, this_rq->sd[level].flags)) {
			env->busiest = env->sgs;
			env->has_busiest = true;
			/* The groups are domains of their own, whose tasks shall rather be spread */
			env->prefer_sibling = group_count > 1 && (group_rq->sd[level - 1].flags & SD_PREFER_SIBLING);
		}
		env->total_load += env->sgs.group_load;
		env->total_capacity += env->sgs.group_capacity;
		env->sum_util += env->sgs.group_util;

		env->left -= min(group_count, env->left);
		group_first += group_count;
		env->group_first = group_first < span->first + span->count ? group_first : span->first;
	}
	update_idle_cpu_scan(this_rq, env);
	return 0;
}

/* Is there a group to take from, and what of it? False if all is balanced. */
__noinline bool sched_balance_find_src_group(s32 this_cpu)
{
	struct cfs_rq *this_rq = cfs_rq_of(this_cpu);
	struct sg_lb_stats *local, *busiest;
	struct sched_domain *sd;
	struct lb_env *env;
	u64 avg_load;

	if (!this_rq)
		return false;
	env = &this_rq->env;
	if (env->level <= LEVEL_SELF || env->level >= NR_LEVELS)
		return false;
	sd = &this_rq->sd[env->level];
	local = &env->local;
	busiest = &env->busiest;
	env->imbalance = 0;

	if (!env->has_busiest)
		return false;
	if (busiest->group_type == GROUP_MISFIT_TASK || busiest->group_type == GROUP_IMBALANCED)
		goto force_balance;
	if (local->group_type > busiest->group_type)
		return false;

	if (local->group_type == GROUP_OVERLOADED) {
		avg_load = env->total_load * SCHED_CAPACITY_SCALE / (env->total_capacity ?: 1);
		if (local->avg_load >= busiest->avg_load || local->avg_load >= avg_load ||
		    100 * busiest->avg_load <= sd->imbalance_pct * local->avg_load)
			return false;
	}

	if (env->prefer_sibling && local->group_type == GROUP_HAS_SPARE && sibling_imbalance(env) > 1)
		goto force_balance;

	if (busiest->group_type != GROUP_OVERLOADED) {
		/* Some idle CPU shall help, not this one */
		if (env->idle == CPU_NOT_IDLE)
			return false;
		if (busiest->group_type == GROUP_SMT_BALANCE && local->smt != busiest->smt)
			goto force_balance;
		if (busiest->group_weight > 1 && local->idle_cpus <= busiest->idle_cpus + 1)
			return false;
		if (busiest->sum_h_nr_running == 1)
			return false;
	}

force_balance:
	calculate_imbalance(env, sd);
	return env->imbalance > 0;
}

/*
 * How much a CPU of the busiest group has of what the balancing of @this_cpu is to move: load, utilization, tasks, or the load
 * of a task that does not fit; 0 if nothing is to be taken from it. A function of its own for the verifier, which would follow
 * each of its branches through the rest of the walk.
 */
__noinline u64 load_to_move(s32 this_cpu, s32 i)
{
	struct cfs_rq *this_rq = cfs_rq_of(this_cpu), *cfs_rq = cfs_rq_of(i);
	u32 flags, nr_running;
	struct lb_env *env;
	u64 load;

	if (!this_rq || !cfs_rq)
		return 0;
	env = &this_rq->env;
	if (env->level >= NR_LEVELS)
		return 0;
	flags = this_rq->sd[env->level].flags;
	nr_running = cfs_rq->nr_running;
	if (!nr_running || is_pinned(env, i))
		return 0;
	/* No single task from a faster CPU to a slower one */
	if ((flags & SD_ASYM_CPUCAPACITY) && nr_running == 1 &&
	    !capacity_greater(this_rq->capacity, cfs_rq->capacity) && !(smt_active && !is_core_idle(cfs_rq)))
		return 0;

	switch (env->migration_type) {
	case MIGRATE_LOAD:
		load = cpu_load(cfs_rq, env->now);
		return nr_running == 1 && (s64)load > env->imbalance ? 0 : load;
	case MIGRATE_UTIL:
		if (nr_running == 1)
			return 0;
		return max(cpu_util_cfs(cfs_rq, env->now), min(cpu_runnable(cfs_rq, env->now), cfs_rq->capacity));
	case MIGRATE_TASK:
		return nr_running;
	case MIGRATE_MISFIT:
		return cfs_rq->misfit_task_load;
	}
	return 0;
}

/* The CPU of the busiest group to take from, -1 if there is none. Loads are compared in relation to the capacities. */
__noinline s32 sched_balance_find_src_rq(s32 this_cpu)
{
	u64 busiest_load = 0, busiest_capacity = 1, load, capacity;
	struct cfs_rq *this_rq = cfs_rq_of(this_cpu), *cfs_rq;
	u32 position, first;
	struct lb_env *env;
	s32 busiest = -1;

	if (!this_rq)
		return -1;
	env = &this_rq->env;
	first = env->busiest.first;

	bpf_for(position, first, first + env->busiest.group_weight) {
		s32 i = cpu_at(position);

		cfs_rq = cfs_rq_of(i);
		if (!cfs_rq)
			continue;
		load = load_to_move(this_cpu, i);
		capacity = env->migration_type == MIGRATE_LOAD ? cfs_rq->capacity : 1;
		if (load * busiest_capacity > busiest_load * capacity) {
			busiest_load = load;
			busiest_capacity = capacity;
			busiest = i;
		}
	}
	return busiest;
}

static __always_inline bool task_allowed(const struct task_struct *p, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && !is_migration_disabled(p);
}

static __always_inline bool kthread_is_per_cpu(const struct task_struct *p)
{
	return (p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1;
}

/* Did the task run so lately that its data may still be in the CPU's cache? */
static __always_inline bool task_hot(const struct task_struct *p, const struct sched_entity_data *se,
				     const struct cfs_rq *src_rq, const struct cfs_rq *dst_rq, u32 flags, u64 now)
{
	if (se->idle_policy || (flags & SD_SHARE_CPUCAPACITY))
		return false;
	if (cache_hot_buddy && dst_rq->nr_running && src_rq->next_pid == p->pid)
		return true;
	return (s64)(now - se->exec_start) < (s64)sched_migration_cost;
}

/* May the waiting task be moved? */
static __always_inline bool can_migrate_task(struct lb_env *env, struct task_struct *p, const struct sched_entity_data *se,
					     struct cfs_rq *src_rq, struct cfs_rq *dst_rq, const struct cfs_rq *this_rq)
{
	const struct sched_domain *sd;

	if (env->level <= LEVEL_SELF || env->level >= NR_LEVELS)
		return false;
	sd = &this_rq->sd[env->level];
	/* It would be ineligible there, too: only if all else has failed */
	if (!sd->nr_balance_failed && place_lag && h_nr_queued(dst_rq) && !vruntime_eligible(&env->src_time, se->vruntime))
		return false;
	if (kthread_is_per_cpu(p))
		return false;

	if (!task_allowed(p, env->dst_cpu)) {
		u32 first = env->dst_grpmask.first, position;

		env->some_pinned = true;
		if (env->idle == CPU_NEWLY_IDLE || env->dst_pinned || is_migration_disabled(p))
			return false;
		/* Another CPU of this group may take it */
		bpf_for(position, first, first + env->dst_grpmask.count) {
			s32 cpu = cpu_at(position);

			if (cpu >= 0 && cpu != env->dst_cpu && bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
				env->dst_pinned = true;
				env->new_dst_cpu = cpu;
				break;
			}
		}
		return false;
	}
	env->all_pinned = false;

	return !task_hot(p, se, src_rq, dst_rq, sd->flags, env->now) || sd->nr_balance_failed > sd->cache_nice_tries;
}

/* value >> shift, at most by 63. */
static __always_inline u64 shr_bound(u64 value, u32 shift)
{
	return value >> (shift < 63 ? shift : 63);
}

/* Is the task within what is left to move? Takes it off if so. */
static __always_inline bool within_imbalance(struct lb_env *env, const struct cfs_rq *this_rq,
					     const struct sched_entity_data *se, const struct cfs_rq *src_rq)
{
	const struct sched_domain *sd;
	s64 amount;

	if (env->level >= NR_LEVELS)
		return false;
	sd = &this_rq->sd[env->level];
	switch (env->migration_type) {
	case MIGRATE_LOAD:
		/* A task that is too large becomes small enough when it was in vain several times */
		amount = max(task_h_load(se), 1);
		if ((s64)shr_bound(amount, sd->nr_balance_failed) > env->imbalance)
			return false;
		env->imbalance -= amount;
		return true;
	case MIGRATE_UTIL:
		amount = task_util_est(se);
		if ((s64)shr_bound(amount, sd->nr_balance_failed) > env->imbalance)
			return false;
		env->imbalance -= amount;
		return true;
	case MIGRATE_MISFIT:
		if (fits_capacity(task_util_est(se), src_rq->capacity))
			return false;
		env->imbalance = 0;
		return true;
	default:
		env->imbalance--;
		return true;
	}
}

/* Where a waiting task would be on another CPU: it keeps its lag, which is place->vlag, and its relative deadline. */
static __always_inline void place_on(struct cfs_rq *dst_rq, const struct sched_entity_data *se, struct placement *place, u64 now)
{
	struct virtual_time time = {};

	place->vruntime = avg_vruntime(dst_rq, now);
	if (h_nr_queued(dst_rq))
		place->vruntime -= inflate_lag(dst_rq, place->vlag, se->weight);
	place->deadline = place->vruntime +
			  (place_rel_deadline ? se->deadline - se->vruntime : calc_delta_fair(se->slice, se->weight));
	virtual_time_of(dst_rq, &time, now);
	time.avg += (s64)(place->vruntime - time.zero) * se->weight;
	time.load += se->weight;
	place->eligible = vruntime_eligible(&time, place->vruntime);
}

/* Moves the accounts of a task whose place in the queues has been moved; the task may have left meanwhile. */
static __always_inline void account_move(struct sched_entity_data *se, struct cfs_rq *from, struct cfs_rq *to,
					 const struct placement *place, s32 pid, u64 now)
{
	u64 vruntime = se->vruntime;

	if (__sync_val_compare_and_swap(&se->in_tree, from->cpu + 1, 0) != from->cpu + 1)
		return;
	sum_w_vruntime_sub(from, vruntime, se->weight);
	se->vruntime = place->vruntime;
	se->deadline = place->deadline;
	se->vlag = place->vlag;
	se->vruntime_cpu = to->cpu + 1;
	tree_add(to, se);
	clear_buddies(from, pid);

	if (__sync_val_compare_and_swap(&se->on_rq, from->cpu + 1, to->cpu + 1) == from->cpu + 1) {
		load_sub(from, se, now);
		load_add(to, se, now);
		attach_entity_load_avg(to, se);
	}
}

/*
 * Takes tasks from one queue of env->src_cpu to env->dst_cpu, until env->imbalance is used up or all have been looked at. Adds
 * how many to env->pulled.
 */
__noinline int detach_tasks(s32 this_cpu, bool eligible)
{
	struct cfs_rq *this_rq = cfs_rq_of(this_cpu), *src_rq, *dst_rq;
	struct task_struct *p;
	struct lb_env *env;

	if (!this_rq)
		return 0;
	env = &this_rq->env;
	src_rq = cfs_rq_of(env->src_cpu);
	dst_rq = cfs_rq_of(env->dst_cpu);
	if (env->level <= LEVEL_SELF || env->level >= NR_LEVELS || !src_rq || !dst_rq)
		return 0;
	env->src_avruntime = avg_vruntime(src_rq, env->now);
	virtual_time_of(src_rq, &env->src_time, env->now);

	bpf_for_each(scx_dsq, p, eligible ? eligible_dsq(env->src_cpu) : ineligible_dsq(env->src_cpu), 0) {
		struct sched_entity_data *se;
		s64 imbalance = env->imbalance;

		if (imbalance <= 0 || (env->idle != CPU_NOT_IDLE && src_rq->nr_running <= 1))
			break;
		if (env->loop++ >= env->loop_max)
			break;
		se = entity_of(p);
		if (!se || !can_migrate_task(env, p, se, src_rq, dst_rq, this_rq) || !within_imbalance(env, this_rq, se, src_rq))
			continue;

		env->place.vlag = max_lag(se, env->src_max_slice);
		env->place.vlag = clamp(env->src_avruntime - se->vruntime, -env->place.vlag, env->place.vlag);
		place_on(dst_rq, se, &env->place, env->now);
		scx_bpf_dsq_move_set_vtime(DSQ_ITERATOR, env->place.eligible ? env->place.deadline : env->place.vruntime);
		if (!scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p, env->place.eligible ? eligible_dsq(env->dst_cpu) :
					    ineligible_dsq(env->dst_cpu), 0)) {
			env->imbalance = imbalance;
			continue;
		}
		account_move(se, src_rq, dst_rq, &env->place, p->pid, env->now);
		env->pulled++;
		/* One is enough to end idleness */
		if (env->idle == CPU_NEWLY_IDLE) {
			env->imbalance = 0;
			break;
		}
	}
	return 0;
}

/* Is the task that runs on @cpu not allowed on @this_cpu? */
static __always_inline bool curr_is_pinned(s32 cpu, s32 this_cpu)
{
	struct task_struct *curr = scx_bpf_cpu_curr(cpu);

	return curr && !bpf_cpumask_test_cpu(this_cpu, curr->cpus_ptr);
}

/* Moves tasks from env->src_cpu, those first that are owed service and have waited longest. Returns how many. */
static __always_inline s32 move_tasks(s32 this_cpu, struct lb_env *env, struct cfs_rq *src_rq)
{
	/* The running task is not moved, but it is looked at */
	if (env->all_pinned && !curr_is_pinned(env->src_cpu, env->dst_cpu))
		env->all_pinned = false;

	env->pulled = 0;
	env->src_max_slice = cfs_rq_max_slice(src_rq);
	detach_tasks(this_cpu, true);
	if (env->imbalance > 0)
		detach_tasks(this_cpu, false);

	if (env->idle == CPU_NEWLY_IDLE)
		count_by(PULLED_NEWLY_IDLE, env->pulled);
	else if (env->idle == CPU_IDLE)
		count_by(PULLED_IDLE, env->pulled);
	else
		count_by(PULLED_BUSY, env->pulled);
	return env->pulled;
}

/* Tasks have been put into a queue of a CPU that is not locked: let it look itself. */
static __always_inline void kick_for_pulled(s32 cpu)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(cpu);

	if (!cfs_rq)
		return;
	cfs_rq->need_resched = true;
	scx_bpf_kick_cpu(cpu, cfs_rq->curr ? SCX_KICK_PREEMPT : SCX_KICK_IDLE);
}

/*
 * Should this CPU balance the domain? The first idle CPU of its group shall, preferably on an idle core, else the first of the
 * group. A newly idle CPU always may.
 */
static __always_inline bool should_we_balance(const struct cfs_rq *this_rq, u32 level, u32 idle)
{
	u32 first, position;
	s32 idle_smt = -1;

	if (idle == CPU_NEWLY_IDLE)
		return !this_rq->nr_running;
	if (!is_within(level, LEVEL_SMT, NR_LEVELS))
		return false;

	first = this_rq->span[level - 1].first;
	bpf_for(position, first, first + this_rq->span[level - 1].count) {
		struct cfs_rq *cfs_rq = cfs_rq_of(cpu_at(position));

		if (!cfs_rq || !(available_idle_cpu(cfs_rq) || (cfs_rq == this_rq && idle == CPU_IDLE)))
			continue;
		if (smt_active && !(this_rq->sd[level].flags & SD_SHARE_CPUCAPACITY) && !is_core_idle(cfs_rq)) {
			if (idle_smt < 0)
				idle_smt = cfs_rq->cpu;
			continue;
		}
		return cfs_rq->cpu == this_rq->cpu;
	}
	if (idle_smt >= 0)
		return idle_smt == this_rq->cpu;
	return cpu_at(first) == this_rq->cpu;
}

/* Must the running task of the busiest CPU be moved by force? */
static __always_inline bool need_active_balance(const struct lb_env *env, const struct sched_domain *sd)
{
	if (env->migration_type == MIGRATE_TASK && sd->nr_balance_failed > sd->cache_nice_tries + 2)
		return true;
	return env->migration_type == MIGRATE_MISFIT;
}

enum balance_result {
	BALANCE_ELSEWHERE = -1,
};

/* Evens out one domain of this CPU. Returns how many tasks moved, or that another CPU of the group does it. */
__noinline s32 sched_balance_rq(s32 this_cpu, u32 level, u32 idle)
{
	struct cfs_rq *this_rq = cfs_rq_of(this_cpu), *busiest = NULL, *group_rq;
	bool all_pinned = false, balanced = true;
	struct sched_domain *sd;
	s32 busiest_cpu, ld_moved = 0;
	struct lb_env *env;
	u32 round, again, parent;

	if (!this_rq || !is_within(level, LEVEL_SMT, NR_LEVELS))
		return 0;
	if (!should_we_balance(this_rq, level, idle))
		return BALANCE_ELSEWHERE;
	sd = &this_rq->sd[level];
	group_rq = cfs_rq_of(cpu_at(this_rq->span[level].first));
	parent = parent_level(this_rq, level);

	env = &this_rq->env;
	env->now = scx_bpf_now();
	env->level = level;
	env->dst_grpmask = this_rq->span[level - 1];
	env->idle = idle;
	env->nr_pinned = 0;
	env->all_pinned = false;
	env->migration_type = MIGRATE_LOAD;
	count(BALANCES);

	bpf_for(round, 0, MAX_PINNED_CPUS + 1) {
		balanced = true;
		env->all_pinned = false;
		update_sd_lb_stats(this_cpu);
		if (!sched_balance_find_src_group(this_cpu))
			break;
		busiest_cpu = sched_balance_find_src_rq(this_cpu);
		busiest = cfs_rq_of(busiest_cpu);
		if (busiest_cpu < 0 || !busiest || busiest_cpu == this_cpu)
			break;
		balanced = false;

		if (busiest->nr_running > 1) {
			env->all_pinned = true;
			env->some_pinned = false;
			env->dst_pinned = false;
			env->dst_cpu = this_cpu;
			env->src_cpu = busiest_cpu;
			env->loop_max = min(sched_nr_migrate, busiest->nr_running);
			env->loop = 0;
			ld_moved += move_tasks(this_cpu, env, busiest);

			/* Tasks that may not come here but to a neighbour */
			bpf_for(again, 0, MAX_PINNED_CPUS) {
				if (!env->dst_pinned || env->imbalance <= 0)
					break;
				env->dst_cpu = env->new_dst_cpu;
				env->dst_pinned = false;
				env->loop = 0;
				if (move_tasks(this_cpu, env, busiest) > 0) {
					ld_moved++;
					kick_for_pulled(env->dst_cpu);
				}
			}

			/* What affinities keep from being balanced here the next level may balance */
			if (parent < NR_LEVELS && group_rq && env->some_pinned && env->imbalance > 0)
				group_rq->group_imbalance[parent] = true;
		}
		if (!env->all_pinned)
			break;

		all_pinned = true;
		balanced = true;
		if (round < MAX_PINNED_CPUS) {
			env->pinned[round] = busiest_cpu;
			env->nr_pinned = round + 1;
		}
	}

	if (ld_moved) {
		sd->nr_balance_failed = 0;
		goto unbalanced;
	}
	if (balanced) {
		if (parent < NR_LEVELS && group_rq && !all_pinned)
			group_rq->group_imbalance[parent] = false;
		sd->nr_balance_failed = 0;
		goto backoff;
	}

	if (idle != CPU_NEWLY_IDLE && env->migration_type != MIGRATE_MISFIT)
		sd->nr_balance_failed++;
	if (busiest && need_active_balance(env, sd)) {
		if (curr_is_pinned(busiest->cpu, this_cpu)) {
			all_pinned = true;
			goto backoff;
		}
		if (!__sync_val_compare_and_swap(&busiest->push_cpu, 0, this_cpu + 1))
			scx_bpf_kick_cpu(busiest->cpu, SCX_KICK_PREEMPT);
	}
unbalanced:
	sd->balance_interval = sd->min_interval;
	return ld_moved;

backoff:
	/* Balanced, or nothing can be done: look less often */
	if (idle != CPU_NEWLY_IDLE && env->migration_type != MIGRATE_MISFIT &&
	    ((all_pinned && sd->balance_interval < MAX_PINNED_INTERVAL) || sd->balance_interval < sd->max_interval))
		sd->balance_interval *= 2;
	return 0;
}

/* Ticks between two balancings of a domain. A busy CPU's are no multiples of each other, so that levels do not meet. */
static __always_inline u64 get_sd_balance_interval(const struct sched_domain *sd, bool busy)
{
	u64 interval = msecs_to_jiffies(sd->balance_interval * (busy ? 16 : 1));

	if (busy)
		interval--;
	return min(max(interval, 1), max_load_balance_interval);
}

/* Balances the domains that are due, innermost first, as the timer tick does. */
__noinline int sched_balance_domains(s32 cpu, u32 idle)
{
	u64 jiffies = jiffies_at(scx_bpf_now()), next_balance = jiffies + jiffies_at(60 * NSEC_PER_SEC), interval;
	struct cfs_rq *cfs_rq = cfs_rq_of(cpu);
	bool busy, here = true;
	u32 level;

	if (!cfs_rq)
		return 0;
	busy = idle != CPU_IDLE && !sched_idle_rq(cfs_rq);

	bpf_for(level, LEVEL_SMT, NR_LEVELS) {
		struct sched_domain *sd;
		s32 moved = 0;

		if (!here || level >= NR_LEVELS || !domain_exists(cfs_rq, level))
			continue;
		sd = &cfs_rq->sd[level];
		interval = get_sd_balance_interval(sd, busy);

		if (jiffies >= sd->last_balance + interval) {
			bool serialize = sd->flags & SD_SERIALIZE;

			if (!serialize || !__sync_val_compare_and_swap(&sched_balance_running, 0, 1)) {
				moved = sched_balance_rq(cpu, level, idle);
				if (serialize)
					sched_balance_running = 0;
			}
			if (moved == BALANCE_ELSEWHERE) {
				/* Another CPU of the group balances this level and those above */
				here = false;
			} else if (moved) {
				idle = cfs_rq->nr_running ? CPU_NOT_IDLE : CPU_IDLE;
				busy = idle != CPU_IDLE && !sched_idle_rq(cfs_rq);
			}
			sd->last_balance = jiffies;
			interval = get_sd_balance_interval(sd, busy);
		}
		next_balance = min(next_balance, sd->last_balance + interval);
	}
	cfs_rq->next_balance = next_balance;
	return 0;
}

/* Counts an attempt of a newly idle CPU; after 1024 of them, their success decides how often to try on. */
static __always_inline void update_newidle_stats(struct sched_domain *sd, u32 success)
{
	u64 now;

	sd->newidle_call++;
	sd->newidle_success += success;
	if (sd->newidle_call < 1024)
		return;

	/* Rare attempts are worth it anyway */
	now = scx_bpf_now();
	sd->newidle_ratio = min(1024, sd->newidle_success + ((now - sd->newidle_stamp) >> 22));
	sd->newidle_stamp = now;
	sd->newidle_call /= 2;
	sd->newidle_success /= 2;
}

static __always_inline void update_newidle_cost(struct sched_domain *sd, u64 cost)
{
	u64 now = scx_bpf_now();

	if (cost > sd->max_newidle_lb_cost) {
		sd->max_newidle_lb_cost = cost;
		sd->last_decay_max_lb_cost = now;
	} else if (now > sd->last_decay_max_lb_cost + NSEC_PER_SEC) {
		sd->max_newidle_lb_cost = sd->max_newidle_lb_cost * 253 / 256;
		sd->last_decay_max_lb_cost = now;
	}
}

/* Balances when the CPU has just run out of tasks; stops at the first level that yields one. */
__noinline int sched_balance_newidle(s32 cpu)
{
	u64 next_balance = jiffies_at(scx_bpf_now() + NSEC_PER_SEC), t0, t1, curr_cost = 0;
	struct cfs_rq *cfs_rq = cfs_rq_of(cpu);
	s32 pulled_task = 0;
	u32 level;

	if (!cfs_rq)
		return 0;
	update_misfit_status(cfs_rq, NULL, NULL);
	t0 = bpf_ktime_get_ns();

	bpf_for(level, LEVEL_SMT, NR_LEVELS) {
		struct sched_domain *sd;
		u32 weight = 1, dice;

		if (level >= NR_LEVELS || !domain_exists(cfs_rq, level))
			continue;
		sd = &cfs_rq->sd[level];
		next_balance = min(next_balance, sd->last_balance + get_sd_balance_interval(sd, false));

		/* Nowhere are two tasks, or the time until it has work again is too short for the search */
		if (!nr_overloaded || cfs_rq->avg_idle < curr_cost + sd->max_newidle_lb_cost)
			break;

		if (newidle_random && sd->newidle_ratio < NEWIDLE_DICE) {
			dice = bpf_get_prandom_u32() % NEWIDLE_DICE;
			weight = 1 + sd->newidle_ratio;
			if (dice > weight) {
				update_newidle_stats(sd, 0);
				continue;
			}
			weight = (NEWIDLE_DICE + weight / 2) / weight;
		}

		pulled_task = sched_balance_rq(cpu, level, CPU_NEWLY_IDLE);
		t1 = bpf_ktime_get_ns();
		curr_cost += t1 - t0;
		update_newidle_stats(sd, pulled_task > 0 ? weight : 0);
		update_newidle_cost(sd, t1 - t0);
		t0 = t1;
		if (pulled_task)
			break;
	}
	/* The time may have been set when the CPU was busy, with a long interval */
	cfs_rq->next_balance = min(cfs_rq->next_balance, next_balance);
	return 0;
}

/* The running task does not run any longer; one that leaves takes its lag with it. */
static __always_inline void put_prev_entity(struct cfs_rq *cfs_rq, struct sched_entity_data *se, bool leaves, u64 now)
{
	update_curr(cfs_rq, now);
	update_load_avg(se, now, true, cfs_rq->capacity);
	update_cfs_rq_load_avg(cfs_rq, now);
	se->vruntime = cfs_rq->curr_vruntime;
	se->deadline = cfs_rq->curr_deadline;
	se->slice = cfs_rq->curr_slice;
	se->vprot = cfs_rq->vprot;
	se->exec_start = now;
	if (leaves)
		se->vlag = entity_lag(cfs_rq, se, now);
	cfs_rq->curr = false;
	cfs_rq->curr_pid = 0;
}

/* Hands the first waiting task that may go there to the CPU that asked for one. False if there is none. */
__noinline bool push_waiting(s32 cpu, s32 target_cpu)
{
	struct cfs_rq *busiest = cfs_rq_of(cpu), *target = cfs_rq_of(target_cpu);
	struct sched_entity_data *se;
	struct placement *place;
	u64 now = scx_bpf_now();
	struct task_struct *p;
	bool moved = false;

	if (!busiest || !target)
		return false;
	place = &busiest->env.place;

	bpf_for_each(scx_dsq, p, eligible_dsq(cpu), 0) {
		se = entity_of(p);
		if (!se || !task_allowed(p, target_cpu) || kthread_is_per_cpu(p))
			continue;
		place->vlag = entity_lag(busiest, se, now);
		place_on(target, se, place, now);
		scx_bpf_dsq_move_set_vtime(DSQ_ITERATOR, place->eligible ? place->deadline : place->vruntime);
		if (!scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p, place->eligible ? eligible_dsq(target_cpu) :
					    ineligible_dsq(target_cpu), 0))
			continue;
		account_move(se, busiest, target, place, p->pid, now);
		moved = true;
		break;
	}
	if (moved) {
		count(PUSHED_ACTIVE);
		kick_for_pulled(target_cpu);
	}
	return moved;
}

/*
 * Gives the running task away to the CPU that asked for one. It leaves this CPU at once, so that the next pick is made without
 * it, and enqueue() will insert it there. False if it may not go there.
 */
__noinline bool push_running(struct task_struct *prev __arg_trusted, s32 cpu, s32 target_cpu)
{
	struct sched_entity_data *se = entity_of(prev);
	struct cfs_rq *busiest = cfs_rq_of(cpu);
	u64 now = scx_bpf_now();

	if (!busiest || !se || !task_allowed(prev, target_cpu))
		return false;
	se->push_cpu = target_cpu + 1;
	put_prev_entity(busiest, se, true, now);
	if (place_rel_deadline) {
		se->deadline -= se->vruntime;
		se->rel_deadline = true;
	}
	account_entity_dequeue(se, now);
	scx_bpf_task_set_slice(prev, 0);
	return true;
}

/*
 * Placement of a waking or new task on a CPU
 */

/*
 * Adds up the allowed CPUs of the group at positions @first to @first + @count - 1 for a new task, into env->sgs of @this_cpu.
 * False if there is none.
 */
__noinline bool update_sg_wakeup_stats(struct task_struct *p __arg_trusted, s32 this_cpu, u32 first, u32 count,
				       u32 imbalance_pct)
{
	struct cfs_rq *this_rq = cfs_rq_of(this_cpu);
	struct sg_lb_stats *sgs;
	struct lb_env *env;
	bool allowed = false;
	u32 position;

	if (!this_rq)
		return false;
	env = &this_rq->env;
	sgs = &env->sgs;
	__builtin_memset(sgs, 0, sizeof(*sgs));
	sgs->first = first;
	bpf_for(position, first, first + count) {
		s32 i = cpu_at(position);
		struct cfs_rq *cfs_rq = cfs_rq_of(i);

		if (!cfs_rq || !cfs_rq->exists)
			continue;
		sgs->group_weight++;
		sgs->group_capacity += cfs_rq->capacity;
		sgs->max_capacity = max(sgs->max_capacity, cfs_rq->capacity);
		if (!bpf_cpumask_test_cpu(i, p->cpus_ptr))
			continue;
		allowed = true;
		sgs->group_load += cpu_load(cfs_rq, env->now);
		sgs->group_util += cpu_util_cfs(cfs_rq, env->now);
		sgs->group_runnable += cpu_runnable(cfs_rq, env->now);
		sgs->sum_h_nr_running += cfs_rq->nr_running;
		sgs->sum_nr_running += h_nr_queued(cfs_rq);
		sgs->idle_cpus += available_idle_cpu(cfs_rq);
	}
	sgs->group_type = group_classify(imbalance_pct, sgs, false, false);
	sgs->avg_load = sgs->group_load * SCHED_CAPACITY_SCALE / (sgs->group_capacity ?: 1);
	return allowed;
}

/* Is the group @sgs idler than the idlest so far? */
static __always_inline bool update_pick_idlest(const struct sg_lb_stats *idlest, const struct sg_lb_stats *sgs)
{
	if (sgs->group_type != idlest->group_type)
		return sgs->group_type < idlest->group_type;
	switch (sgs->group_type) {
	case GROUP_OVERLOADED:
	case GROUP_FULLY_BUSY:
		return sgs->avg_load < idlest->avg_load;
	case GROUP_HAS_SPARE:
		if (sgs->idle_cpus != idlest->idle_cpus)
			return sgs->idle_cpus > idlest->idle_cpus;
		return sgs->group_util < idlest->group_util;
	}
	return false;
}

/* Is the idlest group better than the one of this CPU by enough? */
static __always_inline bool worth_leaving(struct task_struct *p, const struct sg_lb_stats *local,
					  const struct sg_lb_stats *idlest, const struct sched_domain *sd)
{
	u64 imbalance = NICE_0_LOAD * (sd->imbalance_pct - 100) / 100;
	s64 difference;

	if (local->group_type != idlest->group_type)
		return local->group_type > idlest->group_type;

	switch (local->group_type) {
	case GROUP_OVERLOADED:
	case GROUP_FULLY_BUSY:
		if ((sd->flags & SD_NUMA) && idlest->avg_load + imbalance >= local->avg_load)
			return false;
		return idlest->avg_load < local->avg_load + imbalance &&
		       100 * local->avg_load > sd->imbalance_pct * idlest->avg_load;
	case GROUP_HAS_SPARE:
		/* Stay near the parent as long as the node has few tasks */
		if (sd->flags & SD_NUMA) {
			difference = (s64)local->idle_cpus - idlest->idle_cpus;
			if (!adjust_numa_imbalance(difference < 0 ? -difference : difference, local->sum_nr_running + 1,
						   min(sd->imb_numa_nr, p->nr_cpus_allowed)))
				return false;
		}
		return local->idle_cpus < idlest->idle_cpus;
	}
	return false;
}

/* The idlest group of a domain of @cpu, in env->busiest of @this_cpu. False if the task should stay in the group of @cpu. */
__noinline bool sched_balance_find_dst_group(struct task_struct *p __arg_trusted, s32 this_cpu, s32 cpu, u32 level)
{
	struct cfs_rq *env_rq = cfs_rq_of(this_cpu), *this_rq = cfs_rq_of(cpu);
	bool has_local = false, has_idlest = false;
	const struct sched_domain *sd;
	u32 step, first, count;
	struct lb_env *env;

	if (!env_rq || !this_rq || !is_within(level, LEVEL_SMT, NR_LEVELS))
		return false;
	env = &env_rq->env;
	sd = &this_rq->sd[level];
	/* In memory, for the kernel's verifier would follow every value of a local variable */
	env->group_first = this_rq->span[level].first;
	env->left = this_rq->span[level].count;

	bpf_for(step, 0, this_rq->span[level].count) {
		struct cfs_rq *group_rq;

		first = env->group_first;
		group_rq = cfs_rq_of(cpu_at(first));
		if (!env->left || !group_rq)
			break;
		count = group_rq->span[level - 1].count;
		if (update_sg_wakeup_stats(p, this_cpu, first, count, sd->imbalance_pct)) {
			if (first == this_rq->span[level - 1].first) {
				env->local = env->sgs;
				has_local = true;
			} else if (!has_idlest || update_pick_idlest(&env->busiest, &env->sgs)) {
				env->busiest = env->sgs;
				has_idlest = true;
			}
		}
		env->group_first = first + count;
		env->left -= min(count, env->left);
	}
	if (!has_idlest)
		return false;
	return !has_local || worth_leaving(p, &env->local, &env->busiest, sd);
}

/* The CPU of the group env->busiest of @this_cpu that was idle last, else the least loaded; @cpu if there is none. */
__noinline s32 sched_balance_find_dst_group_cpu(struct task_struct *p __arg_trusted, s32 this_cpu, s32 cpu, bool idle_policy)
{
	u64 latest_idle_timestamp = 0, min_load = ~0ULL, load;
	struct cfs_rq *env_rq = cfs_rq_of(this_cpu);
	s32 least_loaded_cpu = cpu, idle_cpu = -1;
	const struct sg_lb_stats *group;
	u32 position;
	u64 now;

	if (!env_rq)
		return cpu;
	group = &env_rq->env.busiest;
	now = env_rq->env.now;

	bpf_for(position, group->first, group->first + group->group_weight) {
		s32 i = cpu_at(position);
		struct cfs_rq *cfs_rq = cfs_rq_of(i);

		if (!cfs_rq || !cfs_rq->exists || !bpf_cpumask_test_cpu(i, p->cpus_ptr))
			continue;
		if (!idle_policy && sched_idle_rq(cfs_rq))
			return i;
		if (available_idle_cpu(cfs_rq)) {
			if (idle_cpu < 0 || cfs_rq->idle_stamp > latest_idle_timestamp) {
				latest_idle_timestamp = cfs_rq->idle_stamp;
				idle_cpu = i;
			}
		} else if (idle_cpu < 0) {
			load = cpu_load(cfs_rq, now);
			if (load < min_load) {
				min_load = load;
				least_loaded_cpu = i;
			}
		}
	}
	return idle_cpu >= 0 ? idle_cpu : least_loaded_cpu;
}

/* A new task goes to the idlest CPU of the idlest group, domain by domain inward; looked for by @this_cpu. */
__noinline s32 sched_balance_find_dst_cpu(struct task_struct *p __arg_trusted, s32 this_cpu, s32 cpu, bool idle_policy)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(this_cpu);
	u32 level, step;

	if (!cfs_rq)
		return cpu;
	cfs_rq->env.now = scx_bpf_now();
	bpf_for(step, 0, NR_LEVELS - 1) {
		level = NR_LEVELS - 1 - step;
		cfs_rq = cfs_rq_of(cpu);
		if (!cfs_rq)
			break;
		if (!is_within(level, LEVEL_SMT, NR_LEVELS) || !domain_exists(cfs_rq, level) ||
		    !(cfs_rq->sd[level].flags & SD_BALANCE_FORK))
			continue;
		if (sched_balance_find_dst_group(p, this_cpu, cpu, level))
			cpu = sched_balance_find_dst_group_cpu(p, this_cpu, cpu, idle_policy);
	}
	return cpu;
}

static __always_inline void record_wakee(struct sched_entity_data *waker, const struct task_struct *p, u64 now)
{
	if (now > waker->wakee_flip_decay + NSEC_PER_SEC) {
		waker->wakee_flips >>= 1;
		waker->wakee_flip_decay = now;
	}
	if (waker->last_wakee != p->pid) {
		waker->last_wakee = p->pid;
		waker->wakee_flips++;
	}
}

/* Do waker and woken task have so many partners that a cache is too small for all of them? */
static __always_inline bool wake_wide(const struct cfs_rq *this_rq, const struct sched_entity_data *waker,
				      const struct sched_entity_data *se)
{
	u32 master = waker->wakee_flips, slave = se->wakee_flips, factor = this_rq->span[LEVEL_MC].count;

	if (master < slave) {
		master = se->wakee_flips;
		slave = waker->wakee_flips;
	}
	return slave >= factor && master >= slave * factor;
}

static __always_inline bool cpus_share_cache(const struct cfs_rq *one, const struct cfs_rq *other)
{
	return one->span[LEVEL_MC].first == other->span[LEVEL_MC].first;
}

/* Shall a task that last ran on @prev_rq wake on the CPU of its waker? */
static __always_inline bool wake_affine(struct cfs_rq *this_rq, struct cfs_rq *prev_rq, const struct sched_entity_data *se,
					const struct sched_entity_data *waker, u32 imbalance_pct, bool sync, u64 now)
{
	u64 this_load, prev_load, current_load, task_load = task_h_load(se);

	/* An idle CPU that wakes someone is one that has been interrupted */
	if (available_idle_cpu(this_rq) && cpus_share_cache(this_rq, prev_rq))
		return !available_idle_cpu(prev_rq);
	if (sync && this_rq->nr_running == 1)
		return true;
	if (available_idle_cpu(prev_rq))
		return false;

	this_load = cpu_load(this_rq, now);
	if (sync && waker) {
		current_load = task_h_load(waker);
		if (current_load > this_load)
			return true;
		this_load -= current_load;
	}
	this_load = (this_load + task_load) * 100 * prev_rq->capacity;
	prev_load = cpu_load(prev_rq, now);
	prev_load = prev_load > task_load ? prev_load - task_load : 0;
	prev_load *= (100 + (imbalance_pct - 100) / 2) * this_rq->capacity;
	return this_load < prev_load + sync;
}

/* Does the task fit a CPU of this capacity, and is its core free? */
static __always_inline bool asym_fits_cpu(const struct sched_entity_data *se, const struct cfs_rq *cfs_rq)
{
	if (!asym_active)
		return true;
	return fits_capacity(task_util_est(se), cfs_rq->capacity) && (!smt_active || is_core_idle(cfs_rq));
}

/* With CPUs of different speeds: the first idle one that is fast enough, else the fastest idle one. */
__noinline s32 select_idle_capacity(struct task_struct *p __arg_trusted, s32 target)
{
	struct sched_entity_data *se = entity_of(p);
	struct cfs_rq *cfs_rq = cfs_rq_of(target);
	u32 first, count, start, step, position;
	u64 best_cap = 0;
	s32 best_cpu = -1;

	if (!cfs_rq || !se)
		return -1;
	first = cfs_rq->span[LEVEL_PKG].first;
	count = cfs_rq->span[LEVEL_PKG].count;
	start = cfs_rq->span[LEVEL_SELF].first - first;

	bpf_for(step, 0, count) {
		s32 i;

		position = start + step;
		i = cpu_at(first + (position < count ? position : position - count));
		cfs_rq = cfs_rq_of(i);
		if (!cfs_rq || !bpf_cpumask_test_cpu(i, p->cpus_ptr) || !choose_idle_cpu(cfs_rq, se->idle_policy))
			continue;
		if (asym_fits_cpu(se, cfs_rq))
			return i;
		if (cfs_rq->capacity > best_cap) {
			best_cap = cfs_rq->capacity;
			best_cpu = i;
		}
	}
	return best_cpu;
}

/* How far a CPU suits a task that looks for an idle one */
enum idle_match {
	NO_MATCH,
	/* It is allowed */
	ALLOWED_CPU,
	IDLE_CPU,
	/* With all its siblings */
	IDLE_CORE,
};

__noinline u32 match_idle_cpu(struct task_struct *p __arg_trusted, s32 cpu, bool idle_policy)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(cpu);

	if (!cfs_rq || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return NO_MATCH;
	if (!choose_idle_cpu(cfs_rq, idle_policy))
		return ALLOWED_CPU;
	return available_idle_cpu(cfs_rq) && is_core_idle(cfs_rq) ? IDLE_CORE : IDLE_CPU;
}

/* An idle CPU that shares the cache of @target: a whole idle core if there is said to be one, else the first of a few. */
__noinline s32 select_idle_cpu(struct task_struct *p __arg_trusted, s32 target, bool has_idle_core, bool idle_policy)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(target), *llc_rq;
	u32 first, count, start, step, position, nr;
	s32 idle_cpu = -1;

	if (!cfs_rq)
		return -1;
	llc_rq = llc_of(cfs_rq);
	if (!llc_rq)
		return -1;
	nr = llc_rq->nr_idle_scan + 1;
	if (nr == 1)
		return -1;
	first = cfs_rq->span[LEVEL_MC].first;
	count = cfs_rq->span[LEVEL_MC].count;
	start = cfs_rq->span[LEVEL_SELF].first - first + 1;

	bpf_for(step, 0, count) {
		s32 i;
		u32 match;

		position = start + step;
		i = cpu_at(first + (position < count ? position : position - count));
		match = match_idle_cpu(p, i, idle_policy);
		if (match == NO_MATCH)
			continue;
		if (!has_idle_core && !--nr)
			return -1;
		if (match == IDLE_CORE || (match == IDLE_CPU && !has_idle_core))
			return i;
		if (match == IDLE_CPU && idle_cpu < 0)
			idle_cpu = unlinked(i);
	}
	if (has_idle_core)
		llc_rq->has_idle_cores = false;
	return idle_cpu;
}

/* An idle thread of the core of @target. */
__noinline s32 select_idle_smt(struct task_struct *p __arg_trusted, s32 target, bool idle_policy)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(target), *sibling;
	u32 first, position;

	if (!cfs_rq)
		return -1;
	first = cfs_rq->span[LEVEL_SMT].first;
	bpf_for(position, first, first + cfs_rq->span[LEVEL_SMT].count) {
		s32 i = cpu_at(position);

		sibling = cfs_rq_of(i);
		if (sibling && i != target && bpf_cpumask_test_cpu(i, p->cpus_ptr) && choose_idle_cpu(sibling, idle_policy))
			return i;
	}
	return -1;
}

/* The CPU for a task that wakes: @target or an idle one close to it. */
static __always_inline s32 select_idle_sibling(struct task_struct *p, struct sched_entity_data *se, s32 prev, s32 target,
					       const struct task_struct *waker)
{
	struct cfs_rq *target_rq = cfs_rq_of(target), *prev_rq = cfs_rq_of(prev), *recent_rq, *llc_rq;
	bool idle_policy = se->idle_policy, has_idle_core = false;
	s32 recent_used_cpu, i;

	if (!target_rq || !prev_rq)
		return target;

	if (choose_idle_cpu(target_rq, idle_policy) && asym_fits_cpu(se, target_rq))
		return target;
	if (prev != target && cpus_share_cache(prev_rq, target_rq) && choose_idle_cpu(prev_rq, idle_policy) &&
	    asym_fits_cpu(se, prev_rq))
		return prev;

	/* A kernel thread of a CPU has finished work that the task queued there, and is about to sleep */
	if (kthread_is_per_cpu(waker) && !in_interrupt() && prev == (s32)bpf_get_smp_processor_id() &&
	    prev_rq->nr_running <= 1 && asym_fits_cpu(se, prev_rq))
		return prev;

	recent_used_cpu = se->recent_used_cpu - 1;
	se->recent_used_cpu = prev + 1;
	if (recent_used_cpu >= 0 && recent_used_cpu != prev && recent_used_cpu != target) {
		recent_rq = cfs_rq_of(recent_used_cpu);
		if (recent_rq && cpus_share_cache(recent_rq, target_rq) && choose_idle_cpu(recent_rq, idle_policy) &&
		    bpf_cpumask_test_cpu(recent_used_cpu, p->cpus_ptr) && asym_fits_cpu(se, recent_rq))
			return recent_used_cpu;
	}

	if (asym_active) {
		i = select_idle_capacity(p, target);
		return i >= 0 ? i : target;
	}
	if (smt_active) {
		llc_rq = llc_of(target_rq);
		has_idle_core = llc_rq && llc_rq->has_idle_cores;
		if (!has_idle_core && cpus_share_cache(prev_rq, target_rq)) {
			i = select_idle_smt(p, prev, idle_policy);
			if (i >= 0)
				return i;
		}
	}
	i = select_idle_cpu(p, target, has_idle_core, idle_policy);
	return i >= 0 ? i : target;
}

s32 BPF_STRUCT_OPS(eevdf_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task_struct *current = bpf_get_current_task_btf();
	s32 this_cpu = bpf_get_smp_processor_id(), cpu = prev_cpu, new_cpu;
	struct sched_entity_data *se = entity_of(p), *waker;
	struct cfs_rq *this_rq, *prev_rq;
	u64 now = scx_bpf_now();
	u32 level, prev_position;
	bool sync;

	if (nr_cpus == 1 || !se)
		return prev_cpu;
	this_rq = cfs_rq_of(this_cpu);
	prev_rq = cfs_rq_of(prev_cpu);
	if (!this_rq || !prev_rq)
		return prev_cpu;
	if (wake_flags & SCX_WAKE_FORK) {
		se->idle_policy = p->policy == SCHED_IDLE;
		return sched_balance_find_dst_cpu(p, this_cpu, prev_cpu, se->idle_policy);
	}

	/* The kernel has it in the tree still: it wakes there */
	waker = entity_of(current);
	if (waker)
		record_wakee(waker, p, now);
	if (se->delayed_cpu == prev_cpu + 1)
		return prev_cpu;

	sync = (wake_flags & SCX_WAKE_SYNC) && !(current->flags & PF_EXITING);
	se->wake_sync = wake_flags & SCX_WAKE_SYNC;
	update_load_avg(se, now, false, 0);

	if (this_cpu != prev_cpu && bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr) && !(waker && wake_wide(this_rq, waker, se))) {
		/* The lowest domain that spans both CPUs */
		prev_position = prev_rq->span[LEVEL_SELF].first;
		for (level = LEVEL_SMT; level < NR_LEVELS; level++) {
			const struct topology_span *span = &this_rq->span[level];

			if (prev_position < span->first || prev_position >= span->first + span->count)
				continue;
			if ((this_rq->sd[level].flags & SD_WAKE_AFFINE) &&
			    wake_affine(this_rq, prev_rq, se, waker, this_rq->sd[level].imbalance_pct, sync, now)) {
				cpu = this_cpu;
				count(AFFINE_WAKEUPS);
			}
			break;
		}
	}
	new_cpu = select_idle_sibling(p, se, prev_cpu, cpu, current);
	if (new_cpu != cpu)
		count(IDLE_WAKEUPS);
	return new_cpu;
}

/*
 * Queueing
 */

/* Reads what @p is now: weight, slice, policy. */
static __always_inline void read_attributes(struct sched_entity_data *se, const struct task_struct *p)
{
	u32 weight = task_weight(p);

	rescale_entity(se, weight);
	se->weight = weight;
	se->slice = task_slice(p);
	se->custom_slice = se->slice != base_slice;
	se->idle_policy = p->policy == SCHED_IDLE;
}

/* A task that wakes, is new, has been changed or comes from another CPU begins to compete on @cfs_rq. */
static __always_inline void join(struct cfs_rq *cfs_rq, struct sched_entity_data *se, struct task_struct *p, bool initial,
				 u64 now)
{
	u64 avruntime;
	s64 vlag;

	if (se->delayed_cpu) {
		if (se->delayed_cpu == cfs_rq->cpu + 1 && se->weight == task_weight(p)) {
			/* It never left: if its lag may stay as it is, so do virtual runtime and deadline */
			count(DELAYED_WAKEUPS);
			avruntime = avg_vruntime(cfs_rq, now);
			vlag = delayed_lag(cfs_rq, se, now);
			cancel_delayed(se, now);
			se->vlag = vlag;
			if (avruntime - vlag == se->vruntime)
				return;
		} else {
			cancel_delayed(se, now);
		}
	}
	read_attributes(se, p);
	place_entity(cfs_rq, se, h_nr_queued(cfs_rq), initial, now);
}

void BPF_STRUCT_OPS(eevdf_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct sched_entity_data *se = entity_of(p);
	bool wakeup = enq_flags & SCX_ENQ_WAKEUP;
	s32 task_cpu = scx_bpf_task_cpu(p), cpu = task_cpu;
	bool put_prev, new_task, changing, resched, eligible;
	struct virtual_time time = {};
	u64 now = scx_bpf_now();
	struct cfs_rq *cfs_rq;

	if (!se)
		return;

	new_task = se->new_task;
	changing = se->changing;
	se->new_task = false;
	se->changing = false;
	se->was_running = false;

	if (se->push_cpu) {
		/* Active balancing has taken the task, which has just been put, off this CPU and sends it to another */
		if (!wakeup && task_allowed(p, se->push_cpu - 1)) {
			cpu = se->push_cpu - 1;
			count(PUSHED_ACTIVE);
		}
		se->push_cpu = 0;
	} else if (changing && se->vruntime_cpu && task_allowed(p, se->vruntime_cpu - 1)) {
		/* The balancer may have moved the task to a queue that has not run it yet: it stays there */
		cpu = se->vruntime_cpu - 1;
	}
	cfs_rq = cfs_rq_of(cpu);
	if (!cfs_rq)
		return;

	/* The running task has been put: the CPU has its next task already */
	put_prev = se->on_rq == cpu + 1 && !wakeup && !(enq_flags & SCX_ENQ_LAST);

	resched = update_curr(cfs_rq, now);
	tree_del(se);
	if (!se->on_rq) {
		join(cfs_rq, se, p, new_task, now);
		if (new_task)
			post_init_entity_util_avg(cfs_rq, se, now);
		else
			update_load_avg(se, now, false, 0);
	}
	account_entity_enqueue(cfs_rq, se, now);
	attach_entity_load_avg(cfs_rq, se);
	tree_add(cfs_rq, se);
	se->wait_start = now;

	if (new_task)
		count(FORKS);
	else if (wakeup)
		count(WAKEUPS);

	virtual_time_of(cfs_rq, &time, now);
	eligible = vruntime_eligible(&time, se->vruntime);
	scx_bpf_dsq_insert_vtime(p, eligible ? eligible_dsq(cpu) : ineligible_dsq(cpu), SCX_SLICE_DFL,
				 eligible ? se->deadline : se->vruntime, enq_flags);

	if (put_prev)
		return;
	if (!cfs_rq->curr) {
		/* The kernel itself wakes an idle CPU for a task that wakes on it */
		if (!wakeup || cpu != task_cpu)
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	if (cpu != task_cpu) {
		kick_for_pulled(cpu);
		return;
	}

	if (wakeup_preempt(cfs_rq, p, se, new_task, now)) {
		count(WAKEUP_PREEMPTIONS);
		resched_curr(cfs_rq);
	} else if (resched) {
		resched_curr(cfs_rq);
	} else {
		shorten_slice(cfs_rq, now);
	}
}

void BPF_STRUCT_OPS(eevdf_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct sched_entity_data *se = entity_of(p);
	bool sleep = deq_flags & SCX_DEQ_SLEEP, delay;
	struct cfs_rq *cfs_rq;
	u64 now = scx_bpf_now();

	if (!se)
		return;
	se->changing = !sleep;
	se->old_weight = se->weight;

	cfs_rq = cfs_rq_of(se->vruntime_cpu - 1);
	if (!cfs_rq) {
		account_entity_dequeue(se, now);
		return;
	}
	clear_buddies(cfs_rq, p->pid);

	if (se->in_tree) {
		/* It waited */
		save_lag(cfs_rq, se, sleep, now);
		tree_del(se);
		update_load_avg(se, now, true, 0);
	} else if (place_rel_deadline && !sleep && !se->rel_deadline) {
		/* It ran: stopping() has saved its lag */
		se->deadline -= se->vruntime;
		se->rel_deadline = true;
	}

	delay = delay_dequeue && sleep && se->was_running && !se->was_eligible && !(p->__state & SPECIAL_STATES) &&
		!(p->flags & PF_EXITING);
	se->was_running = false;
	if (sleep)
		util_est_update(se);
	account_entity_dequeue(se, now);

	if (delay && set_delayed(cfs_rq, se, p->pid))
		count(DELAYED_DEQUEUES);
}

bool BPF_STRUCT_OPS(eevdf_yield, struct task_struct *from, struct task_struct *to)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(scx_bpf_task_cpu(from));
	u64 now = scx_bpf_now();

	if (to || !cfs_rq || !cfs_rq->curr || h_nr_queued(cfs_rq) == 1)
		return false;

	count(YIELDS);
	clear_buddies(cfs_rq, from->pid);
	update_curr(cfs_rq, now);
	if (yield_rule == AS_IN_6_6) {
		cfs_rq->curr_deadline += calc_delta_fair(cfs_rq->curr_slice, cfs_rq->curr_weight);
		cancel_protect_slice(cfs_rq);
	} else if (curr_eligible(cfs_rq, now)) {
		/* The rest of the request is forfeited */
		cfs_rq->curr_vruntime = cfs_rq->curr_deadline;
		cfs_rq->curr_deadline += calc_delta_fair(cfs_rq->curr_slice, cfs_rq->curr_weight);
	}
	/* schedule() follows, and picks */
	cfs_rq->need_resched = true;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/*
 * Running
 */

void BPF_STRUCT_OPS(eevdf_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(cpu);
	bool prev_runs = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	bool resched = false, balanced = false;
	struct sched_entity_data *se;
	u64 now = scx_bpf_now();
	s32 pick, push_cpu;

	if (!cfs_rq)
		return;

	if (prev_runs) {
		resched = update_curr(cfs_rq, now);
		if (asym_active) {
			se = entity_of(prev);
			if (se) {
				update_load_avg(se, now, true, cfs_rq->capacity);
				update_misfit_status(cfs_rq, prev, se);
			}
		}
	}

	if (nr_cpus > 1) {
		update_cfs_rq_load_avg(cfs_rq, now);
		/* Active balancing: one task to the CPU that asked for it, first of the waiting ones */
		push_cpu = cfs_rq->push_cpu - 1;
		cfs_rq->push_cpu = 0;
		if (push_cpu >= 0 && !push_waiting(cpu, push_cpu) && prev && prev_runs && push_running(prev, cpu, push_cpu))
			prev_runs = false;
		if (jiffies_at(now) >= cfs_rq->next_balance) {
			balanced = !cfs_rq->nr_running;
			sched_balance_domains(cpu, balanced ? CPU_IDLE : CPU_NOT_IDLE);
		}
	}

	if (!time_before(now, cfs_rq->rescue_at)) {
		cfs_rq->rescue_at = now + RESCUE_INTERVAL;
		if (rescue_starved(cpu))
			return;
	}

	if (prev_runs) {
		if (resched && !cfs_rq->need_resched)
			count(TICK_PREEMPTIONS);
		if (resched || cfs_rq->need_resched) {
			cfs_rq->need_resched = false;
			pick = pick_next_entity(cpu);
			if (pick == PICK_MOVED)
				return;
		}
		/* It goes on, with the protection it had */
		set_slice(cfs_rq, prev, now);
		return;
	}

	if (pick_next_entity(cpu) == PICK_MOVED)
		return;
	/* Of an empty queue all sums are zero */
	if (!h_nr_queued(cfs_rq) && (cfs_rq->sum_weight || cfs_rq->sum_w_vruntime))
		count(UNEVEN_SUMS);
	if (nr_cpus > 1 && !balanced) {
		sched_balance_newidle(cpu);
		if (cfs_rq->nr_running)
			pick_next_entity(cpu);
	}
}

void BPF_STRUCT_OPS(eevdf_running, struct task_struct *p)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(scx_bpf_task_cpu(p)), *old_rq;
	struct sched_entity_data *se = entity_of(p);
	u64 now = scx_bpf_now();
	bool changing;

	if (!cfs_rq || !se)
		return;

	tree_del(se);
	changing = se->changing;
	if (!se->on_rq) {
		/* A running task whose attribute has been changed comes here without having been enqueued */
		join(cfs_rq, se, p, false, now);
	} else if (se->vruntime_cpu != cfs_rq->cpu + 1) {
		/* It was moved while another CPU moved it */
		old_rq = cfs_rq_of(se->vruntime_cpu - 1);
		if (old_rq)
			save_lag(old_rq, se, false, now);
		place_entity(cfs_rq, se, h_nr_queued(cfs_rq) - (se->on_rq == cfs_rq->cpu + 1), false, now);
	}
	account_entity_enqueue(cfs_rq, se, now);
	attach_entity_load_avg(cfs_rq, se);
	update_load_avg(se, now, true, 0);
	update_cfs_rq_load_avg(cfs_rq, now);

	cfs_rq->curr = true;
	cfs_rq->idle = false;
	cfs_rq->curr_pid = p->pid;
	cfs_rq->curr_weight = se->weight;
	cfs_rq->curr_vruntime = se->vruntime;
	cfs_rq->curr_deadline = se->deadline;
	cfs_rq->curr_slice = se->slice;
	cfs_rq->curr_custom = se->custom_slice;
	cfs_rq->curr_idle_policy = se->idle_policy;
	cfs_rq->exec_start = now;
	cfs_rq->need_resched = false;
	clear_buddies(cfs_rq, p->pid);
	se->push_cpu = 0;
	se->changing = false;
	se->was_running = false;
	update_misfit_status(cfs_rq, p, se);

	if (changing)
		cfs_rq->vprot = se->vprot;
	else
		set_protect_slice(cfs_rq);
	set_slice(cfs_rq, p, now);
	/* Worse than it was, it may not be the one to run any more */
	if (changing && se->weight < se->old_weight && h_nr_queued(cfs_rq) > 1)
		resched_curr(cfs_rq);
}

void BPF_STRUCT_OPS(eevdf_stopping, struct task_struct *p, bool runnable)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(scx_bpf_task_cpu(p));
	struct sched_entity_data *se = entity_of(p);
	u64 now = scx_bpf_now();

	if (!cfs_rq || !se || !cfs_rq->curr)
		return;

	if (!runnable) {
		update_curr(cfs_rq, now);
		se->was_running = true;
		se->was_eligible = curr_eligible(cfs_rq, now);
	}
	put_prev_entity(cfs_rq, se, !runnable, now);
	/* Preempted by a real-time task it is put back too, not kept in front by the kernel */
	if (runnable)
		scx_bpf_task_set_slice(p, 0);
}

/*
 * Tasks and the machine
 */

s32 BPF_STRUCT_OPS_SLEEPABLE(eevdf_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct sched_entity_data *se = bpf_task_storage_get(&sched_entities, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!se)
		return -ENOMEM;
	se->new_task = args->fork;
	return 0;
}

void BPF_STRUCT_OPS(eevdf_enable, struct task_struct *p)
{
	struct sched_entity_data *se = entity_of(p);

	if (!se)
		return;
	/* Before it runs, so that other CPUs read a weight */
	read_attributes(se, p);
	se->pelt_last = scx_bpf_now();
}

/* The task ends, or leaves for another class, asleep maybe. */
void BPF_STRUCT_OPS(eevdf_disable, struct task_struct *p)
{
	struct sched_entity_data *se = entity_of(p);

	if (!se)
		return;
	if (se->delayed_cpu)
		cancel_delayed(se, scx_bpf_now());
	attach_entity_load_avg(NULL, se);
}

void BPF_STRUCT_OPS(eevdf_update_idle, s32 cpu, bool idle)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(cpu), *llc_rq;
	u64 now = scx_bpf_now();

	if (!cfs_rq)
		return;
	cfs_rq->idle = idle;
	if (!idle) {
		/* Average time from running out of work to having some */
		cfs_rq->avg_idle += ((s64)(now - cfs_rq->idle_stamp) - (s64)cfs_rq->avg_idle) >> 3;
		cfs_rq->avg_idle = min(cfs_rq->avg_idle, 2 * sched_migration_cost);
		return;
	}
	cfs_rq->idle_stamp = now;
	llc_rq = llc_of(cfs_rq);
	if (smt_active && llc_rq && !llc_rq->has_idle_cores && is_core_idle(cfs_rq))
		llc_rq->has_idle_cores = true;
}

/* Can idle CPUs' balancing find anything? Two tasks on a CPU, two busy threads of a core, or of a cache if there are more caches. */
static __always_inline bool worth_balancing(void)
{
	u32 position, core = ~0U, llc = ~0U;

	if (nr_overloaded)
		return true;
	if (topology_nr_cores >= topology_nr_cpus && topology_nr_llcs <= 1)
		return false;

	bpf_for(position, 0, nr_cpus) {
		struct cfs_rq *cfs_rq = cfs_rq_of(cpu_at(position));

		if (!cfs_rq || !cfs_rq->nr_running)
			continue;
		if (cfs_rq->span[LEVEL_SMT].first == core)
			return true;
		if (topology_nr_llcs > 1 && cfs_rq->span[LEVEL_MC].first == llc)
			return true;
		core = cfs_rq->span[LEVEL_SMT].first;
		llc = cfs_rq->span[LEVEL_MC].first;
	}
	return false;
}

/* The tick of the idle CPUs, which get none from the kernel: wakes those that are due to balance. */
static int idle_balance_tick(void *map, int *key, struct idle_tick *tick)
{
	u64 jiffies = jiffies_at(scx_bpf_now());
	s32 cpu;

	if (worth_balancing()) {
		bpf_for(cpu, 0, nr_cpus) {
			struct cfs_rq *cfs_rq = cfs_rq_of(cpu);

			if (cfs_rq && cfs_rq->exists && !cfs_rq->nr_running && jiffies >= cfs_rq->next_balance)
				scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		}
	}
	bpf_timer_start(&tick->timer, tick_nsec, 0);
	return 0;
}

/* 1 + floor(log2(number of CPUs)), where eight count as many. */
static __always_inline u32 get_update_sysctl_factor(u32 cpus)
{
	cpus = min(cpus, 8);
	switch (sched_tunable_scaling) {
	case SCALING_NONE:
		return 1;
	case SCALING_LINEAR:
		return cpus;
	}
	return scale_factor(cpus);
}

/* Sets the spans of a CPU's domains. Caches that reach beyond a node count as the node's. */
static __always_inline void init_spans(struct cfs_rq *cfs_rq, s32 cpu)
{
	const volatile struct cpu_topology *place = topology_of(cpu);
	struct topology_span *span = cfs_rq->span;

	/* Without a known topology: one cache that all share */
	span[LEVEL_SELF].first = place ? place->position : cpu;
	span[LEVEL_SELF].count = 1;
	span[LEVEL_SMT] = span[LEVEL_SELF];
	span[LEVEL_NUMA].first = 0;
	span[LEVEL_NUMA].count = nr_cpus;
	span[LEVEL_PKG] = span[LEVEL_NUMA];
	span[LEVEL_MC] = span[LEVEL_NUMA];

	if (place) {
		span[LEVEL_SMT].first = place->core_cpus.first;
		span[LEVEL_SMT].count = place->core_cpus.count;
		span[LEVEL_PKG].first = place->node_cpus.first;
		span[LEVEL_PKG].count = place->node_cpus.count;
		span[LEVEL_MC] = span[LEVEL_PKG];
		if (place->llc_cpus.count <= place->node_cpus.count) {
			span[LEVEL_MC].first = place->llc_cpus.first;
			span[LEVEL_MC].count = place->llc_cpus.count;
		}
	}
}

/* Are there CPUs of different capacity in the span? */
__noinline bool has_asym_capacity(u32 first, u32 number)
{
	u64 low = ~0ULL, high = 0;
	u32 position;

	bpf_for(position, first, first + number) {
		const volatile struct cpu_topology *place = topology_of(cpu_at(position));

		if (place && place->capacity) {
			low = min(low, place->capacity);
			high = max(high, place->capacity);
		}
	}
	return low < high;
}

/* Parameters of the domain of a level: sd_init() of kernel/sched/topology.c. */
__noinline int sd_init(s32 cpu, u32 level)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(cpu);
	struct sched_domain *sd;
	u32 weight, nr_llcs, node, other;
	u64 now = scx_bpf_now();

	if (!cfs_rq || !is_within(level, LEVEL_SMT, NR_LEVELS))
		return 0;
	sd = &cfs_rq->sd[level];
	weight = cfs_rq->span[level].count;

	sd->min_interval = weight;
	sd->max_interval = 2 * weight;
	sd->balance_interval = weight;
	sd->imbalance_pct = 117;
	sd->cache_nice_tries = 1;
	sd->flags = SD_BALANCE_NEWIDLE | SD_BALANCE_FORK | SD_WAKE_AFFINE | SD_PREFER_SIBLING;
	if (level <= LEVEL_MC)
		sd->flags |= SD_SHARE_LLC;
	if (level == LEVEL_SMT) {
		sd->flags |= SD_SHARE_CPUCAPACITY;
		sd->imbalance_pct = 110;
		sd->cache_nice_tries = 0;
	}
	if (asym_active && has_asym_capacity(cfs_rq->span[level].first, weight)) {
		sd->flags |= SD_ASYM_CPUCAPACITY;
		cfs_rq->sd[level - 1].flags &= ~SD_PREFER_SIBLING;
	}

	if (level == LEVEL_NUMA && topology_nr_nodes > 1) {
		sd->cache_nice_tries = 2;
		sd->flags &= ~SD_PREFER_SIBLING;
		sd->flags |= SD_NUMA | SD_SERIALIZE;
		bpf_for(node, 0, topology_nr_nodes) {
			bpf_for(other, 0, topology_nr_nodes) {
				if (topology_distance(node, other) > NODE_RECLAIM_DISTANCE)
					sd->flags &= ~(SD_BALANCE_FORK | SD_WAKE_AFFINE);
			}
		}
		/* An eighth of a node with one cache, or a task for each cache */
		nr_llcs = cfs_rq->span[LEVEL_PKG].count / (cfs_rq->span[LEVEL_MC].count ?: 1);
		sd->imb_numa_nr = max(1, nr_llcs == 1 ? cfs_rq->span[LEVEL_PKG].count >> 3 : nr_llcs);
	}

	sd->last_balance = jiffies_at(now);
	/* Half of the attempts are taken to succeed */
	sd->newidle_call = 512;
	sd->newidle_success = 256;
	sd->newidle_ratio = 512;
	sd->newidle_stamp = now;
	sd->last_decay_max_lb_cost = now;
	return 0;
}

/* Prepares the run queue of a CPU. */
__noinline int init_rq(s32 cpu)
{
	const volatile struct cpu_topology *place = topology_of(cpu);
	struct cfs_rq *cfs_rq = cfs_rq_of(cpu);
	u64 now = scx_bpf_now();
	u32 level;

	if (!cfs_rq)
		return 0;
	cfs_rq->exists = !place || place->capacity;
	cfs_rq->capacity = place ? place->capacity : SCHED_CAPACITY_SCALE;
	nr_online += cfs_rq->exists;

	cfs_rq->cpu = cpu;
	/* Until it is known to be busy */
	cfs_rq->idle = true;
	cfs_rq->avg_idle = 2 * sched_migration_cost;
	/* As in the original, so that virtual times wrap around soon and always have */
	cfs_rq->zero_vruntime = -(1ULL << 20);
	cfs_rq->pelt_last = now;
	cfs_rq->rescue_at = now + RESCUE_INTERVAL;
	cfs_rq->next_balance = jiffies_at(now);
	init_spans(cfs_rq, cpu);
	cfs_rq->nr_idle_scan = cfs_rq->span[LEVEL_MC].count;
	cfs_rq->has_idle_cores = smt_active;
	bpf_for(level, LEVEL_SMT, NR_LEVELS)
		sd_init(cpu, level);
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(eevdf_init)
{
	u32 key = 0;
	struct idle_tick *tick;
	s32 cpu, err;

	nr_cpus = topology_nr_cpus ?: scx_bpf_nr_cpu_ids();
	tick_nsec = tick_length(hz ?: DEFAULT_HZ);
	smt_active = topology_nr_cores < topology_nr_cpus;
	asym_active = topology_nr_cpus && has_asym_capacity(0, topology_nr_cpus);

	bpf_for(cpu, 0, nr_cpus) {
		err = scx_bpf_create_dsq(eligible_dsq(cpu), NUMA_NO_NODE);
		if (!err)
			err = scx_bpf_create_dsq(ineligible_dsq(cpu), NUMA_NO_NODE);
		if (err)
			return err;
		init_rq(cpu);
	}

	base_slice = sched_base_slice * get_update_sysctl_factor(nr_online);
	max_load_balance_interval = max(NSEC_PER_SEC * nr_online / 10 / (tick_nsec ?: 1), 1);

	if (nr_cpus == 1)
		return 0;

	tick = bpf_map_lookup_elem(&idle_tick, &key);
	if (!tick)
		return -ENOENT;
	err = bpf_timer_init(&tick->timer, &idle_tick, CLOCK_MONOTONIC);
	if (!err)
		err = bpf_timer_set_callback(&tick->timer, idle_balance_tick);
	if (!err)
		err = bpf_timer_start(&tick->timer, tick_nsec, 0);
	return err;
}

DEFINE_SCHEDULER(eevdf,
		 .select_cpu = (void *)eevdf_select_cpu,
		 .enqueue = (void *)eevdf_enqueue,
		 .dispatch = (void *)eevdf_dispatch,
		 .running = (void *)eevdf_running,
		 .stopping = (void *)eevdf_stopping,
		 .quiescent = (void *)eevdf_quiescent,
		 .yield = (void *)eevdf_yield,
		 .update_idle = (void *)eevdf_update_idle,
		 .init_task = (void *)eevdf_init_task,
		 .enable = (void *)eevdf_enable,
		 .disable = (void *)eevdf_disable,
		 .init = (void *)eevdf_init,
		 /* A task that nothing else displaces is put back only to be pushed to another CPU */
		 .flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
		 .timeout_ms = 30000,
		 .name = "eevdf");
