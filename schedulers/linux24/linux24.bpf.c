// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Linux 2.4: one list of runnable tasks for all CPUs. Every switch walks over the whole list to
 * find the task with the largest goodness. The rules are those of 2.4.20 to 2.4.27.
 *
 * README.md lists the mechanisms' places and the departures.
 */
#include "fairground.bpf.h"
#include "idle_task.h"
#include "tick_counter.h"
#include "topology.h"

/* ---- Tunables -------------------------------------------------------------------------------- */

/* Timer ticks per second */
const volatile u32 hz = 100;
/* Goodness of having run on this CPU last; i386 has 15, many others 20 */
const volatile u32 proc_change_penalty = 15;
/* Goodness of sharing the address space that is loaded */
const volatile u32 mm_bonus = 1;
/* Limit of a parent's counter when it inherits a dead child's ticks */
const volatile u32 max_counter = 20;

/* Goodness below that of every task */
#define NOTHING -1000

/* ---- Statistics, in the order of scheduler.toml ---------------------------------------------- */

enum statistic {
	STAT_SCHEDULES,
	STAT_LIST_STEPS,
	STAT_RECALCULATIONS,
	STAT_RECALCULATED_TASKS,
	STAT_IDLE_RESCHEDULES,
	STAT_PREEMPTIONS,
	STAT_YIELDS,
	STAT_RESCUES,
	NR_STATISTICS,
};
DEFINE_STATISTICS(NR_STATISTICS)

/* ---- Tasks and their quanta ------------------------------------------------------------------ */

/* The scheduler's part of a task. */
struct task_ctx {
	struct tick_counter counter;
	/* On the list: waiting or running */
	bool listed;
	/* Place on the list: smaller is nearer the front */
	u64 place;
	/* CPU it ran on last */
	s32 processor;
	/* When it was last chosen to run, and since when it has waited for a CPU */
	u64 running_since;
	u64 waiting_since;
	/* SCHED_YIELD: gives way to every other task once */
	bool yielding;
	/* Being woken synchronously: the waker is about to sleep */
	bool synchronous;
};

DEFINE_TASK_DATA(struct task_ctx, task_ctx_map, task_ctx)

/* NICE_TO_TICKS of 2.4: quantum by nice value, about 50 ms for nice 0 at any timer rate */
static __always_inline s32 quantum_of(const struct task_struct *p)
{
	u32 strength = 20 - nice_of(p);

	if (hz < 200)
		strength >>= 2;
	else if (hz < 400)
		strength >>= 1;
	else if (hz < 800)
		;
	else if (hz < 1600)
		strength <<= 1;
	else
		strength <<= 2;
	return strength + 1;
}

/* Lets @p run until the tick that takes its last one, or until the next tick if none is left. */
static __always_inline void run_counter_down(struct task_struct *p, const struct task_ctx *data,
					     u64 now)
{
	run_for_ticks(p, data->counter.left, now);
}

/* ---- schedule() ------------------------------------------------------------------------------ */

/*
 * How good it is to run @p on @cpu while the address space @this_mm is loaded there:
 *
 *	-1	yields; after every other task
 *	0	runnable, but its quantum is used up
 *	else	counter + 15 if it was here last + 1 if no address space need be loaded + 20 - nice
 *
 * A function of its own, since the verifier would otherwise follow each of its branches through the
 * rest of the walk.
 */
__noinline s32 goodness(struct task_struct *p __arg_trusted, struct task_ctx *data __arg_nonnull,
			s32 cpu, u64 this_mm, u64 now)
{
	s32 weight;

	if (data->yielding)
		return -1;
	weight = ticks_left_at(&data->counter, now);
	if (!weight)
		return 0;
	if (data->processor == cpu)
		weight += proc_change_penalty;
	if ((u64)p->mm == this_mm || !p->mm)
		weight += mm_bonus;
	return weight + 20 - nice_of(p);
}

static __always_inline bool quantum_has_ended(const struct task_ctx *data)
{
	return data->counter.used_up;
}

static __always_inline void goes_on(struct task_struct *prev, struct task_ctx *data, u64 now)
{
	data->yielding = false;
	data->running_since = now;
	start_paying_ticks(&data->counter, now);
	run_counter_down(prev, data, now);
}

static __always_inline void prepare_search(struct task_struct *prev, struct task_ctx *data)
{
}

#define SEARCHES_AGAIN true

#include "schedule.h"

/* A kernel thread leaves that of the task before it. */
static __always_inline u64 loaded_mm(const struct cpu_data *cpu_data, struct task_struct *prev)
{
	return cpu_data->active_mm;
}

static __always_inline void switched_in(struct task_struct *p, struct task_ctx *data, u64 now)
{
	struct cpu_data *cpu_data = cpu_data_of(data->processor);

	if (!cpu_data)
		return;
	cpu_data->last_schedule = now;
	if (p->mm)
		cpu_data->active_mm = (u64)p->mm;
}

static __always_inline void switched_out(struct task_ctx *data, u64 now)
{
}

/* ---- Which CPU is notified: reschedule_idle() ------------------------------------------------ */

/* How much better it is to run @p on @cpu than @current_task. */
static __always_inline s32 preemption_goodness(struct task_struct *current_task,
					       struct task_ctx *current_data, struct task_struct *p,
					       struct task_ctx *data, s32 cpu, u64 this_mm, u64 now)
{
	return goodness(p, data, cpu, this_mm, now) -
	       goodness(current_task, current_data, cpu, this_mm, now);
}

/* True if the core has two siblings and both are idle: such a CPU is taken at once. */
static __always_inline bool core_is_idle(s32 cpu)
{
	const volatile struct cpu_topology *place = topology_of(cpu);
	s32 first;

	if (!place || place->core_cpus.count != 2)
		return false;
	first = place->core_cpus.first;
	return cpu_is_idle(cpu_at(first)) && cpu_is_idle(cpu_at(first + 1));
}

/*
 * Finds a CPU for a task that has become runnable or lost its CPU: its last CPU if that is idle;
 * otherwise the idle CPU that switched longest ago; otherwise the CPU where the task beats the
 * current one by most. That CPU calls schedule(), and goodness decides which task it takes from the
 * list.
 */
static __always_inline void reschedule_idle(struct task_struct *p, struct task_ctx *data)
{
	u64 now = scx_bpf_now(), oldest_idle = ~0ULL;
	const struct cpumask *online;
	s32 cpu, target = -1, max_prio = 0;

	if (bpf_cpumask_test_cpu(data->processor, p->cpus_ptr) && cpu_is_idle(data->processor)) {
		count(STAT_IDLE_RESCHEDULES);
		scx_bpf_kick_cpu(data->processor, 0);
		return;
	}

	online = scx_bpf_get_online_cpumask();
	bpf_for(cpu, 0, nr_cpu_ids) {
		struct cpu_data *cpu_data = cpu_data_of(cpu);
		struct task_struct *current_task;

		if (!cpu_data || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ||
		    !bpf_cpumask_test_cpu(cpu, online))
			continue;
		current_task = scx_bpf_cpu_curr(cpu);
		if (!current_task || current_task->pid == p->pid)
			continue;

		if (is_idle(current_task)) {
			if (core_is_idle(cpu)) {
				oldest_idle = 0;
				target = cpu;
				break;
			}
			if (cpu_data->last_schedule < oldest_idle) {
				oldest_idle = cpu_data->last_schedule;
				target = cpu;
			}
		} else if (oldest_idle == ~0ULL && is_ordinary(current_task)) {
			struct task_ctx *current_data = task_ctx_of(current_task);
			s32 prio;

			if (!current_data)
				continue;
			prio = preemption_goodness(current_task, current_data, p, data, cpu,
						   cpu_data->active_mm, now);
			if (prio > max_prio) {
				max_prio = prio;
				target = cpu;
			}
		}
	}
	scx_bpf_put_cpumask(online);

	if (target < 0)
		return;
	if (oldest_idle != ~0ULL) {
		count(STAT_IDLE_RESCHEDULES);
		scx_bpf_kick_cpu(target, 0);
	} else {
		count(STAT_PREEMPTIONS);
		resched_cpu(target);
	}
}

/* ---- Sleep, wake-up and waiting -------------------------------------------------------------- */

/*
 * The task stays where it was; schedule() on any CPU may take it. But the kernel notifies an idle
 * CPU of a task placed there, and 2.4 notifies nobody of a task that is woken synchronously: its
 * waker will call schedule() in a moment. So it is placed on the waker's CPU.
 */
s32 BPF_STRUCT_OPS(linux24_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task_ctx *data = task_ctx_of(p);
	s32 this_cpu = bpf_get_smp_processor_id();

	if (!data)
		return prev_cpu;
	data->synchronous = (wake_flags & SCX_WAKE_SYNC) && !cpu_is_idle(this_cpu) &&
			    bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr);
	return data->synchronous ? this_cpu : prev_cpu;
}

/* add_to_runqueue(): a task that was not on the list goes to its end. */
void BPF_STRUCT_OPS(linux24_runnable, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *data = task_ctx_of(p);

	if (!data || data->listed)
		return;
	data->listed = true;
	data->place = place_at_end();
}

void BPF_STRUCT_OPS(linux24_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *data = task_ctx_of(p);

	if (data && (deq_flags & SCX_DEQ_SLEEP))
		data->listed = false;
}

/* A task waits: it was woken or forked, or has lost its CPU and keeps its place. */
void BPF_STRUCT_OPS(linux24_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *data = expected_task_ctx(p);
	bool synchronous, yielding;

	if (!data)
		return;
	data->waiting_since = scx_bpf_now();
	scx_bpf_dsq_insert_vtime(p, RUNQUEUE, tick_length(), data->place, enq_flags);

	synchronous = data->synchronous;
	yielding = data->yielding;
	data->synchronous = false;
	data->yielding = false;
	if (!synchronous && !yielding)
		reschedule_idle(p, data);
}

/* sched_yield(): nothing unless another task waits. Yielding to a task is younger than 2.4. */
bool BPF_STRUCT_OPS(linux24_yield, struct task_struct *from, struct task_struct *to)
{
	struct cpu_data *cpu_data = this_cpu_data();
	struct task_ctx *data = task_ctx_of(from);

	if (to || !data || !cpu_data || scx_bpf_dsq_nr_queued(RUNQUEUE) <= 0)
		return false;
	count(STAT_YIELDS);
	data->yielding = true;
	data->place = place_at_end();
	cpu_data->need_resched = true;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

void BPF_STRUCT_OPS(linux24_update_idle, s32 cpu, bool idle)
{
	struct cpu_data *cpu_data = cpu_data_of(cpu);

	if (!idle || !cpu_data)
		return;
	cpu_data->last_schedule = scx_bpf_now();
	look_again(cpu);
}

/* ---- Fork, exit and start -------------------------------------------------------------------- */

/*
 * do_fork(): parent and child share the parent's remaining ticks; the child gets the odd tick.
 * Tasks that existed before this scheduler start with a full quantum.
 */
s32 BPF_STRUCT_OPS(linux24_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task_ctx *data, *parent_data;
	u64 now = scx_bpf_now();

	data = new_task_ctx(p);
	if (!data)
		return -ENOMEM;
	data->counter.left = quantum_of(p);
	data->processor = scx_bpf_task_cpu(p);
	if (!args->fork)
		return 0;

	parent_data = task_ctx_of(parent);
	if (!parent_data)
		return 0;
	pay_ticks(&parent_data->counter, now);
	data->counter.left = (parent_data->counter.left + 1) >> 1;
	data->processor = parent_data->processor;
	parent_data->counter.left >>= 1;
	if (!parent_data->counter.running)
		return 0;
	if (parent_data->counter.left)
		run_counter_down(parent, parent_data, now);
	else
		resched_cpu(parent_data->processor);
	return 0;
}

/* release_task(): the parent inherits the child's remaining ticks, up to a limit. */
void BPF_STRUCT_OPS(linux24_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_ctx *data = task_ctx_of(p), *parent_data;
	struct task_struct *parent = heir_of(p, args);

	parent_data = data && parent ? task_ctx_of(parent) : NULL;
	if (parent_data)
		parent_data->counter.left = min(parent_data->counter.left + data->counter.left,
						max_counter);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(linux24_init)
{
	return init_runqueue();
}

DEFINE_SCHEDULER(linux24,
	CALLBACKS_OF(linux24, select_cpu, enqueue, runnable, quiescent, yield, update_idle,
		     init_task, exit_task, init)
	CALLBACKS_OF(one_list, dispatch, running, stopping, cpu_online, cpu_offline)
	.flags = SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.name = "linux24");
