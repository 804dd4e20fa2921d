// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * bsd4 - 4BSD, the traditional scheduler of FreeBSD
 *
 * One queue of 64 lists for all CPUs, best priority first. A thread's priority is PUSER + estcpu /
 * W + nice + 20, where estcpu counts the ticks that found it running. Once a second all estcpu
 * values decay; the higher the load, the less. The rules are those of 9.1 to 9.3, or of 8.
 * README.md maps the document to this file and lists the departures.
 *
 * Names are those of FreeBSD's sched_4bsd.c. A sleeper's CPU use decays at its wake-up, for the
 * passes it slept through.
 */
#include "fairground.bpf.h"
#include "best_task.h"
#include "in_interrupt.h"
#include "starvation.h"

/* ---- Tunables -------------------------------------------------------------------------------- */

/* Whose rules: enum freebsd_release */
const volatile u32 release = 0;

/* stathz ticks of a slice; 8 has 100 ms */
const volatile u32 slice = 12;

/* Ticks of estcpu per step of priority, for each CPU; steps of priority per step of nice */
const volatile u32 inverse_estcpu_weight = 8;
const volatile u32 nice_weight = 1;

/* Load average when the scheduler starts, hundredths; 0 as at boot */
const volatile u32 initial_load = 0;

/*
 * Timers wake threads from the clock's own thread, which preempts, as in FreeBSD; else from the
 * interrupt, as in Linux
 */
const volatile bool clock_thread = true;

/* ---- Statistics, in the order of scheduler.toml ---------------------------------------------- */

enum statistic {
	STAT_TICKS,
	STAT_PRIORITIES,
	STAT_ESTCPU,
	STAT_SLICE_ENDS,
	STAT_PREEMPTIONS,
	STAT_RESCHEDULES,
	STAT_FORWARD_WAKEUPS,
	STAT_IDLE_CPUS_WOKEN,
	STAT_PRIVATE,
	STAT_PASSES,
	STAT_VISITED,
	STAT_DECAYED,
	STAT_REQUEUED,
	STAT_UPDATED,
	STAT_INHERITED,
	STAT_RETURNED,
	STAT_YIELDS,
	STAT_RESCUES,
	NR_STATISTICS,
};

DEFINE_STATISTICS(NR_STATISTICS)

/* ---- Threads --------------------------------------------------------------------------------- */

struct td_sched {
	/* Decayed CPU use, ticks */
	u32 estcpu;
	/* Passes that it slept through */
	u32 slptime;
	/* Ticks left of the slice */
	s32 slice;
	/* td_priority, the one in effect, and td_user_pri, the one for user mode */
	s32 priority;
	s32 user_pri;
	/* stathz tick up to which the current run is charged */
	u64 charged_until;
	/* CPU it is running on or ran on last; 0 for a new thread */
	s32 lastcpu;
	/* Since when it waits, 0 if it does not */
	u64 waiting_since;
	bool running;
	/* In sched_load() */
	bool loaded;
	/* TDF_DIDRUN: has run since the last pass */
	bool didrun;
	/* TDF_SLICEEND */
	bool sliceend;
	/* Goes to the head of its list */
	bool preempted;
	/* Moved to the end of its list by the pass: its place among those */
	u64 moved_to;
	/* The CPU in whose queue it will wait, if that was chosen already; else -1 */
	s32 put_on;
	/* Forked and not run yet, with this nice value */
	bool new;
	s32 nice;
};

DEFINE_TASK_DATA(struct td_sched, td_sched_map, td_sched)

/* ---- Run queues ------------------------------------------------------------------------------ */

#include "freebsd.h"
#include "sleep_priority.h"

/* The queue of all CPUs; each CPU also has one, for threads that may not run everywhere */
#define GLOBAL_RUNQ 0

static __always_inline u64 private_runq(s32 cpu)
{
	return cpu + 1;
}

struct pcpu {
	/* Priority of the current thread: worst if idle, best for one above sched_ext */
	s32 curpri;
	bool idle;
	/*
	 * Its current thread is displaced inside the kernel, by an interrupt thread, not on its way
	 * to user mode
	 */
	bool in_kernel;
	/* The current thread when the last pass came to it: its place there, its priority before */
	u64 pass_place;
	s32 pass_pri;
};

DEFINE_PER_CPU(struct pcpu, pcpu)

/* SRQ_PREEMPTED: whether a thread that loses its CPU goes to the head of its list */
static __always_inline bool goes_to_head(const struct td_sched *ts, const struct pcpu *pc)
{
	return release == FREEBSD_8 ? pc->in_kernel : !ts->sliceend;
}

/*
 * Each pass has this many places of its own at the end of every list, and threads that come later
 * are behind them.
 */
#define PASS_PLACES (1 << 20)

static u64 end_of_pass;

/*
 * The place in its queue of a thread that waits or is about to: preempted threads come first in
 * their lists, and those that a pass has moved are in its order.
 */
static __always_inline u64 runq_place(const struct td_sched *ts)
{
	bool head = ts->preempted && !ts->moved_to;
	u64 place = place_in(list_of(ts->priority), head);

	return head ? place : place + (ts->moved_to ?: end_of_pass);
}

static u32 nr_cpu_ids;
static u32 smp_cpus;

/*
 * Zero, which the verifier cannot know. If it knew where a sum starts, it would follow the sum
 * through every iteration of a loop and give up.
 */
static volatile u64 unknown_zero;

/* Runnable and running threads: the load */
static u64 sched_tdcnt;

static __always_inline void sched_load_rem(struct td_sched *ts)
{
	if (ts->loaded)
		__sync_fetch_and_add(&sched_tdcnt, -1);
	ts->loaded = false;
}

/* Fixed point of the load average */
#define FSHIFT 11
#define FSCALE (1 << FSHIFT)
/* exp(-1/12) */
#define CEXP 1884

/* averunnable.ldavg[0]: load of the last minute */
static u64 ldavg;

/* ---- Formulas -------------------------------------------------------------------------------- */

/* INVERSE_ESTCPU_WEIGHT: 8 for each CPU */
static __always_inline u32 estcpu_weight(void)
{
	return inverse_estcpu_weight * smp_cpus ?: 1;
}

/* ESTCPULIM: estcpu may span as many priorities as nice does, less one list's worth */
static __always_inline u32 estcpulim(u32 estcpu)
{
	u32 weight = estcpu_weight();
	u32 limit = weight * (nice_weight * 40 - RQ_PPQ) + weight - 1;

	return estcpu < limit ? estcpu : limit;
}

/* decay_cpu(): leaves 2L / (2L + 1) of it, where loadfactor() is 2L */
static __always_inline u32 decay_cpu(u64 loadfac, u32 cpu)
{
	return loadfac * cpu / (loadfac + FSCALE);
}

/* PUSER */
static __always_inline s32 best_user_priority(void)
{
	return release == FREEBSD_8 ? PRI_MIN_TIMESHARE_8 : PRI_MIN_TIMESHARE;
}

/* resetpriority(): the user priority from CPU use and nice value. */
static void resetpriority(struct task_struct *p, struct td_sched *ts)
{
	if (thread_class_of(p) != THREAD_TIMESHARE)
		ts->user_pri = static_priority(p);
	else
		ts->user_pri = clamped(best_user_priority() + ts->estcpu / estcpu_weight() +
					       nice_weight * (task_nice(p) + 20),
				       best_user_priority(), PRI_MAX_TIMESHARE);
}

/* sched_prio() for a thread that is not in a list */
static __always_inline void sched_prio(struct td_sched *ts, s32 priority)
{
	struct pcpu *pc = ts->running ? pcpu_of(ts->lastcpu) : NULL;

	ts->priority = priority;
	if (pc)
		pc->curpri = priority;
}

/*
 * resetpriority_thread(): puts the user priority into effect, unless the thread has a kernel
 * priority. Whether this CPU's thread must give way, which maybe_resched() decides by the old
 * priority, is for the caller to test.
 */
static __always_inline void resetpriority_thread(struct td_sched *ts)
{
	if (ts->priority >= PRI_MIN_TIMESHARE)
		sched_prio(ts, ts->user_pri);
}

/* ---- The tick -------------------------------------------------------------------------------- */

/* sched_clock() */
static __always_inline void sched_clock(struct task_struct *p, struct td_sched *ts)
{
	ts->estcpu = estcpulim(ts->estcpu + 1);
	if (ts->estcpu % estcpu_weight() == 0) {
		resetpriority(p, ts);
		resetpriority_thread(ts);
	}
	count(STAT_TICKS);
	count_by(STAT_PRIORITIES, ts->priority);
	count_by(STAT_ESTCPU, ts->estcpu);
	if (slice_ends(ts, slice))
		count(STAT_SLICE_ENDS);
}

/* ---- Adding a thread to a run queue ---------------------------------------------------------- */

/* TSF_AFFINITY and td_pinned: may not run on every CPU */
static __always_inline bool is_limited(struct task_struct *p)
{
	const struct cpumask *online;
	bool limited;

	if (is_migration_disabled(p))
		return true;
	online = scx_bpf_get_online_cpumask();
	limited = !bpf_cpumask_subset(online, p->cpus_ptr);
	scx_bpf_put_cpumask(online);
	return limited;
}

/*
 * A thread that is about to enter the queue of CPU @comes counts, one that leaves that of @goes
 * does not; -1 if there is none.
 */
static __always_inline s32 runq_length(s32 cpu, s32 comes, s32 goes)
{
	return (s32)scx_bpf_dsq_nr_queued(private_runq(cpu)) + (cpu == comes) - (cpu == goes);
}

static __always_inline bool is_allowed(struct task_struct *p, s32 cpu, const struct cpumask *online)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && bpf_cpumask_test_cpu(cpu, online);
}

/*
 * sched_pickcpu(): the allowed CPU with the shortest private queue, starting from the one where the
 * thread ran last, which need not be the one where the kernel keeps it.
 */
__noinline s32 sched_pickcpu(struct task_struct *p __arg_trusted, s32 comes, s32 goes)
{
	struct td_sched *ts = td_sched_of(p);
	const struct cpumask *online;
	s32 cpu, best = -1;

	if (!ts || is_migration_disabled(p) || p->nr_cpus_allowed == 1)
		return scx_bpf_task_cpu(p);
	bpf_rcu_read_lock();
	online = scx_bpf_get_online_cpumask();
	if (is_allowed(p, ts->lastcpu, online))
		best = ts->lastcpu;
	bpf_for(cpu, 0, nr_cpu_ids) {
		if (!is_allowed(p, cpu, online))
			continue;
		if (best < 0 || runq_length(cpu, comes, goes) < runq_length(best, comes, goes))
			best = cpu;
	}
	scx_bpf_put_cpumask(online);
	bpf_rcu_read_unlock();
	return best < 0 ? scx_bpf_task_cpu(p) : best;
}

/*
 * forward_wakeup(): interrupts all idle CPUs so that one of them takes the thread, though one
 * interrupt would do. False if none is idle.
 */
__noinline bool forward_wakeup(s32 me)
{
	u64 woken = unknown_zero;
	struct pcpu *pc;
	u32 cpu;

	bpf_for(cpu, 0, nr_cpu_ids) {
		pc = pcpu_of(cpu);
		if (cpu == (u32)me || !pc || !pc->idle)
			continue;
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		woken++;
	}
	if (!woken)
		return false;
	count(STAT_FORWARD_WAKEUPS);
	count_by(STAT_IDLE_CPUS_WOKEN, woken);
	return true;
}

/* The CPU chooses again. */
static __always_inline void displace(s32 cpu, struct pcpu *pc, bool in_kernel)
{
	pc->in_kernel = in_kernel;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/*
 * maybe_preempt() and, failing that, maybe_resched(); kick_other_cpu() has its own version of them.
 * A better thread gets @cpu: at once if it is an interrupt thread or @cpu runs a thread of the idle
 * class, otherwise when the current thread returns to user mode. For sched_ext the two are the
 * same: the kernel decides where a thread may be preempted.
 */
static __always_inline void preempt_cpu(s32 cpu, struct pcpu *pc, s32 curpri, s32 priority)
{
	bool at_once = priority <= PRI_MAX_ITHD || curpri >= PRI_MIN_IDLE;

	if (pc->idle) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	if (priority >= curpri)
		return;
	count(at_once ? STAT_PREEMPTIONS : STAT_RESCHEDULES);
	displace(cpu, pc, at_once);
}

/*
 * Tells the CPUs that sched_add() would: a thread of @priority waits; @cpu -1: it may run anywhere.
 */
static __noinline void notify_cpus(s32 cpu, s32 priority, bool srq_intr)
{
	s32 me = bpf_get_smp_processor_id();
	struct pcpu *pc, *my_pc = pcpu_of(me);

	if (!my_pc)
		return;
	if (cpu >= 0 && cpu != me) {
		pc = pcpu_of(cpu);
		if (pc)
			preempt_cpu(cpu, pc, pc->curpri, priority);
		return;
	}
	/*
	 * On an idle CPU, FreeBSD's clock thread does the waking: the CPU does not count as idle,
	 * and picks a moment later
	 */
	if (cpu < 0 && smp_cpus > 1 && !srq_intr && forward_wakeup(me) && !my_pc->idle)
		return;
	preempt_cpu(me, my_pc, my_pc->curpri, priority);
}

/* Whether the clock's thread displaces the current thread when it runs on this CPU */
static __always_inline bool clock_thread_displaces(const struct pcpu *pc)
{
	return clock_thread && pc && !pc->idle && pc->curpri > PRI_MAX_ITHD;
}

/* The clock's thread runs here, preempting the current one, and sleeps: the CPU chooses anew. */
static __always_inline void run_clock_thread(void)
{
	s32 me = bpf_get_smp_processor_id();
	struct pcpu *pc = pcpu_of(me);

	if (clock_thread_displaces(pc))
		displace(me, pc, true);
}

/*
 * The CPU in whose private queue the current thread waits while the clock's thread runs here; -1 if
 * in none. It is chosen before that thread does anything, and also interrupted before the CPUs of
 * those that the thread wakes.
 */
static __noinline s32 displaced_to(void)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct td_sched *ts = td_sched_of(p);

	if (!ts || smp_cpus == 1 || !clock_thread_displaces(this_pcpu()) || !is_limited(p))
		return -1;
	if (ts->put_on < 0) {
		ts->put_on = sched_pickcpu(p, -1, -1);
		notify_cpus(ts->put_on, ts->priority, false);
	}
	return ts->put_on;
}

/* sched_add() */
void BPF_STRUCT_OPS(bsd4_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct td_sched *ts = td_sched_of(p);
	struct pcpu *pc = pcpu_of(scx_bpf_task_cpu(p));
	u64 now = scx_bpf_now(), queue = GLOBAL_RUNQ;
	bool interrupt = (enq_flags & SCX_ENQ_WAKEUP) && in_interrupt();
	s32 cpu = -1, displaced = interrupt ? displaced_to() : -1;

	if (!ts || !pc) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return;
	}
	ts->waiting_since = now;
	if (smp_cpus > 1 && is_limited(p)) {
		count(STAT_PRIVATE);
		cpu = ts->put_on;
		if (cpu < 0 || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			cpu = sched_pickcpu(p, displaced, -1);
		queue = private_runq(cpu);
	}
	scx_bpf_dsq_insert_vtime(p, queue, slice_left(ts, now), runq_place(ts), 0);
	/* One that may no longer run on its CPU is taken out again and put elsewhere */
	if (bpf_cpumask_test_cpu(scx_bpf_task_cpu(p), p->cpus_ptr))
		ts->preempted = false;
	ts->moved_to = 0;
	ts->put_on = -1;

	notify_cpus(cpu, ts->priority, interrupt && (p->flags & PF_KTHREAD));
	if (interrupt)
		run_clock_thread();
}

/* The idle CPU that forward_wakeup() interrupts first; @otherwise if none is idle. */
static __noinline s32 first_idle_cpu(s32 me, s32 otherwise)
{
	s32 cpu, first = otherwise;
	struct pcpu *pc;

	bpf_for(cpu, 0, nr_cpu_ids) {
		pc = pcpu_of(cpu);
		if (cpu == me || !pc || !pc->idle)
			continue;
		first = cpu;
		break;
	}
	return first;
}

/*
 * A wake-up places a thread only if it may not run everywhere, for bsd4_enqueue(); else the CPU
 * that picks next takes it. But the kernel interrupts an idle CPU that is named here before those
 * that are kicked. In FreeBSD that of the clock's thread picks first, or else those that are
 * interrupted do in their order.
 */
s32 BPF_STRUCT_OPS(bsd4_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 me = bpf_get_smp_processor_id();
	struct td_sched *ts = td_sched_of(p);
	struct pcpu *pc = pcpu_of(me);
	bool interrupt = in_interrupt();

	if (!ts || !pc)
		return prev_cpu;
	if (is_limited(p))
		ts->put_on = sched_pickcpu(p, interrupt ? displaced_to() : -1, -1);
	if (interrupt && (clock_thread || pc->idle) && bpf_cpumask_test_cpu(me, p->cpus_ptr))
		return me;
	if (ts->put_on >= 0)
		return ts->put_on;
	return pc->idle ? prev_cpu : first_idle_cpu(me, prev_cpu);
}

/* ---- Sleep and wake-up ----------------------------------------------------------------------- */

/* updatepri(): makes up for the passes that skipped the thread while it slept, all but one. */
static void updatepri(struct td_sched *ts)
{
	u64 loadfac = 2 * ldavg;
	u32 estcpu = ts->estcpu;
	u32 i;

	count(STAT_UPDATED);
	/* Meant to compare seconds, but loadfac is in fixed point: true only for loads near 0 */
	if (ts->slptime > 5 * loadfac) {
		ts->estcpu = 0;
		return;
	}
	bpf_for(i, 2, ts->slptime) {
		if (!estcpu)
			break;
		estcpu = decay_cpu(loadfac, estcpu);
	}
	ts->estcpu = estcpu;
}

/* sched_wakeup() without adding the thread to a queue; also counts it in the load */
void BPF_STRUCT_OPS(bsd4_runnable, struct task_struct *p, u64 enq_flags)
{
	struct td_sched *ts = td_sched_of(p);

	if (!ts)
		return;
	if (!ts->loaded && thread_class_of(p) != THREAD_INTERRUPT) {
		ts->loaded = true;
		__sync_fetch_and_add(&sched_tdcnt, 1);
	}
	if (!(enq_flags & SCX_ENQ_WAKEUP) || ts->new)
		return;
	if (ts->slptime > 1) {
		updatepri(ts);
		resetpriority(p, ts);
		resetpriority_thread(ts);
	}
	ts->slptime = 0;
	ts->slice = slice;
}

/*
 * sched_sleep(): a timeshare thread has the priority of its sleep, if any, until back in user mode.
 */
void BPF_STRUCT_OPS(bsd4_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct td_sched *ts = td_sched_of(p);
	s32 priority;

	if (!ts)
		return;
	ts->waiting_since = 0;
	ts->moved_to = 0;
	sched_load_rem(ts);
	if (!(deq_flags & SCX_DEQ_SLEEP))
		return;
	ts->preempted = false;
	ts->put_on = -1;
	ts->slptime = 0;
	if (thread_class_of(p) != THREAD_TIMESHARE)
		return;
	priority = sleep_priority(p);
	if (priority != NO_SLEEP_PRIORITY)
		ts->priority = priority;
}

/* ---- Choosing -------------------------------------------------------------------------------- */

/* Finds the best thread of a queue; @prev, if any, counts as waiting. True if that is @prev. */
static __always_inline bool best_of(struct runq_head *head, u64 queue, const struct td_sched *prev)
{
	bool empty = !runq_choose(queue, head);

	if (!prev || !(empty || time_before(runq_place(prev), head->place)))
		return false;
	head->priority = prev->priority;
	return true;
}

/*
 * sched_choose(): the first thread of the global queue, or that of this CPU's own queue if its
 * priority is strictly better. True if that is @prev, which is in no list but counts as if it were
 * in its own.
 */
static __noinline bool sched_choose(s32 cpu, struct td_sched *prev, bool limited)
{
	struct runq_head global = {}, own = { .priority = NO_PRIORITY };
	bool own_is_best, prev_is_best, prev_is_own = false;
	s32 attempt;

	/* With nothing to compare, take the first thread of the global queue */
	if (!prev && (smp_cpus == 1 || !scx_bpf_dsq_nr_queued(private_runq(cpu)))) {
		scx_bpf_dsq_move_to_local(GLOBAL_RUNQ, 0);
		return false;
	}
	/* Another CPU may take the chosen thread: then choose again */
	bpf_for(attempt, 0, SCHEDULE_ATTEMPTS) {
		prev_is_best = best_of(&global, GLOBAL_RUNQ, limited ? NULL : prev);
		if (smp_cpus > 1)
			prev_is_own = best_of(&own, private_runq(cpu), limited ? prev : NULL);
		own_is_best = own.priority < global.priority;
		if (own_is_best ? prev_is_own : prev_is_best)
			return true;
		if (scx_bpf_dsq_move_to_local(own_is_best ? private_runq(cpu) : GLOBAL_RUNQ, 0))
			return false;
	}
	return prev != NULL;
}

/*
 * 8: stathz ticks until the one that finds a quantum of 100 ms used up, which begins at each
 * switch, even from a thread to itself
 */
static __always_inline s32 sched_quantum(u64 now)
{
	u64 end = (tick_at(now) + hz / 10) * tick_length();

	return stat_tick_at(end + stat_tick_length() - 1) - stat_tick_at(now);
}

/* The thread leaves the scheduler, with its user priority; returns what is left of its slice. */
static __always_inline u64 switched_to(struct td_sched *ts, struct pcpu *pc, u64 now)
{
	if (release == FREEBSD_8)
		ts->slice = sched_quantum(now);
	pc->in_kernel = false;
	ts->sliceend = false;
	ts->preempted = false;
	ts->moved_to = 0;
	ts->put_on = -1;
	ts->didrun = true;
	ts->new = false;
	sched_prio(ts, ts->user_pri);
	return slice_left(ts, now);
}

/* sched_switch() */
void BPF_STRUCT_OPS(bsd4_dispatch, s32 cpu, struct task_struct *prev)
{
	struct pcpu *pc = pcpu_of(cpu);
	struct td_sched *ts = NULL;
	u64 now = scx_bpf_now();
	bool limited = false;

	if (!pc)
		return;
	if (prev && can_go_on(prev, cpu)) {
		ts = td_sched_of(prev);
		limited = smp_cpus > 1 && is_limited(prev);
	}
	if (ts) {
		charge_ticks(prev, ts, now);
		ts->preempted = goes_to_head(ts, pc);
		if (limited && ts->put_on < 0)
			ts->put_on = sched_pickcpu(prev, -1, -1);
		if (limited && ts->put_on != cpu)
			ts = NULL;
	}
	if (sched_choose(cpu, ts, limited) && ts)
		scx_bpf_task_set_slice(prev, switched_to(ts, pc, now));
}

void BPF_STRUCT_OPS(bsd4_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct td_sched *ts = td_sched_of(p);
	struct pcpu *pc = pcpu_of(cpu);
	u64 now = scx_bpf_now();

	if (!ts || !pc)
		return;
	ts->waiting_since = 0;
	ts->lastcpu = cpu;
	ts->running = true;
	ts->charged_until = stat_tick_at(now);
	scx_bpf_task_set_slice(p, switched_to(ts, pc, now));
}

void BPF_STRUCT_OPS(bsd4_stopping, struct task_struct *p, bool runnable)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct td_sched *ts = td_sched_of(p);
	struct pcpu *pc = pcpu_of(cpu);

	if (!ts || !pc)
		return;
	charge_ticks(p, ts, scx_bpf_now());
	ts->running = false;
	/* Until another thread runs here, none is better */
	pc->curpri = 0;
	if (!runnable)
		return;
	ts->preempted = goes_to_head(ts, pc);
	/* With slice left, it would wait outside its list and come back before a better thread */
	scx_bpf_task_set_slice(p, 0);
}

/* A CPU that goes idle looks once more: a thread may have come while it was still busy. */
void BPF_STRUCT_OPS(bsd4_update_idle, s32 cpu, bool idle)
{
	struct pcpu *pc = pcpu_of(cpu);

	if (!pc)
		return;
	pc->idle = idle;
	if (!idle)
		return;
	pc->curpri = PRI_MAX_IDLE;
	if (scx_bpf_dsq_nr_queued(GLOBAL_RUNQ) > 0 || scx_bpf_dsq_nr_queued(private_runq(cpu)) > 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* A timeshare thread that yields has the worst priority of its class until back in user mode. */
bool BPF_STRUCT_OPS(bsd4_yield, struct task_struct *from, struct task_struct *to)
{
	struct td_sched *ts = td_sched_of(from);

	if (to || !ts)
		return false;
	count(STAT_YIELDS);
	if (thread_class_of(from) == THREAD_TIMESHARE)
		sched_prio(ts, PRI_MAX_TIMESHARE);
	scx_bpf_task_set_slice(from, 0);
	return true;
}

/* ---- Once a second --------------------------------------------------------------------------- */

/* schedcpu() for one thread */
static __always_inline void schedcpu_thread(struct task_struct *p, struct td_sched *ts, s32 cpu,
					    u64 place)
{
	bool waits = ts->waiting_since || (ts->running && ts->lastcpu == cpu);
	struct pcpu *pc = ts->running ? pcpu_of(ts->lastcpu) : NULL;
	u32 list = list_of(ts->priority);
	bool awake = ts->loaded || ts->running || ts->waiting_since || ts->didrun;

	count(STAT_VISITED);
	if (!ts->running)
		ts->didrun = false;
	ts->slptime = awake ? 0 : ts->slptime + 1;
	/* The rest is done at its wake-up */
	if (ts->slptime > 1)
		return;
	count(STAT_DECAYED);
	if (pc) {
		pc->pass_place = place;
		pc->pass_pri = ts->priority;
	}
	ts->estcpu = decay_cpu(2 * ldavg, ts->estcpu);
	resetpriority(p, ts);
	resetpriority_thread(ts);
	/* The thread that the pass's own has displaced waits meanwhile */
	if (waits && list_of(ts->priority) != list)
		ts->moved_to = place;
}

/*
 * kick_other_cpu() for a thread that the pass moves in the queue of another CPU. The current thread
 * there has its old priority if it comes later in the pass.
 */
static __always_inline void kick_for_moved(s32 cpu, const struct td_sched *ts)
{
	struct pcpu *pc = pcpu_of(cpu);
	bool later = pc && ts->moved_to < pc->pass_place;

	if (pc && cpu != bpf_get_smp_processor_id())
		preempt_cpu(cpu, pc, later ? pc->pass_pri : pc->curpri, ts->priority);
}

/*
 * Moves each thread of a queue whose priority now belongs in another list to its place at the end
 * of that list, in the queue of the CPU that is the best for it by now.
 */
__noinline int requeue(u64 queue, s32 displaced)
{
	struct task_struct *p;

	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		struct td_sched *ts = td_sched_of(p);
		u64 to = queue;

		if (!ts || list_of(ts->priority) == list_at(p->scx.dsq_vtime))
			continue;
		if (queue != GLOBAL_RUNQ)
			to = private_runq(sched_pickcpu(p, displaced, queue - 1));
		scx_bpf_dsq_move_set_vtime(DSQ_ITERATOR, runq_place(ts));
		if (!scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p, to, 0))
			continue;
		if (queue != GLOBAL_RUNQ)
			kick_for_moved(to - 1, ts);
		ts->moved_to = 0;
		count(STAT_REQUEUED);
	}
	bpf_rcu_read_unlock();
	return 0;
}

/* schedcpu(): a pass over all threads. Its thread in FreeBSD then sleeps: this CPU picks anew. */
static bool schedcpu(void)
{
	s32 displaced, cpu = bpf_get_smp_processor_id();
	struct pcpu *pc = pcpu_of(cpu);
	struct task_struct *p;
	u64 place;
	int queue;

	count(STAT_PASSES);
	end_of_pass += PASS_PLACES;
	place = end_of_pass;
	bpf_rcu_read_lock();
	displaced = displaced_to();
	bpf_for_each(task, p, NULL, BPF_TASK_ITER_ALL_THREADS) {
		struct td_sched *ts = td_sched_of(p);

		/* FreeBSD's list of processes begins with the newest */
		if (ts)
			schedcpu_thread(p, ts, cpu, --place);
	}
	bpf_rcu_read_unlock();
	bpf_for(queue, 0, nr_cpu_ids + 1) {
		rescue(queue, queue);
		requeue(queue, displaced);
	}

	/* The clock's thread has woken that of the pass */
	if (pc && !pc->idle && pc->curpri > PRI_MIN_KERN)
		displace(cpu, pc, clock_thread);
	return true;
}

DEFINE_TIMER(schedcpu_callout, schedcpu, time_to_tick(scx_bpf_now(), hz))

/* loadav(): ldavg = ldavg * exp(-1/12) + load * (1 - exp(-1/12)) */
static bool loadav(void)
{
	run_clock_thread();
	ldavg = (CEXP * ldavg + sched_tdcnt * FSCALE * (FSCALE - CEXP)) >> FSHIFT;
	return true;
}

/*
 * The next sample of the load: after 5 seconds on average, at random to avoid running in step with
 * a thread of that period
 */
DEFINE_TIMER(loadav_callout, loadav,
	     time_to_tick(scx_bpf_now(), hz * 4 + bpf_get_prandom_u32() % (hz * 2 + 1)))

/* ---- Fork, exit, nice ------------------------------------------------------------------------ */

/* sched_fork(): the child starts with its parent's estcpu and a slice of one tick. */
static __always_inline void sched_fork(struct task_struct *p, struct td_sched *ts,
				       struct task_struct *parent, const struct td_sched *parent_ts)
{
	ts->estcpu = parent_ts->estcpu;
	count_by(STAT_INHERITED, ts->estcpu);
	ts->slice = 1;
	resetpriority(p, ts);
	/* So is the priority: what dead children added to estcpu counts from the next step on */
	if (thread_class_of(p) == THREAD_TIMESHARE && task_nice(p) == task_nice(parent))
		ts->user_pri = parent_ts->user_pri;
}

s32 BPF_STRUCT_OPS(bsd4_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct td_sched *ts = new_td_sched(p), *parent_ts;

	if (!ts)
		return -ENOMEM;
	ts->lastcpu = args->fork ? 0 : scx_bpf_task_cpu(p);
	ts->slice = slice;
	ts->put_on = -1;
	ts->new = args->fork;
	ts->nice = task_nice(p);
	resetpriority(p, ts);
	parent_ts = args->fork ? td_sched_of(parent) : NULL;
	if (parent_ts)
		sched_fork(p, ts, parent, parent_ts);
	ts->priority = ts->user_pri;
	return 0;
}

/* sched_exit(): the child's estcpu is added to its parent's; that of a thread to its process's. */
void BPF_STRUCT_OPS(bsd4_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct td_sched *ts = td_sched_of(p), *parent_ts;
	struct task_struct *parent = heir_of(p, args);

	if (!ts)
		return;
	sched_load_rem(ts);
	parent_ts = parent ? td_sched_of(parent) : NULL;
	if (parent_ts) {
		parent_ts->estcpu = estcpulim(parent_ts->estcpu + ts->estcpu);
		count_by(STAT_RETURNED, ts->estcpu);
	}
}

/* Whether a new thread still has the nice value of its priority: the first call changes nothing. */
static __always_inline bool is_as_forked(const struct task_struct *p, const struct td_sched *ts)
{
	return ts->new && ts->nice == task_nice(p) && thread_class_of(p) == THREAD_TIMESHARE;
}

/* sched_nice(); also called when a task comes to sched_ext or changes its policy within it. */
void BPF_STRUCT_OPS(bsd4_set_weight, struct task_struct *p, u32 weight)
{
	struct td_sched *ts = td_sched_of(p);
	struct pcpu *pc = this_pcpu();
	s32 old;

	if (!ts || !pc || is_as_forked(p, ts))
		return;
	old = ts->user_pri;
	resetpriority(p, ts);
	if (ts->user_pri == old)
		return;
	/* maybe_resched() compares the thread's old priority with the caller's */
	if (ts->priority < pc->curpri) {
		count(STAT_RESCHEDULES);
		displace(bpf_get_smp_processor_id(), pc, false);
	}
	resetpriority_thread(ts);
}

/* ---- Start ----------------------------------------------------------------------------------- */

s32 BPF_STRUCT_OPS_SLEEPABLE(bsd4_init)
{
	s32 queue, error = 0;

	nr_cpu_ids = scx_bpf_nr_cpu_ids();
	smp_cpus = count_online_cpus();
	ldavg = (u64)initial_load * FSCALE / 100;

	bpf_for(queue, GLOBAL_RUNQ, nr_cpu_ids + 1) {
		error = scx_bpf_create_dsq(queue, NUMA_NO_NODE);
		if (error)
			return error;
	}
	return init_schedcpu_callout() ?: init_loadav_callout() ?:
	       start_schedcpu_callout() ?: start_loadav_callout();
}

DEFINE_SCHEDULER(bsd4,
	CALLBACKS_OF(bsd4, select_cpu, enqueue, dispatch, runnable, running, stopping, quiescent,
		     yield, set_weight, update_idle, init_task, exit_task, init)
	CALLBACKS_OF(freebsd, tick)
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.name = "bsd4");
