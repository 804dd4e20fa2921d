// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * o1 - the O(1) scheduler of Linux 2.6.0 to 2.6.22
 *
 * Two arrays of 140 lists for every CPU: tasks run from the active array, best dynamic priority first, and wait in the
 * expired array once their time slice is used up; when the active array is empty the two change roles. The dynamic
 * priority is the static one (120 + nice) less a bonus of -5 to +5 for the time the task has slept. README.md
 * maps the documents to this file and lists the departures.
 *
 * Variables are named as the documents name them. Lists are dispatch queues (DSQs), 40 for each array: real-time
 * priorities 0 to 99 never reach sched_ext.
 */
#include "fairground.bpf.h"
#include "in_interrupt.h"
#include "topology.h"

/* Priorities */
#define MAX_USER_PRIO (MAX_PRIO - MAX_RT_PRIO)

/* Load of one task of nice 0, and computing power of one CPU */
#define SCHED_LOAD_SCALE 128

/* After so many ticks without load nothing is left of its history, of which each takes a quarter or more. */
#define MAX_TICKS_TO_FADE 200

/* How often a CPU looks for tasks that have waited for starvation_limit, nanoseconds */
#define RESCUE_INTERVAL NSEC_PER_SEC

/*
 * How many tasks of each list it looks at. Whoever has waited longest is first, but for a task that had to make way and its
 * children; and a pick is to cost the same for any number of tasks.
 */
#define RESCUE_DEPTH 4

/* A run queue without an ordinary task running: nothing can be better than this */
#define NO_CURRENT (-1)

/* ---- Tunables -------------------------------------------------------------------------------------------------- */

/* Which kernel's rules */
enum release {
	RELEASE_2_6_22,
	RELEASE_2_6_11,
	RELEASE_2_6_8,
};

const volatile u32 release = RELEASE_2_6_22;

/* Ticks of the era in a second */
const volatile u32 hz = 1000;

/* Milliseconds, as the documents write them; the formulas turn them into ticks */
const volatile u32 min_timeslice = 5;
const volatile u32 def_timeslice = 100;
const volatile u32 min_timeslice_2_6_8 = 10;
const volatile u32 max_timeslice_2_6_8 = 200;
const volatile u32 granularity = 10;

const volatile u32 on_runqueue_weight = 30;
const volatile u32 child_penalty = 95;
const volatile u32 parent_penalty = 100;
const volatile u32 exit_weight = 3;
const volatile u32 prio_bonus_ratio = 25;
const volatile u32 interactive_delta = 2;
const volatile u32 credit_limit = 100;

/* Balancing: microseconds a task counts as cache-hot, by the level at which it would move */
const volatile u32 cache_hot_time_sibling = 0;
const volatile u32 cache_hot_time_cpu = 2500;
const volatile u32 cache_hot_time_node = 10000;

/* Balancing: percent of this CPU's load that the busiest may have before it is worth pulling */
const volatile u32 imbalance_pct_sibling = 110;
const volatile u32 imbalance_pct_cpu = 125;
const volatile u32 imbalance_pct_node = 125;

/* Balancing: longest interval, in ms, to which pinned tasks may stretch a balancing interval */
const volatile u32 max_pinned_interval = 512;

/* Milliseconds a task may wait before it runs for a tick, whoever is better; 0 is for ever */
const volatile u32 starvation_limit = 15000;

/* ---- Statistics, in the order of scheduler.toml ---------------------------------------------------------------- */

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
	STAT_WAKE_AFFINE,
	STAT_WAKE_IDLE,
	STAT_PULLED_PERIODIC,
	STAT_PULLED_NEWLY_IDLE,
	STAT_PUSHED,
	STAT_RESCUED,
	NR_STATISTICS,
};

DEFINE_STATISTICS(NR_STATISTICS)

/* ---- Tasks ----------------------------------------------------------------------------------------------------- */

/* Where in its list a task goes when it is next inserted. */
enum place {
	PLACE_TAIL,
	/* It ran without being requeued: it keeps the place it had, which was the first */
	PLACE_HEAD,
};

struct task_ctx {
	/* Nanoseconds of sleep credit, 0 to NS_MAX_SLEEP_AVG */
	u64 sleep_avg;
	/* Start of the current run, wait or sleep, and the last switch away from the task; nanoseconds */
	u64 timestamp;
	u64 last_ran;
	/* Tick up to which the current run is charged */
	u64 charged_until;
	s32 static_prio;
	s32 prio;
	/* Ticks left */
	u32 time_slice;
	/* Share of the run queue's load */
	u32 load_weight;
	/* 2.6.8 */
	s32 interactive_credit;
	/* Run queue that counts the task, -1 while it is not runnable */
	s32 cpu;
	/* CPU to which active balancing pushes the task, -1 for none */
	s32 push_cpu;
	/* Index of the array the task is in, or was in last */
	u32 array;
	/* enum sleep_type */
	u32 sleep_type;
	enum place place;
	/* Still in the slice it got from its parent */
	bool first_time_slice;
	/* Forked and not yet woken for the first time */
	bool new;
	bool running;
	/* A child has been put in front of the task */
	bool child_first;
	/* Reniced while running */
	bool reniced;
	/* Runs for one tick because it has waited for starvation_limit */
	bool rescued;
	/* Sleeping, and the sleep cannot be interrupted */
	bool uninterruptible;
	/* The waker said that it will soon leave the CPU on which the task wakes up */
	bool sync;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctx_map SEC(".maps");

static __always_inline struct task_ctx *task_ctx_of(struct task_struct *p)
{
	return bpf_task_storage_get(&task_ctx_map, p, NULL, 0);
}

/* ---- Run queues ------------------------------------------------------------------------------------------------ */

/* Levels of the machine at which load is balanced */
enum level {
	/* Hardware threads of a core; one CPU is a group */
	LEVEL_SIBLING,
	/* Cores of a node; one core is a group */
	LEVEL_CPU,
	/* Nodes; one node is a group */
	LEVEL_NODE,
	NR_LEVELS,
};

/* State of one CPU's balancing at one level */
struct sched_domain {
	/* Jiffies */
	u64 last_balance;
	/* Milliseconds */
	u32 balance_interval;
	u32 nr_balance_failed;
};

struct run_queue {
	/* A bit for each list of an array that may hold tasks; 0 is priority 100 */
	u64 bitmap[2];
	/* Index of the active array; the other one is the expired array */
	u32 active;
	/* Runnable tasks, the running one included, and the sum of their weights */
	u32 nr_running;
	u64 raw_weighted_load;
	/* History of the load: cpu_load[i] averages over about 2^i ticks */
	u64 cpu_load[3];
	/* Jiffies when the first task entered the expired array since the last switch, 0 for none */
	u64 expired_timestamp;
	/* Best static priority in the expired array */
	s32 best_expired_prio;
	/* Dynamic priority and weight of the running task */
	s32 curr_prio;
	u32 curr_load_weight;
	bool idle;
	/* Active balancing: the running task is to be pushed to push_cpu */
	bool active_balance;
	s32 push_cpu;
	/* Tasks may wait in the queue of pushed tasks */
	bool pushed_to;
	/* When to look for starving tasks next, nanoseconds */
	u64 rescue_at;
	/* Jiffies */
	u64 next_balance;
	/* Number of the balancing attempt that has found all tasks here pinned */
	u64 excluded_by;
	struct sched_domain domain[NR_LEVELS];
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
static __always_inline u32 list_index(s32 prio)
{
	u32 index = prio - MAX_RT_PRIO;

	return index < MAX_USER_PRIO ? index : MAX_USER_PRIO - 1;
}

static __always_inline u32 first_bit(u64 bitmap)
{
	return __builtin_ctzll(bitmap);
}

static __always_inline void set_list_bit(struct run_queue *rq, u32 array, u32 index)
{
	__sync_fetch_and_or(&rq->bitmap[array & 1], 1ULL << index);
}

/*
 * Clears the bit of a list that turned out empty. Another CPU may move a task into the list meanwhile and sets the bit
 * after that, so looking once more after clearing catches every order of the two.
 */
static __always_inline void clear_list_bit(struct run_queue *rq, s32 cpu, u32 array, u32 index)
{
	__sync_fetch_and_and(&rq->bitmap[array & 1], ~(1ULL << index));
	if (scx_bpf_dsq_nr_queued(list_dsq(cpu, array, index)) > 0)
		set_list_bit(rq, array, index);
}

/* Number of CPUs there are; the loader's topology knows it, otherwise all are taken to exist. */
static u32 nr_cpu_ids;
static u32 num_online_cpus;

/* Some core has more than one hardware thread. */
static bool has_threads;

/* Number of CPUs with more than one runnable task */
static u32 nr_overloaded;

/* 1 while nobody is runnable on any CPU and the balancing timer is off, and the tick at which it went off; 0 otherwise */
static u32 balancing_is_off;
static u64 off_since;

/* Numbers the attempts at balancing */
static u64 balance_attempts;

/*
 * Zero, though the verifier cannot know. Sums over many CPUs start from it: from a number that it knows, the verifier
 * would follow the sum through every round of the loop and give up.
 */
static volatile u64 unknown_zero;

#include "o1_priority.h"

/* Weight of a task in load balancing: its slice relative to that of nice 0; every task alike before 2.6.22. */
static u32 load_weight(s32 static_prio)
{
	if (release != RELEASE_2_6_22)
		return SCHED_LOAD_SCALE;
	return static_prio_timeslice(static_prio) * SCHED_LOAD_SCALE / (timeslice_default() ?: 1);
}

/* ---- The tick -------------------------------------------------------------------------------------------------- */

/* task_running_tick() for one tick: true if the task has to make way. */
static __noinline bool task_running_tick(struct run_queue *rq, struct task_ctx *t, u64 jiffies)
{
	u32 active = rq->active & 1;
	u32 turn;

	/* It has expired but was not switched away from yet */
	if (t->array != active)
		return true;

	if (t->time_slice)
		t->time_slice--;
	if (!t->time_slice) {
		count(STAT_SLICES_EXPIRED);
		t->place = PLACE_TAIL;
		t->prio = effective_prio(t);
		t->time_slice = task_timeslice(t);
		t->first_time_slice = false;
		if (!rq->expired_timestamp)
			rq->expired_timestamp = jiffies;
		if (task_interactive(t)) {
			if (!expired_starving(rq, t, jiffies)) {
				count(STAT_REINSERTED_ACTIVE);
				return true;
			}
			count(STAT_EXPIRED_STARVING);
		}
		t->array = 1 - active;
		if (t->static_prio < rq->best_expired_prio)
			rq->best_expired_prio = t->static_prio;
		return true;
	}

	/* An interactive task takes turns with others of its priority within its slice */
	if (!task_interactive(t))
		return false;
	turn = timeslice_granularity(t);
	if (t->time_slice >= turn && (task_timeslice(t) - t->time_slice) % turn == 0) {
		count(STAT_ROUND_ROBINS);
		t->place = PLACE_TAIL;
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
	bpf_for(i, 0, smaller(jiffies - from, 1000))
		need_resched |= task_running_tick(rq, t, from + 1 + i);
	rq->curr_prio = t->prio;
	return need_resched || t->rescued;
}

/* Time to the tick at which the task's slice ends, nanoseconds */
static __always_inline u64 slice_left(const struct task_ctx *t, u64 now)
{
	return time_to_tick(now, t->rescued ? 1 : t->time_slice ?: 1, hz);
}

/* True from the time on at which the CPU is to look for starving tasks. */
static __always_inline bool rescue_due(const struct run_queue *rq, u64 now)
{
	return starvation_limit && rq->nr_running > 1 && !time_before(now, rq->rescue_at);
}

/* ---- Counting and queueing ------------------------------------------------------------------------------------- */

struct balance_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct balance_timer);
} balance_timer_map SEC(".maps");

static __always_inline long start_balance_timer(void)
{
	struct balance_timer *timer;
	u32 key = 0;

	timer = bpf_map_lookup_elem(&balance_timer_map, &key);
	if (!timer)
		return -ESRCH;
	return bpf_timer_start(&timer->timer, time_to_tick(scx_bpf_now(), 1, hz), 0);
}

/* Somebody is runnable, and was counted before: the timer goes on. */
static __always_inline void switch_balancing_on(void)
{
	if (balancing_is_off && __sync_lock_test_and_set(&balancing_is_off, 0))
		start_balance_timer();
}

/* Counts a task on @cpu's run queue, or on none if @cpu is -1. */
static __noinline void count_on(struct task_ctx *t, s32 cpu)
{
	s32 old = __sync_lock_test_and_set(&t->cpu, cpu);
	struct run_queue *rq;

	if (old == cpu)
		return;
	if (old >= 0) {
		rq = run_queue_of(old);
		if (rq) {
			if (__sync_fetch_and_add(&rq->nr_running, -1) == 2)
				__sync_fetch_and_add(&nr_overloaded, -1);
			__sync_fetch_and_add(&rq->raw_weighted_load, -(u64)t->load_weight);
		}
	}
	if (cpu >= 0) {
		rq = run_queue_of(cpu);
		if (rq) {
			if (__sync_fetch_and_add(&rq->nr_running, 1) == 1)
				__sync_fetch_and_add(&nr_overloaded, 1);
			__sync_fetch_and_add(&rq->raw_weighted_load, (u64)t->load_weight);
		}
		/* Also of a task that moves: between its two CPUs, nobody seemed to be runnable */
		switch_balancing_on();
	}
}

/* Has @cpu reconsider what it runs. */
static __always_inline void resched_cpu(s32 cpu, const struct run_queue *rq)
{
	scx_bpf_kick_cpu(cpu, rq->idle ? SCX_KICK_IDLE : SCX_KICK_PREEMPT);
}

/* TASK_PREEMPTS_CURR: strictly better than the running task */
static __always_inline bool task_preempts_curr(const struct task_ctx *t, const struct run_queue *rq)
{
	return t->prio < rq->curr_prio;
}

/* ---- Waking up ------------------------------------------------------------------------------------------------- */

/* activate_task(): credits the sleep and puts the task's priority right. */
static void activate_task(struct task_struct *p, struct task_ctx *t, struct run_queue *rq, u64 now)
{
	u64 slept = time_before(t->timestamp, now) ? now - t->timestamp : 0;

	if (t->uninterruptible)
		t->sleep_type = SLEEP_NONINTERACTIVE;
	t->uninterruptible = false;
	t->prio = recalc_task_prio(p, t, slept);
	if (t->sleep_type == SLEEP_NORMAL)
		t->sleep_type = in_interrupt() ? SLEEP_INTERRUPTED : SLEEP_INTERACTIVE;
	t->timestamp = now;
	t->array = rq->active & 1;
	if (release == RELEASE_2_6_22 && batch_task(p))
		t->array = 1 - t->array;
	t->place = PLACE_TAIL;
}

/*
 * wake_up_new_task(): lowers the credit of child and parent. On the parent's CPU, a child with an address space of its
 * own goes directly in front of its parent; otherwise it queues like any other.
 */
static __noinline void wake_up_new_task(struct task_struct *p, struct task_ctx *t,
					struct run_queue *rq, s32 cpu)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	u32 step = max_sleep_avg() / max_bonus();
	struct task_ctx *parent_ctx;

	t->new = false;
	t->array = rq->active & 1;
	if (release == RELEASE_2_6_22 && batch_task(p))
		t->array = 1 - t->array;
	t->place = PLACE_TAIL;
	t->timestamp = scx_bpf_now();

	parent_ctx = task_ctx_of(parent);
	if (!parent_ctx || !parent_ctx->running) {
		t->prio = effective_prio(t);
		return;
	}

	t->sleep_avg = jiffies_to_ns((u64)(current_bonus(t) * child_penalty / 100) * step);
	t->prio = effective_prio(t);
	parent_ctx->sleep_avg =
		jiffies_to_ns((u64)(current_bonus(parent_ctx) * parent_penalty / 100) * step);

	if (cpu != (s32)bpf_get_smp_processor_id() || p->mm == parent->mm)
		return;
	count(STAT_CHILDREN_FIRST);
	t->prio = parent_ctx->prio;
	t->array = parent_ctx->array & 1;
	t->place = PLACE_HEAD;
	parent_ctx->child_first = true;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* ---- Scheduling domains ---------------------------------------------------------------------------------------- */

enum domain_flags {
	SD_BALANCE_NEWIDLE = 1 << 0,
	SD_BALANCE_FORK = 1 << 1,
	SD_WAKE_AFFINE = 1 << 2,
	SD_WAKE_IDLE = 1 << 3,
	SD_WAKE_BALANCE = 1 << 4,
};

/* Intervals in ms; the *_idx say which load to compare: 0 the present one, i the history cpu_load[i - 1] with it. */
struct domain_parameters {
	u32 min_interval;
	u32 max_interval;
	u32 busy_factor;
	u32 cache_nice_tries;
	u32 busy_idx;
	u32 idle_idx;
	u32 newidle_idx;
	u32 wake_idx;
	u32 forkexec_idx;
	u32 flags;
};

static const struct domain_parameters domain_parameters_2_6_22[NR_LEVELS] = {
	[LEVEL_SIBLING] = { 1, 2, 64, 0, 0, 0, 1, 0, 0,
			    SD_BALANCE_NEWIDLE | SD_WAKE_AFFINE | SD_WAKE_IDLE },
	[LEVEL_CPU] = { 1, 4, 64, 1, 2, 1, 2, 1, 1, SD_BALANCE_NEWIDLE | SD_WAKE_AFFINE },
	[LEVEL_NODE] = { 8, 32, 32, 1, 3, 1, 2, 1, 1, SD_BALANCE_FORK | SD_WAKE_BALANCE },
};

/* One history, cpu_load[1], which averages over two ticks */
static const struct domain_parameters domain_parameters_2_6_11[NR_LEVELS] = {
	[LEVEL_SIBLING] = { 1, 2, 8, 0, 2, 2, 2, 2, 2,
			    SD_BALANCE_NEWIDLE | SD_WAKE_AFFINE | SD_WAKE_IDLE },
	[LEVEL_CPU] = { 1, 4, 64, 1, 2, 2, 2, 2, 2,
			SD_BALANCE_NEWIDLE | SD_WAKE_AFFINE | SD_WAKE_IDLE | SD_WAKE_BALANCE },
	[LEVEL_NODE] = { 8, 32, 32, 1, 2, 2, 2, 2, 2, SD_BALANCE_NEWIDLE | SD_WAKE_BALANCE },
};

static __always_inline const struct domain_parameters *parameters_of(u32 level)
{
	if (level >= NR_LEVELS)
		level = 0;
	return release == RELEASE_2_6_22 ? &domain_parameters_2_6_22[level] :
					   &domain_parameters_2_6_11[level];
}

static __always_inline u32 imbalance_pct_of(u32 level)
{
	if (level == LEVEL_SIBLING)
		return imbalance_pct_sibling;
	return level == LEVEL_CPU ? imbalance_pct_cpu : imbalance_pct_node;
}

static __always_inline u64 cache_hot_time_of(u32 level)
{
	u32 microseconds = level == LEVEL_SIBLING ? cache_hot_time_sibling :
			   level == LEVEL_CPU	  ? cache_hot_time_cpu :
						    cache_hot_time_node;

	return microseconds * NSEC_PER_USEC;
}

static __always_inline s32 cpu_at(u32 position)
{
	s32 cpu = topology_cpu_at(position);

	return cpu >= 0 ? cpu : (s32)position;
}

static __always_inline u32 position_of(s32 cpu)
{
	const volatile struct cpu_topology *place = topology_of(cpu);

	return place ? place->position : (u32)cpu;
}

/* False for a number in the range of CPU numbers that no CPU has */
static __always_inline bool cpu_exists(s32 cpu)
{
	const volatile struct cpu_topology *place = topology_of(cpu);

	return !place || place->capacity;
}

/* CPUs among which @cpu balances at @level; without a known topology, all CPUs are cores of one node. */
static __always_inline void domain_span(u32 level, s32 cpu, struct topology_span *span)
{
	const volatile struct cpu_topology *place = topology_of(cpu);

	span->first = 0;
	span->count = nr_cpu_ids;
	if (place && level == LEVEL_SIBLING) {
		span->first = place->core_cpus.first;
		span->count = place->core_cpus.count;
	} else if (place && level == LEVEL_CPU) {
		span->first = place->node_cpus.first;
		span->count = place->node_cpus.count;
	} else if (!place && level == LEVEL_SIBLING) {
		span->first = cpu;
		span->count = 1;
	}
}

/* The group of @cpu at @level: the domain of the level below. */
static __always_inline void group_span(u32 level, s32 cpu, struct topology_span *span)
{
	if (level == LEVEL_SIBLING) {
		span->first = position_of(cpu);
		span->count = 1;
	} else {
		domain_span(level - 1, cpu, span);
	}
}

/* True if @level has more than one group for @cpu; the others are left out. */
static __always_inline bool domain_exists(u32 level, s32 cpu)
{
	struct topology_span domain, group;

	domain_span(level, cpu, &domain);
	group_span(level, cpu, &group);
	return domain.count > group.count;
}

static __always_inline bool in_span(const struct topology_span *span, u32 position)
{
	return position - span->first < span->count;
}

/* History of the load as of @type, 1 to 3 */
static __always_inline u64 load_history(const struct run_queue *rq, u32 type)
{
	switch (type) {
	case 1:
		return rq->cpu_load[0];
	case 2:
		return rq->cpu_load[1];
	case 3:
		return rq->cpu_load[2];
	default:
		return rq->raw_weighted_load;
	}
}

/* A low guess at the load of a CPU that would give tasks away */
static __always_inline u64 source_load(const struct run_queue *rq, u32 type)
{
	u64 history = load_history(rq, type);

	return history < rq->raw_weighted_load ? history : rq->raw_weighted_load;
}

/* A high guess at the load of a CPU that would get tasks */
static __always_inline u64 target_load(const struct run_queue *rq, u32 type)
{
	u64 history = load_history(rq, type);

	return history > rq->raw_weighted_load ? history : rq->raw_weighted_load;
}

/* update_load(): cpu_load[i] = (old * (2^i - 1) + new) / 2^i, rounded up when it rises; once for each tick. */
static void update_load(struct run_queue *rq, u64 load)
{
	int i;

	for (i = 0; i < 3; i++) {
		u64 old_load = rq->cpu_load[i];
		u64 new_load = load;

		if (new_load > old_load)
			new_load += (1 << i) - 1;
		rq->cpu_load[i] = (old_load * ((1 << i) - 1) + new_load) >> i;
	}
}

/* ---- Choosing a CPU for a waking task -------------------------------------------------------------------------- */

/* True if @p may run on @cpu. */
static __always_inline bool cpu_allowed(const struct task_struct *p, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/* wake_idle(): an idle CPU close to @cpu, in the domains that are searched for one; else @cpu. */
__noinline s32 wake_idle(struct task_struct *p __arg_trusted, s32 cpu)
{
	struct run_queue *rq = run_queue_of(cpu);
	struct topology_span span;
	u32 level;
	int i;

	if (!rq || rq->idle || (release == RELEASE_2_6_22 && rq->nr_running > 1))
		return cpu;

	bpf_for(level, LEVEL_SIBLING, NR_LEVELS) {
		if (!domain_exists(level, cpu))
			continue;
		if (!(parameters_of(level)->flags & SD_WAKE_IDLE))
			break;
		domain_span(level, cpu, &span);
		bpf_for(i, 0, span.count) {
			s32 other = cpu_at(span.first + i);

			rq = run_queue_of(other);
			if (rq && rq->idle && cpu_allowed(p, other)) {
				count(STAT_WAKE_IDLE);
				return other;
			}
		}
	}
	return cpu;
}

/* True if @p, which last ran on @cpu, should wake up on @this_cpu, by the rules of 2.6.22. */
static bool wake_here(const struct task_ctx *t, struct run_queue *rq, struct run_queue *this_rq,
		      u32 level, bool sync)
{
	const struct domain_parameters *domain = parameters_of(level);
	u32 imbalance = 100 + (imbalance_pct_of(level) - 100) / 2;
	u64 load = source_load(rq, domain->wake_idx);
	u64 this_load = target_load(this_rq, domain->wake_idx);

	if (domain->flags & SD_WAKE_AFFINE) {
		u64 tl = this_load;
		u64 tl_per_task = this_rq->nr_running ?
				  this_rq->raw_weighted_load / this_rq->nr_running :
				  SCHED_LOAD_SCALE;

		if (sync)
			tl -= tl < this_rq->curr_load_weight ? tl : this_rq->curr_load_weight;
		if ((tl <= load && tl + target_load(rq, domain->wake_idx) <= tl_per_task) ||
		    100 * (tl + t->load_weight) <= imbalance * load)
			return true;
	}
	return (domain->flags & SD_WAKE_BALANCE) && imbalance * this_load <= 100 * load;
}

/* The same by the rules of 2.6.11: cache-cold tasks follow their waker, unless they would leave an idle CPU. */
static bool wake_here_2_6_11(const struct task_ctx *t, struct run_queue *rq,
			     struct run_queue *this_rq, u32 level, bool sync)
{
	const struct domain_parameters *domain = parameters_of(level);
	u32 pct = imbalance_pct_of(level);
	u32 imbalance = pct + (pct - 100) / 2;
	u64 load = source_load(rq, domain->wake_idx);
	u64 this_load = target_load(this_rq, domain->wake_idx);
	bool hot = scx_bpf_now() - t->last_ran < cache_hot_time_of(level);

	if (sync)
		this_load -= this_load < SCHED_LOAD_SCALE ? this_load : SCHED_LOAD_SCALE;
	if (load < SCHED_LOAD_SCALE / 2 && this_load > SCHED_LOAD_SCALE / 2)
		return false;
	if ((domain->flags & SD_WAKE_AFFINE) && !hot)
		return true;
	return (domain->flags & SD_WAKE_BALANCE) && imbalance * this_load <= 100 * load;
}

/*
 * sched_balance_self() for fork, which only nodes ask for: the least loaded CPU of the least loaded node, if
 * that node is clearly less loaded than this one.
 */
__noinline s32 balance_fork(struct task_struct *p __arg_trusted, s32 this_cpu)
{
	u32 idx = parameters_of(LEVEL_NODE)->forkexec_idx;
	u32 imbalance = 100 + (imbalance_pct_of(LEVEL_NODE) - 100) / 2;
	u64 avg_load = unknown_zero, power = unknown_zero, this_load = 0, min_load = ~0ULL;
	struct topology_span group, idlest = {};
	s32 best = this_cpu;
	bool allowed = false;
	int i;

	if (!(parameters_of(LEVEL_NODE)->flags & SD_BALANCE_FORK) ||
	    !domain_exists(LEVEL_NODE, this_cpu))
		return this_cpu;

	bpf_for(i, 0, nr_cpu_ids) {
		s32 cpu = cpu_at(i);
		struct run_queue *rq = run_queue_of(cpu);
		bool local;

		if (!rq)
			continue;
		group_span(LEVEL_NODE, cpu, &group);
		local = in_span(&group, position_of(this_cpu));
		avg_load += local ? source_load(rq, idx) : target_load(rq, idx);
		power += cpu_exists(cpu) ? SCHED_LOAD_SCALE : 0;
		allowed |= cpu_allowed(p, cpu);
		if (i + 1 < group.first + group.count)
			continue;

		avg_load = avg_load * SCHED_LOAD_SCALE / (power ?: 1);
		if (local) {
			this_load = avg_load;
		} else if (allowed && avg_load < min_load) {
			min_load = avg_load;
			idlest = group;
		}
		avg_load = unknown_zero;
		power = unknown_zero;
		allowed = false;
	}
	if (!idlest.count || 100 * this_load < imbalance * min_load)
		return this_cpu;

	min_load = ~0ULL;
	bpf_for(i, 0, idlest.count) {
		s32 cpu = cpu_at(idlest.first + i);
		struct run_queue *rq = run_queue_of(cpu);

		if (rq && cpu_exists(cpu) && cpu_allowed(p, cpu) &&
		    rq->raw_weighted_load < min_load) {
			min_load = rq->raw_weighted_load;
			best = cpu;
		}
	}
	return best;
}

s32 BPF_STRUCT_OPS(o1_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id();
	struct task_ctx *t = task_ctx_of(p);
	struct run_queue *rq, *this_rq;
	bool sync = wake_flags & SCX_WAKE_SYNC;
	struct topology_span span;
	s32 cpu = prev_cpu;
	u32 level;

	if (!t)
		return prev_cpu;
	t->sync = sync;
	if (wake_flags & SCX_WAKE_FORK)
		return num_online_cpus > 1 ? balance_fork(p, prev_cpu) : prev_cpu;

	rq = run_queue_of(prev_cpu);
	this_rq = run_queue_of(this_cpu);
	if (!rq || !this_rq || num_online_cpus == 1)
		return prev_cpu;
	if (prev_cpu == this_cpu || !cpu_allowed(p, this_cpu))
		return wake_idle(p, prev_cpu);

	bpf_for(level, LEVEL_SIBLING, NR_LEVELS) {
		bool here;

		domain_span(level, this_cpu, &span);
		if (!in_span(&span, position_of(prev_cpu)))
			continue;
		if (release == RELEASE_2_6_22)
			here = wake_here(t, rq, this_rq, level, sync);
		else
			here = wake_here_2_6_11(t, rq, this_rq, level, sync);
		if (here) {
			count(STAT_WAKE_AFFINE);
			cpu = this_cpu;
			break;
		}
		/* 2.6.22 asks the lowest domain that holds both CPUs, 2.6.11 all of them */
		if (release == RELEASE_2_6_22)
			break;
	}
	return wake_idle(p, cpu);
}

/* ---- Runnable, queued, running, stopped ------------------------------------------------------------------------ */

void BPF_STRUCT_OPS(o1_runnable, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_ctx *t = task_ctx_of(p);
	struct run_queue *rq = run_queue_of(cpu);

	if (!t || !rq)
		return;
	if (t->new) {
		wake_up_new_task(p, t, rq, cpu);
	} else if (enq_flags & SCX_ENQ_WAKEUP) {
		count(STAT_WAKEUPS);
		activate_task(p, t, rq, scx_bpf_now());
	}
	count_on(t, cpu);
}

void BPF_STRUCT_OPS(o1_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return;
	/* Kernel threads that wait without counting as load wait as older ones waited interruptibly */
	t->uninterruptible = (deq_flags & SCX_DEQ_SLEEP) &&
			     (p->__state & TASK_UNINTERRUPTIBLE) && !(p->__state & TASK_NOLOAD);
	count_on(t, -1);
}

void BPF_STRUCT_OPS(o1_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_ctx *t = task_ctx_of(p);
	struct run_queue *rq = run_queue_of(cpu);
	u64 slice;
	u32 index;
	s32 push_cpu;

	if (!t || !rq) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return;
	}
	slice = slice_left(t, scx_bpf_now());

	push_cpu = t->push_cpu;
	t->push_cpu = -1;
	if (push_cpu >= 0) {
		struct run_queue *push_rq = run_queue_of(push_cpu);

		if (push_rq) {
			count(STAT_PUSHED);
			count_on(t, push_cpu);
			push_rq->pushed_to = true;
			scx_bpf_dsq_insert(p, pushed_dsq(push_cpu), slice, 0);
			resched_cpu(push_cpu, push_rq);
			return;
		}
	}

	/* Moved here by the kernel, for instance because of its affinity */
	count_on(t, cpu);

	index = list_index(t->prio);
	set_list_bit(rq, t->array, index);
	scx_bpf_dsq_insert(p, list_dsq(cpu, t->array, index), slice,
			   t->place == PLACE_HEAD ? SCX_ENQ_HEAD : 0);
	t->place = PLACE_TAIL;

	if (!task_preempts_curr(t, rq))
		return;
	/* The waker will leave the CPU soon, and then the task's turn comes without more ado */
	if ((enq_flags & SCX_ENQ_WAKEUP) && t->sync && cpu == (s32)bpf_get_smp_processor_id())
		return;
	count(STAT_PREEMPTIONS);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

void BPF_STRUCT_OPS(o1_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_ctx *t = task_ctx_of(p);
	struct run_queue *rq = run_queue_of(cpu);
	u64 now = scx_bpf_now();

	if (!t || !rq)
		return;

	/* First run after a wake-up: waiting on the queue counts as sleep, wholly or in part */
	if (t->sleep_type == SLEEP_INTERACTIVE || t->sleep_type == SLEEP_INTERRUPTED) {
		u64 delta = time_before(t->timestamp, now) ? now - t->timestamp : 0;

		if (t->sleep_type == SLEEP_INTERACTIVE)
			delta = delta * (on_runqueue_weight * 128 / 100) / 128;
		t->prio = recalc_task_prio(p, t, delta);
	}
	t->sleep_type = SLEEP_NORMAL;
	t->timestamp = now;
	t->last_ran = now;
	t->charged_until = jiffies_at(now);
	t->running = true;
	/* The running task stays in its list in the original; renicing puts it at the end, as a tick out of turn does here */
	t->place = t->reniced || t->rescued ? PLACE_TAIL : PLACE_HEAD;
	t->reniced = false;

	rq->curr_prio = t->prio;
	rq->curr_load_weight = t->load_weight;
	scx_bpf_task_set_slice(p, slice_left(t, now));
}

void BPF_STRUCT_OPS(o1_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *t = task_ctx_of(p);
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(p));
	u64 now = scx_bpf_now();

	if (!t || !rq)
		return;
	charge_ticks(rq, t, now);
	charge_run_time(t, now);
	t->running = false;
	t->rescued = false;
	rq->curr_prio = NO_CURRENT;
	/*
	 * A task with slice left would wait for the CPU outside of its list and come back before a better one. Without,
	 * the kernel hands it back.
	 */
	if (runnable)
		scx_bpf_task_set_slice(p, 0);
}

void BPF_STRUCT_OPS(o1_tick, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(p));
	u64 now = scx_bpf_now();
	bool need_resched;

	if (!t || !rq)
		return;
	need_resched = charge_ticks(rq, t, now);
	/* Slices may be set so long that nobody else is picked for seconds */
	if (now >= RESCUE_INTERVAL && rescue_due(rq, now - RESCUE_INTERVAL))
		need_resched = true;
	scx_bpf_task_set_slice(p, need_resched ? 0 : slice_left(t, now));
}

bool BPF_STRUCT_OPS(o1_yield, struct task_struct *from, struct task_struct *to)
{
	struct task_ctx *t = task_ctx_of(from);
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(from));

	if (to || !t || !rq)
		return false;
	count(STAT_YIELDS);
	t->array = 1 - (rq->active & 1);
	t->place = PLACE_TAIL;
	scx_bpf_task_set_slice(from, 0);
	return true;
}

void BPF_STRUCT_OPS(o1_update_idle, s32 cpu, bool idle)
{
	struct run_queue *rq = run_queue_of(cpu);

	if (!rq)
		return;
	rq->idle = idle;
	if (!idle)
		return;
	rq->expired_timestamp = 0;
	/* A task came while the CPU was on its way to being idle */
	if (rq->bitmap[0] | rq->bitmap[1])
		scx_bpf_kick_cpu(cpu, 0);
}

/* ---- Balancing ------------------------------------------------------------------------------------------------- */

enum idle_type {
	NOT_IDLE,
	/* Idle for a while: the timer finds it so */
	IDLE,
	/* About to become idle */
	NEWLY_IDLE,
};

/* One attempt to pull tasks to a CPU within one of its domains */
struct balance {
	s32 cpu;
	u32 level;
	enum idle_type idle;
	/* sd_idle: this is about the threads of one core and all of them are idle */
	bool sd_idle;
	/* All tasks of the busiest run queue are pinned to other CPUs */
	bool all_pinned;
	/* Weighted load to move; before 2.6.22, number of tasks */
	u64 imbalance;
	/* The busiest group */
	struct topology_span group;
	/* The CPU of the local group that balances for it, and whether that is this one */
	s32 balance_cpu;
	bool eligible;
	u64 number;
};

/* Totals of a group; the load is later divided by the power */
struct group_totals {
	u64 load;
	u64 power;
	u64 weighted_load;
	u32 nr_running;
};

/* What find_busiest_group() has seen so far */
struct groups {
	struct group_totals local;
	struct group_totals busiest;
	/* The group at hand */
	struct group_totals sums;
	u64 total_load;
	u64 total_power;
	/* Where the next group begins */
	u32 position;
};

/*
 * Imbalance too small for the average task of the busiest group: move one anyway if the loads differ by more than that
 * task, or if CPUs would get more done. All loads are per CPU power.
 */
__noinline bool small_imbalance(struct balance *b __arg_nonnull,
				const struct group_totals *local __arg_nonnull,
				const struct group_totals *busiest __arg_nonnull, u64 per_task)
{
	u64 this_per_task = SCHED_LOAD_SCALE, pwr_now, pwr_move = 0, tmp;
	u32 imbn = 2;

	if (local->nr_running) {
		this_per_task = local->weighted_load / local->nr_running;
		if (per_task > this_per_task)
			imbn = 1;
	}
	if (busiest->load - local->load >= per_task * imbn) {
		b->imbalance = per_task;
		return true;
	}

	pwr_now = (busiest->power * smaller(per_task, busiest->load) +
		   local->power * smaller(this_per_task, local->load)) /
		  SCHED_LOAD_SCALE;

	/* Load that the busiest group would lose */
	tmp = per_task * SCHED_LOAD_SCALE / busiest->power;
	if (busiest->load > tmp)
		pwr_move += busiest->power * smaller(per_task, busiest->load - tmp);

	/* Load that this group would gain */
	tmp = smaller(busiest->load * busiest->power, per_task * SCHED_LOAD_SCALE) / local->power;
	pwr_move += local->power * smaller(this_per_task, local->load + tmp);
	pwr_move /= SCHED_LOAD_SCALE;

	if (pwr_move <= pwr_now)
		return false;
	b->imbalance = per_task;
	return true;
}

/* The amount to move by the rules of 2.6.22, in b->imbalance; false if the groups are balanced. */
__noinline bool find_imbalance(struct balance *b __arg_nonnull,
			       const struct group_totals *local __arg_nonnull,
			       const struct group_totals *busiest __arg_nonnull, u64 avg_load)
{
	u64 per_task, max_pull;

	if (local->load >= busiest->load || local->load >= avg_load ||
	    100 * busiest->load <= imbalance_pct_of(b->level) * local->load || !busiest->nr_running)
		return false;
	per_task = busiest->weighted_load / busiest->nr_running;
	if (busiest->load <= per_task)
		return false;
	/* The busiest with tasks to spare may have less than the average, which counts all groups */
	if (busiest->load < avg_load)
		return small_imbalance(b, local, busiest, per_task);

	max_pull = smaller(busiest->load - avg_load, busiest->load - per_task);
	b->imbalance = smaller(max_pull * busiest->power, (avg_load - local->load) * local->power) /
		       SCHED_LOAD_SCALE;
	if (b->imbalance < per_task)
		return small_imbalance(b, local, busiest, per_task);
	return true;
}

/* The number of tasks to move by the rules of 2.6.11, in b->imbalance; false if the groups are balanced. */
__noinline bool find_imbalance_2_6_11(struct balance *b __arg_nonnull,
				      const struct group_totals *local __arg_nonnull,
				      const struct group_totals *busiest __arg_nonnull, u64 avg_load)
{
	u64 scale = SCHED_LOAD_SCALE;
	u64 amount, pwr_now, pwr_move = 0, tmp;

	if (local->load >= busiest->load || local->load >= avg_load ||
	    100 * busiest->load <= imbalance_pct_of(b->level) * local->load)
		goto balanced;

	amount = smaller(busiest->load - avg_load, avg_load - local->load) *
		 smaller(busiest->power, local->power) / scale;
	if (amount >= scale - 1) {
		b->imbalance = (amount + 1) / scale;
		return true;
	}

	b->imbalance = 1;
	if (busiest->load - local->load >= 2 * scale)
		return true;
	pwr_now = (busiest->power * smaller(scale, busiest->load) +
		   local->power * smaller(scale, local->load)) /
		  scale;
	tmp = scale * scale / busiest->power;
	if (busiest->load > tmp)
		pwr_move += busiest->power * smaller(scale, busiest->load - tmp);
	tmp = smaller(busiest->load, scale * scale / local->power);
	pwr_move += local->power * smaller(scale, local->load + tmp);
	pwr_move /= scale;
	if (pwr_move >= pwr_now + scale / 8)
		return true;

balanced:
	b->imbalance = 1;
	return b->idle == NEWLY_IDLE || (b->idle == IDLE && busiest->load > scale);
}

/*
 * Adds up the CPUs of one group, those left out excepted: @count from position @first on. In the local group only the
 * first idle CPU, or the first of all, balances for it: that is b->balance_cpu.
 */
__noinline int sum_group(struct balance *b __arg_nonnull, struct group_totals *totals __arg_nonnull,
			 u32 first, u32 count, bool local)
{
	const struct domain_parameters *domain = parameters_of(b->level);
	u32 idx = b->idle == NOT_IDLE ? domain->busy_idx :
		  b->idle == IDLE     ? domain->idle_idx :
					domain->newidle_idx;
	bool found_idle = false;
	int i;

	totals->load = 0;
	totals->power = 0;
	totals->weighted_load = 0;
	totals->nr_running = 0;

	bpf_for(i, 0, count) {
		u32 position = first + i;
		s32 cpu = cpu_at(position);
		struct run_queue *rq = run_queue_of(cpu);
		const volatile struct cpu_topology *place;

		if (!rq || !cpu_exists(cpu) || rq->excluded_by == b->number)
			continue;
		if (!rq->idle)
			b->sd_idle = false;
		if (local && (b->balance_cpu < 0 || (rq->idle && !found_idle))) {
			b->balance_cpu = cpu;
			found_idle = rq->idle;
		}
		totals->load += local ? target_load(rq, idx) : source_load(rq, idx);
		totals->nr_running += rq->nr_running;
		totals->weighted_load += rq->raw_weighted_load;
		/* A core counts as one CPU, however many threads it has */
		place = topology_of(cpu);
		if (b->level == LEVEL_SIBLING || !place || place->core_cpus.first == position)
			totals->power += SCHED_LOAD_SCALE;
	}
	return 0;
}

/*
 * Takes the group at groups->position into account: adds it up and keeps it if it is the local one or the busiest so far.
 * Moves on to the next group, which follows the domain's last one at its first; true if there is more to look at.
 */
__noinline bool visit_group(struct balance *b __arg_nonnull, struct groups *groups __arg_nonnull)
{
	struct topology_span span, own, group;
	struct group_totals *sums = &groups->sums;
	bool local;

	domain_span(b->level, b->cpu, &span);
	group_span(b->level, b->cpu, &own);
	group_span(b->level, cpu_at(groups->position), &group);
	local = group.first == own.first;
	sum_group(b, sums, group.first, group.count, local);

	/* Another CPU of this group balances for it */
	if (local && release == RELEASE_2_6_22 && b->idle != NEWLY_IDLE && b->balance_cpu != b->cpu) {
		b->eligible = false;
		return false;
	}

	if (sums->power) {
		groups->total_load += sums->load;
		groups->total_power += sums->power;
		sums->load = sums->load * SCHED_LOAD_SCALE / sums->power;
		if (local) {
			groups->local = *sums;
		} else if (sums->load > groups->busiest.load &&
			   (release != RELEASE_2_6_22 ||
			    sums->nr_running > sums->power / SCHED_LOAD_SCALE)) {
			groups->busiest = *sums;
			b->group = group;
		}
	}

	groups->position = group.first + group.count;
	if (groups->position >= span.first + span.count)
		groups->position = span.first;
	return groups->position != own.first;
}

/*
 * True if no group has more tasks than CPUs, which those of 2.6.22 must have to be the busiest, and that is seen without
 * adding them up. (A core counts as one CPU, so two tasks may be too many for it though each of its threads has only one.)
 */
static __always_inline bool nobody_is_busiest(void)
{
	return release == RELEASE_2_6_22 && !has_threads && !nr_overloaded;
}

/*
 * find_busiest_group(): the group with the highest load for its power among those with more tasks than CPUs, if it
 * has enough more than the group of this CPU. Looks at every CPU of the domain, the local group first.
 */
__noinline bool find_busiest_group(struct balance *b __arg_nonnull)
{
	struct groups groups = {};
	struct topology_span span;
	u64 avg_load;
	int i;

	domain_span(b->level, b->cpu, &span);
	b->group.count = 0;
	b->balance_cpu = -1;
	groups.position = position_of(b->cpu);

	bpf_for(i, 0, span.count) {
		/* Whoever balances at intervals first asks its own group whether that is for it to do */
		if ((i || b->idle == NEWLY_IDLE) && nobody_is_busiest())
			return false;
		if (!visit_group(b, &groups))
			break;
	}

	if (!b->eligible || !b->group.count || !groups.local.power || !groups.busiest.power)
		return false;
	avg_load = SCHED_LOAD_SCALE * groups.total_load / groups.total_power;
	if (release == RELEASE_2_6_22)
		return find_imbalance(b, &groups.local, &groups.busiest, avg_load);
	return find_imbalance_2_6_11(b, &groups.local, &groups.busiest, avg_load);
}

/* find_busiest_queue(): the CPU of the group with the highest load, -1 if none has a task that could be moved. */
__noinline s32 find_busiest_queue(struct balance *b __arg_nonnull)
{
	u64 max_load = 0;
	s32 busiest = -1;
	int i;

	bpf_for(i, 0, b->group.count) {
		s32 cpu = cpu_at(b->group.first + i);
		struct run_queue *rq = run_queue_of(cpu);

		if (!rq || rq->excluded_by == b->number)
			continue;
		if (release == RELEASE_2_6_22 && rq->nr_running == 1 &&
		    rq->raw_weighted_load > b->imbalance)
			continue;
		if (rq->raw_weighted_load > max_load) {
			max_load = rq->raw_weighted_load;
			busiest = cpu;
		}
	}
	return busiest;
}

/* True if neither @cpu nor another thread of its core runs anything. */
static __noinline bool cpu_and_siblings_are_idle(s32 cpu)
{
	struct topology_span span;
	int i;

	domain_span(LEVEL_SIBLING, cpu, &span);
	bpf_for(i, 0, span.count) {
		struct run_queue *rq = run_queue_of(cpu_at(span.first + i));

		if (rq && !rq->idle)
			return false;
	}
	return true;
}

/* can_migrate_task() for a waiting task: allowed on this CPU and, unless balancing failed too often, cache-cold. */
static bool can_migrate_task(struct task_struct *p, const struct task_ctx *t, struct balance *b,
			     u32 nr_balance_failed, u64 now)
{
	if (!cpu_allowed(p, b->cpu) || is_migration_disabled(p))
		return false;
	b->all_pinned = false;
	if (nr_balance_failed > parameters_of(b->level)->cache_nice_tries)
		return true;
	if (release != RELEASE_2_6_22 && cpu_and_siblings_are_idle(b->cpu))
		return true;
	return (s64)(now - t->last_ran) >= (s64)cache_hot_time_of(b->level);
}

/* What move_tasks() still has to do */
struct move {
	s32 busiest;
	u32 nr_left;
	s64 load_left;
	u32 pulled;
	u32 nr_balance_failed;
	s32 this_best_prio;
	s32 best_prio;
	bool best_prio_seen;
};

/* Best priority on a run queue: of the running task (140 if idle) or, static, of the expired array */
static __always_inline s32 rq_best_prio(const struct run_queue *rq)
{
	s32 prio = rq->curr_prio == NO_CURRENT ? MAX_PRIO : rq->curr_prio;

	return prio < rq->best_expired_prio ? prio : rq->best_expired_prio;
}

/* Pulls tasks from one list of the busiest CPU, the one queued last first. Returns how many more may be pulled. */
__noinline u32 move_list(struct balance *b __arg_nonnull, struct move *m __arg_nonnull, u32 source,
			 u32 target, u32 index)
{
	struct run_queue *rq = run_queue_of(m->busiest), *this_rq = run_queue_of(b->cpu);
	s32 prio = MAX_RT_PRIO + index;
	u64 now = scx_bpf_now();
	struct task_struct *p;

	if (!rq || !this_rq)
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, list_dsq(m->busiest, source, index), SCX_DSQ_ITER_REV) {
		struct task_ctx *t = task_ctx_of(p);
		bool skip_for_load;
		u32 weight;

		if (!t)
			continue;
		weight = t->load_weight;
		skip_for_load = release == RELEASE_2_6_22 && weight > m->load_left;
		if (skip_for_load && prio < m->this_best_prio)
			skip_for_load = !m->best_prio_seen && prio == m->best_prio;
		if (skip_for_load || !can_migrate_task(p, t, b, m->nr_balance_failed, now)) {
			m->best_prio_seen |= prio == m->best_prio;
			continue;
		}
		if (!scx_bpf_dsq_move(DSQ_ITERATOR, p, list_dsq(b->cpu, target, index), 0))
			continue;
		set_list_bit(this_rq, target, index);
		t->array = target & 1;
		count_on(t, b->cpu);
		m->pulled++;
		m->load_left -= weight;
		m->nr_left--;
		if (task_preempts_curr(t, this_rq))
			scx_bpf_kick_cpu(b->cpu, SCX_KICK_PREEMPT);
		if (!m->nr_left || (release == RELEASE_2_6_22 && m->load_left <= 0)) {
			m->nr_left = 0;
			break;
		}
		if (prio < m->this_best_prio)
			m->this_best_prio = prio;
	}
	bpf_rcu_read_unlock();
	return m->nr_left;
}

/*
 * move_tasks(): pulls waiting tasks from the busiest CPU: from the expired array first, then from the active one,
 * in each from the best priority on. Pulled tasks keep array and priority. Returns their number.
 */
__noinline u32 move_tasks(struct balance *b __arg_nonnull, s32 busiest, u32 nr_balance_failed)
{
	struct run_queue *rq = run_queue_of(busiest), *this_rq = run_queue_of(b->cpu);
	struct move m = { .busiest = busiest, .nr_balance_failed = nr_balance_failed };
	struct task_struct *curr;
	int i;

	if (!rq || !this_rq || rq->nr_running <= 1)
		return 0;
	m.nr_left = rq->nr_running - 1;
	m.load_left = b->imbalance;
	if (release != RELEASE_2_6_22)
		m.nr_left = smaller(m.nr_left, b->imbalance);
	m.this_best_prio = rq_best_prio(this_rq);
	m.best_prio = rq_best_prio(rq);
	m.best_prio_seen = m.best_prio == rq->curr_prio;

	/* The running task cannot be pulled, but it may be allowed here */
	b->all_pinned = true;
	bpf_rcu_read_lock();
	curr = scx_bpf_cpu_curr(busiest);
	if (curr && rq->curr_prio != NO_CURRENT && cpu_allowed(curr, b->cpu))
		b->all_pinned = false;
	bpf_rcu_read_unlock();

	bpf_for(i, 0, 2 * MAX_USER_PRIO) {
		bool expired = i < MAX_USER_PRIO;
		u32 index = expired ? i : i - MAX_USER_PRIO;
		u32 source = (expired ? 1 - rq->active : rq->active) & 1;
		u32 target = (expired ? 1 - this_rq->active : this_rq->active) & 1;

		if ((rq->bitmap[source] & (1ULL << index)) &&
		    !move_list(b, &m, source, target, index))
			break;
	}
	return m.pulled;
}

/* Wakes the migration thread, as it were: the running task of @busiest shall move to the CPU that balances. */
static bool start_active_balance(struct balance *b, s32 busiest)
{
	struct run_queue *rq = run_queue_of(busiest);

	if (!rq || rq->active_balance)
		return false;
	rq->push_cpu = b->cpu;
	rq->active_balance = true;
	scx_bpf_kick_cpu(busiest, SCX_KICK_PREEMPT);
	return true;
}

/* -1 instead of 0 for a core that is not wholly idle: to the levels above, this CPU then counts as busy. */
static __always_inline s32 nothing_moved(const struct balance *b)
{
	return release == RELEASE_2_6_22 && !b->sd_idle && b->level == LEVEL_SIBLING ? -1 : 0;
}

/* Lengthens the interval to the next balancing. */
static void back_off(struct sched_domain *domain, u32 max_interval, bool all_pinned)
{
	if ((all_pinned && domain->balance_interval < max_pinned_interval) ||
	    domain->balance_interval < max_interval)
		domain->balance_interval *= 2;
}

/*
 * load_balance(): pulls tasks to b->cpu within its domain b->level. Returns their number, or -1 (see nothing_moved()).
 * Clears b->eligible if another CPU of the group does the balancing.
 */
__noinline s32 load_balance(struct balance *b __arg_nonnull)
{
	const struct domain_parameters *parameters = parameters_of(b->level);
	struct run_queue *rq = run_queue_of(b->cpu), *busiest_rq;
	bool active_balance = false;
	struct sched_domain *domain;
	u32 pulled = 0, level = b->level;
	s32 busiest = -1;
	int i;

	if (!rq || level >= NR_LEVELS)
		return 0;
	domain = &rq->domain[level];

	b->number = __sync_fetch_and_add(&balance_attempts, 1) + 1;
	b->all_pinned = false;
	b->sd_idle = b->level == LEVEL_SIBLING && b->idle != NOT_IDLE;

	/* A run queue with nothing but tasks that are pinned elsewhere is left out, and the next one tried */
	bpf_for(i, 0, nr_cpu_ids) {
		busiest = -1;
		if (!find_busiest_group(b))
			break;
		busiest = find_busiest_queue(b);
		if (busiest < 0)
			break;
		busiest_rq = run_queue_of(busiest);
		if (!busiest_rq || busiest_rq->nr_running <= 1)
			break;
		pulled = move_tasks(b, busiest, domain->nr_balance_failed);
		if (!b->all_pinned || release != RELEASE_2_6_22)
			break;
		busiest_rq->excluded_by = b->number;
	}

	if (busiest < 0) {
		if (release == RELEASE_2_6_22)
			domain->nr_balance_failed = 0;
		back_off(domain, parameters->max_interval, b->all_pinned);
		return nothing_moved(b);
	}
	if (pulled) {
		domain->nr_balance_failed = 0;
		domain->balance_interval = parameters->min_interval;
		return pulled;
	}

	domain->nr_balance_failed++;
	if (domain->nr_balance_failed > parameters->cache_nice_tries + 2) {
		bool allowed = false;
		struct task_struct *curr;

		bpf_rcu_read_lock();
		curr = scx_bpf_cpu_curr(busiest);
		if (curr)
			allowed = cpu_allowed(curr, b->cpu);
		bpf_rcu_read_unlock();
		if (release == RELEASE_2_6_22 && !allowed) {
			back_off(domain, parameters->max_interval, true);
			return nothing_moved(b);
		}
		active_balance = start_active_balance(b, busiest);
		domain->nr_balance_failed = parameters->cache_nice_tries;
		if (release == RELEASE_2_6_22)
			domain->nr_balance_failed++;
	}
	if (release != RELEASE_2_6_22) {
		if (domain->balance_interval < parameters->max_interval)
			domain->balance_interval++;
	} else if (active_balance) {
		back_off(domain, parameters->max_interval, false);
	} else {
		domain->balance_interval = parameters->min_interval;
	}
	return nothing_moved(b);
}

/* load_balance_newidle(): the same for a CPU that has just run out of tasks, without bookkeeping of failures. */
__noinline s32 load_balance_newidle(struct balance *b __arg_nonnull)
{
	struct run_queue *rq = run_queue_of(b->cpu), *busiest_rq;
	struct sched_domain *domain;
	u32 pulled, level = b->level;
	s32 busiest;
	int i;

	if (!rq || level >= NR_LEVELS)
		return 0;
	domain = &rq->domain[level];
	b->number = __sync_fetch_and_add(&balance_attempts, 1) + 1;
	b->sd_idle = b->level == LEVEL_SIBLING;

	bpf_for(i, 0, nr_cpu_ids) {
		if (!find_busiest_group(b))
			break;
		busiest = find_busiest_queue(b);
		if (busiest < 0)
			break;
		busiest_rq = run_queue_of(busiest);
		if (!busiest_rq || busiest_rq->nr_running <= 1)
			return nothing_moved(b);
		pulled = move_tasks(b, busiest, domain->nr_balance_failed);
		if (pulled) {
			domain->nr_balance_failed = 0;
			return pulled;
		}
		if (release != RELEASE_2_6_22)
			return 0;
		busiest_rq->excluded_by = b->number;
	}
	return nothing_moved(b);
}

/* idle_balance(): from the closest domain outwards until something was pulled. */
__noinline bool idle_balance(s32 cpu)
{
	struct run_queue *rq = run_queue_of(cpu);
	struct balance b = { .cpu = cpu, .idle = NEWLY_IDLE, .eligible = true };
	u64 jiffies = jiffies_at(scx_bpf_now());
	u64 next_balance = jiffies + 60 * (u64)hz;
	s32 pulled = 0;
	u32 level;

	if (!rq)
		return false;
	bpf_for(level, LEVEL_SIBLING, NR_LEVELS) {
		u64 due;

		if (level >= NR_LEVELS || !domain_exists(level, cpu))
			continue;
		b.level = level;
		if (parameters_of(level)->flags & SD_BALANCE_NEWIDLE)
			pulled = load_balance_newidle(&b);
		due = rq->domain[level].last_balance +
		      ms_to_ticks(rq->domain[level].balance_interval);
		if (due < next_balance)
			next_balance = due;
		if (pulled)
			break;
	}
	/* A busy CPU may have set a time far ahead */
	if (!pulled)
		rq->next_balance = next_balance;
	if (pulled > 0)
		count_by(STAT_PULLED_NEWLY_IDLE, pulled);
	return pulled > 0;
}

/* rebalance_domains(): balances @cpu in those of its domains whose interval is over. Returns when to do so next. */
__noinline u64 rebalance_domains(s32 cpu, u64 jiffies)
{
	struct run_queue *rq = run_queue_of(cpu);
	struct balance b = { .cpu = cpu, .eligible = true };
	u64 next_balance = jiffies + 60 * (u64)hz;
	u32 level;
	s32 pulled;

	if (!rq)
		return next_balance;
	b.idle = rq->idle ? IDLE : NOT_IDLE;
	bpf_for(level, LEVEL_SIBLING, NR_LEVELS) {
		struct sched_domain *domain;
		u64 interval;

		if (level >= NR_LEVELS || !domain_exists(level, cpu))
			continue;
		domain = &rq->domain[level];
		interval = domain->balance_interval;
		if (b.idle != IDLE)
			interval *= parameters_of(level)->busy_factor;
		interval = ms_to_ticks(interval) ?: 1;

		if (jiffies >= domain->last_balance + interval) {
			b.level = level;
			pulled = load_balance(&b);
			if (pulled)
				b.idle = NOT_IDLE;
			if (pulled > 0) {
				count_by(STAT_PULLED_PERIODIC, pulled);
				if (rq->idle)
					scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
			}
			domain->last_balance = jiffies;
		}
		if (domain->last_balance + interval < next_balance)
			next_balance = domain->last_balance + interval;
		if (!b.eligible)
			break;
	}
	return next_balance;
}

/* Lets the history of the load fade by the ticks during which the timer was off and nobody was runnable. */
__noinline int fade_load(s32 cpu, u64 ticks)
{
	struct run_queue *rq = run_queue_of(cpu);
	u64 tick;

	if (!rq)
		return 0;
	bpf_for(tick, 0, ticks) {
		if (!(rq->cpu_load[0] | rq->cpu_load[1] | rq->cpu_load[2]))
			break;
		update_load(rq, 0);
	}
	return 0;
}

/* True if a task is runnable on some CPU. */
__noinline bool somebody_is_runnable(void)
{
	s32 cpu;

	bpf_for(cpu, 0, nr_cpu_ids) {
		struct run_queue *rq = run_queue_of(cpu);

		if (rq && rq->nr_running)
			return true;
	}
	return false;
}

/*
 * The part of scheduler_tick() that keeps the history of the load and balances, on behalf of every CPU: sched_ext lets
 * tasks be moved between lists here and in dispatch, and not in ops.tick(), which idle CPUs do not get at all. Without
 * a runnable task there is nothing to balance, and the timer stays off until there is one.
 */
static int balance_tick(void *map, u32 *key, struct balance_timer *timer)
{
	u64 now = scx_bpf_now();
	u64 jiffies = jiffies_at(now);
	u64 ticks_off = 0;
	int cpu;

	if (off_since && jiffies > off_since)
		ticks_off = smaller(jiffies - off_since - 1, MAX_TICKS_TO_FADE);
	off_since = 0;
	bpf_for(cpu, 0, nr_cpu_ids) {
		struct run_queue *rq = run_queue_of(cpu);

		if (!rq || !cpu_exists(cpu))
			continue;
		if (ticks_off)
			fade_load(cpu, ticks_off);
		update_load(rq, rq->raw_weighted_load);
		if (jiffies >= rq->next_balance)
			rq->next_balance = rebalance_domains(cpu, jiffies);
	}

	if (!somebody_is_runnable()) {
		off_since = jiffies;
		__sync_lock_test_and_set(&balancing_is_off, 1);
		/* Whoever became runnable before that has not seen it */
		if (!somebody_is_runnable() || !__sync_lock_test_and_set(&balancing_is_off, 0))
			return 0;
	}
	start_balance_timer();
	return 0;
}

/* ---- Picking the next task ------------------------------------------------------------------------------------- */

/* Takes in the tasks that other CPUs have pushed here, and sends back those that may not run here after all. */
static __noinline void accept_pushed(s32 cpu, struct run_queue *rq)
{
	struct task_struct *p;
	bool seen = false;

	bpf_for_each(scx_dsq, p, pushed_dsq(cpu), 0) {
		struct task_ctx *t = task_ctx_of(p);
		s32 target = cpu;
		struct run_queue *target_rq = rq;
		u32 index;

		if (!t)
			continue;
		seen = true;
		if (!cpu_allowed(p, cpu) || is_migration_disabled(p)) {
			target = scx_bpf_task_cpu(p);
			target_rq = run_queue_of(target);
		}
		if (!target_rq)
			continue;
		index = list_index(t->prio);
		t->array = target_rq->active & 1;
		if (!scx_bpf_dsq_move(DSQ_ITERATOR, p, list_dsq(target, t->array, index), 0))
			continue;
		set_list_bit(target_rq, t->array, index);
		if (target != cpu) {
			count_on(t, target);
			resched_cpu(target, target_rq);
		}
	}
	/* The flag comes before the task: it stays until a task has been seen */
	if (seen)
		rq->pushed_to = false;
}

/* Active and expired array change roles. */
static void switch_arrays(struct run_queue *rq)
{
	count(STAT_ARRAY_SWITCHES);
	rq->active = 1 - (rq->active & 1);
	rq->expired_timestamp = 0;
	rq->best_expired_prio = MAX_PRIO;
}

/* What a pick came to */
enum pick {
	PICK_NONE,
	/* The task that ran so far goes on */
	PICK_PREV,
	PICK_OTHER,
};

/*
 * The first task of the first list that has one, in the active array: moves it to this CPU's local queue. @prev is the task
 * that ran so far if it is still runnable; it is in no list but counts as if it were in its own.
 */
static __noinline enum pick pick_next(s32 cpu, struct run_queue *rq, struct task_ctx *prev)
{
	int i;

	/* Each round but the last clears a bit or switches arrays, for the first time or after the active one was empty */
	bpf_for(i, 0, 2 * MAX_USER_PRIO + 3) {
		u32 active = rq->active & 1;
		u64 bitmap = rq->bitmap[active];
		bool prev_active = prev && prev->array == active;
		u32 index, prev_index;

		if (!bitmap && !prev_active) {
			if (!rq->bitmap[1 - active] && !prev)
				return PICK_NONE;
			switch_arrays(rq);
			continue;
		}
		index = bitmap ? first_bit(bitmap) : MAX_USER_PRIO;
		if (prev_active) {
			prev_index = list_index(prev->prio);
			if (prev_index < index)
				return PICK_PREV;
			if (prev_index == index && prev->place == PLACE_HEAD && !prev->child_first &&
			    prev->push_cpu < 0)
				return PICK_PREV;
		}
		if (scx_bpf_dsq_move_to_local(list_dsq(cpu, active, index), 0))
			return PICK_OTHER;
		clear_list_bit(rq, cpu, active, index);
	}
	return prev ? PICK_PREV : PICK_NONE;
}

/* Moves a task at the front of a list that has waited for starvation_limit to this CPU's local queue: true if there is one. */
__noinline bool rescue_from_list(s32 cpu, u32 array, u32 index)
{
	u64 now = scx_bpf_now();
	struct task_struct *p;
	u32 seen = 0;

	bpf_for_each(scx_dsq, p, list_dsq(cpu, array, index), 0) {
		struct task_ctx *t = task_ctx_of(p);

		if (seen++ >= RESCUE_DEPTH)
			break;
		if (!t || !time_before(t->timestamp + starvation_limit * NSEC_PER_MSEC, now))
			continue;
		t->rescued = true;
		if (scx_bpf_dsq_move(DSQ_ITERATOR, p, SCX_DSQ_LOCAL, 0)) {
			count(STAT_RESCUED);
			return true;
		}
		t->rescued = false;
	}
	return false;
}

/*
 * Runs a task that has waited for too long for one tick. The rules let tasks wait for seconds for each task of the CPU, and
 * those of the active array for ever; sched_ext's watchdog does not. Looks again at the next pick if it has found one.
 */
__noinline bool rescue_starved(s32 cpu)
{
	struct run_queue *rq = run_queue_of(cpu);
	u32 array, index;

	if (!rq)
		return false;
	for (array = 0; array < 2; array++) {
		u64 bitmap = rq->bitmap[array];

		bpf_for(index, 0, MAX_USER_PRIO)
			if ((bitmap & (1ULL << index)) && rescue_from_list(cpu, array, index))
				return true;
	}
	rq->rescue_at = scx_bpf_now() + RESCUE_INTERVAL;
	return false;
}

void BPF_STRUCT_OPS(o1_dispatch, s32 cpu, struct task_struct *prev)
{
	struct run_queue *rq = run_queue_of(cpu);
	struct task_ctx *t = NULL;
	u64 now = scx_bpf_now();
	enum pick pick;

	if (!rq)
		return;
	if (rq->pushed_to)
		accept_pushed(cpu, rq);
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		t = task_ctx_of(prev);
		if (t)
			charge_ticks(rq, t, now);
	}

	if (rq->active_balance) {
		s32 push_cpu = rq->push_cpu;

		rq->active_balance = false;
		if (t && cpu_allowed(prev, push_cpu)) {
			t->push_cpu = push_cpu;
			pick_next(cpu, rq, NULL);
			return;
		}
	}

	if (rescue_due(rq, now) && rescue_starved(cpu)) {
		if (t)
			t->child_first = false;
		return;
	}

	pick = pick_next(cpu, rq, t);
	if (pick == PICK_NONE && num_online_cpus > 1 && idle_balance(cpu))
		pick = pick_next(cpu, rq, NULL);
	if (pick == PICK_PREV && t) {
		charge_run_time(t, now);
		t->place = PLACE_HEAD;
		t->child_first = false;
		t->rescued = false;
		rq->curr_prio = t->prio;
		scx_bpf_task_set_slice(prev, slice_left(t, now));
	} else if (t) {
		t->child_first = false;
	}
}

/* ---- Fork, exit, nice ------------------------------------------------------------------------------------------ */

/* sched_fork(): parent and child share what is left of the parent's slice. Runs in the parent. */
static void sched_fork(struct task_ctx *t)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	s32 cpu = bpf_get_smp_processor_id();
	struct run_queue *rq = run_queue_of(cpu);
	struct task_ctx *parent_ctx = task_ctx_of(parent);

	if (!parent_ctx || !parent_ctx->running || !rq)
		return;
	t->sleep_avg = parent_ctx->sleep_avg;
	t->time_slice = (parent_ctx->time_slice + 1) / 2;
	t->first_time_slice = true;
	parent_ctx->time_slice /= 2;
	if (!parent_ctx->time_slice) {
		parent_ctx->time_slice = 1;
		if (task_running_tick(rq, parent_ctx, jiffies_at(scx_bpf_now()))) {
			rq->curr_prio = parent_ctx->prio;
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		}
	}
}

s32 BPF_STRUCT_OPS(o1_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *t;

	t = bpf_task_storage_get(&task_ctx_map, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t)
		return -ENOMEM;
	t->static_prio = static_prio_of(p);
	t->load_weight = load_weight(t->static_prio);
	t->time_slice = task_timeslice(t);
	t->timestamp = scx_bpf_now();
	t->last_ran = t->timestamp;
	t->cpu = -1;
	t->push_cpu = -1;
	if (args->fork) {
		t->new = true;
		sched_fork(t);
	}
	t->prio = effective_prio(t);
	return 0;
}

/*
 * sched_exit(): what is left of a first slice goes back to the parent, and a parent of hogs becomes less interactive.
 */
static void sched_exit(struct task_struct *p, struct task_ctx *t)
{
	struct task_struct *parent;
	struct task_ctx *parent_ctx;

	parent = p->real_parent;
	parent_ctx = parent ? task_ctx_of(parent) : NULL;
	if (parent_ctx) {
		if (t->first_time_slice &&
		    (release != RELEASE_2_6_22 || scx_bpf_task_cpu(p) == scx_bpf_task_cpu(parent))) {
			u32 slice = parent_ctx->time_slice + t->time_slice;
			u32 full = task_timeslice(t);

			count(STAT_SLICES_RETURNED);
			parent_ctx->time_slice = slice < full ? slice : full;
		}
		if (t->sleep_avg < parent_ctx->sleep_avg)
			parent_ctx->sleep_avg =
				parent_ctx->sleep_avg / (exit_weight + 1) * exit_weight +
				t->sleep_avg / (exit_weight + 1);
	}
}

void BPF_STRUCT_OPS(o1_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return;
	count_on(t, -1);
	if (!args->cancelled && (p->flags & PF_EXITING))
		sched_exit(p, t);
}

/* set_user_nice(): a new static priority and what follows from it; also called when a task comes to sched_ext. */
void BPF_STRUCT_OPS(o1_set_weight, struct task_struct *p, u32 weight)
{
	struct task_ctx *t = task_ctx_of(p);
	s32 static_prio = static_prio_of(p);
	s32 old_prio;

	if (!t || t->static_prio == static_prio)
		return;
	old_prio = t->prio;
	t->static_prio = static_prio;
	t->load_weight = load_weight(static_prio);
	/* Before 2.6.22 the bonus is lost until it is next reckoned */
	t->prio = release == RELEASE_2_6_22 ? effective_prio(t) : static_prio;
	t->place = PLACE_TAIL;
	if (scx_bpf_task_running(p)) {
		t->reniced = true;
		if (t->prio != old_prio)
			scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
	}
}

/* ---- Start ----------------------------------------------------------------------------------------------------- */

/* Starts one CPU: its queues, empty arrays, balancing due from now on. */
static s32 init_cpu(s32 cpu, u64 jiffies)
{
	const volatile struct cpu_topology *place = topology_of(cpu);
	struct run_queue *rq = run_queue_of(cpu);
	s32 error;
	int i;

	if (!rq)
		return 0;
	if (place && place->core_cpus.count > 1)
		has_threads = true;
	bpf_for(i, 0, DSQS_PER_CPU) {
		error = scx_bpf_create_dsq((u64)cpu * DSQS_PER_CPU + i, scx_bpf_cpu_node(cpu));
		if (error)
			return error;
	}
	rq->best_expired_prio = MAX_PRIO;
	rq->curr_prio = NO_CURRENT;
	rq->push_cpu = -1;
	for (i = 0; i < NR_LEVELS; i++) {
		rq->domain[i].last_balance = jiffies;
		rq->domain[i].balance_interval = parameters_of(i)->min_interval;
	}
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(o1_init)
{
	u64 jiffies = jiffies_at(scx_bpf_now());
	const struct cpumask *online;
	struct balance_timer *timer;
	u32 key = 0;
	s32 error;
	int cpu;

	nr_cpu_ids = scx_bpf_nr_cpu_ids();
	online = scx_bpf_get_online_cpumask();
	num_online_cpus = bpf_cpumask_weight(online);
	scx_bpf_put_cpumask(online);

	bpf_for(cpu, 0, nr_cpu_ids) {
		error = init_cpu(cpu, jiffies);
		if (error) {
			scx_bpf_error("cannot create the lists of CPU %d: error %d", cpu, error);
			return error;
		}
	}
	if (num_online_cpus == 1)
		return 0;

	timer = bpf_map_lookup_elem(&balance_timer_map, &key);
	if (!timer)
		return -ESRCH;
	bpf_timer_init(&timer->timer, &balance_timer_map, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, balance_tick);
	return start_balance_timer();
}

DEFINE_SCHEDULER(o1,
	.select_cpu = (void *)o1_select_cpu,
	.enqueue = (void *)o1_enqueue,
	.dispatch = (void *)o1_dispatch,
	.tick = (void *)o1_tick,
	.runnable = (void *)o1_runnable,
	.running = (void *)o1_running,
	.stopping = (void *)o1_stopping,
	.quiescent = (void *)o1_quiescent,
	.yield = (void *)o1_yield,
	.set_weight = (void *)o1_set_weight,
	.update_idle = (void *)o1_update_idle,
	.init_task = (void *)o1_init_task,
	.exit_task = (void *)o1_exit_task,
	.init = (void *)o1_init,
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 30000,
	.name = "o1");
