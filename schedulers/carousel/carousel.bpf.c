// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * carousel - earliest virtual deadline first, with one virtual time for all CPUs
 *
 * A task has a virtual runtime, CPU time divided by weight, which is comparable on all CPUs, and a
 * deadline: where that will be when its present slice is served. Each CPU has a queue ordered by
 * deadline. There is no balancer: before a CPU takes its own first task it looks at others' queues,
 * and takes one from there that is behind by more than a bound. So shares are equal across CPUs,
 * and a task moves only where that makes them so. An idle CPU takes any task.
 */
#include "fairground.bpf.h"

/* Weights have ten fraction bits, since groups make them small */
#define LOAD_SCALE 1024ULL
#define NICE_0_LOAD (NICE_0_WEIGHT * LOAD_SCALE)

#include "starvation.h"
#include "topology.h"
#include "virtual_runtime.h"

/* What a task gets at a time */
const volatile u64 slice = 700 * NSEC_PER_USEC;
/* How far behind virtual time a task that wakes may be: what it did not use is lost beyond that */
const volatile u64 credit = 6 * NSEC_PER_MSEC;
/* A CPU takes a task of another one that is due earlier by this */
const volatile u64 bound = 4 * NSEC_PER_MSEC;
/* Work that pays for a switch, and that a task which wakes has before others */
const volatile u64 protection = 100 * NSEC_PER_USEC;

/* A task may be so far ahead of others; and who wakes is put forward by less */
#define FARTHEST (3 * bound)
#define LEAD (2 * bound)

/* In the order of scheduler.toml */
enum statistic {
	STAT_PREEMPTIONS, STAT_TAKEN, STAT_TAKEN_IDLE, STAT_ALARMS, STAT_RESCUED, NR_STATISTICS,
};

DEFINE_STATISTICS(NR_STATISTICS)

/* ---- Tasks and CPUs -------------------------------------------------------------------------- */

struct task_ctx {
	u64 vruntime;
	/* Charged up to then, while it runs; and since when it waits, or 0 before it ever has */
	u64 since, waiting_since;
	/* CPU time since it woke, how long that usually is, and what is left of its slice */
	u64 burst, usual_burst, rest;
	/* Among all tasks, by its nice value, its groups and the speed of its CPU */
	u64 weight;
	/* Its control group, and with which weight it counts as runnable there */
	u32 group;
	u64 counted;
	/* The group without runtime that keeps it from running, and the CPU on which it is held */
	u32 held_by;
	s32 held_on;
	/* The CPU in whose queue it counts, and the faster one to which it goes; plus one, or 0 */
	u32 queued_on, goes_to;
	/* It has just lost its CPU to another task; and its waker has said that it will sleep */
	bool yielded, put_back, synchronous;
};

DEFINE_TASK_DATA(struct task_ctx, task_ctx_map, task_ctx)

#define MAX_CPUS 4096
/* CPUs that share a cache; a cache of more has several groups */
#define GROUP_SIZE 64

struct run_queue {
	struct bpf_timer timer;
	/* When that fires, or 0 */
	u64 alarm_at;
	/* Virtual time: that of the latest task to run; does not go back while tasks wait */
	u64 vtime;
	/* The running task, whose weight is 0 if it is none of ours; and how many wait */
	u64 curr_vruntime, curr_deadline, curr_weight, since, started, leads_until;
	u32 queued, capacity, turns;
	u64 rescue_at, looked;
	/* It has been asked to give way to the first that waits; and tasks held may come back */
	bool gives_way, releases;
	/* In the order of topology.h: the CPU itself, and its group */
	u16 position, first, count;
	/* Of a group's first CPU: the CPUs of the group on which tasks wait, a bit for each */
	u64 waiting __attribute__((aligned(64)));
};

DEFINE_ARRAY(ARRAY, run_queues, MAX_CPUS, struct run_queue)

static __always_inline struct run_queue *run_queue_of(u32 cpu)
{
	return bpf_map_lookup_elem(&run_queues, &cpu);
}

/* The latest virtual time of a CPU on which tasks wait; a millisecond late, so seldom written */
static u64 machine_vtime __attribute__((aligned(64)));
static u32 nr_cpus, nr_cache_groups;

static __always_inline u64 waits_since(const struct task_ctx *t)
{
	return t->waiting_since;
}

#include "starving_queue.h"
#include "groups.h"
#include "quotas.h"

/* Virtual time of a task of this weight; of a light one, for which it goes fast, no more of it. */
static __always_inline u64 at_most(u64 time, u64 weight)
{
	return min(time, calc_delta_fair(time, weight));
}

/*
 * The place of a task among others: its deadline. The slice of a light task is long in virtual
 * time, but in a group whose tasks come and go it may be light for a moment only; so it is never
 * more than a slice of time. First work is put forward.
 */
static __always_inline u64 due(const struct task_ctx *t)
{
	u64 deadline = t->vruntime + at_most(slice, t->weight);

	return t->burst < protection ? deadline - at_most(LEAD, t->weight) : deadline;
}

/* Returns the task's part of what its groups may still use. */
static __always_inline s64 charge(struct task_ctx *t, u64 now)
{
	u64 time = elapsed(t->since, now);

	t->since = now;
	t->burst += time;
	t->rest -= min(t->rest, time);
	t->vruntime += calc_delta_fair(time, t->weight);
	return nr_quotas && t->group ? use_runtime(t->group, time, now) : NO_LIMIT;
}

static __always_inline u64 near(u64 base, u64 vruntime, u64 behind, u64 ahead)
{
	vruntime = max_vruntime(vruntime, base - behind);
	return time_before(vruntime, base + ahead) ? vruntime : base + ahead;
}

/* The task is runnable on the CPU: its weight, and its place among those there, or if alone all. */
static __always_inline void settle(const struct run_queue *rq, struct task_ctx *t,
				   const struct task_struct *p, bool comes)
{
	u64 base = rq->curr_weight || rq->queued ? rq->vtime : machine_vtime, ahead, behind;
	u64 weight = (p->policy == SCHED_IDLE ? 3 : weight_of_nice(task_nice(p))) * LOAD_SCALE;

	count_in_group(t, weight);
	if (t->group)
		weight = weight_in_groups(t->group, weight);
	/* On a slow CPU it is so much heavier: its virtual time is work, not time */
	t->weight = weight * SCHED_CAPACITY_SCALE / rq->capacity;
	ahead = calc_delta_fair(FARTHEST, t->weight);
	behind = comes ? at_most(credit, t->weight) : ahead;
	t->vruntime = near(base, t->vruntime, behind, ahead);
}

/* The alarm: the end of a turn that does not wait for the tick */
static int alarm_fires(void *map, u32 *cpu, struct run_queue *rq)
{
	rq->alarm_at = 0;
	if (rq->curr_weight) {
		count(STAT_ALARMS);
		scx_bpf_kick_cpu(*cpu, SCX_KICK_PREEMPT);
	}
	return 0;
}

/* The CPU chooses again after @time at the latest: a tick would be late. */
static __always_inline void set_alarm(struct run_queue *rq, u64 time, u64 now)
{
	if (!is_within(rq->alarm_at, now + 1, now + time + 1))
		rq->alarm_at = bpf_timer_start(&rq->timer, time, 0) ? 0 : now + time;
}

/* ---- Queues ---------------------------------------------------------------------------------- */

/* Tasks wait on the CPU now, or no longer; another CPU may queue one meanwhile. */
static __always_inline void note_waiting(const struct run_queue *rq)
{
	struct run_queue *group = run_queue_of(cpu_at(rq->first));
	u64 bit = 1ULL << ((rq->position - rq->first) & (GROUP_SIZE - 1));

	if (group && !rq->queued)
		__sync_fetch_and_and(&group->waiting, ~bit);
	if (group && rq->queued)
		__sync_fetch_and_or(&group->waiting, bit);
}

static __always_inline void leave_queue(struct task_ctx *t)
{
	struct run_queue *rq = t->queued_on ? run_queue_of(t->queued_on - 1) : NULL;

	t->queued_on = 0;
	if (rq && __sync_fetch_and_add(&rq->queued, -1) == 1)
		note_waiting(rq);
}

static __always_inline void join_queue(struct task_ctx *t, struct run_queue *rq, s32 cpu)
{
	leave_queue(t);
	t->rest = slice;
	t->queued_on = cpu + 1;
	if (!__sync_fetch_and_add(&rq->queued, 1))
		note_waiting(rq);
}

/* Takes the first task that may run on @cpu from the queue of @from, if it is before @before. */
__noinline bool take(s32 cpu, s32 from, u64 before, bool any)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, from, 0) {
		if (!any && !time_before(p->scx.dsq_vtime, before))
			break;
		if (task_allowed(p, cpu) && scx_bpf_dsq_move(DSQ_ITERATOR, p, SCX_DSQ_LOCAL, 0)) {
			count(any ? STAT_TAKEN_IDLE : STAT_TAKEN);
			return true;
		}
	}
	return false;
}

static __always_inline bool first_is_before(const struct run_queue *rq, s32 cpu, u64 before)
{
	struct task_struct *first = rq->queued ? scx_bpf_dsq_peek(cpu) : NULL;

	return first && time_before(first->scx.dsq_vtime, before);
}

/*
 * Takes a task from the CPUs of the group that begins at @base: the first one found that is before
 * @before, or with @any any, as where a real-time task runs.
 */
__noinline bool take_from_group(s32 cpu, u32 base, u64 before, bool any)
{
	struct run_queue *rq = run_queue_of(cpu), *group = run_queue_of(cpu_at(base)), *other;
	u32 step, turn;
	bool stuck;
	s32 from;
	u64 mask;

	if (!rq || !group)
		return false;
	/* Turned, so that the search begins with the next CPU; this one itself does not count */
	turn = (rq->position - rq->first) & (GROUP_SIZE - 1);
	mask = group->waiting >> turn | group->waiting << (-turn & (GROUP_SIZE - 1));
	if (base == rq->first)
		mask &= ~1ULL;
	bpf_for(step, 0, GROUP_SIZE) {
		if (!mask)
			break;
		from = cpu_at(base + ((__builtin_ctzll(mask) + turn) & (GROUP_SIZE - 1)));
		mask &= mask - 1;
		other = run_queue_of(from);
		/* Under a real-time task nobody's virtual time goes on, so it tells nothing */
		stuck = higher_class_runs(from);
		if (!other || (!any && !stuck && !first_is_before(other, from, before)))
			continue;
		/* It is about to run its only task */
		if ((!other->curr_weight || other->gives_way) && other->queued == 1 && !stuck)
			continue;
		if (take(cpu, from, before, any || stuck))
			return true;
	}
	return false;
}

/*
 * Takes a task from another CPU that is due before @best, the first here, by more than the bound;
 * with @any any task, near ones first. A CPU with work looks at its group and at another in turn.
 */
__noinline bool take_from_others(s32 cpu, u64 best, bool any)
{
	struct run_queue *rq = run_queue_of(cpu), *group = rq;
	u32 i, first = rq ? rq->first : 0, turn = 0;

	if (rq && !any && nr_cache_groups > 1)
		turn = 1 + rq->turns++ % (nr_cache_groups - 1);
	bpf_for(i, 0, nr_cache_groups) {
		if (group && (!i || !turn || i == turn) &&
		    take_from_group(cpu, first, best - bound, any))
			return true;
		group = run_queue_of(cpu_at(first));
		first = group ? (first + group->count) % nr_cpus : 0;
	}
	return false;
}

int release_held(s32 cpu, u64 now)
{
	struct run_queue *rq = run_queue_of(cpu);
	struct task_struct *p;
	struct task_ctx *t;

	if (!rq)
		return 0;
	rq->releases = false;
	bpf_rcu_read_lock();
	for_each_queued(p, t, throttled_dsq(cpu), 0) {
		end_hold(t, now);
		if (hold(t, cpu, now))
			continue;
		settle(rq, t, p, true);
		join_queue(t, rq, cpu);
		scx_bpf_dsq_move_set_vtime(DSQ_ITERATOR, due(t));
		scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p, cpu, 0);
		wake_idle_cpu(p);
	}
	bpf_rcu_read_unlock();
	return 0;
}

/* ---- Waking ---------------------------------------------------------------------------------- */

/*
 * The deadline of the CPU's running task, or where it is beyond that, if it gives way to this one,
 * which would be the first there: one of the two pays for the switch. Otherwise 0.
 */
__noinline u64 beaten_deadline(s32 cpu, const struct task_ctx *t __arg_nonnull, u64 now)
{
	struct run_queue *rq = run_queue_of(cpu);
	u64 theirs;

	if (!rq || !rq->curr_weight || rq->gives_way || (t->usual_burst < protection &&
	    (t->synchronous || elapsed(rq->started, now) < protection)))
		return 0;
	theirs = max_vruntime(rq->curr_deadline, rq->curr_vruntime +
			      calc_delta_fair(elapsed(rq->since, now), rq->curr_weight));
	if (time_before(now, rq->leads_until))
		theirs -= at_most(LEAD, rq->curr_weight);
	return time_before(due(t), theirs) && !first_is_before(rq, cpu, due(t) + 1) ? theirs : 0;
}

/*
 * For a task that wakes, the CPU near @from whose task has the latest deadline after @latest and
 * gives way to this one; if there is none, the one on which fewest wait. For one that runs and has
 * a slow CPU it is a faster one; idle ones, which are taken, come first; or -1.
 */
__noinline s32 best_cpu(struct task_struct *p __arg_trusted, s32 from, u64 latest, bool runs)
{
	struct run_queue *own = run_queue_of(from), *rq;
	struct task_ctx *t = task_ctx_of(p);
	s32 best = -1, emptiest = runs ? -1 : from, cpu;
	u64 now = scx_bpf_now(), theirs;
	u32 i, least, first, count;

	if (!own || !t)
		return emptiest;
	least = runs ? 0 : own->queued;
	first = runs ? 0 : own->first;
	count = runs ? nr_cpus : own->count;
	bpf_for(i, 0, min(count, runs ? GROUP_SIZE : GROUP_SIZE / 4)) {
		cpu = cpu_at(first + (own->position - first + i) % count);
		rq = run_queue_of(cpu);
		if (!rq || !task_allowed(p, cpu) || (runs && rq->capacity <= own->capacity))
			continue;
		if (runs && scx_bpf_test_and_clear_cpu_idle(cpu))
			return cpu;
		if (rq->queued < least) {
			least = rq->queued;
			emptiest = unlinked(cpu);
		}
		theirs = runs && t->burst < 2 * slice ? 0 : beaten_deadline(cpu, t, now);
		if (theirs && time_before(latest, theirs)) {
			latest = theirs;
			best = unlinked(cpu);
		}
	}
	return best >= 0 ? best : emptiest;
}

s32 BPF_STRUCT_OPS(carousel_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id(), idle;
	struct task_ctx *t = task_ctx_of(p), *waker = task_ctx_of(bpf_get_current_task_btf());
	struct run_queue *this_rq = run_queue_of(this_cpu), *rq = run_queue_of(prev_cpu);

	if (!t || !this_rq || !rq)
		return prev_cpu;
	t->synchronous = wake_flags & SCX_WAKE_SYNC;
	/* The waker's bursts are short: it is about to sleep */
	if (t->synchronous && !this_rq->queued && bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr) &&
	    waker && waker->usual_burst < protection)
		return this_cpu;
	idle = scx_bpf_select_cpu_and(p, prev_cpu, wake_flags & ~SCX_WAKE_SYNC, p->cpus_ptr, 0);
	if (idle >= 0)
		return idle;

	t->burst = 0;
	settle(rq, t, p, true);
	/* Little work does not pay for a migration if it need not wait here */
	if (t->usual_burst < protection && beaten_deadline(prev_cpu, t, scx_bpf_now()))
		return prev_cpu;
	return best_cpu(p, prev_cpu, due(t), false);
}

/* Wakes an idle CPU for the first waiting task that may move to one; false if all must stay. */
__noinline bool offer_waiting(s32 cpu)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool none_idle = bpf_cpumask_empty(idle);
	struct task_struct *p;

	scx_bpf_put_idle_cpumask(idle);
	if (none_idle)
		return true;
	bpf_for_each(scx_dsq, p, cpu, 0)
		if (wake_idle_cpu(p))
			return true;
	return false;
}

void BPF_STRUCT_OPS(carousel_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = task_ctx_of(p);
	s32 cpu = t && t->goes_to ? t->goes_to - 1 : scx_bpf_task_cpu(p);
	struct run_queue *rq = run_queue_of(cpu);
	bool comes, put_back, behind;
	u64 now = scx_bpf_now();

	if (!t || !rq) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return;
	}
	comes = !t->waiting_since || (enq_flags & SCX_ENQ_WAKEUP);
	put_back = t->put_back && !t->goes_to;
	t->put_back = false;
	t->goes_to = 0;
	t->waiting_since = now;
	t->burst = comes ? 0 : t->burst;
	end_hold(t, now);
	if (is_limited(p, t) && hold(t, scx_bpf_task_cpu(p), now)) {
		leave_queue(t);
		count_in_group(t, 0);
		scx_bpf_dsq_insert(p, throttled_dsq(t->held_on), slice, enq_flags);
		return;
	}
	/* An idle CPU's time is of long ago; those that come next are to compete with this one */
	if (!rq->curr_weight && !rq->queued)
		rq->vtime = machine_vtime;
	settle(rq, t, p, comes);
	join_queue(t, rq, cpu);
	scx_bpf_dsq_insert_vtime(p, cpu, slice, due(t), enq_flags);

	if (put_back) {
		if (!wake_idle_cpu(p))
			offer_waiting(cpu);
	} else if (!rq->curr_weight) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		if (higher_class_runs(cpu))
			wake_idle_cpu(p);
	} else if (p->policy != SCHED_BATCH && p->policy != SCHED_IDLE &&
		   beaten_deadline(cpu, t, now)) {
		count(STAT_PREEMPTIONS);
		rq->gives_way = true;
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	} else {
		/* Who is behind waits until the switch is paid for, others for the end of a turn */
		behind = time_before(t->vruntime + bound, rq->curr_vruntime);
		if (comes && !t->synchronous)
			set_alarm(rq, behind ? protection : slice, now);
		wake_idle_cpu(p);
	}
}

/* ---- Choosing -------------------------------------------------------------------------------- */

/* The task runs until its slice is served. */
static __always_inline void run(struct task_struct *p, struct task_ctx *t,
				struct run_queue *rq, u64 now)
{
	s64 rest = t->rest;

	t->yielded = false;
	rq->curr_vruntime = t->vruntime;
	rq->curr_deadline = t->vruntime + calc_delta_fair(rest, t->weight);
	rq->since = now;
	rq->leads_until = now + protection - min(protection, t->burst);
	rq->curr_weight = t->weight;
	rq->gives_way = false;
	rq->vtime = rq->queued ? max_vruntime(rq->vtime, t->vruntime) : t->vruntime;
	/* Who is alone on a slow CPU, and may leave it, waits for a faster one */
	if ((rq->queued || (rq->capacity < SCHED_CAPACITY_SCALE && p->nr_cpus_allowed > 1)) &&
	    time_before(machine_vtime + NSEC_PER_MSEC, rq->vtime))
		machine_vtime = rq->vtime;
	if (rq->queued)
		set_alarm(rq, slice, now);
	if (is_limited(p, t)) {
		rest = lesser(rest, use_runtime(t->group, 0, now));
		if (rest <= 0)
			scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
	}
	scx_bpf_task_set_slice(p, clamp(rest, 1, slice));
}

void BPF_STRUCT_OPS(carousel_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_ctx *t = prev && can_go_on(prev, cpu) ? task_ctx_of(prev) : NULL;
	struct task_struct *first = NULL;
	struct run_queue *rq = run_queue_of(cpu);
	u64 now = scx_bpf_now(), best;
	bool looks;

	if (!rq)
		return;
	if (rq->releases)
		release_held(cpu, now);
	if (t && prev && charge(t, now) <= 0 && is_limited(prev, t))
		t = NULL;
	/* Alone, it stays near all others: what nobody else wanted is no debt */
	if (t && !rq->queued)
		t->vruntime = near(machine_vtime, t->vruntime, FARTHEST, FARTHEST);
	best = t ? due(t) : 0;
	looks = elapsed(rq->looked, now) >= protection;
	if (rq->queued) {
		if (starvation_check_is_due(&rq->rescue_at, now) && rescue_from_queue(cpu, 0, 0)) {
			count(STAT_RESCUED);
			return;
		}
		/* There is nothing to compare the first with */
		if (!t && !looks && scx_bpf_dsq_move_to_local(cpu, 0))
			return;
		first = scx_bpf_dsq_peek(cpu);
		if (first && t && !t->yielded && !time_before(first->scx.dsq_vtime, best))
			first = NULL;
		if (first)
			best = first->scx.dsq_vtime;
	}
	if (looks || (!t && !first)) {
		rq->looked = now;
		if (nr_cpus > 1 && take_from_others(cpu, best, !t && !first))
			return;
	}
	if (first && scx_bpf_dsq_move_to_local(cpu, 0))
		return;
	if (!t || !prev)
		return;
	/* Alone on a slow CPU, it goes to a faster one, if need be in place of who is far ahead */
	if (!rq->queued && rq->capacity < SCHED_CAPACITY_SCALE)
		t->goes_to = best_cpu(prev, cpu, due(t) + FARTHEST, true) + 1;
	if (t->goes_to)
		return;
	/* If all that wait must stay, it is the one to move */
	if (rq->queued && nr_cpus > 1 && !offer_waiting(cpu) && wake_idle_cpu(prev) &&
	    scx_bpf_dsq_move_to_local(cpu, 0))
		return;
	t->rest = slice;
	run(prev, t, rq, now);
}

void BPF_STRUCT_OPS(carousel_running, struct task_struct *p)
{
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(p));
	struct task_ctx *t = task_ctx_of(p);
	u64 now = scx_bpf_now();

	if (!t || !rq)
		return;
	leave_queue(t);
	t->since = now;
	rq->started = now;
	settle(rq, t, p, false);
	run(p, t, rq, now);
}

void BPF_STRUCT_OPS(carousel_stopping, struct task_struct *p, bool runnable)
{
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(p));
	struct task_ctx *t = task_ctx_of(p);

	if (!t || !rq)
		return;
	charge(t, scx_bpf_now());
	rq->curr_weight = 0;
	t->put_back = runnable;
	t->synchronous = false;
	if (runnable) {
		hand_back(p);
		return;
	}
	count_in_group(t, 0);
	t->usual_burst = (3 * t->usual_burst + t->burst) / 4;
}

bool BPF_STRUCT_OPS(carousel_yield, struct task_struct *from, struct task_struct *to)
{
	struct task_ctx *t = task_ctx_of(from);

	if (t)
		t->yielded = true;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

void BPF_STRUCT_OPS(carousel_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local();
}

/* A task may have come while the CPU still seemed busy; or a real-time task has been faster. */
void BPF_STRUCT_OPS(carousel_update_idle, s32 cpu, bool idle)
{
	struct run_queue *rq = run_queue_of(cpu);
	struct run_queue *group = rq ? run_queue_of(cpu_at(rq->first)) : NULL;

	if (idle && group && group->waiting)
		scx_bpf_kick_cpu(cpu, 0);
	if (!idle && rq && rq->queued)
		offer_waiting(cpu);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(carousel_init_task, struct task_struct *p,
			     struct scx_init_task_args *args)
{
	struct task_struct *forks = args->fork ? bpf_get_current_task_btf() : NULL;
	struct task_ctx *t = new_task_ctx(p), *parent = forks ? task_ctx_of(forks) : NULL;
	struct run_queue *rq = parent ? run_queue_of(scx_bpf_task_cpu(forks)) : NULL;

	if (!t)
		return -ENOMEM;
	t->vruntime = parent ? parent->vruntime : machine_vtime;
	/* More than pays for a switch, until more is known */
	t->usual_burst = 3 * protection;
	t->group = first_group_number(args);
	/* The child's first two slices are its parent's: forks bring no CPU time */
	if (rq && rq->curr_weight) {
		parent->vruntime += calc_delta_fair(2 * slice, parent->weight);
		rq->curr_vruntime += calc_delta_fair(2 * slice, parent->weight);
	}
	return 0;
}

static __always_inline struct task_ctx *forget(struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return NULL;
	leave_queue(t);
	end_hold(t, scx_bpf_now());
	count_in_group(t, 0);
	return t;
}

void BPF_STRUCT_OPS(carousel_disable, struct task_struct *p)
{
	forget(p);
}

/* The task, which is in no queue now, goes to another group. */
void BPF_STRUCT_OPS(carousel_cgroup_move, struct task_struct *p, struct cgroup *from,
		    struct cgroup *to)
{
	struct task_ctx *t = forget(p);

	if (t)
		t->group = group_number(to);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(carousel_init)
{
	const volatile struct cpu_topology *where;
	struct run_queue *rq;
	u32 span, in_span;
	s32 cpu, error;

	nr_cpus = topology_nr_cpus ?: scx_bpf_nr_cpu_ids();
	if (nr_cpus > MAX_CPUS)
		return -ENOMEM;
	for_each_rq(rq, cpu, nr_cpus) {
		error = scx_bpf_create_dsq(cpu, NUMA_NO_NODE) ?:
			scx_bpf_create_dsq(throttled_dsq(cpu), NUMA_NO_NODE) ?:
			bpf_timer_init(&rq->timer, &run_queues, CLOCK_MONOTONIC) ?:
			bpf_timer_set_callback(&rq->timer, alarm_fires);
		if (error)
			return error;
		where = topology_of(cpu);
		rq->capacity = where && where->capacity ? where->capacity : SCHED_CAPACITY_SCALE;
		rq->position = where ? where->position : cpu;
		rq->first = where ? where->llc_cpus.first : 0;
		span = where ? where->llc_cpus.count : nr_cpus;
		/* The part of the cache's CPUs that is this one's group */
		in_span = (u32)(rq->position - rq->first) / GROUP_SIZE * GROUP_SIZE;
		rq->first = span ? rq->first + in_span : rq->position;
		rq->count = span ? min(span - in_span, GROUP_SIZE) : 1;
		nr_cache_groups += rq->position == rq->first;
	}
	return 0;
}

DEFINE_SCHEDULER(carousel,
	CALLBACKS_OF(carousel, select_cpu, enqueue, dispatch, running, stopping, yield, cpu_release,
		     update_idle, init_task, disable, cgroup_init, cgroup_exit, cgroup_move,
		     cgroup_set_weight, cgroup_set_idle, cgroup_set_bandwidth, init)
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE | SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING |
		 SCX_OPS_ENQ_MIGRATION_DISABLED,
	.name = "carousel");
