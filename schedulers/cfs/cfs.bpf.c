// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * cfs - the Completely Fair Scheduler of Linux 2.6.24 and 3.0
 *
 * Every task has a virtual runtime: the time it ran, divided by its weight. Each CPU keeps its
 * waiting tasks ordered by it and runs the leftmost. There are no time slices in the old sense; a
 * task may run for its share of a period in which every task of the CPU should run once, and the
 * timer tick checks whether it has. Between CPUs, load means the sum of weights, and a balancer
 * evens it out level by level of the machine.
 *
 * Names are those of kernel/sched.c and kernel/sched_fair.c of those releases. The red-black tree
 * of a CPU is a dispatch queue ordered by virtual time whose number is the CPU's; the running task
 * is not in it.
 */
#include "fairground.bpf.h"
#include "fair_state.h"
#include "topology.h"

/* ---- Tunables; scheduler.toml explains them -------------------------------------------------- */

/* Which kernel's rules: enum cfs_release */
const volatile u32 release = RELEASE_2_6_24;
const volatile u32 hz = 250;

/* 0: the release's value */
const volatile u64 sched_latency = 0;
const volatile u64 sched_min_granularity = 0;
const volatile u64 sched_wakeup_granularity = 0;
const volatile u32 sched_child_runs_first = 0;

const volatile bool sched_tunable_scaling = true;
const volatile bool sched_compat_yield = false;
const volatile bool sched_mc = true;
const volatile bool new_fair_sleepers = true;
const volatile bool wakeup_preempt = true;
const volatile u64 sched_migration_cost = 500 * NSEC_PER_USEC;

/* Values of sched_child_runs_first besides 0 */
#define CHILD_RUNS_LATER 1
#define CHILD_RUNS_FIRST 2

/* ---- Statistics, in the order of scheduler.toml ---------------------------------------------- */

enum statistic {
	STAT_WAKEUPS,
	STAT_FORKS,
	STAT_WAKEUP_PREEMPTIONS,
	STAT_TICK_PREEMPTIONS,
	STAT_YIELDS,
	STAT_AFFINE_WAKEUPS,
	STAT_IDLE_WAKEUPS,
	STAT_BALANCES,
	/* In the order of enum cpu_idle_type */
	STAT_PULLED_BUSY,
	STAT_PULLED_IDLE,
	STAT_PULLED_NEWLY_IDLE,
	STAT_PUSHED_ACTIVE,
	STAT_RESCUES,
	NR_STATISTICS,
};

DEFINE_STATISTICS(NR_STATISTICS)

/* One balancing examines this many tasks, and one more */
#define sched_nr_migrate 32

#define SCHED_LOAD_SCALE 1024ULL

#include "sched_domains.h"

static __always_inline u32 balance_rules(void)
{
	return release == RELEASE_2_6_24 ? BALANCE_2_6_24 : BALANCE_3_0;
}

static __always_inline u64 migration_cost(void)
{
	return sched_migration_cost;
}

/* A task that may be next in 3.0, with its virtual runtime and weight; pid 0 for none */
struct candidate {
	u64 vruntime;
	u32 weight;
	s32 pid;
};

/* In a CPU's record, as the verifier would follow variables through every iteration */
struct candidates {
	struct candidate left;
	struct candidate second;
	struct candidate last;
	struct candidate next;
	u32 seen;
};

/* Run queue of a CPU */
struct run_queue {
	CFS_QUEUE_STATE
	struct candidates candidates;
	/* Last number given to a task, in the order in which they become runnable here */
	u64 enqueued;
	/*
	 * 2.6.24's clock of this CPU stands still between its ticks, wake-ups and schedule(); other
	 * CPUs see it as it is
	 */
	u64 clock;
	/* A tick of its running task has found balancing due */
	bool balance_at_tick;
	BALANCE_STATE
	struct sched_domains domains;
};

DEFINE_PER_CPU(struct run_queue, run_queue)

/* The scheduler's record of a task */
struct task_ctx {
	CFS_TASK_STATE
	/* Number from its run queue when it became runnable or came there */
	u64 enqueued;
	/* One plus the CPU to which active balancing pushes the task, or 0 */
	s32 push_cpu;
};

DEFINE_TASK_DATA(struct task_ctx, task_ctx_map, task_ctx)

/* A real-time task counts in the load as two tasks of nice -20. */
#define REAL_TIME_WEIGHT (2 * 88761)

#include "starving_queue.h"
#include "load_balance.h"
#include "fair_arrival.h"
#include "fair.h"
#include "idle_tick.h"

static __always_inline u64 waits_since(const struct task_ctx *t)
{
	return t->wait_start;
}

/* Numbers the tasks in the order in which they come. */
static __always_inline void count_besides(struct run_queue *rq, struct task_ctx *t, s32 number)
{
	if (number > 0)
		t->enqueued = __sync_fetch_and_add(&rq->enqueued, 1) + 1;
}

/* Did the task run so recently that its data may still be in the CPU's cache? */
static __always_inline bool task_hot(const struct task_ctx *t, u32 level, u64 now)
{
	return (s64)(now - t->last_ran) < (s64)sched_migration_cost;
}

/* Its own last event; 3.0 has no such clock */
static __always_inline u64 most_recent_timestamp(const struct run_queue *rq, u64 now)
{
	return release == RELEASE_2_6_24 ? rq->clock : now;
}

static __always_inline u64 leftmost_dsq(const struct run_queue *rq)
{
	return rq->cpu;
}

static __always_inline void charge_besides(struct run_queue *rq, u64 delta_exec)
{
}

/* ---- Balancing ------------------------------------------------------------------------------- */

/* Moves task @p of an iteration over the busiest CPU's queue here; it stays the last event. */
#define pull_task(p, t, busiest, this_rq, now)							\
	({											\
		u64 vruntime_;									\
		bool moved_;									\
												\
		(busiest)->min_vruntime = min_vruntime_at(busiest, (busiest)->exec_start);	\
		vruntime_ = vruntime_on(this_rq, busiest, (p)->scx.dsq_vtime, now);		\
		scx_bpf_dsq_move_set_vtime(DSQ_ITERATOR, vruntime_);				\
		moved_ = scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p, (this_rq)->cpu, 0);		\
		if (moved_) {									\
			(t)->vruntime_cpu = (this_rq)->cpu + 1;					\
			clear_buddies(busiest, (p)->pid);					\
			account_move(t, busiest, this_rq, now);					\
			if ((this_rq)->curr &&							\
			    check_preempt_wakeup(this_rq, p, (t)->weight, vruntime_))		\
				(this_rq)->need_resched = true;					\
		}										\
		moved_;										\
	})

/*
 * May the task be moved, and is it light enough? A task heavier than twice the load left to move
 * stays, the document's W / 2 > L_imbal. 2.6.24 adds some slack, takes the task anyway if it would
 * have the best priority here, and judges heat by the clock of the task's CPU.
 */
static __always_inline bool can_migrate_task(struct run_queue *this_rq,
					     const struct run_queue *busiest,
					     const struct sched_domain *sd,
					     const struct task_struct *p, const struct task_ctx *t,
					     s32 this_best_prio)
{
	struct balance_attempt *attempt = &this_rq->domains.attempt;
	s64 fuzz = release == RELEASE_2_6_24 ? BALANCE_FUZZ : 0;

	if (t->weight / 2 > attempt->imbalance + fuzz && p->prio >= this_best_prio)
		return false;
	if (!task_allowed(p, this_rq->cpu))
		return false;
	attempt->all_pinned = false;
	return sd->nr_balance_failed > sd->cache_nice_tries ||
	       !task_hot(t, attempt->level, most_recent_timestamp(busiest, attempt->now));
}

/*
 * 3.0 walks the tasks of a CPU in reverse order of becoming runnable there. Moves the first task of
 * that walk that comes after number @before and may be moved. Returns its number, 0 if there is
 * none; subtracts its weight from the load left to move.
 */
__noinline u64 move_latest(struct run_queue *this_rq __arg_nonnull,
			   struct run_queue *busiest __arg_nonnull,
			   const struct sched_domain *sd __arg_nonnull, u64 before)
{
	struct balance_attempt *attempt = &this_rq->domains.attempt;
	struct task_struct *p;
	struct task_ctx *t;
	u64 found = 0;

	for_each_queued(p, t, busiest->cpu, 0)
		if (t->enqueued < before && t->enqueued > found &&
		    can_migrate_task(this_rq, busiest, sd, p, t, 0))
			found = t->enqueued;
	if (!found)
		return 0;
	for_each_queued(p, t, busiest->cpu, 0) {
		if (t->enqueued != found)
			continue;
		if (pull_task(p, t, busiest, this_rq, attempt->now)) {
			attempt->imbalance -= t->weight;
			attempt->pulled++;
		}
		break;
	}
	return found;
}

/* 2.6.24: leftmost first. */
static __noinline void move_leftmost(struct run_queue *this_rq, struct run_queue *busiest,
				     const struct sched_domain *sd)
{
	struct balance_attempt *attempt = &this_rq->domains.attempt;
	/* On a CPU that is about to be idle, that of the task that has left it */
	bool has_prio = this_rq->curr || attempt->idle == CPU_NEWLY_IDLE;
	s32 this_best_prio = has_prio ? this_rq->curr_prio : MAX_PRIO;
	struct task_struct *p;
	u32 loops = 0;

	bpf_for_each(scx_dsq, p, busiest->cpu, 0) {
		struct task_ctx *t;

		if (loops++ > sched_nr_migrate)
			break;
		t = task_ctx_of(p);
		if (!t || !can_migrate_task(this_rq, busiest, sd, p, t, this_best_prio) ||
		    !pull_task(p, t, busiest, this_rq, attempt->now))
			continue;
		attempt->pulled++;
		attempt->imbalance -= t->weight;
		if (attempt->imbalance <= 0)
			break;
		if (p->prio < this_best_prio)
			this_best_prio = p->prio;
	}
}

/*
 * Moves up to attempt->imbalance of load from the waiting tasks of the busiest CPU to this CPU.
 * Returns how many tasks moved; sets attempt->all_pinned if it found no task that was light enough
 * and allowed here. 3.0 looks at the running task as well: it does not move, but if it could, force
 * helps.
 */
__noinline s32 move_tasks(struct run_queue *this_rq __arg_nonnull,
			  struct run_queue *busiest __arg_nonnull,
			  const struct sched_domain *sd __arg_nonnull)
{
	struct balance_attempt *attempt = &this_rq->domains.attempt;
	u64 number = ~0ULL;
	u32 i;

	if (!attempt->imbalance)
		return 0;
	attempt->all_pinned = true;
	attempt->pulled = 0;
	if (release == RELEASE_2_6_24) {
		move_leftmost(this_rq, busiest, sd);
	} else {
		bpf_for(i, 0, sched_nr_migrate + 1) {
			number = move_latest(this_rq, busiest, sd, number);
			if (!number || attempt->imbalance <= 0)
				break;
		}
		if (busiest->curr && (s64)(busiest->curr_weight >> 1) <= attempt->imbalance &&
		    !curr_is_pinned(busiest->cpu, this_rq->cpu))
			attempt->all_pinned = false;
	}
	count_by(STAT_PULLED_BUSY + attempt->idle, attempt->pulled);
	return attempt->pulled;
}

/*
 * Hands one task to the CPU that asked for it; the running task @prev counts as put back. 2.6.24
 * takes the leftmost that may run there, 3.0 the one that became runnable last. Returns true if
 * that is @prev, which enqueue() then inserts there.
 */
static __noinline bool active_load_balance(struct run_queue *busiest, struct task_struct *prev,
					   u64 now)
{
	struct run_queue *target = run_queue_of(busiest->push_cpu - 1);
	struct task_ctx *t, *prev_ctx = prev ? task_ctx_of(prev) : NULL;
	bool push_prev = prev_ctx && target && task_allowed(prev, target->cpu), moved = false;
	struct task_struct *p;
	u64 latest = 0;

	busiest->push_cpu = 0;
	if (!target)
		return false;

	if (release == RELEASE_3_0) {
		if (push_prev)
			latest = prev_ctx->enqueued;
		for_each_queued(p, t, busiest->cpu, 0)
			if (t->enqueued > latest && task_allowed(p, target->cpu))
				latest = t->enqueued;
	}
	bpf_for_each(scx_dsq, p, busiest->cpu, 0) {
		if (push_prev && (release == RELEASE_3_0 ?
				  latest == prev_ctx->enqueued :
				  time_before(busiest->curr_vruntime, p->scx.dsq_vtime)))
			break;
		t = task_ctx_of(p);
		if (!t || !task_allowed(p, target->cpu) || (latest && t->enqueued != latest))
			continue;
		moved = pull_task(p, t, busiest, target, now);
		if (moved)
			break;
	}

	if (moved) {
		count(STAT_PUSHED_ACTIVE);
		scx_bpf_kick_cpu(target->cpu, target->curr ? SCX_KICK_PREEMPT : SCX_KICK_IDLE);
		return false;
	}
	if (push_prev)
		prev_ctx->push_cpu = target->cpu + 1;
	return push_prev;
}

/* ---- Placement of a waking or new task on a CPU ---------------------------------------------- */

s32 BPF_STRUCT_OPS(cfs_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task_ctx *t;

	if (nr_cpus == 1)
		return prev_cpu;
	t = task_ctx_of(p);
	return t ? select_task_rq(p, t, prev_cpu, wake_flags) : prev_cpu;
}

/* ---- Queueing -------------------------------------------------------------------------------- */

/*
 * Virtual runtime of a new task. The current period is already promised, so the task begins where
 * its slot would be, at the period's end. A child that should run first takes its parent's place if
 * that is better. 3.0 does all this on the parent's CPU, wherever the child will run, and does not
 * place it before its parent.
 */
static __always_inline u64 place_new_task(struct run_queue *rq, const struct task_ctx *t,
					  bool *first, u64 now)
{
	struct run_queue *parent_rq = this_run_queue();
	bool here = parent_rq == rq, child_first = sched_child_runs_first == CHILD_RUNS_FIRST;
	u64 vruntime, parent_vruntime;
	u32 nr_running;

	if (!sched_child_runs_first)
		child_first = release == RELEASE_2_6_24;
	if (!parent_rq || release == RELEASE_2_6_24)
		parent_rq = rq;
	vruntime = min_vruntime_at(parent_rq, now);
	nr_running = parent_rq->nr_running + (parent_rq != rq);
	vruntime += sched_vslice(nr_running,
				 parent_rq->load_weight + (parent_rq != rq ? t->weight : 0));
	if (parent_rq->curr) {
		parent_vruntime = curr_vruntime_at(parent_rq, now);
		if (release == RELEASE_3_0)
			vruntime = max_vruntime(parent_vruntime, vruntime);
		if (child_first && (here || release == RELEASE_3_0) &&
		    time_before(parent_vruntime, vruntime)) {
			parent_rq->curr_vruntime += vruntime - parent_vruntime;
			vruntime = parent_vruntime;
			*first = true;
		}
	}
	if (parent_rq != rq)
		vruntime = vruntime_on(rq, parent_rq, vruntime, now);
	return vruntime;
}

/* 3.0: a task wakes on an idle CPU: how long has that been idle? */
static __always_inline void update_avg_idle(struct run_queue *rq, u64 now)
{
	u64 idle = now - rq->idle_stamp, most = 2 * sched_migration_cost;

	if (!rq->idle_stamp)
		return;
	if (idle > most)
		rq->avg_idle = most;
	else
		rq->avg_idle += (s64)(idle - rq->avg_idle) >> 3;
	rq->idle_stamp = 0;
}

void BPF_STRUCT_OPS(cfs_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = task_ctx_of(p);
	u64 vruntime, clock, now = scx_bpf_now();
	struct run_queue *rq;
	struct arrival a;
	bool first = false;

	if (!t)
		return;

	a = arrival_of(p, t, enq_flags);
	rq = near_run_queue(a.cpu);
	if (!rq)
		return;

	if (a.cpu == bpf_get_smp_processor_id())
		rq->clock = now;
	/* To a waker on another CPU it is as late there as at that CPU's last event */
	clock = most_recent_timestamp(rq, now);
	vruntime = set_task_cpu(rq, t, p, clock);
	update_curr(rq, clock);
	account_enqueue(rq, t, task_weight(p), now);

	if (a.new_task) {
		vruntime = place_new_task(rq, t, &first, clock);
		/* enqueue_entity() charges again, now that the child may have its parent's place */
		update_curr(rq, clock);
		count(STAT_FORKS);
	} else if (a.wakeup) {
		vruntime = place_entity(rq, vruntime);
		count(STAT_WAKEUPS);
		update_avg_idle(rq, now);
	}

	t->wait_start = now;
	scx_bpf_dsq_insert_vtime(p, a.cpu, MAX_RUN, vruntime, enq_flags);

	if (a.put_prev)
		return;
	if (!rq->curr) {
		arrive_where_none_runs(rq, &a, now);
		return;
	}

	/* 2.6.24 picks again after every fork */
	if ((a.new_task && (first || release == RELEASE_2_6_24)) ||
	    (a.changing && t->weight > t->old_weight)) {
		resched_curr(rq);
	} else if (check_preempt_wakeup(rq, p, t->weight, vruntime)) {
		count(STAT_WAKEUP_PREEMPTIONS);
		resched_curr(rq);
	} else if (a.cpu == a.task_cpu) {
		end_slice_at(rq, preempt_tick(rq, true, vruntime, clock + MAX_RUN, clock));
	} else {
		/* That CPU is not locked: make it reschedule */
		scx_bpf_kick_cpu(a.cpu, SCX_KICK_PREEMPT);
	}
}

DEFINE_QUIESCENT(cfs)

/*
 * The original charges at each tick, so it rounds there. A slice has got shorter if the balancer
 * has taken tasks away. dispatch() balances.
 */
void BPF_STRUCT_OPS(cfs_tick, struct task_struct *p)
{
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(p));
	u64 now = scx_bpf_now();

	if (!rq)
		return;
	rq->clock = now;
	update_cpu_load(rq, now);
	update_curr(rq, now);
	if (nr_cpus == 1)
		return;
	rq->balance_at_tick = balancing_is_due(rq, now);
	if (rq->balance_at_tick || check_preempt_tick(rq, now))
		scx_bpf_task_set_slice(p, 0);
}

bool BPF_STRUCT_OPS(cfs_yield, struct task_struct *from, struct task_struct *to)
{
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(from));
	struct task_struct *rightmost;

	if (to || !rq)
		return false;

	count(STAT_YIELDS);
	if (rq->nr_running == 1) {
		/* Only the slice begins anew: schedule() picks the task again */
	} else if (release == RELEASE_3_0) {
		/* Skipped once, unless the next one is too far ahead */
		update_curr(rq, scx_bpf_now());
		clear_buddies(rq, from->pid);
		rq->skip = from->pid;
	} else if (sched_compat_yield || from->policy == SCHED_BATCH) {
		/*
		 * To the end of the queue: just after the rightmost, unless it is there already.
		 * The time since the last charge comes on top, because schedule() charges it.
		 */
		bpf_for_each(scx_dsq, rightmost, rq->cpu, SCX_DSQ_ITER_REV) {
			if (!time_before(rightmost->scx.dsq_vtime, rq->curr_vruntime))
				rq->curr_vruntime = rightmost->scx.dsq_vtime + 1;
			break;
		}
	}
	/* schedule() follows, and picks the leftmost */
	rq->need_resched = true;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/* ---- No task waits for ever (not in CFS) ----------------------------------------------------- */

/*
 * Runs a task that has waited too long, out of turn: a new task among much heavier ones waits for a
 * slice of its own in virtual time, which may be minutes, longer than sched_ext's watchdog allows.
 * True if there is one.
 */
__noinline bool rescue_starved(s32 cpu)
{
	return rescue_from_queue(cpu, SCX_DSQ_ITER_REV, 0);
}

/* ---- Running --------------------------------------------------------------------------------- */

/* 3.0: may @buddy run instead of @left, which is not more than the granularity before it? */
static __always_inline bool buddy_may_run(const struct candidate *buddy,
					  const struct candidate *left)
{
	return buddy->pid && !wakeup_preempt_entity(buddy->vruntime, left->vruntime, left->weight);
}

/* Takes the next one by virtual runtime: is it one of the leftmost two, or a buddy? */
static __always_inline void consider(struct run_queue *rq, const struct candidate *one)
{
	struct candidates *c = &rq->candidates;

	if (!c->left.pid)
		c->left = *one;
	else if (!c->second.pid)
		c->second = *one;
	if (rq->last == one->pid)
		c->last = *one;
	if (rq->next == one->pid)
		c->next = *one;
}

/*
 * pick_next_entity() of 3.0: the leftmost, which is skipped if it has yielded; or the last buddy,
 * whose cache is warm; or the next buddy, whose waker waits for it; if that is not too unfair.
 * @prev is the running task if it may go on; it counts as put back. Moves the choice to the CPU's
 * local queue; returns false if it is @prev or there is none.
 */
__noinline bool pick_next_entity(struct run_queue *rq __arg_nonnull, bool prev)
{
	struct candidate put_back = { rq->curr_vruntime, rq->curr_weight, rq->curr_pid };
	struct candidates *c = &rq->candidates;
	s32 cpu = rq->cpu, choice;
	bool moved = false, to_come = prev;
	struct task_struct *p;
	struct task_ctx *t;

	__builtin_memset(c, 0, sizeof(*c));
	for_each_queued(p, t, cpu, 0) {
		struct candidate waiting = { p->scx.dsq_vtime, t->weight, p->pid };

		/* Of equals the one that waits is before the one that is put back */
		if (to_come && time_before(rq->curr_vruntime, waiting.vruntime)) {
			consider(rq, &put_back);
			to_come = false;
		}
		consider(rq, &waiting);
		if (++c->seen >= 2 && (!rq->last || c->last.pid) && (!rq->next || c->next.pid))
			break;
	}
	if (to_come)
		consider(rq, &put_back);
	if (!c->left.pid)
		return false;

	choice = c->left.pid;
	if (rq->skip == choice && buddy_may_run(&c->second, &c->left))
		choice = c->second.pid;
	if (buddy_may_run(&c->last, &c->left))
		choice = c->last.pid;
	if (buddy_may_run(&c->next, &c->left))
		choice = c->next.pid;
	clear_buddies(rq, choice);
	if (prev && choice == rq->curr_pid)
		return false;
	if (choice == c->left.pid)
		return scx_bpf_dsq_move_to_local(cpu, 0);

	bpf_for_each(scx_dsq, p, cpu, 0) {
		if (p->pid != choice)
			continue;
		moved = scx_bpf_dsq_move(DSQ_ITERATOR, p, SCX_DSQ_LOCAL, 0);
		break;
	}
	return moved || scx_bpf_dsq_move_to_local(cpu, 0);
}

/* The leftmost of 2.6.24: as above. */
static __always_inline bool pick_leftmost(struct run_queue *rq, bool prev)
{
	u64 leftmost;

	/* Of equals the one that waits is before the one that is put back */
	if (prev && (!leftmost_vruntime(rq, &leftmost) || time_before(rq->curr_vruntime, leftmost)))
		return false;
	return scx_bpf_dsq_move_to_local(rq->cpu, 0);
}

static __always_inline bool pick_next(struct run_queue *rq, bool prev, u64 now)
{
	bool moved = release == RELEASE_2_6_24 ? pick_leftmost(rq, prev) :
						 pick_next_entity(rq, prev);

	rq->picked_at = moved ? now : 0;
	return moved;
}

void BPF_STRUCT_OPS(cfs_dispatch, s32 cpu, struct task_struct *prev)
{
	struct run_queue *rq = near_run_queue(cpu);
	bool prev_runs = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	bool idle, balanced = false;
	u64 now = scx_bpf_now();

	if (!rq)
		return;

	idle = !prev && !rq->nr_running;
	rq->picked_at = 0;
	rq->clock = now;
	uncount_real_time(rq, now);
	if (prev_runs) {
		update_curr(rq, now);
		rq->curr_prio = prev->prio;
		/* The tick asks before tasks come or go */
		if (!rq->need_resched && check_preempt_tick(rq, now)) {
			rq->need_resched = true;
			count(STAT_TICK_PREEMPTIONS);
		}
	}

	if (nr_cpus > 1) {
		if (rq->push_cpu && active_load_balance(rq, prev_runs ? prev : NULL, now))
			prev_runs = false;
		if (rq->balance_at_tick || (idle && balancing_is_due(rq, now))) {
			rq->balance_at_tick = false;
			balanced = idle;
			rebalance_domains(rq, idle ? CPU_IDLE : CPU_NOT_IDLE, now);
		}
	}

	if (starvation_check_is_due(&rq->rescue_at, now) && rescue_starved(cpu)) {
		count(STAT_RESCUES);
		return;
	}

	if (prev_runs) {
		if (rq->need_resched) {
			if (pick_next(rq, true, now))
				return;
			rq->slice_exec = 0;
			rq->need_resched = false;
		}
		run_until(rq, prev, preempt_tick(rq, false, 0, now + MAX_RUN, now), now);
		return;
	}

	if (pick_next(rq, false, now))
		return;
	if (nr_cpus > 1 && !balanced) {
		idle_balance(rq, now);
		pick_next(rq, false, now);
	}
}

void BPF_STRUCT_OPS(cfs_running, struct task_struct *p)
{
	struct run_queue *rq = near_run_queue(scx_bpf_task_cpu(p));
	struct task_ctx *t = task_ctx_of(p);
	u64 now;

	if (!rq || !t)
		return;

	now = set_curr_task(rq, t, p);
	t->push_cpu = 0;
	run_until(rq, p, preempt_tick(rq, false, 0, now + MAX_RUN, now), now);
}

void BPF_STRUCT_OPS(cfs_stopping, struct task_struct *p, bool runnable)
{
	struct run_queue *rq = near_run_queue(scx_bpf_task_cpu(p));
	struct task_ctx *t = task_ctx_of(p);

	if (rq && t)
		put_prev_task(rq, t, p, runnable);
}

DEFINE_CPU_RELEASE(cfs)

/* ---- Tasks and the machine ------------------------------------------------------------------- */

DEFINE_INIT_TASK(cfs)

void BPF_STRUCT_OPS(cfs_enable, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(p));

	if (!t || !rq)
		return;
	/* Read before it runs */
	t->weight = task_weight(p);
	begin_level(rq, t);
	/* A running task that comes from another class */
	t->changing = scx_bpf_task_running(p);
	t->old_weight = 0;
	t->slice_exec = 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(cfs_init)
{
	struct run_queue *rq;
	s32 cpu, err;

	init_machine();
	bpf_for(cpu, 0, nr_cpus) {
		rq = run_queue_of(cpu);
		err = rq ? scx_bpf_create_dsq(cpu, NUMA_NO_NODE) : -ENOENT;
		if (err)
			return err;
		init_domains(rq, cpu);
		/* As in the original, so that virtual times soon wrap around */
		rq->min_vruntime = -(1ULL << 20);
	}
	set_constants(nr_online);

	return nr_cpus > 1 ? init_idle_tick() ?: start_idle_tick() : 0;
}

DEFINE_SCHEDULER(cfs,
	CALLBACKS_OF(cfs, select_cpu, enqueue, dispatch, tick, running, stopping, cpu_release,
		     quiescent, yield, init_task, enable, init)
	/* A task that nothing else displaces is put back only to be pushed to another CPU */
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.name = "cfs");
