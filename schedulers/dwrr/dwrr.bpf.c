// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * dwrr - Distributed Weighted Round-Robin
 *
 * A layer over a host scheduler, CFS, that makes it fair across CPUs. In each round every thread
 * may run for one round slice, w * B: w is its weight, and B is the same for the whole system. Each
 * CPU has two queues: RQ holds the threads that have not used up their slice of the CPU's current
 * round, EQ those that have and wait for the next. When RQ is empty, the CPU does round balancing:
 * before it begins a new round, it takes threads that have not finished the highest round from
 * other CPUs. So all threads go through the same number of rounds, however many CPUs there are.
 * Within a round the host's rules decide which task runs, by virtual runtime. README.md maps the
 * documents to this file and lists the departures.
 *
 * The document's round(p) is run_queue.round; highest has the same name here. task_ctx.round is the
 * round that a thread's slice is for: the thread belongs in RQ of a CPU that has reached that
 * round, and in EQ of one that has not.
 */
#include "fairground.bpf.h"
#include "fair_state.h"
#include "topology.h"

/* ---- Tunables -------------------------------------------------------------------------------- */

/* B, the round slice of nice 0 */
const volatile u64 round_slice = 25 * NSEC_PER_MSEC;

/* X, the most threads that one round balancing moves */
const volatile u32 threads_moved = 1;

/* Timer ticks per second in the host's era */
const volatile u32 hz = 200;

/* The host's load balancer */
const volatile bool host_balance = true;

/* ---- Statistics, in the order of scheduler.toml ---------------------------------------------- */

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

/* ---- Threads --------------------------------------------------------------------------------- */

struct task_ctx {
	/*
	 * The round that the slice is for, and the rest of the slice, nanoseconds; while the thread
	 * runs, that is in its run queue
	 */
	u64 round;
	s64 round_slice;
	CFS_TASK_STATE
};

DEFINE_TASK_DATA(struct task_ctx, task_ctx_map, task_ctx)

/* ---- Run queues ------------------------------------------------------------------------------ */

/* Why threads are moved: round balancing, the CPU would be idle, or the host's balancer */
enum reason {
	ROUND_BALANCING,
	WOULD_BE_IDLE,
	HOST_BALANCING,
};

/* What a CPU looks for in another's queue: up to @wanted threads of round @up_to or earlier */
struct search {
	enum reason reason;
	u64 up_to;
	u32 wanted;
	/* The host's balancer: load still to be moved */
	s64 rem_load_move;
	/*
	 * In the queue being searched; not local variables, whose values the verifier would follow
	 * through every iteration
	 */
	u32 looked_at;
	u32 moved;
	/* In the scan of all CPUs: number of threads taken, and lowest round of a busy CPU */
	u32 taken;
	u64 lowest_round;
};

struct run_queue {
	CFS_QUEUE_STATE
	u32 position;
	/* CPU numbers may have gaps */
	bool exists;

	/* round(p) */
	u64 round;
	/* Which of the two queues is RQ; the other is EQ */
	u32 active;

	/* Rest of the running thread's round slice, as of exec_start */
	s64 curr_round_slice;

	struct search search;
	/* When the host's balancer is due */
	u64 next_balance;
	/* Lowest round of a busy CPU that the last scan saw */
	u64 lowest_round;
	struct topology_span llc;
};

DEFINE_PER_CPU(struct run_queue, run_queue)

/* The largest round of any CPU */
static u64 highest;

static u32 num_online_cpus;

/* How many threads and rounds one pick steps over before it takes a thread however far ahead */
#define MAX_PICKS 256

/*
 * A thread moves to its waker's CPU if the load there, with it, is at most this percentage of its
 * last CPU's: 100 + (125 - 100) / 2
 */
#define WAKE_IMBALANCE 112

/*
 * The host's load balancer: its interval, how long it considers a thread cache-hot, and after how
 * many threads of a queue it stops looking
 */
#define BALANCE_INTERVAL (64 * NSEC_PER_MSEC)
#define sched_migration_cost (500 * NSEC_PER_USEC)
#define sched_nr_migrate 32

/* The host: CFS of 3.0, with the settings of the case study */
static const u32 release = RELEASE_3_0;
static const u64 sched_latency = 6 * NSEC_PER_MSEC;
static const u64 sched_min_granularity = 750 * NSEC_PER_USEC;
static const u64 sched_wakeup_granularity = 1 * NSEC_PER_MSEC;
static const bool sched_tunable_scaling = false;
static const bool wakeup_preempt = true;
static const bool new_fair_sleepers = true;

/* In the load a real-time task weighs as much as two of nice -20. It enters no rounds. */
#define REAL_TIME_WEIGHT (2 * 88761)

#include "starving_queue.h"
#include "fair.h"
#include "idle_tick.h"

static __always_inline u64 waits_since(const struct task_ctx *t)
{
	return t->wait_start;
}

/* The queues, ordered by virtual runtime: RQ and EQ of a CPU. */
static __always_inline u64 rq_dsq(const struct run_queue *rq)
{
	return (u64)rq->cpu * 2 + (rq->active & 1);
}

static __always_inline u64 eq_dsq(const struct run_queue *rq)
{
	return (u64)rq->cpu * 2 + !(rq->active & 1);
}

/* ---- Rounds and round slices ----------------------------------------------------------------- */

/* w * B, where w is 1 for nice 0. */
static __always_inline u64 round_slice_of(const struct task_ctx *t)
{
	return round_slice * t->weight / NICE_0_WEIGHT ?: 1;
}

/* May the thread run in this CPU's round? Otherwise it belongs in EQ. */
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
 * The thread has used up its round slice: it gets that of the next round. Since the kernel ends
 * slices at ticks, it may have run for longer; the excess is taken from the new slice. If that
 * leaves nothing, the thread has run ahead by another round, and so on.
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
	count(STAT_SLICES_USED);
}

/*
 * The thread comes to a CPU. The rest of its slice counts only in its own round: if it slept into a
 * later one, it gets a full slice. If it stayed runnable (@slept is false) and comes from a CPU
 * that was behind, it keeps the rest on top of that.
 */
static __always_inline void join_round(const struct run_queue *rq, struct task_ctx *t, bool slept)
{
	if (t->round >= rq->round)
		return;
	t->round_slice = round_slice_of(t) + (slept ? 0 : t->round_slice);
	t->round = rq->round;
}

/*
 * The thread comes from another CPU. One that has finished its CPU's round there waits here for the
 * next, and has run ahead by as many rounds as there: the rounds of CPUs that bound threads keep
 * apart are not comparable.
 */
static __always_inline void convert_round(const struct run_queue *rq, struct task_ctx *t)
{
	struct run_queue *old_rq = run_queue_of(t->vruntime_cpu - 1);
	u64 ahead = 1;

	if (!old_rq || old_rq == rq)
		return;
	if (t->round > old_rq->round)
		ahead = t->round - old_rq->round;
	t->round = min(t->round, rq->round + ahead);
}

/*
 * May a thread be woken or forked here: is round(p) highest or highest - 1? A CPU without threads
 * joins the highest.
 */
static __always_inline bool round_is_open(const struct run_queue *rq)
{
	return !rq->nr_running || rq->round + 1 >= highest;
}

/* ---- CFS: virtual time and slices ------------------------------------------------------------ */

static __always_inline void before_load_changes(struct run_queue *rq, u64 now)
{
}

static __always_inline void count_besides(struct run_queue *rq, struct task_ctx *t, s32 number)
{
}

/* RQ is the tree of CFS. */
static __always_inline u64 leftmost_dsq(const struct run_queue *rq)
{
	return rq_dsq(rq);
}

/* Time is also charged to the round slice. */
static __always_inline void charge_besides(struct run_queue *rq, u64 delta_exec)
{
	rq->curr_round_slice -= delta_exec;
}

/*
 * Virtual runtime of a new thread: the end of the current period, which is already promised, but
 * not before the running thread's.
 */
static __always_inline u64 place_new_thread(const struct run_queue *rq)
{
	u64 vruntime = rq->min_vruntime + sched_vslice(rq->nr_running, rq->load_weight);

	return rq->curr ? max_vruntime(rq->curr_vruntime, vruntime) : vruntime;
}

/* ---- Taking threads from other CPUs ---------------------------------------------------------- */

/*
 * Moves the threads that this CPU searches for from RQ of @victim, or EQ if @expired, to its own
 * RQ, or EQ if @to_expired, in the order of the queue. The host's balancer skips threads that are
 * too heavy or cache-hot. Returns how many threads were moved.
 */
__noinline u32 take_threads(struct run_queue *rq __arg_nonnull,
			    struct run_queue *victim __arg_nonnull, bool expired, bool to_expired)
{
	struct search *search = &rq->search;
	struct task_struct *p;

	search->looked_at = 0;
	search->moved = 0;

	bpf_for_each(scx_dsq, p, expired ? eq_dsq(victim) : rq_dsq(victim), 0) {
		struct task_ctx *t;
		u64 now;

		if (!search->wanted)
			break;
		if (search->reason == HOST_BALANCING && search->looked_at++ > sched_nr_migrate)
			break;
		t = task_ctx_of(p);
		if (!t || t->round > search->up_to || !task_allowed(p, rq->cpu))
			continue;
		now = scx_bpf_now();
		/* The document's W / 2 > L_imbal */
		if (search->reason == HOST_BALANCING &&
		    (t->weight / 2 > search->rem_load_move ||
		     (s64)(now - t->last_ran) < (s64)sched_migration_cost))
			continue;

		scx_bpf_dsq_move_set_vtime(DSQ_ITERATOR,
					   vruntime_on(rq, victim, p->scx.dsq_vtime, now));
		if (!scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p,
					    to_expired ? eq_dsq(rq) : rq_dsq(rq), 0))
			continue;
		t->vruntime_cpu = rq->cpu + 1;
		account_move(t, victim, rq, now);
		search->moved++;
		search->wanted--;

		if (search->reason == WOULD_BE_IDLE && t->round > rq->round) {
			/*
			 * It has finished this round; the idle CPU begins the next round with it,
			 * and no later one
			 */
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
	return search->moved;
}

/*
 * Scans the other CPUs, starting with the next one, for waiting threads that have not finished
 * round @top, and takes up to X of them. They are in RQ of a CPU in that round, or in RQ or EQ of
 * one that is behind: by one round, or by more if threads are bound to it or a single thread is
 * entitled to more than a CPU. With @any, takes one waiting thread of any round.
 */
__noinline u32 scan_cpus(struct run_queue *rq __arg_nonnull, u64 top, bool any)
{
	struct search *search = &rq->search;
	struct run_queue *other;
	u32 step, position, eq;

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
		/* No thread waits there */
		if (other->nr_running <= other->curr)
			continue;
		behind = other->round < top;
		if (!any && !behind && other->round != top)
			continue;

		bpf_for(eq, 0, 2) {
			u32 taken;

			if (!search->wanted || (eq && !behind && !any))
				continue;
			taken = take_threads(rq, other, eq, false);
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
	rq->active = !(rq->active & 1);
	rq->round++;
	raise_highest(rq->round);
	count(STAT_ROUNDS);
	if (rq->lowest_round != ~0ULL && rq->round > rq->lowest_round + 1)
		count(rq->round == rq->lowest_round + 2 ? STAT_ROUNDS_TWO_APART :
							  STAT_ROUNDS_FURTHER_APART);
	rq->lowest_round = ~0ULL;
}

/*
 * Round balancing, when RQ of this CPU is empty. If @prev_expired, the thread that ran until now is
 * runnable and has finished its round: it counts as in EQ although it is not queued yet. Returns
 * false if there is nothing to run.
 */
__noinline bool round_balance(struct run_queue *rq __arg_nonnull, bool prev_expired)
{
	u64 top = highest;
	bool eq_empty;

	count(STAT_ROUND_BALANCES);
	eq_empty = !prev_expired && scx_bpf_dsq_nr_queued(eq_dsq(rq)) <= 0;

	if (rq->round >= top || eq_empty) {
		if (nr_overloaded && scan_cpus(rq, top, false)) {
			if (rq->round < top)
				rq->round = top;
			return true;
		}
		if (eq_empty) {
			/*
			 * A CPU without threads joins the highest round and, as in the host, takes
			 * any thread
			 */
			rq->round = top;
			return nr_overloaded && scan_cpus(rq, top, true);
		}
	}
	next_round(rq);
	return true;
}

/*
 * The host's balancer, as in the document: L_k = sum of weights of CPU k, L_imbal =
 * min(min(L_busiest, L_avg), L_avg - L_k), and a thread of weight W does not move if L_imbal < W /
 * 2. It balances only CPUs in the same round, from RQ to RQ and from EQ to EQ.
 */
__noinline int balance_load(struct run_queue *rq __arg_nonnull)
{
	struct search *search = &rq->search;
	struct run_queue *other, *busiest;
	u64 total = 0, max_load = 0, average;
	s32 busiest_cpu = -1;
	u32 position, moved;

	if (!nr_overloaded)
		return 0;
	count(STAT_HOST_BALANCES);
	for_each_rq_in_span(other, position, 0, nr_cpus) {
		total += other->load_weight;
		if (other->cpu != rq->cpu && other->round == rq->round && other->nr_running > 1 &&
		    other->load_weight > max_load) {
			max_load = other->load_weight;
			busiest_cpu = other->cpu;
		}
	}
	average = total / (num_online_cpus ?: 1);
	busiest = run_queue_of(busiest_cpu);
	if (!busiest || max_load <= rq->load_weight || average <= rq->load_weight)
		return 0;
	search->reason = HOST_BALANCING;
	search->up_to = ~0ULL;
	search->wanted = ~0U;
	search->rem_load_move = min(min(max_load, average), average - rq->load_weight);

	moved = take_threads(rq, busiest, false, false);
	moved += take_threads(rq, busiest, true, true);
	count_by(STAT_HOST_MOVED, moved);
	return 0;
}

/* ---- Slices and preemption ------------------------------------------------------------------- */

/*
 * When the CPU must next go through schedule(): at the end of the running thread's round slice or
 * of the host's slice, or when balancing is due. A thread that is just coming to RQ is not there
 * yet: if one @arrives, @arriving is its virtual runtime.
 */
static __always_inline u64 next_event(const struct run_queue *rq, bool arrives, u64 arriving,
				      u64 now)
{
	u64 end = now + MAX_RUN;

	if (rq->curr_round_slice < (s64)MAX_RUN)
		end = now + (rq->curr_round_slice > 0 ? rq->curr_round_slice : 1);
	end = preempt_tick(rq, arrives, arriving, end, now);
	if (nr_cpus > 1 && host_balance && nr_overloaded)
		end = min(end, time_before(now, rq->next_balance) ? rq->next_balance :
								    tick_from(now + 1));
	return end;
}

/* ---- Placement of a waking or new thread ----------------------------------------------------- */

/* An idle CPU that may take @p: @cpu, one that shares its cache, or any; negative if none is. */
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

/* The CPU with the least load of those in the highest round or the one before; @cpu if none is. */
static __always_inline s32 least_loaded_cpu(s32 cpu, const struct task_struct *p)
{
	struct run_queue *rq;
	u64 min_load = ~0ULL;
	u32 position;
	s32 best = cpu;

	for_each_rq_in_span(rq, position, 0, nr_cpus) {
		if (!rq->exists || !bpf_cpumask_test_cpu(rq->cpu, p->cpus_ptr) ||
		    !round_is_open(rq))
			continue;
		if (rq->load_weight < min_load) {
			min_load = rq->load_weight;
			best = rq->cpu;
		}
	}
	return best;
}

/* Should a thread that last ran on @prev_rq wake on the CPU of its waker? */
static __always_inline bool wake_affine(const struct run_queue *this_rq,
					const struct run_queue *prev_rq, const struct task_ctx *t,
					bool sync)
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

	if (!(wake_flags & SCX_WAKE_FORK) && this_cpu != prev_cpu &&
	    bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr) &&
	    wake_affine(this_rq, prev_rq, t, wake_flags & SCX_WAKE_SYNC))
		cpu = this_cpu;

	idle = idle_cpu_near(cpu, p);
	if (idle >= 0 && scx_bpf_test_and_clear_cpu_idle(idle))
		return idle;
	if (wake_flags & SCX_WAKE_FORK)
		return least_loaded_cpu(prev_cpu, p);

	/* The host's choice, restricted to CPUs that are at most one round behind */
	rq = run_queue_of(cpu);
	if (rq && round_is_open(rq))
		return cpu;
	count(STAT_REDIRECTED);
	if (round_is_open(prev_rq))
		return prev_cpu;
	return least_loaded_cpu(cpu, p);
}

/* ---- Queueing -------------------------------------------------------------------------------- */

void BPF_STRUCT_OPS(dwrr_enqueue, struct task_struct *p, u64 enq_flags)
{
	bool wakeup = enq_flags & SCX_ENQ_WAKEUP, put_prev, new_task, changing;
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_ctx *t = task_ctx_of(p);
	struct run_queue *rq = near_run_queue(cpu);
	u64 vruntime, now = scx_bpf_now();
	bool expired;

	if (!t || !rq) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return;
	}
	new_task = t->new_task;
	changing = t->changing;
	t->new_task = false;
	t->changing = false;
	if (!changing)
		t->wait_start = now;

	/* The running thread has been put back: the CPU already has its next thread */
	put_prev = t->on_rq == cpu + 1 && !wakeup && !(enq_flags & SCX_ENQ_LAST);

	if (!rq->nr_running && rq->round < highest)
		rq->round = highest;
	convert_round(rq, t);
	vruntime = set_task_cpu(rq, t, p, now);
	update_curr(rq, now);
	account_enqueue(rq, t, task_weight(p), now);

	if (new_task) {
		/* A full slice, in the round of the CPU */
		t->round = rq->round;
		t->round_slice = round_slice_of(t);
		vruntime = place_new_thread(rq);
		count(STAT_FORKS);
	} else {
		join_round(rq, t, wakeup);
		if (wakeup) {
			vruntime = place_entity(rq, vruntime);
			count(STAT_WAKEUPS);
			if (!in_round(rq, t))
				count(STAT_WOKEN_EXPIRED);
		}
	}

	expired = !in_round(rq, t);
	scx_bpf_dsq_insert_vtime(p, expired ? eq_dsq(rq) : rq_dsq(rq), MAX_RUN, vruntime,
				 enq_flags);

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

	if (!expired && check_preempt_wakeup(rq, p, t->weight, vruntime)) {
		count(STAT_WAKEUP_PREEMPTIONS);
		resched_curr(rq);
	} else if (changing && t->weight > t->old_weight) {
		resched_curr(rq);
	} else {
		end_slice_at(rq, next_event(rq, !expired, vruntime, now));
		wake_idle_cpu(p);
	}
}

DEFINE_QUIESCENT(dwrr)

bool BPF_STRUCT_OPS(dwrr_yield, struct task_struct *from, struct task_struct *to)
{
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(from));

	if (to || !rq || rq->nr_running == 1)
		return false;
	count(STAT_YIELDS);
	update_curr(rq, scx_bpf_now());
	/* CFS passes over it once; the round slice is untouched */
	rq->skip = from->pid;
	rq->need_resched = true;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/* ---- Nobody waits for ever (not DWRR's) ------------------------------------------------------ */

/*
 * Runs a thread that waited too long, in any round: slices of nice -20 last seconds. True if one
 * did.
 */
__noinline bool rescue_starved(s32 cpu)
{
	if (!rescue_from_queue((u64)cpu * 2, 0, 0) && !rescue_from_queue((u64)cpu * 2 + 1, 0, 0))
		return false;
	count(STAT_RESCUED);
	return true;
}

/* ---- Picking --------------------------------------------------------------------------------- */

enum pick {
	PICK_NONE,
	/* The thread that ran until now continues */
	PICK_PREV,
	PICK_OTHER,
};

/* The host's rule: does the thread that ran come before RQ's first, as if it were queued there? */
static __always_inline bool prev_is_first(const struct run_queue *rq, u64 leftmost)
{
	if (rq->skip == rq->curr_pid)
		return !time_before(leftmost,
				    rq->curr_vruntime +
					    calc_delta_fair(wakeup_granularity, rq->curr_weight));
	/* If they are equal, the waiting thread comes first */
	return time_before(rq->curr_vruntime, leftmost);
}

/* Sends the first thread of RQ to EQ if it has run ahead of this CPU's round. */
static __always_inline bool defer_first(struct run_queue *rq, struct task_struct *first)
{
	struct task_ctx *t = task_ctx_of(first);
	struct task_struct *p;

	if (!t || in_round(rq, t))
		return false;
	bpf_for_each(scx_dsq, p, rq_dsq(rq), 0) {
		if (p->pid == first->pid && scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p, eq_dsq(rq), 0))
			count(STAT_RAN_AHEAD);
		break;
	}
	return true;
}

/*
 * Picks a thread from RQ by the host's rule, after round balancing if RQ is empty, and moves it to
 * this CPU's local queue. @prev is the thread that ran until now, if it is still runnable; it is in
 * no queue but counts as if it were in its own.
 */
static __noinline enum pick pick_next(struct run_queue *rq, struct task_ctx *prev)
{
	struct task_struct *first;
	u32 i;

	bpf_for(i, 0, MAX_PICKS) {
		bool prev_in_round = prev && in_round(rq, prev);

		first = leftmost_task(rq);
		if (!first && !prev_in_round) {
			if (!round_balance(rq, prev != NULL))
				return PICK_NONE;
			continue;
		}
		if (prev_in_round && (!first || prev_is_first(rq, first->scx.dsq_vtime)))
			return PICK_PREV;
		if (first && !defer_first(rq, first) && scx_bpf_dsq_move_to_local(rq_dsq(rq), 0))
			return PICK_OTHER;
	}

	/* All are far ahead: one of them runs anyway */
	if (prev) {
		prev->round = rq->round;
		return PICK_PREV;
	}
	/* The last thread of RQ may just have been sent to EQ */
	return scx_bpf_dsq_move_to_local(rq_dsq(rq), 0) ||
	       (round_balance(rq, false) && scx_bpf_dsq_move_to_local(rq_dsq(rq), 0)) ?
	       PICK_OTHER : PICK_NONE;
}

void BPF_STRUCT_OPS(dwrr_dispatch, s32 cpu, struct task_struct *prev)
{
	struct run_queue *rq = near_run_queue(cpu);
	struct task_ctx *t = NULL;
	bool resched = true, rescued;
	enum pick pick;
	u64 now = scx_bpf_now();

	if (!rq)
		return;
	rq->picked_at = 0;
	uncount_real_time(rq, now);
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		t = task_ctx_of(prev);

	if (t) {
		update_curr(rq, now);
		t->round_slice = rq->curr_round_slice;
		if (t->round_slice <= 0) {
			finish_round_slice(rq, t);
			rq->curr_round_slice = t->round_slice;
		} else {
			resched = rq->need_resched || check_preempt_tick(rq, now);
		}
	}
	if (nr_cpus > 1 && host_balance && !time_before(now, rq->next_balance)) {
		rq->next_balance = now + BALANCE_INTERVAL;
		balance_load(rq);
	}

	rescued = starvation_check_is_due(&rq->rescue_at, now) && rescue_starved(cpu);
	if (t && !resched && !rescued) {
		run_until(rq, prev, next_event(rq, false, 0, now), now);
		return;
	}
	pick = rescued ? PICK_NONE : pick_next(rq, t);
	if (pick == PICK_OTHER)
		rq->picked_at = now;
	if (pick == PICK_PREV && t) {
		join_round(rq, t, false);
		rq->curr_round_slice = t->round_slice;
		rq->slice_exec = 0;
		rq->need_resched = false;
		run_until(rq, prev, next_event(rq, false, 0, now), now);
	}
	rq->skip = 0;
}

/* ---- Running --------------------------------------------------------------------------------- */

void BPF_STRUCT_OPS(dwrr_running, struct task_struct *p)
{
	struct run_queue *rq = near_run_queue(scx_bpf_task_cpu(p));
	struct task_ctx *t = task_ctx_of(p);
	u64 now;

	if (!rq || !t)
		return;

	now = set_curr_task(rq, t, p);
	join_round(rq, t, false);
	rq->curr_round_slice = t->round_slice;
	run_until(rq, p, next_event(rq, false, 0, now), now);
}

void BPF_STRUCT_OPS(dwrr_stopping, struct task_struct *p, bool runnable)
{
	struct run_queue *rq = near_run_queue(scx_bpf_task_cpu(p));
	struct task_ctx *t = task_ctx_of(p);

	if (!rq || !t)
		return;
	put_prev_task(rq, t, p, runnable);
	t->round_slice = rq->curr_round_slice;
	if (t->round_slice <= 0)
		finish_round_slice(rq, t);
}

DEFINE_CPU_RELEASE(dwrr)

/* The host's balancer makes idle CPUs look for threads: at every tick, while any waits. */
static __always_inline bool worth_balancing(void)
{
	return nr_overloaded;
}

static __always_inline bool balancing_is_due(const struct run_queue *rq, u64 now)
{
	return true;
}

static __always_inline void balance_in_vain(struct run_queue *rq, u64 now)
{
}

/* ---- Tasks and the machine ------------------------------------------------------------------- */

s32 BPF_STRUCT_OPS_SLEEPABLE(dwrr_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *t = new_task_ctx(p);

	if (!t)
		return -ENOMEM;
	t->new_task = args->fork;
	t->weight = task_weight(p);
	t->round_slice = round_slice_of(t);
	return 0;
}

void BPF_STRUCT_OPS(dwrr_enable, struct task_struct *p)
{
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(p));
	struct task_ctx *t = task_ctx_of(p);

	if (rq && t)
		begin_level(rq, t);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(dwrr_init)
{
	struct run_queue *rq;
	s32 cpu, error;

	nr_cpus = topology_nr_cpus ?: scx_bpf_nr_cpu_ids();
	tick_nsec = tick_length();
	num_online_cpus = count_online_cpus();

	for_each_rq(rq, cpu, nr_cpus) {
		const volatile struct cpu_topology *place = topology_of(cpu);

		rq->cpu = cpu;
		error = scx_bpf_create_dsq(rq_dsq(rq), NUMA_NO_NODE) ?:
			scx_bpf_create_dsq(eq_dsq(rq), NUMA_NO_NODE);
		if (error)
			return error;
		rq->exists = cpu_exists(cpu);
		rq->position = place ? place->position : cpu;
		rq->llc.first = place ? place->llc_cpus.first : 0;
		rq->llc.count = place ? place->llc_cpus.count : nr_cpus;
		rq->lowest_round = ~0ULL;
		/* As in the host, so that virtual times soon wrap around */
		rq->min_vruntime = -(1ULL << 20);
		rq->next_balance = scx_bpf_now() + BALANCE_INTERVAL;
	}

	set_constants(num_online_cpus);
	return nr_cpus > 1 ? init_idle_tick() ?: start_idle_tick() : 0;
}

DEFINE_SCHEDULER(dwrr,
	CALLBACKS_OF(dwrr, select_cpu, enqueue, dispatch, running, stopping, cpu_release, quiescent,
		     yield, init_task, enable, init)
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.name = "dwrr");
