/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * earliest_deadline.h - the choice of BFS, and of FBFS after it: by class, and within a class by
 * virtual deadline
 *
 * One queue for all CPUs holds the waiting tasks, best class first, and each class in order of
 * arrival. It is a dispatch queue whose virtual times are the numbers of the classes' lists. A list
 * is not sorted by deadline, so a CPU walks over the first list that has a task for it.
 *
 * The scheduler's records of tasks have waiting_since; STAT_LIST_STEPS and STAT_RESCUES count the
 * tasks looked at and those that had waited for too long.
 */
#pragma once

#include "best_task.h"
#include "idle_task.h"
#include "starvation.h"
#include "starving_queue.h"

static __always_inline u64 waits_since(const task_record *t)
{
	return t->waiting_since;
}

struct candidate {
	s32 prio;
	s64 deadline;
};

/* Class and deadline of a task as @cpu sees them, or to ANY_CPU; false if it has no data. */
#define ANY_CPU (-1)
static bool candidate_of(struct task_struct *p, s32 cpu, struct candidate *c);

/* Is a waiting task taken without looking at the rest of its list? */
static bool ends_scan(u32 list, const struct candidate *c, u64 now);

/* A task of a better class goes first, and among equals the one with the earlier deadline. */
static __always_inline bool goes_first(const struct candidate *a, const struct candidate *b)
{
	return a->prio < b->prio || (a->prio == b->prio && a->deadline < b->deadline);
}

/* ---- Nice values ----------------------------------------------------------------------------- */

/* 41, because FreeBSD has nice 20. */
#define NR_PRIO_RATIOS 41
/* Index of nice 0 in prio_ratios[] */
#define PRIO_RATIO_NICE_0 20

/* How far away a deadline is set, in fractions of a base */
static u32 prio_ratios[NR_PRIO_RATIOS];

/* Fills the table: @base for nice -20, then each eleven tenths of the one before, in integers. */
static __always_inline void fill_prio_ratios(u32 base)
{
	u32 ratio = base;
	u32 index;

	bpf_for(index, 0, NR_PRIO_RATIOS) {
		prio_ratios[index] = ratio;
		ratio = ratio * 11 / 10;
	}
}

static __always_inline u32 prio_ratio(s32 nice)
{
	u32 index = nice + PRIO_RATIO_NICE_0;

	return prio_ratios[min(index, NR_PRIO_RATIOS - 1)];
}

/* ---- The choice ------------------------------------------------------------------------------ */

/* The queue */
#define RUNQ 0

/*
 * earliest_deadline_task(): moves the best waiting task to @cpu; false if there is none, or if the
 * previous task goes on, which counts with @prev_deadline as if it had been put back at the end of
 * @prev_list.
 */
__noinline bool earliest_deadline_task(s32 cpu, u32 prev_list, s64 prev_deadline, u64 now)
{
	struct candidate c;
	s32 attempt;

	/* If ends_scan() ignores it the compiler would not pass it, but the verifier wants it. */
	barrier_var(now);
	bpf_for(attempt, 0, SCHEDULE_ATTEMPTS) {
		struct task_struct *p, *edt = NULL;
		u32 list, edt_list = prev_list;
		struct bpf_iter_scx_dsq it;
		s64 earliest_deadline = 0;
		bool ended = false;
		u64 steps = 0;

		bpf_iter_scx_dsq_new(&it, RUNQ, 0);
		while (!ended && (p = bpf_iter_scx_dsq_next(&it))) {
			list = p->scx.dsq_vtime;
			if (list > edt_list)
				break;
			steps++;
			if (!can_run_on(p, cpu) || !candidate_of(p, cpu, &c))
				continue;
			if ((edt && c.deadline >= earliest_deadline) || !keep_task(&edt, p))
				continue;
			edt_list = list;
			earliest_deadline = c.deadline;
			ended = ends_scan(list, &c, now);
		}
		count_by(STAT_LIST_STEPS, steps);
		if (!edt ||
		    (edt_list == prev_list && !ended && prev_deadline < earliest_deadline)) {
			end_walk(&it, edt);
			return false;
		}
		if (take_task(&it, edt))
			return true;
	}
	return false;
}

/* ---- Preemption ------------------------------------------------------------------------------ */

/* The task that runs on @cpu; false if it is idle, @p itself, or a kernel real-time task. */
static __always_inline bool running_on(s32 cpu, const struct task_struct *p, struct candidate *c)
{
	struct task_struct *curr = scx_bpf_cpu_curr(cpu);

	return curr && is_ordinary(curr) && curr->pid != p->pid && candidate_of(curr, ANY_CPU, c);
}

/* ---- No task waits for ever ------------------------------------------------------------------ */

/* When to look for a starved task next, nanoseconds */
static u64 starvation_check_at;

/*
 * Moves the first starved task of the best class to this CPU; true if there is one. It gets a
 * slice, or the rest of its own.
 */
static __always_inline bool rescue_starved(u64 now)
{
	if (!starvation_check_is_due(&starvation_check_at, now) || !rescue_from_queue(RUNQ, 0, 0))
		return false;
	count(STAT_RESCUES);
	return true;
}
