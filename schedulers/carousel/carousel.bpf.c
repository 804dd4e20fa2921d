// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * carousel - earliest virtual deadline first, with one virtual time for all CPUs
 *
 * A task has a virtual runtime, CPU time divided by weight, which is comparable on all CPUs, and a
 * deadline: where its virtual runtime will be when its present request is served. A request is as
 * long as the task usually runs before it sleeps, and at most a slice. Each CPU has a queue ordered
 * by deadline. There is no balancer: a CPU that has served a request also looks at others' queues,
 * and takes a task that is behind by more than a bound. So shares are equal across CPUs, and a task
 * moves only where that makes them so. A CPU without work takes any task.
 */
#include "fairground.bpf.h"

/* Weights have ten fraction bits, since groups make them small */
#define LOAD_SCALE 1024ULL
#define NICE_0_LOAD (NICE_0_WEIGHT * LOAD_SCALE)

#include "starvation.h"
#include "topology.h"
#include "virtual_runtime.h"

/* The longest request */
const volatile u64 slice = 2 * NSEC_PER_MSEC;
/* How far behind virtual time a task that wakes may be: what it did not use is lost beyond that */
const volatile u64 credit = 6 * NSEC_PER_MSEC;
/* A CPU takes a task of another one that is due earlier by this */
const volatile u64 bound = 4 * NSEC_PER_MSEC;
/* Work that pays for a switch, and that a task which wakes has before others */
const volatile u64 protection = 150 * NSEC_PER_USEC;
/* What a new task is thought to want */
const volatile u64 new_burst = 300 * NSEC_PER_USEC;
/* A turn that ends this soon is ended by a timer and not by the tick, if others wait; 0: never */
const volatile u64 alarm_up_to = 2 * NSEC_PER_MSEC;

/* The shortest request that is believed */
#define MIN_REQUEST (100 * NSEC_PER_USEC)
/* A light task's least slice; and a request is served if less is left of it: slices end at ticks */
#define LEAST_SLICE (1 * NSEC_PER_MSEC)
/* What a task that wakes is put forward by: less than the three bounds that it may be ahead */
#define LEAD(weight) min(2 * bound, calc_delta_fair(2 * bound, weight))

/* In the order of scheduler.toml */
enum statistic {
	STAT_PREEMPTIONS, STAT_TAKEN, STAT_TAKEN_IDLE, STAT_ALARMS, STAT_RESCUED, NR_STATISTICS,
};

DEFINE_STATISTICS(NR_STATISTICS)

/* ---- Tasks and CPUs -------------------------------------------------------------------------- */

struct task_ctx {
	u64 vruntime, deadline;
	/* Charged up to then, while it runs; and since when it waits */
	u64 since, waiting_since;
	/* CPU time since it woke, and how long that usually is */
	u64 burst, usual_burst;
	/* By its nice value; and among all tasks, which its groups and a slow CPU change */
	u64 own_weight, weight;
	/* Its control group, and with which weight it counts as runnable there */
	u32 group;
	u64 counted;
	/* The group without runtime that keeps it from running, and the CPU on which it is held */
	u32 held_by;
	s32 held_on;
	/* On whose scale of virtual time it is; -1: it has not been placed yet */
	s32 cpu;
	/* The CPU in whose queue it counts, and the faster one to which it goes; plus one, or 0 */
	u32 queued_on, goes_to;
	bool yielded;
	/* Has just lost its CPU, which has found another task */
	bool put_back;
	/* Its waker has said that it is about to sleep */
	bool synchronous;
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
	u64 curr_vruntime, curr_deadline, since, started, leads_until;
	u64 curr_weight;
	u32 queued, capacity;
	u64 rescue_at, looked;
	/* Its task usually runs for as long as pays for a switch */
	bool lasts;
	/* It has been asked to give way to the first that waits */
	bool gives_way;
	/* Tasks that are held may come back */
	bool releases;
	/* In the order of topology.h: the CPU itself, its group, and where the next group begins */
	u16 position, first, count, next;
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

static __always_inline u64 own_weight(const struct task_struct *p)
{
	return (p->policy == SCHED_IDLE ? 3 : weight_of_nice(task_nice(p))) * LOAD_SCALE;
}

/* On a slow CPU a task is so much heavier: its virtual time is work, not time. */
static __always_inline u64 weight_on(const struct run_queue *rq, const struct task_ctx *t)
{
	u64 weight = t->group ? weight_in_groups(t->group, t->own_weight) : t->own_weight;

	return rq ? weight * SCHED_CAPACITY_SCALE / rq->capacity : weight;
}

/* The same of a task that is runnable on the CPU, and counts as such in its groups. */
static __always_inline u64 weigh(const struct run_queue *rq, struct task_ctx *t,
				 const struct task_struct *p)
{
	t->own_weight = own_weight(p);
	count_in_group(t, t->own_weight);
	return weight_on(rq, t);
}

/* The task asks for as much as it usually uses, or has used already, and at most for a slice. */
static __always_inline u64 next_deadline(const struct task_ctx *t, u64 vruntime)
{
	u64 longest = slice * min(t->own_weight, NICE_0_LOAD);
	u64 request = max(max(t->usual_burst, t->burst), MIN_REQUEST);

	request = min(request, max(longest / NICE_0_LOAD, LEAST_SLICE));
	return vruntime + calc_delta_fair(request, t->weight);
}

/*
 * The place of a task among others: its deadline, and a slice after its virtual runtime at the
 * latest. The request of a light task is long in virtual time; and who waits in a group whose tasks
 * come and go may have been light for a moment only. For its first work it is ahead of that.
 */
static __always_inline u64 due(const struct task_ctx *t)
{
	u64 latest = t->vruntime + slice;

	latest = time_before(t->deadline, latest) ? t->deadline : latest;
	return t->burst < protection ? latest - LEAD(t->weight) : latest;
}

/* Less than a tick is left: a new request. */
static __always_inline bool is_served(const struct task_ctx *t)
{
	return !time_before(t->vruntime + calc_delta_fair(LEAST_SLICE, t->weight), t->deadline);
}

/* Returns the task's part of what its groups may still use. */
static __always_inline s64 charge(struct task_ctx *t, u64 now)
{
	u64 time = elapsed(t->since, now);

	t->since = now;
	t->burst += time;
	t->vruntime += calc_delta_fair(time, t->weight);
	return nr_quotas && t->group ? use_runtime(t->group, time, now) : NO_LIMIT;
}

/* The running task's deadline, or where it is beyond that; earlier for its first work. */
static __always_inline u64 running_deadline(const struct run_queue *rq, u64 now)
{
	u64 deadline = max_vruntime(rq->curr_deadline, rq->curr_vruntime +
				    calc_delta_fair(elapsed(rq->since, now), rq->curr_weight));

	return time_before(now, rq->leads_until) ? deadline - LEAD(rq->curr_weight) : deadline;
}

/* Has the running task a later deadline, and does one of the two pay for the switch? */
static __always_inline bool gives_way(const struct run_queue *rq, const struct task_ctx *t,
				      u64 now)
{
	bool worn = !t->synchronous && elapsed(rq->started, now) >= protection;

	return (worn || t->usual_burst >= protection) &&
	       time_before(due(t), running_deadline(rq, now));
}

static __always_inline u64 within(u64 vruntime, u64 least, u64 most)
{
	vruntime = max_vruntime(vruntime, least);
	return time_before(vruntime, most) ? vruntime : most;
}

/* Virtual runtime of a task on a CPU: it competes with those there, or if alone with all. */
static __always_inline u64 place(const struct run_queue *rq, const struct task_ctx *t, bool comes)
{
	u64 base = rq->curr_weight || rq->queued ? rq->vtime : machine_vtime;
	u64 ahead = calc_delta_fair(3 * bound, t->weight), behind = ahead;

	if (comes)
		behind = min(credit, calc_delta_fair(credit, t->weight));
	return within(t->vruntime, base - behind, base + ahead);
}

/* It comes from another CPU, or has another weight, with which its request goes on. */
static __always_inline void settle(const struct run_queue *rq, struct task_ctx *t, s32 cpu,
				   u64 weight, bool comes)
{
	u64 rest = elapsed(t->vruntime, t->deadline) * t->weight;

	t->cpu = cpu;
	t->weight = weight;
	t->vruntime = place(rq, t, comes);
	t->deadline = t->vruntime + rest / weight;
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

/* The CPU chooses again after @time at the latest, if that is so soon that a tick would be late. */
static __always_inline void set_alarm(struct run_queue *rq, s64 time, u64 now)
{
	u64 at = now + clamp(time, MIN_REQUEST, slice);

	if (!alarm_up_to || time > (s64)alarm_up_to || is_within(rq->alarm_at, now + 1, at + 1))
		return;
	rq->alarm_at = bpf_timer_start(&rq->timer, at - now, 0) ? 0 : at;
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
	u64 mask;

	if (!rq || !group)
		return false;
	/* Turned, so that the search begins with the next CPU; this one itself does not count */
	turn = (rq->position - rq->first) & (GROUP_SIZE - 1);
	mask = group->waiting >> turn | group->waiting << (-turn & (GROUP_SIZE - 1));
	if (base == rq->first)
		mask &= ~1ULL;
	bpf_for(step, 0, GROUP_SIZE) {
		s32 from;

		if (!mask)
			break;
		from = cpu_at(base + ((__builtin_ctzll(mask) + turn) & (GROUP_SIZE - 1)));
		mask &= mask - 1;
		other = run_queue_of(from);
		if (!other)
			continue;
		/* Under a real-time task nobody's virtual time goes on, so it tells nothing */
		stuck = higher_class_runs(from);
		if (!any && !stuck && !first_is_before(other, from, before))
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
 * with @any it takes any task, near ones first. A CPU with work looks at two groups.
 */
__noinline bool take_from_others(s32 cpu, u64 best, bool any)
{
	struct run_queue *rq = run_queue_of(cpu), *group;
	u32 i, first = rq ? rq->first : 0;
	bool taken = false;

	bpf_for(i, 0, any ? nr_cache_groups : min(nr_cache_groups, 2)) {
		group = run_queue_of(cpu_at(first));
		if (!group || taken)
			break;
		taken = take_from_group(cpu, first, best - bound, any);
		first = group->next;
	}
	return taken;
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
		settle(rq, t, cpu, weigh(rq, t, p), true);
		t->deadline = next_deadline(t, t->vruntime);
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
 * The deadline of the CPU's running task, if it is later than @latest and that gives way to this
 * one, which would be the first there; or 0. Verified once, not in each step of the loop.
 */
__noinline u64 beaten_deadline(s32 cpu, const struct task_ctx *t __arg_nonnull, u64 latest, u64 now)
{
	struct run_queue *rq = run_queue_of(cpu);
	u64 theirs;

	if (!rq || !rq->curr_weight || rq->gives_way || !gives_way(rq, t, now))
		return 0;
	theirs = running_deadline(rq, now);
	return time_before(latest, theirs) && !first_is_before(rq, cpu, due(t) + 1) ? theirs : 0;
}

/*
 * The CPU whose task has the latest deadline, if that gives way to this one; or else the one on
 * which clearly fewer wait. A new task does not preempt.
 */
__noinline s32 best_busy_cpu(struct task_struct *p __arg_trusted, s32 prev_cpu, bool forks)
{
	struct run_queue *prev = run_queue_of(prev_cpu), *rq;
	struct task_ctx *t = task_ctx_of(p);
	u64 latest, now = scx_bpf_now(), theirs;
	s32 best = -1, emptiest = prev_cpu, cpu;
	u32 i, least, own;

	if (!prev || !t)
		return prev_cpu;
	latest = due(t);
	own = prev->position - prev->first;
	least = forks ? prev->queued : prev->queued > 1 ? prev->queued - 1 : 0;
	bpf_for(i, 0, min(prev->count, GROUP_SIZE / 4)) {
		cpu = cpu_at(prev->first + (own + i) % prev->count);
		rq = run_queue_of(cpu);
		if (!rq || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (rq->queued < least) {
			least = rq->queued;
			emptiest = unlinked(cpu);
		}
		theirs = forks ? 0 : beaten_deadline(cpu, t, latest, now);
		if (!theirs)
			continue;
		/* It stays unless others run tasks that are far ahead of that */
		latest = i ? theirs : theirs + 2 * bound;
		best = unlinked(cpu);
	}
	return best >= 0 ? best : emptiest;
}

s32 BPF_STRUCT_OPS(carousel_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id(), idle;
	struct task_ctx *t = task_ctx_of(p), *waker = task_ctx_of(bpf_get_current_task_btf());
	struct run_queue *this_rq = run_queue_of(this_cpu), *rq = run_queue_of(prev_cpu);
	bool forks = wake_flags & SCX_WAKE_FORK;

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

	t->own_weight = own_weight(p);
	t->weight = weight_on(rq, t);
	t->burst = 0;
	t->vruntime = place(rq, t, true);
	t->deadline = next_deadline(t, t->vruntime);
	/* Little work does not pay for a migration if it need not wait here */
	if (!forks && t->usual_burst < protection && gives_way(rq, t, scx_bpf_now()))
		return prev_cpu;
	return best_busy_cpu(p, prev_cpu, forks);
}

/* Is a CPU of this mask idle, or without one any? */
static __always_inline bool any_idle(const struct cpumask *among)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool any = among ? bpf_cpumask_intersects(idle, among) : !bpf_cpumask_empty(idle);

	scx_bpf_put_idle_cpumask(idle);
	return any;
}

/* Wakes an idle CPU for the first waiting task that may move to one; false if all must stay. */
__noinline bool offer_waiting(s32 cpu)
{
	struct task_struct *p;

	if (!any_idle(NULL))
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
	bool comes, goes, put_back, anew;
	u64 now = scx_bpf_now(), weight;
	s64 rest;

	if (!t || !rq) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return;
	}
	comes = t->cpu < 0 || (enq_flags & SCX_ENQ_WAKEUP);
	goes = t->goes_to;
	put_back = t->put_back && !comes && !goes;
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
	weight = weigh(rq, t, p);
	/* An idle CPU's time is of long ago; those that come next are to compete with this one */
	if (!rq->curr_weight && !rq->queued)
		rq->vtime = machine_vtime;
	anew = comes || t->cpu != cpu;
	if (anew || t->weight != weight)
		settle(rq, t, cpu, weight, comes);
	if (anew || t->yielded || is_served(t))
		t->deadline = next_deadline(t, t->vruntime);
	join_queue(t, rq, cpu);
	scx_bpf_dsq_insert_vtime(p, cpu, slice, due(t), enq_flags);

	if (put_back) {
		if (!wake_idle_cpu(p))
			offer_waiting(cpu);
	} else if (!rq->curr_weight) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		if (higher_class_runs(cpu))
			wake_idle_cpu(p);
	} else if ((comes || goes) && p->policy != SCHED_BATCH && p->policy != SCHED_IDLE &&
		   gives_way(rq, t, now) && !first_is_before(rq, cpu, due(t) + 1)) {
		count(STAT_PREEMPTIONS);
		rq->gives_way = true;
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	} else {
		if (comes && !t->synchronous && rq->curr_weight >= NICE_0_LOAD) {
			/*
			 * At the end of the request, or for who is behind as soon as the switch is
			 * paid for; who usually runs briefly will have slept by then
			 */
			rest = rq->curr_deadline - rq->curr_vruntime - elapsed(rq->since, now);
			if (!rq->lasts)
				rest = slice;
			else if (time_before(t->deadline + bound, rq->curr_deadline))
				rest = lesser(rest, (s64)(protection - elapsed(rq->started, now)));
			set_alarm(rq, rest, now);
		}
		wake_idle_cpu(p);
	}
}

/*
 * A faster CPU for a task that has had a request served on a slow one: an idle CPU, which is taken;
 * for a heavy task also that of the one furthest ahead of it, by more than three bounds; or -1.
 */
__noinline s32 faster_cpu(struct task_struct *p __arg_trusted, s32 cpu, u64 deadline, bool heavy)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	struct run_queue *rq = run_queue_of(cpu), *other;
	u64 latest = deadline + 3 * bound, now = scx_bpf_now(), theirs;
	u32 i, fastest = rq ? rq->capacity : 0;
	s32 best = -1, busy = -1, candidate;

	bpf_for(i, 0, min(nr_cpus, GROUP_SIZE)) {
		candidate = cpu_at(i);
		other = run_queue_of(candidate);
		if (!rq || !other || other->capacity <= rq->capacity || !task_allowed(p, candidate))
			continue;
		if (other->capacity > fastest && bpf_cpumask_test_cpu(candidate, idle)) {
			fastest = other->capacity;
			best = unlinked(candidate);
		}
		theirs = running_deadline(other, now);
		if (!heavy || !other->curr_weight || !time_before(latest, theirs))
			continue;
		latest = theirs;
		busy = unlinked(candidate);
	}
	scx_bpf_put_idle_cpumask(idle);
	return best >= 0 && scx_bpf_test_and_clear_cpu_idle(best) ? best : busy;
}

/* ---- Choosing -------------------------------------------------------------------------------- */

/* The task runs until its request is served. */
static __always_inline void run(struct task_struct *p, struct task_ctx *t,
				struct run_queue *rq, u64 now)
{
	s64 rest = t->deadline - t->vruntime;
	bool waits;

	t->yielded = false;
	rq->curr_vruntime = t->vruntime;
	rq->curr_deadline = t->deadline;
	rq->since = now;
	rq->leads_until = now + protection - min(protection, t->burst);
	rq->curr_weight = t->weight;
	rq->lasts = max(t->usual_burst, t->burst) >= protection;
	rq->gives_way = false;
	rq->vtime = rq->queued ? max_vruntime(rq->vtime, t->vruntime) : t->vruntime;
	/* Who is alone on a slow CPU, and may leave it, waits for a faster one */
	waits = rq->queued || (rq->capacity < SCHED_CAPACITY_SCALE && p->nr_cpus_allowed > 1);
	if (waits && time_before(machine_vtime + NSEC_PER_MSEC, rq->vtime))
		machine_vtime = rq->vtime;
	/* Of virtual time, to time */
	rest = (rest * (s64)t->weight) >> 20;
	if (rq->queued)
		set_alarm(rq, t->weight < NICE_0_LOAD ? rest : (s64)slice, now);
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
	u64 now = scx_bpf_now(), best = 0;
	bool served = false, looks;

	if (!rq)
		return;
	if (rq->releases)
		release_held(cpu, now);
	if (t && prev && charge(t, now) <= 0 && is_limited(prev, t))
		t = NULL;
	if (t && prev) {
		served = is_served(t);
		/* Alone, it stays near all others: what nobody else wanted is no debt */
		if (served && !rq->queued)
			t->vruntime = within(t->vruntime, machine_vtime - 3 * bound,
					     machine_vtime + 3 * bound);
		if (served)
			t->deadline = next_deadline(t, t->vruntime);
		best = due(t);
	}
	looks = served || elapsed(rq->looked, now) >= slice;
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
	/* As often where tasks end their turns themselves */
	if (looks || (!t && !first)) {
		rq->looked = now;
		if (nr_cpus > 1 && take_from_others(cpu, best, !t && !first))
			return;
	}
	if (first && scx_bpf_dsq_move_to_local(cpu, 0))
		return;
	if (t && prev) {
		if (served && !rq->queued && rq->capacity < SCHED_CAPACITY_SCALE)
			t->goes_to = faster_cpu(prev, cpu, t->deadline, t->burst >= slice) + 1;
		if (t->goes_to)
			return;
		/* If all that wait must stay, it is the one to move */
		if (rq->queued && served && nr_cpus > 1 && !offer_waiting(cpu) &&
		    any_idle(prev->cpus_ptr) && scx_bpf_dsq_move_to_local(cpu, 0))
			return;
		run(prev, t, rq, now);
	}
}

void BPF_STRUCT_OPS(carousel_running, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct run_queue *rq = run_queue_of(cpu);
	u64 now = scx_bpf_now(), weight;
	bool moved;

	if (!t || !rq)
		return;
	leave_queue(t);
	t->since = now;
	rq->started = now;
	weight = weigh(rq, t, p);
	moved = t->cpu != cpu;
	if (moved || t->weight != weight)
		settle(rq, t, cpu, weight, false);
	if (moved)
		t->deadline = next_deadline(t, t->vruntime);
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
	t->cpu = -1;
	t->vruntime = parent ? parent->vruntime : machine_vtime;
	t->usual_burst = new_burst;
	t->group = first_group_number(args);
	/* The child's first slice is its parent's: forks bring no CPU time */
	if (rq && rq->curr_weight) {
		parent->vruntime += calc_delta_fair(slice, parent->weight);
		rq->curr_vruntime += calc_delta_fair(slice, parent->weight);
	}
	return 0;
}

static __always_inline void forget(struct task_ctx *t)
{
	leave_queue(t);
	end_hold(t, scx_bpf_now());
	count_in_group(t, 0);
}

void BPF_STRUCT_OPS(carousel_disable, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);

	if (t)
		forget(t);
}

/* The task, which is in no queue now, goes to another group. */
void BPF_STRUCT_OPS(carousel_cgroup_move, struct task_struct *p, struct cgroup *from,
		    struct cgroup *to)
{
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return;
	forget(t);
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
		rq->next = rq->first + rq->count < nr_cpus ? rq->first + rq->count : 0;
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
