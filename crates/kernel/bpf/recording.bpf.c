// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What all tasks of a machine do, as records in a ring buffer: `fairground record`.
 *
 * Nothing is chosen here: who wakes the tasks that one is interested in, and who takes the CPU from them, is part of what
 * happened. A record is small instead, and written by the trace points of the scheduler alone; what a task waits for is read from the
 * registers that it has left at its system call.
 *
 * With WATCH_INTERRUPTS, interrupts are told by their trace points, for kernels whose symbol table has no __preempt_count.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "recording.h"
#ifndef WATCH_INTERRUPTS
#include "interrupts.h"
#endif

char _license[] SEC("license") = "GPL";

/* Flags of tasks: a thread of the kernel, and one that the kernel runs for a user's process (PF_KTHREAD, PF_USER_WORKER, PF_IO_WORKER). */
#define FLAG_KERNEL_THREAD 0x00200000
#define FLAGS_WITHOUT_REGISTERS (FLAG_KERNEL_THREAD | 0x00004000 | 0x00000010)

/* Registers of a task in a system call, on x86; other machines' have other names, and say nothing here. */
struct pt_regs {
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
} __attribute__((preserve_access_index));

/* Records that found no room. */
u64 lost;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024 * 1024);
} records SEC(".maps");

/* What was last told of each task. */
struct told {
	u64 digest;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct told);
} tasks SEC(".maps");

/* How deep each CPU is in interrupts. */
struct depth {
	u32 timer;
	u32 device;
	u32 soft;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct depth);
} interrupts SEC(".maps");

static __always_inline struct depth *depth_here(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&interrupts, &key);
}

static __always_inline void rise(u32 *depth)
{
	if (*depth)
		(*depth)--;
}

/* The ends come first, so that they are attached first: no beginning is seen without its end. */
SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(leave_timer)
{
	struct depth *depth = depth_here();

	if (depth)
		rise(&depth->timer);
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(enter_timer)
{
	struct depth *depth = depth_here();

	if (depth)
		depth->timer++;
	return 0;
}

#ifdef WATCH_INTERRUPTS
SEC("tp_btf/softirq_exit")
int BPF_PROG(leave_soft_interrupt)
{
	struct depth *depth = depth_here();

	if (depth)
		rise(&depth->soft);
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(leave_device)
{
	struct depth *depth = depth_here();

	if (depth)
		rise(&depth->device);
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(enter_soft_interrupt)
{
	struct depth *depth = depth_here();

	if (depth)
		depth->soft++;
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(enter_device)
{
	struct depth *depth = depth_here();

	if (depth)
		depth->device++;
	return 0;
}
#endif

static __always_inline enum waking_context context(void)
{
	struct depth *depth = depth_here();

	if (!depth)
		return FROM_TASK;
	if (depth->timer)
		return FROM_TIMER;
#ifdef WATCH_INTERRUPTS
	if (depth->device)
		return FROM_DEVICE;
	return depth->soft ? FROM_SOFT_INTERRUPT : FROM_TASK;
#else
	switch (served_interrupt()) {
	case SERVES_HARD_INTERRUPT:
		return FROM_DEVICE;
	case SERVES_SOFT_INTERRUPT:
		return FROM_SOFT_INTERRUPT;
	default:
		return FROM_TASK;
	}
#endif
}

/* The reader looks by the clock: waking it for each record would disturb what it watches. */
static __always_inline void submit(void *record)
{
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

static __always_inline struct entry *reserve(u8 kind)
{
	struct entry *entry = bpf_ringbuf_reserve(&records, sizeof(*entry), 0);

	if (!entry) {
		__sync_fetch_and_add(&lost, 1);
		return NULL;
	}
	__builtin_memset(entry, 0, sizeof(*entry));
	entry->time = bpf_ktime_get_ns();
	entry->cpu = bpf_get_smp_processor_id();
	entry->kind = kind;
	entry->call = -1;
	return entry;
}

static __always_inline u64 mixed(u64 digest, u64 value)
{
	digest = (digest ^ value) * 0x9e3779b97f4a7c15ULL;
	return digest ^ digest >> 29;
}

/* Tells what `task` is, unless that was told already. */
static __always_inline void describe(struct task_struct *task)
{
	struct description *description;
	struct told *told;
	u64 digest, name[2];

	__builtin_memcpy(name, task->comm, sizeof(name));
	digest = mixed(mixed(1, name[0]), name[1]);
	digest = mixed(digest, (u64)task->static_prio << 32 | task->policy);
	digest = mixed(digest, (u64)task->rt_priority << 32 | task->nr_cpus_allowed);
	digest = mixed(digest, task->cpus_ptr->bits[0]);
	digest = mixed(digest, task->tgid);
	told = bpf_task_storage_get(&tasks, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (told && told->digest == digest)
		return;
	description = bpf_ringbuf_reserve(&records, sizeof(*description), 0);
	if (!description) {
		__sync_fetch_and_add(&lost, 1);
		return;
	}
	if (told)
		told->digest = digest;
	__builtin_memset(description, 0, sizeof(*description));
	description->time = bpf_ktime_get_ns();
	description->task = task->pid;
	description->other = task->real_parent->tgid;
	description->cpu = bpf_get_smp_processor_id();
	description->kind = ENTRY_TASK;
	description->flags = task->flags & FLAG_KERNEL_THREAD ? TASK_IS_KERNEL_THREAD : 0;
	description->policy = task->policy;
	description->first_cpus_allowed = task->cpus_ptr->bits[0];
	description->static_prio = task->static_prio;
	description->nr_cpus_allowed = task->nr_cpus_allowed;
	description->process = task->tgid;
	description->rt_priority = task->rt_priority;
	__builtin_memcpy(description->comm, name, sizeof(name));
	submit(description);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(record_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	struct pt_regs *registers;
	struct entry *entry;

	if (prev->pid)
		describe(prev);
	entry = reserve(ENTRY_SWITCH);
	if (!entry)
		return 0;
	entry->task = prev->pid;
	entry->other = next->pid;
	entry->state = prev_state;
	if (preempt)
		entry->flags |= SWITCH_PREEMPTS;
	if (BPF_CORE_READ_BITFIELD(prev, in_iowait))
		entry->flags |= SWITCH_WAITS_FOR_DISK;
	if (!preempt && prev->pid && !(prev->flags & FLAGS_WITHOUT_REGISTERS)) {
		registers = (struct pt_regs *)bpf_task_pt_regs(prev);
		if (registers && bpf_core_field_exists(registers->orig_ax)) {
			entry->call = registers->orig_ax;
			entry->first = registers->di;
			entry->second = registers->si;
		}
	}
	submit(entry);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(record_waking, struct task_struct *task)
{
	struct entry *entry = reserve(ENTRY_WAKING);

	if (entry) {
		entry->task = task->pid;
		entry->other = (u32)bpf_get_current_pid_tgid();
		entry->flags = context();
		submit(entry);
	}
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(record_birth, struct task_struct *task)
{
	struct entry *entry = reserve(ENTRY_BORN);

	if (entry) {
		entry->task = task->pid;
		entry->other = (u32)bpf_get_current_pid_tgid();
		submit(entry);
	}
	describe(task);
	return 0;
}
