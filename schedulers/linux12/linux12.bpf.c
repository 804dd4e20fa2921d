// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Linux 1.2: one ring of all tasks, in order of creation. Every switch walks around it twice: the
 * first walk wakes the sleeping tasks that are due, the second finds the runnable task with the
 * most ticks left. The rules are those of 1.2.13.
 *
 * 1.2 knew only one CPU. README.md says how several are served, and lists the mechanisms' places
 * and the departures.
 */
#include "fairground.bpf.h"
#include "idle_task.h"
#include "in_interrupt.h"
#include "pending_signals.h"
#include "tick_counter.h"

/* ---- Tunables -------------------------------------------------------------------------------- */

/* Timer ticks per second */
const volatile u32 hz = 100;
/* Quantum of nice 0, ticks: DEF_PRIORITY */
const volatile u32 def_priority = 15;
/* A woken task takes the current one's CPU if it has more than this many ticks more */
const volatile u32 wakeup_margin = 3;
/*
 * The 1.2 kind of a sleep that the timer ends: a timeout, which selections look for, or an interval
 * timer, which requests one
 */
const volatile u32 timed_sleep;

#define TIMED_SLEEP_INTERVAL_TIMER 1

/* Counter of the idle task, and the value from which the search for the largest counter starts */
#define IDLE_COUNTER -100
#define NOTHING -1000

/* ---- Statistics, in the order of scheduler.toml ---------------------------------------------- */

enum statistic {
	STAT_SCHEDULES,
	STAT_LIST_STEPS,
	STAT_POLLED_WAKEUPS,
	STAT_RECALCULATIONS,
	STAT_RECALCULATED_TASKS,
	STAT_PREEMPTIONS,
	STAT_TIMER_SELECTIONS,
	STAT_RESCUES,
	NR_STATISTICS,
};
DEFINE_STATISTICS(NR_STATISTICS)

/* ---- Tasks and their quanta ------------------------------------------------------------------ */

/* The scheduler's part of a task. */
struct task_ctx {
	struct tick_counter counter;
	/* CPU it ran on last */
	s32 processor;
	/* Place in the ring: smaller is nearer task 0. It never changes. */
	u64 place;
	/* Since when it has had its CPU, and since when it has waited for one, nanoseconds */
	u64 running_since;
	u64 waiting_since;
	/* TASK_RUNNING or TASK_INTERRUPTIBLE, as 1.2 would see it */
	u32 state;
	/*
	 * Asleep as 1.2 sees it, but its timeout is over or a signal is pending: the next selection
	 * will find that
	 */
	bool due;
	/* Woken, but not yet in the queue */
	bool woken;
};

DEFINE_TASK_DATA(struct task_ctx, task_ctx_map, task_ctx)

/*
 * priority: nice level and quantum in one, in ticks. setpriority() sets it to 15 - nice, at least
 * 1, so nice 14 to 19 are the same.
 */
static __always_inline s32 quantum_of(const struct task_struct *p)
{
	s32 priority = (s32)def_priority - nice_of(p);

	return priority > 0 ? priority : 1;
}

/* The task leaves the CPU at the tick that finds its counter at 0: k ticks last k + 1. */
static __always_inline void run_counter_down(struct task_struct *p, const struct task_ctx *data,
					     u64 now)
{
	run_for_ticks(p, data->counter.left + 1, now);
}

/* ---- schedule() ------------------------------------------------------------------------------ */

/* 1.2 has no goodness() yet: the runnable task with the largest counter runs. */
static __always_inline s32 goodness(struct task_struct *p, const struct task_ctx *data, s32 cpu,
				    u64 this_mm, u64 now)
{
	return data->state == TASK_RUNNING ? ticks_left_at(&data->counter, now) : NOTHING;
}

static __always_inline bool quantum_has_ended(const struct task_ctx *data)
{
	return data->counter.overdrawn;
}

static __always_inline void goes_on(struct task_struct *prev, struct task_ctx *data, u64 now)
{
	start_paying_ticks(&data->counter, now);
	run_counter_down(prev, data, now);
}

/*
 * The first walk of schedule(): wakes the tasks whose timeout is over or that have been sent a
 * signal. They sleep until a selection gets here, however long that takes.
 */
static __always_inline void prepare_search(struct task_struct *prev, struct task_ctx *prev_data)
{
	struct task_struct *p;
	u64 steps = 0;

	bpf_for_each(task, p, NULL, BPF_TASK_ITER_ALL_THREADS) {
		struct task_ctx *data = task_ctx_of(p);

		steps++;
		if (!data || data->state == TASK_RUNNING || !data->due)
			continue;
		data->due = false;
		data->state = TASK_RUNNING;
		count(STAT_POLLED_WAKEUPS);
	}
	count_by(STAT_LIST_STEPS, steps);
}

/*
 * 1.2 has one need_resched; here each CPU has its own, which is also set for an idle CPU that has
 * been notified of a task.
 */
#define SEARCHES_AGAIN false

#include "schedule.h"

/* Address spaces do not count yet, and a switch changes nothing but the current task. */
static __always_inline u64 loaded_mm(const struct cpu_data *cpu_data, struct task_struct *prev)
{
	return 0;
}

static __always_inline void switched_in(struct task_struct *p, struct task_ctx *data, u64 now)
{
}

static __always_inline void switched_out(struct task_ctx *data, u64 now)
{
}

/* ---- Waking up ------------------------------------------------------------------------------- */

/*
 * wake_up(): the current task gives way if the woken one has more than 3 ticks more. With several
 * CPUs the one with the fewest ticks gives way, among equals the one on the last CPU; an idle task
 * has -100. Without @preempting only idle CPUs are kicked.
 */
static __always_inline void wake_up(struct task_struct *p, struct task_ctx *data, bool preempting)
{
	s32 cpu, target = -1;
	s32 smallest = preempting ? data->counter.left - (s32)wakeup_margin : IDLE_COUNTER + 1;
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	struct cpu_data *cpu_data;
	u64 now = scx_bpf_now();

	bpf_for(cpu, 0, nr_cpu_ids) {
		struct task_struct *current_task;
		s32 counter = IDLE_COUNTER;

		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || !bpf_cpumask_test_cpu(cpu, online))
			continue;
		current_task = scx_bpf_cpu_curr(cpu);
		cpu_data = cpu_data_of(cpu);
		if (!current_task || current_task->pid == p->pid || !cpu_data)
			continue;
		if (is_idle(current_task)) {
			if (cpu_data->need_resched)
				continue;
		} else {
			struct task_ctx *current_data = task_ctx_of(current_task);

			if (!current_data || !is_ordinary(current_task))
				continue;
			counter = ticks_left_at(&current_data->counter, now);
		}
		if (counter < smallest ||
		    (counter == smallest && target >= 0 && cpu == data->processor)) {
			smallest = counter;
			target = cpu;
		}
	}
	scx_bpf_put_cpumask(online);

	cpu_data = cpu_data_of(target);
	if (target < 0 || !cpu_data)
		return;
	if (smallest == IDLE_COUNTER) {
		cpu_data->need_resched = true;
		scx_bpf_kick_cpu(target, 0);
	} else {
		count(STAT_PREEMPTIONS);
		resched_cpu(target);
	}
}

/* An interval timer has expired: the tick that finds this requests a selection on its CPU. */
static __always_inline void select_at_next_tick(void)
{
	s32 cpu = bpf_get_smp_processor_id();
	struct task_struct *current_task = scx_bpf_cpu_curr(cpu);
	struct cpu_data *cpu_data = cpu_data_of(cpu);

	if (!current_task || !cpu_data || !is_ordinary(current_task))
		return;
	count(STAT_TIMER_SELECTIONS);
	cpu_data->need_resched = true;
	run_for_ticks(current_task, 1, scx_bpf_now());
}

/* ---- Sleep, wake-up and waiting -------------------------------------------------------------- */

/* A task stays where it was; schedule() on any CPU may take it. */
s32 BPF_STRUCT_OPS(linux12_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

/*
 * A sleep ends. wake_up() makes the task runnable at once; a timeout or a signal is only noted, and
 * the first walk of the next selection makes the task runnable. A sleep that a hardware interrupt
 * ends counts as timed.
 */
void BPF_STRUCT_OPS(linux12_runnable, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *data = task_ctx_of(p);

	if (!data)
		return;
	data->waiting_since = scx_bpf_now();
	if (!(enq_flags & SCX_ENQ_WAKEUP)) {
		if (!data->due)
			data->state = TASK_RUNNING;
		return;
	}
	if (in_hard_interrupt()) {
		data->due = true;
		if (timed_sleep == TIMED_SLEEP_INTERVAL_TIMER)
			select_at_next_tick();
	} else if (signal_is_pending(p)) {
		data->due = true;
	} else {
		data->state = TASK_RUNNING;
		data->woken = true;
	}
}

void BPF_STRUCT_OPS(linux12_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *data = task_ctx_of(p);

	if (!data || !(deq_flags & SCX_DEQ_SLEEP))
		return;
	data->state = TASK_INTERRUPTIBLE;
	data->due = false;
	data->woken = false;
}

/*
 * A task waits, at its place in the ring: it was woken or forked, or has lost its CPU. Only tasks
 * woken by wake_up() may preempt.
 */
void BPF_STRUCT_OPS(linux12_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *data = expected_task_ctx(p);
	bool woken;

	if (!data)
		return;
	woken = data->woken;
	data->woken = false;
	scx_bpf_dsq_insert_vtime(p, RUNQUEUE, tick_length(), data->place, enq_flags);
	wake_up(p, data, woken);
}

/* 1.2 has no such system call: nothing happens. */
bool BPF_STRUCT_OPS(linux12_yield, struct task_struct *from, struct task_struct *to)
{
	return false;
}

/* An idle CPU selects again after every interrupt. */
void BPF_STRUCT_OPS(linux12_update_idle, s32 cpu, bool idle)
{
	struct cpu_data *cpu_data = cpu_data_of(cpu);

	if (!idle || !cpu_data)
		return;
	cpu_data->need_resched = false;
	look_again(cpu);
}

/* ---- Fork, and start ------------------------------------------------------------------------- */

/*
 * fork(): the child gets half of its parent's ticks, but the parent keeps all of them. The child is
 * linked in before task 0, at the end of the walk. Tasks that existed before this scheduler start
 * with a full quantum.
 */
s32 BPF_STRUCT_OPS(linux12_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *data, *parent_data;

	data = new_task_ctx(p);
	if (!data)
		return -ENOMEM;
	data->counter.left = quantum_of(p);
	data->processor = scx_bpf_task_cpu(p);
	data->place = place_at_end();
	data->state = TASK_INTERRUPTIBLE;
	if (!args->fork)
		return 0;

	parent_data = task_ctx_of(bpf_get_current_task_btf());
	if (parent_data)
		data->counter.left = ticks_left_at(&parent_data->counter, scx_bpf_now()) >> 1;
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(linux12_init)
{
	return init_runqueue();
}

DEFINE_SCHEDULER(linux12,
	CALLBACKS_OF(linux12, select_cpu, enqueue, runnable, quiescent, yield, update_idle,
		     init_task, init)
	CALLBACKS_OF(one_list, dispatch, running, stopping, cpu_online, cpu_offline)
	.flags = SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.name = "linux12");
