// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ule - ULE, FreeBSD's scheduler since 7.1
 *
 * Each CPU has three run queues of 64 lists: one for interactive threads (and those with a kernel
 * priority), a calendar for other timeshare threads, and one for idle ones. A thread is interactive
 * if it sleeps enough for how much it runs. A waking thread goes to the least loaded CPU by the
 * tree of caches, idle CPUs steal, and a balancer occasionally moves single threads. The rules are
 * those of 9.1 to 9.3, or of 8. README.md maps the document to this file and lists the departures.
 *
 * Names are those of FreeBSD's sched_ule.c.
 */
#include "ule.h"
#include "cpu_search.h"
#include "cpu_use_8.h"
#include "pickcpu_8.h"
#include "tdq_move.h"

/* ---- Formulas -------------------------------------------------------------------------------- */

/* Half of the range of nice, and the range of priorities that CPU use spans */
#define SCHED_PRI_NHALF 20
#define SCHED_PRI_RANGE								\
	(PRI_MAX_TIMESHARE - PRI_MIN_BATCH - 2 * SCHED_PRI_NHALF + (release == FREEBSD_9))

/* tickincr: `ticks` of a stathz tick */
static __always_inline u64 tickincr(void)
{
	return ((u64)hz << SCHED_TICK_SHIFT) / (stathz ?: 1);
}

/* sched_interact_score(): 0 to 100; about 50 times running over sleeping if it sleeps more */
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

/* sched_interact_update(): keeps the history within its limit, and so recent. */
static void sched_interact_update(struct td_sched *ts)
{
	u64 limit = ms_to_ticks(SCHED_SLP_RUN_MAX) << SCHED_TICK_SHIFT;
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

/* sched_interact_fork(): a child learns quickly, because it has little to forget. */
static void sched_interact_fork(struct td_sched *ts)
{
	u64 limit = ms_to_ticks(SCHED_SLP_RUN_FORK) << SCHED_TICK_SHIFT;
	u64 sum = ts->runtime + ts->slptime;
	u64 ratio;

	if (sum <= limit)
		return;
	ratio = sum / (limit ?: 1) ?: 1;
	ts->runtime /= ratio;
	ts->slptime /= ratio;
}

/* sched_pctcpu_update(): CPU use up to now; the time since the last update counts as run or not. */
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

/* Counts a running thread's time up to @t as CPU use. */
static __always_inline void count_cpu_use(struct td_sched *ts, u64 t)
{
	if (release == FREEBSD_8)
		sched_tick_8(ts, t);
	else
		sched_pctcpu_update(ts, t, true);
}

/* SCHED_PRI_TICKS: CPU use of the window, 0 to 31 (8: to 23); under a second counts as one. */
static u32 sched_pri_ticks(const struct td_sched *ts)
{
	u64 total = ts->ltick - ts->ftick;
	u32 used;

	if (total < hz)
		total = hz;
	used = (ts->ticks >> SCHED_TICK_SHIFT) /
	       ((total + SCHED_PRI_RANGE - 1) / SCHED_PRI_RANGE ?: 1);
	return release == FREEBSD_8 || used < SCHED_PRI_RANGE - 1 ? used : SCHED_PRI_RANGE - 1;
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
	u32 range = PRI_MAX_INTERACT - PRI_MIN_INTERACT + (release == FREEBSD_9);

	return PRI_MIN_INTERACT + range / (interact ?: 1) * score;
}

/*
 * sched_priority(): an interactive thread's user priority follows its score, 120 to 149; that of
 * others follows CPU use and nice value, 152 + 0..31 + 0..39. (8: 128 to 157, 160 + 0..23 + 0..39.)
 */
static void sched_priority(struct task_struct *p, struct td_sched *ts)
{
	s32 score;

	if (thread_class_of(p) != THREAD_TIMESHARE) {
		ts->user_pri = static_priority(p);
		return;
	}
	score = tested_score(p, ts);
	if (score < (s32)interact)
		ts->user_pri = interactive_priority(score);
	else
		ts->user_pri = clamped(PRI_MIN_BATCH + sched_pri_ticks(ts) +
				       task_nice(p) + SCHED_PRI_NHALF,
				       PRI_MIN_BATCH, PRI_MAX_TIMESHARE);
}

/* ---- The lists ------------------------------------------------------------------------------- */

/* Which of a CPU's queues a priority belongs to */
static __always_inline u32 queue_of(s32 priority)
{
	if (priority < PRI_MIN_BATCH)
		return QUEUE_REALTIME;
	return priority <= PRI_MAX_TIMESHARE ? QUEUE_TIMESHARE : QUEUE_IDLE;
}

/*
 * The calendar's removal index follows the insertion index while its list is empty
 * (tdq_advance_ts_deq_off()). FreeBSD moves it when the last thread leaves the list; here it is
 * updated whenever the indices are used.
 */
static __always_inline void follow_idx(struct tdq *tdq, s32 cpu)
{
	struct runq_head head;

	if (tdq->ridx != tdq->idx && (!runq_choose(runq_of(cpu, QUEUE_TIMESHARE), &head) ||
				      list_at(head.place) != tdq->ridx))
		tdq->ridx++;
}

/*
 * The list of the calendar for a batch priority: the better the nearer to the insertion index. The
 * last one is just before the removal index, because the calendar is a ring. A preempted thread
 * goes to where the next one is taken from.
 */
static __always_inline u16 calendar_list(const struct tdq *tdq, s32 priority, bool preempted)
{
	u32 range = PRI_MAX_TIMESHARE - PRI_MIN_BATCH + 1;
	u16 ridx = tdq->ridx;
	u16 distance = RQ_NQS * (u32)(priority - PRI_MIN_BATCH) / range + tdq->idx - ridx;

	if (preempted)
		return ridx;
	return ridx + (distance < RQ_NQS ? distance : RQ_NQS - 1);
}

/* tdq_runq_add(): the place of a priority in its queue */
static __always_inline u64 runq_place(const struct tdq *tdq, s32 priority, bool preempted)
{
	bool calendar = queue_of(priority) == QUEUE_TIMESHARE;

	return place_in(calendar ? calendar_list(tdq, priority, preempted) : list_of(priority),
			preempted);
}

/* THREAD_CAN_MIGRATE: not bound to its CPU; affinity is not checked. */
static __always_inline bool thread_can_migrate(const struct task_struct *p)
{
	return !is_migration_disabled(p) && thread_class_of(p) != THREAD_INTERRUPT;
}

/* ---- Counting -------------------------------------------------------------------------------- */

static __always_inline void add_to(s32 cpu, s32 load, s32 transferable)
{
	struct tdq *tdq = cpu < 0 ? NULL : near_tdq(cpu);

	if (!tdq)
		return;
	if (load)
		__sync_fetch_and_add(&tdq->load, load);
	if (transferable)
		__sync_fetch_and_add(&tdq->transferable, transferable);
}

/* tdq_load_add() and tdq_load_rem(): counts a thread in the load of @cpu, or none if that is -1. */
static __noinline void count_on(struct td_sched *ts, s32 cpu)
{
	s32 old = __sync_lock_test_and_set(&ts->cpu, cpu);

	if (old == cpu)
		return;
	add_to(old, -1, 0);
	add_to(cpu, 1, 0);
}

/* The same for the threads of @cpu that wait and may move. */
static __noinline void transferable_on(struct td_sched *ts, s32 cpu)
{
	s32 old = __sync_lock_test_and_set(&ts->transferable_on, cpu);

	if (old == cpu)
		return;
	add_to(old, 0, -1);
	add_to(cpu, 0, 1);
}

/* The thread leaves its run queue, to run or to sleep. */
static __always_inline void tdq_runq_rem(struct td_sched *ts)
{
	ts->waiting_since = 0;
	if (ts->transferable_on >= 0)
		transferable_on(ts, -1);
}

/* Priority of the thread that tdq_choose() would choose */
__noinline s32 best_waiting(s32 cpu)
{
	struct runq_head head;
	u32 queue;

	for (queue = 0; queue < NR_QUEUES; queue++) {
		if (runq_choose(runq_of(cpu, queue), &head))
			return head.priority;
	}
	return NO_PRIORITY;
}

static __always_inline void tdq_setlowpri(struct tdq *tdq, s32 cpu)
{
	s32 waiting = best_waiting(cpu), current = tdq->curpri;

	tdq->lowpri = waiting < current ? waiting : current;
}

/* ---- The tick -------------------------------------------------------------------------------- */

/* sched_clock() */
static __always_inline void sched_clock(struct task_struct *p, struct td_sched *ts)
{
	s32 score, cpu = scx_bpf_task_cpu(p);
	struct tdq *tdq = tdq_of(cpu);

	if (!tdq)
		return;
	count_cpu_use(ts, tick_at(scx_bpf_now()));
	/* Gives every thread a turn: one inserted from now on comes after those that wait */
	follow_idx(tdq, cpu);
	if (tdq->idx == tdq->ridx) {
		tdq->idx++;
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
	slice_ends(ts, slice);
}

/* ---- Choosing a CPU -------------------------------------------------------------------------- */

/* SCHED_AFFINITY: the thread's cache of this level is still warm */
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
	s32 sibling;
	u32 i;

	group_span(LEVEL_CORE, cpu, &span);
	for_each_cpu_in_span(sibling, i, span.first, span.count)
		if (!is_idle_cpu(sibling))
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
	struct topology_span wide = {};
	u64 now = tick_at(scx_bpf_now());
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

	/* The largest group whose cache is warm; hardware threads of a core do not count as one */
	bpf_for(level, LEVEL_LLC, NR_LEVELS) {
		if (level < LEVEL_MACHINE && group_exists(level, last) &&
		    sched_affinity(ts, cg_level(level), now))
			group_span(level, last, &wide);
	}
	if (wide.count && wide.count < nr_cpu_ids) {
		s.span = wide;
		s.pri = pri > PRI_MAX_TIMESHARE ? pri : PRI_MAX_TIMESHARE;
		cpu = cpu_search(&s, p);
	}
	group_span(LEVEL_MACHINE, last, &s.span);
	if (cpu < 0) {
		s.pri = pri;
		cpu = cpu_search(&s, p);
	}
	if (cpu < 0) {
		s.pri = -1;
		cpu = cpu_search(&s, p);
	}
	tdq = tdq_of(cpu);
	if (cpu < 0 || !tdq)
		return last_allowed ? last : (s32)bpf_cpumask_first(p->cpus_ptr);

	if (self_allowed && cpu != self && my_tdq->lowpri > pri && !is_idle_cpu(cpu) &&
	    my_tdq->load <= tdq->load + 1)
		return self;
	return cpu;
}

s32 BPF_STRUCT_OPS(ule_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	if (num_online_cpus == 1)
		return prev_cpu;
	return release == FREEBSD_8 ? sched_pickcpu_8(p, prev_cpu) : sched_pickcpu(p, prev_cpu);
}

/* ---- Adding a thread to a run queue ---------------------------------------------------------- */

/* sched_shouldpreempt(): whether a thread of priority @pri preempts one of @cpri at once. */
static bool sched_shouldpreempt(s32 pri, s32 cpri, bool remote)
{
	if (pri >= cpri)
		return false;
	if (cpri >= PRI_MIN_IDLE)
		return true;
	if (pri <= PRI_MIN_KERN)
		return true;
	return remote && pri <= PRI_MAX_INTERACT && cpri > PRI_MAX_INTERACT;
}

/* Displaces the current thread of a CPU inside an interrupt, without a return to user mode. */
static __always_inline void preempt_in_interrupt(struct tdq *tdq, s32 cpu)
{
	tdq->interrupted = true;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/*
 * Whether the current thread would be chosen again before one of priority @pri: it goes to the head
 * of its list, in the calendar of the first, and all that wait are in that one or in later ones. If
 * so, it has been: a choice that changes nothing costs an interrupt here, and little there.
 */
static __always_inline bool goes_on_before(struct tdq *tdq, s32 pri)
{
	struct td_sched *ts = td_sched_of(bpf_get_current_task_btf());
	s32 best = min(pri, tdq->lowpri);

	if (!ts || !ts->running || ts->sliceend || release == FREEBSD_8 ||
	    queue_of(best) != queue_of(ts->user_pri))
		return false;
	if (queue_of(best) != QUEUE_TIMESHARE && list_of(best) != list_of(ts->user_pri))
		return false;
	/* On its way to user mode it takes its own priority */
	ts->priority = ts->user_pri;
	tdq->lowpri = tdq->curpri = ts->priority;
	return true;
}

/*
 * sched_setpreempt(): on this CPU a better thread gets the CPU at the latest when the current one
 * returns to user mode. To sched_ext this and an immediate preemption are the same: the kernel
 * decides where a thread may be preempted. Returns whether the CPU has chosen already.
 */
static __always_inline bool sched_setpreempt(struct tdq *tdq, s32 cpu, s32 pri)
{
	if (tdq->idle) {
		scx_bpf_kick_cpu(cpu, 0);
		return false;
	}
	if (pri >= tdq->curpri)
		return false;
	if (goes_on_before(tdq, pri))
		return true;
	count(sched_shouldpreempt(pri, tdq->curpri, false) ? STAT_PREEMPTIONS : STAT_RESCHEDULES);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return false;
}

/* tdq_notify(): another CPU is notified only of threads that preempt. */
static __always_inline void tdq_notify(struct tdq *tdq, s32 cpu, s32 pri)
{
	if (tdq->ipipending)
		return;
	if (!tdq->idle && !sched_shouldpreempt(pri, tdq->curpri, true))
		return;
	tdq->ipipending = true;
	if (tdq->idle) {
		scx_bpf_kick_cpu(cpu, 0);
		return;
	}
	count(STAT_PREEMPTIONS);
	preempt_in_interrupt(tdq, cpu);
}

/* The clock's thread runs here, preempting the current one, and sleeps: the CPU chooses anew. */
static __always_inline void run_clock_thread(void)
{
	s32 me = bpf_get_smp_processor_id();
	struct tdq *tdq = tdq_of(me);

	if (clock_thread && tdq && !tdq->idle && tdq->lowpri > PRI_MAX_ITHD)
		preempt_in_interrupt(tdq, me);
}

/* sched_wakeup(), apart from adding the thread */
static __always_inline void sched_wakeup(struct td_sched *ts, u64 now)
{
	if (ts->sleeping && now > ts->rltick) {
		ts->slptime += (now - ts->rltick) << SCHED_TICK_SHIFT;
		sched_interact_update(ts);
		if (release == FREEBSD_8)
			sched_pctcpu_update_8(ts, now);
		else
			sched_pctcpu_update(ts, now, false);
	}
	ts->sleeping = false;
	ts->slice = slice;
}

/* sched_add() and, for a thread that has lost its CPU, the first half of sched_switch() */
void BPF_STRUCT_OPS(ule_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct td_sched *ts = td_sched_of(p);
	struct tdq *tdq = near_tdq(cpu);
	u64 now = scx_bpf_now();
	bool requeued, migrates, goes_on = false;

	if (!ts || !tdq) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return;
	}
	/* sched_switch_migrate(): to the head of the other CPU's list */
	migrates = ts->migrates && bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
	if (migrates) {
		ts->migrates = false;
		ts->preempted = release != FREEBSD_8 && !ts->sliceend;
	}
	requeued = ts->requeued || migrates;
	ts->requeued = false;
	ts->waiting_since = now;
	if (enq_flags & SCX_ENQ_WAKEUP)
		sched_wakeup(ts, tick_at(now));
	if (!requeued)
		sched_priority(p, ts);
	count_on(ts, cpu);

	follow_idx(tdq, cpu);
	/* With one CPU there is nowhere to go */
	if (num_online_cpus > 1)
		transferable_on(ts, thread_can_migrate(p) ? cpu : -1);
	tdq->last_runq = runq_of(cpu, queue_of(ts->priority));
	scx_bpf_dsq_insert_vtime(p, tdq->last_runq, slice_left(ts, now),
				 runq_place(tdq, ts->priority, ts->preempted), 0);
	ts->preempted = false;

	if ((!requeued || migrates) && cpu != (s32)bpf_get_smp_processor_id())
		tdq_notify(tdq, cpu, ts->priority);
	else if (!requeued)
		goes_on = sched_setpreempt(tdq, cpu, ts->priority);
	if ((enq_flags & SCX_ENQ_WAKEUP) && in_interrupt())
		run_clock_thread();
	if (!goes_on && ts->priority < tdq->lowpri)
		tdq->lowpri = ts->priority;
}

/* ---- Sleep ----------------------------------------------------------------------------------- */

/* sched_sleep() */
void BPF_STRUCT_OPS(ule_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct td_sched *ts = td_sched_of(p);
	struct tdq *tdq;
	s32 cpu;

	if (!ts)
		return;
	cpu = ts->cpu;
	tdq = ts->waiting_since ? tdq_of(cpu) : NULL;
	tdq_runq_rem(ts);
	count_on(ts, -1);
	if (tdq)
		tdq_setlowpri(tdq, cpu);
	ts->requeued = false;
	ts->preempted = false;
	if (!(deq_flags & SCX_DEQ_SLEEP))
		return;
	ts->sleeping = true;
	if (thread_class_of(p) == THREAD_TIMESHARE && ts->priority > PRI_MIN_BATCH)
		ts->priority = PRI_MIN_BATCH;
}

/* ---- The clock of idle CPUs and of the balancer ---------------------------------------------- */

/* stathz ticks to the next pass of the balancer */
static u64 balance_ticks;
/* When to look for a starved thread next, nanoseconds */
static u64 rescue_at;

/* True if any CPU has threads to spare. */
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

/* No thread waits for ever (not in ULE): checks all queues of a CPU. */
__noinline int rescue_threads_of(s32 cpu)
{
	struct tdq *tdq = tdq_of(cpu);
	u32 queue;

	if (!tdq)
		return 0;
	for (queue = 0; queue < NR_QUEUES; queue++) {
		if (rescue(runq_of(cpu, queue), runq_of(cpu, QUEUE_REALTIME)))
			tdq->lowpri = 0;
	}
	return 0;
}

/*
 * The balancer's part of sched_clock(), which runs on one CPU's clock, and the clock of idle CPUs,
 * which have no ticks here: each of its interrupts brings an idle CPU back into the idle loop,
 * where it takes the thread that waits for it, or else tries to steal.
 */
static bool stat_clock_tick(void)
{
	bool steal;
	u32 cpu;

	if (num_online_cpus > 1 && balance && balance_ticks && !--balance_ticks) {
		u32 interval = balance_interval ?: 1;

		balance_ticks = (interval / 2 ?: 1) + bpf_get_prandom_u32() % interval;
		if (release == FREEBSD_8)
			sched_balance_8();
		else
			sched_balance();
	}
	if (starvation_check_is_due(&rescue_at, scx_bpf_now())) {
		bpf_for(cpu, 0, nr_cpu_ids)
			rescue_threads_of(cpu);
	}
	steal = num_online_cpus > 1 && steal_idle && work_to_steal();
	bpf_for(cpu, 0, nr_cpu_ids) {
		struct tdq *tdq = tdq_of(cpu);

		if (tdq && tdq->idle && cpu_exists(cpu) && (steal || tdq->load))
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
	return true;
}

DEFINE_TIMER(stat_clock, stat_clock_tick, time_to_multiple(scx_bpf_now(), 1, stat_tick_length()))

/* ---- Choosing the next thread ---------------------------------------------------------------- */

enum pick {
	PICK_NONE,
	/* The previous thread goes on */
	PICK_PREV,
	PICK_OTHER,
};

/*
 * tdq_choose(): the best real-time list, the calendar from its removal index on, the best idle
 * list. @prev, the previous thread, is in no list but counts as if it were put into its own, at the
 * head if it was preempted.
 */
static __noinline enum pick tdq_choose(s32 cpu, struct tdq *tdq, struct td_sched *prev)
{
	u64 prev_place = prev ? runq_place(tdq, prev->priority, prev->preempted) : 0;
	struct runq_head head;
	u32 queue;

	/*
	 * Mostly one thread waits, in the queue that got the last one: asking the kernel about an
	 * empty queue is not cheap
	 */
	if (!prev && tdq->load == 1 && scx_bpf_dsq_move_to_local(tdq->last_runq, 0))
		return PICK_OTHER;
	for (queue = 0; queue < NR_QUEUES && tdq->load > (prev != NULL); queue++) {
		if (prev && queue == queue_of(prev->priority) &&
		    (!runq_choose(runq_of(cpu, queue), &head) ||
		     time_before(prev_place, head.place)))
			return PICK_PREV;
		if (scx_bpf_dsq_move_to_local(runq_of(cpu, queue), 0))
			return PICK_OTHER;
	}
	return prev ? PICK_PREV : PICK_NONE;
}

/*
 * The end of sched_choose(), and sched_userret(): in user mode the thread has its own priority,
 * unless it returns to where it was interrupted. Returns the rest of its slice.
 */
static __always_inline u64 switched_to(struct td_sched *ts, struct tdq *tdq, s32 cpu, u64 now)
{
	bool returns = !ts->interrupted && ts->priority != ts->user_pri;

	tdq->lowpri = ts->priority;
	if (returns)
		ts->priority = ts->user_pri;
	tdq->curpri = ts->priority;
	if (returns && tdq->load > 1)
		tdq_setlowpri(tdq, cpu);
	else if (returns)
		tdq->lowpri = tdq->curpri;
	ts->sliceend = false;
	ts->preempted = false;
	ts->requeued = false;
	ts->interrupted = false;
	tdq->interrupted = false;
	return slice_left(ts, now);
}

/*
 * A thread that loses its CPU takes its user priority first, in ast(), unless an interrupt
 * displaces it. One that leaves before its slice ends goes to the head of its list, but in 8 only
 * one that an interrupt displaces.
 */
static __always_inline void requeue(struct td_sched *ts, const struct tdq *tdq)
{
	ts->interrupted = tdq->interrupted;
	if (!ts->yielding && !ts->interrupted)
		ts->priority = ts->user_pri;
	ts->requeued = true;
	ts->preempted = release == FREEBSD_8 ? tdq->interrupted : !ts->sliceend;
}

/* sched_switch() */
void BPF_STRUCT_OPS(ule_dispatch, s32 cpu, struct task_struct *prev)
{
	struct tdq *tdq = near_tdq(cpu);
	struct td_sched *ts = NULL;
	enum pick pick;
	u64 now = 0;

	if (!tdq)
		return;
	tdq->ipipending = false;
	if (prev && can_go_on(prev, cpu)) {
		ts = td_sched_of(prev);
		now = scx_bpf_now();
		if (ts) {
			charge_ticks(prev, ts, now);
			requeue(ts, tdq);
		}
	}
	follow_idx(tdq, cpu);
	pick = tdq_choose(cpu, tdq, ts);
	if (pick == PICK_NONE && tdq_idled(cpu))
		pick = tdq_choose(cpu, tdq, NULL);
	if (pick == PICK_NONE && tdq->idle)
		tdq->lowpri = tdq->curpri;
	if (pick == PICK_PREV && ts) {
		ts->yielding = false;
		ts->rltick = tick_at(now);
		scx_bpf_task_set_slice(prev, switched_to(ts, tdq, cpu, now));
	}
}

void BPF_STRUCT_OPS(ule_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct td_sched *ts = td_sched_of(p);
	struct tdq *tdq = near_tdq(cpu);
	u64 now = scx_bpf_now();

	if (!ts || !tdq)
		return;
	tdq_runq_rem(ts);
	if (ts->cpu != cpu)
		count_on(ts, cpu);
	if (ts->changing) {
		ts->changing = false;
		scx_bpf_task_set_slice(p, slice_left(ts, now));
		return;
	}
	if (release == FREEBSD_8)
		ts->ltick = tick_at(now);
	else
		sched_pctcpu_update(ts, tick_at(now), false);
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
	struct tdq *tdq = near_tdq(cpu);
	u64 now = scx_bpf_now(), tick = tick_at(now);

	if (!ts || !tdq)
		return;
	charge_ticks(p, ts, now);
	/* It does not leave the CPU */
	ts->changing = !runnable && p->__state == TASK_RUNNING;
	if (ts->changing)
		return;
	count_cpu_use(ts, tick);
	ts->running = false;
	ts->rltick = tick;
	/* Until another thread runs here, none is better */
	tdq->curpri = 0;
	ts->migrates = runnable && !bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
	if (!runnable)
		return;
	requeue(ts, tdq);
	/* With slice left it would wait outside its list and come back before a better one */
	scx_bpf_task_set_slice(p, 0);
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
	if (tdq->load)
		scx_bpf_kick_cpu(cpu, 0);
}

/* A timeshare thread that yields has the worst priority of its class until back in user mode. */
bool BPF_STRUCT_OPS(ule_yield, struct task_struct *from, struct task_struct *to)
{
	struct td_sched *ts = td_sched_of(from);

	if (to || !ts)
		return false;
	count(STAT_YIELDS);
	if (thread_class_of(from) == THREAD_TIMESHARE) {
		ts->priority = PRI_MAX_TIMESHARE;
		ts->yielding = true;
	}
	scx_bpf_task_set_slice(from, 0);
	return true;
}

/* ---- Fork, exit, nice ------------------------------------------------------------------------ */

/* sched_fork(): a child gets its parent's history, shortened, and a tick; the parent pays one. */
static void sched_fork(struct task_struct *p, struct td_sched *ts)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct td_sched *parent_ts = td_sched_of(parent);
	u64 now = tick_at(scx_bpf_now());

	if (!parent_ts)
		return;
	if (parent_ts->running)
		count_cpu_use(parent_ts, now);
	ts->ticks = parent_ts->ticks;
	ts->ltick = parent_ts->ltick;
	ts->ftick = parent_ts->ftick;
	ts->runtime = parent_ts->runtime;
	ts->slptime = parent_ts->slptime;
	ts->slice = 1;
	ts->priority = parent_ts->priority;
	sched_interact_fork(ts);
	count_by(STAT_FORKED_HISTORY,
		 (ts->runtime + ts->slptime) * 1000 / (hz ?: 1) >> SCHED_TICK_SHIFT);

	parent_ts->runtime += tickincr();
	sched_interact_update(parent_ts);
	sched_priority(parent, parent_ts);
}

s32 BPF_STRUCT_OPS(ule_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct td_sched *ts;

	ts = new_td_sched(p);
	if (!ts)
		return -ENOMEM;
	ts->cpu = -1;
	ts->transferable_on = -1;
	ts->slice = slice;
	ts->ltick = tick_at(scx_bpf_now());
	ts->ftick = ts->ltick;
	if (args->fork)
		sched_fork(p, ts);
	sched_priority(p, ts);
	if (!args->fork || thread_class_of(p) != THREAD_TIMESHARE)
		ts->priority = ts->user_pri;
	return 0;
}

/*
 * sched_exit(): the child's running time, but not its sleep, is added to the parent's; a thread's
 * to its process's.
 */
void BPF_STRUCT_OPS(ule_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct td_sched *ts = td_sched_of(p), *parent_ts;
	struct task_struct *parent = heir_of(p, args);

	if (!ts)
		return;
	tdq_runq_rem(ts);
	count_on(ts, -1);
	parent_ts = parent ? td_sched_of(parent) : NULL;
	if (parent_ts) {
		parent_ts->runtime += ts->runtime;
		sched_interact_update(parent_ts);
		sched_priority(parent, parent_ts);
	}
}

/* sched_thread_priority() of a running thread */
static __always_inline void running_priority(struct td_sched *ts, struct tdq *tdq, s32 cpu)
{
	s32 old = ts->priority;

	ts->priority = ts->user_pri;
	tdq->curpri = ts->priority;
	if (ts->priority < tdq->lowpri)
		tdq->lowpri = ts->priority;
	else if (tdq->lowpri == old)
		tdq_setlowpri(tdq, cpu);
}

/* sched_nice(); also called when a task comes to sched_ext or changes its policy within it. */
void BPF_STRUCT_OPS(ule_set_weight, struct task_struct *p, u32 weight)
{
	struct td_sched *ts = td_sched_of(p);
	struct tdq *tdq;
	s32 old;

	if (!ts)
		return;
	old = ts->user_pri;
	sched_priority(p, ts);
	tdq = ts->changing ? tdq_of(scx_bpf_task_cpu(p)) : NULL;
	if (tdq)
		running_priority(ts, tdq, scx_bpf_task_cpu(p));
	else if (ts->user_pri != old)
		ts->priority = ts->user_pri;
}

/* ---- Start ----------------------------------------------------------------------------------- */

s32 BPF_STRUCT_OPS_SLEEPABLE(ule_init)
{
	s32 cpu, error = 0;
	u32 queue;

	nr_cpu_ids = scx_bpf_nr_cpu_ids();
	num_online_cpus = count_online_cpus();
	balance_ticks = balance_interval ?: 1;

	bpf_for(cpu, 0, nr_cpu_ids) {
		struct tdq *tdq = tdq_of(cpu);

		if (!tdq)
			continue;
		tdq->idle = true;
		tdq->curpri = PRI_MAX_IDLE;
		tdq->lowpri = tdq->curpri;
		tdq->last_runq = runq_of(cpu, QUEUE_TIMESHARE);
		for (queue = 0; queue < NR_QUEUES && !error; queue++)
			error = scx_bpf_create_dsq(runq_of(cpu, queue), scx_bpf_cpu_node(cpu));
		if (error)
			return error;
	}
	return init_stat_clock() ?: start_stat_clock();
}

DEFINE_SCHEDULER(ule,
	CALLBACKS_OF(ule, select_cpu, enqueue, dispatch, running, stopping, quiescent, yield,
		     set_weight, update_idle, init_task, exit_task, init)
	CALLBACKS_OF(freebsd, tick)
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.name = "ule");
