// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * bmqs - Davide Libenzi's Balanced Multi Queue Scheduler for Linux 2.5, second version
 *
 * Each CPU has its own list of runnable tasks and chooses from it by goodness, as Linux 2.4 did
 * from its only list. A task belongs to its CPU: it wakes there, and nothing looks for an idle CPU.
 * Only idle CPUs look around, at every tick: one takes a task from a CPU that it has found
 * overloaded N times in a row, where N is the distance between the two in ticks. Global real-time
 * tasks have a list of their own and may preempt on any CPU.
 *
 * Names are those of the document and of kernel/sched.c of that time. README.md lists the
 * mechanisms' places and the departures.
 */
#include "bmqs.h"
#include "cpu_distance.h"
#include "global_realtime.h"

/* ---- Attributes and counts ------------------------------------------------------------------- */

/* Reads from the task's attributes, which may change at any time, whether it is real-time. */
static __always_inline void read_attributes(struct task_struct *p, struct task_ctx *t)
{
	const struct task_attributes *attributes = attributes_of(p);

	t->realtime = REALTIME_NONE;
	if (!asks_for_realtime(attributes))
		return;
	t->realtime = attributes->realtime_kind;
	t->rt_priority = attributes->realtime_priority;
}

static __always_inline void add_to_length(s32 qid, u32 number)
{
	struct run_queue *rq = run_queue_of(qid);

	if (qid == RT_QID)
		__sync_fetch_and_add(&rt_qnr_running, number);
	else if (rq)
		__sync_fetch_and_add(&rq->qnr_running, number);
}

/* Counts the task in the length of run queue @qid, and no other. */
static __noinline void count_on(struct task_ctx *t, s32 qid)
{
	s32 old = __sync_lock_test_and_set(&t->counted_on, qid);

	if (old == qid)
		return;
	add_to_length(old, -1);
	add_to_length(qid, 1);
}

/* ---- Time slices ----------------------------------------------------------------------------- */

/*
 * Time slice of a nice value: linear from MIN_NICE_TSLICE for 19 to MAX_NICE_TSLICE for -20, in
 * whole ticks, at least one.
 */
static __always_inline s32 nice_to_ticks(s32 nice)
{
	u64 step = max_nice_tslice > min_nice_tslice ?
		   (max_nice_tslice - min_nice_tslice) / nice_tslice_steps : 0;
	u64 ticks = (min_nice_tslice + step * (u32)(MAX_NICE - nice)) * hz / 1000000;

	return ticks ?: 1;
}

/*
 * expire_task() for the timer ticks since the running task last paid: the tick that takes the last
 * of the slice also takes a point.
 */
static __noinline void charge_ticks(struct task_ctx *t, struct run_queue *rq, u64 now)
{
	u64 ticks = ticks_between(t->counter.paid_until, now);
	s32 had = t->counter.left;

	pay_ticks(&t->counter, now);
	if (ticks && !t->counter.left && had && t->dyn_prio > 0)
		t->dyn_prio--;
	if (ticks && (!t->counter.left || t->rescued))
		rq->need_resched = true;
}

/*
 * Lets @p run until the tick at which the timer would ask for another task. The running kernel
 * checks the slice only at its own ticks; idle_tick() ends it at this scheduler's ticks.
 */
static __always_inline void run_slice_down(struct task_struct *p, const struct task_ctx *t,
					   struct run_queue *rq, u64 now)
{
	s32 ticks = t->counter.left > 0 && !t->rescued ? t->counter.left : 1;

	rq->slice_end = tick_at(now) + ticks;
	run_for_ticks(p, ticks, now);
}

/* ---- Goodness -------------------------------------------------------------------------------- */

/*
 * How good it is to run @p on a CPU where the address space @this_mm is loaded:
 *
 *	-1	yields; after every other task
 *	0	runnable, but its slice is used up
 *	else	dyn_prio + 1 + 20 - nice, and 1 more if no address space has to be loaded
 *	1000	and more: real time
 */
static __always_inline s32 goodness(struct task_struct *p, const struct task_ctx *t, u64 this_mm,
				    u64 now)
{
	s32 weight;

	if (is_realtime(t))
		return REALTIME_GOODNESS + t->rt_priority;
	if (t->yielding)
		return -1;
	if (!ticks_left_at(&t->counter, now))
		return 0;
	weight = t->dyn_prio + 1;
	if ((u64)p->mm == this_mm || !p->mm)
		weight += mm_affinity_bonus;
	return weight + 20 - nice_of(p);
}

/* The gain of a CPU from running @p instead of @current_task. */
static __always_inline s32 preemption_goodness(struct task_struct *current_task,
					       const struct task_ctx *current_data,
					       struct task_struct *p, const struct task_ctx *t,
					       u64 this_mm, u64 now)
{
	return goodness(p, t, this_mm, now) - goodness(current_task, current_data, this_mm, now);
}

/* ---- Dual queue ------------------------------------------------------------------------------ */

/*
 * Which list of its queue a task belongs in. The document classifies tasks by 2.4's counter, to
 * which sleeping adds slices. Here sleeping adds points instead, each of which counts as a slice.
 */
static __always_inline u64 list_for(const struct task_struct *p, const struct task_ctx *t)
{
	s32 slice = nice_to_ticks(nice_of(p));
	s32 counter = t->counter.left + t->dyn_prio * slice;

	if (!dual_queue || is_realtime(t))
		return 0;
	return counter <= (s32)(dual_queue_threshold ?: nice_to_ticks(0)) ? CPU_BOUND : 0;
}

static __always_inline bool is_cpu_bound(const struct task_ctx *t)
{
	return t->place & CPU_BOUND;
}

/* move_last_runqueue(), and its counterpart for the front: both stay within the task's list */
static __always_inline void move_last_runqueue(struct task_ctx *t)
{
	t->place = place_at_end() | (t->place & CPU_BOUND);
}

static __always_inline void move_first_runqueue(struct task_ctx *t)
{
	t->place = place_at_front() | (t->place & CPU_BOUND);
}

/* With DUAL_QUEUE_FIFO, CPU-bound tasks run in the order in which they used up their slices. */
static __always_inline bool in_fifo(const struct task_ctx *t)
{
	return dual_queue == DUAL_QUEUE_FIFO && is_cpu_bound(t);
}

/* ---- Waking up ------------------------------------------------------------------------------- */

/* A task gets a point for each recalculation missed on its queue, up to max_dynprio. */
static __always_inline void collect_dyn_prio(struct task_ctx *t)
{
	struct run_queue *rq = run_queue_of(t->task_qid);
	s32 gained, limit = max_dynprio;

	if (!rq)
		return;
	gained = rq->rcl_curr - t->rcl_last;
	if (gained > limit - t->dyn_prio)
		gained = limit - t->dyn_prio;
	t->rcl_last = rq->rcl_curr;
	if (gained <= 0)
		return;
	t->dyn_prio += gained;
	count_by(STAT_DYN_PRIO_GAINED, gained);
}

/* Makes a run queue the task's own. Each counts its own recalculations: a move gains no points. */
static __always_inline void belong_to(struct task_ctx *t, s32 qid)
{
	struct run_queue *rq = run_queue_of(qid);

	t->task_qid = qid;
	t->rcl_last = rq ? rq->rcl_curr : 0;
	move_first_runqueue(t);
}

/* The queue of a task that becomes runnable or waits again: its own if it may run there. */
static __always_inline s32 queue_for(struct task_struct *p, const struct task_ctx *t)
{
	s32 cpu = t->task_qid;
	u32 any;

	if (is_global(t))
		return RT_QID;
	if (cpu < 0)
		cpu = t->processor;
	if (can_schedule(p, cpu))
		return cpu;
	cpu = scx_bpf_task_cpu(p);
	if (can_schedule(p, cpu))
		return cpu;
	any = bpf_cpumask_first(p->cpus_ptr);
	return can_schedule(p, any) ? (s32)any : cpu;
}

/* Sets need_resched of @cpu and, unless it was set, sends an interrupt. */
static __always_inline void resched_cpu(struct run_queue *rq, s32 cpu, u64 kick_flags)
{
	if (!__sync_lock_test_and_set(&rq->need_resched, 1))
		scx_bpf_kick_cpu(cpu, kick_flags);
}

/* For ordinary and local real-time tasks: considers only the CPU that the task belongs to. */
static __always_inline void std_reschedule_idle(struct task_struct *p, const struct task_ctx *t)
{
	s32 best_cpu = t->task_qid;
	struct run_queue *rq = run_queue_of(best_cpu);
	struct task_ctx *current_data;
	struct task_struct *tsk;

	tsk = rq ? scx_bpf_cpu_curr(best_cpu) : NULL;
	if (!tsk)
		return;
	if (is_idle(tsk)) {
		count(STAT_IDLE_RESCHEDULES);
		/* The kernel itself interrupts the CPU on which it wakes a task. */
		if (best_cpu != scx_bpf_task_cpu(p))
			scx_bpf_kick_cpu(best_cpu, SCX_KICK_IDLE);
		return;
	}
	/* The kernel's real-time tasks are above this scheduler. */
	if (tsk->pid == p->pid || !is_ordinary(tsk))
		return;
	current_data = task_ctx_of(tsk);
	if (current_data &&
	    preemption_goodness(tsk, current_data, p, t, rq->active_mm, scx_bpf_now()) > 0) {
		count(STAT_PREEMPTIONS);
		resched_cpu(rq, best_cpu, SCX_KICK_PREEMPT);
	}
}

/* A task wakes where it belongs; a new one is placed. */
s32 BPF_STRUCT_OPS(bmqs_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu, this_cpu = bpf_get_smp_processor_id();
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return prev_cpu;
	if (!(wake_flags & SCX_WAKE_FORK))
		return t->task_qid >= 0 && can_schedule(p, t->task_qid) ? t->task_qid : prev_cpu;

	if (!can_schedule(p, this_cpu))
		this_cpu = prev_cpu;
	cpu = task_cpu_place(p, this_cpu);
	if (cpu != this_cpu)
		count(STAT_FORKS_PLACED_ELSEWHERE);
	belong_to(t, cpu);
	t->processor = cpu;
	return cpu;
}

/* add_to_runqueue(): gives the task the points it has missed, and puts it at the front. */
void BPF_STRUCT_OPS(bmqs_runnable, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = task_ctx_of(p);

	if (!t || t->listed)
		return;
	t->listed = true;
	collect_dyn_prio(t);
	move_first_runqueue(t);
}

void BPF_STRUCT_OPS(bmqs_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return;
	count_on(t, NO_QUEUE);
	if (deq_flags & SCX_DEQ_SLEEP)
		t->listed = false;
}

/* A task waits: it was woken, forked, changed or moved, or has lost its CPU and keeps its place. */
void BPF_STRUCT_OPS(bmqs_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = expected_task_ctx(p);
	u64 now = scx_bpf_now();
	bool put_prev;
	s32 qid;

	if (!t)
		return;
	put_prev = t->put_prev;
	t->put_prev = false;
	t->yielding = false;

	read_attributes(p, t);
	qid = queue_for(p, t);
	if (qid != t->task_qid) {
		/* If it has become a global real-time task, it enters their list as if it woke. */
		put_prev &= qid != RT_QID;
		belong_to(t, qid);
	}
	count_on(t, qid);
	t->place = (t->place & ~CPU_BOUND) | list_for(p, t);
	if (in_fifo(t) && !t->counter.left)
		move_last_runqueue(t);
	t->waiting_since = now;
	t->fresh = is_global(t) && !put_prev;
	scx_bpf_dsq_insert_vtime(p, list_dsq(qid), tick_length(), t->place, enq_flags);

	if (put_prev)
		return;
	if (!is_global(t)) {
		std_reschedule_idle(p, t);
	} else {
		count(STAT_RT_WAKEUPS);
		__sync_fetch_and_add(&grt_chkp, 1);
		rtt_reschedule_idle(p);
	}
}

/* ---- The idle CPUs' tick --------------------------------------------------------------------- */

/*
 * The timer tick, also for idle CPUs, which get none from the kernel. sched_wake_idle(): every idle
 * CPU calls schedule().
 */
static bool idle_tick(void)
{
	u64 now = scx_bpf_now();
	s32 cpu;

	recheck_realtime(now);
	bpf_for(cpu, 0, nr_cpus) {
		struct run_queue *rq = run_queue_of(cpu);

		if (!rq)
			continue;
		if (rq->slice_end) {
			/* The slice ends here, at any tick rate of the running kernel. */
			if (tick_at(now) >= rq->slice_end)
				scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		} else if (rq->online && num_online_cpus > 1) {
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		}
	}
	return true;
}

DEFINE_TIMER(idle_timer, idle_tick, time_to_tick(scx_bpf_now(), 1))

/* ---- Picking the next task ------------------------------------------------------------------- */

/* The task that schedule() has found */
struct choice {
	s32 cpu;
	u64 this_mm;
	u64 now;
	/* Best task so far: a waiting one, the one that ran until now (prev_wins), or NOTHING. */
	s32 weight;
	u64 place;
	bool prev_wins;
	/* A waiting task has been moved to the CPU */
	bool moved;
};

/*
 * A task of the first list with slice left is better than all of the second; in a FIFO, all tasks
 * with slice left are equal.
 */
#define FIRST_LIST_WEIGHT 200

static __always_inline s32 weigh(struct task_struct *p, const struct task_ctx *t,
				 const struct choice *c)
{
	s32 weight;

	if (in_fifo(t) && !t->yielding)
		return ticks_left_at(&t->counter, c->now) != 0;
	weight = goodness(p, t, c->this_mm, c->now);
	return weight > 0 && !is_cpu_bound(t) ? weight + FIRST_LIST_WEIGHT : weight;
}

/* The task that ran until now is in no list, but counts as if it were at its place. */
static __always_inline void begin_with_prev(struct choice *c, struct task_struct *prev,
					    const struct task_ctx *t)
{
	count(STAT_LIST_STEPS);
	c->weight = weigh(prev, t, c);
	c->place = t->place;
	c->prev_wins = true;
}

/*
 * Walks over a list and moves the best task to the CPU if it has slice left. In a FIFO only the
 * first task that may run here counts.
 */
__noinline int scan_list(struct choice *c __arg_nonnull, s32 qid)
{
	struct task_struct *p, *next = NULL;
	struct bpf_iter_scx_dsq it;
	u64 steps = 0;

	bpf_iter_scx_dsq_new(&it, list_dsq(qid), 0);
	while ((p = bpf_iter_scx_dsq_next(&it))) {
		struct task_ctx *t = task_ctx_of(p);
		s32 weight;

		if (!t)
			continue;
		if (is_cpu_bound(t) && c->weight > FIRST_LIST_WEIGHT)
			break;
		steps++;
		if (!can_schedule(p, c->cpu))
			continue;
		weight = weigh(p, t, c);
		/* The first one wins among equals */
		if ((weight > c->weight || (weight == c->weight && t->place < c->place)) &&
		    keep_task(&next, p)) {
			c->weight = weight;
			c->place = t->place;
			c->prev_wins = false;
		}
		if (in_fifo(t))
			break;
	}
	count_by(STAT_LIST_STEPS, steps);
	if (c->prev_wins || !c->weight)
		end_walk(&it, next);
	else
		c->moved = take_task(&it, next);
	return 0;
}

/* A task that is runnable at a recalculation gets a full slice, and no point. */
static __always_inline void refill(struct task_struct *p, struct task_ctx *t,
				   const struct run_queue *rq)
{
	t->counter.left = nice_to_ticks(nice_of(p));
	t->rcl_last = rq->rcl_curr;
}

/*
 * New slices for the runnable tasks of this run queue only: sleepers collect points instead. With
 * two lists, a new slice may make a task I/O-bound.
 */
__noinline int recalculate(s32 cpu)
{
	struct run_queue *rq = run_queue_of(cpu);
	struct task_struct *p;
	u64 tasks = 0;

	if (!rq)
		return 0;
	count(STAT_RECALCULATIONS);
	rq->rcl_curr++;
	bpf_for_each(scx_dsq, p, list_dsq(cpu), 0) {
		struct task_ctx *t = task_ctx_of(p);

		/* Already refilled, before it moved to the other list */
		if (!t || t->rcl_last == rq->rcl_curr)
			continue;
		read_attributes(p, t);
		refill(p, t, rq);
		tasks++;
		if (list_for(p, t) == (t->place & CPU_BOUND))
			continue;
		t->place ^= CPU_BOUND;
		scx_bpf_dsq_move_set_vtime(DSQ_ITERATOR, t->place);
		scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p, list_dsq(cpu), 0);
	}
	count_by(STAT_RECALCULATED_TASKS, tasks);
	return 0;
}

/* Nobody waits for ever (not BMQS's). Global real-time tasks go first. */
__noinline bool rescue_starved(s32 cpu)
{
	struct task_ctx *t = rescue_from_queue(list_dsq(RT_QID), 0, 0) ?:
			     rescue_from_queue(list_dsq(cpu), 0, 0);

	if (!t)
		return false;
	t->rescued = true;
	count(STAT_RESCUES);
	return true;
}

/*
 * schedule(): a waiting global real-time task, if any has woken since this CPU's checkpoint;
 * otherwise the best task of this CPU's run queue; otherwise one from another CPU.
 */
void BPF_STRUCT_OPS(bmqs_dispatch, s32 cpu, struct task_struct *prev)
{
	struct run_queue *rq = run_queue_of(cpu);
	struct task_ctx *prev_data = NULL;
	u64 now = scx_bpf_now();
	s32 attempt;

	if (!rq)
		return;
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED) && can_schedule(prev, cpu))
		prev_data = task_ctx_of(prev);
	if (prev && prev_data) {
		charge_ticks(prev_data, rq, now);
		/* The task got a new slice after the kernel's was set. */
		if (prev_data->counter.left && !rq->need_resched) {
			run_slice_down(prev, prev_data, rq, now);
			return;
		}
		/* SCHED_RR: the next one's turn */
		if (!prev_data->counter.left && is_realtime(prev_data) &&
		    realtime_policy != REALTIME_FIFO) {
			prev_data->counter.left = nice_to_ticks(nice_of(prev));
			move_last_runqueue(prev_data);
		}
		if (!prev_data->counter.left && in_fifo(prev_data))
			move_last_runqueue(prev_data);
	}
	__sync_lock_test_and_set(&rq->need_resched, 0);
	if (starvation_check_is_due(&rq->rescue_at, now) && rescue_starved(cpu))
		return;

	bpf_for(attempt, 0, WALKS) {
		struct choice c = { .cpu = cpu, .this_mm = rq->active_mm, .now = now,
				    .weight = NOTHING };
		u64 chkp = grt_chkp;

		count(STAT_SCHEDULES);
		/* rt_queue_select: the best waiting global real-time task, unless all have a CPU */
		if (chkp != rq->rtt_chkp && rt_qnr_running) {
			if (prev && prev_data && is_global(prev_data))
				begin_with_prev(&c, prev, prev_data);
			scan_list(&c, RT_QID);
			if (c.weight == NOTHING) {
				count(STAT_RT_CHECKPOINTS);
				rq->rtt_chkp = chkp;
			}
		}
		if (c.weight == NOTHING) {
			if (prev && prev_data)
				begin_with_prev(&c, prev, prev_data);
			scan_list(&c, cpu);
		}

		if (c.weight == NOTHING) {
			if (num_online_cpus > 1 && get_remote_task(cpu))
				continue;
			return;
		}
		if (!c.weight) {
			recalculate(cpu);
			if (prev && prev_data) {
				refill(prev, prev_data, rq);
				count(STAT_RECALCULATED_TASKS);
			}
			continue;
		}
		if (c.prev_wins) {
			if (prev && prev_data) {
				prev_data->yielding = false;
				run_slice_down(prev, prev_data, rq, now);
			}
			return;
		}
		if (c.moved)
			return;
	}
	/* Other CPUs were faster every time. */
	scx_bpf_dsq_move_to_local(list_dsq(cpu), 0);
}

/* ---- Running --------------------------------------------------------------------------------- */

void BPF_STRUCT_OPS(bmqs_running, struct task_struct *p)
{
	s32 qid, cpu = scx_bpf_task_cpu(p);
	struct run_queue *rq = run_queue_of(cpu);
	struct task_ctx *t = task_ctx_of(p);
	u64 now = scx_bpf_now();

	if (!t || !rq)
		return;
	qid = is_global(t) ? RT_QID : cpu;
	if (t->task_qid != qid)
		belong_to(t, qid);
	count_on(t, qid);
	t->processor = cpu;
	start_paying_ticks(&t->counter, now);
	t->put_prev = false;
	t->fresh = false;
	t->run_jtime = tick_at(now);
	if (p->mm)
		rq->active_mm = (u64)p->mm;
	run_slice_down(p, t, rq, now);
}

void BPF_STRUCT_OPS(bmqs_stopping, struct task_struct *p, bool runnable)
{
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(p));
	struct task_ctx *t = task_ctx_of(p);
	u64 now = scx_bpf_now();

	if (!t || !rq)
		return;
	charge_ticks(t, rq, now);
	t->counter.running = false;
	t->rescued = false;
	rq->slice_end = 0;
	t->run_jtime = tick_at(now);
	t->put_prev = runnable;
	/*
	 * A task displaced by one of the kernel's real-time tasks also goes back to its list, and
	 * is not kept in front.
	 */
	if (runnable)
		hand_back(p);
}

void BPF_STRUCT_OPS(bmqs_tick, struct task_struct *p)
{
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(p));
	struct task_ctx *t = task_ctx_of(p);
	u64 now = scx_bpf_now();

	if (!t || !rq)
		return;
	read_attributes(p, t);
	if (is_global(t) != (t->task_qid == RT_QID)) {
		belong_to(t, is_global(t) ? RT_QID : scx_bpf_task_cpu(p));
		count_on(t, t->task_qid);
		__sync_fetch_and_add(&grt_chkp, is_global(t));
	}
	charge_ticks(t, rq, now);
	if (rq->need_resched)
		scx_bpf_task_set_slice(p, 0);
	else
		run_slice_down(p, t, rq, now);
}

/*
 * sched_yield(): does nothing unless another task is in the run queue. The yielder loses the rest
 * of its slice and a point, waits for the next recalculation and keeps its place. A real-time task,
 * or any task under the yield rule of 2.5.1, instead keeps its slice and goes to the end of the
 * list. Yielding to a given task came later.
 */
bool BPF_STRUCT_OPS(bmqs_yield, struct task_struct *from, struct task_struct *to)
{
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(from));
	struct task_ctx *t = task_ctx_of(from);

	if (to || !t || !rq || (t->task_qid == RT_QID ? rt_qnr_running : rq->qnr_running) < 2)
		return false;
	count(STAT_YIELDS);
	charge_ticks(t, rq, scx_bpf_now());
	t->yielding = !is_realtime(t);
	if (is_realtime(t) || yield_rule == YIELD_OLD) {
		move_last_runqueue(t);
	} else {
		t->counter.left = 0;
		if (t->dyn_prio > 0) {
			t->dyn_prio--;
			count(STAT_YIELD_POINTS_LOST);
		}
	}
	rq->need_resched = true;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/* ---- Fork and exit --------------------------------------------------------------------------- */

/*
 * do_fork(): parent and child share the rest of the parent's ticks; the child gets the odd tick. A
 * parent left with nothing gives way. The child inherits the points.
 */
static __always_inline void share_slice(struct task_ctx *t)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task_ctx *parent_data = task_ctx_of(parent);
	u64 now = scx_bpf_now();
	struct run_queue *rq;

	if (!parent_data)
		return;
	rq = run_queue_of(parent_data->processor);
	if (!rq)
		return;
	if (parent_data->counter.running)
		charge_ticks(parent_data, rq, now);
	t->counter.left = (parent_data->counter.left + 1) >> 1;
	t->dyn_prio = parent_data->dyn_prio;
	parent_data->counter.left >>= 1;
	if (!parent_data->counter.running)
		return;
	if (parent_data->counter.left)
		run_slice_down(parent, parent_data, rq, now);
	else
		resched_cpu(rq, parent_data->processor, SCX_KICK_PREEMPT);
}

/* Tasks that existed before this scheduler start with a full slice. */
s32 BPF_STRUCT_OPS(bmqs_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *t;
	s32 cpu = scx_bpf_task_cpu(p);

	t = new_task_ctx(p);
	if (!t)
		return -ENOMEM;
	t->counter.left = nice_to_ticks(nice_of(p));
	t->counted_on = NO_QUEUE;
	t->processor = cpu;
	t->run_jtime = tick_at(scx_bpf_now());
	belong_to(t, cpu);
	if (!args->fork)
		return 0;
	inherit_attributes(p);
	read_attributes(p, t);
	share_slice(t);
	return 0;
}

/* A task leaves for one of the kernel's classes. */
void BPF_STRUCT_OPS(bmqs_disable, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return;
	count_on(t, NO_QUEUE);
	t->listed = false;
}

/* release_task(): the parent gets the rest of the child's slice, up to a limit. */
void BPF_STRUCT_OPS(bmqs_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_ctx *t = task_ctx_of(p), *parent_data;
	s32 limit = ms_to_ticks(max_tslice), had;
	struct task_struct *parent;

	if (!t)
		return;
	count_on(t, NO_QUEUE);
	parent = heir_of(p, args);
	parent_data = parent ? task_ctx_of(parent) : NULL;
	if (parent_data && t->counter.left > 0) {
		had = parent_data->counter.left;
		parent_data->counter.left = min(had + t->counter.left, limit);
		if (parent_data->counter.left > had)
			count_by(STAT_INHERITED, parent_data->counter.left - had);
	}
}

/* ---- Start ----------------------------------------------------------------------------------- */

s32 BPF_STRUCT_OPS_SLEEPABLE(bmqs_init)
{
	const struct cpumask *online;
	s32 cpu, error;

	nr_cpus = scx_bpf_nr_cpu_ids();
	error = scx_bpf_create_dsq(list_dsq(RT_QID), NUMA_NO_NODE);
	if (error)
		return error;
	online = scx_bpf_get_online_cpumask();
	num_online_cpus = bpf_cpumask_weight(online);
	bpf_for(cpu, 0, nr_cpus) {
		struct run_queue *rq = run_queue_of(cpu);

		error = scx_bpf_create_dsq(list_dsq(cpu), NUMA_NO_NODE);
		if (error)
			break;
		if (rq)
			rq->online = bpf_cpumask_test_cpu(cpu, online);
	}
	scx_bpf_put_cpumask(online);
	return error ?: init_idle_timer() ?: start_idle_timer();
}

DEFINE_SCHEDULER(bmqs,
	CALLBACKS_OF(bmqs, select_cpu, enqueue, dispatch, tick, runnable, running, stopping,
		     quiescent, yield, init_task, exit_task, disable, init)
	.flags = SCX_OPS_ENQ_MIGRATION_DISABLED,
	.name = "bmqs");
