/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * FBFS: BFS for FreeBSD. One run queue of 64 lists for all CPUs; interrupt, real-time and kernel threads by static priority
 * and in turn, user threads from one list by the earliest deadline, idle threads from another. FreeBSD's clocks, priorities,
 * slices and ways of telling CPUs stay.
 *
 * README.md says where each mechanism is and what is different here.
 */
#include "fairground.bpf.h"
#include "topology.h"
#include "task_attributes.h"
#include "prio_ratios.h"
#include "idle_task.h"
#include "freebsd.h"
#include "starvation.h"

/* Slice of every thread, ticks of stathz */
const volatile u32 sched_slice = 12;
/* Kernel priority of a thread that slept, until it is back in user mode; 0 keeps the user priority, as select() does */
const volatile u32 sleep_priority;
/* The same for threads that waited for a disk: PRIBIO */
const volatile u32 disk_priority = 92;

/* Priorities of kernel threads: software interrupts (PI_SOFT) for those bound to a CPU, PVM for the others */
#define INTERRUPT_PRIORITY 24
#define KERNEL_PRIORITY 84

/* The lists: their numbers are the ids of the dispatch queues. Real-time and kernel priorities begin at 12, one list each. */
#define FIRST_STATIC_LIST 12
#define LAST_STATIC_LIST 61
#define TIMESHARE_LIST 62
#define IDLE_LIST 63

/* prio_ratios[] for nice -20 */
#define PRIO_RATIO_BASE 128

/* A search is repeated if the chosen thread has been taken away meanwhile; more often than this, the next event does. */
#define CHOOSE_ATTEMPTS 4

enum {
	CHOICES,
	LIST_STEPS,
	SWITCHES,
	MIGRATIONS,
	SLICE_ENDS,
	INTERRUPTS,
	PREEMPTIONS,
	FORKS,
	YIELDS,
	RESCUES,
	NR_STATISTICS,
};
DEFINE_STATISTICS(NR_STATISTICS)

/* The scheduler's part of a thread: struct td_sched. */
struct thread_data {
	/* Virtual deadline in ticks; signed, and compared without regard to overflow */
	s32 deadline;
	/* What is left of the slice, stathz ticks */
	s32 slice;
	/* Priority it has now: better than its own while it is in the kernel after a sleep */
	s32 priority;
	/* List that it counts for, plus 1; 0 if it counts for none */
	u32 list;
	/* CPU it ran on last */
	s32 cpu;
	/* Until when a running thread has been charged, and since when a waiting one waits */
	u64 paid_until;
	u64 waiting_since;
	bool running;
	/* TDF_SLICEEND: its slice has ended since it was chosen */
	bool slice_end;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_data);
} thread_data SEC(".maps");

/* The run queue */
static struct runq runq;
/* When `ticks` was 0 */
static u64 first_tick;
/* When a starved thread is looked for next, nanoseconds */
static u64 starvation_check_at;

static __always_inline struct thread_data *thread_data_of(struct task_struct *p)
{
	return bpf_task_storage_get(&thread_data, p, 0, 0);
}

/* ---- Priorities ------------------------------------------------------------------------------------------------ */

/* Priority of a thread by itself. In user mode all timeshare threads are equal: nice is in the deadline only. */
static __always_inline s32 own_priority(struct task_struct *p)
{
	const struct task_attributes *attributes = attributes_of(p);

	/* rtprio, 32 priorities; and what the report calls SCHED_ISO: static and in turn, the weakest of these */
	if (attributes && (attributes->present & TASK_ATTRIBUTE_REALTIME) &&
	    attributes->realtime_kind != REALTIME_NONE) {
		u32 weakness = 99 - (attributes->realtime_priority < 99 ? attributes->realtime_priority : 99);

		return PRI_MIN_REALTIME + weakness * 32 / 99;
	}
	if (attributes && (attributes->present & TASK_ATTRIBUTE_ISOCHRONOUS) && attributes->isochronous)
		return PRI_MAX_REALTIME;

	switch (thread_class_of(p)) {
	case THREAD_INTERRUPT:
		return INTERRUPT_PRIORITY;
	case THREAD_KERNEL:
		return KERNEL_PRIORITY;
	case THREAD_IDLE:
		return PRI_MIN_IDLE;
	default:
		return PRI_MIN_TIMESHARE;
	}
}

/* The list of a priority. */
static __always_inline u32 queue_of(s32 priority)
{
	u32 list;

	if (priority >= PRI_MIN_IDLE)
		return IDLE_LIST;
	if (priority >= PRI_MIN_TIMESHARE)
		return TIMESHARE_LIST;
	if (priority <= PRI_MAX_ITHD)
		return list_of(priority);
	list = FIRST_STATIC_LIST + priority - PRI_MIN_REALTIME;
	return list < LAST_STATIC_LIST ? list : LAST_STATIC_LIST;
}

static __always_inline bool has_deadline(s32 priority)
{
	return queue_of(priority) >= TIMESHARE_LIST;
}

/* ---- Slices and deadlines -------------------------------------------------------------------------------------- */

static __always_inline s32 ticks(u64 now)
{
	return ticks_at(now) - first_tick;
}

/* What a slice's end does. The distance is computed in ticks of stathz and added to those of hz: a defect of the original. */
static __always_inline void renew_deadline(struct task_struct *p, struct thread_data *td, u64 now)
{
	td->deadline = ticks(now) + (s32)(sched_slice * prio_ratio(task_nice(p)) / PRIO_RATIO_BASE);
	td->slice = sched_slice;
	td->slice_end = true;
	count(SLICE_ENDS);
}

/* sched_clock(): every tick of stathz that hits the thread takes one of its slice. */
static __always_inline void sched_clock(struct task_struct *p, struct thread_data *td, u64 now)
{
	u64 hits;

	if (!td->running)
		return;
	hits = ticks_between(td->paid_until, now, stathz);
	td->paid_until = now;
	if (!hits)
		return;
	if (hits < (u64)(u32)td->slice) {
		td->slice -= hits;
		return;
	}
	/* The CPU is asked for at the tick; what the thread runs on until it obeys belongs to its next slice */
	hits -= td->slice > 0 ? td->slice : 1;
	renew_deadline(p, td, now);
	if (sched_slice)
		td->slice -= hits % sched_slice;
}

/* Lets the thread run to the end of its slice. */
static __always_inline void run_slice(struct task_struct *p, const struct thread_data *td, u64 now)
{
	scx_bpf_task_set_slice(p, time_to_tick(now, td->slice > 0 ? td->slice : 1, stathz));
}

/* ---- Telling CPUs ---------------------------------------------------------------------------------------------- */

/* Asks a CPU to call mi_switch(): an interrupt, if it is another one. */
static __always_inline void request_reschedule(s32 cpu, bool idle)
{
	if (cpu != (s32)bpf_get_smp_processor_id())
		count(INTERRUPTS);
	scx_bpf_kick_cpu(cpu, idle ? 0 : SCX_KICK_PREEMPT);
}

/*
 * Interrupts all idle CPUs that the thread may use: at positions @first to @first + @number - 1 of the topology, or all of them.
 * Returns how many those are.
 */
__noinline u32 interrupt_idle(struct task_struct *p __arg_trusted, s32 first, s32 number)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	u32 interrupted = 0;
	s32 position;

	if (number < 0) {
		first = 0;
		number = scx_bpf_nr_cpu_ids();
		bpf_for(position, 0, number) {
			if (!bpf_cpumask_test_cpu(position, idle) || !bpf_cpumask_test_cpu(position, p->cpus_ptr))
				continue;
			request_reschedule(position, true);
			interrupted++;
		}
	} else {
		bpf_for(position, first, first + number) {
			s32 cpu = topology_cpu_at(position);

			if (cpu < 0 || !bpf_cpumask_test_cpu(cpu, idle) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
				continue;
			request_reschedule(cpu, true);
			interrupted++;
		}
	}
	scx_bpf_put_idle_cpumask(idle);
	return interrupted;
}

/*
 * Interrupts the idle CPUs of the last CPU's group, its core if that has several threads, else its cache; if there are none, all
 * idle CPUs. The original means to climb to the next group but looks at the first one only.
 */
static __always_inline u32 interrupt_idle_neighbours(struct task_struct *p, s32 cpu)
{
	const volatile struct cpu_topology *place = topology_of(cpu);
	u32 interrupted = 0;

	if (place) {
		if (place->core_cpus.count > 1)
			interrupted = interrupt_idle(p, place->core_cpus.first, place->core_cpus.count);
		else
			interrupted = interrupt_idle(p, place->llc_cpus.first, place->llc_cpus.count);
	}
	return interrupted ? interrupted : interrupt_idle(p, 0, -1);
}

/* Priority and deadline of the thread that runs on @cpu; false if that is @p itself or a real-time task of the kernel. */
static __always_inline bool running_on(s32 cpu, const struct task_struct *p, s32 *priority, s32 *deadline, bool *idle)
{
	struct task_struct *curr = scx_bpf_cpu_curr(cpu);
	struct thread_data *td;

	*idle = false;
	if (!curr || curr->pid == p->pid)
		return false;
	if (is_idle(curr)) {
		*idle = true;
		return true;
	}
	if (!is_ordinary(curr))
		return false;
	td = thread_data_of(curr);
	if (!td)
		return false;
	*priority = td->priority;
	*deadline = td->deadline;
	return true;
}

/*
 * The worst thread that runs, on any CPU that @p may use: the worst priority, and of equals the earliest deadline, where the
 * latest would be meant. Tells its CPU if @p is better, and returns how many CPUs that is.
 */
__noinline u32 preempt_worst(struct task_struct *p __arg_trusted)
{
	struct thread_data *td = thread_data_of(p);
	s32 cpu, worst = -1, worst_priority = -1, worst_deadline = 0;

	if (!td)
		return 0;
	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		s32 priority, deadline;
		bool idle;

		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || !running_on(cpu, p, &priority, &deadline, &idle) || idle)
			continue;
		if (priority > worst_priority || (priority == worst_priority && deadline < worst_deadline)) {
			worst = cpu;
			worst_priority = priority;
			worst_deadline = deadline;
		}
	}
	if (worst < 0 || worst_priority < td->priority ||
	    (worst_priority == td->priority && worst_deadline <= td->deadline))
		return 0;
	count(PREEMPTIONS);
	request_reschedule(worst, false);
	return 1;
}

/*
 * The end of sched_add(): the last CPU if it idles or runs something worse, and all that idle besides; else the idle ones near the
 * last CPU; else the CPU that runs the worst.
 */
static __always_inline void notify_cpus(struct task_struct *p, const struct thread_data *td)
{
	s32 priority, deadline;
	bool idle;

	if (bpf_cpumask_test_cpu(td->cpu, p->cpus_ptr) && running_on(td->cpu, p, &priority, &deadline, &idle) &&
	    (idle || priority > td->priority ||
	     (priority == td->priority && has_deadline(td->priority) && td->deadline < deadline))) {
		if (!idle) {
			count(PREEMPTIONS);
			request_reschedule(td->cpu, false);
		}
		interrupt_idle(p, 0, -1);
		return;
	}
	if (interrupt_idle_neighbours(p, td->cpu))
		return;
	preempt_worst(p);
}

/* ---- The run queue --------------------------------------------------------------------------------------------- */

/* The thread counts for no list any more. */
static __always_inline void leave_list(struct thread_data *td)
{
	if (!td->list)
		return;
	runq_forget(&runq, td->list - 1);
	td->list = 0;
}

static __always_inline void enter_list(struct thread_data *td, u32 list)
{
	leave_list(td);
	runq_announce(&runq, list);
	td->list = list + 1;
}

s32 BPF_STRUCT_OPS(fbfs_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

/*
 * sched_add(): a thread waits; woken, forked, changed, or because it has lost its CPU. In sched_switch() only one that is preempted
 * inside the kernel would go to the front: `flags & SWT_RELINQUISH` is true for every switch on the way to user mode.
 */
void BPF_STRUCT_OPS(fbfs_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct thread_data *td = thread_data_of(p);

	if (!td) {
		scx_bpf_error("thread %d has no data", p->pid);
		return;
	}
	td->priority = own_priority(p);
	if (enq_flags & SCX_ENQ_WAKEUP) {
		u32 kernel_priority = p->in_iowait ? disk_priority : sleep_priority;

		/* sched_wakeup() */
		td->slice = sched_slice;
		if (kernel_priority && (s32)kernel_priority < td->priority)
			td->priority = kernel_priority;
	}
	td->slice_end = false;
	td->waiting_since = scx_bpf_now();

	enter_list(td, queue_of(td->priority));
	scx_bpf_dsq_insert(p, queue_of(td->priority), SCX_SLICE_DFL, 0);
	notify_cpus(p, td);
}

void BPF_STRUCT_OPS(fbfs_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct thread_data *td = thread_data_of(p);

	if (td)
		leave_list(td);
}

/*
 * A thread that has waited for starvation_limit goes in front of all others. Static priorities, idle threads and deadlines that
 * are never renewed let threads wait for ever, and the kernel would end this scheduler.
 */
__noinline u32 rescue_starving(u64 now)
{
	u64 bits = runq.bits;
	struct task_struct *p;
	u32 rescued = 0;
	s32 round;

	if (!starvation_check_is_due(&starvation_check_at, now))
		return 0;
	bpf_for(round, 0, RQ_NQS) {
		u32 list = runq_first(bits);

		if (list >= RQ_NQS)
			break;
		bits &= bits - 1;
		if (!list)
			continue;
		bpf_for_each(scx_dsq, p, list, 0) {
			struct thread_data *td = thread_data_of(p);

			if (!td || !starved_for(td->waiting_since, now))
				continue;
			if (!scx_bpf_dsq_move(DSQ_ITERATOR, p, 0, 0))
				continue;
			count(RESCUES);
			rescued++;
			td->priority = 0;
			enter_list(td, 0);
		}
	}
	return rescued;
}

/*
 * sched_choose(): the first list that has a thread for this CPU. Of user threads the earliest deadline, of idle threads too; of all
 * others the first. @prev, if it could go on, counts as if it had been put back at the end.
 */
void BPF_STRUCT_OPS(fbfs_dispatch, s32 cpu, struct task_struct *prev)
{
	struct thread_data *prev_td = NULL;
	u64 now = scx_bpf_now(), steps = 0;
	bool moved = false;
	u32 prev_list = RQ_NQS;
	s32 attempt, round;

	count(CHOICES);
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED) && bpf_cpumask_test_cpu(cpu, prev->cpus_ptr))
		prev_td = thread_data_of(prev);
	if (prev && prev_td) {
		sched_clock(prev, prev_td, now);
		prev_td->priority = own_priority(prev);
		prev_list = queue_of(prev_td->priority);
	}
	rescue_starving(now);

	bpf_for(attempt, 0, CHOOSE_ATTEMPTS) {
		u64 bits = *(volatile u64 *)&runq.bits;
		bool prev_wins = false, again = false;

		bpf_for(round, 0, RQ_NQS) {
			struct task_struct *p, *chosen = NULL;
			u32 list = runq_first(bits);
			struct bpf_iter_scx_dsq it;
			s32 earliest = 0;

			if (list >= RQ_NQS || list > prev_list)
				break;
			bits &= bits - 1;
			bpf_iter_scx_dsq_new(&it, list, 0);
			while ((p = bpf_iter_scx_dsq_next(&it))) {
				struct thread_data *td = thread_data_of(p);
				struct task_struct *better;

				steps++;
				if (!td || !can_run_on(p, cpu) || (chosen && td->deadline >= earliest))
					continue;
				better = bpf_task_acquire(p);
				if (!better)
					continue;
				if (chosen)
					bpf_task_release(chosen);
				chosen = better;
				earliest = td->deadline;
				if (list < TIMESHARE_LIST)
					break;
			}
			if (list == prev_list && prev_td && list >= TIMESHARE_LIST)
				prev_wins = !chosen || prev_td->deadline < earliest;
			if (chosen && !prev_wins) {
				moved = scx_bpf_dsq_move(&it, chosen, SCX_DSQ_LOCAL, 0);
				again = !moved;
			}
			bpf_iter_scx_dsq_destroy(&it);
			if (chosen)
				bpf_task_release(chosen);
			if (moved || prev_wins || again)
				break;
		}
		if (!again)
			break;
	}
	count_by(LIST_STEPS, steps);

	if (!moved && prev && prev_td) {
		/* It goes on */
		prev_td->slice_end = false;
		run_slice(prev, prev_td, now);
	}
}

/* The idle threads look for work until there is some: a thread that was announced to a busy CPU does not escape them. */
__noinline u32 idle_threads_look(void)
{
	const struct cpumask *idle;
	u32 told = 0;
	s32 cpu;

	if (!runq.bits)
		return 0;
	idle = scx_bpf_get_idle_cpumask();
	if (!bpf_cpumask_empty(idle)) {
		bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
			if (!bpf_cpumask_test_cpu(cpu, idle))
				continue;
			scx_bpf_kick_cpu(cpu, 0);
			told++;
		}
	}
	scx_bpf_put_idle_cpumask(idle);
	return told;
}

void BPF_STRUCT_OPS(fbfs_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct thread_data *td = thread_data_of(p);
	u64 now = scx_bpf_now();

	if (!td)
		return;
	count(SWITCHES);
	if (td->cpu != cpu)
		count(MIGRATIONS);
	td->cpu = cpu;
	leave_list(td);
	td->running = true;
	td->slice_end = false;
	td->paid_until = now;
	/* Back to user mode it has its own priority again; nobody asks whether it should still run */
	td->priority = own_priority(p);
	run_slice(p, td, now);
	idle_threads_look();
}

void BPF_STRUCT_OPS(fbfs_tick, struct task_struct *p)
{
	struct thread_data *td = thread_data_of(p);

	if (!td)
		return;
	sched_clock(p, td, scx_bpf_now());
	if (td->slice_end)
		scx_bpf_task_set_slice(p, 0);
}

void BPF_STRUCT_OPS(fbfs_stopping, struct task_struct *p, bool runnable)
{
	struct thread_data *td = thread_data_of(p);

	if (!td)
		return;
	sched_clock(p, td, scx_bpf_now());
	td->running = false;
	/* Displaced by a real-time task of the kernel or not, it waits where all wait */
	if (runnable)
		scx_bpf_task_set_slice(p, 0);
}

/* The idle thread looks for work until there is some. */
void BPF_STRUCT_OPS(fbfs_update_idle, s32 cpu, bool idle)
{
	if (idle && runq.bits)
		scx_bpf_kick_cpu(cpu, 0);
}

/* sched_relinquish(): to the end of its list. Deadline and slice stay, so with the earliest deadline it goes on. */
bool BPF_STRUCT_OPS(fbfs_yield, struct task_struct *from, struct task_struct *to)
{
	struct thread_data *td = thread_data_of(from);

	if (to || !td)
		return false;
	count(YIELDS);
	sched_clock(from, td, scx_bpf_now());
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/*
 * sched_fork(): the parent keeps half of its slice, and the child gets as much; the deadline is the same. Threads that were there
 * before this scheduler have the deadline 0, until their first slice ends.
 */
s32 BPF_STRUCT_OPS(fbfs_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct thread_data *td, *parent_td;
	u64 now = scx_bpf_now();

	td = bpf_task_storage_get(&thread_data, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!td)
		return -ENOMEM;
	td->slice = sched_slice;
	td->priority = own_priority(p);
	td->cpu = scx_bpf_task_cpu(p);
	td->waiting_since = now;
	if (!args->fork)
		return 0;

	count(FORKS);
	parent_td = thread_data_of(parent);
	if (!parent_td)
		return 0;
	sched_clock(parent, parent_td, now);
	parent_td->slice >>= 1;
	td->slice = parent_td->slice;
	td->deadline = parent_td->deadline;
	td->cpu = parent_td->cpu;
	if (parent_td->running)
		run_slice(parent, parent_td, now);
	return 0;
}

void BPF_STRUCT_OPS(fbfs_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct thread_data *td = thread_data_of(p);

	if (td)
		leave_list(td);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(fbfs_init)
{
	u64 now = scx_bpf_now();
	s32 list, error;

	fill_prio_ratios(PRIO_RATIO_BASE);
	first_tick = ticks_at(now);
	bpf_for(list, 0, RQ_NQS) {
		error = scx_bpf_create_dsq(list, NUMA_NO_NODE);
		if (error)
			return error;
	}
	return 0;
}

DEFINE_SCHEDULER(fbfs,
	.select_cpu = (void *)fbfs_select_cpu,
	.enqueue = (void *)fbfs_enqueue,
	.dispatch = (void *)fbfs_dispatch,
	.tick = (void *)fbfs_tick,
	.running = (void *)fbfs_running,
	.stopping = (void *)fbfs_stopping,
	.quiescent = (void *)fbfs_quiescent,
	.yield = (void *)fbfs_yield,
	.update_idle = (void *)fbfs_update_idle,
	.init_task = (void *)fbfs_init_task,
	.exit_task = (void *)fbfs_exit_task,
	.init = (void *)fbfs_init,
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 30000,
	.name = "fbfs");
