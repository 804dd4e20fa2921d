// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the scheduler does with some tasks, as records in a ring buffer.
 *
 * Attaches to the trace points of the scheduler and so sees every scheduling class alike. Tasks are chosen one by one
 * in the map `tracked`; with `follow` their children are added as they are born.
 *
 * With WATCH_INTERRUPTS, interrupts are told by their trace points, for kernels whose symbol table has no __preempt_count.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "recorder.h"

char _license[] SEC("license") = "GPL";

/* State bit of a task that has ended and is switched out for the last time, TASK_DEAD. */
#define STATE_DEAD 0x80

/*
 * What the number of nested contexts says of interrupts in progress: soft interrupts served, and hard interrupts with NMIs. The
 * latter are eight bits further up in kernels that count sections with interrupts switched off as well.
 */
#define SOFT_INTERRUPT_SERVED 0x00000100
#define HARD_INTERRUPTS 0x000f0000
#define HARD_INTERRUPTS_ABOVE_DISABLED 0x0f000000

/* Whether children of tracked tasks are tracked too. */
const volatile bool follow;

/* Records that found no room. */
u64 lost;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 * 1024 * 1024);
} records SEC(".maps");

struct tracked_task {
	/* Thread that is about to wake it, 0 for an interrupt. */
	u32 waker;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, struct tracked_task);
} tracked SEC(".maps");

#ifdef WATCH_INTERRUPTS
/* How deep each CPU is in interrupts. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} interrupts SEC(".maps");

static __always_inline bool in_interrupt(void)
{
	u32 key = 0, *depth = bpf_map_lookup_elem(&interrupts, &key);

	return depth && *depth;
}

static __always_inline int count_interrupt(bool enters)
{
	u32 key = 0, *depth = bpf_map_lookup_elem(&interrupts, &key);

	if (depth && enters)
		(*depth)++;
	else if (depth && *depth)
		(*depth)--;
	return 0;
}

/* The ends come first, so that they are attached first: no beginning is seen without its end. */
SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(leave_timer)
{
	return count_interrupt(false);
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(leave_soft_interrupt)
{
	return count_interrupt(false);
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(leave_device)
{
	return count_interrupt(false);
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(enter_timer)
{
	return count_interrupt(true);
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(enter_soft_interrupt)
{
	return count_interrupt(true);
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(enter_device)
{
	return count_interrupt(true);
}
#else
/* How deep this CPU is in interrupts; a variable of its own on x86. */
extern const int __preempt_count __ksym __weak;
/* What kernels have that count sections with interrupts switched off. */
extern const unsigned long local_interrupt_disable_state __ksym __weak;

static __always_inline bool in_interrupt(void)
{
	const int *count;

	if (!bpf_ksym_exists(&__preempt_count))
		return false;
	count = bpf_this_cpu_ptr(&__preempt_count);
	if (bpf_ksym_exists(&local_interrupt_disable_state))
		return *count & (SOFT_INTERRUPT_SERVED | HARD_INTERRUPTS_ABOVE_DISABLED);
	return *count & (SOFT_INTERRUPT_SERVED | HARD_INTERRUPTS);
}
#endif

static __always_inline struct tracked_task *find(struct task_struct *task)
{
	u32 pid = task->pid;

	return pid ? bpf_map_lookup_elem(&tracked, &pid) : NULL;
}

static __always_inline void describe(struct recorded_task *to, struct task_struct *task)
{
	to->pid = task->pid;
	to->policy = task->policy;
	to->static_prio = task->static_prio;
	to->rt_priority = task->rt_priority;
	to->nr_cpus_allowed = task->nr_cpus_allowed;
	to->first_cpus_allowed = task->cpus_ptr->bits[0];
	__builtin_memcpy(to->comm, task->comm, sizeof(to->comm));
}

static __always_inline struct record *reserve(u32 kind)
{
	struct record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	if (!record) {
		__sync_fetch_and_add(&lost, 1);
		return NULL;
	}
	__builtin_memset(record, 0, sizeof(*record));
	record->time = bpf_ktime_get_ns();
	record->kind = kind;
	record->cpu = bpf_get_smp_processor_id();
	return record;
}

/* The reader looks by the clock: waking it for each record would disturb what it watches. */
static __always_inline void submit(struct record *record)
{
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(record_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	bool leaves = find(prev), comes = find(next);
	struct record *record;
	u32 pid = prev->pid;

	if (!leaves && !comes)
		return 0;
	record = reserve(RECORD_SWITCH);
	if (record) {
		if (leaves) {
			describe(&record->task, prev);
			if (prev_state & STATE_DEAD)
				record->state = STATE_ENDED;
			else if (!preempt && prev_state)
				record->state = STATE_SLEEPS;
		}
		if (comes)
			describe(&record->next, next);
		submit(record);
	}
	if (leaves && (prev_state & STATE_DEAD))
		bpf_map_delete_elem(&tracked, &pid);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(record_waking, struct task_struct *task)
{
	struct tracked_task *found = find(task);

	if (found)
		found->waker = in_interrupt() ? 0 : (u32)bpf_get_current_pid_tgid();
	return 0;
}

static __always_inline int record_wake(struct task_struct *task, u32 waker)
{
	struct record *record = reserve(RECORD_WAKE);

	if (record) {
		describe(&record->task, task);
		record->cpu = task->thread_info.cpu;
		record->other = waker;
		submit(record);
	}
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(record_wakeup, struct task_struct *task)
{
	struct tracked_task *found = find(task);

	return found ? record_wake(task, found->waker) : 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(record_wakeup_new, struct task_struct *task)
{
	return find(task) ? record_wake(task, (u32)bpf_get_current_pid_tgid()) : 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(record_migration, struct task_struct *task, int to)
{
	struct record *record;

	if (!find(task))
		return 0;
	record = reserve(RECORD_MIGRATION);
	if (record) {
		describe(&record->task, task);
		record->cpu = task->thread_info.cpu;
		record->other = to;
		submit(record);
	}
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(record_fork, struct task_struct *parent, struct task_struct *child)
{
	struct tracked_task fresh = {};
	struct record *record;
	u32 pid = child->pid;

	if (!follow || !find(parent))
		return 0;
	if (bpf_map_update_elem(&tracked, &pid, &fresh, BPF_ANY)) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	record = reserve(RECORD_FORK);
	if (record) {
		describe(&record->task, child);
		record->other = parent->pid;
		submit(record);
	}
	return 0;
}
