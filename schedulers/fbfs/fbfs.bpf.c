// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * FBFS: BFS for FreeBSD. One run queue of 64 lists for all CPUs: interrupt, real-time and kernel
 * threads run by static priority, round robin; user threads are in one list and idle threads in
 * another, earliest deadline first. Clocks, priorities, slices and the way CPUs are notified are
 * still FreeBSD's.
 *
 * README.md lists the mechanisms' places and the departures.
 */
#include "fairground.bpf.h"
#include "in_interrupt.h"
#include "starvation.h"
#include "task_attributes.h"
#include "topology.h"

/* Slice of every thread, ticks of stathz */
const volatile u32 sched_slice = 12;

/* Priorities of kernel threads: PI_SOFT (software interrupts) if bound to a CPU, PVM for others */
#define INTERRUPT_PRIORITY 24
#define KERNEL_PRIORITY 84
/* The clock's thread: PI_SWI(SWI_CLOCK) */
#define CLOCK_PRIORITY 40

/* The lists of the run queue. Real-time and kernel priorities begin at list 12, one list each. */
#define FIRST_STATIC_LIST 12
#define LAST_STATIC_LIST 61
#define TIMESHARE_LIST 62
#define IDLE_LIST 63

/* prio_ratios[] for nice -20 */
#define PRIO_RATIO_BASE 128

enum statistic {
	STAT_CHOICES,
	STAT_LIST_STEPS,
	STAT_SWITCHES,
	STAT_INTERRUPTS,
	STAT_PREEMPTIONS,
	STAT_FORKS,
	STAT_YIELDS,
	STAT_RESCUES,
	NR_STATISTICS,
};
DEFINE_STATISTICS(NR_STATISTICS)

/* The scheduler's part of a thread */
struct td_sched {
	/* Virtual deadline in ticks; signed, and compared without regard to overflow */
	s32 deadline;
	/* Rest of the slice, stathz ticks */
	s32 slice;
	/* Current priority: better than its own while it is in the kernel after a sleep */
	s32 priority;
	/* The priority that its last sleep passed to sched_sleep() */
	s32 slept_with;
	/* CPU it ran on last; 0 for a new thread */
	s32 cpu;
	/* stathz tick up to which the current run is charged */
	u64 charged_until;
	/* Since when it waits */
	u64 waiting_since;
	bool running;
	/* TDF_SLICEEND: its slice has ended since it was chosen */
	bool sliceend;
};

DEFINE_TASK_DATA(struct td_sched, td_sched_map, td_sched)

#include "earliest_deadline.h"
#include "freebsd.h"
#include "sleep_priority.h"

/* When `ticks` was 0 */
static u64 first_tick;

/* ---- Priorities ------------------------------------------------------------------------------ */

/*
 * A thread's own priority. In user mode all timeshare threads are equal: nice moves only the
 * deadline.
 */
static __always_inline s32 own_priority(struct task_struct *p)
{
	const struct task_attributes *attributes = attributes_of(p);

	/* rtprio, 32 priorities; SCHED_ISO of the report: static and round robin, the weakest */
	if (asks_for_realtime(attributes))
		return PRI_MIN_REALTIME + (99 - min(attributes->realtime_priority, 99)) * 32 / 99;
	if (asks_for_isochronous(attributes))
		return PRI_MAX_REALTIME;

	switch (thread_class_of(p)) {
	case THREAD_INTERRUPT:
		return INTERRUPT_PRIORITY;
	case THREAD_KERNEL:
		return KERNEL_PRIORITY;
	case THREAD_IDLE:
		return PRI_MIN_IDLE;
	default:
		return PRI_MIN_TIMESHARE;
	}
}

/* The list of a priority. */
static __always_inline u32 queue_of(s32 priority)
{
	u32 list;

	if (priority >= PRI_MIN_IDLE)
		return IDLE_LIST;
	if (priority >= PRI_MIN_TIMESHARE)
		return TIMESHARE_LIST;
	if (priority <= PRI_MAX_ITHD)
		return list_of(priority);
	list = FIRST_STATIC_LIST + priority - PRI_MIN_REALTIME;
	return min(list, LAST_STATIC_LIST);
}

/* ---- Slices and deadlines -------------------------------------------------------------------- */

static __always_inline s32 ticks(u64 now)
{
	return tick_at(now) - first_tick;
}

/* The end of a slice. A defect of the original: ticks of stathz are added to ticks of hz. */
static __always_inline void renew_deadline(struct task_struct *p, struct td_sched *ts, u64 now)
{
	ts->deadline = ticks(now) + (s32)(sched_slice * prio_ratio(task_nice(p)) / PRIO_RATIO_BASE);
	ts->slice = sched_slice;
	ts->sliceend = true;
}

/* sched_clock(): every tick of stathz that hits the thread takes one tick from its slice. */
static __always_inline void sched_clock(struct task_struct *p, struct td_sched *ts)
{
	if (--ts->slice <= 0)
		renew_deadline(p, ts, scx_bpf_now());
}

/* ---- Notifying CPUs -------------------------------------------------------------------------- */

/* Asks a CPU to call mi_switch(), by an interrupt if it is another one. */
static __always_inline void request_reschedule(s32 cpu, bool idle)
{
	if (cpu != (s32)bpf_get_smp_processor_id())
		count(STAT_INTERRUPTS);
	scx_bpf_kick_cpu(cpu, idle ? 0 : SCX_KICK_PREEMPT);
}

/*
 * Interrupts the idle CPUs at positions @first to @first + @number - 1 that the thread may use, and
 * returns their number.
 */
__noinline u32 interrupt_idle(struct task_struct *p __arg_trusted, u32 first, u32 number)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	u32 position, interrupted = 0;
	s32 cpu;

	for_each_cpu_in_span(cpu, position, first, number) {
		if (!bpf_cpumask_test_cpu(cpu, idle) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		request_reschedule(cpu, true);
		interrupted++;
	}
	scx_bpf_put_idle_cpumask(idle);
	return interrupted;
}

static __always_inline u32 interrupt_all_idle(struct task_struct *p)
{
	return interrupt_idle(p, 0, scx_bpf_nr_cpu_ids());
}

/*
 * Interrupts the idle CPUs in the last CPU's group: its core if that has several threads, otherwise
 * its cache. If there are none, interrupts all idle CPUs. The original was meant to climb to the
 * next group, but looks only at the first.
 */
static __always_inline u32 interrupt_idle_neighbours(struct task_struct *p, s32 cpu)
{
	const volatile struct cpu_topology *place = topology_of(cpu);
	const volatile struct topology_span *group;
	u32 interrupted = 0;

	if (place) {
		group = place->core_cpus.count > 1 ? &place->core_cpus : &place->llc_cpus;
		interrupted = interrupt_idle(p, group->first, group->count);
	}
	return interrupted ?: interrupt_all_idle(p);
}

static __always_inline bool candidate_of(struct task_struct *p, s32 cpu, struct candidate *c)
{
	struct td_sched *ts = td_sched_of(p);

	if (!ts)
		return false;
	c->prio = ts->priority;
	c->deadline = ts->deadline;
	return true;
}

/* In lists of static priorities the first thread is taken. */
static __always_inline bool ends_scan(u32 list, const struct candidate *c, u64 now)
{
	return list < TIMESHARE_LIST;
}

/*
 * The worst priority, then the earliest deadline: a defect of the original, which meant the latest.
 */
static __always_inline bool is_worse(const struct candidate *a, const struct candidate *b)
{
	return a->prio > b->prio || (a->prio == b->prio && a->deadline < b->deadline);
}

/* Who puts a thread into the run queue */
enum adder {
	/* It itself, or another user thread, which is the current one */
	ADDED_BY_THREAD,
	/* That of the clock, which is better than all */
	ADDED_BY_CLOCK,
	/* The same, and the thread is that of the pass, which has no record */
	PASS_ADDED_BY_CLOCK,
};

/*
 * worst_running_thread(): of the CPUs that @p may use, the one that runs the worst thread, if @p is
 * better; else -1, also if one is idle. Among equals the current thread is the worst, or else that
 * of the lowest CPU. A thread that is leaving its CPU counts as running there. That of the clock is
 * never the worst.
 */
__noinline s32 worst_running_thread(struct task_struct *p __arg_trusted, enum adder adder)
{
	struct candidate own = { .prio = KERNEL_PRIORITY }, c, worst = { .prio = -1 };
	s32 cpu, me = bpf_get_smp_processor_id(), worst_cpu = -1;
	struct task_struct *curr;

	bpf_rcu_read_lock();
	if (adder != PASS_ADDED_BY_CLOCK)
		candidate_of(p, ANY_CPU, &own);
	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		curr = scx_bpf_cpu_curr(cpu);
		if (!curr || (cpu == me && adder != ADDED_BY_THREAD))
			continue;
		if (adder != PASS_ADDED_BY_CLOCK && !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (is_idle(curr)) {
			worst_cpu = -1;
			break;
		}
		if (!is_ordinary(curr) || !candidate_of(curr, ANY_CPU, &c))
			continue;
		if (!is_worse(&c, &worst) && (cpu != me || is_worse(&worst, &c)))
			continue;
		worst = c;
		worst_cpu = unlinked(cpu);
	}
	bpf_rcu_read_unlock();
	return worst_cpu >= 0 && goes_first(&own, &worst) ? worst_cpu : -1;
}

/* Asks that CPU to reschedule. */
static __always_inline void displace_worst(struct task_struct *p, enum adder adder)
{
	s32 cpu = worst_running_thread(p, adder);

	if (cpu < 0)
		return;
	count(STAT_PREEMPTIONS);
	request_reschedule(cpu, false);
}

/*
 * The end of sched_add(): notifies the last CPU if it is idle or runs a worse thread, and all other
 * idle CPUs too; otherwise the idle CPUs near the last CPU, or else all idle CPUs; if none is idle,
 * the CPU that runs the worst thread, if @p is better.
 */
static __always_inline void notify_cpus(struct task_struct *p, const struct td_sched *ts)
{
	struct candidate own = { .prio = ts->priority, .deadline = ts->deadline }, c;
	bool idle = cpu_is_idle(ts->cpu);

	if (bpf_cpumask_test_cpu(ts->cpu, p->cpus_ptr) &&
	    (idle || (running_on(ts->cpu, p, &c) && goes_first(&own, &c) &&
		      (own.prio < c.prio || queue_of(own.prio) >= TIMESHARE_LIST)))) {
		if (!idle) {
			count(STAT_PREEMPTIONS);
			request_reschedule(ts->cpu, false);
		}
		interrupt_all_idle(p);
		return;
	}
	if (!interrupt_idle_neighbours(p, ts->cpu))
		displace_worst(p, ADDED_BY_THREAD);
}

/* Interrupts the idle CPUs, also those that the thread to be woken may not use. */
__noinline int interrupt_every_idle(void)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	s32 cpu;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids())
		if (bpf_cpumask_test_cpu(cpu, idle))
			request_reschedule(cpu, true);
	scx_bpf_put_idle_cpumask(idle);
	return 0;
}

/*
 * The thread of the clock, from which timers wake threads: it displaces the current thread, all
 * idle CPUs are interrupted for it, and when it sleeps again this CPU chooses anew. So it is not
 * this CPU that is notified of the thread that it wakes.
 */
static __always_inline void run_clock_thread(struct task_struct *p, enum adder adder)
{
	struct td_sched *ts = td_sched_of(bpf_get_current_task_btf());

	if (ts && ts->priority > CLOCK_PRIORITY)
		scx_bpf_kick_cpu(bpf_get_smp_processor_id(), SCX_KICK_PREEMPT);
	interrupt_every_idle();
	displace_worst(p, adder);
}

/* ---- The run queue --------------------------------------------------------------------------- */

s32 BPF_STRUCT_OPS(fbfs_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

/*
 * sched_add(): a thread waits: it was woken, forked or changed, or has lost its CPU. In
 * sched_switch() only a thread preempted inside the kernel would go to the front, since `flags &
 * SWT_RELINQUISH` is true for every switch on the way to user mode.
 */
void BPF_STRUCT_OPS(fbfs_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct td_sched *ts = expected_td_sched(p);

	if (!ts)
		return;
	ts->priority = own_priority(p);
	if (enq_flags & SCX_ENQ_WAKEUP) {
		/* sched_wakeup() */
		ts->slice = sched_slice;
		if (ts->slept_with != NO_SLEEP_PRIORITY && ts->slept_with < ts->priority)
			ts->priority = ts->slept_with;
	}
	ts->sliceend = false;
	ts->waiting_since = scx_bpf_now();
	scx_bpf_dsq_insert_vtime(p, RUNQ, SCX_SLICE_DFL, queue_of(ts->priority), 0);
	if ((enq_flags & SCX_ENQ_WAKEUP) && in_interrupt())
		run_clock_thread(p, ADDED_BY_CLOCK);
	else
		notify_cpus(p, ts);
}

/* @prev is put back and chosen again: that also notifies a CPU with a thread of a worse class. */
static __always_inline void go_on(struct task_struct *prev, struct td_sched *ts, u64 now)
{
	ts->sliceend = false;
	scx_bpf_task_set_slice(prev, slice_left(ts, now));
	displace_worst(prev, ADDED_BY_THREAD);
}

/*
 * sched_choose(): the first list that has a thread for this CPU. Among user or idle threads the one
 * with the earliest deadline runs, among all others the first. @prev, if it can go on, counts as if
 * it had been put back at the end.
 */
void BPF_STRUCT_OPS(fbfs_dispatch, s32 cpu, struct task_struct *prev)
{
	struct td_sched *ts = NULL;
	u64 now = scx_bpf_now();

	count(STAT_CHOICES);
	if (prev && can_go_on(prev, cpu))
		ts = td_sched_of(prev);
	if (prev && ts) {
		charge_ticks(prev, ts, now);
		ts->priority = own_priority(prev);
	}
	if (rescue_starved(now))
		return;
	if (!earliest_deadline_task(cpu, ts ? queue_of(ts->priority) : RQ_NQS,
				    ts ? ts->deadline : 0, now) && prev && ts)
		go_on(prev, ts, now);
}

/* Idle threads look for work, so they also find a thread of which only a busy CPU was notified. */
static __always_inline void idle_threads_look(void)
{
	const struct cpumask *idle;
	s32 cpu;

	if (scx_bpf_dsq_nr_queued(RUNQ) <= 0)
		return;
	idle = scx_bpf_get_idle_cpumask();
	if (!bpf_cpumask_empty(idle)) {
		bpf_for(cpu, 0, scx_bpf_nr_cpu_ids())
			if (bpf_cpumask_test_cpu(cpu, idle))
				scx_bpf_kick_cpu(cpu, 0);
	}
	scx_bpf_put_idle_cpumask(idle);
}

void BPF_STRUCT_OPS(fbfs_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct td_sched *ts = td_sched_of(p);
	u64 now = scx_bpf_now();

	if (!ts)
		return;
	count(STAT_SWITCHES);
	ts->cpu = cpu;
	ts->running = true;
	ts->sliceend = false;
	ts->charged_until = stat_tick_at(now);
	/* Back in user mode it has its own priority; nothing checks if it should still run */
	ts->priority = own_priority(p);
	scx_bpf_task_set_slice(p, slice_left(ts, now));
	idle_threads_look();
}

void BPF_STRUCT_OPS(fbfs_stopping, struct task_struct *p, bool runnable)
{
	struct td_sched *ts = td_sched_of(p);

	if (!ts)
		return;
	charge_ticks(p, ts, scx_bpf_now());
	ts->running = false;
	/* Displaced by a real-time task of the kernel or not, it waits where all wait */
	if (runnable)
		hand_back(p);
}

/*
 * sched_sleep(): a thread has the priority that its sleep passes, if any, until back in user mode.
 */
void BPF_STRUCT_OPS(fbfs_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct td_sched *ts = td_sched_of(p);

	if (ts && (deq_flags & SCX_DEQ_SLEEP))
		ts->slept_with = sleep_priority(p);
}

/* The idle thread looks for work until there is some. */
void BPF_STRUCT_OPS(fbfs_update_idle, s32 cpu, bool idle)
{
	if (idle && scx_bpf_dsq_nr_queued(RUNQ) > 0)
		scx_bpf_kick_cpu(cpu, 0);
}

/*
 * sched_relinquish(): the thread goes to the end of its list. Deadline and slice stay, so it goes
 * on if its deadline is the earliest.
 */
bool BPF_STRUCT_OPS(fbfs_yield, struct task_struct *from, struct task_struct *to)
{
	struct td_sched *ts = td_sched_of(from);

	if (to || !ts)
		return false;
	count(STAT_YIELDS);
	charge_ticks(from, ts, scx_bpf_now());
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/*
 * sched_fork(): the parent keeps half of its slice, and the child gets as much, with the same
 * deadline. Threads that existed before this scheduler have deadline 0 until their first slice
 * ends.
 */
s32 BPF_STRUCT_OPS(fbfs_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct td_sched *ts, *parent_ts;
	u64 now = scx_bpf_now();

	ts = new_td_sched(p);
	if (!ts)
		return -ENOMEM;
	ts->slice = sched_slice;
	ts->priority = own_priority(p);
	ts->cpu = args->fork ? 0 : scx_bpf_task_cpu(p);
	ts->waiting_since = now;
	if (!args->fork)
		return 0;

	count(STAT_FORKS);
	parent_ts = td_sched_of(parent);
	if (!parent_ts)
		return 0;
	charge_ticks(parent, parent_ts, now);
	parent_ts->slice >>= 1;
	ts->slice = parent_ts->slice;
	ts->deadline = parent_ts->deadline;
	if (parent_ts->running)
		scx_bpf_task_set_slice(parent, slice_left(parent_ts, now));
	return 0;
}

/*
 * schedcpu_thread(): 4BSD's pass over all threads decides nothing here, but once a second the
 * clock's thread wakes that of the pass, which sleeps again: the current thread goes to the end of
 * its list, and the CPU chooses anew. So does that of the worst thread, which was asked to run the
 * pass.
 */
static bool schedcpu_thread(void)
{
	run_clock_thread(bpf_get_current_task_btf(), PASS_ADDED_BY_CLOCK);
	return true;
}

DEFINE_TIMER(schedcpu, schedcpu_thread, time_to_tick(scx_bpf_now(), hz))

s32 BPF_STRUCT_OPS_SLEEPABLE(fbfs_init)
{
	fill_prio_ratios(PRIO_RATIO_BASE);
	first_tick = tick_at(scx_bpf_now());
	return scx_bpf_create_dsq(RUNQ, NUMA_NO_NODE) ?: init_schedcpu() ?: start_schedcpu();
}

DEFINE_SCHEDULER(fbfs,
	CALLBACKS_OF(fbfs, select_cpu, enqueue, dispatch, running, stopping, quiescent, yield,
		     update_idle, init_task, init)
	CALLBACKS_OF(freebsd, tick)
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.name = "fbfs");
