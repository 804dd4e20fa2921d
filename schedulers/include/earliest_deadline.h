/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * earliest_deadline.h - the choice of BFS and of FBFS, which took it from there: by class, and in a class by virtual deadline
 *
 * One queue for all CPUs holds the waiting tasks of the best class first, and each class in the order of arrival. It is a dispatch queue whose
 * virtual times are the numbers of the classes' lists. The deadlines of a list are in no order, so a CPU walks over the first list
 * that has a task for it.
 *
 * The file that includes this has defined before LIST_STEPS, RESCUES, record_of() and
 *
 *	candidate_of()	what counts of a task
 *	ends_scan()	whether a waiting task is taken without a look at the rest of its list
 *	is_worse()	which of two running tasks is to give way
 */
#pragma once

#include "best_task.h"
#include "idle_task.h"
#include "starvation.h"
#define waits_since(t) ((t)->waiting_since)
#include "starving_queue.h"

struct candidate {
	s32 prio;
	s64 deadline;
};

/* What counts of a task, as @cpu sees it, or, if that is ANY_CPU, as it is; false if it has no data. */
#define ANY_CPU (-1)
static bool candidate_of(struct task_struct *p, s32 cpu, struct candidate *c);
static bool ends_scan(u32 list, const struct candidate *c, u64 now);
static bool is_worse(const struct candidate *a, const struct candidate *b);

/* A task of a better class goes first, and of equals the one with the earlier deadline. */
static __always_inline bool goes_first(const struct candidate *a, const struct candidate *b)
{
	return a->prio < b->prio || (a->prio == b->prio && a->deadline < b->deadline);
}

/* ---- Nice values ----------------------------------------------------------------------------------------------- */

/* There are 41, since FreeBSD has nice 20. */
#define NR_PRIO_RATIOS 41
/* Where prio_ratios[] has nice 0 */
#define PRIO_RATIO_NICE_0 20

/* How far away a deadline is set, in fractions of a base */
static u32 prio_ratios[NR_PRIO_RATIOS];

/* Fills the table: @base for nice -20, then eleven tenths of the one before, in whole numbers. */
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

/* ---- The choice ------------------------------------------------------------------------------------------------ */

/* The queue */
#define RUNQ 0

/*
 * earliest_deadline_task(): moves the best waiting task to @cpu; false if there is none, or if the task that has run until now goes on, which
 * counts with @prev_deadline as if it had been put back at the end of @prev_list.
 */
__noinline bool earliest_deadline_task(s32 cpu, u32 prev_list, s64 prev_deadline, u64 now)
{
	struct candidate c;
	s32 attempt;

	/* Where ends_scan() has no use for it the compiler would not pass it, and the verifier wants it passed. */
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
		count_by(LIST_STEPS, steps);
		if (!edt || (edt_list == prev_list && !ended && prev_deadline < earliest_deadline)) {
			end_walk(&it, edt);
			return false;
		}
		if (take_task(&it, edt))
			return true;
	}
	return false;
}

/* ---- Preemption ------------------------------------------------------------------------------------------------ */

/* The task that runs on @cpu; false if that is idle, @p itself, or a real-time task of the kernel. */
static __always_inline bool running_on(s32 cpu, const struct task_struct *p, struct candidate *c)
{
	struct task_struct *curr = scx_bpf_cpu_curr(cpu);

	return curr && is_ordinary(curr) && curr->pid != p->pid && candidate_of(curr, ANY_CPU, c);
}

/* The CPU that runs the worst task of all, of those that @p may use, if @p is better; else -1. */
__noinline s32 worst_running(struct task_struct *p __arg_trusted)
{
	struct candidate own, c, worst = {};
	s32 cpu, worst_cpu = -1;

	if (!candidate_of(p, ANY_CPU, &own))
		return -1;
	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || !running_on(cpu, p, &c))
			continue;
		if (worst_cpu < 0 || is_worse(&c, &worst)) {
			worst = c;
			worst_cpu = unlinked(cpu);
		}
	}
	return worst_cpu >= 0 && goes_first(&own, &worst) ? worst_cpu : -1;
}

/* ---- Nobody waits for ever ------------------------------------------------------------------------------------- */

/* When a starved task is looked for next, nanoseconds */
static u64 starvation_check_at;

/* Moves the first task of the best class that has starved to this CPU: true if there is one. It has a slice then, or what is left of it. */
static __always_inline bool rescue_starved(u64 now)
{
	if (!starvation_check_is_due(&starvation_check_at, now) || !rescue_from_queue(RUNQ, 0, 0))
		return false;
	count(RESCUES);
	return true;
}
