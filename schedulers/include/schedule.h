/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * schedule.h - schedule() of Linux 1.2 to 2.4
 *
 * All CPUs take from one list of runnable tasks. schedule() walks over all of it and takes the task
 * with the largest goodness, the first among equals. If that is 0 an epoch begins: every task of
 * the system, asleep or not, keeps half of its remaining ticks and gets a quantum. So sleepers
 * gain, up to nearly twice their quantum.
 *
 * The list without the running tasks is a dispatch queue whose virtual times are the tasks' places
 * in the list, smaller is nearer the front. A task that leaves the queue for a CPU keeps its place
 * and may come back to it.
 *
 * The scheduler's struct task_ctx has counter, processor, place, running_since and waiting_since;
 * before it includes this it defines goodness() of a task on a CPU, given the address space that is
 * loaded there, and prepare_search(), the work of schedule() before it searches. Its table names
 * the callbacks of one_list.
 */
#pragma once

#include "best_task.h"
#include "idle_task.h"
#include "starvation.h"
#include "tick_counter.h"

/* Does another search follow when an epoch begins, as in 2.4? Before, what has been found runs */
#ifndef SEARCHES_AGAIN
#error "Define SEARCHES_AGAIN before including schedule.h"
#endif

/* Less than any goodness */
#ifndef NOTHING
#error "Define NOTHING before including schedule.h"
#endif

#define RUNQUEUE 0

static u32 nr_cpu_ids;

/* The first thing that ops.init() does. */
static __always_inline s32 init_runqueue(void)
{
	nr_cpu_ids = scx_bpf_nr_cpu_ids();
	return scx_bpf_create_dsq(RUNQUEUE, NUMA_NO_NODE);
}

/* The record of each CPU; the last two members are those of 2.4. */
struct cpu_data {
	/* The current task is to give the CPU to schedule() */
	bool need_resched;
	/* Time of the last switch, including to idle */
	u64 last_schedule;
	/* The address space that is loaded; kernel threads borrow it */
	u64 active_mm;
};
DEFINE_PER_CPU(struct cpu_data, cpu_data)

/* The ticks that a task gets when an epoch begins. */
static s32 quantum_of(const struct task_struct *p);

/* Does the running task have to leave its CPU? And lets it run until then. */
static bool quantum_has_ended(const struct task_ctx *data);
static void run_counter_down(struct task_struct *p, const struct task_ctx *data, u64 now);

/* The address space that is loaded on a CPU, for goodness(). */
static u64 loaded_mm(const struct cpu_data *cpu_data, struct task_struct *prev);

/* The task that ran until now is chosen again; a task has been given its CPU, or leaves it. */
static void goes_on(struct task_struct *prev, struct task_ctx *data, u64 now);
static void switched_in(struct task_struct *p, struct task_ctx *data, u64 now);
static void switched_out(struct task_ctx *data, u64 now);

/* need_resched: the task that runs on @cpu is to call schedule(). */
static __always_inline void resched_cpu(s32 cpu)
{
	struct cpu_data *cpu_data = cpu_data_of(cpu);

	if (cpu_data)
		cpu_data->need_resched = true;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* ---- The choice ------------------------------------------------------------------------------ */

/*
 * A waiting task is served by whichever CPU is done first, and these schedulers rely on it: a CPU
 * that has no other task with ticks left begins an epoch for all, so tasks that run elsewhere may
 * never come to the end of their quanta. A task bound to their CPUs, which these schedulers did not
 * have, would wait for ever. So the CPU of a task that has run for this long looks for such tasks.
 */
#define STARVED_TASKS_INTERVAL NSEC_PER_SEC

/* Begins an epoch. */
static __always_inline void recalculate(u64 now)
{
	struct task_struct *p;
	u64 tasks = 0;

	count(STAT_RECALCULATIONS);
	bpf_for_each(task, p, NULL, BPF_TASK_ITER_ALL_THREADS) {
		struct task_ctx *data = task_ctx_of(p);

		if (!data)
			continue;
		refill_ticks(&data->counter, quantum_of(p), now);
		tasks++;
	}
	count_by(STAT_RECALCULATED_TASKS, tasks);
}

/*
 * One walk, with @prev at its place if it can go on; a starving bound task goes first. Returns
 * whether that settles which task runs: the chosen task may have been taken meanwhile, and an epoch
 * may begin with another search.
 */
__noinline bool search(s32 cpu, struct task_struct *prev __arg_trusted __arg_nullable, u64 this_mm,
		       u64 now)
{
	struct task_ctx *prev_data = prev && can_go_on(prev, cpu) ? task_ctx_of(prev) : NULL;
	bool moved = false, prev_wins = false, epoch_ends;
	s32 weight = NOTHING, candidate;
	u64 place = 0, longest = 0, steps = 0, starved;
	struct task_struct *p, *next = NULL;
	struct bpf_iter_scx_dsq it;

	/* If goodness() ignores it the compiler would not pass it, but the verifier wants it. */
	barrier_var(this_mm);
	count(STAT_SCHEDULES);
	bpf_iter_scx_dsq_new(&it, RUNQUEUE, 0);
	while ((p = bpf_iter_scx_dsq_next(&it))) {
		struct task_ctx *data = task_ctx_of(p);

		steps++;
		if (!data || !can_run_on(p, cpu))
			continue;
		candidate = goodness(p, data, cpu, this_mm, now);
		if (candidate == NOTHING)
			continue;
		starved = p->nr_cpus_allowed < nr_cpu_ids ?
			  starved_for(data->waiting_since, now) : 0;
		if (longest ? starved > longest : starved || candidate > weight) {
			if (!keep_task(&next, p))
				continue;
			weight = candidate;
			place = data->place;
			longest = starved;
		}
	}
	if (prev && prev_data && !longest) {
		steps++;
		candidate = goodness(prev, prev_data, cpu, this_mm, now);
		prev_wins = candidate > weight ||
			    (candidate == weight && time_before(prev_data->place, place));
		if (prev_wins)
			weight = candidate;
	}
	count_by(STAT_LIST_STEPS, steps);

	epoch_ends = !weight && !longest;
	if (prev_wins || (epoch_ends && SEARCHES_AGAIN))
		end_walk(&it, next);
	else
		moved = take_task(&it, next);
	if (moved && longest)
		count(STAT_RESCUES);
	if (epoch_ends) {
		recalculate(now);
		if (SEARCHES_AGAIN)
			return false;
	}
	if (prev_wins && prev)
		goes_on(prev, prev_data, now);
	return weight == NOTHING || prev_wins || moved;
}

/* Whether a task waits too long that may run on @cpu, but not everywhere. */
__noinline bool bound_task_starves(s32 cpu, u64 now)
{
	bool starves = false;
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, RUNQUEUE, 0) {
		struct task_ctx *data = task_ctx_of(p);

		if (!data || p->nr_cpus_allowed >= nr_cpu_ids || !can_run_on(p, cpu) ||
		    !starved_for(data->waiting_since, now))
			continue;
		starves = true;
		break;
	}
	return starves;
}

/* schedule(): @prev goes on until its quantum has ended or a search is requested. */
void BPF_STRUCT_OPS(one_list_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_ctx *data = prev && can_go_on(prev, cpu) ? task_ctx_of(prev) : NULL;
	struct cpu_data *cpu_data = cpu_data_of(cpu);
	u64 this_mm, now = scx_bpf_now();
	s32 attempt;

	if (!cpu_data)
		return;
	if (prev && data) {
		pay_ticks(&data->counter, now);
		if (!quantum_has_ended(data) && !cpu_data->need_resched &&
		    (now - data->running_since < STARVED_TASKS_INTERVAL ||
		     !bound_task_starves(cpu, now))) {
			/* Another CPU has begun an epoch since this quantum was laid out. */
			run_counter_down(prev, data, now);
			return;
		}
	}
	cpu_data->need_resched = false;
	prepare_search(prev, data);
	this_mm = loaded_mm(cpu_data, prev);
	bpf_for(attempt, 0, SCHEDULE_ATTEMPTS) {
		if (search(cpu, prev, this_mm, now))
			break;
	}
}

/* ---- Having a CPU ---------------------------------------------------------------------------- */

/* processor of a task that has not run yet */
#define NO_PROC_ID -1

void BPF_STRUCT_OPS(one_list_running, struct task_struct *p)
{
	struct task_ctx *data = task_ctx_of(p);
	u64 now = scx_bpf_now();

	if (!data)
		return;
	data->processor = scx_bpf_task_cpu(p);
	data->running_since = now;
	start_paying_ticks(&data->counter, now);
	run_counter_down(p, data, now);
	switched_in(p, data, now);
}

/* Displaced by a real-time task or not, it goes back to the list, not to the local queue. */
void BPF_STRUCT_OPS(one_list_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *data = task_ctx_of(p);
	u64 now = scx_bpf_now();

	if (!data)
		return;
	pay_ticks(&data->counter, now);
	data->counter.running = false;
	data->waiting_since = now;
	switched_out(data, now);
	if (runnable)
		hand_back(p);
}

/*
 * A CPU that goes idle has found nothing, but another CPU may have listed a task since, while it
 * still saw this one busy. The original does both under one lock; here the CPU looks again.
 */
static __always_inline void look_again(s32 cpu)
{
	if (scx_bpf_dsq_nr_queued(RUNQUEUE) > 0)
		scx_bpf_kick_cpu(cpu, 0);
}

/* With one list for all CPUs, hotplug needs no work. */
void BPF_STRUCT_OPS(one_list_cpu_online, s32 cpu)
{
}

void BPF_STRUCT_OPS(one_list_cpu_offline, s32 cpu)
{
}
