// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ebs - the O(1) Entitlement Based Scheduler for Linux 2.6.2, Aurema 2004
 *
 * Every task holds shares. A filter estimates the fraction of a CPU that a task uses; usage divided
 * by shares is compared with the highest usage per share seen on its CPU, and the ratio becomes its
 * priority: tasks that get less than others, or sleep much, have better priorities. Caps limit the
 * usage: soft caps through the priority, hard caps by moving the task from the run queue to the
 * sinbin. README.md maps the document to this file, describes the maps that can be read, and lists
 * the departures.
 *
 * Usage rates and caps are in units of 2^-32. Priorities appear as levels: 0 to 39 for 100 to 139,
 * 40 for background.
 */
#include "ebs.h"
#include "queue_length_balance.h"

/* ---- The filter ------------------------------------------------------------------------------ */

/* Response half life in nanoseconds, slice in ticks */
static u64 half_life_ns;
static u32 slice_ticks;

/* Time until a usage rate has decayed from @usage to @target: half life * log2(usage / target). */
__noinline u64 time_to_decay(u64 usage, u64 target)
{
	if (usage <= target || !target)
		return 0;
	return half_life_ns * (log2_of(usage) - log2_of(target)) >> 16;
}

/*
 * Moves the estimate towards the fraction of time that the task was on a CPU, half of the way in
 * each half life. This is exact for a stretch of running or of not running, however long. Stretches
 * are added up to at least a millisecond, since shorter steps would be lost to rounding.
 */
__noinline int estimate_usage(struct task_ctx *t __arg_nonnull, u64 now)
{
	u64 time = elapsed(t->accounted, now);
	u64 left, part;

	t->accounted = now;
	t->period += time;
	if (t->running)
		t->busy += time;
	if (t->period < NSEC_PER_MSEC)
		return 0;
	part = t->busy == t->period ? ONE :
	       t->busy < ONE << 10 ? (t->busy << 20) / t->period << 12 : ONE;
	left = decay_over(t->period, half_life_ns);
	t->public.usage = min((t->public.usage * left >> 32) + ((ONE - left) * (part >> 1) >> 31),
			      ONE);
	t->public.estimated_at = now;
	t->period = 0;
	t->busy = 0;
	return 0;
}

/* ---- Shares and caps ------------------------------------------------------------------------- */

static __always_inline u32 nice_to_shares(s32 nice)
{
	return nice >= 0 ? DEFAULT_SHARES - nice : DEFAULT_SHARES + nice * nice;
}

/* The nice value that corresponds to @shares, rounded to the nearest. */
static __noinline s32 shares_to_nice(u32 shares)
{
	s32 nice;

	if (shares <= DEFAULT_SHARES)
		return DEFAULT_SHARES - shares;
	/* Above n * n + n the square root rounds up to n + 1 */
	bpf_for(nice, 1, -MIN_NICE)
		if (shares - DEFAULT_SHARES <= (u32)(nice * nice + nice))
			return -nice;
	return MIN_NICE;
}

/* A rational number in units of 2^-32, at most 1. */
static __always_inline u64 rate(u32 numerator, u32 denominator)
{
	if (!denominator || numerator >= denominator)
		return ONE;
	return ((u64)numerator << 32) / denominator;
}

/* Updates shares, caps and flags from the task's attributes. */
static __noinline void read_attributes(struct task_struct *p, struct task_ctx *t)
{
	const struct task_attributes *a = attributes_of(p);
	u32 shares = nice_to_shares(t->static_prio - DEFAULT_PRIO);
	u64 hard = ONE, soft = ONE;
	u32 flags = t->public.flags & EBS_IN_SINBIN;

	if (patch != PATCH_BASIC && a && (a->present & TASK_ATTRIBUTE_SHARES))
		shares = a->shares < MIN_SHARES ? MIN_SHARES :
			 a->shares > MAX_SHARES ? MAX_SHARES : a->shares;
	/* A hard cap of 0 is not permitted */
	if (patch != PATCH_BASIC && a && (a->present & TASK_ATTRIBUTE_HARD_CAP) &&
	    a->hard_cap_numerator) {
		hard = rate(a->hard_cap_numerator, a->hard_cap_denominator) ?: 1;
		flags |= EBS_HARD_CAP;
	}
	if (a && (a->present & TASK_ATTRIBUTE_SOFT_CAP)) {
		soft = rate(a->soft_cap_numerator, a->soft_cap_denominator);
		flags |= EBS_SOFT_CAP;
		if (!soft)
			flags |= EBS_BACKGROUND;
	}
	if (a && (a->present & TASK_ATTRIBUTE_BACKGROUND) && a->background)
		flags |= EBS_BACKGROUND;

	t->public.flags = flags;
	if (t->public.shares != shares) {
		t->public.shares = shares;
		t->public.nice = shares_to_nice(shares);
	}
	t->public.cap = min(hard, soft);
	t->hard_cap = hard;
}

/* ---- Priorities ------------------------------------------------------------------------------ */

/*
 * Promotion. At a constant entitlement, the ratio of a waiting task falls from (k + 1) / 20 to k /
 * 20 in half life * log2((k + 1) / k): this inverts the filter and the priority function. The
 * shortest of these times, that of the last level, is the promotion interval; promotion_steps[k] is
 * the number of intervals from level k to the best list, through all levels between.
 */
static u64 promotion_interval;
static u32 promotion_steps[NR_LEVELS];

/* Level for each number of intervals to the best list, which is at most 168 */
#define NR_STEPS 256
static u8 level_by_steps[NR_STEPS];

/*
 * More intervals than ever pass: background tasks are due this far in the future, tasks that have
 * waited too long this far in the past
 */
#define FAR (1ULL << 32)

/* Number of the interval that began at intervals_since, when the half life last changed */
static u64 intervals_base = 2 * FAR;
static u64 intervals_since;

/* Number of the current promotion interval */
static __always_inline u64 promotion_clock(u64 now)
{
	return intervals_base +
	       elapsed(intervals_since, now) / (promotion_interval ?: NSEC_PER_SEC);
}

/* Level of a task due at interval @due. It improves as time passes: this is the promotion. */
static __always_inline s32 level_at(u64 due, u64 clock)
{
	u64 steps = due - clock;

	if (!time_before(clock, due))
		return 0;
	return steps < NR_STEPS ? level_by_steps[steps] : BACKGROUND_LEVEL;
}

/*
 * The interval at which a task that enters a level now will reach the best one. Waiting tasks are
 * ordered by it, so one queue is both the promotion list and the priority list: tasks of the same
 * priority lie side by side, in order of arrival, and are promoted together. Tasks promoted to a
 * level and tasks that enter it in the same interval are due together.
 */
static __always_inline u64 due_at(s32 level, u64 now)
{
	u64 clock = promotion_clock(now);

	if (level < 0)
		return clock - FAR;
	return clock + (level < NR_LEVELS ? promotion_steps[level] : FAR);
}

/* T(k): time after which a waiting task at level @k deserves the next better one */
static __always_inline u64 promotion_time(u32 k)
{
	return half_life_ns * (log2_of(k + 1) - log2_of(k)) >> 16;
}

/* Sets half life and slice, and the values derived from them. */
__noinline int set_parameters(u32 half_life_ms, u32 time_slice_ms)
{
	u64 now = scx_bpf_now(), clock = promotion_clock(now), tick = tick_length();
	u32 sum = 0, k, i;

	slice_ticks = ms_to_ticks(time_slice_ms) ?: 1;
	if (half_life_ns == half_life_ms * NSEC_PER_MSEC)
		return 0;
	half_life_ns = half_life_ms * NSEC_PER_MSEC;

	intervals_base = clock;
	intervals_since = now;
	promotion_interval = ((promotion_time(NR_LEVELS - 1) + tick - 1) / tick ?: 1) * tick;
	bpf_for(k, 1, NR_LEVELS) {
		u32 from = sum;

		sum += (promotion_time(k) + promotion_interval - 1) / promotion_interval;
		if (k < NR_LEVELS)
			promotion_steps[k] = sum;
		bpf_for(i, from + 1, NR_STEPS)
			if (i < NR_STEPS)
				level_by_steps[i] = k;
	}
	return 0;
}

/*
 * The run queue's effective entitlement per share: the highest usage per share seen, which decays
 * like any usage.
 */
__noinline u64 effective_entitlement(struct run_queue *rq __arg_nonnull, u64 usage_per_share,
				     u64 now)
{
	u64 time = elapsed(rq->entitlement_at, now);
	u64 highest = rq->effective_entitlement_per_share;

	if (time >= NSEC_PER_MSEC) {
		highest = highest * decay_over(time, half_life_ns) >> 32;
		rq->entitlement_at = now;
	}
	highest = max(highest, usage_per_share);
	rq->effective_entitlement_per_share = highest;
	return highest;
}

/*
 * The task's level on a run queue: the ratio of its usage per share to the smaller of its cap per
 * share and the effective entitlement per share, mapped so that 1.0 is the mean level and each 1/20
 * is one level.
 */
static __noinline s32 calculate_priority(struct task_struct *p, struct task_ctx *t,
					 struct run_queue *rq, u64 now)
{
	u64 usage_per_share, allowed;
	u64 level = 0;
	u32 shares;

	read_attributes(p, t);
	estimate_usage(t, now);
	shares = t->public.shares ?: DEFAULT_SHARES;
	usage_per_share = t->public.usage / shares;
	allowed = effective_entitlement(rq, usage_per_share, now);
	/* No cap: only the entitlement limits; a cap of one CPU would restrict many shares */
	if (t->public.flags & (EBS_HARD_CAP | EBS_SOFT_CAP))
		allowed = min(t->public.cap / shares, allowed);

	if (t->public.flags & EBS_BACKGROUND)
		level = BACKGROUND_LEVEL;
	else if (allowed)
		level = min(MEAN_LEVEL * usage_per_share / allowed, NR_LEVELS - 1);
	else if (usage_per_share)
		level = NR_LEVELS - 1;
	t->public.prio = MAX_RT_PRIO + level;
	return level;
}

/*
 * True if the task must go to the sinbin. Not if it is exiting or has a pending signal, which may
 * be the one that ends it.
 */
static __always_inline bool over_hard_cap(struct task_struct *p, const struct task_ctx *t)
{
	return t->public.usage > t->hard_cap && !(p->flags & PF_EXITING) && !signal_is_pending(p);
}

/* ---- Queueing -------------------------------------------------------------------------------- */

/* Number of tasks in all sinbins */
static u32 nr_in_sinbin;

/* Updates all records when a task leaves the sinbin for any reason; nothing if it is not there. */
__noinline int leave_sinbin(struct task_ctx *t __arg_nonnull, u64 now)
{
	struct run_queue *rq;
	u64 time;

	if (!t->in_sinbin || !__sync_lock_test_and_set(&t->in_sinbin, 0))
		return 0;
	time = elapsed(t->sinbinned_at, now);
	t->public.flags &= ~EBS_IN_SINBIN;
	t->public.sinbin_time += time;
	t->waited_in_sinbin += time;
	count_by(STAT_SINBIN_NS, time);
	__sync_fetch_and_add(&nr_in_sinbin, -1);
	rq = run_queue_of(t->sinbin_cpu);
	if (rq)
		__sync_fetch_and_add(&rq->in_sinbin, -1);
	return 0;
}

static __always_inline s32 current_level(const struct run_queue *rq)
{
	return rq->curr_prio - MAX_RT_PRIO;
}

static __always_inline void set_current_level(struct run_queue *rq, s32 level)
{
	rq->curr_prio = MAX_RT_PRIO + level;
}

/* TASK_PREEMPTS_CURR: strictly better than the running task's priority stored in the run queue */
static __always_inline bool task_preempts_curr(const struct run_queue *rq, s32 level)
{
	return current_level(rq) <= BACKGROUND_LEVEL && level < current_level(rq);
}

/* Time left before a runnable task has waited too long */
static __always_inline u64 patience(const struct task_ctx *t, u64 now)
{
	u64 waited = elapsed(t->waiting_since, now), limit = starvation_limit * NSEC_PER_MSEC;

	return waited < limit ? limit - waited : 0;
}

/*
 * Puts a task into the sinbin: off the run queue until t->release_at, when its usage rate has
 * decayed to the cap. A task that would wait there too long comes out earlier, for a short turn.
 */
static void to_sinbin(struct task_ctx *t, struct run_queue *rq, s32 cpu, u64 now)
{
	u64 time = time_to_decay(t->public.usage, t->hard_cap), limit = patience(t, now);

	t->overdue = time > limit ? OVERDUE_TICKS : 0;
	t->release_at = now + min(time, limit);
	t->in_sinbin = 1;
	t->sinbin_cpu = cpu;
	t->sinbinned_at = now;
	t->public.flags |= EBS_IN_SINBIN;
	t->public.sinbinned++;
	count(STAT_SINBINNED);
	__sync_fetch_and_add(&nr_in_sinbin, 1);
	__sync_fetch_and_add(&rq->in_sinbin, 1);
	account_dequeue(t, now);
}

/* A task starts to wait on @rq. It may have waited elsewhere: rescue() may have to look earlier. */
static __always_inline void start_waiting(struct run_queue *rq, struct task_ctx *t, s32 level,
					  u64 now)
{
	t->level = level;
	account_enqueue(rq, t, 1, now);
	rq->rescue_at = min(rq->rescue_at, now + patience(t, now));
}

/* Puts task @p, found while iterating over a queue of @rq, back among the waiting tasks. */
#define requeue(p, t, rq, new_level, now)							\
	({											\
		bool moved_;									\
												\
		scx_bpf_dsq_move_set_vtime(DSQ_ITERATOR, due_at(new_level, now));		\
		moved_ = scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p, waiting_dsq((rq)->cpu), 0);	\
		if (moved_) {									\
			start_waiting(rq, t, new_level, now);					\
			if ((rq)->idle || task_preempts_curr(rq, new_level))			\
				scx_bpf_kick_cpu((rq)->cpu, (rq)->idle ? SCX_KICK_IDLE :	\
									 SCX_KICK_PREEMPT);	\
		}										\
		moved_;										\
	})

/* Time until the tick at which the task's turn ends, nanoseconds */
static __always_inline u64 slice_time(const struct task_ctx *t, u64 now)
{
	return time_to_multiple(now, t->overdue ?: t->slice_left ?: 1, tick_nsec);
}

static __always_inline void new_slice(struct task_ctx *t)
{
	t->slice_left = slice_ticks;
	t->first_time_slice = false;
}

s32 BPF_STRUCT_OPS(ebs_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id();
	struct task_ctx *t = task_ctx_of(p);
	bool sync = (wake_flags & SCX_WAKE_SYNC) && !(wake_flags & SCX_WAKE_FORK);

	if (!t)
		return prev_cpu;
	t->sync = sync;
	/* try_to_wake_up() of 2.6.2: a task stays where it was, unless its waker soon sleeps */
	if (sync && bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr))
		return this_cpu;
	return prev_cpu;
}

void BPF_STRUCT_OPS(ebs_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_ctx *t = task_ctx_of(p);
	struct run_queue *rq = run_queue_of(cpu);
	u64 now = scx_bpf_now(), slice;
	bool sync;
	s32 level;

	if (!t || !rq) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return;
	}
	/* Reset here: the kernel does not call ops.select_cpu() for a task with one CPU */
	sync = t->sync;
	t->sync = false;
	if (t->in_sinbin)
		leave_sinbin(t, now);
	/* It has become runnable */
	if (!t->on_rq) {
		t->waiting_since = now;
		t->waited_in_sinbin = 0;
	}
	if (enq_flags & SCX_ENQ_WAKEUP) {
		count(STAT_WAKEUPS);
		t->public.wakeups++;
	}
	level = calculate_priority(p, t, rq, now);
	t->yielded = false;
	t->overdue = 0;
	if (!t->slice_left)
		new_slice(t);
	slice = slice_time(t, now);

	if (over_hard_cap(p, t)) {
		to_sinbin(t, rq, cpu, now);
		scx_bpf_dsq_insert_vtime(p, sinbin_dsq(cpu), slice, t->release_at, 0);
		return;
	}
	start_waiting(rq, t, level, now);
	scx_bpf_dsq_insert_vtime(p, waiting_dsq(cpu), slice, due_at(level, now), 0);

	if (!rq->curr && higher_class_runs(cpu))
		count_real_time(rq, now);
	if (!task_preempts_curr(rq, level))
		return;
	/* The waker is about to leave the CPU, which then takes the task anyway */
	if ((enq_flags & SCX_ENQ_WAKEUP) && sync && cpu == (s32)bpf_get_smp_processor_id())
		return;
	count(STAT_PREEMPTIONS);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* ---- The tick -------------------------------------------------------------------------------- */

/* Charges the running task the ticks since it was last charged. True if its turn is over. */
__noinline bool charge_ticks(struct task_ctx *t __arg_nonnull, u64 now)
{
	u64 jiffies = now / tick_nsec, ticks = elapsed(t->charged_until, jiffies);

	t->public.run_time += elapsed(t->started, now);
	t->started = now;
	if (ticks) {
		t->charged_until = jiffies;
		if (t->overdue) {
			if (t->overdue > ticks)
				t->overdue -= ticks;
			else
				t->yielded = true;
		}
		if (t->slice_left && t->slice_left <= ticks) {
			count(STAT_SLICES_EXPIRED);
			t->public.slices++;
		}
		t->slice_left -= min(ticks, t->slice_left);
	}
	return !t->slice_left || t->yielded;
}

void BPF_STRUCT_OPS(ebs_tick, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);
	u64 now = scx_bpf_now();

	if (!t)
		return;
	estimate_usage(t, now);
	scx_bpf_task_set_slice(p, charge_ticks(t, now) ? 0 : slice_time(t, now));
}

void BPF_STRUCT_OPS(ebs_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_ctx *t = task_ctx_of(p);
	struct run_queue *rq = run_queue_of(cpu);
	u64 now = scx_bpf_now();
	s32 level;

	if (!t || !rq)
		return;
	level = t->level;
	if (level < BACKGROUND_LEVEL) {
		level = level_at(p->scx.dsq_vtime, promotion_clock(now));
		if (level < t->level) {
			t->public.promotions += t->level - level;
			count_by(STAT_PROMOTIONS, t->level - level);
		}
	} else {
		count(STAT_BACKGROUND_RUNS);
	}
	if (t->overdue) {
		level = OVERDUE_LEVEL;
		t->public.overdue++;
		count(STAT_OVERDUE);
	}
	uncount_real_time(rq, now);
	if (t->in_sinbin)
		leave_sinbin(t, now);
	account_enqueue(rq, t, 1, now);
	estimate_usage(t, now);
	t->public.wait_time += elapsed(t->waiting_since + t->waited_in_sinbin, now);
	t->public.runs++;
	t->running = true;
	t->started = now;
	t->charged_until = now / tick_nsec;
	rq->curr = true;
	set_current_level(rq, level);
	scx_bpf_task_set_slice(p, slice_time(t, now));
}

void BPF_STRUCT_OPS(ebs_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *t = task_ctx_of(p);
	struct run_queue *rq = run_queue_of(scx_bpf_task_cpu(p));
	u64 now = scx_bpf_now();

	if (!t || !rq)
		return;
	if (!charge_ticks(t, now) && runnable)
		t->public.preempted++;
	estimate_usage(t, now);
	t->running = false;
	t->waiting_since = now;
	t->waited_in_sinbin = 0;
	rq->curr = false;
	set_current_level(rq, NO_LEVEL);
	if (runnable)
		hand_back(p);
	else
		account_dequeue_from(rq, t, now);
}

DEFINE_CPU_RELEASE(ebs)

bool BPF_STRUCT_OPS(ebs_yield, struct task_struct *from, struct task_struct *to)
{
	struct task_ctx *t = task_ctx_of(from);

	if (to || !t)
		return false;
	count(STAT_YIELDS);
	t->yielded = true;
	scx_bpf_task_set_slice(from, 0);
	return true;
}

void BPF_STRUCT_OPS(ebs_update_idle, s32 cpu, bool idle)
{
	struct run_queue *rq = run_queue_of(cpu);

	if (!rq)
		return;
	rq->idle = idle;
	/* A task was queued while the CPU was going idle */
	if (idle && scx_bpf_dsq_nr_queued(waiting_dsq(cpu)) > 0)
		scx_bpf_kick_cpu(cpu, 0);
}

/* ---- Balancing ------------------------------------------------------------------------------- */

/*
 * Pulls the waiting task with the best priority that may migrate, the last queued among equals.
 * When it is due does not change. False if none.
 */
__noinline bool pull_task(struct balance *b __arg_nonnull)
{
	struct run_queue *this_rq = run_queue_of(b->cpu);
	u64 now = scx_bpf_now(), due = 0;
	struct task_struct *p;
	struct task_ctx *t;
	bool pulled = false;
	s32 level, last = 0;

	if (!this_rq)
		return false;
	bpf_rcu_read_lock();
	for_each_queued(p, t, waiting_dsq(b->busiest), 0) {
		if (last && p->scx.dsq_vtime != due)
			break;
		if (can_migrate_task(p, t->waiting_since, b, now)) {
			due = p->scx.dsq_vtime;
			last = p->pid;
		}
	}
	for_each_queued(p, t, waiting_dsq(b->busiest), 0) {
		if (p->pid != last)
			continue;
		level = t->overdue ? OVERDUE_LEVEL : level_at(due, promotion_clock(now));
		pulled = scx_bpf_dsq_move_vtime(DSQ_ITERATOR, p, waiting_dsq(b->cpu), 0);
		if (!pulled)
			break;
		start_waiting(this_rq, t, t->level, now);
		if (task_preempts_curr(this_rq, level))
			scx_bpf_kick_cpu(b->cpu, SCX_KICK_PREEMPT);
		break;
	}
	bpf_rcu_read_unlock();
	return pulled;
}

__noinline int pull_tasks(struct balance *b __arg_nonnull)
{
	u32 i;

	bpf_for(i, 0, b->imbalance) {
		if (!pull_task(b))
			break;
		b->pulled++;
	}
	return 0;
}

/* ---- The sinbin, and tasks that wait too long ------------------------------------------------ */

/*
 * Releases the tasks in a CPU's sinbin whose usage has decayed to their cap. With @review, checks
 * all tasks there: caps may have changed.
 */
__noinline int release_sinbin(struct run_queue *rq __arg_nonnull, bool review)
{
	u64 now = scx_bpf_now();
	struct task_struct *p;
	struct task_ctx *t;

	bpf_rcu_read_lock();
	for_each_queued(p, t, sinbin_dsq(rq->cpu), 0) {
		bool ended = !time_before(now, t->release_at);
		s32 level;

		if (!ended && !review)
			break;
		level = calculate_priority(p, t, rq, now);
		if (!ended && over_hard_cap(p, t))
			continue;
		if (t->overdue && over_hard_cap(p, t))
			level = OVERDUE_LEVEL;
		else
			t->overdue = 0;
		if (requeue(p, t, rq, level, now))
			leave_sinbin(t, now);
	}
	bpf_rcu_read_unlock();
	return 0;
}

/* Moves tasks that have waited too long ahead of all others, and sets when to look next. */
__noinline int rescue(struct run_queue *rq __arg_nonnull)
{
	u64 now = scx_bpf_now(), next = ~0ULL;
	struct task_struct *p;
	struct task_ctx *t;

	if (now < rq->rescue_at)
		return 0;
	bpf_rcu_read_lock();
	for_each_queued(p, t, waiting_dsq(rq->cpu), 0) {
		u64 left;

		if (t->overdue)
			continue;
		left = patience(t, now);
		if (left) {
			next = min(next, now + left);
			continue;
		}
		t->overdue = OVERDUE_TICKS;
		requeue(p, t, rq, OVERDUE_LEVEL, now);
	}
	bpf_rcu_read_unlock();
	rq->rescue_at = next;
	return 0;
}

/* Requeues waiting background tasks that no longer are: else they would have to run first. */
__noinline int review_background(struct run_queue *rq __arg_nonnull)
{
	u64 now = scx_bpf_now();
	struct task_struct *p;
	struct task_ctx *t;

	bpf_rcu_read_lock();
	for_each_queued(p, t, waiting_dsq(rq->cpu), SCX_DSQ_ITER_REV) {
		s32 level;

		if (level_at(p->scx.dsq_vtime, promotion_clock(now)) != BACKGROUND_LEVEL)
			break;
		level = calculate_priority(p, t, rq, now);
		if (level != BACKGROUND_LEVEL)
			requeue(p, t, rq, level, now);
	}
	bpf_rcu_read_unlock();
	return 0;
}

/*
 * Milliseconds between checks of `parameters`, of attributes of tasks in the sinbin or background,
 * and of tasks that wait too long
 */
#define REVIEW_INTERVAL 100

/* Applies the values written to `parameters`, if they are in range. */
static __noinline void read_parameters(void)
{
	u32 key = 0;
	struct parameters *wanted = bpf_map_lookup_elem(&parameters, &key);
	u32 life, slice;

	if (!wanted)
		return;
	life = wanted->half_life_ms;
	slice = wanted->time_slice_ms;
	if (life >= 1000 && life <= 100000 && slice >= 1 && slice <= 500)
		set_parameters(life, slice);
}

/*
 * The part of 2.6.2's scheduler_tick() that moves tasks, for every CPU: sched_ext allows moves
 * between queues here and in dispatch, but not in ops.tick(), which is not called on idle CPUs at
 * all. It runs half a tick early: the original balances before the task whose slice has just ended
 * is switched out and counts as cache-hot.
 */
static bool timer_tick(void)
{
	u64 half = tick_length() / 2;
	u64 jiffies = tick_at(scx_bpf_now() + half);
	bool review = jiffies % (ms_to_ticks(REVIEW_INTERVAL) ?: 1) == 0;
	bool sinbin = nr_in_sinbin;
	struct run_queue *rq;
	int cpu;

	if (review && patch != PATCH_BASIC)
		read_parameters();
	for_each_rq(rq, cpu, nr_cpu_ids) {
		if (sinbin)
			release_sinbin(rq, review);
		if (review) {
			review_background(rq);
			rescue(rq);
		}
		if (num_online_cpus == 1 || !cpu_exists(cpu))
			continue;
		bpf_rcu_read_lock();
		notice_real_time(rq, scx_bpf_now());
		bpf_rcu_read_unlock();
		rebalance_tick(rq, jiffies);
	}
	return true;
}

DEFINE_TIMER(tick_timer, timer_tick, time_to_tick(scx_bpf_now() + tick_length() / 2, 1))

/* ---- Picking the next task ------------------------------------------------------------------- */

/* Moves the first waiting task to this CPU's local queue, if it is due by interval @last. */
static __noinline bool pick_next(s32 cpu, u64 last)
{
	struct task_struct *p;
	bool due = false;

	bpf_for_each(scx_dsq, p, waiting_dsq(cpu), 0) {
		due = !time_before(last, p->scx.dsq_vtime);
		break;
	}
	return due && scx_bpf_dsq_move_to_local(waiting_dsq(cpu), 0);
}

/* The same for a CPU that has no other task: takes any task that waits here or elsewhere. */
static __always_inline void pick_any(s32 cpu)
{
	if (!scx_bpf_dsq_move_to_local(waiting_dsq(cpu), 0) && balance_newly_idle(cpu))
		scx_bpf_dsq_move_to_local(waiting_dsq(cpu), 0);
}

void BPF_STRUCT_OPS(ebs_dispatch, s32 cpu, struct task_struct *prev)
{
	struct run_queue *rq = run_queue_of(cpu);
	struct task_ctx *t = NULL;
	u64 now = scx_bpf_now(), last;
	s32 level;

	if (!rq)
		return;
	uncount_real_time(rq, now);
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		t = task_ctx_of(prev);
	if (!t) {
		pick_any(cpu);
		return;
	}

	if (charge_ticks(t, now)) {
		/* The task goes behind the others of its new level, if there are any */
		level = calculate_priority(prev, t, rq, now);
		if (over_hard_cap(prev, t)) {
			/* With no slice left the kernel enqueues it again, even if alone */
			scx_bpf_task_set_slice(prev, 0);
			pick_any(cpu);
			return;
		}
		last = due_at(level, now);
	} else {
		/* Only a better task preempts it */
		level = current_level(rq);
		last = due_at(level - 1, now);
	}
	if (level != OVERDUE_LEVEL && pick_next(cpu, last))
		return;
	if (!t->slice_left)
		new_slice(t);
	t->yielded = false;
	if (level != OVERDUE_LEVEL)
		t->overdue = 0;
	t->level = level;
	set_current_level(rq, level);
	scx_bpf_task_set_slice(prev, slice_time(t, now));
}

/* ---- Fork, exit, nice ------------------------------------------------------------------------ */

/*
 * The only heuristic: a child starts with its parent's usage rate. It also inherits the parent's
 * attributes and, by the rules of 2.6.2, half of the rest of the parent's slice. Runs in the
 * parent's context.
 */
static void sched_fork(struct task_struct *p, struct task_ctx *t)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task_ctx *parent_ctx = task_ctx_of(parent);

	inherit_attributes(p);
	if (!parent_ctx || !parent_ctx->running)
		return;
	count(STAT_FORKS);
	estimate_usage(parent_ctx, scx_bpf_now());
	t->public.usage = parent_ctx->public.usage;
	t->slice_left = (parent_ctx->slice_left + 1) / 2;
	t->first_time_slice = true;
	parent_ctx->slice_left = parent_ctx->slice_left / 2 ?: 1;
}

s32 BPF_STRUCT_OPS(ebs_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	u64 now = scx_bpf_now();
	struct task_ctx *t;

	t = new_task_ctx(p);
	if (!t)
		return -ENOMEM;
	t->public.size = sizeof(t->public);
	t->static_prio = static_prio_of(p);
	t->slice_left = slice_ticks;
	t->accounted = now;
	t->waiting_since = now;
	t->public.estimated_at = now;
	t->public.prio = DEFAULT_PRIO;
	if (args->fork)
		sched_fork(p, t);
	read_attributes(p, t);
	return 0;
}

/* sched_exit() of 2.6.2: the rest of a first slice goes back to the parent. */
void BPF_STRUCT_OPS(ebs_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_struct *parent = p->real_parent;
	struct task_ctx *t = task_ctx_of(p), *parent_ctx = parent ? task_ctx_of(parent) : NULL;

	if (t && parent_ctx && !args->cancelled && (p->flags & PF_EXITING) && t->first_time_slice)
		parent_ctx->slice_left = min(parent_ctx->slice_left + t->slice_left, slice_ticks);
}

/* The task ends or leaves for another class, possibly while it waits or is in the sinbin. */
void BPF_STRUCT_OPS(ebs_disable, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);
	u64 now = scx_bpf_now();

	if (!t)
		return;
	leave_sinbin(t, now);
	account_dequeue(t, now);
}

/*
 * A new nice value sets the shares, even if they were set directly before. Also called when a task
 * joins sched_ext. The priority changes when it is next calculated: at once for a waiting task,
 * since the kernel enqueues it again.
 */
void BPF_STRUCT_OPS(ebs_set_weight, struct task_struct *p, u32 weight)
{
	struct task_ctx *t = task_ctx_of(p);
	s32 static_prio = static_prio_of(p);
	struct task_attributes *a;

	if (!t || t->static_prio == static_prio)
		return;
	t->static_prio = static_prio;
	a = bpf_task_storage_get(&task_attributes, p, NULL, 0);
	if (a)
		a->present &= ~TASK_ATTRIBUTE_SHARES;
	read_attributes(p, t);
}

/* ---- Start ----------------------------------------------------------------------------------- */

/* Initializes a CPU's run queue and creates its DSQs. */
static s32 init_cpu(s32 cpu, u64 now)
{
	struct run_queue *rq = run_queue_of(cpu);

	if (!rq)
		return 0;
	rq->size = __builtin_offsetof(struct run_queue, cpu);
	rq->cpu = cpu;
	rq->entitlement_at = now;
	set_current_level(rq, NO_LEVEL);
	return scx_bpf_create_dsq(waiting_dsq(cpu), scx_bpf_cpu_node(cpu)) ?:
	       scx_bpf_create_dsq(sinbin_dsq(cpu), scx_bpf_cpu_node(cpu));
}

s32 BPF_STRUCT_OPS_SLEEPABLE(ebs_init)
{
	u64 now = scx_bpf_now();
	struct parameters *initial;
	u32 key = 0;
	s32 error, cpu;

	nr_cpu_ids = scx_bpf_nr_cpu_ids();
	num_online_cpus = count_online_cpus();
	tick_nsec = tick_length();

	initial = bpf_map_lookup_elem(&parameters, &key);
	if (!initial)
		return -ESRCH;
	initial->half_life_ms = half_life;
	initial->time_slice_ms = time_slice;
	intervals_since = now;
	set_parameters(half_life, time_slice);

	bpf_for(cpu, 0, nr_cpu_ids) {
		error = init_cpu(cpu, now);
		if (error)
			return error;
	}

	return init_tick_timer() ?: start_tick_timer();
}

DEFINE_SCHEDULER(ebs,
	CALLBACKS_OF(ebs, select_cpu, enqueue, dispatch, tick, running, stopping, cpu_release,
		     yield, set_weight, update_idle, init_task, exit_task, disable, init)
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.name = "ebs");
