// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ule - ULE, FreeBSD's scheduler since 7.1
 *
 * Each CPU has three run queues of 64 lists: one for interactive threads (and whatever has a kernel's priority), one for the
 * rest that is a calendar, and one for idle ones. Interactive is who sleeps enough for what it runs. A thread goes to the
 * least loaded CPU by the tree of caches when it wakes up, idle CPUs steal, and a balancer moves single threads now and
 * then. The rules are those of 9.1 to 9.3. README.md maps the document to this file and lists the departures.
 *
 * Names are those of FreeBSD's sched_ule.c.
 */
#include "fairground.bpf.h"
#include "freebsd.h"
#include "in_interrupt.h"
#include "real_time.h"
#include "starvation.h"
#include "topology.h"

/* ---- Tunables -------------------------------------------------------------------------------------------------- */

/* stathz ticks of a slice */
const volatile u32 slice = 12;

/* Scores below this are interactive */
const volatile u32 interact = 30;

/* Which threads preempt at once: those with a kernel's priority, all better ones, none */
enum preemption {
	PREEMPTION,
	FULL_PREEMPTION,
	NO_PREEMPTION,
};

const volatile u32 preemption = PREEMPTION;

/* Priority of a sleeper: at least the best of batch, its own, the kernel's one that it sleeps with */
enum static_boost {
	BOOST_TO_BATCH,
	BOOST_NONE,
	BOOST_TO_KERNEL,
};

const volatile u32 static_boost = BOOST_TO_BATCH;

/* Kernel priority of a sleeper, counted from the best one: waiting for anything (PWAIT), and for a disk (PRIBIO) */
const volatile u32 sleep_priority = 28;
const volatile u32 disk_priority = 12;

/* What yielding does: the yield of FreeBSD sinks to the worst timeshare priority, the one of POSIX keeps its own */
enum yield_rule {
	YIELD_SINKS,
	YIELD_KEEPS,
};

const volatile u32 yield_rule = YIELD_SINKS;

/* Ticks of hz for which a cache is warm, for each of its levels */
const volatile u32 affinity = 1;

const volatile bool balance = true;
/* stathz ticks, on average */
const volatile u32 balance_interval = 127;

const volatile bool steal_idle = true;
/* Load from which on a CPU is stolen from; within a core it is 1 */
const volatile u32 steal_thresh = 2;
/* Milliseconds of history that the score looks at, and that a child keeps */
const volatile u32 history_limit = 5000;
const volatile u32 fork_history = 500;

/* ---- Statistics, in the order of scheduler.toml ---------------------------------------------------------------- */

enum statistic {
	STAT_TICKS,
	STAT_INTERACTIVE_TICKS,
	STAT_SCORES,
	STAT_PRIORITIES,
	STAT_SLICE_ENDS,
	STAT_RESCHEDULES,
	STAT_PREEMPTIONS,
	STAT_NOTIFIED,
	STAT_INTERACTIVE_ADDS,
	STAT_BATCH_ADDS,
	STAT_PICK_AFFINITY,
	STAT_PICK_GROUP,
	STAT_PICK_BETTER,
	STAT_PICK_LEAST,
	STAT_PICK_LOCAL,
	STAT_STEALS,
	STAT_BALANCE_PASSES,
	STAT_BALANCED,
	STAT_CALENDAR_STEPS,
	STAT_FORKED_HISTORY,
	STAT_FORKS,
	STAT_YIELDS,
	STAT_RESCUED,
	NR_STATISTICS,
};

DEFINE_STATISTICS(NR_STATISTICS)

/* ---- Threads --------------------------------------------------------------------------------------------------- */

/* A thread that is in no list */
#define NO_LIST (~0U)

/* Fixed point of histories */
#define SCHED_TICK_SHIFT 10

/* Half of the range of scores */
#define SCHED_INTERACT_HALF 50

struct td_sched {
	/* History of running and of sleeping, `ticks` << SCHED_TICK_SHIFT */
	u64 runtime;
	u64 slptime;
	/* CPU use: `ticks` << SCHED_TICK_SHIFT that it ran from tick ftick to tick ltick */
	u64 ticks;
	u64 ftick;
	u64 ltick;
	/* `ticks` when it ran last, 0 for never, and when it went to sleep */
	u64 rltick;
	u64 slptick;
	/* stathz tick up to which the current run is charged */
	u64 charged_until;
	/* stathz ticks used up of the slice */
	u32 used;
	/* td_priority, the one that counts, and td_user_pri, the one that user mode has */
	s32 priority;
	s32 user_pri;
	/* CPU whose load counts it, -1 while it is not runnable */
	s32 cpu;
	/* Where it waits: see place_of() */
	u32 place;
	/* Since when it waits */
	u64 waiting_since;
	bool running;
	bool sleeping;
	/* TDF_SLICEEND: who leaves without it was preempted */
	bool sliceend;
	/* Has just lost its CPU, and in a way that brings it to the head of its list */
	bool requeued;
	bool preempted;
	/* Has sunk by yielding */
	bool yielding;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct td_sched);
} td_sched_map SEC(".maps");

static __always_inline struct td_sched *td_sched_of(struct task_struct *p)
{
	return bpf_task_storage_get(&td_sched_map, p, NULL, 0);
}

/* ---- Run queues ------------------------------------------------------------------------------------------------ */

enum queue {
	QUEUE_REALTIME,
	QUEUE_TIMESHARE,
	QUEUE_IDLE,
	NR_QUEUES,
};

/* Lists of a CPU: as many for each queue */
#define LISTS_PER_CPU (NR_QUEUES * RQ_NQS)

struct tdq {
	struct runq runq[NR_QUEUES];
	/* Threads, the running one included, and those that wait and may move */
	u32 load;
	u32 transferable;
	/* Best priority that waits or runs */
	s32 lowpri;
	/* Priority of the current thread: of the idle thread the worst, of one above sched_ext the best */
	s32 curpri;
	/* The calendar: where to insert and where to remove */
	u32 idx;
	u32 ridx;
	bool idle;
	/* Interrupted and not yet here */
	bool ipipending;
	/* Number of the search that leaves this CPU out */
	u64 left_out_by;
	/* And of that in which it may give no thread away */
	u64 no_donor_by;
};

DEFINE_PER_CPU(struct tdq, tdq)

/* The timeshare range: interactive threads have what nice values leave of its first half, PRI_MIN_BATCH begins the rest. */
#define PRI_MIN_INTERACT PRI_MIN_TIMESHARE
#define PRI_MAX_INTERACT (PRI_MIN_BATCH - 1)
#define PRI_MIN_BATCH 152

/* Number of a CPU's list among all; also the id of its dispatch queue */
static __always_inline u32 place_of(s32 cpu, u32 queue, u32 index)
{
	return (u32)cpu * LISTS_PER_CPU + queue * RQ_NQS + index;
}

/* In a thread's place: the thread counts as transferable */
#define PLACE_XFERABLE (1U << 31)

static u32 nr_cpu_ids;
static u32 num_online_cpus;

/* Numbers the searches */
static u64 searches;

/* ---- Formulas -------------------------------------------------------------------------------------------------- */

static __always_inline s32 clamped(s32 priority, s32 least, s32 most)
{
	return priority < least ? least : priority > most ? most : priority;
}

static __always_inline u64 ms_to_ticks(u64 ms)
{
	return ms * hz / 1000;
}

/* Half of what nice spans, and the range of priorities that CPU use spans */
#define SCHED_PRI_NHALF 20
#define SCHED_PRI_RANGE (PRI_MAX_TIMESHARE - PRI_MIN_BATCH - 2 * SCHED_PRI_NHALF + 1)

/* SCHED_TICK_TARG and SCHED_TICK_MAX: the window of CPU use is cut back to 10 s when it reaches 11 s */
static __always_inline u64 sched_tick_targ(void)
{
	return 10 * (u64)hz;
}

static __always_inline u64 sched_tick_max(void)
{
	return 11 * (u64)hz;
}

/* tickincr: `ticks` of a stathz tick */
static __always_inline u64 tickincr(void)
{
	return ((u64)hz << SCHED_TICK_SHIFT) / (stathz ?: 1);
}

/* sched_interact_score(): 0 to 100; about 50 times running over sleeping for who sleeps more */
static u32 sched_interact_score(const struct td_sched *ts)
{
	u64 div;

	if (interact <= SCHED_INTERACT_HALF && ts->runtime >= ts->slptime)
		return SCHED_INTERACT_HALF;
	if (ts->runtime > ts->slptime) {
		div = ts->runtime / SCHED_INTERACT_HALF ?: 1;
		return 2 * SCHED_INTERACT_HALF - ts->slptime / div;
	}
	if (ts->slptime > ts->runtime) {
		div = ts->slptime / SCHED_INTERACT_HALF ?: 1;
		return ts->runtime / div;
	}
	return ts->runtime ? SCHED_INTERACT_HALF : 0;
}

/* sched_interact_update(): keeps the history within its limit, and so young. */
static void sched_interact_update(struct td_sched *ts)
{
	u64 limit = ms_to_ticks(history_limit) << SCHED_TICK_SHIFT;
	u64 sum = ts->runtime + ts->slptime;

	if (sum < limit)
		return;
	if (sum > limit * 2) {
		/* One long sleep, or a child that has run for long */
		if (ts->runtime > ts->slptime) {
			ts->runtime = limit;
			ts->slptime = 1;
		} else {
			ts->slptime = limit;
			ts->runtime = 1;
		}
		return;
	}
	if (sum > limit / 5 * 6) {
		ts->runtime /= 2;
		ts->slptime /= 2;
		return;
	}
	ts->runtime = ts->runtime / 5 * 4;
	ts->slptime = ts->slptime / 5 * 4;
}

/* sched_interact_fork(): a child learns quickly, since it has little to forget. */
static void sched_interact_fork(struct td_sched *ts)
{
	u64 limit = ms_to_ticks(fork_history) << SCHED_TICK_SHIFT;
	u64 sum = ts->runtime + ts->slptime;
	u64 ratio;

	if (sum <= limit)
		return;
	ratio = sum / (limit ?: 1) ?: 1;
	ts->runtime /= ratio;
	ts->slptime /= ratio;
}

/* sched_pctcpu_update(): CPU use up to now, the time since the last update counted as run or not. */
static void sched_pctcpu_update(struct td_sched *ts, u64 t, bool run)
{
	u64 targ = sched_tick_targ();

	if (t < ts->ltick)
		t = ts->ltick;
	if (t - ts->ltick >= targ) {
		ts->ticks = 0;
		ts->ftick = t - targ;
	} else if (t - ts->ftick >= sched_tick_max()) {
		ts->ticks = ts->ticks / (ts->ltick - ts->ftick ?: 1) * (ts->ltick - (t - targ));
		ts->ftick = t - targ;
	}
	if (run)
		ts->ticks += (t - ts->ltick) << SCHED_TICK_SHIFT;
	ts->ltick = t;
}

/* SCHED_PRI_TICKS: CPU use of the window, 0 to 31; a window of less than a second counts as one. */
static u32 sched_pri_ticks(const struct td_sched *ts)
{
	u64 total = ts->ltick - ts->ftick;
	u32 used;

	if (total < hz)
		total = hz;
	used = (ts->ticks >> SCHED_TICK_SHIFT) / ((total + SCHED_PRI_RANGE - 1) / SCHED_PRI_RANGE ?: 1);
	return used < SCHED_PRI_RANGE - 1 ? used : SCHED_PRI_RANGE - 1;
}

/* Score and nice value, which decide between interactive and batch */
static __always_inline s32 tested_score(struct task_struct *p, const struct td_sched *ts)
{
	s32 score = (s32)sched_interact_score(ts) + task_nice(p);

	return score > 0 ? score : 0;
}

/* Priority of an interactive score: whole priorities for each point */
static __always_inline s32 interactive_priority(u32 score)
{
	return PRI_MIN_INTERACT + (PRI_MAX_INTERACT - PRI_MIN_INTERACT + 1) / (interact ?: 1) * score;
}

/*
 * sched_priority(): an interactive thread's user priority follows its score, 120 to 149; that of the others CPU use and nice value,
 * 152 + 0..31 + 0..39.
 */
static void sched_priority(struct task_struct *p, struct td_sched *ts)
{
	s32 score;

	switch (thread_class_of(p)) {
	case THREAD_TIMESHARE:
		score = tested_score(p, ts);
		if (score < (s32)interact)
			ts->user_pri = interactive_priority(score);
		else
			ts->user_pri = clamped(PRI_MIN_BATCH + sched_pri_ticks(ts) + task_nice(p) + SCHED_PRI_NHALF,
					       PRI_MIN_BATCH, PRI_MAX_TIMESHARE);
		break;
	case THREAD_IDLE:
		ts->user_pri = PRI_MIN_IDLE + (u32)(task_nice(p) + 20) * 31 / 39;
		break;
	case THREAD_KERNEL:
		ts->user_pri = PRI_MIN_KERN;
		break;
	case THREAD_INTERRUPT:
		ts->user_pri = PRI_MAX_ITHD;
		break;
	}
}

/* Time to the tick at which the slice ends, nanoseconds */
static __always_inline u64 slice_left(const struct td_sched *ts, u64 now)
{
	return time_to_tick(now, ts->used < slice ? slice - ts->used : 1, stathz);
}

/* ---- The lists ------------------------------------------------------------------------------------------------- */

/* Which of a CPU's queues a priority belongs to */
static __always_inline u32 queue_of(s32 priority)
{
	if (priority < PRI_MIN_BATCH)
		return QUEUE_REALTIME;
	return priority <= PRI_MAX_TIMESHARE ? QUEUE_TIMESHARE : QUEUE_IDLE;
}

/*
 * The calendar's removal index follows the insertion index while its list is empty (tdq_advance_ts_deq_off()). FreeBSD moves it when
 * the last thread leaves the list; here this is made up for whenever the indices are used.
 */
static __always_inline void follow_idx(struct tdq *tdq, s32 cpu)
{
	if (tdq->ridx != tdq->idx && scx_bpf_dsq_nr_queued(place_of(cpu, QUEUE_TIMESHARE, tdq->ridx)) <= 0)
		tdq->ridx = (tdq->ridx + 1) % RQ_NQS;
}

/*
 * Where in the calendar a batch priority goes: the better, the nearer to the insertion index. Not into lists that are being emptied,
 * those from the removal index up to the insertion index, but behind all others. A preempted thread goes to where the next one is
 * taken from.
 */
static __always_inline u32 calendar_index(const struct tdq *tdq, s32 priority, bool preempted)
{
	u32 range = PRI_MAX_TIMESHARE - PRI_MIN_BATCH + 1;
	u32 idx = tdq->idx, ridx = tdq->ridx, index;

	if (preempted)
		return ridx;
	index = (RQ_NQS * (u32)(priority - PRI_MIN_BATCH) / range + idx) % RQ_NQS;
	if ((index - ridx) % RQ_NQS < (idx - ridx) % RQ_NQS)
		index = (ridx - 1) % RQ_NQS;
	return index;
}

/* Which list of its queue a priority has */
static __always_inline u32 index_of(const struct tdq *tdq, u32 queue, s32 priority, bool preempted)
{
	return queue == QUEUE_TIMESHARE ? calendar_index(tdq, priority, preempted) : list_of(priority);
}

/* Where the search of a queue begins: of the calendar at its removal index */
static __always_inline u32 search_start(const struct tdq *tdq, u32 queue)
{
	return queue == QUEUE_TIMESHARE ? tdq->ridx : 0;
}

/* The list of a queue that is so many steps from where its search begins */
static __always_inline u32 index_at(const struct tdq *tdq, u32 queue, u32 steps)
{
	return (search_start(tdq, queue) + steps) % RQ_NQS;
}

/* Steps to the first list of a queue that holds threads and is at least @steps away; RQ_NQS if there is none. */
__noinline u32 next_list(s32 cpu, u32 queue, u32 steps)
{
	struct tdq *tdq = tdq_of(cpu);
	u32 start;
	u64 bits;

	if (!tdq || queue >= NR_QUEUES || steps >= RQ_NQS)
		return RQ_NQS;
	start = search_start(tdq, queue) % RQ_NQS;
	bits = tdq->runq[queue].bits;
	/* Turned, so that the search begins with bit 0 */
	bits = start ? bits >> start | bits << (RQ_NQS - start) : bits;
	return runq_first(bits & ~0ULL << steps);
}

/* Notes the list a thread is about to be put into. */
static __always_inline void announce(u32 place)
{
	u32 list = place & ~PLACE_XFERABLE;
	struct tdq *tdq = tdq_of(list / LISTS_PER_CPU);
	u32 queue = list % LISTS_PER_CPU / RQ_NQS;

	/* The compiler knows that it is one of them, the verifier does not. */
	barrier_var(queue);
	if (!tdq || queue >= NR_QUEUES)
		return;
	runq_announce(&tdq->runq[queue], list % RQ_NQS);
	if (place & PLACE_XFERABLE)
		__sync_fetch_and_add(&tdq->transferable, 1);
}

/* And that it is there no more. */
static __always_inline void forget(u32 place)
{
	u32 list = place & ~PLACE_XFERABLE;
	struct tdq *tdq = tdq_of(list / LISTS_PER_CPU);
	u32 queue = list % LISTS_PER_CPU / RQ_NQS;

	barrier_var(queue);
	if (!tdq || queue >= NR_QUEUES)
		return;
	runq_forget(&tdq->runq[queue], list % RQ_NQS);
	if (place & PLACE_XFERABLE)
		__sync_fetch_and_add(&tdq->transferable, -1);
}

/* A place that is no list: the thread is being moved by the CPU whose number is the rest, and by nobody else. */
#define PLACE_CLAIMED (1U << 30)

static __always_inline bool is_list(u32 place)
{
	return !(place & PLACE_CLAIMED);
}

static __noinline void set_place(struct td_sched *ts, u32 place)
{
	u32 old;

	if (is_list(place))
		announce(place);
	old = __sync_lock_test_and_set(&ts->place, place);
	/* Of a claimed thread, its mover forgets the old list */
	if (is_list(old))
		forget(old);
}

/*
 * Claims a thread that waits in list @old, to move it to list @new. Two movers at once could each believe that the thread is
 * where they put it, and it would wait in a list that nobody looks at. A CPU moves one thread at a time, so its number
 * also tells a claim from an earlier one.
 */
__noinline bool begin_move(struct td_sched *ts __arg_nonnull, u32 old, u32 new)
{
	if (__sync_val_compare_and_swap(&ts->place, old,
					PLACE_CLAIMED | bpf_get_smp_processor_id()) != old)
		return false;
	announce(new);
	return true;
}

/* Ends the move. True if the thread waits in list @new; if it has been taken from there already it is counted nowhere. */
__noinline bool end_move(struct td_sched *ts __arg_nonnull, u32 old, u32 new, bool moved)
{
	u32 claim = PLACE_CLAIMED | bpf_get_smp_processor_id(), place = moved ? new : old;
	bool waits;

	forget(moved ? old : new);
	waits = __sync_val_compare_and_swap(&ts->place, claim, place) == claim;
	if (!waits)
		forget(place);
	return waits && moved;
}

/* THREAD_CAN_MIGRATE, for the mark in a place: not bound to its CPU; whether another one is allowed is not asked. */
static __always_inline u32 xferable(const struct task_struct *p)
{
	return is_migration_disabled(p) || thread_class_of(p) == THREAD_INTERRUPT ? 0 : PLACE_XFERABLE;
}

static __always_inline void change_load(s32 cpu, s32 by)
{
	struct tdq *tdq = tdq_of(cpu);

	if (tdq)
		__sync_fetch_and_add(&tdq->load, by);
}

/* tdq_load_add() and tdq_load_rem(): counts a thread in the load of @cpu, or in none if @cpu is -1. */
static __noinline void count_on(struct td_sched *ts, s32 cpu)
{
	s32 old = __sync_lock_test_and_set(&ts->cpu, cpu);

	if (old == cpu)
		return;
	if (old >= 0)
		change_load(old, -1);
	if (cpu >= 0)
		change_load(cpu, 1);
}

/* Priority of the first thread of a list, or the worst if it is empty */
#define NO_PRIORITY 255

__noinline s32 head_priority(u64 dsq)
{
	struct task_struct *p;
	s32 priority = NO_PRIORITY;

	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, dsq, 0) {
		struct td_sched *ts = td_sched_of(p);

		if (ts)
			priority = ts->priority;
		break;
	}
	bpf_rcu_read_unlock();
	return priority;
}

/* Priority of the thread that tdq_choose() would choose */
__noinline s32 best_waiting(s32 cpu)
{
	struct tdq *tdq = tdq_of(cpu);
	u32 queue;

	if (!tdq)
		return NO_PRIORITY;
	for (queue = 0; queue < NR_QUEUES; queue++) {
		u32 steps = next_list(cpu, queue, 0);

		if (steps < RQ_NQS)
			return head_priority(place_of(cpu, queue, index_at(tdq, queue, steps)));
	}
	return NO_PRIORITY;
}

static __always_inline void tdq_setlowpri(struct tdq *tdq, s32 cpu)
{
	s32 waiting = best_waiting(cpu), current = tdq->curpri;

	tdq->lowpri = waiting < current ? waiting : current;
}

/* The current thread's priority is now this one. */
static __always_inline void set_current_priority(struct tdq *tdq, s32 cpu, s32 priority)
{
	tdq->curpri = priority;
	tdq_setlowpri(tdq, cpu);
}

/* ---- The tick -------------------------------------------------------------------------------------------------- */

/* sched_clock() for one tick. True if the slice has ended. */
static __always_inline bool sched_clock(struct task_struct *p, struct td_sched *ts, struct tdq *tdq,
					s32 cpu)
{
	s32 score;

	/* Lets everybody have a turn: who is inserted from now on comes after those who wait */
	follow_idx(tdq, cpu);
	if (tdq->idx == tdq->ridx) {
		tdq->idx = (tdq->idx + 1) % RQ_NQS;
		count(STAT_CALENDAR_STEPS);
		follow_idx(tdq, cpu);
	}
	if (thread_class_of(p) == THREAD_TIMESHARE) {
		ts->runtime += tickincr();
		sched_interact_update(ts);
		sched_priority(p, ts);
	}
	score = tested_score(p, ts);
	count(STAT_TICKS);
	count_by(STAT_SCORES, score);
	count_by(STAT_PRIORITIES, ts->user_pri);
	if (score < (s32)interact)
		count(STAT_INTERACTIVE_TICKS);

	if (++ts->used < slice)
		return false;
	ts->used = 0;
	ts->sliceend = true;
	return true;
}

/* Charges a running thread the ticks since it was last charged. True if its slice has ended. */
__noinline bool charge_ticks(struct task_struct *p __arg_trusted, s32 cpu)
{
	struct td_sched *ts = td_sched_of(p);
	struct tdq *tdq = tdq_of(cpu);
	u64 time = scx_bpf_now();
	u64 now = stat_tick_at(time);
	bool ended = false;
	u64 from;
	int i;

	if (!ts || !tdq || !ts->running)
		return false;
	from = ts->charged_until;
	if (from >= now)
		return false;
	ts->charged_until = now;
	sched_pctcpu_update(ts, ticks_at(time), true);
	/* No slice is longer, whatever kept the tick away */
	bpf_for(i, 0, now - from < 1000 ? now - from : 1000)
		ended |= sched_clock(p, ts, tdq, cpu);
	if (ended)
		count(STAT_SLICE_ENDS);
	return ended;
}

/* ---- Searching the tree of CPU groups -------------------------------------------------------------------------- */

/* Levels of the tree, from the smallest groups to the whole machine */
enum level {
	/* Hardware threads of a core */
	LEVEL_CORE,
	/* CPUs that share the last cache */
	LEVEL_LLC,
	LEVEL_PACKAGE,
	LEVEL_MACHINE,
	NR_LEVELS,
};

/* CG_SHARE_*: the cache that a group shares, whose level is the number of ticks it stays warm */
static __always_inline u32 cg_level(u32 level)
{
	return level == LEVEL_CORE ? 1 : level == LEVEL_LLC ? 3 : 0;
}

#define CG_SHARE_L2 2

static __always_inline bool cpu_exists(s32 cpu)
{
	const volatile struct cpu_topology *place = topology_of(cpu);

	return !place || place->capacity;
}

/* The group of @cpu at @level. Without a known topology all CPUs share one cache. */
static __always_inline void group_span(u32 level, s32 cpu, struct topology_span *span)
{
	const volatile struct cpu_topology *place = topology_of(cpu);

	span->first = 0;
	span->count = nr_cpu_ids;
	if (!place) {
		if (level != LEVEL_CORE)
			return;
		span->first = cpu;
		span->count = 1;
		return;
	}
	switch (level) {
	case LEVEL_CORE:
		*span = place->core_cpus;
		break;
	case LEVEL_LLC:
		*span = place->llc_cpus;
		break;
	case LEVEL_PACKAGE:
		*span = place->package_cpus;
		break;
	}
}

/* False for a group that is no larger than the one it holds: the tree has no such node. */
static __always_inline bool group_exists(u32 level, s32 cpu)
{
	struct topology_span span, inner = { .count = 1 };

	group_span(level, cpu, &span);
	if (level > LEVEL_CORE)
		group_span(level - 1, cpu, &inner);
	return span.count > inner.count;
}

/* The best CPU of a group, of those seen so far */
struct found {
	/* Sum over the group's CPUs */
	s64 total;
	/* Load of the group or CPU inside that was chosen, and of the CPU itself with its random part */
	s64 load;
	s64 cpu_load;
	s32 cpu;
};

/* Number of a search that leaves no CPU out */
#define LEAVE_NONE_OUT (~0ULL)

/* sched_lowest() and sched_highest() */
struct cpu_search {
	/* Number of the search: CPUs that carry it are left out */
	u64 number;
	/* Where to look */
	u32 first;
	u32 count;
	/* Lowest: best priority there must be worse than pri, load at most limit. Highest: load at least limit. */
	s32 pri;
	s32 limit;
	/* Preferred at equal loads, -1 for none */
	s32 prefer;
	bool highest;
	struct found found[NR_LEVELS];
};

static __always_inline void begin_group(struct found *f, bool highest)
{
	f->total = 0;
	f->load = highest ? -(1LL << 40) : 1LL << 40;
	f->cpu_load = f->load;
	f->cpu = -1;
}

/* What the preferred CPU has less load than another with as many threads; 256 is a thread */
#define PREFERENCE 64

/* Compares what one child of a group, a CPU or a group, has to offer with the best so far. */
static __always_inline void compare_child(struct found *f, bool highest, s64 load, s64 cpu_load,
					  s32 cpu)
{
	bool better;

	if (cpu < 0)
		return;
	if (highest)
		better = load > f->load || (load == f->load && cpu_load > f->cpu_load);
	else
		better = load < f->load || (load == f->load && cpu_load < f->cpu_load);
	if (!better)
		return;
	f->load = load;
	f->cpu_load = cpu_load;
	f->cpu = cpu;
}

/* Threads of a CPU; a real-time task of the kernel that runs there is one of them. The timer that balances is no RCU section by itself. */
static __always_inline u32 load_of(const struct tdq *tdq, s32 cpu)
{
	bool real_time;

	bpf_rcu_read_lock();
	real_time = higher_class_runs(cpu);
	bpf_rcu_read_unlock();
	return tdq->load + real_time;
}

/* One CPU of a search: a child of its core, which may end with it, and so on upwards. */
__noinline int visit_cpu(struct cpu_search *s __arg_nonnull, u32 position, bool allowed)
{
	s32 cpu = cpu_at(position), candidate = -1;
	bool preferred = !s->highest && cpu == s->prefer;
	struct tdq *tdq = tdq_of(cpu);
	struct topology_span span;
	s64 load, total, cpu_load;
	s32 threads;
	u32 level;

	if (!tdq || !cpu_exists(cpu))
		return 0;
	threads = load_of(tdq, cpu);
	load = (s64)threads * 256;
	cpu_load = load - (bpf_get_prandom_u32() & (PREFERENCE - 1));
	total = preferred ? load - PREFERENCE : load;
	if (preferred)
		cpu_load -= PREFERENCE;
	load = total;
	if (allowed && tdq->left_out_by != s->number) {
		if (s->highest) {
			if (threads >= s->limit && tdq->transferable)
				candidate = cpu;
		} else if (threads <= s->limit && tdq->lowpri > s->pri) {
			candidate = cpu;
		}
	}

	/* From the last CPU of a group to its first: there the group is complete and becomes a child of the next larger one */
	for (level = 0; level < NR_LEVELS; level++) {
		struct found *f = &s->found[level];

		f->total += total;
		compare_child(f, s->highest, load, cpu_load, candidate);
		group_span(level, cpu, &span);
		if (position != span.first || level == NR_LEVELS - 1)
			break;
		total = f->total;
		load = total;
		cpu_load = f->cpu_load;
		candidate = f->cpu;
		begin_group(f, s->highest);
	}
	return 0;
}

/*
 * cpu_search() among the CPUs of a group, from the last to the first, of those that @p may run on. Groups compare by the sum
 * of their loads, and so do CPUs. Returns the CPU, or -1.
 */
__noinline s32 cpu_search(struct cpu_search *s __arg_nonnull,
			  struct task_struct *p __arg_trusted __arg_nullable)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	u32 i, level;

	for (level = 0; level < NR_LEVELS; level++)
		begin_group(&s->found[level], s->highest);
	bpf_rcu_read_lock();
	bpf_for(i, 0, s->count) {
		u32 position = s->first + s->count - 1 - i;
		s32 cpu = cpu_at(position);
		bool allowed = bpf_cpumask_test_cpu(cpu, online);

		if (allowed && p)
			allowed = bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
		visit_cpu(s, position, allowed);
	}
	bpf_rcu_read_unlock();
	scx_bpf_put_cpumask(online);
	/* The groups above the searched one are left open, with one child */
	for (level = 0; level < NR_LEVELS; level++)
		if (s->found[level].cpu >= 0)
			return s->found[level].cpu;
	return -1;
}

/* ---- Choosing a CPU -------------------------------------------------------------------------------------------- */

/* SCHED_AFFINITY: the cache of this level is still warm */
static __always_inline bool sched_affinity(const struct td_sched *ts, u32 level, u64 ticks)
{
	return ts->rltick && ts->rltick + level * affinity > ticks;
}

static __always_inline bool is_idle_cpu(s32 cpu)
{
	struct tdq *tdq = tdq_of(cpu);

	return !tdq || tdq->lowpri >= PRI_MIN_IDLE;
}

/* True if all threads of the core of @cpu are idle. */
static __noinline bool core_is_idle(s32 cpu)
{
	struct topology_span span;
	u32 i;

	group_span(LEVEL_CORE, cpu, &span);
	bpf_for(i, 0, span.count)
		if (!is_idle_cpu(cpu_at(span.first + i)))
			return false;
	return true;
}

/* sched_pickcpu() for a thread that ran on CPU @last */
__noinline s32 sched_pickcpu(struct task_struct *p __arg_trusted, s32 last)
{
	struct td_sched *ts = td_sched_of(p);
	struct tdq *tdq = tdq_of(last), *my_tdq;
	s32 self = bpf_get_smp_processor_id(), cpu = -1;
	struct cpu_search s = { .number = LEAVE_NONE_OUT, .prefer = last, .limit = 1 << 30 };
	struct topology_span span, wide = {};
	u64 now = ticks_at(scx_bpf_now());
	bool self_allowed, last_allowed;
	u32 level;
	s32 pri;

	if (!ts || !tdq)
		return last;
	my_tdq = tdq_of(self);
	self_allowed = my_tdq && bpf_cpumask_test_cpu(self, p->cpus_ptr);
	last_allowed = bpf_cpumask_test_cpu(last, p->cpus_ptr);
	pri = ts->priority;
	if (pri <= PRI_MAX_ITHD && self_allowed && in_interrupt() &&
	    my_tdq->lowpri > pri)
		return self;

	if (last_allowed && is_idle_cpu(last) && sched_affinity(ts, CG_SHARE_L2, now) &&
	    core_is_idle(last)) {
		count(STAT_PICK_AFFINITY);
		return last;
	}

	/* The largest group whose cache is warm; hardware threads of a core are none */
	bpf_for(level, LEVEL_LLC, NR_LEVELS) {
		if (level < LEVEL_MACHINE && group_exists(level, last) &&
		    sched_affinity(ts, cg_level(level), now))
			group_span(level, last, &wide);
	}
	if (wide.count && wide.count < nr_cpu_ids) {
		s.first = wide.first;
		s.count = wide.count;
		s.pri = PRI_MAX_TIMESHARE;
		if (pri > s.pri)
			s.pri = pri;
		cpu = cpu_search(&s, p);
		if (cpu >= 0)
			count(STAT_PICK_GROUP);
	}
	group_span(LEVEL_MACHINE, last, &span);
	s.first = span.first;
	s.count = span.count;
	if (cpu < 0) {
		s.pri = pri;
		cpu = cpu_search(&s, p);
		if (cpu >= 0)
			count(STAT_PICK_BETTER);
	}
	if (cpu < 0) {
		s.pri = -1;
		cpu = cpu_search(&s, p);
		count(STAT_PICK_LEAST);
	}
	tdq = tdq_of(cpu);
	if (cpu < 0 || !tdq)
		return last_allowed ? last : (s32)bpf_cpumask_first(p->cpus_ptr);

	if (self_allowed && cpu != self && my_tdq->lowpri > pri && !is_idle_cpu(cpu) &&
	    my_tdq->load <= tdq->load + 1) {
		count(STAT_PICK_LOCAL);
		return self;
	}
	return cpu;
}

s32 BPF_STRUCT_OPS(ule_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return num_online_cpus > 1 ? sched_pickcpu(p, prev_cpu) : prev_cpu;
}

/* ---- Adding a thread to a run queue ---------------------------------------------------------------------------- */

/* sched_shouldpreempt(): whether a thread of priority @pri makes one of @cpri leave at once. */
static bool sched_shouldpreempt(s32 pri, s32 cpri, bool remote)
{
	if (pri >= cpri)
		return false;
	if (cpri >= PRI_MIN_IDLE)
		return true;
	if (preemption == NO_PREEMPTION)
		return false;
	if (preemption == FULL_PREEMPTION || pri <= PRI_MIN_KERN)
		return true;
	return remote && pri <= PRI_MAX_INTERACT && cpri > PRI_MAX_INTERACT;
}

/*
 * sched_setpreempt(): on this CPU a better thread gets the CPU at the latest when the current one returns to user mode. To
 * sched_ext this and an immediate preemption are one and the same: the kernel decides where a thread may be preempted.
 */
static __always_inline void sched_setpreempt(struct tdq *tdq, s32 cpu, s32 pri)
{
	if (tdq->idle) {
		scx_bpf_kick_cpu(cpu, 0);
		return;
	}
	if (pri >= tdq->curpri)
		return;
	count(sched_shouldpreempt(pri, tdq->curpri, false) ? STAT_PREEMPTIONS : STAT_RESCHEDULES);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* tdq_notify(): another CPU hears only of threads that preempt. */
static __always_inline void tdq_notify(struct tdq *tdq, s32 cpu, s32 pri)
{
	if (tdq->ipipending)
		return;
	if (!tdq->idle && !sched_shouldpreempt(pri, tdq->curpri, true))
		return;
	count(STAT_NOTIFIED);
	tdq->ipipending = true;
	if (tdq->idle) {
		scx_bpf_kick_cpu(cpu, 0);
		return;
	}
	count(STAT_PREEMPTIONS);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* sched_add() and, for a thread that has lost its CPU, the first half of sched_switch() */
void BPF_STRUCT_OPS(ule_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct td_sched *ts = td_sched_of(p);
	struct tdq *tdq = tdq_of(cpu);
	u64 now = scx_bpf_now();
	bool preempted, requeued;
	u32 queue, place;

	if (!ts || !tdq) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return;
	}
	requeued = ts->requeued;
	preempted = ts->preempted;
	ts->requeued = false;
	ts->preempted = false;
	ts->waiting_since = now;
	if (!requeued)
		sched_priority(p, ts);
	count_on(ts, cpu);

	follow_idx(tdq, cpu);
	queue = queue_of(ts->priority);
	if (queue == QUEUE_REALTIME)
		count(STAT_INTERACTIVE_ADDS);
	else
		count(STAT_BATCH_ADDS);
	place = place_of(cpu, queue, index_of(tdq, queue, ts->priority, preempted));
	set_place(ts, place | xferable(p));
	scx_bpf_dsq_insert(p, place, slice_left(ts, now), preempted ? SCX_ENQ_HEAD : 0);

	if (!requeued && cpu != (s32)bpf_get_smp_processor_id())
		tdq_notify(tdq, cpu, ts->priority);
	else if (!requeued)
		sched_setpreempt(tdq, cpu, ts->priority);
	if (ts->priority < tdq->lowpri)
		tdq->lowpri = ts->priority;
}

/* ---- Sleep and wake-up ----------------------------------------------------------------------------------------- */

/* sched_wakeup(), apart from adding the thread */
void BPF_STRUCT_OPS(ule_runnable, struct task_struct *p, u64 enq_flags)
{
	struct td_sched *ts = td_sched_of(p);
	u64 now = ticks_at(scx_bpf_now());

	if (!ts)
		return;
	count_on(ts, scx_bpf_task_cpu(p));
	if (!(enq_flags & SCX_ENQ_WAKEUP))
		return;
	if (ts->sleeping && now > ts->slptick) {
		ts->slptime += (now - ts->slptick) << SCHED_TICK_SHIFT;
		sched_interact_update(ts);
		sched_pctcpu_update(ts, now, false);
	}
	ts->sleeping = false;
	ts->used = 0;
}

/* Priority that a thread sleeps with, counted from the best kernel one: PRIBIO or PWAIT */
static __always_inline u32 kernel_sleep_priority(const struct task_struct *p)
{
	return p->in_iowait ? disk_priority : sleep_priority;
}

/* sched_sleep() */
void BPF_STRUCT_OPS(ule_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct td_sched *ts = td_sched_of(p);
	struct tdq *tdq;
	s32 cpu;

	if (!ts)
		return;
	cpu = ts->cpu;
	tdq = is_list(ts->place) ? tdq_of(cpu) : NULL;
	set_place(ts, NO_LIST);
	count_on(ts, -1);
	if (tdq)
		tdq_setlowpri(tdq, cpu);
	ts->requeued = false;
	ts->preempted = false;
	if (!(deq_flags & SCX_DEQ_SLEEP))
		return;
	ts->sleeping = true;
	ts->slptick = ticks_at(scx_bpf_now());
	if (thread_class_of(p) != THREAD_TIMESHARE)
		return;
	if (static_boost == BOOST_TO_KERNEL)
		ts->priority = clamped(PRI_MIN_KERN + kernel_sleep_priority(p), PRI_MIN_KERN, PRI_MAX_KERN);
	else if (static_boost == BOOST_TO_BATCH && ts->priority > PRI_MIN_BATCH)
		ts->priority = PRI_MIN_BATCH;
}

/* ---- Moving threads between CPUs ------------------------------------------------------------------------------- */

/* One attempt to move a thread */
struct move {
	s32 from;
	s32 to;
	/* The first thread is passed over */
	bool skips_first;
	/* Threads seen so far */
	u32 seen;
	/* It is the turn of the only thread after all */
	bool last_resort;
};

/* The list of its new CPU that a thread goes to */
static __noinline u32 destination(struct td_sched *ts, const struct move *m)
{
	struct tdq *tdq = tdq_of(m->to);
	u32 queue = queue_of(ts->priority);

	if (!tdq)
		return NO_LIST;
	follow_idx(tdq, m->to);
	return place_of(m->to, queue, index_of(tdq, queue, ts->priority, false)) | PLACE_XFERABLE;
}

/* One list: the first thread that may move there; in runq_steal_from() the very first one of all is passed over. */
__noinline bool steal_from_list(struct move *m __arg_nonnull, u32 queue, u32 index)
{
	u32 list = place_of(m->from, queue, index);
	struct tdq *tdq = tdq_of(m->to);
	struct task_struct *p;
	bool moved = false;

	if (!tdq)
		return false;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, list, 0) {
		struct td_sched *ts = td_sched_of(p);
		u32 new;

		if (!ts)
			continue;
		if (!m->seen++ && m->skips_first && !m->last_resort)
			continue;
		if (!bpf_cpumask_test_cpu(m->to, p->cpus_ptr) || !xferable(p))
			continue;
		new = destination(ts, m);
		if (!begin_move(ts, list | PLACE_XFERABLE, new))
			continue;
		moved = scx_bpf_dsq_move(DSQ_ITERATOR, p, new & ~PLACE_XFERABLE, 0);
		if (end_move(ts, list | PLACE_XFERABLE, new, moved)) {
			count_on(ts, m->to);
			if (ts->priority < tdq->lowpri)
				tdq->lowpri = ts->priority;
		}
		if (moved)
			break;
	}
	bpf_rcu_read_unlock();
	return moved;
}

/*
 * tdq_steal() for one of the queues of a CPU. runq_steal_from(), for the calendar, passes the first thread over unless it is the only
 * one; runq_steal(), for real-time and interactive threads and for idle ones, does not.
 */
__noinline bool steal_from_queue(struct move *m __arg_nonnull, u32 queue)
{
	struct tdq *tdq = tdq_of(m->from);
	u32 steps = 0;
	int i;

	if (!tdq || queue >= NR_QUEUES)
		return false;
	m->skips_first = queue == QUEUE_TIMESHARE;
	m->seen = 0;
	m->last_resort = false;
	bpf_for(i, 0, 2 * RQ_NQS + 2) {
		steps = next_list(m->from, queue, steps);
		if (steps >= RQ_NQS) {
			if (m->last_resort || !m->skips_first || m->seen != 1)
				return false;
			m->last_resort = true;
			steps = 0;
			continue;
		}
		if (steal_from_list(m, queue, index_at(tdq, queue, steps)))
			return true;
		steps++;
	}
	return false;
}

/* tdq_move(): one thread of @from to @to, the best queue first. */
__noinline bool tdq_move(s32 from, s32 to)
{
	struct move m = { .from = from, .to = to };
	struct tdq *tdq = tdq_of(from);
	u32 queue;

	bpf_for(queue, 0, NR_QUEUES) {
		if (steal_from_queue(&m, queue)) {
			if (tdq)
				tdq_setlowpri(tdq, from);
			return true;
		}
	}
	return false;
}

/* One group: steals from its most loaded CPU, or the next one if nothing can be had there. */
__noinline bool steal_in_group(struct cpu_search *s __arg_nonnull, s32 cpu, u32 level)
{
	struct topology_span span;
	struct tdq *victim;
	int i;

	group_span(level, cpu, &span);
	s->first = span.first;
	s->count = span.count;
	s->limit = level == LEVEL_CORE ? 1 : steal_thresh;
	bpf_for(i, 0, nr_cpu_ids) {
		s32 from = cpu_search(s, NULL);

		victim = tdq_of(from);
		if (from < 0 || !victim)
			return false;
		victim->left_out_by = s->number;
		if (tdq_move(from, cpu))
			return true;
	}
	return false;
}

/* tdq_idled(): an idle CPU climbs the tree from its own group until it has found a thread. */
__noinline bool tdq_idled(s32 cpu)
{
	struct tdq *tdq = tdq_of(cpu);
	struct cpu_search s = { .prefer = -1, .highest = true };
	u32 level;

	if (!tdq || !steal_idle || num_online_cpus == 1)
		return false;
	s.number = __sync_fetch_and_add(&searches, 1) + 1;
	tdq->left_out_by = s.number;
	bpf_for(level, 0, NR_LEVELS) {
		if (level < NR_LEVELS && group_exists(level, cpu) && steal_in_group(&s, cpu, level)) {
			count(STAT_STEALS);
			return true;
		}
	}
	return false;
}

/* ---- The balancer ---------------------------------------------------------------------------------------------- */

/* Number of the current pass */
static u64 balance_pass;

/* Its two searches, which would be too large for the stack; only one CPU balances at a time */
static struct cpu_search balance_high;
static struct cpu_search balance_low;

/* Begins a search for a CPU that gives a thread, or gets one, in a part of the machine. */
static __always_inline void begin_search(struct cpu_search *s, bool highest, u32 first, u32 count)
{
	s->number = LEAVE_NONE_OUT;
	s->first = first;
	s->count = count;
	s->pri = -1;
	s->limit = highest ? 1 : 1 << 30;
	s->prefer = -1;
	s->highest = highest;
}

/* Moves one thread, and has its new CPU look at it. */
static __always_inline bool balance_move(s32 high, s32 low)
{
	struct tdq *tdq = tdq_of(low);

	if (!tdq || !tdq_move(high, low))
		return false;
	count(STAT_BALANCED);
	scx_bpf_kick_cpu(low, tdq->idle ? 0 : SCX_KICK_PREEMPT);
	return true;
}

/*
 * Gives one thread of @high, by sched_balance_pair(), to the least loaded CPU that can have one. False if no CPU has less load, which
 * ends the pass.
 */
__noinline bool balance_from(s32 high)
{
	struct cpu_search *low = &balance_low;
	struct tdq *high_tdq = tdq_of(high), *low_tdq;
	bool any_low = true;
	u32 i, cpu;

	if (!high_tdq)
		return false;
	low->number = __sync_fetch_and_add(&searches, 1) + 1;
	low->limit = (s32)high_tdq->load - 1;
	low->prefer = high;
	/* Who has given a thread in this pass, or got one, is left out */
	bpf_for(cpu, 0, nr_cpu_ids) {
		low_tdq = tdq_of(cpu);
		if (low_tdq && low_tdq->no_donor_by == balance_pass)
			low_tdq->left_out_by = low->number;
	}
	bpf_for(i, 0, nr_cpu_ids) {
		s32 to = cpu_search(low, NULL);

		if (to < 0)
			return !any_low;
		low_tdq = tdq_of(to);
		if (!low_tdq)
			return false;
		if (high_tdq->load > low_tdq->load && balance_move(high, to)) {
			low_tdq->no_donor_by = balance_pass;
			return true;
		}
		low_tdq->left_out_by = low->number;
		any_low = false;
	}
	return true;
}

/* sched_balance(), for the whole machine: from the most loaded CPU on, one thread each. */
__noinline int sched_balance(void)
{
	struct cpu_search *high = &balance_high;
	struct tdq *tdq;
	u32 i, cpu;

	count(STAT_BALANCE_PASSES);
	balance_pass++;
	begin_search(high, true, 0, nr_cpu_ids);
	begin_search(&balance_low, false, 0, nr_cpu_ids);
	bpf_for(i, 0, nr_cpu_ids) {
		s32 from;

		high->number = __sync_fetch_and_add(&searches, 1) + 1;
		bpf_for(cpu, 0, nr_cpu_ids) {
			tdq = tdq_of(cpu);
			if (tdq && tdq->no_donor_by == balance_pass)
				tdq->left_out_by = high->number;
		}
		from = cpu_search(high, NULL);
		tdq = tdq_of(from);
		if (from < 0 || !tdq)
			break;
		tdq->no_donor_by = balance_pass;
		if (!balance_from(from))
			break;
	}
	return 0;
}

/* ---- Nobody waits for ever ------------------------------------------------------------------------------------- */

/* Puts the threads of a list that have waited for too long in front of all others. */
__noinline int rescue_from_list(s32 cpu, u32 index)
{
	u32 first = place_of(cpu, QUEUE_REALTIME, 0), list = first + index;
	struct tdq *tdq = tdq_of(cpu);
	u64 now = scx_bpf_now();
	struct task_struct *p;

	if (!tdq || list == first)
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, list, 0) {
		struct td_sched *ts = td_sched_of(p);
		u32 xfer;

		if (!ts || !starved_for(ts->waiting_since, now))
			continue;
		xfer = ts->place & PLACE_XFERABLE;
		if (!begin_move(ts, list | xfer, first | xfer))
			continue;
		if (end_move(ts, list | xfer, first | xfer,
			     scx_bpf_dsq_move(DSQ_ITERATOR, p, first, 0))) {
			count(STAT_RESCUED);
			ts->priority = 0;
			tdq->lowpri = 0;
		}
	}
	bpf_rcu_read_unlock();
	return 0;
}

__noinline int rescue(s32 cpu)
{
	struct tdq *tdq = tdq_of(cpu);
	u32 queue, index;

	if (!tdq)
		return 0;
	for (queue = 0; queue < NR_QUEUES; queue++) {
		u64 bits = tdq->runq[queue].bits;

		if (!bits)
			continue;
		bpf_for(index, 0, RQ_NQS)
			if (bits & (1ULL << index))
				rescue_from_list(cpu, queue * RQ_NQS + index);
	}
	return 0;
}

/* ---- The clock of idle CPUs and of the balancer ---------------------------------------------------------------- */

struct stat_clock {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stat_clock);
} stat_clock_map SEC(".maps");

/* stathz ticks to the next pass of the balancer, and to the next look for threads that starve */
static u64 balance_ticks;
static u64 rescue_ticks;

static __always_inline bool has_waiting(const struct tdq *tdq)
{
	return tdq->runq[QUEUE_REALTIME].bits | tdq->runq[QUEUE_TIMESHARE].bits | tdq->runq[QUEUE_IDLE].bits;
}

/* True if a CPU has threads to spare. */
__noinline bool work_to_steal(void)
{
	u32 cpu;

	bpf_for(cpu, 0, nr_cpu_ids) {
		struct tdq *tdq = tdq_of(cpu);

		if (tdq && tdq->transferable && load_of(tdq, cpu) > 1)
			return true;
	}
	return false;
}

/*
 * The part of sched_clock() that is the balancer's, which one CPU's clock runs, and the clock of the idle CPUs: each of its
 * interrupts brings an idle CPU back into the idle loop, where it takes what waits for it, and otherwise tries to steal. Idle
 * CPUs have no ticks here.
 */
static int stat_clock_tick(void *map, u32 *key, struct stat_clock *clock)
{
	bool steal;
	u32 cpu;

	if (num_online_cpus > 1 && balance && balance_ticks && !--balance_ticks) {
		u32 interval = balance_interval ?: 1;

		balance_ticks = (interval / 2 ?: 1) + bpf_get_prandom_u32() % interval;
		sched_balance();
	}
	if (starvation_limit && !--rescue_ticks) {
		rescue_ticks = stathz ?: 1;
		bpf_for(cpu, 0, nr_cpu_ids)
			rescue(cpu);
	}
	steal = num_online_cpus > 1 && steal_idle && work_to_steal();
	bpf_for(cpu, 0, nr_cpu_ids) {
		struct tdq *tdq = tdq_of(cpu);

		if (tdq && tdq->idle && cpu_exists(cpu) && (steal || has_waiting(tdq)))
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
	bpf_timer_start(&clock->timer, time_to_tick(scx_bpf_now(), 1, stathz), 0);
	return 0;
}

/* ---- Choosing the next thread ---------------------------------------------------------------------------------- */

enum pick {
	PICK_NONE,
	/* The thread that ran so far goes on */
	PICK_PREV,
	PICK_OTHER,
};

/*
 * tdq_choose(): the best real-time list, the calendar from its removal index on, the best idle list. @prev, the thread that ran so
 * far, is in no list but counts as if it were put into its own, at the head if it was preempted.
 */
static __noinline enum pick tdq_choose(s32 cpu, struct tdq *tdq, struct td_sched *prev)
{
	u32 queue, prev_queue = NR_QUEUES, prev_steps = 0;
	int i;

	follow_idx(tdq, cpu);
	if (prev) {
		prev_queue = queue_of(prev->priority);
		prev_steps = index_of(tdq, prev_queue, prev->priority, prev->preempted) +
			     RQ_NQS - search_start(tdq, prev_queue);
		prev_steps %= RQ_NQS;
	}
	for (queue = 0; queue < NR_QUEUES; queue++) {
		u32 steps = 0;

		/* A list whose bit is set may be empty */
		bpf_for(i, 0, RQ_NQS + 1) {
			steps = next_list(cpu, queue, steps);
			if (queue == prev_queue && prev &&
			    (prev_steps < steps || (prev_steps == steps && prev->preempted)))
				return PICK_PREV;
			if (steps >= RQ_NQS)
				break;
			if (scx_bpf_dsq_move_to_local(place_of(cpu, queue,
							       index_at(tdq, queue, steps)), 0))
				return PICK_OTHER;
			steps++;
		}
	}
	return prev ? PICK_PREV : PICK_NONE;
}

/* What a thread finds when it leaves the scheduler: the rest of its slice, and in user mode its own priority */
static __always_inline u64 switched_to(struct td_sched *ts, struct tdq *tdq, s32 cpu, u64 now)
{
	ts->sliceend = false;
	ts->preempted = false;
	ts->requeued = false;
	ts->priority = ts->user_pri;
	set_current_priority(tdq, cpu, ts->priority);
	return slice_left(ts, now);
}

/* A thread that loses its CPU takes its user priority first. To the head of its list goes who leaves before its slice ends. */
static __always_inline void requeue(struct td_sched *ts)
{
	if (!ts->yielding)
		ts->priority = ts->user_pri;
	ts->requeued = true;
	ts->preempted = !ts->sliceend;
}

/* sched_switch() */
void BPF_STRUCT_OPS(ule_dispatch, s32 cpu, struct task_struct *prev)
{
	struct tdq *tdq = tdq_of(cpu);
	struct td_sched *ts = NULL;
	enum pick pick;

	if (!tdq)
		return;
	tdq->ipipending = false;
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED) &&
	    bpf_cpumask_test_cpu(cpu, prev->cpus_ptr)) {
		ts = td_sched_of(prev);
		charge_ticks(prev, cpu);
		if (ts)
			requeue(ts);
	}
	pick = tdq_choose(cpu, tdq, ts);
	if (pick == PICK_NONE && tdq_idled(cpu))
		pick = tdq_choose(cpu, tdq, NULL);
	if (pick == PICK_NONE && tdq->idle)
		tdq->lowpri = tdq->curpri;
	if (pick == PICK_PREV && ts) {
		ts->yielding = false;
		ts->rltick = ticks_at(scx_bpf_now());
		scx_bpf_task_set_slice(prev, switched_to(ts, tdq, cpu, scx_bpf_now()));
	}
}

void BPF_STRUCT_OPS(ule_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct td_sched *ts = td_sched_of(p);
	struct tdq *tdq = tdq_of(cpu);
	u64 now = scx_bpf_now();

	if (!ts || !tdq)
		return;
	set_place(ts, NO_LIST);
	count_on(ts, cpu);
	sched_pctcpu_update(ts, ticks_at(now), false);
	ts->running = true;
	ts->yielding = false;
	ts->charged_until = stat_tick_at(now);
	tdq->idle = false;
	scx_bpf_task_set_slice(p, switched_to(ts, tdq, cpu, now));
}

void BPF_STRUCT_OPS(ule_stopping, struct task_struct *p, bool runnable)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct td_sched *ts = td_sched_of(p);
	struct tdq *tdq = tdq_of(cpu);
	u64 now = ticks_at(scx_bpf_now());

	if (!ts || !tdq)
		return;
	charge_ticks(p, cpu);
	sched_pctcpu_update(ts, now, true);
	ts->running = false;
	ts->rltick = now;
	/* Until somebody else runs here, nobody is better */
	tdq->curpri = 0;
	if (!runnable)
		return;
	requeue(ts);
	/* With slice left it would wait outside of its list and come back before a better one */
	scx_bpf_task_set_slice(p, 0);
}

void BPF_STRUCT_OPS(ule_tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct td_sched *ts = td_sched_of(p);
	struct tdq *tdq = tdq_of(cpu);

	if (!ts || !tdq)
		return;
	scx_bpf_task_set_slice(p, charge_ticks(p, cpu) ? 0 : slice_left(ts, scx_bpf_now()));
}

/* A CPU that goes idle looks once more: a thread may have come while it was still busy. */
void BPF_STRUCT_OPS(ule_update_idle, s32 cpu, bool idle)
{
	struct tdq *tdq = tdq_of(cpu);

	if (!tdq)
		return;
	tdq->idle = idle;
	if (!idle)
		return;
	tdq->curpri = PRI_MAX_IDLE;
	tdq->lowpri = tdq->curpri;
	if (has_waiting(tdq))
		scx_bpf_kick_cpu(cpu, 0);
}

/* A timeshare thread that yields has the worst priority of its class until it is back in user mode. */
bool BPF_STRUCT_OPS(ule_yield, struct task_struct *from, struct task_struct *to)
{
	struct td_sched *ts = td_sched_of(from);

	if (to || !ts)
		return false;
	count(STAT_YIELDS);
	if (yield_rule == YIELD_SINKS && thread_class_of(from) == THREAD_TIMESHARE) {
		ts->priority = PRI_MAX_TIMESHARE;
		ts->yielding = true;
	}
	scx_bpf_task_set_slice(from, 0);
	return true;
}

/* ---- Fork, exit, nice ------------------------------------------------------------------------------------------ */

/* sched_fork(): the child has its parent's history, made short, and one tick of slice; the parent pays a tick. */
static void sched_fork(struct task_struct *p, struct td_sched *ts)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct td_sched *parent_ts = td_sched_of(parent);
	u64 now = ticks_at(scx_bpf_now());

	if (!parent_ts)
		return;
	if (parent_ts->running)
		sched_pctcpu_update(parent_ts, now, true);
	ts->ticks = parent_ts->ticks;
	ts->ltick = parent_ts->ltick;
	ts->ftick = parent_ts->ftick;
	ts->runtime = parent_ts->runtime;
	ts->slptime = parent_ts->slptime;
	ts->used = slice - 1;
	ts->priority = parent_ts->priority;
	sched_interact_fork(ts);
	count(STAT_FORKS);
	count_by(STAT_FORKED_HISTORY, (ts->runtime + ts->slptime) * 1000 / (hz ?: 1) >> SCHED_TICK_SHIFT);

	parent_ts->runtime += tickincr();
	sched_interact_update(parent_ts);
	sched_priority(parent, parent_ts);
}

s32 BPF_STRUCT_OPS(ule_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct td_sched *ts;

	ts = bpf_task_storage_get(&td_sched_map, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!ts)
		return -ENOMEM;
	ts->place = NO_LIST;
	ts->cpu = -1;
	ts->ltick = ticks_at(scx_bpf_now());
	ts->ftick = ts->ltick;
	if (args->fork)
		sched_fork(p, ts);
	sched_priority(p, ts);
	if (!args->fork || thread_class_of(p) != THREAD_TIMESHARE)
		ts->priority = ts->user_pri;
	return 0;
}

/* sched_exit(): what the child has run counts as the parent's, but not what it has slept; of a thread, as its process's. */
static void sched_exit(struct task_struct *p, struct td_sched *ts)
{
	struct task_struct *parent;
	struct td_sched *parent_ts;

	parent = p->pid == p->tgid ? p->real_parent : p->group_leader;
	parent_ts = parent ? td_sched_of(parent) : NULL;
	if (parent_ts) {
		parent_ts->runtime += ts->runtime;
		sched_interact_update(parent_ts);
		sched_priority(parent, parent_ts);
	}
}

void BPF_STRUCT_OPS(ule_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct td_sched *ts = td_sched_of(p);

	if (!ts)
		return;
	set_place(ts, NO_LIST);
	count_on(ts, -1);
	if (!args->cancelled && (p->flags & PF_EXITING))
		sched_exit(p, ts);
}

/* sched_nice(); also called when a task comes to sched_ext or changes its policy within it. */
void BPF_STRUCT_OPS(ule_set_weight, struct task_struct *p, u32 weight)
{
	struct td_sched *ts = td_sched_of(p);
	s32 old;

	if (!ts)
		return;
	old = ts->user_pri;
	sched_priority(p, ts);
	if (ts->user_pri != old)
		ts->priority = ts->user_pri;
}

/* ---- Start ----------------------------------------------------------------------------------------------------- */

static s32 init_cpu(s32 cpu)
{
	struct tdq *tdq = tdq_of(cpu);
	s32 error;
	u32 list;

	if (!tdq)
		return 0;
	tdq->idle = true;
	tdq->curpri = PRI_MAX_IDLE;
	tdq->lowpri = tdq->curpri;
	bpf_for(list, 0, LISTS_PER_CPU) {
		error = scx_bpf_create_dsq(place_of(cpu, 0, 0) + list, scx_bpf_cpu_node(cpu));
		if (error)
			return error;
	}
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(ule_init)
{
	const struct cpumask *online;
	struct stat_clock *clock;
	u32 key = 0, cpu;
	s32 error;

	nr_cpu_ids = scx_bpf_nr_cpu_ids();
	online = scx_bpf_get_online_cpumask();
	num_online_cpus = bpf_cpumask_weight(online);
	scx_bpf_put_cpumask(online);
	balance_ticks = balance_interval ?: 1;
	rescue_ticks = stathz ?: 1;

	bpf_for(cpu, 0, nr_cpu_ids) {
		error = init_cpu(cpu);
		if (error) {
			scx_bpf_error("cannot create the lists of CPU %d: error %d", cpu, error);
			return error;
		}
	}
	clock = bpf_map_lookup_elem(&stat_clock_map, &key);
	if (!clock)
		return -ESRCH;
	bpf_timer_init(&clock->timer, &stat_clock_map, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&clock->timer, stat_clock_tick);
	return bpf_timer_start(&clock->timer, time_to_tick(scx_bpf_now(), 1, stathz), 0);
}

DEFINE_SCHEDULER(ule,
	.select_cpu = (void *)ule_select_cpu,
	.enqueue = (void *)ule_enqueue,
	.dispatch = (void *)ule_dispatch,
	.tick = (void *)ule_tick,
	.runnable = (void *)ule_runnable,
	.running = (void *)ule_running,
	.stopping = (void *)ule_stopping,
	.quiescent = (void *)ule_quiescent,
	.yield = (void *)ule_yield,
	.set_weight = (void *)ule_set_weight,
	.update_idle = (void *)ule_update_idle,
	.init_task = (void *)ule_init_task,
	.exit_task = (void *)ule_exit_task,
	.init = (void *)ule_init,
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 30000,
	.name = "ule");
