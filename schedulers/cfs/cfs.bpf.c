// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * cfs - the Completely Fair Scheduler of Linux 2.6.24
 *
 * Every task has a virtual runtime: the time it ran, divided by its weight. Each CPU keeps its waiting tasks ordered by
 * it and runs the leftmost. There are no time slices in the old sense; a task may run for its share of a period in which
 * every task of the CPU shall run once, and the timer tick looks whether it has. Between CPUs, load means the sum of
 * weights, and a balancer evens it out level by level of the machine.
 *
 * Names are those of kernel/sched.c and kernel/sched_fair.c of that release. The red-black tree of a CPU is a dispatch
 * queue ordered by virtual time whose number is the CPU's; the running task is not in it.
 */
#include "fairground.bpf.h"
#include "topology.h"
#include "virtual_runtime.h"

/* Tunables; scheduler.toml explains them */

const volatile u32 hz = 250;
const volatile u64 sched_latency = 20 * NSEC_PER_MSEC;
const volatile u64 sched_min_granularity = 4 * NSEC_PER_MSEC;
const volatile u64 sched_wakeup_granularity = 10 * NSEC_PER_MSEC;
const volatile bool sched_tunable_scaling = true;
const volatile bool sched_child_runs_first = true;
const volatile bool sched_compat_yield = false;
const volatile bool new_fair_sleepers = true;
const volatile bool wakeup_preempt = true;
const volatile bool start_debit = true;
const volatile u32 sched_idle_weight = 2;
const volatile u64 sched_migration_cost = 500 * NSEC_PER_USEC;
const volatile u32 sched_nr_migrate = 32;
const volatile u32 balance_rule = 0;
const volatile u32 balance_fuzz = 1024;
const volatile u64 starvation_limit = 15 * NSEC_PER_SEC;

/* Values of balance_rule: which kernel's way of sizing and filtering what the balancer moves */
#define BALANCE_2_6_24 0
#define BALANCE_3_0 1

/* Counters, in the order of scheduler.toml */
enum statistic {
	WAKEUPS,
	FORKS,
	WAKEUP_PREEMPTIONS,
	TICK_PREEMPTIONS,
	YIELDS,
	AFFINE_WAKEUPS,
	IDLE_WAKEUPS,
	BALANCES,
	PULLED_BUSY,
	PULLED_IDLE,
	PULLED_NEWLY_IDLE,
	PUSHED_ACTIVE,
	RESCUES,
	NR_STATISTICS,
};

DEFINE_STATISTICS(NR_STATISTICS);

#define NICE_0_LOAD NICE_0_WEIGHT
#define SCHED_LOAD_SCALE 1024ULL

/* sysctl limits of the scaled latency and of the backoff when all tasks are pinned (milliseconds) */
#define LATENCY_LIMIT (200 * NSEC_PER_MSEC)
#define MAX_PINNED_INTERVAL 512

/* The ticks of a kernel that leaves the rate to the running kernel (hz = 0) still need a length for the balancer */
#define DEFAULT_HZ 250

/* A task that nothing limits looks around at least this often */
#define MAX_RUN NSEC_PER_SEC

/* How often a CPU looks for a task that has waited for starvation_limit */
#define RESCUE_INTERVAL (250 * NSEC_PER_MSEC)

/* After so many ticks even the slowest load average has settled to the last unit */
#define LOAD_SETTLED 64

/* Load averages kept; domains use source_load() and target_load() of types 0 to 3 */
#define CPU_LOAD_IDX_MAX 3

/* CPUs whose tasks are all pinned that one balancing attempt steps over before it gives up */
#define MAX_PINNED_CPUS 8

/* Levels of the machine, innermost first; the domain of level l has as its groups the spans of level l - 1 */
enum level {
	LEVEL_SELF,
	LEVEL_SMT,
	LEVEL_MC,
	LEVEL_CPU,
	LEVEL_NODE,
	NR_LEVELS,
};

enum balance_idleness {
	CPU_IDLE,
	CPU_NOT_IDLE,
	CPU_NEWLY_IDLE,
};

#define SD_BALANCE_NEWIDLE 1
#define SD_BALANCE_FORK 2
#define SD_WAKE_AFFINE 4
#define SD_WAKE_IDLE 8
#define SD_WAKE_BALANCE 16
#define SD_SHARE_CPUPOWER 32
#define SD_SERIALIZE 64

/* include/linux/topology.h and the x86-64 node values; intervals in milliseconds */
struct domain_parameters {
	u32 min_interval;
	u32 max_interval;
	u32 busy_factor;
	u32 imbalance_pct;
	u32 cache_nice_tries;
	u32 busy_idx;
	u32 idle_idx;
	u32 newidle_idx;
	u32 wake_idx;
	u32 forkexec_idx;
	u32 flags;
};

static const struct domain_parameters domain_parameters[NR_LEVELS] = {
	[LEVEL_SMT] = {
		.min_interval = 1, .max_interval = 2, .busy_factor = 64, .imbalance_pct = 110,
		.cache_nice_tries = 0,
		.busy_idx = 0, .idle_idx = 0, .newidle_idx = 0, .wake_idx = 0, .forkexec_idx = 0,
		.flags = SD_BALANCE_NEWIDLE | SD_WAKE_AFFINE | SD_WAKE_IDLE | SD_SHARE_CPUPOWER,
	},
	[LEVEL_MC] = {
		.min_interval = 1, .max_interval = 4, .busy_factor = 64, .imbalance_pct = 125,
		.cache_nice_tries = 1,
		.busy_idx = 2, .idle_idx = 0, .newidle_idx = 0, .wake_idx = 1, .forkexec_idx = 1,
		.flags = SD_BALANCE_NEWIDLE | SD_WAKE_AFFINE | SD_WAKE_IDLE,
	},
	[LEVEL_CPU] = {
		.min_interval = 1, .max_interval = 4, .busy_factor = 64, .imbalance_pct = 125,
		.cache_nice_tries = 1,
		.busy_idx = 2, .idle_idx = 1, .newidle_idx = 2, .wake_idx = 1, .forkexec_idx = 1,
		.flags = SD_BALANCE_NEWIDLE | SD_WAKE_AFFINE,
	},
	[LEVEL_NODE] = {
		.min_interval = 8, .max_interval = 32, .busy_factor = 32, .imbalance_pct = 125,
		.cache_nice_tries = 2,
		.busy_idx = 3, .idle_idx = 2, .newidle_idx = 0, .wake_idx = 1, .forkexec_idx = 1,
		.flags = SD_BALANCE_FORK | SD_WAKE_BALANCE | SD_SERIALIZE,
	},
};

/* What a CPU remembers of its balancing at one level; times in ticks of the era, the interval in milliseconds */
struct sched_domain {
	u64 last_balance;
	u32 balance_interval;
	u32 nr_balance_failed;
};

/* One look of a CPU at one of its domains */
struct balance_attempt {
	u64 now;
	u32 level;
	u32 idle;
	/* False if another CPU of this one's group balances this level and those above */
	bool balance;
	/* All CPUs of the domain are idle, and that matters */
	bool sd_idle;
	/* CPUs that have been found to hold pinned tasks only, and are left out */
	u32 nr_pinned;
	s32 pinned[MAX_PINNED_CPUS];

	/* The walk over the groups of the domain: where the next one begins, and how many CPUs are left */
	u32 group_first;
	u32 left;

	/* The group that was looked at last: its first CPU and first idle CPU, or -1, and sums */
	s32 first_cpu;
	s32 first_idle_cpu;
	u64 avg_load;
	u64 max_cpu_load;
	u64 min_cpu_load;
	u64 sum_nr_running;
	u64 sum_weighted_load;

	/* The domain, this CPU's group (this_), and the busiest of the others (busiest_, max_load) */
	u64 total_load;
	u64 total_power;
	u64 this_load;
	u64 this_power;
	u64 this_nr_running;
	u64 this_load_per_task;
	u64 max_load;
	u64 busiest_power;
	u64 busiest_nr_running;
	u64 busiest_load_per_task;
	u32 busiest_first;
	u32 busiest_count;
	bool group_imb;

	/* Load to move */
	u64 imbalance;
	bool all_pinned;
};

/* Run queue of a CPU. Sums include the running task. */
struct cfs_rq {
	/* Sum of the weights and number of the runnable tasks; changed atomically, other CPUs may move tasks */
	u64 load_weight;
	u32 nr_running;
	s32 cpu;
	/* Numbers of CPUs may have gaps */
	bool exists;
	/* Averages of load_weight over ticks, and the clock of the next tick that will update them */
	u64 cpu_load[CPU_LOAD_IDX_MAX];
	u64 next_load_tick;
	/* Smallest virtual runtime of the CPU, never goes back */
	u64 min_vruntime;

	/* The running task, if there is one */
	bool curr;
	/* The task that runs shall be put back and the leftmost be picked */
	bool need_resched;
	s32 curr_pid;
	s32 curr_prio;
	u32 curr_weight;
	u64 curr_vruntime;
	/* Clock up to which curr_vruntime is right */
	u64 exec_start;
	/* Time it ran since it was picked: sum_exec_runtime - prev_sum_exec_runtime */
	u64 slice_exec;
	/* Clock at which the kernel's slice, as set, ends */
	u64 slice_end;

	/* Clock of the next look for starved tasks */
	u64 rescue_at;

	/* Balancing: when due (tick), and the CPU that a push has been asked for plus one, or 0 */
	u64 next_balance;
	s32 push_cpu;
	struct topology_span span[NR_LEVELS];
	struct sched_domain sd[NR_LEVELS];
	struct balance_attempt attempt;
};

DEFINE_PER_CPU(struct cfs_rq, cfs_rq);

/* What the scheduler keeps of a task. Its virtual runtime is p->scx.dsq_vtime. */
struct cfs_entity {
	/* CPU whose sums hold the task plus one, or 0 if it is not runnable; changed atomically */
	s32 on_rq;
	/* CPU to whose min_vruntime the virtual runtime relates plus one, or 0 for none yet */
	s32 vruntime_cpu;
	u32 weight;
	u32 old_weight;
	/* CPU onto which active balancing pushes the task plus one, or 0 */
	s32 push_cpu;
	/* Forked and not yet placed */
	bool new_task;
	/* Taken off the queue only to change an attribute */
	bool changing;
	/* Clock when it last ran, and what it had run since picked if it goes on */
	u64 exec_start;
	u64 slice_exec;
	/* Clock since when it waits */
	u64 wait_start;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct cfs_entity);
} cfs_entities SEC(".maps");

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
static u64 tick_nsec;
static u64 latency;
static u64 wakeup_granularity;
static u32 nr_latency;

/* CPUs with more than one runnable task */
static u32 nr_overloaded;
/* Held while a domain with SD_SERIALIZE is balanced */
static u32 balancing;

static __always_inline struct cfs_entity *entity_of(struct task_struct *p)
{
	return bpf_task_storage_get(&cfs_entities, p, 0, 0);
}

static __always_inline u64 min(u64 a, u64 b)
{
	return a < b ? a : b;
}

static __always_inline u64 max(u64 a, u64 b)
{
	return a > b ? a : b;
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

/*
 * Virtual time and slices
 */

static __always_inline u32 task_weight(const struct task_struct *p)
{
	return p->policy == SCHED_IDLE ? sched_idle_weight : weight_of_nice(task_nice(p));
}

/* The period in which every task runs once: p = latency, or latency * n / nr_latency for many tasks. */
static __always_inline u64 sched_period(u64 nr_running)
{
	u64 period = latency;

	if (nr_running > nr_latency)
		period = period * nr_running / nr_latency;
	return period;
}

/* The running task's share of the period: s = p * w / W. */
static __always_inline u64 sched_slice(const struct cfs_rq *cfs_rq)
{
	return sched_period(cfs_rq->nr_running) * cfs_rq->curr_weight / cfs_rq->load_weight;
}

/* Virtual time of one slice of @cfs_rq, the new task already counted in: vs = p * 1024 / W. */
static __always_inline u64 sched_vslice_add(const struct cfs_rq *cfs_rq)
{
	return sched_period(cfs_rq->nr_running) * NICE_0_LOAD / cfs_rq->load_weight;
}

/* Virtual runtime of the leftmost waiting task. False if none waits. */
static __always_inline bool leftmost_vruntime(const struct cfs_rq *cfs_rq, u64 *vruntime)
{
	struct task_struct *p;
	bool found = false;

	if (cfs_rq->nr_running <= cfs_rq->curr)
		return false;

	bpf_for_each(scx_dsq, p, cfs_rq->cpu, 0) {
		*vruntime = p->scx.dsq_vtime;
		found = true;
		break;
	}
	return found;
}

/* min_vruntime as it is at @now, without changing anything. */
static __always_inline u64 min_vruntime_at(const struct cfs_rq *cfs_rq, u64 now)
{
	u64 vruntime, leftmost;

	if (!cfs_rq->curr)
		return cfs_rq->min_vruntime;

	vruntime = cfs_rq->curr_vruntime;
	if (time_before(cfs_rq->exec_start, now))
		vruntime += calc_delta_fair(now - cfs_rq->exec_start, cfs_rq->curr_weight);
	if (leftmost_vruntime(cfs_rq, &leftmost) && time_before(leftmost, vruntime))
		vruntime = leftmost;

	return max_vruntime(cfs_rq->min_vruntime, vruntime);
}

/* Charges the running task up to @now. */
static __always_inline void update_curr(struct cfs_rq *cfs_rq, u64 now)
{
	u64 delta_exec;

	if (!cfs_rq->curr || !time_before(cfs_rq->exec_start, now))
		return;

	cfs_rq->min_vruntime = min_vruntime_at(cfs_rq, now);

	delta_exec = now - cfs_rq->exec_start;
	cfs_rq->curr_vruntime += calc_delta_fair(delta_exec, cfs_rq->curr_weight);
	cfs_rq->slice_exec += delta_exec;
	cfs_rq->exec_start = now;
}

/*
 * Load of a CPU
 */

/* One average after @ticks ticks under a constant @load: (old * (2^i - 1) + new) / 2^i, rounded up when it rises. */
__noinline u64 decay_load(u64 old_load, u64 load, u32 i, u64 ticks)
{
	u32 tick;

	if (old_load == load)
		return load;

	bpf_for(tick, 0, min(ticks, LOAD_SETTLED)) {
		u64 scale;

		/* Computed anew each time, for the stack is short */
		barrier_var(i);
		scale = 1ULL << i;
		old_load = (old_load * (scale - 1) + load + (load > old_load ? scale - 1 : 0)) >> i;
		if (old_load == load)
			break;
	}
	return old_load;
}

/* Ticks that have passed at @now and are not in the averages yet. */
static __always_inline u64 missed_load_ticks(const struct cfs_rq *cfs_rq, u64 now)
{
	if (time_before(now, cfs_rq->next_load_tick))
		return 0;
	return (now - cfs_rq->next_load_tick) / (tick_nsec ?: 1) + 1;
}

/* Brings the averages up to @now; called before the load changes, so between ticks it was constant. */
static __always_inline void update_cpu_load(struct cfs_rq *cfs_rq, u64 now)
{
	u64 ticks = missed_load_ticks(cfs_rq, now);
	u64 load = cfs_rq->load_weight;

	if (!ticks || nr_cpus == 1)
		return;

	cfs_rq->cpu_load[0] = load;
	cfs_rq->cpu_load[1] = decay_load(cfs_rq->cpu_load[1], load, 1, ticks);
	cfs_rq->cpu_load[2] = decay_load(cfs_rq->cpu_load[2], load, 2, ticks);
	cfs_rq->next_load_tick += ticks * tick_nsec;
}

/* The average of type 1 to 3 at @now. */
static __always_inline u64 load_history(const struct cfs_rq *cfs_rq, u32 type, u64 now)
{
	u64 ticks = missed_load_ticks(cfs_rq, now);
	u64 load = cfs_rq->load_weight;
	u64 history;

	if (type == 1)
		return ticks ? load : cfs_rq->cpu_load[0];
	history = cfs_rq->cpu_load[type == 2 ? 1 : 2];
	return ticks && history != load ? decay_load(history, load, type - 1, ticks) : history;
}

/* A low guess of the load, for a CPU that tasks would leave. */
static __always_inline u64 source_load(const struct cfs_rq *cfs_rq, u32 type, u64 now)
{
	return type ? min(load_history(cfs_rq, type, now), cfs_rq->load_weight) : cfs_rq->load_weight;
}

/* A high guess of the load, for a CPU that tasks would come to. */
static __always_inline u64 target_load(const struct cfs_rq *cfs_rq, u32 type, u64 now)
{
	return type ? max(load_history(cfs_rq, type, now), cfs_rq->load_weight) : cfs_rq->load_weight;
}

static __always_inline u64 cpu_avg_load_per_task(const struct cfs_rq *cfs_rq)
{
	u32 nr_running = cfs_rq->nr_running;

	return nr_running ? cfs_rq->load_weight / nr_running : SCHED_LOAD_SCALE;
}

/* Counts @weight and one task into the sums of a CPU. */
static __always_inline void load_add(struct cfs_rq *cfs_rq, u32 weight, u64 now)
{
	update_cpu_load(cfs_rq, now);
	__sync_fetch_and_add(&cfs_rq->load_weight, (u64)weight);
	if (__sync_fetch_and_add(&cfs_rq->nr_running, 1) == 1)
		__sync_fetch_and_add(&nr_overloaded, 1);
}

/* And out of them. */
static __always_inline void load_sub(struct cfs_rq *cfs_rq, u32 weight, u64 now)
{
	update_cpu_load(cfs_rq, now);
	__sync_fetch_and_add(&cfs_rq->load_weight, -(u64)weight);
	if (__sync_fetch_and_add(&cfs_rq->nr_running, -1) == 2)
		__sync_fetch_and_add(&nr_overloaded, -1);
}

/* Makes the task count on @cfs_rq and nowhere else. */
static __always_inline void account_entity_enqueue(struct cfs_rq *cfs_rq, struct cfs_entity *se,
						   const struct task_struct *p, u64 now)
{
	struct cfs_rq *old_rq;
	s32 old;

	if (se->on_rq == cfs_rq->cpu + 1)
		return;

	old = __sync_lock_test_and_set(&se->on_rq, cfs_rq->cpu + 1);
	if (old) {
		old_rq = cfs_rq_of(old - 1);
		if (old_rq)
			load_sub(old_rq, se->weight, now);
	} else {
		se->weight = task_weight(p);
	}
	load_add(cfs_rq, se->weight, now);
}

/* Makes the task count nowhere. */
static __always_inline void account_entity_dequeue(struct cfs_entity *se, u64 now)
{
	s32 old = __sync_lock_test_and_set(&se->on_rq, 0);
	struct cfs_rq *cfs_rq;

	if (!old)
		return;
	cfs_rq = cfs_rq_of(old - 1);
	if (cfs_rq)
		load_sub(cfs_rq, se->weight, now);
}

/* Relates the virtual runtime of @p to another CPU: v -= old min_vruntime - new min_vruntime. */
static __always_inline u64 set_task_cpu(struct cfs_rq *cfs_rq, struct cfs_entity *se, u64 vruntime, u64 now)
{
	struct cfs_rq *old_rq;

	if (se->vruntime_cpu == cfs_rq->cpu + 1)
		return vruntime;

	old_rq = cfs_rq_of(se->vruntime_cpu - 1);
	if (old_rq)
		vruntime -= min_vruntime_at(old_rq, now) - min_vruntime_at(cfs_rq, now);
	se->vruntime_cpu = cfs_rq->cpu + 1;
	return vruntime;
}

/*
 * Preemption
 */

/* Makes the CPU put back its running task and pick the leftmost. */
static __always_inline void resched_task(struct cfs_rq *cfs_rq)
{
	cfs_rq->need_resched = true;
	scx_bpf_kick_cpu(cfs_rq->cpu, SCX_KICK_PREEMPT);
}

/* Clock of the next tick that has something to do for the running task: its slice is over, or balancing is due. */
static __always_inline u64 next_event(const struct cfs_rq *cfs_rq, u64 now)
{
	u64 end = now + MAX_RUN;

	if (cfs_rq->nr_running > 1) {
		u64 ideal_runtime = sched_slice(cfs_rq);
		u64 left = ideal_runtime > cfs_rq->slice_exec ? ideal_runtime - cfs_rq->slice_exec : 0;

		/* The slice must be exceeded, not only reached */
		end = min(end, tick_from(now + left + 1));
	}
	if (nr_cpus > 1)
		end = min(end, max(cfs_rq->next_balance * tick_nsec, tick_from(now + 1)));

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

/* At the last tick, had the running task exceeded its slice? */
static __always_inline bool check_preempt_tick(const struct cfs_rq *cfs_rq, u64 now)
{
	u64 since_tick = hz ? now % (tick_nsec ?: 1) : 0;
	u64 delta_exec = cfs_rq->slice_exec > since_tick ? cfs_rq->slice_exec - since_tick : 0;

	return cfs_rq->nr_running > 1 && delta_exec > sched_slice(cfs_rq);
}

/* Shall a task of @vruntime that has come to a busy CPU preempt: v + G * 1024 / w_curr < v_curr? */
static __always_inline bool check_preempt_wakeup(const struct cfs_rq *cfs_rq, const struct task_struct *p,
						 u64 vruntime)
{
	u64 gran = calc_delta_fair(wakeup_granularity, cfs_rq->curr_weight);

	/* Batch tasks do not preempt, the tick brings them on */
	if (p->policy == SCHED_BATCH || !wakeup_preempt)
		return false;

	return time_before(vruntime + gran, cfs_rq->curr_vruntime);
}

/*
 * Balancing
 */

static __always_inline bool is_pinned(const struct balance_attempt *attempt, s32 cpu)
{
	u32 i, nr_pinned = min(attempt->nr_pinned, MAX_PINNED_CPUS);

	if (!nr_pinned)
		return false;
	bpf_for(i, 0, nr_pinned) {
		if (i < MAX_PINNED_CPUS && attempt->pinned[i] == cpu)
			return true;
	}
	return false;
}

/* The domain of a level exists if it has more CPUs than the level below. */
static __always_inline bool domain_exists(const struct cfs_rq *cfs_rq, u32 level)
{
	return is_within(level, LEVEL_SMT, NR_LEVELS) &&
	       cfs_rq->span[level].count > cfs_rq->span[level - 1].count;
}

/* Power of the group of a CPU: each last-level cache counts as one CPU at the level above, and so do its parts. */
static __always_inline u64 group_power(const struct cfs_rq *group_rq, u32 level)
{
	const volatile struct cpu_topology *first, *last;

	if (level != LEVEL_NODE)
		return SCHED_LOAD_SCALE;

	first = topology_of(cpu_at(group_rq->span[LEVEL_CPU].first));
	last = topology_of(cpu_at(group_rq->span[LEVEL_CPU].first + group_rq->span[LEVEL_CPU].count - 1));
	if (!first || !last || last->llc < first->llc)
		return SCHED_LOAD_SCALE;
	return SCHED_LOAD_SCALE * (last->llc - first->llc + 1);
}

/* Adds a CPU, its load guessed high or low, to the sums of its group. */
static __always_inline void sum_cpu(struct balance_attempt *attempt, const struct cfs_rq *cfs_rq, u32 load_idx,
				    bool guess_high)
{
	u64 load;

	if (!cfs_rq->exists || is_pinned(attempt, cfs_rq->cpu))
		return;
	if (cfs_rq->nr_running)
		attempt->sd_idle = false;
	else if (attempt->first_idle_cpu < 0)
		attempt->first_idle_cpu = cfs_rq->cpu;
	if (attempt->first_cpu < 0)
		attempt->first_cpu = cfs_rq->cpu;

	load = guess_high ? target_load(cfs_rq, load_idx, attempt->now) :
			    source_load(cfs_rq, load_idx, attempt->now);
	attempt->max_cpu_load = max(attempt->max_cpu_load, load);
	attempt->min_cpu_load = min(attempt->min_cpu_load, load);
	attempt->avg_load += load;
	attempt->sum_nr_running += cfs_rq->nr_running;
	attempt->sum_weighted_load += cfs_rq->load_weight;
}

static __always_inline void reset_sums(struct balance_attempt *attempt)
{
	attempt->first_cpu = -1;
	attempt->first_idle_cpu = -1;
	attempt->avg_load = 0;
	attempt->max_cpu_load = 0;
	attempt->min_cpu_load = ~0ULL;
	attempt->sum_nr_running = 0;
	attempt->sum_weighted_load = 0;
}

/* Adds up the group at positions @first to @first + @count - 1 into the attempt of @this_cpu. */
__noinline bool sum_group(s32 this_cpu, u32 load_idx, u32 first, u32 count, bool guess_high)
{
	struct cfs_rq *this_rq = cfs_rq_of(this_cpu), *cfs_rq;
	struct balance_attempt *attempt;
	u32 position;

	if (!this_rq)
		return false;
	attempt = &this_rq->attempt;
	reset_sums(attempt);

	bpf_for(position, first, first + count) {
		cfs_rq = cfs_rq_of(cpu_at(position));
		if (cfs_rq)
			sum_cpu(attempt, cfs_rq, load_idx, guess_high);
	}
	return true;
}

/* Decides how much load to move from the busiest group to this one; 0 in attempt->imbalance if none is due. */
__noinline bool calculate_imbalance(s32 this_cpu)
{
	struct cfs_rq *this_rq = cfs_rq_of(this_cpu);
	u64 avg_load, max_load, this_load, max_pull, per_task, this_per_task, slack, less, more, now, move;
	struct balance_attempt *attempt;
	u32 imbn = 2;

	if (!this_rq)
		return false;
	attempt = &this_rq->attempt;
	attempt->imbalance = 0;
	max_load = attempt->max_load;
	this_load = attempt->this_load;
	avg_load = SCHED_LOAD_SCALE * attempt->total_load / attempt->total_power;

	if (this_load >= max_load || this_load >= avg_load)
		return false;
	if (attempt->level >= NR_LEVELS || 100 * max_load <= domain_parameters[attempt->level].imbalance_pct * this_load)
		return false;

	/* Mean load of a task of the busiest group */
	per_task = attempt->busiest_load_per_task / attempt->busiest_nr_running;
	if (attempt->group_imb)
		per_task = min(per_task, avg_load);
	if (max_load <= per_task)
		return false;

	/*
	 * The document's L_imbal = min(min(L_busiest, L_avg), L_avg - L_k). The kernels take L_max - L_avg for the first, and
	 * 2.6.24 leaves the busiest group one task's load, 3.0 takes no more than its tasks beyond its capacity, at 1024 each.
	 */
	if (max_load >= avg_load) {
		if (balance_rule == BALANCE_3_0) {
			u64 capacity = attempt->busiest_power / SCHED_LOAD_SCALE;
			u64 excess = attempt->busiest_nr_running > capacity ? attempt->busiest_nr_running - capacity : 0;

			max_pull = min(max_load - avg_load,
				       excess * SCHED_LOAD_SCALE * SCHED_LOAD_SCALE / attempt->busiest_power);
		} else {
			max_pull = min(max_load - avg_load, max_load - per_task);
		}
		attempt->imbalance = min(max_pull * attempt->busiest_power,
					 (avg_load - this_load) * attempt->this_power) / SCHED_LOAD_SCALE;
		if (attempt->imbalance >= per_task)
			return true;
	}

	/* Less than a task: raise it to one if the difference is worth it */
	this_per_task = SCHED_LOAD_SCALE;
	if (attempt->this_nr_running) {
		this_per_task = attempt->this_load_per_task / attempt->this_nr_running;
		if (per_task > this_per_task)
			imbn = 1;
	}
	slack = balance_rule == BALANCE_3_0 ? per_task : balance_fuzz;
	if (max_load - this_load + slack >= per_task * imbn) {
		attempt->imbalance = per_task;
		return true;
	}

	/* Or if the two groups would get more done, where a CPU's use is at most its load: power now and after the move */
	now = attempt->busiest_power * min(per_task, max_load) + attempt->this_power * min(this_per_task, this_load);

	less = per_task * SCHED_LOAD_SCALE / attempt->busiest_power;
	more = min(max_load * attempt->busiest_power, per_task * SCHED_LOAD_SCALE) / attempt->this_power;
	move = attempt->this_power * min(this_per_task, this_load + more);
	if (max_load > less)
		move += attempt->busiest_power * min(per_task, max_load - less);

	if (move / SCHED_LOAD_SCALE > now / SCHED_LOAD_SCALE)
		attempt->imbalance = per_task;
	return true;
}

/*
 * Finds the group of the domain with the highest load, and how much of it to take. The walk begins with the group
 * of this CPU and goes round. Returns whether there is such a group.
 */
__noinline bool find_busiest_group(s32 this_cpu)
{
	struct cfs_rq *this_rq = cfs_rq_of(this_cpu), *group_rq;
	u32 level, load_idx, first, count, group_first, group_count, step;
	const struct domain_parameters *sd;
	struct balance_attempt *attempt;
	bool local_group, imb;
	s32 balance_cpu;
	u64 power;

	if (!this_rq)
		return false;
	attempt = &this_rq->attempt;
	level = attempt->level;
	if (!is_within(level, LEVEL_SMT, NR_LEVELS))
		return false;

	sd = &domain_parameters[level];
	load_idx = attempt->idle == CPU_NOT_IDLE ? sd->busy_idx :
		   attempt->idle == CPU_IDLE ? sd->idle_idx : sd->newidle_idx;
	attempt->total_load = 0;
	attempt->total_power = 0;
	attempt->max_load = 0;
	attempt->busiest_nr_running = 0;

	first = this_rq->span[level].first;
	count = this_rq->span[level].count;
	attempt->group_first = this_rq->span[level - 1].first;
	attempt->left = count;

	bpf_for(step, 0, count) {
		group_first = attempt->group_first;
		group_rq = cfs_rq_of(cpu_at(group_first));
		if (!attempt->left || !group_rq)
			break;
		group_count = group_rq->span[level - 1].count;
		local_group = !step;

		if (group_count == 1) {
			reset_sums(attempt);
			sum_cpu(attempt, group_rq, load_idx, local_group);
		} else {
			sum_group(this_cpu, load_idx, group_first, group_count, local_group);
		}

		/* The first idle CPU of a group, else its first, balances for the group; newly idle CPUs all may */
		balance_cpu = attempt->first_idle_cpu < 0 ? attempt->first_cpu : attempt->first_idle_cpu;
		if (local_group && attempt->idle != CPU_NEWLY_IDLE && balance_cpu != this_cpu) {
			attempt->balance = false;
			return false;
		}
		power = balance_cpu < 0 ? 0 : group_power(group_rq, level);
		attempt->total_load += attempt->avg_load;
		attempt->total_power += power;
		attempt->avg_load = attempt->avg_load * SCHED_LOAD_SCALE / (power ?: 1);

		if (local_group) {
			attempt->this_load = attempt->avg_load;
			attempt->this_power = power;
			attempt->this_nr_running = attempt->sum_nr_running;
			attempt->this_load_per_task = attempt->sum_weighted_load;
		} else {
			imb = attempt->max_cpu_load > attempt->min_cpu_load + SCHED_LOAD_SCALE;
			if (attempt->avg_load > attempt->max_load &&
			    (attempt->sum_nr_running > power / SCHED_LOAD_SCALE || imb)) {
				attempt->max_load = attempt->avg_load;
				attempt->busiest_power = power;
				attempt->busiest_first = group_first;
				attempt->busiest_count = group_count;
				attempt->busiest_nr_running = attempt->sum_nr_running;
				attempt->busiest_load_per_task = attempt->sum_weighted_load;
				attempt->group_imb = imb;
			}
		}

		attempt->left -= min(group_count, attempt->left);
		group_first += group_count;
		attempt->group_first = group_first < first + count ? group_first : first;
	}

	return attempt->busiest_nr_running && calculate_imbalance(this_cpu);
}

/* The CPU with the highest load in the busiest group, -1 if there is none to take from. */
__noinline s32 find_busiest_queue(s32 this_cpu)
{
	struct cfs_rq *this_rq = cfs_rq_of(this_cpu), *cfs_rq;
	struct balance_attempt *attempt;
	u32 position, first;
	s32 busiest = -1;
	u64 max_load = 0;

	if (!this_rq)
		return -1;
	attempt = &this_rq->attempt;
	first = attempt->busiest_first;

	bpf_for(position, first, first + attempt->busiest_count) {
		s32 i = cpu_at(position);

		cfs_rq = cfs_rq_of(i);
		if (!cfs_rq || is_pinned(attempt, i))
			continue;
		if (cfs_rq->nr_running == 1 && cfs_rq->load_weight > attempt->imbalance)
			continue;
		if (cfs_rq->load_weight > max_load) {
			max_load = cfs_rq->load_weight;
			busiest = i;
		}
	}
	return busiest;
}

static __always_inline bool task_allowed(const struct task_struct *p, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && !is_migration_disabled(p);
}

/* Did the task run so lately that its data may still be in the CPU's cache? */
static __always_inline bool task_hot(const struct cfs_entity *se, u64 now)
{
	return (s64)(now - se->exec_start) < (s64)sched_migration_cost;
}

/* Moves the load of a task whose place in the queues has been moved; the task may have left meanwhile. */
static __always_inline void account_move(struct cfs_entity *se, struct cfs_rq *from, struct cfs_rq *to, u64 now)
{
	if (__sync_val_compare_and_swap(&se->on_rq, from->cpu + 1, to->cpu + 1) != from->cpu + 1)
		return;
	load_sub(from, se->weight, now);
	load_add(to, se->weight, now);
}

/*
 * Moves up to attempt->imbalance of load from the waiting tasks of the busiest CPU, leftmost first, to this CPU. Returns
 * how many tasks that were; sets attempt->all_pinned if it came to no task that was light enough and allowed here.
 */
__noinline s32 move_tasks(s32 this_cpu, s32 busiest_cpu)
{
	struct cfs_rq *this_rq = cfs_rq_of(this_cpu);
	struct cfs_rq *busiest = cfs_rq_of(busiest_cpu);
	struct balance_attempt *attempt;
	u32 level, loops = 0, pulled = 0;
	s32 this_best_prio;
	s64 rem_load_move;
	bool ignore_heat;
	struct task_struct *p;
	u64 now;

	if (!this_rq || !busiest)
		return 0;
	attempt = &this_rq->attempt;
	now = attempt->now;
	level = attempt->level;
	rem_load_move = attempt->imbalance;
	if (level >= NR_LEVELS || !rem_load_move)
		return 0;

	attempt->all_pinned = true;
	this_best_prio = this_rq->curr ? this_rq->curr_prio : MAX_PRIO;
	ignore_heat = this_rq->sd[level].nr_balance_failed > domain_parameters[level].cache_nice_tries;

	bpf_for_each(scx_dsq, p, busiest_cpu, 0) {
		struct cfs_entity *se;
		bool skip_for_load;
		u64 vruntime;

		if (loops++ > sched_nr_migrate)
			break;

		se = entity_of(p);
		if (!se)
			continue;

		/*
		 * A task heavier than twice what is left to move stays, the document's W / 2 > L_imbal. 2.6.24 is generous
		 * by the fuzz, and takes it all the same if it would be the best priority here.
		 */
		if (balance_rule == BALANCE_3_0)
			skip_for_load = se->weight / 2 > rem_load_move;
		else
			skip_for_load = se->weight / 2 > rem_load_move + balance_fuzz &&
					p->prio >= this_best_prio;
		if (skip_for_load)
			continue;

		if (!task_allowed(p, this_cpu))
			continue;
		attempt->all_pinned = false;
		if (task_hot(se, now) && !ignore_heat)
			continue;

		vruntime = p->scx.dsq_vtime - (min_vruntime_at(busiest, now) - min_vruntime_at(this_rq, now));
		scx_bpf_dsq_move_set_vtime(DSQ_ITERATOR, vruntime);
		if (!scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p, this_cpu, 0))
			continue;
		se->vruntime_cpu = this_rq->cpu + 1;
		account_move(se, busiest, this_rq, now);
		pulled++;

		if (this_rq->curr && check_preempt_wakeup(this_rq, p, vruntime))
			this_rq->need_resched = true;

		rem_load_move -= se->weight;
		if (rem_load_move <= 0)
			break;
		if (p->prio < this_best_prio)
			this_best_prio = p->prio;
	}

	if (attempt->idle == CPU_NEWLY_IDLE)
		count_by(PULLED_NEWLY_IDLE, pulled);
	else if (attempt->idle == CPU_IDLE)
		count_by(PULLED_IDLE, pulled);
	else
		count_by(PULLED_BUSY, pulled);
	return pulled;
}

/* Is the task that runs on @cpu not allowed on @this_cpu? */
static __always_inline bool curr_is_pinned(s32 cpu, s32 this_cpu)
{
	struct task_struct *curr = scx_bpf_cpu_curr(cpu);

	return curr && !bpf_cpumask_test_cpu(this_cpu, curr->cpus_ptr);
}

/* Asks the busiest CPU to hand this CPU one task, running or not, the next time it schedules; false if it is asked already. */
static __always_inline bool ask_for_push(struct cfs_rq *busiest, s32 this_cpu)
{
	if (busiest->push_cpu)
		return false;
	busiest->push_cpu = this_cpu + 1;
	scx_bpf_kick_cpu(busiest->cpu, SCX_KICK_PREEMPT);
	return true;
}

/*
 * Evens out one domain of this CPU. Returns how many tasks came, or -1 if none did but a CPU of this core is busy, so that
 * the core shall not count as idle. With CPU_NEWLY_IDLE neither the interval nor the count of failures grows.
 */
__noinline s32 load_balance(s32 this_cpu, u32 level, u32 idle)
{
	bool all_pinned = false, active_balance = false, found = false, failed = false, share_power;
	struct cfs_rq *this_rq = cfs_rq_of(this_cpu), *busiest = NULL;
	const struct domain_parameters *parameters;
	struct balance_attempt *attempt;
	struct sched_domain *sd;
	s32 busiest_cpu, moved = 0;
	u32 round;

	if (!this_rq || !is_within(level, LEVEL_SMT, NR_LEVELS))
		return 0;
	sd = &this_rq->sd[level];
	parameters = &domain_parameters[level];
	share_power = parameters->flags & SD_SHARE_CPUPOWER;

	attempt = &this_rq->attempt;
	attempt->now = scx_bpf_now();
	attempt->level = level;
	attempt->idle = idle;
	attempt->balance = true;
	attempt->sd_idle = share_power && idle != CPU_NOT_IDLE;
	attempt->nr_pinned = 0;
	count(BALANCES);

	bpf_for(round, 0, MAX_PINNED_CPUS + 1) {
		attempt->all_pinned = false;
		if (!find_busiest_group(this_cpu))
			break;
		busiest_cpu = find_busiest_queue(this_cpu);
		busiest = cfs_rq_of(busiest_cpu);
		if (busiest_cpu < 0 || !busiest)
			break;

		/* With one task there is nothing to take; the group stays unbalanced, which counts as failure below */
		if (busiest->nr_running > 1)
			moved = move_tasks(this_cpu, busiest_cpu);
		if (!attempt->all_pinned) {
			found = true;
			break;
		}
		all_pinned = true;
		if (round < MAX_PINNED_CPUS) {
			attempt->pinned[round] = busiest_cpu;
			attempt->nr_pinned = round + 1;
		}
	}

	if (idle == CPU_NEWLY_IDLE) {
		if (moved || (!found && (!share_power || attempt->sd_idle)))
			sd->nr_balance_failed = 0;
		goto out;
	}

	if (!found) {
		sd->nr_balance_failed = 0;
		failed = true;
	} else if (moved) {
		sd->nr_balance_failed = 0;
	} else if (++sd->nr_balance_failed > parameters->cache_nice_tries + 2) {
		all_pinned = busiest && curr_is_pinned(busiest->cpu, this_cpu);
		if (all_pinned) {
			failed = true;
		} else {
			active_balance = busiest && ask_for_push(busiest, this_cpu);
			sd->nr_balance_failed = parameters->cache_nice_tries + 1;
		}
	}

	/* Balanced, or nothing but force helps: look less often. Else look again soon. */
	if (failed) {
		if ((all_pinned && sd->balance_interval < MAX_PINNED_INTERVAL) ||
		    sd->balance_interval < parameters->max_interval)
			sd->balance_interval *= 2;
	} else if (!active_balance) {
		sd->balance_interval = parameters->min_interval;
	} else if (sd->balance_interval < parameters->max_interval) {
		sd->balance_interval *= 2;
	}
out:
	return !moved && share_power && !attempt->sd_idle ? -1 : moved;
}

/* Ticks between two balancings of a domain. */
static __always_inline u64 balance_interval(const struct sched_domain *sd, u32 level, u32 idle)
{
	u32 interval = sd->balance_interval;

	if (idle != CPU_IDLE)
		interval *= domain_parameters[level].busy_factor;
	/* At most a tenth of a second for every CPU of the machine */
	return min(msecs_to_jiffies(interval), max(NSEC_PER_SEC * nr_cpus / 10 / (tick_nsec ?: 1), 1));
}

/* Balances the domains that are due, innermost first, as the timer tick does. */
static __always_inline void rebalance_domains(struct cfs_rq *cfs_rq, u32 idle, u64 now)
{
	u64 jiffies = jiffies_at(now);
	u64 next_balance = jiffies + jiffies_at(60 * NSEC_PER_SEC);
	u32 level;

	cfs_rq->attempt.balance = true;

	bpf_for(level, LEVEL_SMT, NR_LEVELS) {
		struct sched_domain *sd;
		u64 interval;
		bool serialize;

		if (!domain_exists(cfs_rq, level))
			continue;
		sd = &cfs_rq->sd[level];
		interval = balance_interval(sd, level, idle);

		serialize = domain_parameters[level].flags & SD_SERIALIZE;
		if (!serialize || !__sync_val_compare_and_swap(&balancing, 0, 1)) {
			if (jiffies >= sd->last_balance + interval) {
				/* Tasks have come, or the core is busy: no longer idle */
				if (load_balance(cfs_rq->cpu, level, idle))
					idle = CPU_NOT_IDLE;
				sd->last_balance = jiffies;
			}
			if (serialize)
				balancing = 0;
		}
		next_balance = min(next_balance, sd->last_balance + interval);

		/* Another CPU of the group balances this level and those above */
		if (!cfs_rq->attempt.balance)
			break;
	}
	cfs_rq->next_balance = next_balance;
}

/* Balances when the CPU has just run out of tasks; stops at the first level that yields one. */
static __always_inline void idle_balance(struct cfs_rq *cfs_rq, u64 now)
{
	u64 jiffies = jiffies_at(now);
	u64 next_balance = jiffies + jiffies_at(NSEC_PER_SEC);
	s32 pulled_task = -1;
	u32 level;

	bpf_for(level, LEVEL_SMT, NR_LEVELS) {
		struct sched_domain *sd;

		if (!domain_exists(cfs_rq, level))
			continue;
		sd = &cfs_rq->sd[level];

		if (domain_parameters[level].flags & SD_BALANCE_NEWIDLE) {
			/* Without a CPU that has two tasks the search cannot end otherwise, so it is spared */
			if (nr_overloaded || level == LEVEL_SMT) {
				pulled_task = load_balance(cfs_rq->cpu, level, CPU_NEWLY_IDLE);
			} else {
				sd->nr_balance_failed = 0;
				pulled_task = 0;
			}
		}
		next_balance = min(next_balance, sd->last_balance + msecs_to_jiffies(sd->balance_interval));
		if (pulled_task)
			break;
	}

	/* The time may have been set when the CPU was busy, with a long interval */
	if (pulled_task || jiffies > cfs_rq->next_balance)
		cfs_rq->next_balance = next_balance;
}

/*
 * Hands one task to the CPU that asked for it, the leftmost that may run there; the running task @prev counts as put
 * back. Returns true if that is @prev, which enqueue() will then insert there.
 */
static __always_inline bool active_load_balance(struct cfs_rq *busiest, struct task_struct *prev, u64 now)
{
	struct cfs_rq *target = cfs_rq_of(busiest->push_cpu - 1);
	struct cfs_entity *se;
	struct task_struct *p;
	bool push_prev = false, moved = false;

	busiest->push_cpu = 0;
	if (!target)
		return false;

	bpf_for_each(scx_dsq, p, busiest->cpu, 0) {
		u64 vruntime = p->scx.dsq_vtime;

		if (prev && time_before(busiest->curr_vruntime, vruntime) && task_allowed(prev, target->cpu)) {
			push_prev = true;
			break;
		}
		se = entity_of(p);
		if (!se || !task_allowed(p, target->cpu))
			continue;

		vruntime -= min_vruntime_at(busiest, now) - min_vruntime_at(target, now);
		scx_bpf_dsq_move_set_vtime(DSQ_ITERATOR, vruntime);
		if (!scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p, target->cpu, 0))
			continue;
		se->vruntime_cpu = target->cpu + 1;
		account_move(se, busiest, target, now);
		moved = true;
		break;
	}

	if (!moved && prev && task_allowed(prev, target->cpu))
		push_prev = true;
	if (moved) {
		count(PUSHED_ACTIVE);
		scx_bpf_kick_cpu(target->cpu, target->curr ? SCX_KICK_PREEMPT : SCX_KICK_IDLE);
	}
	if (push_prev) {
		se = entity_of(prev);
		if (!se)
			return false;
		se->push_cpu = target->cpu + 1;
	}
	return push_prev;
}

/*
 * Placement of a waking or new task on a CPU
 */

/* Fork balancing: the least loaded CPU of the idlest group, where a domain asks for it. */
static __always_inline s32 sched_balance_fork(struct task_struct *p, s32 cpu, u64 now)
{
	const struct domain_parameters *sd = &domain_parameters[LEVEL_NODE];
	u32 imbalance = 100 + (sd->imbalance_pct - 100) / 2;
	u32 step, position, group_first, group_count, idlest_first = 0, idlest_count = 0;
	struct cfs_rq *this_rq = cfs_rq_of(cpu), *group_rq, *cfs_rq;
	u64 min_load = ~0ULL, this_load = 0, avg_load;
	struct balance_attempt *attempt;
	bool local_group, allowed;
	s32 idlest = -1;

	if (!this_rq || !domain_exists(this_rq, LEVEL_NODE))
		return cpu;
	attempt = &this_rq->attempt;
	attempt->now = now;
	attempt->nr_pinned = 0;
	attempt->group_first = 0;

	/* The idlest node, in doubt this one */
	bpf_for(step, 0, topology_nr_nodes) {
		group_first = attempt->group_first;
		group_rq = cfs_rq_of(cpu_at(group_first));
		if (!group_rq)
			break;
		group_count = group_rq->span[LEVEL_CPU].count;
		attempt->group_first += group_count;

		allowed = false;
		bpf_for(position, group_first, group_first + group_count) {
			s32 i = cpu_at(position);

			if (i >= 0 && bpf_cpumask_test_cpu(i, p->cpus_ptr)) {
				allowed = true;
				break;
			}
		}
		if (!allowed)
			continue;

		local_group = group_first == this_rq->span[LEVEL_CPU].first;
		sum_group(cpu, sd->forkexec_idx, group_first, group_count, !local_group);
		avg_load = attempt->avg_load * SCHED_LOAD_SCALE / group_power(group_rq, LEVEL_NODE);
		if (local_group) {
			this_load = avg_load;
		} else if (avg_load < min_load) {
			min_load = avg_load;
			idlest_first = group_first;
			idlest_count = group_count;
		}
	}
	if (!idlest_count || 100 * this_load < imbalance * min_load)
		return cpu;

	/* And its idlest CPU */
	min_load = ~0ULL;
	bpf_for(position, idlest_first, idlest_first + idlest_count) {
		s32 i = cpu_at(position);

		cfs_rq = cfs_rq_of(i);
		if (!cfs_rq || !bpf_cpumask_test_cpu(i, p->cpus_ptr))
			continue;
		if (cfs_rq->load_weight < min_load) {
			min_load = cfs_rq->load_weight;
			idlest = i;
		}
	}
	return idlest < 0 ? cpu : idlest;
}

/* Shall a task that last ran on @prev_rq wake on the CPU of its waker? */
static __always_inline bool wake_affine(struct cfs_rq *this_rq, struct cfs_rq *prev_rq, struct task_struct *p,
					struct cfs_entity *se, bool sync, u64 now)
{
	u32 level, prev_position = prev_rq->span[LEVEL_SELF].first;
	const struct domain_parameters *sd = NULL;
	u64 load, this_load, tl, imbalance;

	if (!bpf_cpumask_test_cpu(this_rq->cpu, p->cpus_ptr))
		return false;

	/* The lowest domain that spans both CPUs */
	for (level = LEVEL_SMT; level < NR_LEVELS; level++) {
		const struct topology_span *span = &this_rq->span[level];

		if (prev_position >= span->first && prev_position < span->first + span->count) {
			sd = &domain_parameters[level];
			break;
		}
	}
	if (!sd)
		return false;

	imbalance = 100 + (sd->imbalance_pct - 100) / 2;
	load = source_load(prev_rq, sd->wake_idx, now);
	this_load = target_load(this_rq, sd->wake_idx, now);

	if (sd->flags & SD_WAKE_AFFINE) {
		/* The waker is about to sleep, and the woken task's cache is cold anyway */
		if (sync && !task_hot(se, now))
			return true;

		tl = this_load;
		if (sync)
			tl -= min(tl, this_rq->curr ? this_rq->curr_weight : 0);

		if (tl <= load && tl + target_load(prev_rq, sd->wake_idx, now) <= cpu_avg_load_per_task(this_rq))
			return true;
		if (100 * (tl + se->weight) <= imbalance * load)
			return true;
	}
	return (sd->flags & SD_WAKE_BALANCE) && imbalance * this_load <= 100 * load;
}

/* An idle CPU close to @cpu if that is busy with one task; with more tasks its neighbours are thought busy too. */
static __always_inline s32 wake_idle(s32 cpu, struct task_struct *p)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(cpu);
	const struct cpumask *idle_mask;
	u32 level, position, first_idle;
	s32 found = cpu;

	if (!cfs_rq || cfs_rq->nr_running > 1)
		return cpu;

	idle_mask = scx_bpf_get_idle_cpumask();
	first_idle = bpf_cpumask_first_and(idle_mask, p->cpus_ptr);
	if (first_idle >= nr_cpus || bpf_cpumask_test_cpu(cpu, idle_mask))
		goto out;

	bpf_for(level, LEVEL_SMT, NR_LEVELS) {
		u32 first = cfs_rq->span[level].first, count = cfs_rq->span[level].count;

		if (!domain_exists(cfs_rq, level))
			continue;
		if (!(domain_parameters[level].flags & SD_WAKE_IDLE))
			break;
		if (count == nr_cpus) {
			found = first_idle;
			break;
		}
		bpf_for(position, first, first + count) {
			s32 i = cpu_at(position);

			if (i >= 0 && bpf_cpumask_test_cpu(i, idle_mask) && bpf_cpumask_test_cpu(i, p->cpus_ptr)) {
				found = i;
				break;
			}
		}
		if (found != cpu)
			break;
	}
out:
	scx_bpf_put_idle_cpumask(idle_mask);
	return found;
}

s32 BPF_STRUCT_OPS(cfs_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id();
	struct cfs_rq *this_rq, *prev_rq;
	struct cfs_entity *se;
	u64 now = scx_bpf_now();
	s32 cpu = prev_cpu, new_cpu;

	if (nr_cpus == 1)
		return prev_cpu;
	if (wake_flags & SCX_WAKE_FORK)
		return sched_balance_fork(p, prev_cpu, now);

	this_rq = cfs_rq_of(this_cpu);
	prev_rq = cfs_rq_of(prev_cpu);
	se = entity_of(p);
	if (!this_rq || !prev_rq || !se)
		return prev_cpu;

	if (this_cpu != prev_cpu && wake_affine(this_rq, prev_rq, p, se, wake_flags & SCX_WAKE_SYNC, now)) {
		cpu = this_cpu;
		count(AFFINE_WAKEUPS);
	}
	new_cpu = wake_idle(cpu, p);
	if (new_cpu != cpu)
		count(IDLE_WAKEUPS);
	return new_cpu;
}

/*
 * Queueing
 */

/* Virtual runtime of a task that wakes (@initial false) or is new. */
static __always_inline u64 place_entity(const struct cfs_rq *cfs_rq, u64 se_vruntime, bool initial)
{
	u64 vruntime = cfs_rq->min_vruntime;

	if (initial) {
		/* The current period is promised already: begin where the new task's slot would be, at its end */
		if (start_debit)
			vruntime += sched_vslice_add(cfs_rq);
		return vruntime;
	}

	/* Sleep up to one latency does not count, and sleeping gains nothing beyond it */
	if (new_fair_sleepers)
		vruntime -= latency;
	return max_vruntime(se_vruntime, vruntime);
}

void BPF_STRUCT_OPS(cfs_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct cfs_entity *se = entity_of(p);
	bool wakeup = enq_flags & SCX_ENQ_WAKEUP;
	s32 task_cpu = scx_bpf_task_cpu(p), cpu = task_cpu;
	u64 vruntime = p->scx.dsq_vtime, now = scx_bpf_now();
	bool put_prev, new_task, changing;
	struct cfs_rq *cfs_rq;

	if (!se)
		return;

	new_task = se->new_task;
	changing = se->changing;
	se->new_task = false;
	se->changing = false;

	if (se->push_cpu) {
		/* Active balancing sends the task, which has just been put, to another CPU */
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

	vruntime = set_task_cpu(cfs_rq, se, vruntime, now);
	update_curr(cfs_rq, now);
	account_entity_enqueue(cfs_rq, se, p, now);

	if (new_task) {
		vruntime = place_entity(cfs_rq, vruntime, true);
		/* The child runs first: it takes the parent's better place */
		if (sched_child_runs_first && cfs_rq->curr && cpu == bpf_get_smp_processor_id() &&
		    time_before(cfs_rq->curr_vruntime, vruntime)) {
			u64 swap = cfs_rq->curr_vruntime;

			cfs_rq->curr_vruntime = vruntime;
			vruntime = swap;
		}
		count(FORKS);
	} else if (wakeup) {
		vruntime = place_entity(cfs_rq, vruntime, false);
		count(WAKEUPS);
	}

	se->wait_start = now;
	scx_bpf_dsq_insert_vtime(p, cpu, SCX_SLICE_DFL, vruntime, enq_flags);

	if (put_prev)
		return;
	if (!cfs_rq->curr) {
		/* The kernel itself wakes an idle CPU for a task that wakes on it */
		if (!wakeup || cpu != task_cpu)
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}

	if (new_task || (changing && se->weight > se->old_weight)) {
		resched_task(cfs_rq);
	} else if (check_preempt_wakeup(cfs_rq, p, vruntime)) {
		count(WAKEUP_PREEMPTIONS);
		resched_task(cfs_rq);
	} else if (cpu == task_cpu) {
		shorten_slice(cfs_rq, now);
	} else {
		/* That CPU is not locked: let it look itself */
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

void BPF_STRUCT_OPS(cfs_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct cfs_entity *se = entity_of(p);

	if (!se)
		return;
	se->changing = !(deq_flags & SCX_DEQ_SLEEP);
	se->old_weight = se->weight;
	account_entity_dequeue(se, scx_bpf_now());
}

bool BPF_STRUCT_OPS(cfs_yield, struct task_struct *from, struct task_struct *to)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(scx_bpf_task_cpu(from));
	struct task_struct *rightmost;

	if (to || !cfs_rq || cfs_rq->nr_running == 1)
		return false;

	count(YIELDS);
	update_curr(cfs_rq, scx_bpf_now());
	if (sched_compat_yield || from->policy == SCHED_BATCH) {
		/* To the end of the queue: just behind the rightmost, unless there already */
		bpf_for_each(scx_dsq, rightmost, cfs_rq->cpu, SCX_DSQ_ITER_REV) {
			if (!time_before(rightmost->scx.dsq_vtime, cfs_rq->curr_vruntime))
				cfs_rq->curr_vruntime = rightmost->scx.dsq_vtime + 1;
			break;
		}
	}
	/* schedule() follows, and picks the leftmost */
	cfs_rq->need_resched = true;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/*
 * Running
 */

/* The task has been picked: it runs until the next event. */
static __always_inline void set_next_entity(struct cfs_rq *cfs_rq, struct task_struct *p, u64 slice_exec, u64 now)
{
	cfs_rq->slice_exec = slice_exec;
	cfs_rq->need_resched = false;
	set_slice(cfs_rq, p, now);
}

/*
 * Runs a task that has waited for too long, out of turn: a new task among much heavier ones waits for a slice of its own in virtual
 * time, which may be minutes, longer than sched_ext's watchdog allows. True if there is one.
 */
__noinline bool rescue_starved(s32 cpu)
{
	u64 now = scx_bpf_now();
	struct cfs_entity *se;
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, cpu, SCX_DSQ_ITER_REV) {
		se = entity_of(p);
		if (se && time_before(se->wait_start + starvation_limit, now) &&
		    scx_bpf_dsq_move(DSQ_ITERATOR, p, SCX_DSQ_LOCAL, 0)) {
			count(RESCUES);
			return true;
		}
	}
	return false;
}

void BPF_STRUCT_OPS(cfs_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(cpu);
	bool prev_runs = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	bool resched, balanced = false;
	u64 leftmost, now = scx_bpf_now();

	if (!cfs_rq)
		return;

	if (prev_runs) {
		update_curr(cfs_rq, now);
		cfs_rq->curr_prio = prev->prio;
	}

	if (nr_cpus > 1) {
		if (cfs_rq->push_cpu && active_load_balance(cfs_rq, prev_runs ? prev : NULL, now))
			prev_runs = false;
		if (jiffies_at(now) >= cfs_rq->next_balance) {
			balanced = !cfs_rq->nr_running;
			rebalance_domains(cfs_rq, balanced ? CPU_IDLE : CPU_NOT_IDLE, now);
		}
	}

	if (starvation_limit && !time_before(now, cfs_rq->rescue_at)) {
		cfs_rq->rescue_at = now + RESCUE_INTERVAL;
		if (rescue_starved(cpu))
			return;
	}

	if (prev_runs) {
		resched = cfs_rq->need_resched;
		if (!resched && check_preempt_tick(cfs_rq, now)) {
			resched = true;
			count(TICK_PREEMPTIONS);
		}
		if (!resched) {
			/* Neither its slice nor anything else asks for another task */
			set_slice(cfs_rq, prev, now);
			return;
		}
		/* Of equals the one that waits is before the one that is put back */
		if (leftmost_vruntime(cfs_rq, &leftmost) && !time_before(cfs_rq->curr_vruntime, leftmost) &&
		    scx_bpf_dsq_move_to_local(cpu, 0))
			return;
		set_next_entity(cfs_rq, prev, 0, now);
		return;
	}

	if (scx_bpf_dsq_move_to_local(cpu, 0))
		return;
	if (nr_cpus > 1 && !balanced) {
		idle_balance(cfs_rq, now);
		scx_bpf_dsq_move_to_local(cpu, 0);
	}
}

void BPF_STRUCT_OPS(cfs_running, struct task_struct *p)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(scx_bpf_task_cpu(p));
	struct cfs_entity *se = entity_of(p);
	u64 now = scx_bpf_now();

	if (!cfs_rq || !se)
		return;

	/* A running task whose attribute has been changed comes here without having been enqueued */
	cfs_rq->curr_vruntime = set_task_cpu(cfs_rq, se, p->scx.dsq_vtime, now);
	account_entity_enqueue(cfs_rq, se, p, now);

	cfs_rq->curr = true;
	cfs_rq->curr_pid = p->pid;
	cfs_rq->curr_prio = p->prio;
	cfs_rq->curr_weight = se->weight;
	cfs_rq->exec_start = now;
	se->push_cpu = 0;

	if (se->changing) {
		se->changing = false;
		set_next_entity(cfs_rq, p, se->slice_exec, now);
		/* Better or worse, it may not be the one to run any more */
		if (se->weight != se->old_weight)
			resched_task(cfs_rq);
	} else {
		set_next_entity(cfs_rq, p, 0, now);
	}
}

void BPF_STRUCT_OPS(cfs_stopping, struct task_struct *p, bool runnable)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(scx_bpf_task_cpu(p));
	struct cfs_entity *se = entity_of(p);
	u64 now = scx_bpf_now();

	if (!cfs_rq || !se)
		return;

	update_curr(cfs_rq, now);
	scx_bpf_task_set_dsq_vtime(p, cfs_rq->curr_vruntime);
	se->slice_exec = cfs_rq->slice_exec;
	se->exec_start = now;
	cfs_rq->curr = false;
	cfs_rq->curr_pid = 0;
	/* Preempted by a real-time task it is put back too, not kept in front by the kernel */
	if (runnable)
		scx_bpf_task_set_slice(p, 0);
}

/*
 * Tasks and the machine
 */

s32 BPF_STRUCT_OPS_SLEEPABLE(cfs_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct cfs_entity *se = bpf_task_storage_get(&cfs_entities, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!se)
		return -ENOMEM;
	se->new_task = args->fork;
	return 0;
}

void BPF_STRUCT_OPS(cfs_enable, struct task_struct *p)
{
	struct cfs_entity *se = entity_of(p);
	struct cfs_rq *cfs_rq = cfs_rq_of(scx_bpf_task_cpu(p));

	if (!se || !cfs_rq)
		return;
	/* A task that was there before the scheduler begins level with the others; se->weight is read before it runs */
	se->weight = task_weight(p);
	if (!se->vruntime_cpu) {
		se->vruntime_cpu = cfs_rq->cpu + 1;
		scx_bpf_task_set_dsq_vtime(p, cfs_rq->min_vruntime);
	}
}

/* Can balancing find anything? A CPU with two tasks can give one away, and a core with two busy threads. */
static __always_inline bool worth_balancing(void)
{
	u32 position, core = ~0U;

	if (nr_overloaded)
		return true;
	if (topology_nr_cores >= topology_nr_cpus)
		return false;

	bpf_for(position, 0, nr_cpus) {
		struct cfs_rq *cfs_rq = cfs_rq_of(cpu_at(position));

		if (!cfs_rq || !cfs_rq->nr_running)
			continue;
		if (cfs_rq->span[LEVEL_SMT].first == core)
			return true;
		core = cfs_rq->span[LEVEL_SMT].first;
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

/* Sets the spans of a CPU's domains. Caches that reach beyond a node count as the node's. */
static __always_inline void init_domains(struct cfs_rq *cfs_rq, s32 cpu)
{
	const volatile struct cpu_topology *place = topology_of(cpu);
	struct topology_span *span = cfs_rq->span;
	u32 level;

	/* Without a known topology: one level, whose groups are the CPUs */
	span[LEVEL_SELF].first = place ? place->position : cpu;
	span[LEVEL_SELF].count = 1;
	span[LEVEL_SMT] = span[LEVEL_SELF];
	span[LEVEL_MC] = span[LEVEL_SELF];
	span[LEVEL_NODE].first = 0;
	span[LEVEL_NODE].count = nr_cpus;
	span[LEVEL_CPU] = span[LEVEL_NODE];

	if (place) {
		span[LEVEL_SMT].first = place->core_cpus.first;
		span[LEVEL_SMT].count = place->core_cpus.count;
		span[LEVEL_CPU].first = place->node_cpus.first;
		span[LEVEL_CPU].count = place->node_cpus.count;
		span[LEVEL_MC] = span[LEVEL_CPU];
		if (place->llc_cpus.count <= place->node_cpus.count) {
			span[LEVEL_MC].first = place->llc_cpus.first;
			span[LEVEL_MC].count = place->llc_cpus.count;
		}
	}
	for (level = LEVEL_SMT; level < NR_LEVELS; level++)
		cfs_rq->sd[level].balance_interval = 1;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(cfs_init)
{
	u32 online = 0, key = 0;
	struct idle_tick *tick;
	u64 factor, now = scx_bpf_now();
	s32 cpu, err;

	nr_cpus = topology_nr_cpus ?: scx_bpf_nr_cpu_ids();
	tick_nsec = tick_length(hz ?: DEFAULT_HZ);

	bpf_for(cpu, 0, nr_cpus) {
		const volatile struct cpu_topology *place = topology_of(cpu);
		struct cfs_rq *cfs_rq = cfs_rq_of(cpu);

		err = scx_bpf_create_dsq(cpu, NUMA_NO_NODE);
		if (err)
			return err;
		if (!cfs_rq)
			continue;
		cfs_rq->exists = !place || place->capacity;
		online += cfs_rq->exists;

		cfs_rq->cpu = cpu;
		/* As in the original, so that virtual times wrap around soon and always have */
		cfs_rq->min_vruntime = -(1ULL << 20);
		cfs_rq->next_load_tick = (jiffies_at(now) + 1) * tick_nsec;
		cfs_rq->next_balance = jiffies_at(now);
		init_domains(cfs_rq, cpu);
		for (u32 level = LEVEL_SMT; level < NR_LEVELS; level++)
			cfs_rq->sd[level].last_balance = jiffies_at(now);
	}

	factor = sched_tunable_scaling ? scale_factor(online) : 1;
	latency = sched_latency * factor;
	if (factor > 1)
		latency = min(latency, LATENCY_LIMIT);
	wakeup_granularity = sched_wakeup_granularity * factor;
	nr_latency = (sched_latency + sched_min_granularity - 1) / (sched_min_granularity ?: 1);

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

DEFINE_SCHEDULER(cfs,
		 .select_cpu = (void *)cfs_select_cpu,
		 .enqueue = (void *)cfs_enqueue,
		 .dispatch = (void *)cfs_dispatch,
		 .running = (void *)cfs_running,
		 .stopping = (void *)cfs_stopping,
		 .quiescent = (void *)cfs_quiescent,
		 .yield = (void *)cfs_yield,
		 .init_task = (void *)cfs_init_task,
		 .enable = (void *)cfs_enable,
		 .init = (void *)cfs_init,
		 /* A task that nothing else displaces is put back only to be pushed to another CPU */
		 .flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
		 .timeout_ms = 30000,
		 .name = "cfs");
