/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Linux 2.2: one list of runnable tasks for all CPUs, classes of tasks, and at every switch a walk over all of the list for the
 * task with the largest goodness, which knows of processors and address spaces. The rules are those of 2.2.1.
 *
 * README.md says where each mechanism is and what is different here.
 */
#include "fairground.bpf.h"
#include "bound_tasks.h"
#include "idle_task.h"
#include "in_interrupt.h"
#include "task_attributes.h"
#include "task_list.h"
#include "tick_counter.h"

/* Timer ticks a second */
const volatile u32 hz = 100;
/* Quantum of nice 0, ticks: DEF_PRIORITY */
const volatile u32 def_priority = 20;
/* Ticks that a woken task must have more than the current one to take its CPU */
const volatile u32 wakeup_margin = 3;
/* Goodness of having run on this CPU last; i386 has 15 */
const volatile u32 proc_change_penalty = 15;
/* Goodness of sharing the address space of the task that leaves the CPU */
const volatile u32 mm_bonus = 1;
/* Size of the secondary cache, KB; 0 is a machine without a cycle counter */
const volatile u32 cache_size = 512;
/* Whether a task that wakes another one and the one that is woken count as inside the big kernel lock */
const volatile u32 big_kernel_lock = 1;
/* How tasks with the attribute "realtime" are scheduled: first in, first out, or round robin */
const volatile u32 realtime_policy;
/* How long a task that is bound to certain CPUs waits behind others there, ms */
const volatile u32 bound_patience = 10000;

#define REALTIME_POLICY_RR 1

/* The list of runnable tasks without those that run: a dispatch queue ordered by the tasks' places in the list. */
#define RUNQUEUE 0

/* Goodness below that of every task, and of real-time tasks without their priority */
#define NOTHING -1000
#define REALTIME_GOODNESS 1000

/* processor of a task that has not run yet */
#define NO_PROC_ID -1

/* A walk is repeated if the chosen task has been taken away meanwhile; more often than this, the next event does. */
#define SCHEDULE_ATTEMPTS 4

enum {
	SCHEDULES,
	LIST_STEPS,
	RECALCULATIONS,
	RECALCULATED_TASKS,
	SWITCHES,
	MIGRATIONS,
	PREEMPTIONS,
	IDLE_RESCHEDULES,
	RELATED_WAKEUPS,
	YIELDS,
	BOUND_RESCUES,
	NR_STATISTICS,
};
DEFINE_STATISTICS(NR_STATISTICS)

/* The scheduler's part of a task. */
struct task_data {
	struct tick_counter counter;
	/* CPU it ran on last */
	s32 processor;
	/* Policy and real-time priority that it has been listed with */
	u32 policy;
	u32 rt_priority;
	/* Place in the list of runnable tasks: smaller is nearer the front */
	u64 place;
	/* How long it runs without a switch, each run counting half of all before; nanoseconds */
	u64 avg_slice;
	/* Start of the current slice, and since when it has had or wanted its CPU; nanoseconds */
	u64 slice_since;
	u64 running_since;
	u64 waiting_since;
	/* On the list: waiting or running */
	bool listed;
	/* Put on the list, and not yet placed by reschedule_idle() */
	bool woken;
	/* SCHED_YIELD: counts as used up once */
	bool yielding;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_data);
} task_data SEC(".maps");

struct cpu_data {
	/* The current task is to give the CPU to schedule() */
	bool need_resched;
};
DEFINE_PER_CPU(struct cpu_data, cpu_data)

struct idle_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct idle_timer);
} idle_timer SEC(".maps");

/* Compiled for several CPUs: __SMP__ */
static bool smp;

static __always_inline struct task_data *task_data_of(struct task_struct *p)
{
	return bpf_task_storage_get(&task_data, p, 0, 0);
}

/*
 * Nice level and quantum in one, ticks: 20 - nice, 1 to 40. SCHED_IDLE is younger than 2.2; such a task is as weak as a task
 * can be.
 */
static __always_inline s32 priority_of(const struct task_struct *p)
{
	s32 nice = p->policy == SCHED_IDLE ? MAX_NICE : task_nice(p);
	s32 priority = (s32)def_priority - nice;

	return priority > 0 ? priority : 1;
}

/* Real-time priority, 1 to 99, or 0 for SCHED_OTHER. Tasks of the kernel's own SCHED_FIFO and SCHED_RR never come here. */
static __always_inline u32 rt_priority_of(struct task_struct *p)
{
	const struct task_attributes *attributes = attributes_of(p);

	if (!attributes || !(attributes->present & TASK_ATTRIBUTE_REALTIME) ||
	    attributes->realtime_kind == REALTIME_NONE)
		return 0;
	return attributes->realtime_priority ?: 1;
}

/* The CPU is left on the tick that finds the counter at 0: a quantum of k ticks lasts k + 1. */
static __always_inline void run_counter_down(struct task_struct *p, const struct task_data *data, u64 now)
{
	run_for_ticks(p, data->counter.left + 1, now, hz);
}

/*
 * How good it is to run @p on @cpu after @prev:
 *
 *	1000 + priority	real-time
 *	0		runnable, but its quantum is used up or it yields
 *	else		counter + priority + 15 if it was here last + 1 if the address space stays
 *
 * A function of its own for the verifier, which would follow each of its branches through the rest of the walk.
 */
__noinline s32 goodness(struct task_struct *p __arg_trusted, struct task_data *data __arg_nonnull,
			struct task_struct *prev __arg_trusted __arg_nullable, s32 cpu, u64 now)
{
	u64 prev_mm = prev ? (u64)prev->mm : 0;
	u32 rt_priority = rt_priority_of(p);
	s32 weight;

	if (data->yielding) {
		data->yielding = false;
		return 0;
	}
	if (rt_priority)
		return REALTIME_GOODNESS + rt_priority;
	weight = ticks_left_at(&data->counter, now, hz);
	if (!weight)
		return 0;
	weight += priority_of(p);
	if (smp && data->processor == cpu)
		weight += proc_change_penalty;
	if ((u64)p->mm == prev_mm)
		weight += mm_bonus;
	return weight;
}

/* Time to fill the cache: 5000 / 1024 of its KB in microseconds. A task that runs for less has not filled it. */
static __always_inline u64 cacheflush_time(void)
{
	return cache_size * NSEC_PER_SEC / 1024 / 5000;
}

/* A slice has ended, by a switch or by the choice of the same task. */
static __always_inline void update_avg_slice(struct task_data *data, u64 now)
{
	u64 this_slice = time_before(data->slice_since, now) ? now - data->slice_since : 0;

	data->avg_slice = (this_slice + data->avg_slice) / 2;
	data->slice_since = now;
}

/* What a wake-up does on the CPU where it happens. */
enum wakeup {
	PREEMPT_CURRENT,
	LEAVE_IT_WAITING,
	LOOK_FOR_IDLE_CPU,
};

/*
 * The first part of reschedule_idle(), about the current task of the waking CPU: it gives way to a real-time task and to one that
 * has more than 3 ticks more. Otherwise, if it never runs for long and both are in the kernel, it will soon be gone, and the
 * woken task waits for that. An idle CPU has a counter of -100.
 */
static __always_inline enum wakeup effect_of_wakeup(struct task_struct *p, struct task_data *data, s32 this_cpu, u64 now)
{
	struct task_struct *current_task = scx_bpf_cpu_curr(this_cpu);
	struct task_data *current_data;

	if (!current_task || !bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr))
		return LOOK_FOR_IDLE_CPU;
	if (is_idle(current_task))
		return PREEMPT_CURRENT;
	current_data = task_data_of(current_task);
	if (!current_data || !is_ordinary(current_task))
		return LOOK_FOR_IDLE_CPU;
	if (rt_priority_of(p) || ticks_left_at(&data->counter, now, hz) >
					 ticks_left_at(&current_data->counter, now, hz) + (s32)wakeup_margin)
		return PREEMPT_CURRENT;
	if (current_data->avg_slice < cacheflush_time() && big_kernel_lock && !in_interrupt())
		return LEAVE_IT_WAITING;
	return LOOK_FOR_IDLE_CPU;
}

/* The second part: the last CPU of the woken task if it is idle, else the last idle one there is, but not the waking one. */
static __always_inline s32 find_idle_cpu(struct task_struct *p, const struct task_data *data, s32 this_cpu)
{
	const struct cpumask *online;
	s32 cpu, target = -1;

	if (data->processor != NO_PROC_ID && bpf_cpumask_test_cpu(data->processor, p->cpus_ptr) &&
	    cpu_is_idle(data->processor))
		return data->processor;

	online = scx_bpf_get_online_cpumask();
	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		if (cpu != this_cpu && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && bpf_cpumask_test_cpu(cpu, online) &&
		    cpu_is_idle(cpu))
			target = cpu;
	}
	scx_bpf_put_cpumask(online);
	return target;
}

/* A task has been put on the list: which CPU is to know. Running tasks of other CPUs are never interrupted. */
static __always_inline void reschedule_idle(struct task_struct *p, struct task_data *data)
{
	s32 target, this_cpu = bpf_get_smp_processor_id();
	struct cpu_data *cpu_data = this_cpu_data();

	switch (effect_of_wakeup(p, data, this_cpu, scx_bpf_now())) {
	case PREEMPT_CURRENT:
		if (cpu_is_idle(this_cpu)) {
			count(IDLE_RESCHEDULES);
			scx_bpf_kick_cpu(this_cpu, 0);
			return;
		}
		count(PREEMPTIONS);
		if (cpu_data)
			cpu_data->need_resched = true;
		scx_bpf_kick_cpu(this_cpu, SCX_KICK_PREEMPT);
		return;
	case LEAVE_IT_WAITING:
		count(RELATED_WAKEUPS);
		return;
	default:
		target = find_idle_cpu(p, data, this_cpu);
		if (target < 0)
			return;
		count(IDLE_RESCHEDULES);
		scx_bpf_kick_cpu(target, 0);
	}
}

/* sched_setscheduler(): a runnable task comes to the front of the list, and the caller reschedules. */
static __always_inline void notice_policy(struct task_struct *p, struct task_data *data)
{
	u32 rt_priority = rt_priority_of(p);
	struct cpu_data *cpu_data = this_cpu_data();

	if (data->policy == p->policy && data->rt_priority == rt_priority)
		return;
	data->policy = p->policy;
	data->rt_priority = rt_priority;
	data->place = place_at_front();
	if (cpu_data)
		cpu_data->need_resched = true;
	scx_bpf_kick_cpu(bpf_get_smp_processor_id(), SCX_KICK_PREEMPT);
}

/*
 * A new epoch: every task of the system, asleep or not, gets a quantum and keeps half of what it has left. So sleepers gain,
 * nearly twice their quantum.
 */
static __always_inline void recalculate(u64 now)
{
	struct task_struct *p;
	u64 tasks = 0;

	count(RECALCULATIONS);
	bpf_for_each(task, p, NULL, BPF_TASK_ITER_ALL_THREADS) {
		struct task_data *data = task_data_of(p);

		if (!data)
			continue;
		refill_ticks(&data->counter, priority_of(p), now, hz);
		tasks++;
	}
	count_by(RECALCULATED_TASKS, tasks);
}

/*
 * The task stays where it was; schedule() on any CPU may take it. But the kernel tells an idle CPU of a task that is left with
 * it, and where 2.2 would not do so the waking CPU takes care of the task.
 */
s32 BPF_STRUCT_OPS(linux22_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task_data *data = task_data_of(p);
	s32 this_cpu = bpf_get_smp_processor_id();

	if (data && cpu_is_idle(prev_cpu) && bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr) &&
	    effect_of_wakeup(p, data, this_cpu, scx_bpf_now()) != LOOK_FOR_IDLE_CPU)
		return this_cpu;
	return prev_cpu;
}

/* wake_up_process(): a task that was not on the list goes to its front. So do new ones. */
void BPF_STRUCT_OPS(linux22_runnable, struct task_struct *p, u64 enq_flags)
{
	struct task_data *data = task_data_of(p);

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
	struct task_data *data = task_data_of(p);

	if (data && (deq_flags & SCX_DEQ_SLEEP))
		data->listed = false;
}

/* A task waits: one that has been woken or forked, or one that has lost its CPU and keeps its place, of which no CPU is told. */
void BPF_STRUCT_OPS(linux22_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_data *data = task_data_of(p);
	bool woken;

	if (!data) {
		scx_bpf_error("task %d has no data", p->pid);
		return;
	}
	woken = data->woken;
	data->woken = false;
	notice_policy(p, data);
	scx_bpf_dsq_insert_vtime(p, RUNQUEUE, tick_length(hz), data->place, enq_flags);
	if (woken)
		reschedule_idle(p, data);
}

/*
 * One search: the task with the largest goodness of all that wait and, if @prev_competes, of @prev; the first one on the list
 * if there are several. If that is 0 a new epoch begins, and still the one that has been found runs: there is no second
 * search. Returns whether that settles who runs: the chosen task may have been taken away meanwhile.
 */
__noinline bool search(s32 cpu, struct task_struct *prev __arg_trusted __arg_nullable, bool prev_competes, u64 now)
{
	struct task_data *prev_data = prev && prev_competes ? task_data_of(prev) : NULL;
	u64 place = 0, longest = 0, steps = 0;
	bool moved = false, prev_wins = false, rescue = false, overdue;
	struct task_struct *p, *next = NULL;
	struct bpf_iter_scx_dsq it;
	s32 weight = NOTHING;

	count(SCHEDULES);
	bpf_iter_scx_dsq_new(&it, RUNQUEUE, 0);
	while ((p = bpf_iter_scx_dsq_next(&it))) {
		struct task_data *data = task_data_of(p);
		s32 candidate_weight;

		steps++;
		if (!data || !can_run_on(p, cpu))
			continue;
		candidate_weight = goodness(p, data, prev, cpu, now);
		overdue = bound_task_is_overdue(p, data->waiting_since, bound_patience, now);
		if (rescue ? overdue && time_before(data->waiting_since, longest) : overdue || candidate_weight > weight) {
			struct task_struct *candidate = bpf_task_acquire(p);

			if (!candidate)
				continue;
			if (next)
				bpf_task_release(next);
			next = candidate;
			weight = candidate_weight;
			place = data->place;
			rescue = overdue;
			longest = data->waiting_since;
		}
	}

	if (prev && prev_data && !rescue) {
		s32 prev_weight = goodness(prev, prev_data, prev, cpu, now);

		steps++;
		prev_wins = prev_weight > weight || (prev_weight == weight && time_before(prev_data->place, place));
		if (prev_wins)
			weight = prev_weight;
	}
	count_by(LIST_STEPS, steps);

	if (!weight && !rescue)
		recalculate(now);
	if (rescue)
		count(BOUND_RESCUES);
	if (!prev_wins && next)
		moved = scx_bpf_dsq_move(&it, next, SCX_DSQ_LOCAL, 0);
	bpf_iter_scx_dsq_destroy(&it);
	if (next)
		bpf_task_release(next);

	if (prev_wins && prev) {
		update_avg_slice(prev_data, now);
		start_paying_ticks(&prev_data->counter, now);
		run_counter_down(prev, prev_data, now);
	}
	return weight == NOTHING || prev_wins || moved;
}

/* schedule(): @prev goes on until its quantum has ended or somebody calls for a search. */
void BPF_STRUCT_OPS(linux22_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_data *cpu_data = cpu_data_of(cpu);
	struct task_data *prev_data = NULL;
	u64 now = scx_bpf_now();
	s32 attempt;

	if (!cpu_data)
		return;
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED) && bpf_cpumask_test_cpu(cpu, prev->cpus_ptr))
		prev_data = task_data_of(prev);

	if (prev && prev_data) {
		pay_ticks(&prev_data->counter, now, hz);
		/* Another CPU has begun an epoch since this quantum was laid out. */
		if (!prev_data->counter.overdrawn && !cpu_data->need_resched &&
		    now - prev_data->running_since < BOUND_TASKS_INTERVAL) {
			run_counter_down(prev, prev_data, now);
			return;
		}
		/* A round robin task gets its next quantum at once, behind the others. */
		if (realtime_policy == REALTIME_POLICY_RR && rt_priority_of(prev) && !prev_data->counter.left) {
			prev_data->counter.left = priority_of(prev);
			prev_data->place = place_at_end();
		}
	}
	cpu_data->need_resched = false;

	bpf_for(attempt, 0, SCHEDULE_ATTEMPTS) {
		if (search(cpu, prev, prev_data, now))
			break;
	}
}

void BPF_STRUCT_OPS(linux22_running, struct task_struct *p)
{
	struct task_data *data = task_data_of(p);
	s32 cpu = scx_bpf_task_cpu(p);
	u64 now = scx_bpf_now();

	if (!data)
		return;
	count(SWITCHES);
	if (data->processor != NO_PROC_ID && data->processor != cpu)
		count(MIGRATIONS);
	data->processor = cpu;
	data->slice_since = now;
	data->running_since = now;
	start_paying_ticks(&data->counter, now);
	run_counter_down(p, data, now);
}

void BPF_STRUCT_OPS(linux22_stopping, struct task_struct *p, bool runnable)
{
	struct task_data *data = task_data_of(p);
	u64 now = scx_bpf_now();

	if (!data)
		return;
	stop_paying_ticks(&data->counter, now, hz);
	update_avg_slice(data, now);
	data->waiting_since = now;
	/* Displaced by a real-time task or not, it goes back to the list, and is not kept in front of its CPU. */
	if (runnable)
		scx_bpf_task_set_slice(p, 0);
}

/*
 * sched_yield(): an ordinary task counts as used up in the next search, every one goes to the end of the list. Nobody asks whether
 * another task waits. Yielding to a certain task is younger than 2.2.
 */
bool BPF_STRUCT_OPS(linux22_yield, struct task_struct *from, struct task_struct *to)
{
	struct cpu_data *cpu_data = this_cpu_data();
	struct task_data *data = task_data_of(from);

	if (to || !data || !cpu_data)
		return false;
	count(YIELDS);
	if (!rt_priority_of(from))
		data->yielding = true;
	data->place = place_at_end();
	cpu_data->need_resched = true;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/*
 * A CPU that goes idle has found nothing, but a task may have been listed since, by a CPU that saw this one busy still. 2.2
 * held one lock for both; here the CPU looks again.
 */
void BPF_STRUCT_OPS(linux22_update_idle, s32 cpu, bool idle)
{
	if (idle && scx_bpf_dsq_nr_queued(RUNQUEUE) > 0)
		scx_bpf_kick_cpu(cpu, 0);
}

/* cpu_idle(): every interrupt ends the halt of an idle CPU, and it calls schedule(). The timer's comes every tick. */
static int idle_tick(void *map, u32 *key, struct idle_timer *timer)
{
	s32 cpu;

	if (scx_bpf_dsq_nr_queued(RUNQUEUE) > 0) {
		const struct cpumask *online = scx_bpf_get_online_cpumask();

		bpf_rcu_read_lock();
		bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
			if (bpf_cpumask_test_cpu(cpu, online) && cpu_is_idle(cpu))
				scx_bpf_kick_cpu(cpu, 0);
		}
		bpf_rcu_read_unlock();
		scx_bpf_put_cpumask(online);
	}
	bpf_timer_start(&timer->timer, time_to_tick(scx_bpf_now(), 1, hz), 0);
	return 0;
}

/*
 * do_fork(): parent and child get half of what the parent has left, and an odd tick is lost. Tasks that were there before this
 * scheduler start with a full quantum.
 */
s32 BPF_STRUCT_OPS(linux22_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task_data *data, *parent_data;
	u64 now = scx_bpf_now();

	data = bpf_task_storage_get(&task_data, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!data)
		return -ENOMEM;
	data->counter.left = priority_of(p);
	data->processor = NO_PROC_ID;
	data->policy = p->policy;
	data->rt_priority = rt_priority_of(p);
	if (!args->fork)
		return 0;

	parent_data = task_data_of(parent);
	if (!parent_data)
		return 0;
	pay_ticks(&parent_data->counter, now, hz);
	parent_data->counter.left >>= 1;
	data->counter.left = parent_data->counter.left;
	data->avg_slice = parent_data->avg_slice;
	if (parent_data->counter.running && !parent_data->counter.overdrawn)
		run_counter_down(parent, parent_data, now);
	return 0;
}

/* One list for all CPUs: whether one of them comes or goes changes nothing. */
void BPF_STRUCT_OPS(linux22_cpu_online, s32 cpu)
{
}

void BPF_STRUCT_OPS(linux22_cpu_offline, s32 cpu)
{
}

s32 BPF_STRUCT_OPS_SLEEPABLE(linux22_init)
{
	struct idle_timer *timer;
	u32 key = 0;
	s32 err;

	err = scx_bpf_create_dsq(RUNQUEUE, NUMA_NO_NODE);
	if (err)
		return err;
	smp = scx_bpf_nr_cpu_ids() > 1;
	if (!smp)
		return 0;

	timer = bpf_map_lookup_elem(&idle_timer, &key);
	if (!timer)
		return -ENOENT;
	err = bpf_timer_init(&timer->timer, &idle_timer, CLOCK_MONOTONIC);
	if (!err)
		err = bpf_timer_set_callback(&timer->timer, idle_tick);
	if (!err)
		err = bpf_timer_start(&timer->timer, time_to_tick(scx_bpf_now(), 1, hz), 0);
	return err;
}

DEFINE_SCHEDULER(linux22,
	.select_cpu = (void *)linux22_select_cpu,
	.enqueue = (void *)linux22_enqueue,
	.dispatch = (void *)linux22_dispatch,
	.runnable = (void *)linux22_runnable,
	.running = (void *)linux22_running,
	.stopping = (void *)linux22_stopping,
	.quiescent = (void *)linux22_quiescent,
	.yield = (void *)linux22_yield,
	.update_idle = (void *)linux22_update_idle,
	.cpu_online = (void *)linux22_cpu_online,
	.cpu_offline = (void *)linux22_cpu_offline,
	.init_task = (void *)linux22_init_task,
	.init = (void *)linux22_init,
	.flags = SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 30000,
	.name = "linux22");
