// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Linux 2.2: one list of runnable tasks for all CPUs, with scheduling classes. Every switch walks
 * over the whole list to find the task with the largest goodness, which takes processors and
 * address spaces into account. The rules are those of 2.2.1.
 *
 * README.md lists the mechanisms' places and the departures.
 */
#include "fairground.bpf.h"
#include "best_task.h"
#include "idle_task.h"
#include "in_interrupt.h"
#include "task_attributes.h"
#include "tick_counter.h"

/* ---- Tunables -------------------------------------------------------------------------------- */

/* Timer ticks per second */
const volatile u32 hz = 100;
/* Quantum of nice 0, ticks: DEF_PRIORITY */
const volatile u32 def_priority = 20;
/* A woken task takes the current one's CPU if it has more than this many ticks more */
const volatile u32 wakeup_margin = 3;
/* Goodness of having run on this CPU last; i386 has 15 */
const volatile u32 proc_change_penalty = 15;
/* Goodness of sharing the address space of the task that leaves the CPU */
const volatile u32 mm_bonus = 1;
/* Size of the secondary cache, KB; 0 stands for a machine without a cycle counter */
const volatile u32 cache_size = 512;
/* Whether a task that wakes another and the task it wakes count as holding the big kernel lock */
const volatile u32 big_kernel_lock = 1;
/* Whether an idle CPU looks at the list at every tick; that of 2.2 waits until it is notified */
const volatile u32 idle_ticks = 1;
/* How tasks with the attribute "realtime" are scheduled: FIFO or round robin */
const volatile u32 realtime_policy;

#define REALTIME_POLICY_RR 1

/* Goodness below any task's; and that of real-time tasks, plus their priority */
#define NOTHING -1000
#define REALTIME_GOODNESS 1000

/* ---- Statistics, in the order of scheduler.toml ---------------------------------------------- */

enum statistic {
	STAT_SCHEDULES,
	STAT_LIST_STEPS,
	STAT_RECALCULATIONS,
	STAT_RECALCULATED_TASKS,
	STAT_PREEMPTIONS,
	STAT_RELATED_WAKEUPS,
	STAT_YIELDS,
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
	/* Policy and real-time priority when it was last queued */
	u32 policy;
	u32 rt_priority;
	/* Place in the list of runnable tasks: smaller is nearer the front */
	u64 place;
	/* Average length of its slices, of which the last counts half; nanoseconds */
	u64 avg_slice;
	/*
	 * Start of the current slice; since when it has had a CPU; since when it has waited;
	 * nanoseconds
	 */
	u64 slice_since;
	u64 running_since;
	u64 waiting_since;
	/* On the list: waiting or running */
	bool listed;
	/* Put on the list, but not yet handled by reschedule_idle() */
	bool woken;
	/*
	 * The same for the first time: do_fork() holds the big kernel lock, the new task does not
	 */
	bool is_new;
	/* SCHED_YIELD: its quantum counts as used up once */
	bool yielding;
};

DEFINE_TASK_DATA(struct task_ctx, task_ctx_map, task_ctx)

/* Compiled for several CPUs: __SMP__ */
static bool smp;

/* priority: nice level and quantum in one, in ticks: 20 - nice, 1 to 40 */
static __always_inline s32 quantum_of(const struct task_struct *p)
{
	s32 priority = (s32)def_priority - nice_of(p);

	return priority > 0 ? priority : 1;
}

/*
 * Real-time priority, 1 to 99, or 0 for SCHED_OTHER. Tasks of the kernel's own SCHED_FIFO and
 * SCHED_RR never come here.
 */
static __always_inline u32 rt_priority_of(struct task_struct *p)
{
	const struct task_attributes *attributes = attributes_of(p);

	return asks_for_realtime(attributes) ? attributes->realtime_priority ?: 1 : 0;
}

/* The task leaves the CPU at the tick that finds its counter at 0: k ticks last k + 1. */
static __always_inline void run_counter_down(struct task_struct *p, const struct task_ctx *data,
					     u64 now)
{
	run_for_ticks(p, data->counter.left + 1, now);
}

/* ---- schedule() ------------------------------------------------------------------------------ */

/*
 * How good it is to run @p on @cpu after a task with the address space @prev_mm:
 *
 *	1000 + priority	real-time
 *	0		runnable, but its quantum is used up or it yields
 *	else		counter + priority + 15 if it was here last + 1 if the address space stays
 *
 * A function of its own, since the verifier would otherwise follow each of its branches through the
 * rest of the walk.
 */
__noinline s32 goodness(struct task_struct *p __arg_trusted, struct task_ctx *data __arg_nonnull,
			s32 cpu, u64 prev_mm, u64 now)
{
	u32 rt_priority = rt_priority_of(p);
	s32 weight;

	if (data->yielding) {
		data->yielding = false;
		return 0;
	}
	if (rt_priority)
		return REALTIME_GOODNESS + rt_priority;
	weight = ticks_left_at(&data->counter, now);
	if (!weight)
		return 0;
	weight += quantum_of(p);
	if (smp && data->processor == cpu)
		weight += proc_change_penalty;
	if ((u64)p->mm == prev_mm)
		weight += mm_bonus;
	return weight;
}

/* Time to fill the cache, at 5000 MB per second. A task that runs for less has not filled it. */
#define CACHEFLUSH_TIME (cache_size * NSEC_PER_SEC / 1024 / 5000)

/* A slice has ended: by a switch, or because the same task was chosen again. */
static __always_inline void update_avg_slice(struct task_ctx *data, u64 now)
{
	data->avg_slice = (elapsed(data->slice_since, now) + data->avg_slice) / 2;
	data->slice_since = now;
}

static __always_inline bool quantum_has_ended(const struct task_ctx *data)
{
	return data->counter.overdrawn;
}

static __always_inline void goes_on(struct task_struct *prev, struct task_ctx *data, u64 now)
{
	update_avg_slice(data, now);
	start_paying_ticks(&data->counter, now);
	run_counter_down(prev, data, now);
}

/*
 * A round robin task that has used up its quantum gets the next one at once and goes behind the
 * others.
 */
static __always_inline void prepare_search(struct task_struct *prev, struct task_ctx *data)
{
	if (!prev || !data || realtime_policy != REALTIME_POLICY_RR || !rt_priority_of(prev) ||
	    data->counter.left)
		return;
	data->counter.left = quantum_of(prev);
	data->place = place_at_end();
}

#define SEARCHES_AGAIN false

#include "schedule.h"

/* That of the task that leaves the CPU. */
static __always_inline u64 loaded_mm(const struct cpu_data *cpu_data, struct task_struct *prev)
{
	return prev ? (u64)BPF_CORE_READ(prev, mm) : 0;
}

static __always_inline void switched_in(struct task_struct *p, struct task_ctx *data, u64 now)
{
	data->slice_since = now;
}

static __always_inline void switched_out(struct task_ctx *data, u64 now)
{
	update_avg_slice(data, now);
}

/* ---- Which CPU is notified: reschedule_idle() ------------------------------------------------ */

/* The effects of a wake-up on the CPU where it happens. */
enum wakeup {
	PREEMPT_CURRENT,
	LEAVE_IT_WAITING,
	LOOK_FOR_IDLE_CPU,
};

/*
 * The first part of reschedule_idle(): the current task of the waking CPU gives way to a real-time
 * task and to one that has more than 3 ticks more. Otherwise, if its slices are short on average
 * and both hold the big kernel lock, it will soon be gone, and the woken task waits for that. The
 * idle task has a counter of -100, so it always gives way.
 */
static __always_inline enum wakeup effect_of_wakeup(struct task_struct *p, struct task_ctx *data,
						    s32 this_cpu, u64 now)
{
	struct task_struct *current_task = scx_bpf_cpu_curr(this_cpu);
	struct task_ctx *current_data;

	if (!current_task || !bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr))
		return LOOK_FOR_IDLE_CPU;
	if (is_idle(current_task))
		return PREEMPT_CURRENT;
	current_data = task_ctx_of(current_task);
	if (!current_data || !is_ordinary(current_task))
		return LOOK_FOR_IDLE_CPU;
	if (rt_priority_of(p) ||
	    ticks_left_at(&data->counter, now) >
	    ticks_left_at(&current_data->counter, now) + (s32)wakeup_margin)
		return PREEMPT_CURRENT;
	if (current_data->avg_slice < CACHEFLUSH_TIME && big_kernel_lock && !in_interrupt() &&
	    !data->is_new)
		return LEAVE_IT_WAITING;
	return LOOK_FOR_IDLE_CPU;
}

/*
 * The second part: the woken task's last CPU if that is idle, otherwise the last idle CPU in the
 * scan, except the waking one.
 */
static __always_inline s32 find_idle_cpu(struct task_struct *p, const struct task_ctx *data,
					 s32 this_cpu)
{
	const struct cpumask *online;
	s32 cpu, target = -1;

	if (data->processor != NO_PROC_ID && bpf_cpumask_test_cpu(data->processor, p->cpus_ptr) &&
	    cpu_is_idle(data->processor))
		return data->processor;

	online = scx_bpf_get_online_cpumask();
	bpf_for(cpu, 0, nr_cpu_ids) {
		if (cpu != this_cpu && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) &&
		    bpf_cpumask_test_cpu(cpu, online) && cpu_is_idle(cpu))
			target = cpu;
	}
	scx_bpf_put_cpumask(online);
	return target;
}

/* A task is on the list: which CPU to notify. Tasks running on other CPUs are not interrupted. */
static __always_inline void reschedule_idle(struct task_struct *p, struct task_ctx *data)
{
	s32 target, this_cpu = bpf_get_smp_processor_id();

	switch (effect_of_wakeup(p, data, this_cpu, scx_bpf_now())) {
	case PREEMPT_CURRENT:
		if (cpu_is_idle(this_cpu)) {
			scx_bpf_kick_cpu(this_cpu, 0);
			return;
		}
		count(STAT_PREEMPTIONS);
		resched_cpu(this_cpu);
		return;
	case LEAVE_IT_WAITING:
		count(STAT_RELATED_WAKEUPS);
		return;
	default:
		target = find_idle_cpu(p, data, this_cpu);
		if (target >= 0)
			scx_bpf_kick_cpu(target, 0);
	}
}

/* ---- Sleep, wake-up and waiting -------------------------------------------------------------- */

/* sched_setscheduler(): a runnable task goes to the front of the list; the caller reschedules. */
static __always_inline void notice_policy(struct task_struct *p, struct task_ctx *data)
{
	u32 rt_priority = rt_priority_of(p);

	if (data->policy == p->policy && data->rt_priority == rt_priority)
		return;
	data->policy = p->policy;
	data->rt_priority = rt_priority;
	data->place = place_at_front();
	resched_cpu(bpf_get_smp_processor_id());
}

/*
 * The task stays where it was; schedule() on any CPU may take it. But the kernel notifies an idle
 * CPU of a task placed there. Where 2.2 would not notify it, the task is placed on the waking CPU
 * instead.
 */
s32 BPF_STRUCT_OPS(linux22_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task_ctx *data = task_ctx_of(p);
	s32 this_cpu = bpf_get_smp_processor_id();

	if (data && cpu_is_idle(prev_cpu) && bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr) &&
	    effect_of_wakeup(p, data, this_cpu, scx_bpf_now()) != LOOK_FOR_IDLE_CPU)
		return this_cpu;
	return prev_cpu;
}

/* wake_up_process(): a task that was not on the list goes to its front, and so does a new one. */
void BPF_STRUCT_OPS(linux22_runnable, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *data = task_ctx_of(p);

	if (!data)
		return;
	data->waiting_since = scx_bpf_now();
	if (data->listed)
		return;
	data->listed = true;
	data->woken = true;
	data->place = place_at_front();
}

void BPF_STRUCT_OPS(linux22_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *data = task_ctx_of(p);

	if (data && (deq_flags & SCX_DEQ_SLEEP))
		data->listed = false;
}

/* A task waits: woken, forked, or its CPU lost; then it keeps its place, and no CPU is kicked. */
void BPF_STRUCT_OPS(linux22_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *data = expected_task_ctx(p);
	bool woken;

	if (!data)
		return;
	woken = data->woken;
	data->woken = false;
	notice_policy(p, data);
	scx_bpf_dsq_insert_vtime(p, RUNQUEUE, tick_length(), data->place, enq_flags);
	if (!woken)
		return;
	reschedule_idle(p, data);
	data->is_new = false;
}

/*
 * sched_yield(): the quantum of an ordinary task counts as used up in the next search; every task
 * goes to the end of the list, even if no other one waits. Yielding to a given task is younger than
 * 2.2.
 */
bool BPF_STRUCT_OPS(linux22_yield, struct task_struct *from, struct task_struct *to)
{
	struct cpu_data *cpu_data = this_cpu_data();
	struct task_ctx *data = task_ctx_of(from);

	if (to || !data || !cpu_data)
		return false;
	count(STAT_YIELDS);
	if (!rt_priority_of(from))
		data->yielding = true;
	data->place = place_at_end();
	cpu_data->need_resched = true;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

void BPF_STRUCT_OPS(linux22_update_idle, s32 cpu, bool idle)
{
	if (idle)
		look_again(cpu);
}

/* ---- Idle CPUs ------------------------------------------------------------------------------- */

/*
 * cpu_idle() on several CPUs calls schedule() only after need_resched has been set: by a wake-up on
 * the idle CPU, or from another one. So a task that has lost its CPU, or one of several that woke
 * at the same instant, may wait beside it until then. Here it also looks at ticks.
 */
static bool idle_tick(void)
{
	const struct cpumask *online;
	s32 cpu;

	if (scx_bpf_dsq_nr_queued(RUNQUEUE) <= 0)
		return true;
	online = scx_bpf_get_online_cpumask();
	bpf_rcu_read_lock();
	bpf_for(cpu, 0, nr_cpu_ids) {
		if (bpf_cpumask_test_cpu(cpu, online) && cpu_is_idle(cpu))
			scx_bpf_kick_cpu(cpu, 0);
	}
	bpf_rcu_read_unlock();
	scx_bpf_put_cpumask(online);
	return true;
}

DEFINE_TIMER(idle_timer, idle_tick, time_to_tick(scx_bpf_now(), 1))

/* ---- Fork, and start ------------------------------------------------------------------------- */

/*
 * do_fork(): parent and child each get half of the parent's remaining ticks, and an odd tick is
 * lost. Tasks that existed before this scheduler start with a full quantum.
 */
s32 BPF_STRUCT_OPS(linux22_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task_ctx *data, *parent_data;
	u64 now = scx_bpf_now();

	data = new_task_ctx(p);
	if (!data)
		return -ENOMEM;
	data->counter.left = quantum_of(p);
	data->processor = NO_PROC_ID;
	data->policy = p->policy;
	data->rt_priority = rt_priority_of(p);
	data->is_new = args->fork;
	if (!args->fork)
		return 0;

	parent_data = task_ctx_of(parent);
	if (!parent_data)
		return 0;
	pay_ticks(&parent_data->counter, now);
	parent_data->counter.left >>= 1;
	data->counter.left = parent_data->counter.left;
	data->avg_slice = parent_data->avg_slice;
	if (parent_data->counter.running && !parent_data->counter.overdrawn)
		run_counter_down(parent, parent_data, now);
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(linux22_init)
{
	s32 error = init_runqueue();

	smp = nr_cpu_ids > 1;
	return error ?: smp && idle_ticks ? init_idle_timer() ?: start_idle_timer() : 0;
}

DEFINE_SCHEDULER(linux22,
	CALLBACKS_OF(linux22, select_cpu, enqueue, runnable, quiescent, yield, update_idle,
		     init_task, init)
	CALLBACKS_OF(one_list, dispatch, running, stopping, cpu_online, cpu_offline)
	.flags = SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.name = "linux22");
