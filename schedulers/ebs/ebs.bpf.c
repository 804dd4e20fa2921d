// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ebs - the O(1) Entitlement Based Scheduler for Linux 2.6.2, Aurema 2004
 *
 * Every task holds shares. A filter estimates the part of a CPU that it uses; usage divided by shares is compared with the
 * highest usage per share seen on its CPU, and the ratio becomes its priority: those who get less than others, or sleep
 * much, are better. Caps limit the usage: soft ones through the priority, hard ones by taking the task off the run
 * queue into the sinbin. README.md maps the document to this file, describes the maps that can be read, and lists the
 * departures.
 *
 * Usage rates and caps are fractions of 2^32. Priorities are written as levels: 0 to 39 for 100 to 139, 40 for background.
 */
#include "fairground.bpf.h"
#include "pending_signals.h"
#include "real_time.h"
#include "task_attributes.h"
#include "timer.h"
#include "topology.h"

#define ONE (1ULL << 32)

#define NR_LEVELS (MAX_PRIO - MAX_RT_PRIO)
/* The SCHED_NORMAL level of a ratio of 1.0 */
#define MEAN_LEVEL (NR_LEVELS / 2)
/* Behind all SCHED_NORMAL levels */
#define BACKGROUND_LEVEL NR_LEVELS
#define NO_LEVEL (NR_LEVELS + 1)
/* In front of all: a task that would otherwise wait for too long */
#define OVERDUE_LEVEL (-1)

/* Their turn: what is left of the present tick, and a whole one */
#define OVERDUE_TICKS 2

#define MIN_SHARES 1
#define DEFAULT_SHARES 20
#define MAX_SHARES 420

/* ---- Tunables -------------------------------------------------------------------------------------------------- */

/* Ticks of the era in a second */
const volatile u32 hz = 1000;

/* Milliseconds, as the document writes them; what `parameters` holds at the start */
const volatile u32 half_life = 5000;
const volatile u32 time_slice = 100;

/* Longest time a runnable task waits before it gets a short turn whatever its priority or cap, milliseconds */
const volatile u32 longest_wait = 20000;

/* Balancing of 2.6.2: milliseconds, factors for nodes, percent; a task that ran this recently counts as cache-hot */
const volatile u32 busy_rebalance = 200;
const volatile u32 idle_rebalance = 1;
const volatile u32 busy_node_factor = 2;
const volatile u32 idle_node_factor = 5;
const volatile u32 node_threshold = 125;
const volatile u32 cache_decay = 2;

/* ---- Statistics, in the order of scheduler.toml ---------------------------------------------------------------- */

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
 * /proc/cpu_half_life and /proc/timeslice: written by the administrator while the scheduler runs, milliseconds. Values
 * out of range are ignored.
 */
struct parameters {
	u32 half_life_ms;
	u32 time_slice_ms;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct parameters);
} parameters SEC(".maps");

/* ---- Tasks ----------------------------------------------------------------------------------------------------- */

/* enum ebs_task_flags: what ebs_task.flags says */
enum ebs_task_flags {
	EBS_HARD_CAP = 1 << 0,
	EBS_SOFT_CAP = 1 << 1,
	EBS_BACKGROUND = 1 << 2,
	EBS_IN_SINBIN = 1 << 3,
};

/*
 * A task's statistics, at the start of its record in the map task_statistics, for anybody to read. The layout is stable: new
 * members are added at the end. Times are in nanoseconds.
 */
struct ebs_task {
	/* sizeof(struct ebs_task) */
	u32 size;
	u32 flags;
	/* 1 to 420, and the nice value that they amount to */
	u32 shares;
	s32 nice;
	/* Estimated usage rate as of `estimated_at`, and cap: parts of 2^32 */
	u64 usage;
	u64 cap;
	u64 estimated_at;
	/* Priority when it was last reckoned, 100 to 140 */
	s32 prio;
	u32 reserved;
	/* On a CPU, waiting for one, in the sinbin; sleep is the rest */
	u64 run_time;
	u64 wait_time;
	u64 sinbin_time;
	u64 wakeups;
	/* Times it got a CPU, used up a slice, lost the CPU before, was put into the sinbin */
	u64 runs;
	u64 slices;
	u64 preempted;
	u64 sinbinned;
	/* Levels it was lifted while it waited, and times it ran because it had waited for too long */
	u64 promotions;
	u64 overdue;
};

struct task_ctx {
	struct ebs_task public;
	/* Time up to which usage is accounted for, and what is not in the estimate yet: length and part spent on a CPU */
	u64 accounted;
	u64 period;
	u64 busy;
	/* Cap that keeps it out of the run queue; ONE if there is none */
	u64 hard_cap;
	/* Promotion interval at which the task would be on the best list */
	u64 due;
	/* When it last became runnable or lost the CPU, time spent in the sinbin since, and when it went there */
	u64 waiting_since;
	u64 waited_in_sinbin;
	u64 sinbinned_at;
	/* When it leaves the sinbin */
	u64 release_at;
	/* When it got the CPU, and up to which tick the slice is charged */
	u64 started;
	u64 charged_until;
	/* Ticks left, and ticks left of the turn of a task that has waited for too long, 0 for others */
	u32 slice_left;
	u32 overdue;
	/* Level at which it was queued */
	s32 level;
	s32 static_prio;
	/* Run queue that counts the task, -1 for none, and the one in whose sinbin it is */
	s32 cpu;
	s32 sinbin_cpu;
	/* 1 in a sinbin */
	u32 in_sinbin;
	bool running;
	/* Still in the slice it got from its parent */
	bool first_time_slice;
	/* To the end of its list, though its slice is not used up */
	bool yielded;
	/* The waker said that it will soon leave the CPU on which the task wakes up */
	bool sync;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_statistics SEC(".maps");

static __always_inline struct task_ctx *task_ctx_of(struct task_struct *p)
{
	return bpf_task_storage_get(&task_statistics, p, NULL, 0);
}

/* ---- Run queues ------------------------------------------------------------------------------------------------ */

/* CPUs and nodes whose load the balancer remembers; beyond them it takes the load of the moment */
#define NR_REMEMBERED_CPUS 1024
#define NR_REMEMBERED_NODES 64

/*
 * Lists of a run queue. A list holds the tasks that will be on the best list from the same promotion interval on, if they wait
 * that long; see enqueue_task(). There are more than a task can be intervals away from the best list (168), so that a list that
 * is due can wait to be emptied.
 */
#define NR_LISTS 256
#define NR_WORDS (NR_LISTS / 64)

/* Due lists that are kept apart from those to come: an insertion may be under way that has read an older clock */
#define MARGIN 4

/* One CPU's statistics, at the start of its record in run_queue_map, for anybody to read; stable as struct ebs_task is. */
struct ebs_cpu {
	/* sizeof(struct ebs_cpu) */
	u32 size;
	u32 nr_running;
	/* Highest usage per share, as of `entitlement_at`: parts of 2^32 */
	u64 effective_entitlement_per_share;
	u64 entitlement_at;
	/* Priority of the running task, 100 to 140; 99 while one that has waited for too long runs, 141 for none */
	s32 curr_prio;
	u32 in_sinbin;
};

struct run_queue {
	struct ebs_cpu public;
	/* A bit for each list that may hold tasks */
	u64 bitmap[NR_WORDS];
	/* No list is due earlier than this interval */
	u64 first_due;
	/* A real-time task has the CPU and is counted */
	u32 real_time;
	bool idle;
	/* Tasks may be in the queues besides the lists */
	bool background;
	bool overdue;
	/* Lengths of all run queues when this CPU last looked */
	u32 prev_cpu_load[NR_REMEMBERED_CPUS];
	u32 prev_node_load[NR_REMEMBERED_NODES];
};

DEFINE_PER_CPU(struct run_queue, run_queue)

/* DSQs of a CPU: the lists, background tasks, the sinbin (by the time of release), tasks that have waited for too long */
#define DSQS_PER_CPU (NR_LISTS + 3)

static __always_inline u64 list_dsq(s32 cpu, u64 due)
{
	return (u64)cpu * DSQS_PER_CPU + due % NR_LISTS;
}

static __always_inline u64 background_dsq(s32 cpu)
{
	return (u64)cpu * DSQS_PER_CPU + NR_LISTS;
}

static __always_inline u64 sinbin_dsq(s32 cpu)
{
	return (u64)cpu * DSQS_PER_CPU + NR_LISTS + 1;
}

static __always_inline u64 overdue_dsq(s32 cpu)
{
	return (u64)cpu * DSQS_PER_CPU + NR_LISTS + 2;
}

/* Number of CPUs there are, and how many of them have tasks waiting */
static u32 nr_cpu_ids;
static u32 num_online_cpus;
static u32 nr_overloaded;

/*
 * Zero, though the verifier cannot know. Sums over many CPUs start from it: from a number that it knows, the verifier
 * would follow the sum through every round of the loop and give up.
 */
static volatile u64 unknown_zero;

static __always_inline u64 smaller(u64 a, u64 b)
{
	return a < b ? a : b;
}

static __always_inline u64 larger(u64 a, u64 b)
{
	return a > b ? a : b;
}

static __always_inline u64 elapsed(u64 from, u64 to)
{
	return time_before(from, to) ? to - from : 0;
}

static __always_inline u32 ms_to_ticks(u32 ms)
{
	return (u64)ms * hz / 1000 ?: 1;
}

/* ---- The filter ------------------------------------------------------------------------------------------------ */

/* Response half life in nanoseconds, slice in ticks */
static u64 half_life_ns;
static u32 slice_ticks;

#define LN_2 2977044472ULL

/*
 * 2^(-time / half life): what is left of a usage rate when a task has been off the CPU for @time. Whole half lives are shifts, the
 * rest is the series of e^-x, whose terms beyond the eighth are below 2^-24.
 */
__noinline u64 decay_over(u64 time)
{
	u64 life = half_life_ns ?: NSEC_PER_SEC;
	u64 halvings = time / life;
	u64 x, sum = ONE;

	if (halvings >= 32)
		return 0;
	x = (((time % life) << 26) / life << 6) * (LN_2 >> 1) >> 31;
	sum = ONE - (x * sum >> 32) / 8;
	sum = ONE - (x * sum >> 32) / 7;
	sum = ONE - (x * sum >> 32) / 6;
	sum = ONE - (x * sum >> 32) / 5;
	sum = ONE - (x * sum >> 32) / 4;
	sum = ONE - (x * sum >> 32) / 3;
	sum = ONE - (x * sum >> 32) / 2;
	sum = ONE - (x * sum >> 32);
	return sum >> halvings;
}

/* log2(@value), @value >= 1, in parts of 2^16: the integer part by shifts, then one bit for each squaring. */
__noinline u64 log2_of(u64 value)
{
	u64 result = unknown_zero;
	int i;

	bpf_for(i, 0, 64) {
		if (value < ONE)
			break;
		value >>= 1;
		result += 1 << 16;
	}
	bpf_for(i, 0, 32) {
		if (value >= ONE >> 1 || !value)
			break;
		value <<= 1;
		result -= 1 << 16;
	}
	/* Now value / 2^31 is in [1, 2) */
	result += 31 << 16;
	bpf_for(i, 0, 16) {
		value = value * value >> 31;
		if (value >= ONE) {
			value >>= 1;
			result += 1 << (15 - i);
		}
	}
	return result;
}

/* Time until a usage rate has decayed from @usage to @target: half life * log2(usage / target). */
__noinline u64 time_to_decay(u64 usage, u64 target)
{
	if (usage <= target || !target)
		return 0;
	return half_life_ns * (log2_of(usage) - log2_of(target)) >> 16;
}

/*
 * Updates the estimate: towards the part of the time that the task was on a CPU, half of the way in a half life. That is exact
 * for a stretch of running or of not running, however long. Stretches of less than a millisecond wait for more, since
 * their steps would vanish in the rounding.
 */
__noinline int estimate_usage(struct task_ctx *t __arg_nonnull, u64 now)
{
	u64 time = elapsed(t->accounted, now);
	u64 left, part;

	t->accounted = now;
	t->period += time;
	if (t->running)
		t->busy += time;
	if (t->period < NSEC_PER_MSEC)
		return 0;
	part = t->busy == t->period ? ONE : t->busy < ONE << 10 ? (t->busy << 20) / t->period << 12 : ONE;
	left = decay_over(t->period);
	t->public.usage = smaller((t->public.usage * left >> 32) + ((ONE - left) * (part >> 1) >> 31), ONE);
	t->public.estimated_at = now;
	t->period = 0;
	t->busy = 0;
	return 0;
}

/* ---- Shares and caps ------------------------------------------------------------------------------------------- */

static __always_inline u32 nice_to_shares(s32 nice)
{
	return nice >= 0 ? DEFAULT_SHARES - nice : DEFAULT_SHARES + nice * nice;
}

/* The nice value that shares amount to, rounded to the nearest. */
static __noinline s32 shares_to_nice(u32 shares)
{
	s32 nice;

	if (shares <= DEFAULT_SHARES)
		return DEFAULT_SHARES - shares;
	/* n * n + n is where the square root rounds up to n + 1 */
	bpf_for(nice, 1, -MIN_NICE)
		if (shares - DEFAULT_SHARES <= (u32)(nice * nice + nice))
			return -nice;
	return MIN_NICE;
}

/* SCHED_IDLE is younger than this scheduler: one share. */
static __always_inline s32 static_prio_of(const struct task_struct *p)
{
	if (p->policy == SCHED_IDLE)
		return MAX_PRIO - 1;
	return DEFAULT_PRIO + task_nice(p);
}

/* A rational number as a part of 2^32, at most 1. */
static __always_inline u64 rate(u32 numerator, u32 denominator)
{
	if (!denominator || numerator >= denominator)
		return ONE;
	return ((u64)numerator << 32) / denominator;
}

/* Takes over what the task's attributes say now. */
static __noinline void read_attributes(struct task_struct *p, struct task_ctx *t)
{
	const struct task_attributes *a = attributes_of(p);
	u32 shares = nice_to_shares(t->static_prio - DEFAULT_PRIO);
	u64 hard = ONE, soft = ONE;
	u32 flags = t->public.flags & EBS_IN_SINBIN;

	if (a && (a->present & TASK_ATTRIBUTE_SHARES))
		shares = a->shares < MIN_SHARES ? MIN_SHARES : a->shares > MAX_SHARES ? MAX_SHARES : a->shares;
	/* A hard cap of nothing is not permitted */
	if (a && (a->present & TASK_ATTRIBUTE_HARD_CAP) && a->hard_cap_numerator) {
		hard = rate(a->hard_cap_numerator, a->hard_cap_denominator) ?: 1;
		flags |= EBS_HARD_CAP;
	}
	if (a && (a->present & TASK_ATTRIBUTE_SOFT_CAP)) {
		soft = rate(a->soft_cap_numerator, a->soft_cap_denominator);
		flags |= EBS_SOFT_CAP;
		if (!soft)
			flags |= EBS_BACKGROUND;
	}
	if (a && (a->present & TASK_ATTRIBUTE_BACKGROUND) && a->background)
		flags |= EBS_BACKGROUND;

	t->public.flags = flags;
	if (t->public.shares != shares) {
		t->public.shares = shares;
		t->public.nice = shares_to_nice(shares);
	}
	t->public.cap = smaller(hard, soft);
	t->hard_cap = hard;
}

/* ---- Priorities ------------------------------------------------------------------------------------------------ */

/*
 * Promotion. With E as it is, the ratio of a waiting task falls from (k + 1) / 20 to k / 20 in half life * log2((k + 1) / k):
 * the inverse of the filter and of the priority function. The shortest of these times, that of the last level, is the promotion
 * interval; promotion_steps[k] is how many of them it takes from level k to the best list, over all levels in between.
 */
static u64 promotion_interval;
static u32 promotion_steps[NR_LEVELS];
static u8 level_by_steps[NR_LISTS];

/* Intervals passed at a time, both set when the half life last changed */
static u64 intervals_base = NR_LISTS;
static u64 intervals_since;

/* Number of the present promotion interval */
static __always_inline u64 promotion_clock(u64 now)
{
	return intervals_base + elapsed(intervals_since, now) / (promotion_interval ?: NSEC_PER_SEC);
}

/* Level of a list that is due at an interval: which level that is changes as time passes, and that is the promotion. */
static __always_inline s32 level_at(u64 due, u64 clock)
{
	u64 steps = due - clock;

	if (!time_before(clock, due))
		return 0;
	return level_by_steps[steps < NR_LISTS ? steps : NR_LISTS - 1];
}

static __always_inline u32 steps_of(s32 level)
{
	u32 index = level;

	return promotion_steps[index < NR_LEVELS ? index : NR_LEVELS - 1];
}

/* T(k): time in which a task at level @k comes to deserve the next better one */
static __always_inline u64 promotion_time(u32 k)
{
	return half_life_ns * (log2_of(k + 1) - log2_of(k)) >> 16;
}

/* Sets half life and slice, and what follows from them. */
__noinline int set_parameters(u32 half_life_ms, u32 time_slice_ms)
{
	u64 now = scx_bpf_now(), clock = promotion_clock(now), tick = tick_length(hz);
	u32 sum = 0, k, i;

	slice_ticks = ms_to_ticks(time_slice_ms);
	if (half_life_ns == half_life_ms * NSEC_PER_MSEC)
		return 0;
	half_life_ns = half_life_ms * NSEC_PER_MSEC;

	intervals_base = clock;
	intervals_since = now;
	promotion_interval = ((promotion_time(NR_LEVELS - 1) + tick - 1) / tick ?: 1) * tick;
	bpf_for(k, 1, NR_LEVELS) {
		u32 from = sum;

		sum += (promotion_time(k) + promotion_interval - 1) / promotion_interval;
		if (k < NR_LEVELS)
			promotion_steps[k] = sum;
		bpf_for(i, from + 1, NR_LISTS)
			if (i < NR_LISTS)
				level_by_steps[i] = k;
	}
	return 0;
}

/* The run queue's effective entitlement per share: the highest usage per share seen, which fades like any usage. */
__noinline u64 effective_entitlement(struct run_queue *rq __arg_nonnull, u64 usage_per_share, u64 now)
{
	u64 time = elapsed(rq->public.entitlement_at, now);
	u64 highest = rq->public.effective_entitlement_per_share;

	if (time >= NSEC_PER_MSEC) {
		highest = highest * decay_over(time) >> 32;
		rq->public.entitlement_at = now;
	}
	highest = larger(highest, usage_per_share);
	rq->public.effective_entitlement_per_share = highest;
	return highest;
}

/*
 * The task's level on a run queue: the ratio of its usage per share to the smaller of its cap per share and the effective entitlement
 * per share, mapped so that 1.0 is the mean and every 1/20 is a level.
 */
static __noinline s32 calculate_priority(struct task_struct *p, struct task_ctx *t, struct run_queue *rq, u64 now)
{
	u64 usage_per_share, allowed;
	u64 level = 0;
	u32 shares;

	read_attributes(p, t);
	estimate_usage(t, now);
	shares = t->public.shares ?: DEFAULT_SHARES;
	usage_per_share = t->public.usage / shares;
	allowed = effective_entitlement(rq, usage_per_share, now);
	/* Without a cap a task may use as much as its entitlement allows: a cap of a whole CPU would limit it where its shares are many */
	if (t->public.flags & (EBS_HARD_CAP | EBS_SOFT_CAP))
		allowed = smaller(t->public.cap / shares, allowed);

	if (t->public.flags & EBS_BACKGROUND)
		level = BACKGROUND_LEVEL;
	else if (allowed)
		level = smaller(MEAN_LEVEL * usage_per_share / allowed, NR_LEVELS - 1);
	else if (usage_per_share)
		level = NR_LEVELS - 1;
	t->public.prio = MAX_RT_PRIO + level;
	return level;
}

/* True if the task has to go to the sinbin. Not if it exits or has a signal to see to, which may be the one that ends it. */
static __always_inline bool over_hard_cap(struct task_struct *p, const struct task_ctx *t)
{
	return t->public.usage > t->hard_cap && !(p->flags & PF_EXITING) && !signal_is_pending(p);
}

/* ---- Counting -------------------------------------------------------------------------------------------------- */

/* Runnable tasks of a node */
static u32 node_nr_running[NR_REMEMBERED_NODES];

static __always_inline void count_on_node(s32 cpu, s32 change)
{
	const volatile struct cpu_topology *place = topology_of(cpu);
	u32 node = place ? place->node : 0;

	if (node < NR_REMEMBERED_NODES)
		__sync_fetch_and_add(&node_nr_running[node], change);
}

static __always_inline void inc_nr_running(struct run_queue *rq, s32 cpu)
{
	count_on_node(cpu, 1);
	if (__sync_fetch_and_add(&rq->public.nr_running, 1) == 1)
		__sync_fetch_and_add(&nr_overloaded, 1);
}

static __always_inline void dec_nr_running(struct run_queue *rq, s32 cpu)
{
	count_on_node(cpu, -1);
	if (__sync_fetch_and_add(&rq->public.nr_running, -1) == 2)
		__sync_fetch_and_add(&nr_overloaded, -1);
}

/* A real-time task takes the CPU, or has taken it unnoticed while it was idle. */
static __always_inline void count_real_time(struct run_queue *rq, s32 cpu)
{
	if (real_time_came(&rq->real_time))
		inc_nr_running(rq, cpu);
}

/* The CPU is this scheduler's again. */
static __always_inline void uncount_real_time(struct run_queue *rq, s32 cpu)
{
	if (real_time_left(&rq->real_time))
		dec_nr_running(rq, cpu);
}

/* Counts a task on @cpu's run queue, or on none if @cpu is -1. */
__noinline int count_on(struct task_ctx *t __arg_nonnull, s32 cpu)
{
	s32 old = __sync_lock_test_and_set(&t->cpu, cpu);
	struct run_queue *rq;

	if (old == cpu)
		return 0;
	if (old >= 0) {
		rq = run_queue_of(old);
		if (rq)
			dec_nr_running(rq, old);
	}
	if (cpu >= 0) {
		rq = run_queue_of(cpu);
		if (rq)
			inc_nr_running(rq, cpu);
	}
	return 0;
}

/* Tasks in sinbins */
static u32 nr_in_sinbin;

/* The task leaves the sinbin, in whatever way, if it is there. */
__noinline int leave_sinbin(struct task_ctx *t __arg_nonnull, u64 now)
{
	struct run_queue *rq;
	u64 time;

	if (!__sync_lock_test_and_set(&t->in_sinbin, 0))
		return 0;
	time = elapsed(t->sinbinned_at, now);
	t->public.flags &= ~EBS_IN_SINBIN;
	t->public.sinbin_time += time;
	t->waited_in_sinbin += time;
	count_by(STAT_SINBIN_NS, time);
	__sync_fetch_and_add(&nr_in_sinbin, -1);
	rq = run_queue_of(t->sinbin_cpu);
	if (rq)
		__sync_fetch_and_add(&rq->public.in_sinbin, -1);
	return 0;
}

/* ---- Lists ----------------------------------------------------------------------------------------------------- */

static __always_inline void set_list_bit(struct run_queue *rq, u64 due)
{
	u32 list = due % NR_LISTS;

	__sync_fetch_and_or(&rq->bitmap[list / 64], 1ULL << (list % 64));
}

/*
 * Clears the bit of a list that turned out empty. Another CPU may put a task into the list meanwhile; it sets the bit
 * after that, or before this looks, so looking once more after clearing catches every order of the two.
 */
static __always_inline void clear_list_bit(struct run_queue *rq, s32 cpu, u64 due)
{
	u32 list = due % NR_LISTS;

	__sync_fetch_and_and(&rq->bitmap[list / 64], ~(1ULL << (list % 64)));
	if (scx_bpf_dsq_nr_queued(list_dsq(cpu, due)) > 0)
		set_list_bit(rq, due);
}

/* No list */
#define NEVER (~0ULL)

/*
 * When the first of the lists that have tasks is due, from interval @from on: a search for the first set bit. The lists lie in a circle;
 * they are searched from the place of the earliest one.
 */
__noinline u64 first_list(const struct run_queue *rq __arg_nonnull, u64 from)
{
	u64 due = from;
	int i;

	for (i = 0; i <= NR_WORDS; i++) {
		u32 list = due % NR_LISTS;
		u64 word = rq->bitmap[list / 64] >> (list % 64);

		if (word) {
			due += __builtin_ctzll(word);
			return due - from < NR_LISTS ? due : NEVER;
		}
		due += 64 - list % 64;
	}
	return NEVER;
}

/* ---- Queueing -------------------------------------------------------------------------------------------------- */

static __always_inline s32 current_level(const struct run_queue *rq)
{
	return rq->public.curr_prio - MAX_RT_PRIO;
}

static __always_inline void set_current_level(struct run_queue *rq, s32 level)
{
	rq->public.curr_prio = MAX_RT_PRIO + level;
}

/* TASK_PREEMPTS_CURR: strictly better than what the run queue has stored for the running task */
static __always_inline bool task_preempts_curr(const struct run_queue *rq, s32 level)
{
	return current_level(rq) <= BACKGROUND_LEVEL && level < current_level(rq);
}

/* Has @cpu reconsider what it runs. */
static __always_inline void resched_cpu(s32 cpu, const struct run_queue *rq)
{
	scx_bpf_kick_cpu(cpu, rq->idle ? SCX_KICK_IDLE : SCX_KICK_PREEMPT);
}

/* Time that is left of a runnable task's longest wait */
static __always_inline u64 patience(const struct task_ctx *t, u64 now)
{
	u64 waited = elapsed(t->waiting_since, now), limit = longest_wait * NSEC_PER_MSEC;

	return waited < limit ? limit - waited : 0;
}

/*
 * The sinbin: off the run queue until the usage rate has decayed to the cap; returns when that will be. A task that would have to
 * wait there for too long comes out earlier, for a short turn.
 */
static void to_sinbin(struct task_ctx *t, struct run_queue *rq, s32 cpu, u64 now)
{
	u64 time = time_to_decay(t->public.usage, t->hard_cap), limit = patience(t, now);

	t->overdue = time > limit ? OVERDUE_TICKS : 0;
	t->release_at = now + smaller(time, limit);
	t->in_sinbin = 1;
	t->sinbin_cpu = cpu;
	t->sinbinned_at = now;
	t->public.flags |= EBS_IN_SINBIN;
	t->public.sinbinned++;
	count(STAT_SINBINNED);
	__sync_fetch_and_add(&nr_in_sinbin, 1);
	__sync_fetch_and_add(&rq->public.in_sinbin, 1);
	count_on(t, -1);
}

/*
 * The DSQ for a task of a level. Level k goes to the end of the list that is due promotion_steps[k] intervals from now. That list is
 * the promotion list and the priority list in one: its tasks are promoted together, have always the same priority, and
 * lie side by side. Those who have been promoted to a level and those who come to it meanwhile are due together, so they
 * share a list.
 */
static __noinline u64 queue_for(struct task_ctx *t, struct run_queue *rq, s32 cpu, s32 level, u64 now)
{
	t->level = level;
	if (level == BACKGROUND_LEVEL)
		return background_dsq(cpu);
	/* A circle has no place for more lists: the last one takes what is due later */
	t->due = smaller(promotion_clock(now) + steps_of(level), rq->first_due + NR_LISTS - 1);
	return list_dsq(cpu, t->due);
}

/* Remembers that there is a task in the queue just chosen. */
static __always_inline void mark_queue(struct run_queue *rq, s32 level, u64 due)
{
	if (level == BACKGROUND_LEVEL)
		rq->background = true;
	else
		set_list_bit(rq, due);
}

/* Time to the tick at which the task's turn ends, nanoseconds */
static __always_inline u64 slice_time(const struct task_ctx *t, u64 now)
{
	return time_to_tick(now, t->overdue ?: t->slice_left ?: 1, hz);
}

static __always_inline void new_slice(struct task_ctx *t)
{
	t->slice_left = slice_ticks;
	t->first_time_slice = false;
}

s32 BPF_STRUCT_OPS(ebs_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id();
	struct task_ctx *t = task_ctx_of(p);
	bool sync = (wake_flags & SCX_WAKE_SYNC) && !(wake_flags & SCX_WAKE_FORK);

	if (!t)
		return prev_cpu;
	t->sync = sync;
	/* try_to_wake_up() of 2.6.2: a task stays where it was, unless its waker is about to sleep */
	if (sync && bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr))
		return this_cpu;
	return prev_cpu;
}

void BPF_STRUCT_OPS(ebs_runnable, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return;
	t->waiting_since = scx_bpf_now();
	t->waited_in_sinbin = 0;
	if (enq_flags & SCX_ENQ_WAKEUP) {
		count(STAT_WAKEUPS);
		t->public.wakeups++;
	}
}

void BPF_STRUCT_OPS(ebs_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return;
	leave_sinbin(t, scx_bpf_now());
	count_on(t, -1);
}

void BPF_STRUCT_OPS(ebs_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_ctx *t = task_ctx_of(p);
	struct run_queue *rq = run_queue_of(cpu);
	u64 now = scx_bpf_now(), slice;
	bool sync;
	s32 level;

	if (!t || !rq) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return;
	}
	/* The kernel does not ask ops.select_cpu() for a task that has only one CPU */
	sync = t->sync;
	t->sync = false;
	leave_sinbin(t, now);
	level = calculate_priority(p, t, rq, now);
	t->yielded = false;
	t->overdue = 0;
	if (!t->slice_left)
		new_slice(t);
	slice = slice_time(t, now);

	if (over_hard_cap(p, t)) {
		to_sinbin(t, rq, cpu, now);
		scx_bpf_dsq_insert_vtime(p, sinbin_dsq(cpu), slice, t->release_at, 0);
		return;
	}
	count_on(t, cpu);
	scx_bpf_dsq_insert(p, queue_for(t, rq, cpu, level, now), slice, 0);
	mark_queue(rq, level, t->due);

	if (current_level(rq) == NO_LEVEL && higher_class_runs(cpu))
		count_real_time(rq, cpu);
	if (!task_preempts_curr(rq, level))
		return;
	/* The waker will leave the CPU soon, and then the task's turn comes without more ado */
	if ((enq_flags & SCX_ENQ_WAKEUP) && sync && cpu == (s32)bpf_get_smp_processor_id())
		return;
	count(STAT_PREEMPTIONS);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* ---- The tick -------------------------------------------------------------------------------------------------- */

/* Charges the running task the ticks that have passed since it was last charged: true if its turn is over. */
__noinline bool charge_ticks(struct task_ctx *t __arg_nonnull, u64 now)
{
	u64 jiffies = tick_at(now, hz), ticks = elapsed(t->charged_until, jiffies);

	t->public.run_time += elapsed(t->started, now);
	t->started = now;
	if (ticks) {
		t->charged_until = jiffies;
		if (t->overdue) {
			if (t->overdue > ticks)
				t->overdue -= ticks;
			else
				t->yielded = true;
		}
		if (t->slice_left && t->slice_left <= ticks) {
			count(STAT_SLICES_EXPIRED);
			t->public.slices++;
		}
		t->slice_left -= smaller(ticks, t->slice_left);
	}
	return !t->slice_left || t->yielded;
}

void BPF_STRUCT_OPS(ebs_tick, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);
	u64 now = scx_bpf_now();

	if (!t)
		return;
	estimate_usage(t, now);
	scx_bpf_task_set_slice(p, charge_ticks(t, now) ? 0 : slice_time(t, now));
}

void BPF_STRUCT_OPS(ebs_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_ctx *t = task_ctx_of(p);
	struct run_queue *rq = run_queue_of(cpu);
	u64 now = scx_bpf_now();
	s32 level;

	if (!t || !rq)
		return;
	level = t->level;
	if (level < BACKGROUND_LEVEL) {
		level = level_at(t->due, promotion_clock(now));
		if (level < t->level) {
			t->public.promotions += t->level - level;
			count_by(STAT_PROMOTIONS, t->level - level);
		}
	} else {
		count(STAT_BACKGROUND_RUNS);
	}
	if (t->overdue) {
		level = OVERDUE_LEVEL;
		t->public.overdue++;
		count(STAT_OVERDUE);
	}
	uncount_real_time(rq, cpu);
	leave_sinbin(t, now);
	count_on(t, cpu);
	estimate_usage(t, now);
	t->public.wait_time += elapsed(t->waiting_since + t->waited_in_sinbin, now);
	t->public.runs++;
	t->running = true;
	t->started = now;
	t->charged_until = tick_at(now, hz);
	set_current_level(rq, level);
	scx_bpf_task_set_slice(p, slice_time(t, now));
}

void BPF_STRUCT_OPS(ebs_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *t = task_ctx_of(p);
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(p));
	u64 now = scx_bpf_now();

	if (!t || !rq)
		return;
	if (!charge_ticks(t, now) && runnable)
		t->public.preempted++;
	estimate_usage(t, now);
	t->running = false;
	t->waiting_since = now;
	t->waited_in_sinbin = 0;
	set_current_level(rq, NO_LEVEL);
	if (runnable)
		hand_back(p);
}

void BPF_STRUCT_OPS(ebs_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	struct run_queue *rq = run_queue_of(cpu);

	if (rq)
		count_real_time(rq, cpu);
	take_back_local_tasks();
}

bool BPF_STRUCT_OPS(ebs_yield, struct task_struct *from, struct task_struct *to)
{
	struct task_ctx *t = task_ctx_of(from);

	if (to || !t)
		return false;
	count(STAT_YIELDS);
	t->yielded = true;
	scx_bpf_task_set_slice(from, 0);
	return true;
}

void BPF_STRUCT_OPS(ebs_update_idle, s32 cpu, bool idle)
{
	struct run_queue *rq = run_queue_of(cpu);
	u64 lists = 0;
	int i;

	if (!rq)
		return;
	rq->idle = idle;
	if (!idle)
		return;
	/* A task came while the CPU was on its way to being idle */
	for (i = 0; i < NR_WORDS; i++)
		lists |= rq->bitmap[i];
	if (lists || rq->background || rq->overdue)
		scx_bpf_kick_cpu(cpu, 0);
}

/* ---- Balancing ------------------------------------------------------------------------------------------------- */

/* One attempt to pull tasks to a CPU */
struct balance {
	s32 cpu;
	/* The CPU has nothing to run */
	bool idle;
	/* The CPUs to pull from: positions */
	struct topology_span span;
	s32 busiest;
	/* How many more tasks to pull, and how many have been */
	u32 imbalance;
	u32 pulled;
};

/* CPUs of the node of @cpu; all if the topology is unknown. */
static __always_inline void node_span(s32 cpu, struct topology_span *span)
{
	const volatile struct cpu_topology *place = topology_of(cpu);

	span->first = place ? place->node_cpus.first : 0;
	span->count = place ? place->node_cpus.count : nr_cpu_ids;
}

/*
 * The length of the run queue of @cpu, and in place of the remembered one: fluctuations are kept out by taking the shorter of the two
 * for others and the longer for this CPU. Idle CPUs take the present one.
 */
static __always_inline u32 cpu_load(struct run_queue *this_rq, s32 cpu, bool idle, bool local)
{
	struct run_queue *rq = run_queue_of(cpu);
	u32 index = cpu, load, before;

	if (!rq)
		return 0;
	load = rq->public.nr_running;
	if (index >= NR_REMEMBERED_CPUS)
		return load;
	before = this_rq->prev_cpu_load[index];
	this_rq->prev_cpu_load[index] = load;
	if (idle)
		return load;
	return local ? larger(load, before) : smaller(load, before);
}

/* find_busiest_queue(): the longest run queue of the span if it is enough longer than this one; sets b->busiest and b->imbalance. */
__noinline bool find_busiest_queue(struct balance *b __arg_nonnull)
{
	struct run_queue *this_rq = run_queue_of(b->cpu), *busiest_rq;
	u64 nr_running, max_load = 1;
	int i;

	if (!this_rq)
		return false;
	nr_running = cpu_load(this_rq, b->cpu, b->idle, true);
	b->busiest = -1;
	bpf_for(i, 0, b->span.count) {
		s32 cpu = cpu_at(b->span.first + i);
		u64 load;

		if (cpu == b->cpu)
			continue;
		load = cpu_load(this_rq, cpu, b->idle, false);
		if (load > max_load) {
			b->busiest = cpu;
			max_load = load;
		}
	}
	if (b->busiest < 0 || max_load <= nr_running)
		return false;
	/* It takes a difference of a quarter */
	if (!b->idle && (max_load - nr_running) * 4 < max_load)
		return false;
	busiest_rq = run_queue_of(b->busiest);
	if (!busiest_rq || busiest_rq->public.nr_running <= nr_running)
		return false;
	/* Half of the difference, lest it be turned around; an idle CPU takes one */
	b->imbalance = b->idle ? 1 : larger((max_load - nr_running) / 2, 1);
	return true;
}

/* can_migrate_task() for a waiting task: allowed on this CPU and, unless that is idle, cache-cold. */
static bool can_migrate_task(struct task_struct *p, const struct task_ctx *t, const struct balance *b, u64 now)
{
	if (!bpf_cpumask_test_cpu(b->cpu, p->cpus_ptr) || is_migration_disabled(p))
		return false;
	return b->idle || elapsed(t->waiting_since, now) > cache_decay * NSEC_PER_MSEC;
}

/* Pulls tasks from one list of the busiest CPU, the one queued last first. NEVER stands for the background tasks. */
__noinline int move_list(struct balance *b __arg_nonnull, u64 due)
{
	bool background = due == NEVER;
	u64 from = background ? background_dsq(b->busiest) : list_dsq(b->busiest, due);
	u64 to = background ? background_dsq(b->cpu) : list_dsq(b->cpu, due);
	struct run_queue *this_rq = run_queue_of(b->cpu);
	u64 now = scx_bpf_now();
	struct task_struct *p;

	if (!this_rq)
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, from, SCX_DSQ_ITER_REV) {
		struct task_ctx *t = task_ctx_of(p);
		s32 level;

		if (!t || !can_migrate_task(p, t, b, now))
			continue;
		level = background ? BACKGROUND_LEVEL : level_at(t->due, promotion_clock(now));
		if (!scx_bpf_dsq_move(DSQ_ITERATOR, p, to, 0))
			continue;
		if (background)
			this_rq->background = true;
		else
			set_list_bit(this_rq, due);
		count_on(t, b->cpu);
		if (task_preempts_curr(this_rq, level))
			scx_bpf_kick_cpu(b->cpu, SCX_KICK_PREEMPT);
		b->pulled++;
		b->imbalance--;
		if (!b->imbalance)
			break;
	}
	bpf_rcu_read_unlock();
	return 0;
}

/* load_balance(): pulls waiting tasks from the busiest CPU of b->span, the best priority first. They keep their lists. */
__noinline u32 load_balance(struct balance *b __arg_nonnull)
{
	struct run_queue *rq;
	u64 first, due;
	int i;

	b->pulled = 0;
	if (!find_busiest_queue(b))
		return 0;
	rq = run_queue_of(b->busiest);
	if (!rq)
		return 0;
	first = rq->first_due;
	due = first;
	bpf_for(i, 0, NR_LISTS) {
		due = first_list(rq, due);
		if (due == NEVER || due - first >= NR_LISTS)
			break;
		move_list(b, due);
		if (!b->imbalance)
			break;
		due++;
	}
	if (b->imbalance && rq->background)
		move_list(b, NEVER);
	count_by(b->idle ? STAT_PULLED_IDLE : STAT_PULLED_BUSY, b->pulled);
	return b->pulled;
}

/* A node's load: ten times the tasks for each CPU, and half of what it was when this CPU last looked. */
static __always_inline u32 node_load(struct run_queue *this_rq, u32 node, u32 cpus)
{
	u32 load;

	if (node >= NR_REMEMBERED_NODES)
		return 0;
	load = this_rq->prev_node_load[node] / 2 + 10 * node_nr_running[node] / (cpus ?: 1);
	this_rq->prev_node_load[node] = load;
	return load;
}

/* find_busiest_node(): puts the CPUs of the node with the highest load into b->span, if it is enough higher than this one's. */
__noinline bool find_busiest_node(struct balance *b __arg_nonnull)
{
	struct run_queue *this_rq = run_queue_of(b->cpu);
	const volatile struct cpu_topology *place = topology_of(b->cpu);
	u64 this_load, max_load;
	u32 position = unknown_zero, this_node;
	bool found = false;
	int i;

	if (!this_rq || !place)
		return false;
	this_node = place->node;
	this_load = node_load(this_rq, this_node, place->node_cpus.count);
	max_load = this_load;
	bpf_for(i, 0, topology_nr_nodes) {
		u64 load;

		place = topology_of(cpu_at(position));
		if (!place)
			break;
		position = place->node_cpus.first + place->node_cpus.count;
		if (place->node == this_node)
			continue;
		load = node_load(this_rq, place->node, place->node_cpus.count);
		if (load > max_load && 100 * load > node_threshold * this_load) {
			max_load = load;
			b->span.first = place->node_cpus.first;
			b->span.count = place->node_cpus.count;
			found = true;
		}
	}
	return found;
}

/* rebalance_tick(): between nodes, then within the node, each when its time has come. */
__noinline int rebalance_tick(s32 cpu, u64 jiffies)
{
	struct run_queue *rq = run_queue_of(cpu);
	struct balance b = { .cpu = cpu };
	u32 ticks, node_ticks, pulled = 0;

	if (!rq)
		return 0;
	b.idle = rq->idle;
	/* Nobody waits that an idle CPU could help */
	if (b.idle && !nr_overloaded)
		return 0;
	ticks = ms_to_ticks(b.idle ? idle_rebalance : busy_rebalance);
	node_ticks = ticks * (b.idle ? idle_node_factor : busy_node_factor) ?: 1;
	if (topology_nr_nodes > 1 && jiffies % node_ticks == 0 && find_busiest_node(&b))
		pulled = load_balance(&b);
	if (jiffies % ticks == 0) {
		node_span(cpu, &b.span);
		pulled += load_balance(&b);
	}
	if (pulled && rq->idle)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return 0;
}

/* ---- The sinbin, and those who wait for too long --------------------------------------------------------------- */

/*
 * Lets out of a CPU's sinbin who has been there until its usage has decayed to its cap. With @review, looks at all of them: caps
 * may have changed.
 */
__noinline int release_sinbin(s32 cpu, bool review)
{
	struct run_queue *rq = run_queue_of(cpu);
	u64 now = scx_bpf_now();
	struct task_struct *p;

	if (!rq)
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, sinbin_dsq(cpu), 0) {
		struct task_ctx *t = task_ctx_of(p);
		bool ended, overdue;
		s32 level;
		u64 dsq;

		if (!t)
			continue;
		ended = !time_before(now, t->release_at);
		if (!ended && !review)
			break;
		level = calculate_priority(p, t, rq, now);
		if (!ended && over_hard_cap(p, t))
			continue;
		overdue = t->overdue && over_hard_cap(p, t);
		if (!overdue)
			t->overdue = 0;
		dsq = queue_for(t, rq, cpu, level, now);
		if (!scx_bpf_dsq_move(DSQ_ITERATOR, p, overdue ? overdue_dsq(cpu) : dsq, 0))
			continue;
		leave_sinbin(t, now);
		count_on(t, cpu);
		if (overdue)
			rq->overdue = true;
		else
			mark_queue(rq, level, t->due);
		if (rq->idle || task_preempts_curr(rq, overdue ? OVERDUE_LEVEL : level))
			resched_cpu(cpu, rq);
	}
	bpf_rcu_read_unlock();
	return 0;
}

/* Moves those at the head of a queue who have waited for too long in front of all others. */
__noinline int rescue_from(s32 cpu, u64 dsq)
{
	struct run_queue *rq = run_queue_of(cpu);
	u64 now = scx_bpf_now();
	struct task_struct *p;

	if (!rq)
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, dsq, 0) {
		struct task_ctx *t = task_ctx_of(p);

		if (!t)
			continue;
		if (patience(t, now))
			break;
		t->overdue = OVERDUE_TICKS;
		if (!scx_bpf_dsq_move(DSQ_ITERATOR, p, overdue_dsq(cpu), 0))
			continue;
		rq->overdue = true;
		if (rq->idle || task_preempts_curr(rq, OVERDUE_LEVEL))
			resched_cpu(cpu, rq);
	}
	bpf_rcu_read_unlock();
	return 0;
}

/* The same for all lists and the background tasks of a CPU: the first of each have waited longest. */
__noinline int rescue(s32 cpu)
{
	struct run_queue *rq = run_queue_of(cpu);
	u64 first, due;
	int i;

	if (!rq)
		return 0;
	first = rq->first_due;
	due = first;
	bpf_for(i, 0, NR_LISTS) {
		due = first_list(rq, due);
		if (due == NEVER || due - first >= NR_LISTS)
			break;
		rescue_from(cpu, list_dsq(cpu, due));
		due++;
	}
	if (rq->background)
		rescue_from(cpu, background_dsq(cpu));
	return 0;
}

/*
 * Background tasks that have stopped being so, by their attributes, come to the run queue without having to run first.
 */
__noinline int review_background(s32 cpu)
{
	struct run_queue *rq = run_queue_of(cpu);
	u64 now = scx_bpf_now();
	struct task_struct *p;

	if (!rq || !rq->background)
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, background_dsq(cpu), 0) {
		struct task_ctx *t = task_ctx_of(p);
		s32 level;

		if (!t)
			continue;
		level = calculate_priority(p, t, rq, now);
		if (level == BACKGROUND_LEVEL)
			continue;
		if (!scx_bpf_dsq_move(DSQ_ITERATOR, p, queue_for(t, rq, cpu, level, now), 0))
			continue;
		mark_queue(rq, level, t->due);
		if (rq->idle || task_preempts_curr(rq, level))
			resched_cpu(cpu, rq);
	}
	bpf_rcu_read_unlock();
	return 0;
}

/* Do tasks wait behind a real-time task that took the CPU when it was idle? */
static __always_inline void notice_real_time(s32 cpu)
{
	struct run_queue *rq = run_queue_of(cpu);

	if (!rq || !rq->public.nr_running || current_level(rq) != NO_LEVEL || rq->real_time)
		return;
	bpf_rcu_read_lock();
	if (higher_class_runs(cpu))
		count_real_time(rq, cpu);
	bpf_rcu_read_unlock();
}

/* Milliseconds between looks at changed attributes of tasks that do not come by themselves, and at who waits too long */
#define REVIEW_INTERVAL 100

/* Takes over what has been written to `parameters`, if it is in range. */
static __noinline void read_parameters(void)
{
	u32 key = 0;
	struct parameters *wanted = bpf_map_lookup_elem(&parameters, &key);
	u32 life, slice;

	if (!wanted)
		return;
	life = wanted->half_life_ms;
	slice = wanted->time_slice_ms;
	if (life >= 1000 && life <= 100000 && slice >= 1 && slice <= 500)
		set_parameters(life, slice);
}

/*
 * The part of scheduler_tick() that has to move tasks, on behalf of every CPU: sched_ext lets tasks be moved between queues here
 * and in dispatch, and not in ops.tick(), which idle CPUs do not get at all. It comes half a tick early: the original balances
 * before the task whose slice has just ended is switched away from and counts as cache-hot.
 */
static bool scheduler_tick(void)
{
	u64 half = tick_length(hz) / 2;
	u64 jiffies = tick_at(scx_bpf_now() + half, hz);
	bool review = jiffies % ms_to_ticks(REVIEW_INTERVAL) == 0;
	bool sinbin = nr_in_sinbin;
	int cpu;

	if (review)
		read_parameters();
	bpf_for(cpu, 0, nr_cpu_ids) {
		if (sinbin)
			release_sinbin(cpu, review);
		if (review) {
			review_background(cpu);
			rescue(cpu);
		}
		if (num_online_cpus > 1) {
			notice_real_time(cpu);
			rebalance_tick(cpu, jiffies);
		}
	}
	return true;
}

DEFINE_TIMER(tick_timer, scheduler_tick, time_to_tick(scx_bpf_now() + tick_length(hz) / 2, 1, hz))

/* ---- Picking the next task ------------------------------------------------------------------------------------- */

/*
 * The first task of the first list that has one, if that list is due at @last at the latest; a background task if @background
 * and there are no others. Moves it to this CPU's local queue.
 */
__noinline bool pick_next(s32 cpu, struct run_queue *rq __arg_nonnull, u64 clock, u64 last, bool background)
{
	u64 due;
	int i;

	if (rq->overdue) {
		rq->overdue = false;
		if (scx_bpf_dsq_move_to_local(overdue_dsq(cpu), 0)) {
			rq->overdue = true;
			return true;
		}
	}
	/* Each round but the last clears a bit */
	bpf_for(i, 0, NR_LISTS + 1) {
		due = first_list(rq, rq->first_due);
		rq->first_due = larger(rq->first_due, smaller(due, clock - MARGIN));
		if (due == NEVER || due > last)
			break;
		if (scx_bpf_dsq_move_to_local(list_dsq(cpu, due), 0))
			return true;
		clear_list_bit(rq, cpu, due);
	}
	if (background && rq->background) {
		rq->background = false;
		if (scx_bpf_dsq_move_to_local(background_dsq(cpu), 0)) {
			rq->background = true;
			return true;
		}
	}
	return false;
}

/* Pulls a task to a CPU that has run out of them. */
__noinline bool idle_balance(s32 cpu)
{
	struct balance b = { .cpu = cpu, .idle = true };

	if (num_online_cpus == 1 || !nr_overloaded)
		return false;
	node_span(cpu, &b.span);
	return load_balance(&b) > 0;
}

void BPF_STRUCT_OPS(ebs_dispatch, s32 cpu, struct task_struct *prev)
{
	struct run_queue *rq = run_queue_of(cpu);
	struct task_ctx *t = NULL;
	u64 now = scx_bpf_now(), clock = promotion_clock(now), last = NEVER - 1;
	bool background = true;
	s32 level;

	if (!rq)
		return;
	uncount_real_time(rq, cpu);
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		t = task_ctx_of(prev);
	if (!t) {
		if (!pick_next(cpu, rq, clock, last, true) && idle_balance(cpu))
			pick_next(cpu, rq, clock, last, true);
		return;
	}

	if (charge_ticks(t, now)) {
		/* It goes behind the others of its new level, if there are any */
		level = calculate_priority(prev, t, rq, now);
		if (over_hard_cap(prev, t)) {
			/* With nothing left of its slice the kernel hands it back even if there is no other */
			scx_bpf_task_set_slice(prev, 0);
			if (!pick_next(cpu, rq, clock, last, true) && idle_balance(cpu))
				pick_next(cpu, rq, clock, last, true);
			return;
		}
		if (level < BACKGROUND_LEVEL) {
			last = clock + steps_of(level);
			background = false;
		}
	} else {
		/* It is preempted by a better one only */
		level = current_level(rq);
		if (level == OVERDUE_LEVEL)
			goto keep;
		if (level < BACKGROUND_LEVEL)
			last = level ? clock + steps_of(level - 1) : 0;
		background = false;
	}
	if (pick_next(cpu, rq, clock, last, background))
		return;
keep:
	if (!t->slice_left)
		new_slice(t);
	t->yielded = false;
	if (level != OVERDUE_LEVEL)
		t->overdue = 0;
	t->level = level;
	set_current_level(rq, level);
	scx_bpf_task_set_slice(prev, slice_time(t, now));
}

/* ---- Fork, exit, nice ------------------------------------------------------------------------------------------ */

/*
 * The only heuristic: a child starts with its parent's usage rate. It also has its attributes, and by the rules of 2.6.2 half of
 * what is left of its slice. Runs in the parent.
 */
static void sched_fork(struct task_struct *p, struct task_ctx *t)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task_ctx *parent_ctx = task_ctx_of(parent);

	inherit_attributes(p);
	if (!parent_ctx || !parent_ctx->running)
		return;
	count(STAT_FORKS);
	estimate_usage(parent_ctx, scx_bpf_now());
	t->public.usage = parent_ctx->public.usage;
	t->slice_left = (parent_ctx->slice_left + 1) / 2;
	t->first_time_slice = true;
	parent_ctx->slice_left /= 2;
	if (!parent_ctx->slice_left)
		parent_ctx->slice_left = 1;
}

s32 BPF_STRUCT_OPS(ebs_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	u64 now = scx_bpf_now();
	struct task_ctx *t;

	t = bpf_task_storage_get(&task_statistics, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t)
		return -ENOMEM;
	t->public.size = sizeof(t->public);
	t->static_prio = static_prio_of(p);
	t->slice_left = slice_ticks;
	t->accounted = now;
	t->waiting_since = now;
	t->public.estimated_at = now;
	t->due = promotion_clock(now);
	t->cpu = -1;
	t->public.prio = DEFAULT_PRIO;
	if (args->fork)
		sched_fork(p, t);
	read_attributes(p, t);
	return 0;
}

/* 2.6.2: what is left of a first slice goes back to the parent. */
static void sched_exit(struct task_struct *p, struct task_ctx *t)
{
	struct task_struct *parent;
	struct task_ctx *parent_ctx;

	parent = p->real_parent;
	parent_ctx = parent ? task_ctx_of(parent) : NULL;
	if (parent_ctx && t->first_time_slice)
		parent_ctx->slice_left = smaller(parent_ctx->slice_left + t->slice_left, slice_ticks);
}

void BPF_STRUCT_OPS(ebs_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return;
	leave_sinbin(t, scx_bpf_now());
	count_on(t, -1);
	if (!args->cancelled && (p->flags & PF_EXITING))
		sched_exit(p, t);
}

/*
 * A new nice value sets the shares, also those that were set directly before; also called when a task comes to sched_ext. The
 * priority follows when it is next reckoned: at once for a waiting task, since the kernel puts it back.
 */
void BPF_STRUCT_OPS(ebs_set_weight, struct task_struct *p, u32 weight)
{
	struct task_ctx *t = task_ctx_of(p);
	s32 static_prio = static_prio_of(p);
	struct task_attributes *a;

	if (!t || t->static_prio == static_prio)
		return;
	t->static_prio = static_prio;
	a = bpf_task_storage_get(&task_attributes, p, NULL, 0);
	if (a)
		a->present &= ~TASK_ATTRIBUTE_SHARES;
	read_attributes(p, t);
}

/* ---- Start ----------------------------------------------------------------------------------------------------- */

/* Starts one CPU: its queues, empty. */
static s32 init_cpu(s32 cpu, u64 now)
{
	struct run_queue *rq = run_queue_of(cpu);
	s32 error;
	int i;

	if (!rq)
		return 0;
	bpf_for(i, 0, DSQS_PER_CPU) {
		error = scx_bpf_create_dsq((u64)cpu * DSQS_PER_CPU + i, scx_bpf_cpu_node(cpu));
		if (error)
			return error;
	}
	rq->public.size = sizeof(rq->public);
	rq->public.entitlement_at = now;
	rq->first_due = promotion_clock(now) - MARGIN;
	set_current_level(rq, NO_LEVEL);
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(ebs_init)
{
	u64 now = scx_bpf_now();
	struct parameters *initial;
	const struct cpumask *online;
	u32 key = 0;
	s32 error;
	int cpu;

	nr_cpu_ids = scx_bpf_nr_cpu_ids();
	online = scx_bpf_get_online_cpumask();
	num_online_cpus = bpf_cpumask_weight(online);
	scx_bpf_put_cpumask(online);

	initial = bpf_map_lookup_elem(&parameters, &key);
	if (!initial)
		return -ESRCH;
	initial->half_life_ms = half_life;
	initial->time_slice_ms = time_slice;
	intervals_since = now;
	set_parameters(half_life, time_slice);

	bpf_for(cpu, 0, nr_cpu_ids) {
		error = init_cpu(cpu, now);
		if (error) {
			scx_bpf_error("cannot create the lists of CPU %d: error %d", cpu, error);
			return error;
		}
	}

	return init_tick_timer() ?: start_tick_timer();
}

DEFINE_SCHEDULER(ebs,
	.select_cpu = (void *)ebs_select_cpu,
	.enqueue = (void *)ebs_enqueue,
	.dispatch = (void *)ebs_dispatch,
	.tick = (void *)ebs_tick,
	.runnable = (void *)ebs_runnable,
	.running = (void *)ebs_running,
	.stopping = (void *)ebs_stopping,
	.cpu_release = (void *)ebs_cpu_release,
	.quiescent = (void *)ebs_quiescent,
	.yield = (void *)ebs_yield,
	.set_weight = (void *)ebs_set_weight,
	.update_idle = (void *)ebs_update_idle,
	.init_task = (void *)ebs_init_task,
	.exit_task = (void *)ebs_exit_task,
	.init = (void *)ebs_init,
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 30000,
	.name = "ebs");
