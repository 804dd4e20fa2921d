// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * BFS: one queue for all CPUs, one slice for all tasks, and a virtual deadline that is renewed when
 * the slice is used up. The waiting task with the earliest deadline runs, on whichever CPU looks
 * first. The rules are those of 0.318, the release whose scan sched-BFS.txt describes.
 *
 * README.md lists the mechanisms' places and the departures.
 */
#include "fairground.bpf.h"
#include "pending_signals.h"
#include "task_attributes.h"
#include "topology.h"

/* Timer ticks per second: slices end at ticks */
const volatile u32 hz = 1000;
/* Slice of every task, milliseconds */
const volatile u32 rr_interval = 6;
/* Percent of all CPUs' time over 5 s that isochronous tasks may use before they become ordinary */
const volatile u32 iso_cpu = 70;
/* Whether idle CPUs tick, which counts against the share of isochronous tasks */
const volatile u32 idle_ticks = 1;
/* Whether a CPU that leaves tasks waiting notifies an idle one */
const volatile u32 offer_waiting = 1;
/* Priorities, also the ids of the lists. Those below 100 are real-time, for the kernel itself. */
#define ISO_PRIO 100
#define NORMAL_PRIO 101
#define IDLE_PRIO 102
#define PRIO_LIMIT 103

/* prio_ratios[] for nice -20 */
#define PRIO_RATIO_BASE 100

/* Distances between CPUs, as in cpu_locality[] */
#define LOCALITY_SHARED_CACHE 0
#define LOCALITY_SAME_NODE 1
#define LOCALITY_OTHER_NODE 3

/* Penalties of an idle CPU; the CPU with the smallest sum is chosen. */
#define CPUIDLE_CACHE_BUSY 1
#define CPUIDLE_DIFF_CPU 2
#define CPUIDLE_THREAD_BUSY 4
#define CPUIDLE_DIFF_NODE 8

/* The kernel's slice: longer than any of ours, so that slices end only at ticks */
#define KERNEL_SLICE (10 * NSEC_PER_SEC)

enum statistic {
	STAT_SCHEDULES,
	STAT_LIST_STEPS,
	STAT_SLICES,
	STAT_PREEMPTIONS,
	STAT_YIELDS,
	STAT_ISO_REFRACTIONS,
	STAT_RESCUES,
	NR_STATISTICS,
};
DEFINE_STATISTICS(NR_STATISTICS)

/* The scheduler's part of a task. Sleep, preemption and migration leave deadline and slice. */
struct task_ctx {
	/*
	 * Virtual deadline, nanoseconds on the clock: while the task runs, the run queue's copy,
	 * which is looked at; and the task's own, for its children
	 */
	u64 deadline;
	u64 own_deadline;
	/* Rest of the slice, nanoseconds; may be overdrawn */
	s64 time_slice;
	/* Time up to which a running task has been charged, or at which another one last ran */
	u64 last_ran;
	/* When it began to run, and when it last went through schedule() */
	u64 turn_began;
	u64 scheduled;
	/* Since when it waits */
	u64 waiting_since;
	/* List that it is or was on */
	s32 prio;
	/* CPU it ran on last */
	s32 cpu;
	/* The nice value that the deadline was computed for */
	s32 nice;
	bool running;
	/* Has lost the CPU and is about to be put back */
	bool descheduled;
	/* Is being started by fork */
	bool new;
	/* Is being woken synchronously: the waker is about to sleep */
	bool synchronous;
	/* Slept uninterruptibly: others may wait for its locks */
	bool uninterruptible;
};

DEFINE_TASK_DATA(struct task_ctx, task_ctx_map, task_ctx)

/* The kind of task on a CPU, as the count of isochronous ticks sees it */
enum cpu_use {
	USE_IDLE,
	/* Not idle and not ours: a real-time task */
	USE_REALTIME,
	USE_ISO,
	USE_OTHER,
};

/* The rest of struct rq, per CPU */
struct rq_data {
	/* enum cpu_use, and the time up to which its ticks have been counted */
	u32 use;
	u64 use_since;
	/* The last tick of the era: the first of the kernel's at or after a multiple of 1/hz */
	u64 last_tick;
	/* Has been through schedule() since it went idle */
	bool scheduled;
	/* Is to go through schedule() */
	bool need_resched;
};
DEFINE_PER_CPU(struct rq_data, rq)

/* Ticks of isochronous tasks on all CPUs together. */
static struct {
	struct bpf_spin_lock lock;
	u32 refractory;
	u64 ticks;
	/* Number of the last tick up to which idle CPUs have been counted */
	u64 idle_counted;
} iso SEC(".data.iso");

/* rr_interval for this number of CPUs */
static u32 scaled_rr_interval;
static u32 nr_cpus;

#include "earliest_deadline.h"

/* ---- Slices and deadlines -------------------------------------------------------------------- */

/* One slice for every nice value. */
static __always_inline s64 timeslice(void)
{
	return (s64)scaled_rr_interval * NSEC_PER_MSEC;
}

/* A deadline's distance in whole jiffies: the slice for the strongest, 10 % more per nice value. */
static __always_inline u64 prio_deadline_diff(s32 nice)
{
	u64 jiffies = (u64)prio_ratio(nice) * scaled_rr_interval * hz / (1000 * PRIO_RATIO_BASE);

	return (jiffies ?: 1) * tick_length();
}

/* The deadline of a slice that is given now. */
static __always_inline u64 deadline_from(s32 nice, u64 now)
{
	return tick_at(now) * tick_length() + prio_deadline_diff(nice);
}

/* A new slice, and with it a new deadline: nothing else renews either. */
static __always_inline void time_slice_expired(struct task_struct *p, struct task_ctx *data,
					       u64 now)
{
	data->nice = task_nice(p);
	data->time_slice = timeslice();
	data->deadline = deadline_from(data->nice, now);
	count(STAT_SLICES);
}

/* A task that leaves the CPU with its slice used up gets the next one. */
static __always_inline void check_deadline(struct task_struct *p, struct task_ctx *data, u64 now)
{
	if (data->time_slice <= 0)
		time_slice_expired(p, data, now);
}

/*
 * Charges the running task whole microseconds of real time. The first charge of a turn begins when
 * the task last ran, but a tick ago at most: a task that gets the CPU in the middle of a tick pays
 * all of the tick.
 */
static __always_inline void update_cpu_clock(struct task_ctx *data, u64 now)
{
	u64 used;

	if (!data->running)
		return;
	used = min(elapsed(data->last_ran, now),
		   max(elapsed(data->turn_began, now), tick_length()));
	data->time_slice -= used / NSEC_PER_USEC * NSEC_PER_USEC;
	data->last_ran = now;
}

/* A turn ends. */
static __always_inline void leave_cpu(struct task_ctx *data, u64 now)
{
	update_cpu_clock(data, now);
	data->running = false;
	data->scheduled = now;
}

/* Lets the task run until a tick finds its slice used up, independently of the kernel's slice. */
static __always_inline void set_rq_task(struct task_struct *p)
{
	scx_bpf_task_set_slice(p, KERNEL_SLICE);
}

/* ---- Classes --------------------------------------------------------------------------------- */

/* SCHED_ISO is an attribute here: Linux has no such policy. */
static __always_inline bool iso_task(struct task_struct *p)
{
	return p->policy != SCHED_IDLE && asks_for_isochronous(attributes_of(p));
}

/* An idle task that others may wait for does not count as one until it waits for the CPU again. */
static __always_inline bool idleprio_suitable(struct task_struct *p, const struct task_ctx *data)
{
	return !data->uninterruptible && !(p->flags & PF_EXITING) && !signal_is_pending(p);
}

/* The list that a task belongs to now. */
static __always_inline s32 effective_prio(struct task_struct *p, const struct task_ctx *data)
{
	if (p->policy == SCHED_IDLE)
		return idleprio_suitable(p, data) ? IDLE_PRIO : NORMAL_PRIO;
	if (iso_task(p) && !iso.refractory)
		return ISO_PRIO;
	return NORMAL_PRIO;
}

/* ---- CPUs ------------------------------------------------------------------------------------ */

/* How far two CPUs are from each other. */
static __always_inline s32 locality_diff(s32 cpu, s32 other)
{
	const volatile struct cpu_topology *place, *other_place;

	if (cpu == other)
		return LOCALITY_SHARED_CACHE;
	place = topology_of(cpu);
	other_place = topology_of(other);
	if (!place || !other_place)
		return LOCALITY_SHARED_CACHE;
	if (place->core == other_place->core || place->llc == other_place->llc)
		return LOCALITY_SHARED_CACHE;
	return place->node == other_place->node ? LOCALITY_SAME_NODE : LOCALITY_OTHER_NODE;
}

/* All CPUs of a span except @cpu itself are idle. */
static __always_inline bool others_idle(s32 cpu, u32 first, u32 number, const struct cpumask *idle)
{
	s32 position, other;

	for_each_cpu_in_span(other, position, first, number)
		if (other != cpu && !bpf_cpumask_test_cpu(other, idle))
			return false;
	return true;
}

/* Sum of the penalties of the idle CPU @cpu for a task that ran on @from. */
__noinline s32 idle_ranking(s32 cpu, s32 from)
{
	const struct cpumask *idle;
	const volatile struct cpu_topology *place = topology_of(cpu);
	s32 locality = locality_diff(from, cpu), ranking = 0;

	if (locality != LOCALITY_SHARED_CACHE)
		ranking |= CPUIDLE_DIFF_CPU;
	if (locality == LOCALITY_OTHER_NODE)
		ranking |= CPUIDLE_DIFF_NODE;
	if (place) {
		idle = scx_bpf_get_idle_cpumask();
		if (!others_idle(cpu, place->llc_cpus.first, place->llc_cpus.count, idle))
			ranking |= CPUIDLE_CACHE_BUSY;
		if (!others_idle(cpu, place->core_cpus.first, place->core_cpus.count, idle))
			ranking |= CPUIDLE_THREAD_BUSY;
		scx_bpf_put_idle_cpumask(idle);
	}
	return ranking;
}

/*
 * resched_task(). A kick that comes after the next schedule() of that CPU finds its flag cleared.
 */
static __always_inline void resched_cpu(s32 cpu, u64 flags)
{
	struct rq_data *rq = rq_of(cpu);

	if (rq)
		rq->need_resched = true;
	scx_bpf_kick_cpu(cpu, flags);
}

/*
 * The best idle CPU for @p but @except, seen from CPU @from: the one with the lowest ranking, the
 * first of equals from @from upwards. -1 if no CPU that @p may use is idle.
 */
__noinline s32 best_idle_cpu(struct task_struct *p __arg_trusted, s32 from, s32 except)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	u32 step, nr = scx_bpf_nr_cpu_ids();
	s32 best = -1, best_ranking = 1 << 30;

	bpf_for(step, 0, nr) {
		s32 cpu = ((u32)from + step) % nr, ranking;

		if (cpu == except || !bpf_cpumask_test_cpu(cpu, idle) ||
		    !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		ranking = idle_ranking(cpu, from);
		if (ranking < best_ranking) {
			best_ranking = ranking;
			best = unlinked(cpu);
		}
		if (ranking <= CPUIDLE_CACHE_BUSY)
			break;
	}
	scx_bpf_put_idle_cpumask(idle);
	return best;
}

/* Kicks that CPU; false if there is none. */
static __always_inline bool resched_best_idle(struct task_struct *p, s32 from, s32 except)
{
	s32 best = best_idle_cpu(p, from, except);

	if (best < 0)
		return false;
	resched_cpu(best, 0);
	return true;
}

/* ---- Isochronous tasks: 70 percent of all CPUs over five seconds ----------------------------- */

/* Five seconds of ticks of all CPUs */
static __always_inline u64 iso_period(void)
{
	return 5ULL * hz * nr_cpus + 1;
}

/* Ticks without isochronous tasks; each subtracts count / iso_period + 1, equal steps at once. */
static __always_inline void no_iso_ticks(u64 ticks)
{
	u64 period = iso_period();

	while (ticks && iso.ticks && can_loop) {
		u64 step = iso.ticks / period + 1;
		u64 steps = min(iso.ticks % period / step + 1, ticks);

		iso.ticks = steps * step < iso.ticks ? iso.ticks - steps * step : 0;
		ticks -= steps;
	}
	if (iso.refractory && iso.ticks / period < iso_cpu * 90 / 100)
		iso.refractory = 0;
}

/* Ticks at which one did. */
static __always_inline void iso_ticks(u64 ticks)
{
	u64 limit = 100 * iso_period(), room = iso.ticks < limit ? (limit - iso.ticks) / 100 : 0;

	iso.ticks += 100 * min(ticks, room);
}

/*
 * Counts the ticks that have hit a CPU; @use is the kind of task that occupies it from now on.
 * Ticks of idle CPUs are counted when the next task comes. True if the running isochronous task
 * must become an ordinary one.
 */
__noinline bool count_iso_ticks(s32 cpu, u32 use, u64 now)
{
	struct rq_data *rq = rq_of(cpu);
	const struct cpumask *idle;
	bool refractory_now = false;
	u64 ticks, nr_idle;
	u32 was;

	if (!rq)
		return false;
	was = rq->use;
	ticks = ticks_between(rq->use_since, now);
	rq->use = use;
	rq->use_since = now;

	/* Nothing has been counted, and there is nothing to count */
	if (!iso.ticks && (!ticks || was == USE_IDLE || was == USE_OTHER))
		return false;

	/* While a CPU switches, this mask still has its old state */
	idle = scx_bpf_get_idle_cpumask();
	nr_idle = bpf_cpumask_weight(idle);
	scx_bpf_put_idle_cpumask(idle);
	bpf_spin_lock(&iso.lock);
	if (idle_ticks) {
		u64 tick = tick_at(now);

		if (tick > iso.idle_counted) {
			no_iso_ticks((tick - iso.idle_counted) * nr_idle);
			iso.idle_counted = tick;
		}
	}
	if (was == USE_REALTIME || (was == USE_ISO && !iso.refractory))
		iso_ticks(ticks);
	else if (was == USE_ISO || was == USE_OTHER)
		no_iso_ticks(ticks);
	if (was == USE_ISO && !iso.refractory && iso.ticks / iso_period() > iso_cpu) {
		iso.refractory = 1;
		refractory_now = true;
	}
	bpf_spin_unlock(&iso.lock);
	if (refractory_now)
		count(STAT_ISO_REFRACTIONS);
	return refractory_now;
}

/* ---- Wake-up --------------------------------------------------------------------------------- */

/*
 * The time by which a distance moves a deadline of a task with this nice value: that many of its
 * distances from nice -20, taken for jiffies.
 */
static __always_inline u64 cache_distance(s32 locality, s32 nice)
{
	return locality * ((u64)scaled_rr_interval * prio_ratio(nice) / PRIO_RATIO_BASE) *
	       tick_length();
}

static __always_inline bool candidate_of(struct task_struct *p, s32 cpu, struct candidate *c)
{
	struct task_ctx *data = task_ctx_of(p);

	if (!data)
		return false;
	c->prio = data->prio;
	c->deadline = data->deadline;
	/* Later if it ran elsewhere */
	if (cpu != ANY_CPU)
		c->deadline += cache_distance(locality_diff(data->cpu, cpu), task_nice(p));
	return true;
}

/* Its deadline was before this jiffy. */
static __always_inline bool is_overdue(u64 deadline, u64 now)
{
	return time_before(deadline, tick_at(now) * tick_length());
}

/* The first overdue one is taken: it has waited longest. */
static __always_inline bool ends_scan(u32 list, const struct candidate *c, u64 now)
{
	return is_overdue(c->deadline, now);
}

static __always_inline bool is_worse(const struct candidate *a, const struct candidate *b)
{
	return goes_first(b, a);
}

/*
 * Of the CPUs that @p may use, the one that runs the worst task, whose deadline counts as earlier
 * where @p has not run; its own CPU among equals.
 */
__noinline s32 highest_prio_rq(struct task_struct *p __arg_trusted, s32 from,
			       struct candidate *worst)
{
	struct candidate c;
	s32 cpu, worst_cpu = -1;

	if (!worst)
		return -1;
	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || !running_on(cpu, p, &c))
			continue;
		c.deadline -= cache_distance(locality_diff(from, cpu), task_nice(p));
		if (worst_cpu >= 0 && !is_worse(&c, worst) && (cpu != from || is_worse(worst, &c)))
			continue;
		*worst = c;
		worst_cpu = unlinked(cpu);
	}
	return worst_cpu;
}

/*
 * Offers a waiting task to the CPU that runs the worst task, if that is worse: of an equal class
 * only ordinary tasks look at deadlines.
 */
static __always_inline void try_preempt(struct task_struct *p, const struct task_ctx *data)
{
	bool ordinary = p->policy == SCHED_NORMAL && !iso_task(p);
	struct candidate worst = {};
	s32 cpu = highest_prio_rq(p, data->cpu, &worst);

	if (cpu < 0 || data->prio > worst.prio)
		return;
	if (data->prio == worst.prio &&
	    (ordinary ? !time_before(data->deadline, worst.deadline) : nr_cpus == 1))
		return;
	count(STAT_PREEMPTIONS);
	resched_cpu(cpu, SCX_KICK_PREEMPT);
}

/* The kernel wakes the CPU returned here if idle; whichever comes first may take the task. */
s32 BPF_STRUCT_OPS(bfs_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task_ctx *data = task_ctx_of(p);
	s32 cpu;

	if (!data)
		return prev_cpu;
	data->synchronous = wake_flags & SCX_WAKE_SYNC;
	cpu = best_idle_cpu(p, data->cpu, -1);
	return cpu < 0 ? prev_cpu : cpu;
}

void BPF_STRUCT_OPS(bfs_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *data = task_ctx_of(p);
	u64 now = scx_bpf_now();

	if (!data || !(deq_flags & SCX_DEQ_SLEEP))
		return;
	leave_cpu(data, now);
	data->uninterruptible = (p->__state & TASK_UNINTERRUPTIBLE) && !(p->__state & TASK_NOLOAD);
	/* schedule() looks at the slice of a task that goes to sleep as well */
	check_deadline(p, data, now);
}

/* Not a thread of one. */
static __always_inline bool is_process(const struct task_struct *p)
{
	return p->pid == p->tgid;
}

/* A task waits: it was woken, forked or changed, or has lost its CPU. */
void BPF_STRUCT_OPS(bfs_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *data = expected_task_ctx(p);
	s32 this_cpu = bpf_get_smp_processor_id();
	u64 now = scx_bpf_now();
	bool descheduled, synchronous, new;

	if (!data)
		return;
	descheduled = data->descheduled;
	synchronous = data->synchronous && (enq_flags & SCX_ENQ_WAKEUP);
	new = data->new;
	/* A task that must leave its CPU is queued again when the kernel has moved it */
	data->descheduled = descheduled && !bpf_cpumask_test_cpu(data->cpu, p->cpus_ptr);
	data->synchronous = data->new = data->running = false;

	if (descheduled)
		check_deadline(p, data, now);
	data->prio = effective_prio(p, data);
	data->uninterruptible = false;
	data->waiting_since = now;
	scx_bpf_dsq_insert_vtime(p, RUNQ, KERNEL_SLICE, data->prio, 0);

	if (descheduled && !offer_waiting && bpf_cpumask_test_cpu(data->cpu, p->cpus_ptr))
		return;
	if (resched_best_idle(p, data->cpu, -1) || descheduled)
		return;
	/*
	 * The parent of a process gives way: their deadlines are equal, and the child is queued
	 * first. A thread's parent is a different task.
	 */
	if (new && is_process(p) && scx_bpf_task_cpu(p) == this_cpu) {
		resched_cpu(this_cpu, SCX_KICK_PREEMPT);
		return;
	}
	/* A synchronous waker soon leaves its CPU; unless another is idle, that is early enough */
	if (!synchronous)
		try_preempt(p, data);
}

/* ---- schedule() ------------------------------------------------------------------------------ */

/*
 * CPUs are idle although tasks wait: several tasks that woke at once have kicked the same CPU. BFS
 * leaves them to the next interrupt or kernel thread there; here the next CPU that goes through
 * schedule() offers the first task that may use an idle CPU. It counts as idle itself until it has
 * switched.
 */
__noinline int wake_idle_cpus(s32 cpu)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool others_idle = !bpf_cpumask_empty(idle) &&
			   (!bpf_cpumask_test_cpu(cpu, idle) || bpf_cpumask_weight(idle) > 1);
	struct task_struct *p;

	scx_bpf_put_idle_cpumask(idle);
	if (!others_idle)
		return 0;
	bpf_for_each(scx_dsq, p, RUNQ, 0) {
		struct task_ctx *data = task_ctx_of(p);

		if (data && resched_best_idle(p, data->cpu, cpu))
			break;
	}
	return 0;
}

/* What a task that could go on competes with: it counts as if it had been put back. */
static __always_inline u64 deadline_of_prev(struct task_struct *p, struct task_ctx *data, u64 now)
{
	update_cpu_clock(data, now);
	data->scheduled = now;
	data->own_deadline = data->time_slice > 0 ? data->deadline :
						    deadline_from(task_nice(p), now);
	return data->own_deadline;
}

/*
 * The same if a kick comes late, after schedule() has answered it with this task: only a better one
 * that was queued since goes before it.
 */
static __always_inline u64 deadline_of_chosen(const struct task_ctx *data, u64 now)
{
	return is_overdue(data->deadline, now) ? 0 : data->deadline - 1;
}

/*
 * schedule(): the best class that has a waiting task, and in it the earliest deadline. Overdue
 * tasks are not told apart at time 0.
 */
void BPF_STRUCT_OPS(bfs_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_ctx *prev_data = NULL;
	struct rq_data *rq = rq_of(cpu);
	s32 prev_prio = PRIO_LIMIT;
	u64 now = scx_bpf_now(), scan_time = now, prev_deadline = 0;
	bool asked;

	if (!rq)
		return;
	count(STAT_SCHEDULES);
	asked = rq->need_resched;
	rq->scheduled = true;
	rq->need_resched = false;
	if (prev && can_go_on(prev, cpu))
		prev_data = task_ctx_of(prev);
	if (prev && prev_data) {
		prev_prio = effective_prio(prev, prev_data);
		prev_deadline = asked ? deadline_of_prev(prev, prev_data, now) :
					deadline_of_chosen(prev_data, now);
		scan_time = asked ? now : 0;
	}
	if (rescue_starved(now))
		return;

	/*
	 * It goes on, even with its slice used up: then it is asked again at every tick, each time
	 * with a later deadline
	 */
	if (!earliest_deadline_task(cpu, prev_prio, prev_deadline, scan_time) && prev && prev_data)
		set_rq_task(prev);
	if (offer_waiting && nr_cpus > 1)
		wake_idle_cpus(cpu);
}

/* A task counts as isochronous by its policy, whether or not its share is used up. */
static __always_inline u32 use_by(struct task_struct *p)
{
	return iso_task(p) ? USE_ISO : USE_OTHER;
}

void BPF_STRUCT_OPS(bfs_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_ctx *data = task_ctx_of(p);
	struct rq_data *rq = rq_of(cpu);
	u64 now = scx_bpf_now();

	if (!data || !rq)
		return;
	data->descheduled = false;
	/* A task that has changed while it ran goes on */
	if (!data->running) {
		data->cpu = cpu;
		data->running = true;
		data->turn_began = now;
		data->own_deadline = data->deadline;
	}
	count_iso_ticks(cpu, use_by(p), now);
	set_rq_task(p);
}

void BPF_STRUCT_OPS(bfs_tick, struct task_struct *p)
{
	struct task_ctx *data = task_ctx_of(p);
	struct rq_data *rq = rq_of(scx_bpf_task_cpu(p));
	u64 now = scx_bpf_now();

	if (!data || !rq)
		return;
	update_cpu_clock(data, now);
	/* The share is used up: the task goes on as an ordinary one, after the others */
	if (count_iso_ticks(scx_bpf_task_cpu(p), use_by(p), now) ||
	    (data->prio == ISO_PRIO && iso.refractory && iso_task(p)))
		data->time_slice = 0;
	/* The kernel's ticks may come more often than those of the era */
	if (!ticks_between(rq->last_tick, now))
		return;
	rq->last_tick = now;
	/* task_running_tick() */
	if (data->time_slice > 0)
		return;
	rq->need_resched = true;
	scx_bpf_task_set_slice(p, 0);
}

void BPF_STRUCT_OPS(bfs_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *data = task_ctx_of(p);
	u64 now = scx_bpf_now();

	if (!data)
		return;
	data->descheduled = runnable;
	/* The next task is one of ours, the idle task, or else a real-time task */
	count_iso_ticks(scx_bpf_task_cpu(p), USE_REALTIME, now);
	/* Else it sleeps, or changes: ops.quiescent() tells */
	if (!runnable)
		return;
	leave_cpu(data, now);
	/* Whether displaced by a real-time task or not, it waits where all tasks wait */
	scx_bpf_task_set_slice(p, 0);
}

/*
 * A CPU that goes idle has found nothing, but another CPU may have queued a task since, while it
 * still saw this one busy. BFS does both under one lock; here the CPU looks again. One that leaves
 * idling for a real-time task goes through BFS's schedule() as well, but not through
 * ops.dispatch(): the tasks that had chosen it are offered to another one here.
 */
void BPF_STRUCT_OPS(bfs_update_idle, s32 cpu, bool idle)
{
	struct rq_data *rq = rq_of(cpu);
	bool scheduled;

	count_iso_ticks(cpu, idle ? USE_IDLE : USE_REALTIME, scx_bpf_now());
	if (!rq)
		return;
	scheduled = rq->scheduled;
	if (idle)
		rq->scheduled = false;
	if (scx_bpf_dsq_nr_queued(RUNQ) <= 0)
		return;
	if (idle)
		scx_bpf_kick_cpu(cpu, 0);
	else if (!scheduled && offer_waiting && nr_cpus > 1)
		wake_idle_cpus(cpu);
}

/* Comes from another class: what ops.stopping() left open has ended. */
void BPF_STRUCT_OPS(bfs_enable, struct task_struct *p)
{
	struct task_ctx *data = task_ctx_of(p);

	if (data)
		data->running = false;
}

/* ---- Yield, nice, fork, exit ----------------------------------------------------------------- */

/* Adds the rest of another task's slice to a slice, up to the length of a new one. */
static __always_inline void lengthen_slice(struct task_ctx *data, s64 left)
{
	data->time_slice += left;
	if (data->time_slice > timeslice())
		data->time_slice = timeslice();
}

/*
 * sched_yield(): the task is put back as it is, and goes on at once if its deadline is the
 * earliest. yield_to(): the other one gets the earlier of both deadlines and the rest of the slice.
 */
bool BPF_STRUCT_OPS(bfs_yield, struct task_struct *from, struct task_struct *to)
{
	struct task_ctx *data = task_ctx_of(from), *to_data;
	struct rq_data *rq = rq_of(scx_bpf_task_cpu(from));
	u64 now = scx_bpf_now();

	if (!data || !rq)
		return false;
	count(STAT_YIELDS);
	rq->need_resched = true;
	update_cpu_clock(data, now);
	scx_bpf_task_set_slice(from, 0);
	if (!to)
		return false;
	to_data = task_ctx_of(to);
	if (!to_data)
		return false;
	if (data->deadline < to_data->deadline)
		to_data->deadline = data->deadline;
	if (data->time_slice > 0)
		lengthen_slice(to_data, data->time_slice);
	data->time_slice = 0;
	return true;
}

/*
 * set_user_nice(): the deadline of a waiting task moves at once by the difference of the distances.
 * A running task that gets worse has to compete, but with its old deadline: the run queue's copy
 * overwrites the new one.
 */
void BPF_STRUCT_OPS(bfs_set_weight, struct task_struct *p, u32 weight)
{
	struct task_ctx *data = task_ctx_of(p);
	s32 nice = task_nice(p);

	if (!data || data->nice == nice)
		return;
	if (!scx_bpf_task_running(p))
		data->deadline += prio_deadline_diff(nice) - prio_deadline_diff(data->nice);
	else
		data->own_deadline += prio_deadline_diff(nice) - prio_deadline_diff(data->nice);
	if (scx_bpf_task_running(p) && nice > data->nice)
		resched_cpu(data->cpu, SCX_KICK_PREEMPT);
	data->nice = nice;
}

/*
 * sched_fork(): parent and child share what the last charge left of the slice, and have the same
 * deadline. Tasks older than this scheduler start with a full slice.
 */
s32 BPF_STRUCT_OPS(bfs_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task_ctx *data, *parent_data;
	u64 now = scx_bpf_now();

	data = new_task_ctx(p);
	if (!data)
		return -ENOMEM;
	data->prio = NORMAL_PRIO;
	data->cpu = scx_bpf_task_cpu(p);
	data->waiting_since = now;
	data->last_ran = now - tick_length();
	time_slice_expired(p, data, now);
	if (!args->fork)
		return 0;

	data->new = true;
	parent_data = task_ctx_of(parent);
	if (!parent_data || !parent_data->running || parent->prio < MAX_RT_PRIO)
		return 0;
	data->cpu = parent_data->cpu;
	data->last_ran = parent_data->scheduled;
	data->deadline = parent_data->own_deadline;
	data->nice = parent_data->nice;
	if (parent_data->time_slice > 0)
		parent_data->time_slice = parent_data->time_slice / 2 / NSEC_PER_USEC *
					  NSEC_PER_USEC;
	data->time_slice = parent_data->time_slice;
	return 0;
}

/* More CPUs, longer slices: half as long again with each doubling, in whole ms at the end. */
static __always_inline u32 scale_rr_interval(u32 cpus)
{
	u32 rr = rr_interval * 100;

	for (; cpus > 1 && can_loop; cpus >>= 1)
		rr = rr * 3 / 2;
	return rr / 100;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(bfs_init)
{
	nr_cpus = count_online_cpus();
	scaled_rr_interval = scale_rr_interval(nr_cpus);
	fill_prio_ratios(PRIO_RATIO_BASE);
	return scx_bpf_create_dsq(RUNQ, NUMA_NO_NODE);
}

DEFINE_SCHEDULER(bfs,
	CALLBACKS_OF(bfs, select_cpu, enqueue, dispatch, tick, running, stopping, quiescent, yield,
		     set_weight, update_idle, enable, init_task, init)
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.name = "bfs");
