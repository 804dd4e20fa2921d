// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * dwrr - Distributed Weighted Round-Robin
 *
 * A layer over a host scheduler, CFS or O(1), that makes it fair across CPUs. Every thread may run for a round slice,
 * w * B, in a round: w is its weight and B the same for the whole system. A CPU has two queues: RQ holds the threads that have
 * not used up their slice of the CPU's current round, EQ those that have and wait for the next. When RQ is empty the CPU does
 * round balancing: before it begins a new round it takes threads from CPUs that are behind. So all threads go through the same
 * number of rounds, on however many CPUs. Within a round the host's rules decide who runs: virtual runtime (CFS) or dynamic
 * priority (O(1)). README.md maps the documents to this file and lists the departures.
 *
 * round(p) is run_queue.round, highest is what it says. A thread knows the round its slice is for, task_ctx.round: it belongs
 * into RQ of a CPU that has reached that round, and into EQ of one that has not.
 */
#include "fairground.bpf.h"
#include "fair_state.h"
#include "in_interrupt.h"
#include "min_max.h"
#include "o1_state.h"
#include "real_time.h"
#include "starvation.h"
#include "timer.h"
#include "topology.h"
#include "virtual_runtime.h"

/* ---- Tunables -------------------------------------------------------------------------------------------------- */

/* The scheduler whose order holds within a round */
enum host {
	HOST_CFS,
	HOST_O1,
};

const volatile u32 host = HOST_CFS;

/* B, the round slice of nice 0 */
const volatile u64 round_slice = 25 * NSEC_PER_MSEC;

/* X, how many threads one round balancing moves at most */
const volatile u32 threads_moved = 1;

/* Ticks of the host's era in a second */
const volatile u32 hz = 200;

/* The host's load balancer */
const volatile bool host_balance = true;

/* ---- Statistics, in the order of scheduler.toml ---------------------------------------------------------------- */

enum statistic {
	STAT_WAKEUPS,
	STAT_FORKS,
	STAT_WAKEUP_PREEMPTIONS,
	STAT_SLICES_USED,
	STAT_WOKEN_EXPIRED,
	STAT_ROUNDS,
	STAT_ROUND_BALANCES,
	STAT_STOLEN_ROUND,
	STAT_STOLEN_BEHIND,
	STAT_STOLEN_IDLE,
	STAT_ROUNDS_TWO_APART,
	STAT_ROUNDS_FURTHER_APART,
	STAT_RAN_AHEAD,
	STAT_HOST_BALANCES,
	STAT_HOST_MOVED,
	STAT_YIELDS,
	STAT_REDIRECTED,
	STAT_RESCUED,
	NR_STATISTICS,
};

DEFINE_STATISTICS(NR_STATISTICS)

/* ---- Threads --------------------------------------------------------------------------------------------------- */

struct task_ctx {
	/* The round that the slice is for, and what is left of the slice, nanoseconds; the running thread's is in its run queue */
	u64 round;
	s64 round_slice;
	/* CPU whose sums hold the thread plus one, 0 if it is not runnable; changed atomically */
	s32 on_rq;
	u32 weight;
	u32 old_weight;
	/* CPU to whose min_vruntime the virtual runtime, p->scx.dsq_vtime, relates plus one, 0 for none yet */
	s32 vruntime_cpu;
	/* Forked and not yet placed */
	bool new_task;
	/* Taken off the queue only to change an attribute */
	bool changing;
	/* What it had run since picked, if it goes on after a change */
	u64 slice_exec;
	/* Clock since which it waits */
	u64 waiting_since;

	O1_TASK_STATE
	/* In O(1)'s expired array, or on its way there */
	bool host_expired;
};

DEFINE_TASK_DATA(struct task_ctx, task_ctx_map, task_ctx)

/* ---- Run queues ------------------------------------------------------------------------------------------------ */

/*
 * A queue is a set of lists with a bit for each that holds threads. CFS has one list, ordered by virtual runtime; O(1) has one
 * for each priority. Three queues change roles: with CFS two of them are RQ and EQ; with O(1) RQ is the host's active and
 * expired arrays together, and EQ is one array more.
 */
#define NR_QUEUES 3
#define MAX_USER_PRIO (MAX_PRIO - MAX_RT_PRIO)
#define NR_LISTS MAX_USER_PRIO
#define NO_LIST NR_LISTS

/* Why threads are moved: by round balancing, because the CPU would be idle, or by the host's balancer */
enum reason {
	ROUND_BALANCING,
	WOULD_BE_IDLE,
	HOST_BALANCING,
};

/* What a CPU looks for in another CPU's queue: threads whose round is @up_to or before, up to @wanted of them */
struct search {
	enum reason reason;
	u64 up_to;
	u32 wanted;
	/* The host's balancer: load that is still to be moved */
	s64 rem_load_move;
	/* In the queue that is being searched; not in variables, whose values the verifier would follow through every round */
	u64 bitmap;
	u32 looked_at;
	u32 moved;
	/* In the scan of all CPUs: what has been taken, and the lowest round of a busy CPU */
	u32 taken;
	u64 lowest_round;
};

struct run_queue {
	s32 cpu;
	u32 position;
	/* CPU numbers may have gaps */
	bool exists;

	/* round(p) */
	u64 round;
	/* Which queue has which role; host_expired is O(1)'s */
	u32 active;
	u32 host_expired;
	u32 round_expired;
	/* Lists that may hold threads; a fourth element makes every index masked with 3 valid */
	u64 bitmap[NR_QUEUES + 1];

	/* Number and sum of weights of the runnable threads, the running one included; changed atomically */
	u32 nr_running;
	u64 load_weight;
	/* A real-time task has the CPU and is in both */
	u32 real_time;

	FAIR_QUEUE_STATE
	O1_QUEUE_STATE
	/* What is left of the running thread's round slice, as of exec_start */
	s64 curr_round_slice;

	struct search search;
	/* When the host's balancer is due */
	u64 next_balance;
	/* Lowest round of a busy CPU that the last scan saw */
	u64 lowest_round;
	struct topology_span llc;
};

DEFINE_PER_CPU(struct run_queue, run_queue);

/* The largest round of any CPU */
static u64 highest;

static u32 nr_cpus;
static u32 num_online_cpus;
static u64 tick_nsec;

/* Threads and rounds that one pick steps over before it takes whom it finds, however far ahead in its rounds */
#define MAX_PICKS 256

/* Percent of the load at the thread's last CPU that its waker's may have to draw it there: 100 + (125 - 100) / 2 */
#define WAKE_IMBALANCE 112

/* The host's load balancer: time between two looks, how long a thread is cache-hot for it, how many of a queue it looks at */
#define BALANCE_INTERVAL (64 * NSEC_PER_MSEC)
#define sched_migration_cost (500 * NSEC_PER_USEC)
#define sched_nr_migrate 32

/* CFS is that of 3.0, as the case study set it, O(1) that of 2.6.22 */
enum release {
	RELEASE_2_6_24,
	RELEASE_3_0,
	release = RELEASE_3_0,
};

#define sched_latency (6 * NSEC_PER_MSEC)
#define sched_min_granularity (750 * NSEC_PER_USEC)
#define sched_wakeup_granularity (1 * NSEC_PER_MSEC)
#define sched_tunable_scaling false
#define wakeup_preempt true
#define new_fair_sleepers true

#define o1_release O1_2_6_22
#define def_timeslice 100
#define is_expired(rq, t) ((t)->host_expired)
#define set_expired(rq, t, expired) ((t)->host_expired = (expired))
#define count_tick(name)
#define waits_since(t) ((t)->waiting_since)
#define RESCUE_DEPTH 0

static __always_inline u64 list_dsq(s32 cpu, u32 queue, u32 list)
{
	return ((u64)cpu * NR_QUEUES + queue) * NR_LISTS + list;
}

#include "o1_priority.h"
#include "o1_task.h"

/* Index of a thread's list in its queue. */
static __always_inline u32 list_index(const struct task_ctx *t)
{
	return host == HOST_CFS ? 0 : prio_index(t->prio);
}

/* The first list of a queue of this CPU that holds a thread, or NO_LIST. */
static __noinline u32 first_list(struct run_queue *rq, u32 queue)
{
	u32 i, list;
	u64 bitmap;

	bpf_for(i, 0, NR_LISTS) {
		bitmap = rq->bitmap[queue & 3];
		if (!bitmap)
			break;
		list = __builtin_ctzll(bitmap);
		if (scx_bpf_dsq_nr_queued(list_dsq(rq->cpu, queue, list)) > 0)
			return list;
		clear_list_bit(rq, queue, list);
	}
	return NO_LIST;
}

static __always_inline bool anyone_queued(const struct run_queue *rq)
{
	return rq->bitmap[0] | rq->bitmap[1] | rq->bitmap[2];
}

/* ---- Rounds and round slices ----------------------------------------------------------------------------------- */

/* w * B, where w is 1 for nice 0. */
static __always_inline u64 round_slice_of(const struct task_ctx *t)
{
	return round_slice * t->weight / NICE_0_WEIGHT ?: 1;
}

/* May the thread run in this CPU's round? Else its place is EQ. */
static __always_inline bool in_round(const struct run_queue *rq, const struct task_ctx *t)
{
	return t->round <= rq->round;
}

static __always_inline void raise_highest(u64 round)
{
	u64 old = highest;

	while (old < round && can_loop) {
		u64 seen = __sync_val_compare_and_swap(&highest, old, round);

		if (seen == old)
			break;
		old = seen;
	}
}

/*
 * The thread has used up its round slice: it gets the one of the next round. What it ran beyond the end of the slice, which
 * comes at a tick, is taken from that; if it is more than all of it the thread has run ahead by another round, and so on.
 */
static __always_inline void finish_round_slice(const struct run_queue *rq, struct task_ctx *t)
{
	u64 slice = round_slice_of(t), rounds = 1;

	t->round_slice += slice;
	if (t->round_slice <= 0) {
		u64 more = (u64)-t->round_slice / slice + 1;

		rounds += more;
		t->round_slice += more * slice;
	}
	t->round = max(t->round, rq->round) + rounds;
	t->host_expired = false;
	t->at_head = false;
	count(STAT_SLICES_USED);
}

/*
 * The thread comes to a CPU. What it has left counts in its own round only: after a sleep into a later one it has a full slice.
 * One that was runnable all the time (@slept is false) and comes from a CPU that was behind keeps it on top of that.
 */
static __always_inline void join_round(const struct run_queue *rq, struct task_ctx *t, bool slept)
{
	if (t->round >= rq->round)
		return;
	t->round_slice = round_slice_of(t) + (slept ? 0 : t->round_slice);
	t->round = rq->round;
}

/* May a thread be woken or forked here: is round(p) highest or highest - 1? A CPU without threads joins the highest. */
static __always_inline bool round_is_open(const struct run_queue *rq)
{
	return !rq->nr_running || rq->round + 1 >= highest;
}

/* ---- CFS: virtual time and slices ------------------------------------------------------------------------------ */

/* Virtual runtime of the leftmost thread of RQ. False if there is none. */
static __always_inline bool leftmost_vruntime(const struct run_queue *rq, u64 *vruntime)
{
	struct task_struct *p;
	bool found = false;

	if (rq->nr_running <= rq->curr || !rq->bitmap[rq->active & 3])
		return false;
	bpf_for_each(scx_dsq, p, list_dsq(rq->cpu, rq->active, 0), 0) {
		*vruntime = p->scx.dsq_vtime;
		found = true;
		break;
	}
	return found;
}

#include "fair.h"

/* Virtual runtime of a new thread: at the end of the current period, which is promised already, and not before its parent. */
static __always_inline u64 place_new_thread(const struct run_queue *rq)
{
	u64 vruntime = rq->min_vruntime + sched_vslice(rq->nr_running, rq->load_weight);

	return rq->curr ? max_vruntime(rq->curr_vruntime, vruntime) : vruntime;
}

/* ---- Accounting ------------------------------------------------------------------------------------------------ */

/* Charges the running thread up to @now. */
static __always_inline void update_curr(struct run_queue *rq, u64 now)
{
	if (!rq->curr || !time_before(rq->exec_start, now))
		return;
	if (host == HOST_CFS) {
		rq->curr_round_slice -= charge_vruntime(rq, now);
		return;
	}
	rq->curr_round_slice -= now - rq->exec_start;
	rq->exec_start = now;
}

/* In the load, real-time tasks weigh as two of nice -20. They do not enter rounds. */
#define real_time_weight (2 * 88761)
#define before_load_changes(rq, now)

#include "runnable_load.h"

/* ---- Taking threads from other CPUs ---------------------------------------------------------------------------- */

/*
 * Moves the threads that this CPU searches for from queue @from of @victim_cpu to queue @to of its own, in the order of the
 * queue. The host's balancer leaves what is too heavy or cache-hot. Returns how many it moved.
 */
__noinline u32 take_threads(s32 this_cpu, s32 victim_cpu, u32 from, u32 to)
{
	struct run_queue *rq = run_queue_of(this_cpu), *victim = run_queue_of(victim_cpu);
	u32 i, list;
	struct search *search;
	struct task_struct *p;

	if (!rq || !victim)
		return 0;
	search = &rq->search;
	search->looked_at = 0;
	search->moved = 0;

	search->bitmap = victim->bitmap[from & 3];
	bpf_for(i, 0, NR_LISTS) {
		if (!search->bitmap || !search->wanted)
			break;
		list = __builtin_ctzll(search->bitmap);
		search->bitmap &= search->bitmap - 1;

		bpf_for_each(scx_dsq, p, list_dsq(victim_cpu, from, list), 0) {
			struct task_ctx *t;
			bool taken;
			u64 now;

			if (!search->wanted)
				break;
			if (search->reason == HOST_BALANCING && search->looked_at++ > sched_nr_migrate)
				break;
			t = task_ctx_of(p);
			if (!t || t->round > search->up_to || !task_allowed(p, this_cpu))
				continue;
			now = scx_bpf_now();
			/* The document's W / 2 > L_imbal */
			if (search->reason == HOST_BALANCING && (t->weight / 2 > search->rem_load_move ||
								 (s64)(now - t->last_ran) < (s64)sched_migration_cost))
				continue;

			if (host == HOST_CFS) {
				scx_bpf_dsq_move_set_vtime(DSQ_ITERATOR, vruntime_on(rq, victim, p->scx.dsq_vtime, now));
				taken = scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p, list_dsq(this_cpu, to, list), 0);
			} else {
				taken = scx_bpf_dsq_move(DSQ_ITERATOR, p, list_dsq(this_cpu, to, list), 0);
			}
			if (!taken)
				continue;
			set_list_bit(rq, to, list);
			t->vruntime_cpu = this_cpu + 1;
			account_move(t, victim, rq, now);
			search->moved++;
			search->wanted--;

			if (search->reason == WOULD_BE_IDLE && t->round > rq->round) {
				/* It has finished its round; an idle CPU begins the next one, and no later one, with it */
				t->round = rq->round + 1;
				rq->round = t->round;
				raise_highest(t->round);
			}
			if (search->reason == HOST_BALANCING) {
				search->rem_load_move -= t->weight;
				if (search->rem_load_move <= 0)
					search->wanted = 0;
			}
		}
	}
	return search->moved;
}

/*
 * Scans the other CPUs, beginning with the next one, for threads that do not run and have not finished round @top, and takes
 * up to X of them. They are in RQ of a CPU in that round, and in RQ or EQ of one that is behind: by one round, or by more if
 * threads were bound to it or one alone was entitled to more than a CPU. With @any, whatever waits.
 */
__noinline u32 scan_cpus(s32 this_cpu, u64 top, bool any)
{
	struct run_queue *rq = run_queue_of(this_cpu), *other;
	u32 step, position, queue;
	struct search *search;

	if (!rq)
		return 0;
	search = &rq->search;
	search->reason = any ? WOULD_BE_IDLE : ROUND_BALANCING;
	search->up_to = any ? ~0ULL : top;
	search->wanted = any ? 1 : threads_moved;
	search->lowest_round = ~0ULL;
	search->taken = 0;
	/* No busy CPU is known to be behind until all have been seen */
	rq->lowest_round = ~0ULL;

	bpf_for(step, 1, nr_cpus) {
		bool behind;

		position = rq->position + step;
		if (position >= nr_cpus)
			position -= nr_cpus;
		other = run_queue_of(cpu_at(position));
		if (!other)
			continue;
		if (other->nr_running && other->round < search->lowest_round)
			search->lowest_round = other->round;
		if (!anyone_queued(other))
			continue;
		behind = other->round < top;
		if (!any && !behind && other->round != top)
			continue;

		bpf_for(queue, 0, NR_QUEUES) {
			bool eq = queue == other->round_expired;
			u32 taken;

			if (!search->wanted || (eq && !behind && !any) || !other->bitmap[queue & 3])
				continue;
			taken = take_threads(this_cpu, other->cpu, queue, rq->active);
			search->taken += taken;
			if (any)
				count_by(STAT_STOLEN_IDLE, taken);
			else
				count_by(behind ? STAT_STOLEN_BEHIND : STAT_STOLEN_ROUND, taken);
		}
		if (!search->wanted)
			return search->taken;
	}
	rq->lowest_round = search->lowest_round;
	return search->taken;
}

/* The CPU begins its next round: RQ and EQ change roles. */
static __always_inline void next_round(struct run_queue *rq)
{
	u32 active = rq->active;

	rq->active = rq->round_expired;
	rq->round_expired = active;
	rq->round++;
	raise_highest(rq->round);
	rq->expired_timestamp = 0;
	rq->best_expired_prio = MAX_PRIO;
	count(STAT_ROUNDS);
	if (rq->lowest_round != ~0ULL && rq->round > rq->lowest_round + 1)
		count(rq->round == rq->lowest_round + 2 ? STAT_ROUNDS_TWO_APART : STAT_ROUNDS_FURTHER_APART);
	rq->lowest_round = ~0ULL;
}

/*
 * Round balancing: RQ of this CPU is empty. @prev_expired says that the thread that ran so far is runnable and has finished its
 * round, so that EQ has it although it is not in a queue yet. Returns false if there is nothing to run.
 */
__noinline bool round_balance(s32 cpu, bool prev_expired)
{
	struct run_queue *rq = run_queue_of(cpu);
	u64 top = highest;
	bool eq_empty;

	if (!rq)
		return false;
	count(STAT_ROUND_BALANCES);
	eq_empty = !prev_expired && first_list(rq, rq->round_expired) == NO_LIST;

	if (rq->round >= top || eq_empty) {
		if (nr_overloaded && scan_cpus(cpu, top, false)) {
			if (rq->round < top)
				rq->round = top;
			return true;
		}
		if (eq_empty) {
			/* The host's balancing of a CPU without threads; such a CPU joins the highest round */
			rq->round = top;
			return nr_overloaded && scan_cpus(cpu, top, true);
		}
	}
	next_round(rq);
	return true;
}

/*
 * The host's balancer, as the document has it: L_k = sum of weights of CPU k, L_imbal = min(min(L_busiest, L_avg), L_avg - L_k), and
 * no thread moves if L_imbal < W / 2. It works between CPUs in the same round only, and from RQ to RQ or EQ to EQ.
 */
__noinline u32 balance_load(s32 this_cpu)
{
	struct run_queue *rq = run_queue_of(this_cpu), *other, *busiest;
	u64 total = 0, max_load = 0, average;
	struct search *search;
	s32 busiest_cpu = -1;
	u32 position, moved;

	if (!rq || !nr_overloaded)
		return 0;
	count(STAT_HOST_BALANCES);
	for_each_rq_in_span(other, position, 0, nr_cpus) {
		total += other->load_weight;
		if (other->cpu != this_cpu && other->round == rq->round && other->nr_running > 1 &&
		    other->load_weight > max_load) {
			max_load = other->load_weight;
			busiest_cpu = other->cpu;
		}
	}
	average = total / (num_online_cpus ?: 1);
	busiest = run_queue_of(busiest_cpu);
	if (busiest_cpu < 0 || !busiest || max_load <= rq->load_weight || average <= rq->load_weight)
		return 0;
	search = &rq->search;
	search->reason = HOST_BALANCING;
	search->up_to = ~0ULL;
	search->wanted = ~0U;
	search->rem_load_move = min(min(max_load, average), average - rq->load_weight);

	moved = take_threads(this_cpu, busiest_cpu, busiest->active, rq->active);
	if (host == HOST_O1)
		moved += take_threads(this_cpu, busiest_cpu, busiest->host_expired, rq->host_expired);
	moved += take_threads(this_cpu, busiest_cpu, busiest->round_expired, rq->round_expired);
	count_by(STAT_HOST_MOVED, moved);
	return moved;
}

/* ---- Slices and preemption ------------------------------------------------------------------------------------- */

/*
 * When the running thread has to look around: at the end of its round slice, of the host's slice, or when balancing is due. A thread
 * that is just coming to RQ is not there yet: @arriving is its virtual runtime, if it @arrives there.
 */
static __always_inline u64 next_event(const struct run_queue *rq, const struct task_ctx *t, bool arrives, u64 arriving,
				      u64 now)
{
	u64 end = now + MAX_RUN;

	if (t && t->rescued)
		return tick_from(now + 1);
	if (rq->curr_round_slice < (s64)MAX_RUN)
		end = now + (rq->curr_round_slice > 0 ? rq->curr_round_slice : 1);
	if (host == HOST_O1) {
		end = min(end, now + time_to_tick(now, t ? t->time_slice ?: 1 : 1, hz));
	} else {
		end = preempt_tick(rq, arrives, arriving, end, now);
	}
	if (nr_cpus > 1 && host_balance && nr_overloaded)
		end = min(end, time_before(now, rq->next_balance) ? rq->next_balance : tick_from(now + 1));
	return end;
}

/* Another thread has come to this CPU, and @arrives in RQ or not: the running one's slice may now end earlier. */
static __always_inline void shorten_slice(struct run_queue *rq, bool arrives, u64 arriving, u64 now)
{
	struct task_struct *curr = scx_bpf_cpu_curr(rq->cpu);

	if (curr)
		end_slice_at(rq, next_event(rq, task_ctx_of(curr), arrives, arriving, now));
}

/* The host's rule: shall a thread that has come to a busy CPU, into its round, preempt? */
static __always_inline bool preempts_curr(struct run_queue *rq, const struct task_struct *p, const struct task_ctx *t,
					  u64 vruntime)
{
	if (host == HOST_O1)
		return t->prio < rq->curr_prio || (t->at_head && t->prio == rq->curr_prio);
	return check_preempt_wakeup(rq, p, t->weight, vruntime);
}

/* ---- Placement of a waking or new thread ----------------------------------------------------------------------- */

/* An idle CPU that may take @p: @cpu itself, one that shares its cache, or any. Negative if there is none. */
static __always_inline s32 idle_cpu_near(s32 cpu, const struct task_struct *p)
{
	struct run_queue *rq = run_queue_of(cpu);
	const struct cpumask *idle_mask;
	u32 first_idle;
	s32 found = -1;

	if (!rq)
		return -1;
	idle_mask = scx_bpf_get_idle_cpumask();
	first_idle = bpf_cpumask_first_and(idle_mask, p->cpus_ptr);
	if (first_idle < nr_cpus) {
		if (bpf_cpumask_test_cpu(cpu, idle_mask) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			found = cpu;
		else if (rq->llc.count < nr_cpus)
			found = idle_cpu_in(rq->llc.first, rq->llc.count, idle_mask, p);
		if (found < 0)
			found = first_idle;
	}
	scx_bpf_put_idle_cpumask(idle_mask);
	return found;
}

/* The CPU with the least load among those in the highest round or the one before; @cpu if there is none. */
static __always_inline s32 least_loaded_cpu(s32 cpu, const struct task_struct *p)
{
	struct run_queue *rq;
	u64 min_load = ~0ULL;
	u32 position;
	s32 best = cpu;

	for_each_rq_in_span(rq, position, 0, nr_cpus) {
		if (!rq->exists || !bpf_cpumask_test_cpu(rq->cpu, p->cpus_ptr) || !round_is_open(rq))
			continue;
		if (rq->load_weight < min_load) {
			min_load = rq->load_weight;
			best = rq->cpu;
		}
	}
	return best;
}

/* Shall a thread that last ran on @prev_rq wake on the CPU of its waker? */
static __always_inline bool wake_affine(const struct run_queue *this_rq, const struct run_queue *prev_rq,
					const struct task_ctx *t, bool sync)
{
	u64 this_load = this_rq->load_weight, prev_load = prev_rq->load_weight;

	/* The waker is about to sleep */
	if (sync && this_rq->curr)
		this_load -= min(this_load, this_rq->curr_weight);
	if (!this_load || 100 * (this_load + t->weight) <= WAKE_IMBALANCE * prev_load)
		return true;
	return !sync && this_load <= prev_load && this_rq->nr_running &&
	       this_load + prev_load <= this_rq->load_weight / this_rq->nr_running;
}

s32 BPF_STRUCT_OPS(dwrr_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id(), cpu = prev_cpu, idle;
	struct run_queue *this_rq, *prev_rq, *rq;
	struct task_ctx *t = task_ctx_of(p);

	if (nr_cpus == 1)
		return prev_cpu;
	this_rq = run_queue_of(this_cpu);
	prev_rq = run_queue_of(prev_cpu);
	if (!this_rq || !prev_rq || !t)
		return prev_cpu;

	if (!(wake_flags & SCX_WAKE_FORK) && this_cpu != prev_cpu && bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr) &&
	    wake_affine(this_rq, prev_rq, t, wake_flags & SCX_WAKE_SYNC))
		cpu = this_cpu;

	idle = idle_cpu_near(cpu, p);
	if (idle >= 0 && scx_bpf_test_and_clear_cpu_idle(idle))
		return idle;
	if (wake_flags & SCX_WAKE_FORK)
		return least_loaded_cpu(prev_cpu, p);

	/* The host's choice, restricted to CPUs whose round is not long past */
	rq = run_queue_of(cpu);
	if (rq && round_is_open(rq))
		return cpu;
	count(STAT_REDIRECTED);
	if (round_is_open(prev_rq))
		return prev_cpu;
	return least_loaded_cpu(cpu, p);
}

/* ---- Queueing -------------------------------------------------------------------------------------------------- */

/* A thread waits on a busy CPU: an idle one that may run it shall look for it. */
static __always_inline void wake_idle_cpu(const struct task_struct *p)
{
	s32 idle;

	if (nr_cpus == 1 || p->nr_cpus_allowed == 1 || is_migration_disabled(p))
		return;
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

void BPF_STRUCT_OPS(dwrr_enqueue, struct task_struct *p, u64 enq_flags)
{
	bool wakeup = enq_flags & SCX_ENQ_WAKEUP, put_prev, new_task, changing;
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_ctx *t = task_ctx_of(p);
	struct run_queue *rq = run_queue_of(cpu);
	u64 vruntime = p->scx.dsq_vtime, now = scx_bpf_now();
	u32 queue, list;

	if (!t || !rq) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return;
	}
	new_task = t->new_task;
	changing = t->changing;
	t->new_task = false;
	t->changing = false;
	if (!changing)
		t->waiting_since = now;

	/* The running thread has been put: the CPU has its next thread already */
	put_prev = t->on_rq == cpu + 1 && !wakeup && !(enq_flags & SCX_ENQ_LAST);

	if (!rq->nr_running && rq->round < highest)
		rq->round = highest;
	if (host == HOST_CFS)
		vruntime = set_task_cpu(rq, t, vruntime, now);
	update_curr(rq, now);
	account_enqueue(rq, t, task_weight(p), now);

	if (new_task) {
		/* A full slice, in the round of the CPU */
		t->round = rq->round;
		t->round_slice = round_slice_of(t);
		if (host == HOST_O1)
			wake_up_new_task(p, t, rq, now);
		else
			vruntime = place_new_thread(rq);
		count(STAT_FORKS);
	} else {
		join_round(rq, t, wakeup);
		if (wakeup) {
			if (host == HOST_O1)
				activate_task(p, t, rq, now);
			else
				vruntime = place_entity(rq, vruntime);
			count(STAT_WAKEUPS);
			if (!in_round(rq, t))
				count(STAT_WOKEN_EXPIRED);
		}
	}

	queue = !in_round(rq, t) ? rq->round_expired : t->host_expired ? rq->host_expired : rq->active;
	list = list_index(t);
	if (host == HOST_CFS)
		scx_bpf_dsq_insert_vtime(p, list_dsq(cpu, queue, list), SCX_SLICE_DFL, vruntime, enq_flags);
	else
		scx_bpf_dsq_insert(p, list_dsq(cpu, queue, list), SCX_SLICE_DFL, t->at_head ? SCX_ENQ_HEAD : 0);
	set_list_bit(rq, queue, list);

	if (put_prev) {
		wake_idle_cpu(p);
		return;
	}
	if (!rq->curr) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		if (higher_class_runs(cpu)) {
			count_real_time(rq, now);
			wake_idle_cpu(p);
		}
		return;
	}

	if (queue == rq->active && preempts_curr(rq, p, t, vruntime)) {
		count(STAT_WAKEUP_PREEMPTIONS);
		resched_task(rq);
	} else if (changing && t->weight > t->old_weight) {
		resched_task(rq);
	} else {
		shorten_slice(rq, queue == rq->active, vruntime, now);
		wake_idle_cpu(p);
	}
}

void BPF_STRUCT_OPS(dwrr_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return;
	t->changing = !(deq_flags & SCX_DEQ_SLEEP);
	t->old_weight = t->weight;
	t->uninterruptible = sleeps_uninterruptibly(p, deq_flags);
	account_dequeue(t, scx_bpf_now());
}

bool BPF_STRUCT_OPS(dwrr_yield, struct task_struct *from, struct task_struct *to)
{
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(from));
	struct task_ctx *t = task_ctx_of(from);

	if (to || !rq || !t || rq->nr_running == 1)
		return false;
	count(STAT_YIELDS);
	update_curr(rq, scx_bpf_now());
	/* CFS passes over it once, O(1) sends it behind all others; the round slice is untouched */
	rq->skip = from->pid;
	rq->need_resched = true;
	if (host == HOST_O1) {
		t->host_expired = true;
		t->at_head = false;
	}
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/* ---- Picking --------------------------------------------------------------------------------------------------- */

enum pick {
	PICK_NONE,
	/* The thread that ran so far goes on */
	PICK_PREV,
	PICK_OTHER,
};

/* The host's rule: does @prev, which counts as if it were in RQ, come before the first thread there? */
static __always_inline bool prev_is_first(struct run_queue *rq, const struct task_ctx *prev, u32 list)
{
	u64 leftmost;

	if (list == NO_LIST)
		return true;
	if (host == HOST_O1) {
		u32 prev_list = list_index(prev);

		return prev_list < list || (prev_list == list && prev->at_head && !prev->child_first);
	}
	/* Of equals the one that waits is before the one that is put back */
	if (!leftmost_vruntime(rq, &leftmost))
		return true;
	if (rq->skip == rq->curr_pid)
		return !time_before(leftmost, rq->curr_vruntime + calc_delta_fair(wakeup_granularity, rq->curr_weight));
	return time_before(rq->curr_vruntime, leftmost);
}

/* Sends the first thread of a list of RQ to EQ if it has run ahead of this CPU's round. */
static __always_inline bool defer_first(struct run_queue *rq, u32 list)
{
	struct task_struct *p;
	bool deferred = false;

	bpf_for_each(scx_dsq, p, list_dsq(rq->cpu, rq->active, list), 0) {
		u64 eq = list_dsq(rq->cpu, rq->round_expired, list);
		struct task_ctx *t = task_ctx_of(p);

		if (!t || in_round(rq, t))
			break;
		deferred = host == HOST_CFS ? scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p, eq, 0) :
					      scx_bpf_dsq_move(DSQ_ITERATOR, p, eq, 0);
		if (deferred) {
			set_list_bit(rq, rq->round_expired, list);
			count(STAT_RAN_AHEAD);
		}
		break;
	}
	return deferred;
}

/*
 * The host's choice from RQ, after round balancing if that is empty; moves it to this CPU's local queue. @prev is the thread that ran
 * so far if it is still runnable; it is in no queue but counts as if it were in its own.
 */
static __noinline enum pick pick_next(s32 cpu, struct run_queue *rq, struct task_ctx *prev)
{
	u32 i, list;

	bpf_for(i, 0, MAX_PICKS) {
		bool prev_in_round = prev && in_round(rq, prev);

		list = first_list(rq, rq->active);
		if (list == NO_LIST && host == HOST_O1 &&
		    ((prev_in_round && prev->host_expired) || first_list(rq, rq->host_expired) != NO_LIST) &&
		    !(prev_in_round && !prev->host_expired)) {
			/* Within the round the host's two arrays change roles */
			u32 active = rq->active;

			rq->active = rq->host_expired;
			rq->host_expired = active;
			rq->expired_timestamp = 0;
			rq->best_expired_prio = MAX_PRIO;
			if (prev)
				prev->host_expired = false;
			continue;
		}
		if (list == NO_LIST && !prev_in_round) {
			if (!round_balance(cpu, prev != NULL))
				return PICK_NONE;
			continue;
		}
		if (prev_in_round && !prev->host_expired && prev_is_first(rq, prev, list))
			return PICK_PREV;
		if (defer_first(rq, list))
			continue;
		if (scx_bpf_dsq_move_to_local(list_dsq(cpu, rq->active, list), 0))
			return PICK_OTHER;
	}

	/* All are far ahead: the first one runs all the same */
	if (prev) {
		prev->round = rq->round;
		return PICK_PREV;
	}
	list = first_list(rq, rq->active);
	/* It may just have been sent to EQ once more */
	if (list == NO_LIST && round_balance(cpu, false))
		list = first_list(rq, rq->active);
	if (list != NO_LIST && scx_bpf_dsq_move_to_local(list_dsq(cpu, rq->active, list), 0))
		return PICK_OTHER;
	return PICK_NONE;
}

void BPF_STRUCT_OPS(dwrr_dispatch, s32 cpu, struct task_struct *prev)
{
	struct run_queue *rq = run_queue_of(cpu);
	struct task_ctx *t = NULL;
	bool resched = true, rescued;
	u64 now = scx_bpf_now();

	if (!rq)
		return;
	uncount_real_time(rq, now);
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		t = task_ctx_of(prev);

	if (t) {
		update_curr(rq, now);
		if (host == HOST_O1)
			charge_ticks(rq, t, now);
		t->round_slice = rq->curr_round_slice;
		if (t->round_slice <= 0) {
			finish_round_slice(rq, t);
			rq->curr_round_slice = t->round_slice;
		} else if (host == HOST_CFS) {
			resched = rq->need_resched || check_preempt_tick(rq, now);
		}
	}
	if (nr_cpus > 1 && host_balance && !time_before(now, rq->next_balance)) {
		rq->next_balance = now + BALANCE_INTERVAL;
		balance_load(cpu);
	}

	rescued = rescue_starved(cpu, now);
	if (t && !resched && !rescued) {
		run_until(rq, prev, next_event(rq, t, false, 0, now), now);
		return;
	}
	if (!rescued && pick_next(cpu, rq, t) == PICK_PREV && t) {
		if (host == HOST_O1) {
			charge_run_time(t, now);
			t->at_head = true;
			rq->curr_prio = t->prio;
		}
		t->rescued = false;
		join_round(rq, t, false);
		rq->curr_round_slice = t->round_slice;
		rq->slice_exec = 0;
		rq->need_resched = false;
		run_until(rq, prev, next_event(rq, t, false, 0, now), now);
	}
	rq->skip = 0;
	if (t)
		t->child_first = false;
}

/* ---- Running --------------------------------------------------------------------------------------------------- */

void BPF_STRUCT_OPS(dwrr_running, struct task_struct *p)
{
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(p));
	struct task_ctx *t = task_ctx_of(p);
	u64 now = scx_bpf_now();
	bool changed;

	if (!rq || !t)
		return;

	uncount_real_time(rq, now);
	/* A running thread whose attribute has been changed comes here without having been enqueued */
	rq->curr_vruntime = host == HOST_CFS ? set_task_cpu(rq, t, p->scx.dsq_vtime, now) : p->scx.dsq_vtime;
	account_enqueue(rq, t, task_weight(p), now);
	join_round(rq, t, false);

	rq->curr = true;
	rq->curr_pid = p->pid;
	rq->curr_policy = p->policy;
	rq->curr_weight = t->weight;
	rq->curr_round_slice = t->round_slice;
	rq->exec_start = now;
	rq->need_resched = false;
	changed = t->changing;
	rq->slice_exec = changed ? t->slice_exec : 0;
	t->changing = false;
	t->running = true;

	if (host == HOST_O1) {
		credit_wait(p, t, now);
		t->at_head = true;
		t->host_expired = false;
	}
	rq->curr_prio = t->prio;

	run_until(rq, p, next_event(rq, t, false, 0, now), now);
	/* Better or worse, it may not be the one to run any more */
	if (changed && t->weight != t->old_weight)
		resched_task(rq);
}

void BPF_STRUCT_OPS(dwrr_stopping, struct task_struct *p, bool runnable)
{
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(p));
	struct task_ctx *t = task_ctx_of(p);
	u64 now = scx_bpf_now();

	if (!rq || !t)
		return;
	update_curr(rq, now);
	t->running = false;
	t->rescued = false;
	t->slice_exec = rq->slice_exec;
	t->round_slice = rq->curr_round_slice;
	if (host == HOST_O1) {
		charge_ticks(rq, t, now);
		charge_run_time(t, now);
	} else {
		scx_bpf_task_set_dsq_vtime(p, rq->curr_vruntime);
	}
	t->last_ran = now;
	if (t->round_slice <= 0)
		finish_round_slice(rq, t);
	rq->curr = false;
	rq->curr_pid = 0;
	if (runnable)
		hand_back(p);
}

DEFINE_CPU_RELEASE(dwrr)

void BPF_STRUCT_OPS(dwrr_tick, struct task_struct *p)
{
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(p));
	struct task_ctx *t = task_ctx_of(p);
	u64 now = scx_bpf_now();

	if (!rq || !t || host != HOST_O1)
		return;
	update_curr(rq, now);
	if (charge_ticks(rq, t, now) || rq->curr_round_slice <= 0 || rescue_overdue(rq, now))
		scx_bpf_task_set_slice(p, 0);
}

/* The host's balancer has idle CPUs look for threads that wait. */
#define worth_balancing() nr_overloaded
#define balancing_is_due(rq, now) true

#include "idle_tick.h"

/* ---- Tasks and the machine ------------------------------------------------------------------------------------- */

s32 BPF_STRUCT_OPS_SLEEPABLE(dwrr_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *t = new_task_ctx(p);

	if (!t)
		return -ENOMEM;
	t->new_task = args->fork;
	t->weight = task_weight(p);
	t->round_slice = round_slice_of(t);
	t->static_prio = static_prio_of(p);
	t->time_slice = task_timeslice(t);
	t->timestamp = scx_bpf_now();
	if (args->fork && host == HOST_O1)
		sched_fork(t, t->timestamp);
	t->prio = effective_prio(t);
	return 0;
}

void BPF_STRUCT_OPS(dwrr_enable, struct task_struct *p)
{
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(p));
	struct task_ctx *t = task_ctx_of(p);

	if (rq && t)
		begin_level(rq, t, p);
}

/* set_user_nice() of O(1). The new weight counts from the next round slice on. */
void BPF_STRUCT_OPS(dwrr_set_weight, struct task_struct *p, u32 weight)
{
	struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return;
	t->static_prio = static_prio_of(p);
	t->prio = effective_prio(t);
	t->at_head = false;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(dwrr_init)
{
	u32 list, queues = host == HOST_CFS ? 2 : NR_QUEUES, lists = host == HOST_CFS ? 1 : NR_LISTS;
	s32 cpu, error;

	nr_cpus = topology_nr_cpus ?: scx_bpf_nr_cpu_ids();
	tick_nsec = tick_length(hz);
	num_online_cpus = count_online_cpus();

	bpf_for(cpu, 0, nr_cpus) {
		const volatile struct cpu_topology *place = topology_of(cpu);
		struct run_queue *rq = run_queue_of(cpu);

		if (!rq)
			continue;
		bpf_for(list, 0, queues * lists) {
			error = scx_bpf_create_dsq(list_dsq(cpu, list / lists, list % lists), NUMA_NO_NODE);
			if (error)
				return error;
		}
		rq->cpu = cpu;
		rq->exists = !place || place->capacity;
		rq->position = place ? place->position : cpu;
		rq->llc.first = place ? place->llc_cpus.first : 0;
		rq->llc.count = place ? place->llc_cpus.count : nr_cpus;
		rq->round_expired = 1;
		rq->host_expired = 2;
		rq->best_expired_prio = MAX_PRIO;
		rq->lowest_round = ~0ULL;
		/* As in the host, so that virtual times wrap around soon and always have */
		rq->min_vruntime = -(1ULL << 20);
		rq->next_balance = scx_bpf_now() + BALANCE_INTERVAL;
	}

	set_constants(num_online_cpus);
	return nr_cpus > 1 ? init_idle_tick() ?: start_idle_tick() : 0;
}

DEFINE_SCHEDULER(dwrr,
		 .select_cpu = (void *)dwrr_select_cpu,
		 .enqueue = (void *)dwrr_enqueue,
		 .dispatch = (void *)dwrr_dispatch,
		 .tick = (void *)dwrr_tick,
		 .running = (void *)dwrr_running,
		 .stopping = (void *)dwrr_stopping,
		 .cpu_release = (void *)dwrr_cpu_release,
		 .quiescent = (void *)dwrr_quiescent,
		 .yield = (void *)dwrr_yield,
		 .set_weight = (void *)dwrr_set_weight,
		 .init_task = (void *)dwrr_init_task,
		 .enable = (void *)dwrr_enable,
		 .init = (void *)dwrr_init,
		 .flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
		 .timeout_ms = 30000,
		 .name = "dwrr");
