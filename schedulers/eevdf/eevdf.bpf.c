// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * eevdf - the fair class of Linux 7.3: Earliest Eligible Virtual Deadline First
 *
 * As in CFS a task's virtual runtime grows with the time it runs, divided by its weight. The
 * weighted average of all virtual runtimes is the virtual time V of a CPU: a task behind it is owed
 * service (its lag is positive) and is eligible, one ahead of it has had too much. A task asks for
 * a slice at a time; the virtual time by which it should have it is its deadline. The CPU goes to
 * the eligible task with the earliest deadline. A sleeping task keeps its lag, positive or
 * negative.
 *
 * Names are those of kernel/sched/fair.c. The kernel keeps the waiting tasks of a CPU in one tree
 * ordered by deadline, augmented with the least virtual runtime of each subtree, and finds the task
 * to run in O(log n). A dispatch queue cannot be augmented, so the waiting tasks are in two: those
 * known to be eligible, ordered by deadline, and the others, ordered by virtual runtime. When V
 * passes the first of the others that one changes queues, once for each request: O(log n) each,
 * like the tree's.
 */
#include "eevdf.h"
#include "virtual_time.h"
#include "fair_frequency.h"
#include "fair_load.h"
#include "fair_arrival.h"
#include "fair_groups.h"
#include "fair_bandwidth.h"
#include "delayed_dequeue.h"
#include "fair_balance.h"
#include "fair_select_cpu.h"
#include "fair_throttle.h"

/* ---- Pick ------------------------------------------------------------------------------------ */

static __always_inline bool protect_slice(const struct run_queue *cfs_rq)
{
	return time_before(cfs_rq->curr_vruntime, cfs_rq->vprot);
}

static __always_inline void clear_buddies(struct run_queue *cfs_rq, s32 pid)
{
	if (cfs_rq->next_pid == pid)
		cfs_rq->next_pid = 0;
}

static __always_inline void set_next_buddy(struct run_queue *cfs_rq, const struct task_struct *p,
					   const struct task_ctx *se)
{
	if (se->idle_policy)
		return;
	cfs_rq->next_pid = p->pid;
	cfs_rq->next_vruntime = se->vruntime;
	cfs_rq->next_slice = se->slice;
}

/*
 * Finds the deadline of the best waiting task except @other, moving none, for
 * cfs_rq->best_deadline. False if none is eligible.
 */
__noinline bool best_waiting(struct run_queue *cfs_rq __arg_nonnull,
			     const struct virtual_time *time __arg_nonnull, s32 other)
{
	struct task_ctx *se;
	struct task_struct *p;
	bool found = false;

	for_each_queued(p, se, eligible_dsq(cfs_rq->cpu), 0) {
		if (p->pid == other || !vruntime_eligible(time, se->vruntime))
			continue;
		cfs_rq->best_deadline = se->deadline;
		found = true;
		break;
	}
	/* Tasks that V has passed since the last pick */
	for_each_queued(p, se, ineligible_dsq(cfs_rq->cpu), 0) {
		if (!vruntime_eligible(time, se->vruntime))
			break;
		if (p->pid == other)
			continue;
		if (!found || time_before(se->deadline, cfs_rq->best_deadline)) {
			cfs_rq->best_deadline = se->deadline;
			found = true;
		}
	}
	return found;
}

/* Is the first task of a queue eligible? If so, sets cfs_rq->best_deadline to its deadline. */
static __always_inline bool first_is_eligible(struct run_queue *cfs_rq,
					      const struct virtual_time *time, u64 dsq)
{
	struct task_struct *p = scx_bpf_dsq_peek(dsq);
	struct task_ctx *se = p ? task_ctx_of(p) : NULL;

	if (!se || !vruntime_eligible(time, se->vruntime))
		return false;
	cfs_rq->best_deadline = se->deadline;
	return true;
}

/*
 * Sorts the waiting tasks of a CPU by the current V. True if one is eligible: the first of
 * eligible_dsq(), cfs_rq->best_deadline.
 */
__noinline bool sort_waiting(struct run_queue *cfs_rq __arg_nonnull,
			     const struct virtual_time *time __arg_nonnull)
{
	s32 cpu = cfs_rq->cpu;
	struct task_ctx *se;
	struct task_struct *p;
	bool found = false;
	u32 moved = 0;

	/* Usually there is nothing to sort, which is cheap to check */
	if (cfs_rq->nr_running == cfs_rq->curr + 1 &&
	    first_is_eligible(cfs_rq, time, eligible_dsq(cpu)))
		return true;

	/* V passes them in the order of their virtual runtimes */
	for_each_queued(p, se, ineligible_dsq(cpu), 0) {
		if (!vruntime_eligible(time, se->vruntime))
			break;
		scx_bpf_dsq_move_set_vtime(DSQ_ITERATOR, se->deadline);
		moved += scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p, eligible_dsq(cpu), 0);
	}
	/* V goes back when tasks with positive lag come or tasks with negative lag leave */
	for_each_queued(p, se, eligible_dsq(cpu), 0) {
		if (vruntime_eligible(time, se->vruntime)) {
			cfs_rq->best_deadline = se->deadline;
			found = true;
			break;
		}
		scx_bpf_dsq_move_set_vtime(DSQ_ITERATOR, se->vruntime);
		moved += scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p, ineligible_dsq(cpu), 0);
	}
	count_by(STAT_ELIGIBLE_MOVES, moved);
	return found;
}

/* Makes the buddy this CPU's next task. */
static __always_inline bool move_buddy_to_local(struct run_queue *cfs_rq)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	struct task_ctx *se;
	bool moved = false;

	p = bpf_task_from_pid(cfs_rq->next_pid);
	if (!p)
		return false;
	se = task_ctx_of(p);
	/* One that has to leave is no buddy */
	if (!se || !cfs_rq->nr_throttled || !throttled_hierarchy(se->group, cfs_rq->cpu)) {
		if (!bpf_iter_scx_dsq_new(&it, eligible_dsq(cfs_rq->cpu), 0))
			moved = scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL, 0);
		bpf_iter_scx_dsq_destroy(&it);
	}
	bpf_task_release(p);
	return moved;
}

enum pick {
	PICK_NOTHING,
	PICK_CURR,
	PICK_MOVED,
	PICK_AGAIN,
};

__noinline bool throttle_first(struct run_queue *cfs_rq __arg_nonnull, u64 dsq, u64 now);

/* Makes a queue's first task this CPU's next; into limbo if its groups have no runtime. */
static __always_inline s32 take_first(struct run_queue *cfs_rq, u64 dsq, u64 now)
{
	if (nr_quotas && throttle_first(cfs_rq, dsq, now))
		return PICK_AGAIN;
	return scx_bpf_dsq_move_to_local(dsq, 0) ? PICK_MOVED : PICK_NOTHING;
}

/*
 * Earliest Eligible Virtual Deadline First: of the eligible tasks the one with the earliest
 * deadline; the running task keeps the CPU for its protected slice, and if its deadline is strictly
 * earlier. Moves the pick to the local queue.
 */
__noinline s32 pick_eevdf(struct run_queue *cfs_rq __arg_nonnull, u64 now)
{
	struct virtual_time time = {};
	bool curr = cfs_rq->curr, found;
	s32 cpu = cfs_rq->cpu, slot, pick;

	/* A task that competes alone need not be eligible */
	if (h_nr_queued(cfs_rq) == 1 && curr)
		return PICK_CURR;
	if (h_nr_queued(cfs_rq) == 1 && ((pick = take_first(cfs_rq, cfs_rq->last_dsq, now)) ||
					 (pick = take_first(cfs_rq, eligible_dsq(cpu), now)) ||
					 (pick = take_first(cfs_rq, ineligible_dsq(cpu), now))))
		return pick;

	virtual_time_of(cfs_rq, &time, now);
	/* Some task is eligible: if no delayed one, the only waiting one, already in its queue */
	if (!curr && cfs_rq->nr_running == 1 && cfs_rq->last_dsq == eligible_dsq(cpu) &&
	    best_delayed(cfs_rq, &time, false, 0) < 0 &&
	    (pick = take_first(cfs_rq, cfs_rq->last_dsq, now)))
		return pick;
	found = sort_waiting(cfs_rq, &time);

	if (cfs_rq->next_pid && vruntime_eligible(&time, cfs_rq->next_vruntime) &&
	    move_buddy_to_local(cfs_rq)) {
		cfs_rq->next_pid = 0;
		return PICK_MOVED;
	}

	if (curr && !vruntime_eligible(&time, cfs_rq->curr_vruntime))
		curr = false;
	if (curr && protect_slice(cfs_rq))
		return PICK_CURR;

	/* A delayed task that is picked stops competing, and the pick is repeated */
	slot = best_delayed(cfs_rq, &time, found, cfs_rq->best_deadline);
	if (slot >= 0 && !(curr && time_before(cfs_rq->curr_deadline, cfs_rq->delayed_deadline))) {
		finish_delayed(cfs_rq, slot);
		return PICK_AGAIN;
	}

	if (curr && (!found || time_before(cfs_rq->curr_deadline, cfs_rq->best_deadline)))
		return PICK_CURR;
	if (found)
		return take_first(cfs_rq, eligible_dsq(cpu), now) ?: PICK_AGAIN;
	/* Some task is always eligible, unless another CPU is just taking one away */
	pick = take_first(cfs_rq, ineligible_dsq(cpu), now);
	return pick || !cfs_rq->curr ? pick : PICK_CURR;
}

static __always_inline s32 pick_next_entity(struct run_queue *cfs_rq, u64 now)
{
	s32 pick = PICK_AGAIN;
	u32 i;

	bpf_for(i, 0, 2 * NR_DELAYED + (nr_quotas ? cfs_rq->nr_running : 0)) {
		pick = pick_eevdf(cfs_rq, now);
		if (pick != PICK_AGAIN)
			break;
	}
	cfs_rq->picked_at = pick == PICK_MOVED ? now : 0;
	return pick;
}

/* ---- The running task ------------------------------------------------------------------------ */

/*
 * Gives the running task a new deadline if it has used up its request: vd_i = ve_i + r_i / w_i. The
 * kernel checks at every tick, and @now; here the ticks of an undisturbed task are made up for.
 * True if there is a new deadline.
 */
static __always_inline bool update_deadline(struct run_queue *cfs_rq, u64 now)
{
	u64 vruntime = cfs_rq->curr_vruntime, vslice, first, period, since;
	u64 weight = cfs_rq->curr_weight;

	if (time_before(vruntime, cfs_rq->curr_deadline))
		return false;

	if (!cfs_rq->curr_custom)
		cfs_rq->curr_slice = base_slice;
	vslice = calc_delta_fair(cfs_rq->curr_slice, weight);

	first = tick_from(now -
			  min(now, time_of_virtual(vruntime - cfs_rq->curr_deadline, weight)));
	if (hz && first < now) {
		period = tick_from(cfs_rq->curr_slice) ?: tick_nsec;
		since = (now - first) % period;
		cfs_rq->curr_deadline = vruntime - calc_delta_fair(since, weight) + vslice;
		if (time_before(vruntime, cfs_rq->curr_deadline))
			goto out;
	}
	cfs_rq->curr_deadline = vruntime + vslice;
out:
	/* Keeps v0 close to all virtual runtimes */
	avg_vruntime(cfs_rq, now);
	count(STAT_DEADLINES);
	return true;
}

/* Charges the running task up to @now. True if it has to compete in a new pick. */
static __always_inline bool update_curr(struct run_queue *cfs_rq, u64 now)
{
	bool resched;

	if (!cfs_rq->curr || !time_before(cfs_rq->exec_start, now))
		return false;

	if (nr_quotas && cfs_rq->curr_group &&
	    account_cfs_rq_runtime(cfs_rq->curr_group, cfs_rq->cpu, now - cfs_rq->exec_start, now))
		cfs_rq->out_of_runtime = true;
	cfs_rq->curr_vruntime = curr_vruntime_at(cfs_rq, now);
	cfs_rq->exec_start = now;
	resched = update_deadline(cfs_rq, now);

	if (h_nr_queued(cfs_rq) <= 1)
		return false;
	if (!resched && protect_slice(cfs_rq))
		return false;
	clear_buddies(cfs_rq, cfs_rq->curr_pid);
	return true;
}

/*
 * The virtual time until which a picked task keeps the CPU: its deadline, or less if another task's
 * slice is shorter.
 */
static __always_inline void set_protect_slice(struct run_queue *cfs_rq)
{
	u64 slice = sched_base_slice;
	struct virtual_time time;

	cfs_rq->vprot = cfs_rq->curr_deadline;
	if (run_to_parity)
		slice = cfs_rq_min_slice(cfs_rq);
	if (slice >= cfs_rq->curr_slice)
		return;
	/* It becomes ineligible at one more than the V of the others */
	time = sum_w_vruntime_add(cfs_rq, 0, 0);
	cfs_rq->vprot = min_vruntime(cfs_rq->vprot, average_of(&time) + 1);
}

/*
 * @se, which is in no queue yet, has come and did not preempt: limits the protection to one slice
 * from now, the shortest one.
 */
static __always_inline void update_protect_slice(struct run_queue *cfs_rq,
						 const struct task_ctx *se, u64 avruntime)
{
	u64 slice = min(cfs_rq_min_slice(cfs_rq), se->slice);
	u64 vruntime = min_vruntime(cfs_rq->curr_vruntime, avruntime);

	cfs_rq->vprot = min_vruntime(cfs_rq->vprot,
				     vruntime + calc_delta_fair(slice, cfs_rq->curr_weight));
}

/*
 * Makes the CPU's timer fire at @time. One that fires earlier stays and is set again then, which
 * costs less than moving it each time.
 */
static __always_inline void set_timer(struct run_queue *cfs_rq, u64 time, u64 now)
{
	struct rq_lock *lock = lock_of(cfs_rq);

	if (!lock || (cfs_rq->timer_time && !time_before(time, cfs_rq->timer_time)))
		return;
	/* The kernel may lack memory for it: then the request ends at a tick */
	cfs_rq->timer_time = bpf_timer_start(&lock->hrtick, time - now, 0) ? 0 : time;
}

/* HRTICK: if others compete, a request ends when it is used up, not at the tick after that. */
static __always_inline void hrtick_start(struct run_queue *cfs_rq, u64 now)
{
	u64 vruntime, time;

	if (!hrtick || (u32)cfs_rq->cpu >= NR_LOCKS || h_nr_queued(cfs_rq) <= 1)
		return;
	vruntime = curr_vruntime_at(cfs_rq, now);
	if (!time_before(vruntime, cfs_rq->curr_deadline))
		return;
	time = now + max(time_of_virtual(cfs_rq->curr_deadline - vruntime, cfs_rq->curr_weight),
			 HRTICK_SHORTEST);
	if (cfs_rq->hrtick_time && elapsed(cfs_rq->hrtick_time, time) <= HRTICK_MARGIN &&
	    elapsed(time, cfs_rq->hrtick_time) <= HRTICK_MARGIN)
		return;
	cfs_rq->hrtick_time = time;
	set_timer(cfs_rq, time, now);
}

/* A task has come: as in the original, a timer that is set stays as it is. True if it was set. */
static __always_inline bool hrtick_update(struct run_queue *cfs_rq, u64 now)
{
	if (!cfs_rq->curr || cfs_rq->hrtick_time)
		return false;
	hrtick_start(cfs_rq, now);
	return cfs_rq->hrtick_time;
}

static int hrtick_fires(void *map, u32 *cpu, struct rq_lock *lock)
{
	struct run_queue *cfs_rq = run_queue_of(*cpu);
	u64 now = scx_bpf_now();

	if (!cfs_rq)
		return 0;
	cfs_rq->timer_time = 0;
	if (!cfs_rq->hrtick_time)
		return 0;
	if (time_before(now, cfs_rq->hrtick_time)) {
		set_timer(cfs_rq, cfs_rq->hrtick_time, now);
		return 0;
	}
	cfs_rq->hrtick_time = 0;
	if (cfs_rq->curr) {
		count(STAT_HRTICKS);
		resched_curr(cfs_rq);
	}
	return 0;
}

static __always_inline long init_hrtick(s32 cpu)
{
	u32 key = cpu;
	struct rq_lock *lock = bpf_map_lookup_elem(&rq_locks, &key);

	if (!lock)
		return 0;
	return bpf_timer_init(&lock->hrtick, &rq_locks, CLOCK_MONOTONIC) ?:
	       bpf_timer_set_callback(&lock->hrtick, hrtick_fires);
}

/*
 * Clock of the next tick that has something to do for the running task: its request or its
 * protection ends, or balancing is due.
 */
static __always_inline u64 next_event(const struct run_queue *cfs_rq, u64 now)
{
	u64 end = now + MAX_RUN, until = cfs_rq->curr_deadline, left = 0, tick;

	if (h_nr_queued(cfs_rq) > 1) {
		until = min_vruntime(until, cfs_rq->vprot);
		if (time_before(cfs_rq->curr_vruntime, until))
			left = time_of_virtual(until - cfs_rq->curr_vruntime, cfs_rq->curr_weight);
		tick = tick_from(now + (left ?: 1));
		/* The timer may fire first, after which this is asked again */
		if (!cfs_rq->timer_time || !cfs_rq->hrtick_time ||
		    !time_before(cfs_rq->hrtick_time, tick))
			end = min(end, tick);
	}
	/* The tick updates the weight of a task in a group */
	if (cfs_rq->curr_group)
		end = min(end, tick_from(now + 1));
	if (nr_cpus > 1)
		end = min(end, max(cfs_rq->next_balance * tick_nsec, tick_from(now + 1)));
	/* The tick checks whether the task fits this CPU */
	if (asym_active)
		end = min(end, now + 64 * NSEC_PER_MSEC);
	/* And asks for another frequency */
	if (topology_nr_clocks)
		end = min(end, tick_from(now + 1));
	return end;
}

/* ---- Preemption by an arriving task ---------------------------------------------------------- */

/*
 * preempt= of the kernel's command line, in the order of scheduler.toml. The others differ only
 * within the kernel's own code.
 */
enum preempt_model {
	PREEMPT_LAZY,
};

/*
 * Lazy preemption: the running task goes on until it next returns to user mode, for which no
 * interrupt is sent. On this CPU that is at once. Another CPU has to be @interrupted for some other
 * reason, or the preemption waits for HRTICK, the tick, or honour_lazy().
 */
static __always_inline void resched_curr_lazy(struct run_queue *cfs_rq, bool interrupted, u64 now)
{
	if (preempt != PREEMPT_LAZY || interrupted ||
	    cfs_rq->cpu == (s32)bpf_get_smp_processor_id()) {
		resched_curr(cfs_rq);
		return;
	}
	count(STAT_LAZY_PREEMPTIONS);
	cfs_rq->need_resched = true;
	cfs_rq->need_resched_lazy = true;
	end_slice_at(cfs_rq, tick_from(now + 1));
}

/* This CPU is in the kernel and soon in user mode: a preemption that waits for that comes then. */
static __always_inline void honour_lazy(struct run_queue *this_rq)
{
	if (!this_rq || !this_rq->need_resched_lazy)
		return;
	this_rq->need_resched_lazy = false;
	if (this_rq->curr)
		resched_curr(this_rq);
}

/*
 * Would @p, which is in the sums of @time and perhaps in a queue, be picked now? Delayed tasks that
 * would be are dequeued, and removed from @time.
 */
static __always_inline bool is_the_pick(struct run_queue *cfs_rq, struct task_struct *p,
					struct task_ctx *se, struct virtual_time *time,
					bool protect, u64 now)
{
	bool curr, eligible, found;
	u64 deadline;
	u32 rounds;
	s32 slot;

	/*
	 * Each round but the last dequeues a task. The verifier would try every value of a counter
	 * that starts from a constant.
	 */
	for (rounds = cfs_rq->nr_delayed + 1; rounds && can_loop; rounds--) {
		if (protect && cfs_rq->next_pid && vruntime_eligible(time, cfs_rq->next_vruntime))
			return cfs_rq->next_pid == p->pid;

		curr = vruntime_eligible(time, cfs_rq->curr_vruntime);
		if (curr && protect && protect_slice(cfs_rq))
			return false;

		eligible = vruntime_eligible(time, se->vruntime);
		/* Besides it and the running task */
		found = cfs_rq->nr_running > 2 && best_waiting(cfs_rq, time, p->pid);
		deadline = cfs_rq->best_deadline;
		if (eligible && (!found || time_before(se->deadline, deadline))) {
			found = true;
			deadline = se->deadline;
		} else {
			eligible = false;
		}
		if (curr && (!found || time_before(cfs_rq->curr_deadline, deadline))) {
			found = true;
			deadline = cfs_rq->curr_deadline;
			eligible = false;
		}
		slot = best_delayed(cfs_rq, time, found, deadline);
		if (slot < 0)
			return eligible;
		finish_delayed(cfs_rq, slot);
		virtual_time_of(cfs_rq, time, now);
	}
	return false;
}

/*
 * Should the task that has come, by itself or from another CPU, preempt the running task? If not,
 * the protection of the latter may become shorter.
 */
__noinline bool wakeup_preempt(struct task_struct *p __arg_trusted,
			       struct run_queue *cfs_rq __arg_nonnull,
			       struct task_ctx *se __arg_nonnull,
			       struct virtual_time *time __arg_nonnull, bool fork)
{
	/* The running task has just been charged up to now */
	u64 now = cfs_rq->exec_start;
	bool shorter = false;

	/* An idle task gives way to any other but idle ones; batch tasks never preempt */
	if (cfs_rq->curr_idle_policy && !se->idle_policy)
		goto preempt;
	if (cfs_rq->curr_idle_policy != se->idle_policy || p->policy == SCHED_BATCH ||
	    p->policy == SCHED_IDLE)
		goto update;

	shorter = se->slice < cfs_rq->curr_slice;
	if (fork && !shorter)
		goto update;
	if (is_the_pick(cfs_rq, p, se, time, !shorter, now))
		goto preempt;
	/* It asks for less than the running task and is eligible: do not let it wait */
	if (shorter && vruntime_eligible(time, se->vruntime))
		goto preempt;
update:
	if (run_to_parity)
		update_protect_slice(cfs_rq, se, average_of(time));
	return false;

preempt:
	if (protect_slice(cfs_rq))
		cfs_rq->vprot = cfs_rq->curr_vruntime;
	if (shorter) {
		if (!(cfs_rq->next_pid && cfs_rq->next_slice < se->slice))
			set_next_buddy(cfs_rq, p, se);
		count(STAT_SHORT_PREEMPTIONS);
	}
	return true;
}

/* ---- Balancing ------------------------------------------------------------------------------- */

/* Brings the record of the running task up to date. */
static __always_inline void store_curr(struct run_queue *cfs_rq, struct task_ctx *se, u64 now)
{
	update_curr(cfs_rq, now);
	update_load_avg(se, now, true, running_util(cfs_rq));
	update_cfs_rq_load_avg(cfs_rq, now);
	se->vruntime = cfs_rq->curr_vruntime;
	se->deadline = cfs_rq->curr_deadline;
	se->slice = cfs_rq->curr_slice;
	se->vprot = cfs_rq->vprot;
	se->exec_start = now;
}

/*
 * Gives the running task the weight that its groups leave it now, at a tick. It keeps its lag, and
 * the rest of its request and protection: in virtual time they are as much longer as the weight is
 * smaller.
 */
__noinline int reweight_curr(struct run_queue *cfs_rq __arg_nonnull,
			     struct task_struct *curr __arg_trusted, u64 now)
{
	struct task_ctx *se = task_ctx_of(curr);
	u64 old = cfs_rq->curr_weight, weight, avruntime;

	if (!se || !old)
		return 0;
	tick_groups(se, cfs_rq->cpu, now);
	weight = calc_prop_weight(se, cfs_rq->cpu);
	if (weight == old)
		return 0;
	avruntime = avg_vruntime(cfs_rq, now);
	if (protect_slice(cfs_rq))
		cfs_rq->vprot = avruntime +
				divide((s64)(cfs_rq->vprot - avruntime) * (s64)old, weight);
	cfs_rq->curr_deadline = avruntime +
				divide((s64)(cfs_rq->curr_deadline - avruntime) * (s64)old, weight);
	cfs_rq->curr_vruntime = avruntime +
				divide((s64)(cfs_rq->curr_vruntime - avruntime) * (s64)old, weight);
	cfs_rq->curr_weight = weight;
	se->h_load = weight;
	return 0;
}

/* The same for a task that has been picked and is still in the sums; removes it from them. */
__noinline int reweight_picked(struct run_queue *cfs_rq __arg_nonnull,
			       struct task_ctx *se __arg_nonnull, u64 now)
{
	u64 old = se->h_load, weight = calc_prop_weight(se, cfs_rq->cpu), avruntime;

	if (weight == old || !old) {
		tree_del(cfs_rq, se);
		return 0;
	}
	avruntime = avg_vruntime(cfs_rq, now);
	tree_del(cfs_rq, se);
	se->deadline = avruntime + divide((s64)(se->deadline - avruntime) * (s64)old, weight);
	se->vruntime = avruntime + divide((s64)(se->vruntime - avruntime) * (s64)old, weight);
	se->h_load = weight;
	return 0;
}

static __always_inline void clear_curr(struct run_queue *cfs_rq)
{
	cfs_rq->curr = false;
	cfs_rq->curr_pid = 0;
	cfs_rq->curr_group = 0;
}

/* ---- Choosing a CPU -------------------------------------------------------------------------- */

s32 BPF_STRUCT_OPS(eevdf_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task_struct *current = bpf_get_current_task_btf();
	s32 this_cpu = bpf_get_smp_processor_id(), cpu = prev_cpu, new_cpu;
	struct task_ctx *se = task_ctx_of(p), *waker;
	struct run_queue *this_rq, *prev_rq;
	u64 now = scx_bpf_now();
	u32 level;
	bool sync;

	if (nr_cpus == 1 || !se)
		return prev_cpu;
	this_rq = run_queue_of(this_cpu);
	prev_rq = run_queue_of(prev_cpu);
	if (!this_rq || !prev_rq)
		return prev_cpu;
	if (wake_flags & SCX_WAKE_FORK) {
		se->idle_policy = p->policy == SCHED_IDLE;
		return sched_balance_find_dst_cpu(p, &this_rq->env, prev_cpu, se->idle_policy);
	}

	/* The kernel still has it in the tree: it wakes there */
	waker = task_ctx_of(current);
	if (waker)
		record_wakee(waker, p, now);
	if (se->delayed_cpu == prev_cpu + 1)
		return prev_cpu;

	sync = (wake_flags & SCX_WAKE_SYNC) && !(current->flags & PF_EXITING);
	update_load_avg(se, now, false, 0);
	if (load_is_left_alone())
		return find_energy_efficient_cpu(p, se, &this_rq->env.eenv, prev_cpu);

	if (this_cpu != prev_cpu && bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr) &&
	    !(waker && wake_wide(this_rq, waker, se))) {
		level = common_level(this_rq, prev_rq);
		if (is_within(level, LEVEL_SMT, NR_LEVELS) &&
		    (this_rq->sd[level].flags & SD_WAKE_AFFINE) &&
		    wake_affine(this_rq, prev_rq, se, waker, this_rq->sd[level].imbalance_pct, sync,
				now)) {
			cpu = this_cpu;
			count(STAT_AFFINE_WAKEUPS);
		}
	}
	new_cpu = select_idle_sibling(p, se, prev_cpu, cpu, current);
	if (new_cpu != cpu)
		count(STAT_IDLE_WAKEUPS);
	return new_cpu;
}

/* ---- Queueing -------------------------------------------------------------------------------- */

/* Reads the current attributes of @p, which has @weight: slice, policy. */
static __always_inline void read_attributes(struct task_ctx *se, const struct task_struct *p,
					    u32 weight)
{
	se->own_weight = weight;
	se->slice = task_slice(p);
	se->custom_slice = se->slice != base_slice;
	se->idle_policy = p->policy == SCHED_IDLE;
	se->counts_idle = se->idle_policy || group_is_idle(se->group);
}

/* The task is to have the weight in the tree of @cpu that its own and its groups' give it. */
static __always_inline void find_weight(struct task_ctx *se, s32 cpu, u64 now)
{
	u64 weight;

	if (!se->group) {
		weight = se->own_weight * LOAD_SCALE;
		rescale_entity(se, weight);
		se->h_load = weight;
		se->weight = se->own_weight;
		return;
	}
	count_in_groups(se, cpu, true, now);
	weight = calc_prop_weight(se, cpu);
	rescale_entity(se, weight);
	se->h_load = weight;
	se->weight = 0;
}

/* A task that wakes, is new, was changed or comes from another CPU begins to compete on @cfs_rq. */
static __always_inline void join(struct run_queue *cfs_rq, struct task_ctx *se,
				 struct task_struct *p, bool initial, u64 now)
{
	u32 weight = task_weight(p);
	bool here = se->delayed_cpu == cfs_rq->cpu + 1;
	bool never_left = here && se->own_weight == weight, same_lag;
	struct virtual_time time = {};

	if (se->delayed_cpu) {
		same_lag = cancel_delayed(cfs_rq, se, &time, now);
		if (never_left)
			count(STAT_DELAYED_WAKEUPS);
		/* If its lag may stay as it is, so may its virtual runtime and deadline */
		if (never_left && same_lag) {
			if (se->group)
				count_in_groups(se, cfs_rq->cpu, true, now);
			return;
		}
	}
	read_attributes(se, p, weight);
	find_weight(se, cfs_rq->cpu, now);
	place_entity(cfs_rq, se, h_nr_queued(cfs_rq), initial,
		     here ? average_of(&time) : avg_vruntime(cfs_rq, now));
}

/*
 * A task that has joined enters the tree, whose time is @time then. Returns whether it is eligible;
 * last_dsq says which queue that means.
 */
static __always_inline bool enter(struct run_queue *cfs_rq, struct task_ctx *se, s32 cpu,
				  struct virtual_time *time, u64 now)
{
	bool eligible;

	account_entity_enqueue(cfs_rq, se, now);
	attach_entity_load_avg(cfs_rq, se);
	*time = tree_add(cfs_rq, se);
	add_curr(cfs_rq, time, now);
	se->wait_start = now;
	eligible = vruntime_eligible(time, se->vruntime);
	cfs_rq->last_dsq = eligible ? eligible_dsq(cpu) : ineligible_dsq(cpu);
	return eligible;
}

/*
 * The kernel has moved a waiting task here because it may not stay where it was, of which a
 * scheduler learns only that it is enqueued elsewhere: it leaves that CPU with its lag.
 */
__noinline int leave_moved(struct task_ctx *se __arg_nonnull, s32 pid, u64 now)
{
	struct run_queue *old_rq = run_queue_of(se->vruntime_cpu - 1);

	if (old_rq) {
		clear_buddies(old_rq, pid);
		save_lag(old_rq, se, false, now);
	}
	tree_del(old_rq, se);
	update_load_avg(se, now, true, 0);
	account_dequeue(se, now);
	return 0;
}

/*
 * A task has come to a CPU: its frequency may have to change. A new task's utilization is too
 * uncertain to end energy-aware placement.
 */
static __always_inline void tell_of_arrival(const struct task_struct *p, struct run_queue *cfs_rq,
					    const struct arrival *a, u64 now)
{
	if (p->in_iowait && a->wakeup)
		cpufreq_update_util(cfs_rq, true, now);
	else
		cfs_rq_util_change(cfs_rq, now);
	if (!a->new_task && !a->put_prev)
		check_update_overutilized_status(cfs_rq, now);
}

void BPF_STRUCT_OPS(eevdf_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *se = task_ctx_of(p);
	u64 now = scx_bpf_now();
	struct virtual_time time;
	struct run_queue *cfs_rq, *this_rq;
	struct arrival a;
	bool resched, eligible, delayed, interrupted;

	if (!se)
		return;

	a = arrival_of(p, se, enq_flags);
	cfs_rq = near_run_queue(a.cpu);
	this_rq = this_run_queue();
	if (!cfs_rq || !this_rq)
		return;
	if (se->throttled && enqueue_throttled(p, se, a.cpu, enq_flags))
		return;
	delayed = se->delayed_cpu == a.cpu + 1;

	resched = update_curr(cfs_rq, now);
	if (se->on_rq && se->vruntime_cpu != a.cpu + 1)
		leave_moved(se, p->pid, now);
	tree_del(cfs_rq, se);
	if (!se->on_rq) {
		join(cfs_rq, se, p, a.new_task, now);
		if (a.new_task)
			post_init_entity_util_avg(cfs_rq, se, now);
		else
			update_load_avg(se, now, false, 0);
	}
	eligible = enter(cfs_rq, se, a.cpu, &time, now);

	if (a.new_task)
		count(STAT_FORKS);
	else if (a.wakeup)
		count(STAT_WAKEUPS);

	scx_bpf_dsq_insert_vtime(p, cfs_rq->last_dsq, MAX_RUN,
				 eligible ? se->deadline : se->vruntime, enq_flags);

	if (topology_nr_clocks && a.cpu == a.task_cpu)
		tell_of_arrival(p, cfs_rq, &a, now);
	if (a.put_prev)
		return;
	honour_lazy(this_rq);
	/*
	 * Setting the timer of another CPU takes an interrupt there, and so does a wake-up in
	 * another cache, by way of its wake list
	 */
	interrupted = (!delayed && hrtick_update(cfs_rq, now)) ||
		      (a.wakeup && !delayed && !cpus_share_cache(this_rq, cfs_rq));
	if (!cfs_rq->curr) {
		arrive_where_none_runs(cfs_rq, &a, now);
		return;
	}
	if (a.cpu != a.task_cpu) {
		kick_for_pulled(cfs_rq);
		return;
	}

	if (wakeup_preempt(p, cfs_rq, se, &time, a.new_task)) {
		count(STAT_WAKEUP_PREEMPTIONS);
		resched_curr_lazy(cfs_rq, interrupted, now);
	} else if (cfs_rq->out_of_runtime) {
		resched_curr(cfs_rq);
	} else if (resched) {
		resched_curr_lazy(cfs_rq, interrupted, now);
	} else {
		end_slice_at(cfs_rq, next_event(cfs_rq, now));
	}
}

void BPF_STRUCT_OPS(eevdf_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *se = task_ctx_of(p);
	bool sleep = deq_flags & SCX_DEQ_SLEEP, runs, delay;
	struct run_queue *cfs_rq;
	u64 now = scx_bpf_now();

	if (!se)
		return;
	se->changing = !sleep;
	se->old_weight = se->own_weight;
	/* It has left already */
	if (se->throttled)
		return;

	cfs_rq = near_run_queue(se->vruntime_cpu - 1);
	if (!cfs_rq) {
		account_dequeue(se, now);
		return;
	}
	clear_buddies(cfs_rq, p->pid);

	runs = cfs_rq->curr && cfs_rq->curr_pid == p->pid;
	if (runs)
		store_curr(cfs_rq, se, now);
	save_lag(cfs_rq, se, sleep, now);
	if (runs)
		clear_curr(cfs_rq);
	if (se->in_tree) {
		tree_del(cfs_rq, se);
		update_load_avg(se, now, true, 0);
	}

	delay = delay_dequeue && sleep && runs && se->vlag < 0 && !(p->__state & SPECIAL_STATES) &&
		!(p->flags & PF_EXITING);
	if (sleep)
		util_est_update(se);
	account_dequeue_from(cfs_rq, se, now);

	delay = delay && set_delayed(cfs_rq, se, p->pid);
	if (delay)
		count(STAT_DELAYED_DEQUEUES);
	if (se->group)
		count_in_groups(se, delay ? cfs_rq->cpu : -1, false, now);
	if (cfs_rq->decayed && cfs_rq->cpu == scx_bpf_task_cpu(p))
		cfs_rq_util_change(cfs_rq, now);
}

bool BPF_STRUCT_OPS(eevdf_yield, struct task_struct *from, struct task_struct *to)
{
	struct run_queue *cfs_rq = run_queue_of(scx_bpf_task_cpu(from));
	struct virtual_time time = {};
	u64 now = scx_bpf_now();

	if (to || !cfs_rq || !cfs_rq->curr || h_nr_queued(cfs_rq) == 1)
		return false;

	count(STAT_YIELDS);
	clear_buddies(cfs_rq, from->pid);
	update_curr(cfs_rq, now);
	virtual_time_of(cfs_rq, &time, now);
	if (vruntime_eligible(&time, cfs_rq->curr_vruntime)) {
		/* The rest of the request is forfeited */
		cfs_rq->curr_vruntime = cfs_rq->curr_deadline;
		cfs_rq->curr_deadline += calc_delta_fair(cfs_rq->curr_slice, cfs_rq->curr_weight);
	}
	/* schedule() follows, and picks */
	cfs_rq->need_resched = true;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/* ---- No task waits for ever (not in EEVDF) --------------------------------------------------- */

/*
 * Runs a task that has waited too long, out of turn. Weights differ by up to 29,587, so that EEVDF
 * alone would let a light task wait for minutes, longer than sched_ext's watchdog does. True if
 * there is one.
 */
__noinline bool rescue_starved(s32 cpu)
{
	return rescue_from_queue(ineligible_dsq(cpu), SCX_DSQ_ITER_REV, 0) ||
	       rescue_from_queue(eligible_dsq(cpu), SCX_DSQ_ITER_REV, 0);
}

static __always_inline bool rescue_if_due(struct run_queue *cfs_rq, s32 cpu, u64 now)
{
	if (!starvation_check_is_due(&cfs_rq->rescue_at, now) || !rescue_starved(cpu))
		return false;
	count(STAT_RESCUES);
	return true;
}

/* ---- Running --------------------------------------------------------------------------------- */

/* Brings the accounts of @prev, which would go on, up to date; true if it has to be preempted. */
static __always_inline bool account_prev(struct run_queue *cfs_rq, struct task_struct *prev,
					 u64 now)
{
	bool resched = update_curr(cfs_rq, now);
	struct task_ctx *se;

	if (cfs_rq->curr_group)
		reweight_curr(cfs_rq, prev, now);
	if (asym_active) {
		se = task_ctx_of(prev);
		if (se) {
			update_load_avg(se, now, true, running_util(cfs_rq));
			update_misfit_status(cfs_rq, prev, se);
		}
	}
	return resched;
}

/* Active balancing: a task to the CPU that asked, rather a waiting one; true if it was @prev. */
static __always_inline bool push_task(struct run_queue *cfs_rq, struct task_struct *prev)
{
	struct run_queue *target = run_queue_of(cfs_rq->push_cpu - 1);

	cfs_rq->push_cpu = 0;
	return target && !push_waiting(cfs_rq, target) && prev &&
	       push_running(prev, cfs_rq, target->cpu);
}

/* Balancing at the tick, if it is due; true if this was an idle CPU's. */
static __always_inline bool balance_at_tick(struct run_queue *cfs_rq, u64 now)
{
	bool idle = !cfs_rq->nr_running;

	if (!balancing_is_due(cfs_rq, now))
		return false;
	if (nr_groups)
		update_blocked_groups(cfs_rq->cpu, now);
	rebalance_domains(cfs_rq, idle ? CPU_IDLE : CPU_NOT_IDLE, now);
	return idle;
}

/* Balancing before a pick: returns @prev, or NULL if it goes to another CPU. */
static __always_inline struct task_struct *balance_before_pick(struct run_queue *cfs_rq,
							       struct task_struct *prev,
							       bool *was_idle, u64 now)
{
	if (prev)
		check_update_overutilized_status(cfs_rq, now);
	if (push_task(cfs_rq, prev))
		prev = NULL;
	*was_idle = balance_at_tick(cfs_rq, now);
	if (cfs_rq->pulled_pid && prev && pulled_preempts(cfs_rq))
		cfs_rq->need_resched = true;
	return prev;
}

/* Lets @prev go on; false if another task goes first or its groups have used up their quotas. */
static __always_inline bool keep_prev(struct run_queue *cfs_rq, struct task_struct *prev,
				      bool resched, u64 now)
{
	if (resched && !cfs_rq->need_resched)
		count(STAT_TICK_PREEMPTIONS);
	if (resched || cfs_rq->need_resched || cfs_rq->out_of_runtime) {
		cfs_rq->need_resched = false;
		cfs_rq->need_resched_lazy = false;
		cfs_rq->out_of_runtime = false;
		if (pick_next_entity(cfs_rq, now) == PICK_MOVED)
			return true;
		if (nr_quotas && cfs_rq->curr_group && throttle_curr(cfs_rq, prev, now))
			return false;
	}
	/* It goes on, with the protection it had */
	run_until(cfs_rq, prev, next_event(cfs_rq, now), now);
	return true;
}

/* Of an empty queue all sums are zero. */
static __always_inline void check_sums(const struct run_queue *cfs_rq)
{
	if (!h_nr_queued(cfs_rq) && (cfs_rq->sum_weight || cfs_rq->sum_w_vruntime))
		count(STAT_UNEVEN_SUMS);
}

/* The CPU has no task left: takes one from another. */
static __always_inline void balance_newly_idle(struct run_queue *cfs_rq, u64 now)
{
	if (nr_groups)
		update_blocked_groups(cfs_rq->cpu, now);
	sched_balance_newidle(cfs_rq);
	if (cfs_rq->nr_running)
		pick_next_entity(cfs_rq, now);
}

void BPF_STRUCT_OPS(eevdf_dispatch, s32 cpu, struct task_struct *prev)
{
	struct run_queue *cfs_rq = near_run_queue(cpu);
	bool resched = false, was_idle = false;
	u64 now = scx_bpf_now();

	if (!cfs_rq)
		return;

	cfs_rq->picked_at = 0;
	uncount_real_time(cfs_rq, now);
	if (cfs_rq->refilled)
		unthrottle(cfs_rq, now);
	if (prev && !(prev->scx.flags & SCX_TASK_QUEUED))
		prev = NULL;
	if (prev)
		resched = account_prev(cfs_rq, prev, now);

	update_cfs_rq_load_avg(cfs_rq, now);
	cfs_rq_util_change(cfs_rq, now);
	if (nr_cpus > 1)
		prev = balance_before_pick(cfs_rq, prev, &was_idle, now);

	if (rescue_if_due(cfs_rq, cpu, now))
		return;
	if (prev && keep_prev(cfs_rq, prev, resched, now))
		return;
	if (pick_next_entity(cfs_rq, now) == PICK_MOVED)
		return;
	check_sums(cfs_rq);
	if (nr_cpus > 1 && !was_idle)
		balance_newly_idle(cfs_rq, now);
}

void BPF_STRUCT_OPS(eevdf_running, struct task_struct *p)
{
	struct run_queue *cfs_rq = near_run_queue(scx_bpf_task_cpu(p)), *old_rq;
	struct task_ctx *se = task_ctx_of(p);
	u64 now;
	bool changing;

	if (!cfs_rq || !se)
		return;

	now = clock_of_pick(cfs_rq);
	uncount_real_time(cfs_rq, now);
	if (se->group && se->in_tree == cfs_rq->cpu + 1)
		reweight_picked(cfs_rq, se, now);
	else
		tree_del(cfs_rq, se);
	changing = se->changing;
	if (!se->on_rq) {
		/* A running task whose attributes changed comes here without being enqueued */
		join(cfs_rq, se, p, false, now);
	} else if (se->vruntime_cpu != cfs_rq->cpu + 1) {
		/* It was moved while another CPU was moving it */
		old_rq = run_queue_of(se->vruntime_cpu - 1);
		if (old_rq)
			save_lag(old_rq, se, false, now);
		place_entity(cfs_rq, se, h_nr_queued(cfs_rq) - (se->on_rq == cfs_rq->cpu + 1),
			     false, avg_vruntime(cfs_rq, now));
	}
	account_entity_enqueue(cfs_rq, se, now);
	attach_entity_load_avg(cfs_rq, se);
	update_load_avg(se, now, true, 0);
	update_cfs_rq_load_avg(cfs_rq, now);

	cfs_rq->curr = true;
	cfs_rq->idle = false;
	cfs_rq->curr_pid = p->pid;
	cfs_rq->curr_group = se->group;
	cfs_rq->curr_weight = se->h_load;
	cfs_rq->curr_vruntime = se->vruntime;
	cfs_rq->curr_deadline = se->deadline;
	cfs_rq->curr_slice = se->slice;
	cfs_rq->curr_custom = se->custom_slice;
	cfs_rq->curr_idle_policy = se->idle_policy;
	cfs_rq->exec_start = now;
	cfs_rq->need_resched = false;
	cfs_rq->need_resched_lazy = false;
	cfs_rq->pulled_pid = 0;
	cfs_rq->out_of_runtime = false;
	clear_buddies(cfs_rq, p->pid);
	se->push_cpu = 0;
	se->changing = false;
	update_misfit_status(cfs_rq, p, se);
	cfs_rq_util_change(cfs_rq, now);

	if (changing) {
		cfs_rq->vprot = se->vprot;
	} else {
		set_protect_slice(cfs_rq);
		hrtick_start(cfs_rq, now);
	}
	run_until(cfs_rq, p, next_event(cfs_rq, now), now);
	/* With less weight it may no longer be the one to run */
	if (changing && se->own_weight < se->old_weight && h_nr_queued(cfs_rq) > 1)
		resched_curr(cfs_rq);
}

void BPF_STRUCT_OPS(eevdf_stopping, struct task_struct *p, bool runnable)
{
	struct run_queue *cfs_rq;
	struct task_ctx *se;

	/* Of a task that leaves, quiescent() takes care, which follows */
	if (!runnable)
		return;
	cfs_rq = near_run_queue(scx_bpf_task_cpu(p));
	se = task_ctx_of(p);
	if (!cfs_rq || !se || !cfs_rq->curr)
		return;

	store_curr(cfs_rq, se, scx_bpf_now());
	clear_curr(cfs_rq);
	hand_back(p);
}

DEFINE_CPU_RELEASE(eevdf)

/* ---- Tasks and the machine ------------------------------------------------------------------- */

s32 BPF_STRUCT_OPS_SLEEPABLE(eevdf_init_task, struct task_struct *p,
			     struct scx_init_task_args *args)
{
	struct task_ctx *se = new_task_ctx(p);

	if (!se)
		return -ENOMEM;
	se->new_task = args->fork;
	se->group = first_group_number(args);
	return 0;
}

void BPF_STRUCT_OPS(eevdf_enable, struct task_struct *p)
{
	struct task_ctx *se = task_ctx_of(p);
	u64 weight;

	if (!se)
		return;
	/* Before it runs, so that other CPUs find a weight */
	read_attributes(se, p, task_weight(p));
	weight = (u64)se->own_weight * LOAD_SCALE;
	rescale_entity(se, weight);
	se->h_load = weight;
	se->weight = se->group ? 0 : se->own_weight;
	se->pelt_last = scx_bpf_now();
}

/* The task ends, or leaves for another class, possibly asleep. */
void BPF_STRUCT_OPS(eevdf_disable, struct task_struct *p)
{
	struct task_ctx *se = task_ctx_of(p);
	struct virtual_time time;

	if (!se)
		return;
	if (se->delayed_cpu)
		cancel_delayed(NULL, se, &time, scx_bpf_now());
	leave_groups(se, scx_bpf_now());
	attach_entity_load_avg(NULL, se);
}

/* The task, which is in no queue now, goes to another group. */
void BPF_STRUCT_OPS(eevdf_cgroup_move, struct task_struct *p, struct cgroup *from,
		    struct cgroup *to)
{
	struct task_ctx *se = task_ctx_of(p);
	struct virtual_time time;
	u64 now = scx_bpf_now();

	if (!se)
		return;
	/* A sleeper that still competes stops doing so */
	if (se->delayed_cpu)
		cancel_delayed(NULL, se, &time, now);
	leave_groups(se, now);
	attach_entity_load_avg(NULL, se);
	se->group = group_number(to);
}

void BPF_STRUCT_OPS(eevdf_update_idle, s32 cpu, bool idle)
{
	struct run_queue *cfs_rq = run_queue_of(cpu), *llc_rq;
	u64 now = scx_bpf_now();

	if (!cfs_rq)
		return;
	idle_changes_clock(cfs_rq, idle, now);
	cfs_rq->idle = idle;
	if (!idle) {
		/* Average time from running out of work to having some */
		cfs_rq->avg_idle += ((s64)(now - cfs_rq->idle_stamp) - (s64)cfs_rq->avg_idle) >> 3;
		cfs_rq->avg_idle = min(cfs_rq->avg_idle, 2 * sched_migration_cost);
		return;
	}
	cfs_rq->idle_stamp = now;
	cfs_rq->hrtick_time = 0;
	llc_rq = llc_of(cfs_rq);
	if (smt_active && llc_rq && !llc_rq->has_idle_cores && is_core_idle(cfs_rq))
		llc_rq->has_idle_cores = true;
}

/* Prepares the run queue of a CPU. */
__noinline int init_rq(struct run_queue *cfs_rq __arg_nonnull, s32 cpu)
{
	const volatile struct cpu_topology *place = topology_of(cpu);
	u32 level;

	init_balancing(cfs_rq, cpu);
	cfs_rq->capacity = place ? place->capacity : SCHED_CAPACITY_SCALE;
	/* Until it is known to be busy */
	cfs_rq->idle = true;
	/* As in the original, so that virtual times soon wrap around */
	cfs_rq->zero_vruntime = -(1ULL << 20);
	cfs_rq->pelt_last = scx_bpf_now();
	init_spans(cfs_rq->span, cpu, true, LEVEL_NUMA);
	cfs_rq->nr_idle_scan = cfs_rq->span[LEVEL_MC].count;
	cfs_rq->has_idle_cores = smt_active;
	bpf_for(level, LEVEL_SMT, NR_LEVELS)
		sd_init(cfs_rq, level);
	cfs_rq->last_dsq = eligible_dsq(cpu);
	return init_hrtick(cpu) ?:
	       scx_bpf_create_dsq(eligible_dsq(cpu), NUMA_NO_NODE) ?:
	       scx_bpf_create_dsq(ineligible_dsq(cpu), NUMA_NO_NODE) ?:
	       scx_bpf_create_dsq(throttled_dsq(cpu), NUMA_NO_NODE);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(eevdf_init)
{
	struct run_queue *cfs_rq;
	s32 cpu, err;

	init_machine();
	smt_active = topology_nr_cores < topology_nr_online;
	asym_active = topology_nr_online && has_asym_capacity(0, topology_nr_online);
	energy_aware = sched_energy_aware && has_energy_model();

	bpf_for(cpu, 0, nr_cpus) {
		cfs_rq = run_queue_of(cpu);
		err = cfs_rq ? init_rq(cfs_rq, cpu) : -ENOENT;
		if (err)
			return err;
	}

	base_slice = sched_base_slice * scale_factor(min(nr_online, 8));

	return nr_cpus > 1 ? init_idle_tick() ?: start_idle_tick() : 0;
}

DEFINE_SCHEDULER(eevdf,
	CALLBACKS_OF(eevdf, select_cpu, enqueue, dispatch, running, stopping, cpu_release,
		     quiescent, yield, update_idle, init_task, enable, disable, cgroup_init,
		     cgroup_exit, cgroup_move, cgroup_set_weight, cgroup_set_idle,
		     cgroup_set_bandwidth, init)
	/* A task that nothing else displaces is put back only to be pushed to another CPU */
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.name = "eevdf");
