/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Decides everything by lot, within what a kernel allows, and writes down each callback and each
 * call: one compile, endless behaviours. A test defines its callbacks and flags: SELECT_CPU,
 * ENQUEUE, DISPATCH, UPDATE_IDLE, OPS_FLAGS; and SWITCHES, to learn of CPUs that real-time tasks
 * take.
 */
#include "fairground.bpf.h"

#define QUEUES 4 /* the later half is ordered by virtual time */
#define HELD 256
#define RECORD 6
#define LOG (RECORD * 60000)

#define SCX_SLICE_MAX (20 * NSEC_PER_MSEC)

/* The kinds of records; the test has the same numbers. */
enum record {
	SELECT_CPU_BEGIN = 1, SELECT_CPU_END, ENQUEUE_BEGIN, ENQUEUE_END, DEQUEUE_CALL,
	DISPATCH_BEGIN, DISPATCH_END, TICK_BEGIN, TICK_END, RUNNABLE_CALL, RUNNING_CALL,
	STOPPING_CALL, QUIESCENT_CALL, YIELD_CALL, IDLE_CALL, INIT_TASK_CALL, EXIT_TASK_CALL,
	ENABLE_CALL, DISABLE_CALL, ONLINE_CALL, OFFLINE_CALL, SET_WEIGHT_CALL, SET_CPUMASK_CALL,
	INSERT = 30, INSERT_ORDERED, TO_LOCAL_BEGIN, TO_LOCAL_END, MOVE_BEGIN, MOVE_END, LENGTH,
	KICK, SET_SLICE, DEFAULT_CPU,
	TAKEN = 40, LEFT,
};

const volatile u64 seed = 1;
/* Percent. */
const volatile u32 direct = 20;		/* of inserting in select_cpu */
const volatile u32 keep = 20;		/* of keeping a task without a queue */
const volatile u32 refuse = 2;		/* of a dispatch that does nothing */
const volatile u32 preempt = 10;	/* of an insertion that preempts */
const volatile u32 head = 10;		/* of one at the head */
const volatile u32 kick = 20;		/* of a kick after an insertion */
const volatile u32 hurry = 0;		/* of a kick that preempts, of those */
const volatile u32 remote = 30;		/* of an insertion for another CPU */
const volatile u32 cut = 5;		/* of a new slice at a tick */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LOG);
	__type(key, u32);
	__type(value, u64);
} statistics SEC(".maps");

static u64 state;
static u32 place = 1;
static s32 held[HELD];
static u64 records;
static u32 held_first, held_last;

static __always_inline u64 lot(void)
{
	u64 x = state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	state = x;
	return x * 0x2545f4914f6cdd1dULL >> 16;
}

static __always_inline bool happens(u32 percent)
{
	return lot() % 100 < percent;
}

static __noinline void put(u32 at, u64 value)
{
	u64 *word = bpf_map_lookup_elem(&statistics, &at);

	if (word)
		*word = value;
}

static __always_inline void record(u64 kind, s32 pid, u64 a, u64 b, u64 c, u64 d)
{
	/* The first word counts the records, those without a place too. */
	u32 at = place;

	put(0, ++records);
	if (at + RECORD > LOG)
		return;
	put(at, kind | (u64)bpf_get_smp_processor_id() << 8 | (u64)(u32)pid << 32);
	put(at + 1, bpf_ktime_get_ns());
	put(at + 2, a);
	put(at + 3, b);
	put(at + 4, c);
	put(at + 5, d);
	place = at + RECORD;
}

static __always_inline void record_task(u64 kind, struct task_struct *p, u64 a, u64 b)
{
	record(kind, p->pid, a, b, p->scx.slice, p->scx.flags | (u64)scx_bpf_task_cpu(p) << 32);
}

static __always_inline u64 any_slice(void)
{
	switch (lot() % 8) {
	case 0:
		return 0;
	case 1:
		return 1;
	case 2:
		return SCX_SLICE_DFL;
	default:
		return lot() % SCX_SLICE_MAX;
	}
}

/* A queue for @p: of this CPU, of one that it may use, the global one or one of ours. */
static __noinline void insert(struct task_struct *p __arg_trusted, u64 flags, bool anywhere)
{
	u64 slice = any_slice(), dsq = SCX_DSQ_LOCAL, choice = lot() % 8;
	s32 cpu;

	if (happens(remote)) {
		cpu = lot() % scx_bpf_nr_cpu_ids();
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && !p->migration_disabled)
			dsq = SCX_DSQ_LOCAL_ON | cpu;
	} else if (choice < 4) {
		dsq = lot() % QUEUES;
	} else if (choice == 4) {
		dsq = SCX_DSQ_GLOBAL;
	}
	/* Where the caller runs need not be where the task may. */
	if (dsq == SCX_DSQ_LOCAL && !anywhere &&
	    !bpf_cpumask_test_cpu(bpf_get_smp_processor_id(), p->cpus_ptr))
		dsq = SCX_DSQ_GLOBAL;
	if (happens(head))
		flags |= SCX_ENQ_HEAD;
	if (happens(preempt))
		flags |= SCX_ENQ_PREEMPT;
	if (dsq >= QUEUES / 2 && dsq < QUEUES) {
		u64 vtime = lot() % 8;

		record(INSERT_ORDERED, p->pid, dsq, slice, vtime, flags);
		scx_bpf_dsq_insert_vtime(p, dsq, slice, vtime, flags);
	} else {
		record(INSERT, p->pid, dsq, slice, 0, flags);
		scx_bpf_dsq_insert(p, dsq, slice, flags);
	}
	if (happens(kick)) {
		u64 how = happens(hurry) ? SCX_KICK_PREEMPT : lot() % 2 ? SCX_KICK_IDLE : 0;

		cpu = lot() % scx_bpf_nr_cpu_ids();
		record(KICK, 0, cpu, how, 0, 0);
		scx_bpf_kick_cpu(cpu, how);
	}
}

s32 BPF_STRUCT_OPS(random_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = prev_cpu;

	record_task(SELECT_CPU_BEGIN, p, prev_cpu, wake_flags);
	if (lot() % 4) {
		cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
		record(DEFAULT_CPU, p->pid, cpu, is_idle, 0, 0);
	} else {
		cpu = lot() % scx_bpf_nr_cpu_ids();
	}
	if (happens(direct))
		insert(p, 0, true);
	record_task(SELECT_CPU_END, p, cpu, 0);
	return cpu;
}

void BPF_STRUCT_OPS(random_enqueue, struct task_struct *p, u64 enq_flags)
{
	record_task(ENQUEUE_BEGIN, p, enq_flags, 0);
	if (happens(keep) && held_last - held_first < HELD) {
		held[held_last++ % HELD] = p->pid;
	} else {
		insert(p, enq_flags, true);
	}
	record_task(ENQUEUE_END, p, enq_flags, 0);
}

static __always_inline void move_any(u64 from)
{
	u64 target = happens(50) ? SCX_DSQ_LOCAL : lot() % (QUEUES / 2),
	    flags = happens(head) ? SCX_ENQ_HEAD : 0;
	struct task_struct *p;
	u32 skip = lot() % 4;

	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, from, 0) {
		if (skip) {
			skip--;
			continue;
		}
		if (target == SCX_DSQ_LOCAL &&
		    !bpf_cpumask_test_cpu(bpf_get_smp_processor_id(), p->cpus_ptr))
			continue;
		record(MOVE_BEGIN, p->pid, from, target, flags, 0);
		record(MOVE_END, p->pid, scx_bpf_dsq_move(DSQ_ITERATOR, p, target, flags), 0, 0, 0);
		break;
	}
	bpf_rcu_read_unlock();
}

void BPF_STRUCT_OPS(random_dispatch, s32 cpu, struct task_struct *prev)
{
	u64 queue, flags;
	u32 i;

	record(DISPATCH_BEGIN, prev ? prev->pid : 0, cpu, prev ? prev->scx.slice : 0, 0, 0);
	if (happens(refuse))
		goto out;
	bpf_for(i, 0, 2) {
		if (held_first != held_last) {
			struct task_struct *p = bpf_task_from_pid(held[held_first++ % HELD]);

			if (p) {
				insert(p, 0, false);
				bpf_task_release(p);
			}
		}
	}
	if (happens(10))
		move_any(lot() % (QUEUES / 2));
	queue = lot();
	bpf_for(i, 0, QUEUES) {
		u64 dsq = (queue + i) % QUEUES;
		bool found;

		record(LENGTH, 0, dsq, scx_bpf_dsq_nr_queued(dsq), 0, 0);
		flags = happens(head) ? SCX_ENQ_HEAD : 0;
		record(TO_LOCAL_BEGIN, 0, dsq, flags, 0, 0);
		found = scx_bpf_dsq_move_to_local(dsq, flags);
		record(TO_LOCAL_END, 0, dsq, found, 0, 0);
		if (found && happens(80))
			break;
	}
out:
	record(DISPATCH_END, prev ? prev->pid : 0, cpu, prev ? prev->scx.slice : 0, 0, 0);
}

void BPF_STRUCT_OPS(random_tick, struct task_struct *p)
{
	record_task(TICK_BEGIN, p, 0, 0);
	if (happens(cut)) {
		u64 slice = any_slice();

		record(SET_SLICE, p->pid, slice, 0, 0, 0);
		scx_bpf_task_set_slice(p, slice);
	}
	record_task(TICK_END, p, 0, 0);
}

bool BPF_STRUCT_OPS(random_yield, struct task_struct *from, struct task_struct *to)
{
	record_task(YIELD_CALL, from, 0, 0);
	scx_bpf_task_set_slice(from, 0);
	return false;
}

void BPF_STRUCT_OPS(random_cpu_online, s32 cpu)
{
	record(ONLINE_CALL, 0, cpu, 0, 0, 0);
}

void BPF_STRUCT_OPS(random_cpu_offline, s32 cpu)
{
	record(OFFLINE_CALL, 0, cpu, 0, 0, 0);
}

void BPF_STRUCT_OPS(random_dequeue, struct task_struct *p, u64 deq_flags)
{
	record_task(DEQUEUE_CALL, p, deq_flags, 0);
}

void BPF_STRUCT_OPS(random_runnable, struct task_struct *p, u64 enq_flags)
{
	record_task(RUNNABLE_CALL, p, enq_flags, 0);
}

void BPF_STRUCT_OPS(random_running, struct task_struct *p)
{
	record_task(RUNNING_CALL, p, 0, 0);
}

void BPF_STRUCT_OPS(random_stopping, struct task_struct *p, bool runnable)
{
	record_task(STOPPING_CALL, p, runnable, 0);
}

void BPF_STRUCT_OPS(random_quiescent, struct task_struct *p, u64 deq_flags)
{
	record_task(QUIESCENT_CALL, p, deq_flags, 0);
}

void BPF_STRUCT_OPS(random_update_idle, s32 cpu, bool idle)
{
	record(IDLE_CALL, 0, cpu, idle, 0, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(random_init_task, struct task_struct *p,
			     struct scx_init_task_args *args)
{
	record_task(INIT_TASK_CALL, p, args->fork, 0);
	return 0;
}

void BPF_STRUCT_OPS(random_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	record_task(EXIT_TASK_CALL, p, args->cancelled, 0);
}

void BPF_STRUCT_OPS(random_enable, struct task_struct *p)
{
	record_task(ENABLE_CALL, p, 0, 0);
}

void BPF_STRUCT_OPS(random_disable, struct task_struct *p)
{
	record_task(DISABLE_CALL, p, p->policy, 0);
}

void BPF_STRUCT_OPS(random_set_weight, struct task_struct *p, u32 weight)
{
	record_task(SET_WEIGHT_CALL, p, weight, 0);
}

void BPF_STRUCT_OPS(random_set_cpumask, struct task_struct *p, const struct cpumask *cpumask)
{
	u64 bits = 0;
	u32 cpu;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids())
		bits |= (u64)bpf_cpumask_test_cpu(cpu, cpumask) << (cpu % 64);
	record_task(SET_CPUMASK_CALL, p, bits, 0);
}

#ifdef SWITCHES
static __always_inline bool is_real_time(struct task_struct *p)
{
	return p->policy == SCHED_FIFO || p->policy == SCHED_RR;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(random_switch, bool is_preemption, struct task_struct *prev, struct task_struct *next)
{
	if (is_real_time(next))
		record(TAKEN, next->pid, prev->pid, 0, 0, 0);
	else if (is_real_time(prev))
		record(LEFT, prev->pid, next->pid,
		       bpf_cpumask_test_cpu(bpf_get_smp_processor_id(), prev->cpus_ptr), 0, 0);
	return 0;
}
#endif

s32 BPF_STRUCT_OPS_SLEEPABLE(random_init)
{
	u32 i;

	state = seed * 0x9e3779b97f4a7c15ULL | 1;
	bpf_for(i, 0, QUEUES) {
		s32 error = scx_bpf_create_dsq(i, NUMA_NO_NODE);

		if (error)
			return error;
	}
	return 0;
}

DEFINE_SCHEDULER(random,
#ifdef SELECT_CPU
	.select_cpu = (void *)random_select_cpu,
#endif
#ifdef ENQUEUE
	.enqueue = (void *)random_enqueue,
#endif
#ifdef DISPATCH
	.dispatch = (void *)random_dispatch,
#endif
#ifdef UPDATE_IDLE
	.update_idle = (void *)random_update_idle,
#endif
	.yield = (void *)random_yield,
	.cpu_online = (void *)random_cpu_online,
	.cpu_offline = (void *)random_cpu_offline,
	.dequeue = (void *)random_dequeue,
	.tick = (void *)random_tick,
	.runnable = (void *)random_runnable,
	.running = (void *)random_running,
	.stopping = (void *)random_stopping,
	.quiescent = (void *)random_quiescent,
	.init_task = (void *)random_init_task,
	.exit_task = (void *)random_exit_task,
	.enable = (void *)random_enable,
	.disable = (void *)random_disable,
	.set_weight = (void *)random_set_weight,
	.set_cpumask = (void *)random_set_cpumask,
	.init = (void *)random_init,
	.flags = OPS_FLAGS,
	.name = "random");
