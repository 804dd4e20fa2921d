/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * o1_priority.h - time slices, sleep credit and dynamic priorities of Linux 2.6.22 and 2.6.2
 *
 * The O(1) scheduler's computations for a task, without its queues.
 */
#pragma once

#include "o1.h"

#define O1_2_6_22 0
#define O1_2_6_2 1

/* Milliseconds: slice of nice 19, turn of the most interactive tasks within theirs */
#define MIN_TIMESLICE 5
#define GRANULARITY 10

/*
 * Percent: how much of the wait after a wake-up by a task counts as sleep; how much of the bonus a
 * child inherits and a parent keeps
 */
#define ON_RUNQUEUE_WEIGHT 30
#define CHILD_PENALTY 95
#define PARENT_PENALTY 100
/* Weight of a parent's credit against that of a child that exits with less */
#define EXIT_WEIGHT 3
/* Percent of the 40 priorities that bonuses span, and from which bonus nice 0 is interactive */
#define PRIO_BONUS_RATIO 25
#define MAX_BONUS (MAX_USER_PRIO * PRIO_BONUS_RATIO / 100)
#define INTERACTIVE_DELTA 2

/* Milliseconds: slice of nice 19, turn of the most interactive, slice of nice -20, in 2.6.2 */
#define MIN_TIMESLICE_2_6_2 10
#define MAX_TIMESLICE_2_6_2 200

/* Number of proofs beyond which 2.6.2 takes a task to be interactive, or a hog */
#define CREDIT_LIMIT 100

/* Kind of the last sleep, and so the worth of waiting on the run queue after it. */
enum sleep_type {
	SLEEP_NORMAL,
	SLEEP_NONINTERACTIVE,
	SLEEP_INTERACTIVE,
	SLEEP_INTERRUPTED,
};

/* ---- Formulas -------------------------------------------------------------------------------- */

/* Ticks since the clock's zero, plus one: 0 means "never" in expired_timestamp. */
static __always_inline u64 jiffies_at(u64 now)
{
	return tick_at(now) + 1;
}

static __always_inline u64 jiffies_to_ns(u64 ticks)
{
	return ticks * tick_length();
}

/*
 * Time slice by static priority. In 2.6.22, 20 ms for each step if the priority is better than 120,
 * otherwise 5 ms for each, at least MIN_TIMESLICE; in 2.6.2, linear from 10 to 200 ms.
 */
static u32 static_prio_timeslice(s32 static_prio)
{
	u32 steps = MAX_PRIO - static_prio;
	u32 minimum = ms_to_ticks(release == O1_2_6_22 ? MIN_TIMESLICE : MIN_TIMESLICE_2_6_2) ?: 1;
	u32 scale, slice;

	if (release == O1_2_6_2) {
		u32 maximum = ms_to_ticks(MAX_TIMESLICE_2_6_2);

		if (maximum < minimum)
			return minimum;
		return minimum + (maximum - minimum) * (steps - 1) / (MAX_USER_PRIO - 1);
	}

	scale = ms_to_ticks(def_timeslice);
	if (static_prio < DEFAULT_PRIO)
		scale *= 4;
	slice = scale * steps / (MAX_USER_PRIO / 2);
	return slice > minimum ? slice : minimum;
}

static __always_inline u32 task_timeslice(const struct task_ctx *t)
{
	return static_prio_timeslice(t->static_prio);
}

/* Slice of nice 0, ticks: 100 ms, in 2.6.2 102 ms */
static __always_inline u32 timeslice_default(void)
{
	return release == O1_2_6_22 ? ms_to_ticks(def_timeslice) :
				      static_prio_timeslice(DEFAULT_PRIO);
}

/* MAX_SLEEP_AVG, which is also STARVATION_LIMIT, ticks */
static __always_inline u32 max_sleep_avg(void)
{
	return timeslice_default() * MAX_BONUS ?: 1;
}

static __always_inline u64 ns_max_sleep_avg(void)
{
	return jiffies_to_ns(max_sleep_avg());
}

/* CURRENT_BONUS: 0 to MAX_BONUS, from the sleep credit in whole ticks */
static u32 current_bonus(const struct task_ctx *t)
{
	return tick_at(t->sleep_avg) * MAX_BONUS / max_sleep_avg();
}

/* prio = static_prio - bonus, within 100 to 139, where bonus = CURRENT_BONUS - MAX_BONUS / 2 */
static s32 effective_prio(const struct task_ctx *t)
{
	s32 prio = t->static_prio - ((s32)current_bonus(t) - MAX_BONUS / 2);

	if (prio < MAX_RT_PRIO)
		return MAX_RT_PRIO;
	if (prio > MAX_PRIO - 1)
		return MAX_PRIO - 1;
	return prio;
}

/*
 * DELTA: the bonus that makes a task interactive. floor((nice + 20) / 4) - 3 for the usual
 * MAX_BONUS of 10; before 2.6.22 the nice value is divided first, which rounds negative ones
 * towards zero.
 */
static s32 interactivity_delta(const struct task_ctx *t)
{
	s32 nice = t->static_prio - DEFAULT_PRIO;

	if (release == O1_2_6_22)
		return (s32)((u32)(nice + 20) * MAX_BONUS / 40) - 20 * MAX_BONUS / 40 +
		       INTERACTIVE_DELTA;
	return INTERACTIVE_DELTA +
	       (nice < 0 ? -(s32)((u32)-nice * MAX_BONUS / 40) : (s32)((u32)nice * MAX_BONUS / 40));
}

/* TASK_INTERACTIVE: goes back to the active array when its slice is used up */
static bool task_interactive(const struct task_ctx *t)
{
	return t->prio <= t->static_prio - interactivity_delta(t);
}

/* INTERACTIVE_SLEEP: 1000 * (5 + delta + 1) / 10 - 1 ms, just short of interactive */
static u64 interactive_sleep(const struct task_ctx *t)
{
	s32 steps = MAX_BONUS / 2 + interactivity_delta(t) + 1;

	if (steps <= 0)
		return 0;
	return jiffies_to_ns((u64)max_sleep_avg() * (u32)steps / MAX_BONUS - 1);
}

/*
 * TIMESLICE_GRANULARITY: an interactive task's turn within its slice, ticks. 10 ms at full bonus
 * and for one CPU, doubled for each missing step of bonus.
 */
static u32 timeslice_granularity(const struct task_ctx *t)
{
	u32 unit = ms_to_ticks(release == O1_2_6_22 ? GRANULARITY : MIN_TIMESLICE_2_6_2) ?: 1;
	u32 bonus = current_bonus(t);
	u32 missing = bonus < MAX_BONUS ? MAX_BONUS - bonus : 1;

	return (unit << ((missing - 1) & 31)) * nr_online ?: 1;
}

/* Tasks that never earn credit by sleeping, and wake up into the expired array (2.6.22) */
static __always_inline bool batch_task(const struct task_struct *p)
{
	return p->policy == SCHED_BATCH || p->policy == SCHED_IDLE;
}

/* ---- Sleep credit ---------------------------------------------------------------------------- */

/* 2.6.2: only tasks proven interactive are charged less, only proven hogs credited less */
static __always_inline bool high_credit(const struct task_ctx *t)
{
	return t->interactive_credit > CREDIT_LIMIT;
}

static __always_inline bool low_credit(const struct task_ctx *t)
{
	return t->interactive_credit < -CREDIT_LIMIT;
}

static __always_inline void earn_credit(struct task_ctx *t)
{
	if (!high_credit(t))
		t->interactive_credit++;
}

/* After an uninterruptible sleep credit ends at INTERACTIVE_SLEEP. Returns the rest of @slept. */
static u64 limit_at_ceiling(struct task_ctx *t, u64 slept, u64 ceiling)
{
	if (t->sleep_avg >= ceiling)
		return 0;
	if (t->sleep_avg + slept >= ceiling) {
		t->sleep_avg = ceiling;
		return 0;
	}
	return slept;
}

/* Credits @slept nanoseconds by the rules of 2.6.22. */
static void credit_sleep(struct task_ctx *t, bool has_mm, u64 slept)
{
	u64 ceiling = interactive_sleep(t);

	if (has_mm && slept > ceiling && t->sleep_avg < ceiling) {
		/* One long sleep makes no task interactive, and waiting after it earns nothing */
		t->sleep_avg = ceiling;
		t->sleep_type = SLEEP_NONINTERACTIVE;
		return;
	}
	if (has_mm && t->sleep_type == SLEEP_NONINTERACTIVE)
		slept = limit_at_ceiling(t, slept, ceiling);
	t->sleep_avg += slept;
}

/* Credits @slept ns by the rules of 2.6.2: the less credit a task has, the faster it grows. */
static void credit_sleep_2_6_2(struct task_ctx *t, bool has_mm, u64 slept)
{
	u64 ceiling = interactive_sleep(t);
	u32 bonus = current_bonus(t);
	u64 slice = jiffies_to_ns(task_timeslice(t));

	slept = min(slept, ns_max_sleep_avg());
	if (has_mm && t->sleep_type != SLEEP_NONINTERACTIVE && slept > ceiling) {
		t->sleep_avg = jiffies_to_ns(max_sleep_avg() - timeslice_default());
		earn_credit(t);
		return;
	}
	slept *= bonus < MAX_BONUS ? MAX_BONUS - bonus : 1;
	if (low_credit(t) && slept > slice)
		slept = slice;
	if (has_mm && t->sleep_type == SLEEP_NONINTERACTIVE && !high_credit(t))
		slept = limit_at_ceiling(t, slept, ceiling);
	t->sleep_avg += slept;
	if (t->sleep_avg > ns_max_sleep_avg())
		earn_credit(t);
}

/*
 * recalc_task_prio(): credits the time since the timestamp as sleep; returns the new dynamic
 * priority.
 */
static __noinline s32 recalc_task_prio(struct task_struct *p, struct task_ctx *t, u64 slept)
{
	bool has_mm = p->mm != NULL;

	if (batch_task(p)) {
		slept = 0;
		t->sleep_avg = 0;
	}
	if (slept) {
		if (release == O1_2_6_22)
			credit_sleep(t, has_mm, slept);
		else
			credit_sleep_2_6_2(t, has_mm, slept);
		t->sleep_avg = min(t->sleep_avg, ns_max_sleep_avg());
	}
	return effective_prio(t);
}

/* Subtracts a run from the task's credit, or a tenth of it at full bonus. */
static void pay_for_run(struct task_ctx *t, u64 run_time)
{
	u32 bonus = current_bonus(t);

	run_time = min(run_time, ns_max_sleep_avg());
	if (release == O1_2_6_22 || high_credit(t))
		run_time /= bonus ?: 1;
	if (t->sleep_avg > run_time) {
		t->sleep_avg -= run_time;
	} else {
		t->sleep_avg = 0;
		if (release == O1_2_6_2 && !high_credit(t) && !low_credit(t))
			t->interactive_credit--;
	}
}

/* The part of schedule() about the task it finds running, for the time since the switch to it. */
static __noinline void charge_run_time(struct task_ctx *t, u64 now)
{
	pay_for_run(t, elapsed(t->timestamp, now));
	t->timestamp = now;
	t->last_ran = now;
}

/* ---- Starvation ------------------------------------------------------------------------------ */

/*
 * EXPIRED_STARVING: interactive tasks may not go back to the active array, because tasks in the
 * expired array have waited too long, or a better one waits there.
 */
static bool expired_starving(const struct run_queue *rq, const struct task_ctx *curr, u64 jiffies)
{
	u64 limit = (u64)max_sleep_avg() * rq->nr_running;

	if (curr->static_prio > rq->best_expired_prio)
		return true;
	if (!rq->expired_timestamp)
		return false;
	if (release == O1_2_6_22)
		return jiffies - rq->expired_timestamp > limit;
	return jiffies - rq->expired_timestamp >= limit + 1;
}
