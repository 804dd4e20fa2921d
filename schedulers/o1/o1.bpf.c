// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * o1 - the O(1) scheduler of Linux 2.6.0 to 2.6.22
 *
 * Two arrays of 140 lists for every CPU: tasks run from the active array, best dynamic priority
 * first, and wait in the expired array once their time slice is used up; when the active array is
 * empty the two change roles. The dynamic priority is the static one (120 + nice) less a bonus of
 * -5 to +5 for the time the task has slept. README.md maps the documents to this file and lists the
 * departures.
 *
 * Variables are named as in the documents. Lists are dispatch queues (DSQs), 40 for each array:
 * real-time priorities 0 to 99 never reach sched_ext.
 */
#include "o1.h"
#include "o1_priority.h"
#include "load_balance.h"

/* Weight of a task in balancing: its slice relative to that of nice 0; in 2.6.2 all are alike. */
static u32 load_weight(s32 static_prio)
{
	if (release == O1_2_6_2)
		return SCHED_LOAD_SCALE;
	return static_prio_timeslice(static_prio) * SCHED_LOAD_SCALE / (timeslice_default() ?: 1);
}

/* ---- The tick -------------------------------------------------------------------------------- */

/* task_running_tick() for one tick: true if the task has to make way. */
static __noinline bool task_running_tick(struct run_queue *rq, struct task_ctx *t, u64 jiffies)
{
	u32 turn;

	/* It has expired but has not been switched away from yet */
	if (is_expired(rq, t))
		return true;

	if (t->time_slice)
		t->time_slice--;
	if (!t->time_slice) {
		count(STAT_SLICES_EXPIRED);
		t->at_head = false;
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
		set_expired(rq, t, true);
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
		t->at_head = false;
		return true;
	}
	return false;
}

/* Charges the running task the ticks since it was last charged; true if it has to make way. */
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
	bpf_for(i, 0, min(jiffies - from, 1000))
		need_resched |= task_running_tick(rq, t, from + 1 + i);
	rq->curr_prio = t->prio;
	return need_resched;
}

/* Time to the tick at which the task's slice ends, nanoseconds */
static __always_inline u64 slice_left(const struct task_ctx *t, u64 now)
{
	return time_to_tick(now, t->rescued ? 1 : t->time_slice ?: 1);
}

/* ---- Counting and queueing ------------------------------------------------------------------- */

static bool balance_tick(void);

DEFINE_TIMER(balance_timer, balance_tick, time_to_tick(scx_bpf_now(), 1))

/* Did the task run so recently that its data may still be in the CPU's cache? */
static __always_inline bool task_hot(const struct task_ctx *t, u32 level, u64 now)
{
	u32 microseconds = level <= LEVEL_MC ? CACHE_HOT_TIME_SHARED :
			   level == LEVEL_CPU ? CACHE_HOT_TIME_CPU : CACHE_HOT_TIME_NODE;

	return (s64)(now - t->last_ran) < (s64)(microseconds * NSEC_PER_USEC);
}

static __always_inline void count_besides(struct run_queue *rq, struct task_ctx *t, s32 number)
{
}

/* Counts a task on a CPU's run queue. */
static __noinline void count_on(struct task_ctx *t, struct run_queue *rq, u64 now)
{
	account_enqueue(rq, t, t->weight, now);
	/*
	 * A task is runnable, so balancing goes on. Also if a task moves: between its two CPUs,
	 * none seemed to be runnable
	 */
	if (balancing_is_off && __sync_lock_test_and_set(&balancing_is_off, 0))
		start_balance_timer();
}

/* Makes @cpu choose its task anew. */
static __always_inline void resched_cpu(s32 cpu, const struct run_queue *rq)
{
	scx_bpf_kick_cpu(cpu, rq->idle ? SCX_KICK_IDLE : SCX_KICK_PREEMPT);
}

/* TASK_PREEMPTS_CURR: strictly better than the running task */
static __always_inline bool task_preempts_curr(const struct task_ctx *t, const struct run_queue *rq)
{
	return t->prio < rq->curr_prio;
}

/* ---- Sleeping and waking up ------------------------------------------------------------------ */

/* most_recent_timestamp: a CPU's clock, which stands still between its ticks and schedule() */
static __always_inline u64 most_recent_timestamp(const struct run_queue *rq, u64 now)
{
	return max(jiffies_to_ns(tick_at(now)), rq->scheduled_at);
}

/* A CPU's time in that of another: their clocks differ by what they last showed */
static u64 time_on(const struct run_queue *to, const struct run_queue *from, u64 time, u64 now)
{
	if (release == O1_2_6_2)
		return time;
	return time - most_recent_timestamp(from, now) + most_recent_timestamp(to, now);
}

/*
 * activate_task(): credits the sleep, even if it seems to end before it began, and updates the
 * priority.
 */
static void activate_task(struct task_struct *p, struct task_ctx *t, struct run_queue *rq, u64 now)
{
	struct run_queue *this_rq = run_queue_of(bpf_get_smp_processor_id());

	if (this_rq && this_rq != rq)
		now = time_on(rq, this_rq, now, now);
	if (t->uninterruptible)
		t->sleep_type = SLEEP_NONINTERACTIVE;
	t->uninterruptible = false;
	t->prio = recalc_task_prio(p, t, now - t->timestamp);
	if (t->sleep_type == SLEEP_NORMAL)
		t->sleep_type = in_interrupt() ? SLEEP_INTERRUPTED : SLEEP_INTERACTIVE;
	t->timestamp = now;
	set_expired(rq, t, release == O1_2_6_22 && batch_task(p));
	t->at_head = false;
}

static __always_inline void begin_run(struct task_ctx *t, u64 now)
{
	t->timestamp = now;
	t->last_ran = now;
	t->charged_until = jiffies_at(now);
}

/* First run after a wake-up: waiting counts as sleep, wholly or in part. The run begins. */
static __always_inline void credit_wait(struct task_struct *p, struct task_ctx *t, u64 now)
{
	u64 waited = elapsed(t->timestamp, now);

	if (t->sleep_type == SLEEP_INTERACTIVE)
		waited = waited * (ON_RUNQUEUE_WEIGHT * 128 / 100) / 128;
	if (t->sleep_type == SLEEP_INTERACTIVE || t->sleep_type == SLEEP_INTERRUPTED)
		t->prio = recalc_task_prio(p, t, waited);
	t->sleep_type = SLEEP_NORMAL;
	begin_run(t, now);
}

/*
 * __activate_task(): queues the task with the credit and the priority that it had when it went to
 * sleep, or was moved.
 */
static __always_inline void activate_without_credit(struct task_ctx *t, struct run_queue *rq)
{
	t->uninterruptible = false;
	set_expired(rq, t, release == O1_2_6_22 && t->batch);
	t->at_head = false;
}

/* ---- Choosing a CPU for a waking task -------------------------------------------------------- */

s32 BPF_STRUCT_OPS(o1_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id();
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return prev_cpu;
	t->sync = wake_flags & SCX_WAKE_SYNC;
	if (nr_online == 1)
		return prev_cpu;
	/* 2.6.2 fetches a task to a waker that is about to sleep */
	if (release == O1_2_6_2 && t->sync && bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr))
		return this_cpu;
	return select_task_rq(p, t, prev_cpu, wake_flags);
}

/* ---- No task waits for ever (not in O(1)) ---------------------------------------------------- */

__noinline bool rescue_from_list(s32 cpu, u32 array, u32 index)
{
	struct task_ctx *t = rescue_from_queue(list_dsq(cpu, array, index), 0, RESCUE_DEPTH);

	if (t)
		t->rescued = true;
	return t;
}

/* Is it time to look for tasks that have waited too long? */
static __always_inline bool rescue_is_due(const struct run_queue *rq, u64 now)
{
	return starvation_limit && rq->nr_running > 1 && !time_before(now, rq->rescue_at);
}

/*
 * Runs a task that has waited too long for one tick: the rules let tasks wait longer than
 * sched_ext's watchdog does. Looks once a second, and again at the next pick if it has found one.
 */
__noinline bool rescue_starved(s32 cpu, u64 now)
{
	struct run_queue *rq = run_queue_of(cpu);
	u32 array, index;

	if (!rq)
		return false;
	for (array = 0; array <= 1; array++) {
		u64 bitmap = rq->bitmap[array];

		bpf_for(index, 0, MAX_USER_PRIO)
			if ((bitmap & (1ULL << index)) && rescue_from_list(cpu, array, index)) {
				count(STAT_RESCUED);
				return true;
			}
	}
	rq->rescue_at = now + RESCUE_INTERVAL;
	return false;
}

/* Has nothing been picked, so no look taken, for a second? Slices may be that long. */
static __always_inline bool rescue_overdue(const struct run_queue *rq, u64 now)
{
	return rescue_is_due(rq, now - RESCUE_INTERVAL);
}

/* ---- Runnable, queued, running, stopped ------------------------------------------------------ */

/*
 * wake_up_new_task(): lowers the credit of child and parent. On the parent's CPU, a child with an
 * address space of its own goes directly in front of its parent: returns true; otherwise it queues
 * like any other.
 */
static __noinline bool wake_up_new_task(struct task_struct *p, struct task_ctx *t,
					struct run_queue *rq, u64 now)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task_ctx *parent_ctx = task_ctx_of(parent);
	u32 step = max_sleep_avg() / MAX_BONUS;

	set_expired(rq, t, release == O1_2_6_22 && batch_task(p));
	t->at_head = false;
	t->timestamp = now;
	if (!parent_ctx || !parent_ctx->running) {
		t->prio = effective_prio(t);
		return false;
	}

	t->sleep_avg = jiffies_to_ns((u64)(current_bonus(t) * CHILD_PENALTY / 100) * step);
	t->prio = effective_prio(t);
	parent_ctx->sleep_avg = jiffies_to_ns((u64)(current_bonus(parent_ctx) *
						    PARENT_PENALTY / 100) * step);

	if (rq->cpu != (s32)bpf_get_smp_processor_id() || p->mm == parent->mm)
		return false;
	t->prio = parent_ctx->prio;
	set_expired(rq, t, is_expired(rq, parent_ctx));
	/* A parent whose slice has ended in sched_fork() is at the end of its list */
	t->at_head = parent_ctx->at_head;
	parent_ctx->child_first = true;
	return true;
}

/* A waking or new task: try_to_wake_up() and wake_up_new_task(), apart from the choice of a CPU. */
static __always_inline void wake_up(struct task_struct *p, struct task_ctx *t, struct run_queue *rq,
				    u64 enq_flags, bool sync, u64 now)
{
	if (t->new) {
		t->new = false;
		if (wake_up_new_task(p, t, rq, now)) {
			count(STAT_CHILDREN_FIRST);
			scx_bpf_kick_cpu(rq->cpu, SCX_KICK_PREEMPT);
		}
	} else if (enq_flags & SCX_ENQ_WAKEUP) {
		count(STAT_WAKEUPS);
		if (release == O1_2_6_2 && sync && rq->cpu == (s32)bpf_get_smp_processor_id())
			activate_without_credit(t, rq);
		else
			activate_task(p, t, rq, now);
	}
}

void BPF_STRUCT_OPS(o1_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_ctx *t = task_ctx_of(p);
	struct run_queue *rq = run_queue_of(cpu);
	u64 now = scx_bpf_now(), slice;
	u32 index;
	bool sync;
	s32 push_cpu;

	if (!t || !rq) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return;
	}
	/* The kernel does not ask ops.select_cpu() for a task that has only one CPU */
	sync = t->sync;
	t->sync = false;
	wake_up(p, t, rq, enq_flags, sync, now);
	slice = slice_left(t, now);

	push_cpu = t->push_cpu;
	t->push_cpu = -1;
	if (push_cpu >= 0) {
		struct run_queue *push_rq = run_queue_of(push_cpu);

		if (push_rq) {
			count(STAT_PUSHED);
			count_on(t, push_rq, now);
			push_rq->pushed_to = true;
			scx_bpf_dsq_insert(p, pushed_dsq(push_cpu), slice, 0);
			resched_cpu(push_cpu, push_rq);
			return;
		}
	}

	/* __migrate_task(): the kernel has moved it here, for instance because of its affinity */
	if (t->array_cpu != cpu && t->uninterruptible)
		activate_task(p, t, rq, now);
	else if (t->array_cpu != cpu)
		activate_without_credit(t, rq);
	count_on(t, rq, now);

	if (!rq->curr && higher_class_runs(cpu))
		count_real_time(rq, now);

	index = prio_index(t->prio);
	set_list_bit(rq, t->array, index);
	/* The task picked when a real-time task came was the first of its list */
	scx_bpf_dsq_insert(p, list_dsq(cpu, t->array, index), slice,
			   t->at_head || (enq_flags & SCX_ENQ_REENQ) ? SCX_ENQ_HEAD : 0);
	t->at_head = false;

	if (!task_preempts_curr(t, rq))
		return;
	/* The waker will leave the CPU soon, and then the task's turn comes anyway */
	if ((enq_flags & SCX_ENQ_WAKEUP) && sync && cpu == (s32)bpf_get_smp_processor_id())
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
	uncount_real_time(rq, now);
	/* A running task whose attributes were changed comes here without having been enqueued */
	if (t->on_rq != cpu + 1)
		count_on(t, rq, now);

	/* Originally the running task stays in its list; a tick out of turn puts it last here */
	if (!t->changing) {
		credit_wait(p, t, now);
		t->at_head = !t->rescued;
	}
	t->changing = false;
	t->running = true;
	rq->scheduled_at = now;
	rq->curr_prio = t->prio;
	rq->curr = true;
	rq->curr_weight = t->weight;
	scx_bpf_task_set_slice(p, slice_left(t, now));
}

/* The part of schedule() about the task that leaves the CPU. */
static void leave_cpu(struct run_queue *rq, struct task_ctx *t, bool runnable, u64 now)
{
	charge_run_time(t, now);
	t->running = false;
	t->rescued = false;
	rq->curr = false;
	rq->prev_prio = runnable ? MAX_PRIO : rq->curr_prio;
	rq->curr_prio = NO_CURRENT;
}

void BPF_STRUCT_OPS(o1_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *t = task_ctx_of(p);
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(p));
	u64 now = scx_bpf_now();

	if (!t || !rq)
		return;
	charge_ticks(rq, t, now);
	/* A new priority comes before schedule(), if that follows, charges the run */
	t->changing = !runnable && p->__state == TASK_RUNNING;
	if (t->changing)
		return;
	leave_cpu(rq, t, runnable, now);
	if (runnable) {
		/* set_cpus_allowed(): it sleeps until the migration thread has moved it */
		if (!bpf_cpumask_test_cpu(rq->cpu, p->cpus_ptr)) {
			t->uninterruptible = true;
			rq->prev_prio = 0;
			rq->scheduled_at = now;
		}
		hand_back(p);
		return;
	}
	/* Kernel threads that sleep without counting as load used to sleep interruptibly */
	t->uninterruptible = (p->__state & TASK_UNINTERRUPTIBLE) && !(p->__state & TASK_NOLOAD);
	account_dequeue_from(rq, t, now);
}

DEFINE_CPU_RELEASE(o1)

void BPF_STRUCT_OPS(o1_tick, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(p));
	u64 now = scx_bpf_now(), charged;
	bool need_resched;

	if (!t || !rq)
		return;
	update_cpu_load(rq, now);
	charged = t->charged_until;
	need_resched = charge_ticks(rq, t, now) || (t->rescued && t->charged_until > charged);
	scx_bpf_task_set_slice(p, need_resched || rescue_overdue(rq, now) ? 0 : slice_left(t, now));
}

bool BPF_STRUCT_OPS(o1_yield, struct task_struct *from, struct task_struct *to)
{
	struct task_ctx *t = task_ctx_of(from);
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(from));

	if (to || !t || !rq)
		return false;
	count(STAT_YIELDS);
	set_expired(rq, t, true);
	t->at_head = false;
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
	/* A task came while the CPU was going idle */
	if (rq->nr_running && (rq->bitmap[0] | rq->bitmap[1]))
		scx_bpf_kick_cpu(cpu, 0);
}

/* ---- Balancing: which tasks move ------------------------------------------------------------- */

/* The rest of the work of move_tasks() */
struct move {
	u32 nr_left;
	/* Array of this CPU into which tasks go */
	u32 target;
	bool ignore_heat;
	s32 this_best_prio;
	s32 best_prio;
	bool best_prio_seen;
};

/*
 * Best priority on a run queue: of the running task (140 if idle), which is the previous one while
 * the CPU schedules, or, static, of the expired array
 */
static __always_inline s32 rq_best_prio(const struct run_queue *rq)
{
	s32 prio = rq->curr_prio == NO_CURRENT ? rq->prev_prio : rq->curr_prio;

	return prio < rq->best_expired_prio ? prio : rq->best_expired_prio;
}

/* Pulls tasks from a list of the busiest CPU, last queued first. Returns how many more may be. */
__noinline u32 move_list(struct run_queue *this_rq __arg_nonnull,
			 struct run_queue *rq __arg_nonnull, struct move *m __arg_nonnull,
			 u32 source, u32 index)
{
	struct balance_attempt *attempt = &this_rq->domains.attempt;
	s32 prio = MAX_RT_PRIO + index, this_cpu = this_rq->cpu;
	struct task_struct *p;
	struct task_ctx *t;

	bpf_rcu_read_lock();
	for_each_queued(p, t, list_dsq(rq->cpu, source, index), SCX_DSQ_ITER_REV) {
		/* Too heavy, unless it would be the best here and is not the only best one there */
		bool skip = t->weight > attempt->imbalance;

		if (skip && prio < m->this_best_prio)
			skip = !m->best_prio_seen && prio == m->best_prio;
		if (!skip && task_allowed(p, this_cpu)) {
			attempt->all_pinned = false;
			skip = !m->ignore_heat &&
			       task_hot(t, attempt->level, most_recent_timestamp(rq, attempt->now));
		} else {
			skip = true;
		}
		if (skip) {
			m->best_prio_seen |= prio == m->best_prio;
			continue;
		}
		if (!scx_bpf_dsq_move(DSQ_ITERATOR, p, list_dsq(this_cpu, m->target, index), 0))
			continue;
		set_array(t, this_rq, m->target);
		t->timestamp = time_on(this_rq, rq, t->timestamp, attempt->now);
		account_move(t, rq, this_rq, attempt->now);
		set_list_bit(this_rq, m->target, index);
		attempt->pulled++;
		attempt->imbalance -= t->weight;
		m->nr_left--;
		if (task_preempts_curr(t, this_rq))
			scx_bpf_kick_cpu(this_cpu, SCX_KICK_PREEMPT);
		if (!m->nr_left || attempt->imbalance <= 0) {
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
 * move_tasks(): pulls waiting tasks from the busiest CPU: from the expired array first, then from
 * the active one, each in order of priority. Pulled tasks keep array and priority. Returns their
 * number.
 */
__noinline s32 move_tasks(struct run_queue *this_rq __arg_nonnull,
			  struct run_queue *rq __arg_nonnull,
			  const struct sched_domain *sd __arg_nonnull)
{
	struct balance_attempt *attempt = &this_rq->domains.attempt;
	struct move m = {};
	struct task_struct *curr;
	int i;

	m.nr_left = rq->nr_running - 1;
	m.ignore_heat = sd->nr_balance_failed > sd->cache_nice_tries;
	m.this_best_prio = rq_best_prio(this_rq);
	m.best_prio = rq_best_prio(rq);
	m.best_prio_seen = m.best_prio == rq->curr_prio;

	/* The running task cannot be pulled; if too heavy, nobody asks whether it may run here */
	attempt->all_pinned = true;
	attempt->pulled = 0;
	bpf_rcu_read_lock();
	curr = scx_bpf_cpu_curr(rq->cpu);
	if (curr && rq->curr && task_allowed(curr, this_rq->cpu) &&
	    (rq->curr_weight <= attempt->imbalance || rq->curr_prio < m.this_best_prio))
		attempt->all_pinned = false;
	bpf_rcu_read_unlock();

	bpf_for(i, 0, 2 * MAX_USER_PRIO) {
		bool expired = i < MAX_USER_PRIO;
		u32 index = expired ? i : i - MAX_USER_PRIO;
		u32 source = (expired ? 1 - rq->active : rq->active) & 1;
		m.target = (expired ? 1 - this_rq->active : this_rq->active) & 1;
		if ((rq->bitmap[source] & (1ULL << index)) &&
		    !move_list(this_rq, rq, &m, source, index))
			break;
	}
	count_by(attempt->idle == CPU_NEWLY_IDLE ? STAT_PULLED_NEWLY_IDLE : STAT_PULLED_PERIODIC,
		 attempt->pulled);
	if (attempt->pulled && attempt->idle != CPU_NEWLY_IDLE && this_rq->idle)
		scx_bpf_kick_cpu(this_rq->cpu, SCX_KICK_IDLE);
	return attempt->pulled;
}

/* True if a task is runnable on some CPU. */
__noinline bool somebody_is_runnable(void)
{
	struct run_queue *rq;
	s32 cpu;

	for_each_rq(rq, cpu, nr_cpus)
		if (rq->nr_running)
			return true;
	return false;
}

/*
 * The part of scheduler_tick() that balances, on behalf of every CPU: sched_ext lets tasks be moved
 * between lists here and in dispatch, but not in ops.tick(), which is not called on idle CPUs at
 * all. Without a runnable task there is nothing to balance, and the timer stays off until there is
 * one.
 */
static bool balance_tick(void)
{
	u64 now = scx_bpf_now();
	struct run_queue *rq;
	s32 cpu;

	for_each_rq(rq, cpu, nr_cpus) {
		if (!rq->exists)
			continue;
		bpf_rcu_read_lock();
		notice_real_time(rq, now);
		bpf_rcu_read_unlock();
		if (balancing_is_due(rq, now))
			rebalance_domains(rq, rq->idle ? CPU_IDLE : CPU_NOT_IDLE, now);
	}

	if (!somebody_is_runnable()) {
		__sync_lock_test_and_set(&balancing_is_off, 1);
		/* A task that became runnable before that has not seen it */
		if (!somebody_is_runnable() || !__sync_lock_test_and_set(&balancing_is_off, 0))
			return false;
	}
	return true;
}

/* ---- Picking the next task ------------------------------------------------------------------- */

/* Accepts the tasks that other CPUs have pushed here; sends back those not allowed here. */
static __noinline void accept_pushed(s32 cpu, struct run_queue *rq)
{
	struct task_struct *p;
	struct task_ctx *t;
	bool seen = false;

	for_each_queued(p, t, pushed_dsq(cpu), 0) {
		s32 target = cpu;
		struct run_queue *target_rq = rq;
		u32 index;

		seen = true;
		if (!task_allowed(p, cpu)) {
			target = scx_bpf_task_cpu(p);
			target_rq = run_queue_of(target);
		}
		if (!target_rq)
			continue;
		index = prio_index(t->prio);
		set_expired(target_rq, t, false);
		if (!scx_bpf_dsq_move(DSQ_ITERATOR, p, list_dsq(target, t->array, index), 0))
			continue;
		if (target != cpu)
			count_on(t, target_rq, scx_bpf_now());
		set_list_bit(target_rq, t->array, index);
		if (target != cpu)
			resched_cpu(target, target_rq);
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

/* Result of a pick */
enum pick {
	PICK_NONE,
	/* The previous task goes on */
	PICK_PREV,
	PICK_OTHER,
};

/*
 * The first task of the first list that has one, in the active array: moves it to this CPU's local
 * queue. @prev is the previous task if it is still runnable; it is in no list but counts as if it
 * were in its own.
 */
static __noinline enum pick pick_next(s32 cpu, struct run_queue *rq, struct task_ctx *prev)
{
	int i;

	/* Only bits of lists emptied by others are left. An idle CPU's arrays stay */
	if (!prev && !rq->nr_running)
		return PICK_NONE;

	/*
	 * Each round but the last clears a bit or switches arrays, for the first time or after the
	 * active one was empty
	 */
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
		index = bitmap ? __builtin_ctzll(bitmap) : MAX_USER_PRIO;
		if (prev_active) {
			prev_index = prio_index(prev->prio);
			if (prev_index < index)
				return PICK_PREV;
			if (prev_index == index && prev->at_head && !prev->child_first &&
			    prev->push_cpu < 0)
				return PICK_PREV;
		}
		if (scx_bpf_dsq_move_to_local(list_dsq(cpu, active, index), 0)) {
			picked_from_list(rq, active, index, prev != NULL);
			return PICK_OTHER;
		}
		clear_list_bit(rq, active, index);
	}
	return prev ? PICK_PREV : PICK_NONE;
}

void BPF_STRUCT_OPS(o1_dispatch, s32 cpu, struct task_struct *prev)
{
	struct run_queue *rq = run_queue_of(cpu);
	struct task_ctx *t = NULL;
	u64 now = scx_bpf_now();
	enum pick pick;

	if (!rq)
		return;
	uncount_real_time(rq, now);
	if (rq->pushed_to)
		accept_pushed(cpu, rq);
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		t = task_ctx_of(prev);
		if (t)
			charge_ticks(rq, t, now);
	}

	if (rq->push_cpu) {
		s32 push_cpu = rq->push_cpu - 1;

		rq->push_cpu = 0;
		if (t && task_allowed(prev, push_cpu)) {
			t->push_cpu = push_cpu;
			pick_next(cpu, rq, NULL);
			return;
		}
	}

	if (rescue_is_due(rq, now) && rescue_starved(cpu, now)) {
		if (t)
			t->child_first = false;
		return;
	}

	pick = pick_next(cpu, rq, t);
	if (pick == PICK_NONE && nr_online > 1) {
		idle_balance(rq, now);
		rq->prev_prio = MAX_PRIO;
		pick = pick_next(cpu, rq, NULL);
	}
	rq->scheduled_at = now;
	if (pick == PICK_PREV && t) {
		charge_run_time(t, now);
		t->at_head = true;
		t->child_first = false;
		t->rescued = false;
		rq->curr_prio = t->prio;
		scx_bpf_task_set_slice(prev, slice_left(t, now));
	} else if (t) {
		t->child_first = false;
	}
}

/* ---- Fork, exit, nice ------------------------------------------------------------------------ */

/* sched_fork(): parent and child share the rest of the parent's slice. Runs in the parent. */
static __always_inline void sched_fork(struct task_ctx *t, u64 now)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	s32 cpu = bpf_get_smp_processor_id();
	struct run_queue *rq = run_queue_of(cpu);
	struct task_ctx *parent_ctx = task_ctx_of(parent);

	if (!parent_ctx || !parent_ctx->running || !rq)
		return;
	if (charge_ticks(rq, parent_ctx, now))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	t->sleep_avg = parent_ctx->sleep_avg;
	/* A copy of its parent, it is as hot */
	t->last_ran = most_recent_timestamp(rq, now);
	t->time_slice = (parent_ctx->time_slice + 1) / 2;
	t->first_time_slice = true;
	parent_ctx->time_slice /= 2;
	if (!parent_ctx->time_slice) {
		parent_ctx->time_slice = 1;
		if (task_running_tick(rq, parent_ctx, jiffies_at(now))) {
			rq->curr_prio = parent_ctx->prio;
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		}
	}
}

s32 BPF_STRUCT_OPS(o1_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *t;

	t = new_task_ctx(p);
	if (!t)
		return -ENOMEM;
	t->static_prio = static_prio_of(p);
	t->batch = batch_task(p);
	t->weight = load_weight(t->static_prio);
	t->time_slice = task_timeslice(t);
	t->timestamp = scx_bpf_now();
	t->last_ran = t->timestamp;
	t->push_cpu = -1;
	t->array_cpu = -1;
	t->left_after = p->se.sum_exec_runtime;
	if (args->fork) {
		t->new = true;
		sched_fork(t, t->timestamp);
	}
	t->prio = effective_prio(t);
	return 0;
}

/* sched_exit(): a first slice's rest returns to the parent; one of hogs gets less interactive. */
void BPF_STRUCT_OPS(o1_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_struct *parent = p->real_parent;
	struct task_ctx *t = task_ctx_of(p), *parent_ctx = parent ? task_ctx_of(parent) : NULL;

	if (!t || !parent_ctx || args->cancelled || !(p->flags & PF_EXITING))
		return;
	if (t->first_time_slice &&
	    (release != O1_2_6_22 || scx_bpf_task_cpu(p) == scx_bpf_task_cpu(parent))) {
		count(STAT_SLICES_RETURNED);
		parent_ctx->time_slice = min(parent_ctx->time_slice + t->time_slice,
					     task_timeslice(t));
	}
	if (t->sleep_avg < parent_ctx->sleep_avg)
		parent_ctx->sleep_avg = parent_ctx->sleep_avg / (EXIT_WEIGHT + 1) * EXIT_WEIGHT +
					t->sleep_avg / (EXIT_WEIGHT + 1);
}

/* The task ends, or leaves for another class, possibly while waiting. */
void BPF_STRUCT_OPS(o1_disable, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(p));
	u64 now = scx_bpf_now();

	if (!t || !rq)
		return;
	if (t->changing)
		leave_cpu(rq, t, true, now);
	t->changing = false;
	t->array_cpu = -1;
	t->left_after = p->se.sum_exec_runtime;
	account_dequeue(t, now);
}

/* set_user_nice(): a new static priority and what follows; also when a task comes to sched_ext. */
void BPF_STRUCT_OPS(o1_set_weight, struct task_struct *p, u32 weight)
{
	struct task_ctx *t = task_ctx_of(p);
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(p));
	s32 static_prio = static_prio_of(p);
	bool batch = batch_task(p), running = scx_bpf_task_running(p);
	u64 now = scx_bpf_now();
	s32 old_prio;

	if (!t || !rq || (t->array_cpu >= 0 && t->static_prio == static_prio && t->batch == batch))
		return;
	old_prio = t->prio;
	/* It has run in another class */
	if (t->array_cpu < 0 && p->se.sum_exec_runtime > t->left_after)
		pay_for_run(t, p->se.sum_exec_runtime - t->left_after);
	/* It is queued again with the weight it has then */
	account_dequeue(t, now);
	t->static_prio = static_prio;
	t->weight = load_weight(static_prio);
	/* In 2.6.2 the bonus is lost until it is next computed */
	t->prio = release == O1_2_6_22 ? effective_prio(t) : static_prio;
	/* A real-time priority was better than any here */
	if (t->array_cpu < 0 && running) {
		t->changing = true;
		begin_run(t, now);
		old_prio = 0;
	}
	/* __setscheduler(): a batch task loses its credit; one of another policy is queued again */
	if (t->array_cpu < 0 || (t->batch != batch && release == O1_2_6_22)) {
		if (batch && release == O1_2_6_22)
			t->sleep_avg = 0;
		set_expired(rq, t, batch && release == O1_2_6_22);
	}
	t->batch = batch;
	/* To the end of its list; others that come while it still runs will be behind it */
	t->at_head = !scx_bpf_dsq_nr_queued(list_dsq(rq->cpu, t->array, prio_index(t->prio)));
	if (running && t->prio != old_prio)
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
}

/* ---- Start ----------------------------------------------------------------------------------- */

/* Starts one CPU: its queues, empty arrays, balancing due from now on. */
static s32 init_cpu(s32 cpu)
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
	rq->best_expired_prio = MAX_PRIO;
	rq->curr_prio = NO_CURRENT;
	rq->prev_prio = MAX_PRIO;
	init_domains(rq, cpu);
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(o1_init)
{
	s32 error;
	int cpu;

	init_machine();
	bpf_for(cpu, 0, nr_cpus) {
		error = init_cpu(cpu);
		if (error) {
			scx_bpf_error("cannot create the lists of CPU %d: error %d", cpu, error);
			return error;
		}
	}
	if (nr_online == 1)
		return 0;
	return init_balance_timer() ?: start_balance_timer();
}

DEFINE_SCHEDULER(o1,
	CALLBACKS_OF(o1, select_cpu, enqueue, dispatch, tick, running, stopping, cpu_release, yield,
		     set_weight, update_idle, init_task, exit_task, disable, init)
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE | SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING |
		 SCX_OPS_ENQ_MIGRATION_DISABLED,
	.name = "o1");
