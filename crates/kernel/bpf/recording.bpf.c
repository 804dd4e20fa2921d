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

/* State of a task that has ended (TASK_DEAD). */
#define STATE_DEAD 0x80
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

/*
 * What was last told of each task, at the place that its number has here. Tasks that share a place are told of more often than they change,
 * and nothing else comes of it.
 */
#define PLACES (1 << 16)
struct told {
	u64 digest;
	u32 task;
	/* Looks at it since it changed. */
	u32 looks;
};
struct told told[PLACES] SEC(".bss.told");

/* Of a task that has not changed for so many switches, every so many are looked at: to look takes time, and what it was at last counts. */
#define SETTLED 64
#define SELDOM 16

/*
 * To find room in the buffer takes most of the time of an entry, and for many at once as long as for one. The programs that write entries are not
 * interrupted by each other: all but one of these trace points have interrupts switched off, and the last, of a task that wakes itself, is not
 * entered twice.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stage);
} stages SEC(".maps");

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

static __always_inline struct stage *stage_here(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&stages, &key);
}

/* The reader looks by the clock: waking it for each record would disturb what it watches. */
static __always_inline void pass_on(struct stage *stage)
{
	u32 count = stage->count;
	void *room;

	stage->count = 0;
	if (count >= STAGED) {
		room = bpf_ringbuf_reserve(&records, sizeof(stage->entries), 0);
		if (room) {
			__builtin_memcpy(room, stage->entries, sizeof(stage->entries));
			bpf_ringbuf_submit(room, BPF_RB_NO_WAKEUP);
			return;
		}
		__sync_fetch_and_add(&lost, STAGED);
	} else if (bpf_ringbuf_output(&records, stage->entries, count * sizeof(struct entry), BPF_RB_NO_WAKEUP)) {
		__sync_fetch_and_add(&lost, count);
	}
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
	struct stage *stage = stage_here();

	if (depth)
		depth->timer++;
	/* Among timers are the ticks of a CPU that is busy with one task, which would else keep its entries for long. */
	if (stage && stage->count && !stage->busy)
		pass_on(stage);
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

/* The next entry of this CPU, without what is particular to its kind. */
static __always_inline struct entry *begin_entry(struct stage *stage, u8 kind, u32 task, u32 other, u8 flags)
{
	struct entry *entry;

	stage->busy = 1;
	barrier();
	entry = &stage->entries[stage->count % STAGED];
	entry->time = bpf_ktime_get_ns();
	entry->task = task;
	entry->other = other;
	entry->cpu = bpf_get_smp_processor_id();
	entry->kind = kind;
	entry->flags = flags;
	entry->call = -1;
	entry->first = 0;
	entry->second = 0;
	entry->state = 0;
	return entry;
}

/* Ends the entry that was begun; those of a CPU that has nothing more to do do not wait for company. */
static __always_inline void end_entry(struct stage *stage, bool last)
{
	stage->count++;
	if (last || stage->count >= STAGED)
		pass_on(stage);
	barrier();
	stage->busy = 0;
}

static __always_inline u64 mixed(u64 digest, u64 value)
{
	digest = (digest ^ value) * 0x9e3779b97f4a7c15ULL;
	return digest ^ digest >> 32;
}

/* Tells what `task` is, unless that was told already. */
static __always_inline void describe(struct task_struct *task)
{
	struct told *last = &told[(u32)task->pid % PLACES];
	struct description *description;
	u64 digest, name[2];

	__builtin_memcpy(name, task->comm, sizeof(name));
	digest = mixed((u64)task->pid << 32 | task->tgid, name[0]);
	digest = mixed(digest, name[1]);
	digest = mixed(digest, (u64)task->static_prio << 32 | task->policy);
	digest = mixed(digest, (u64)task->rt_priority << 32 | task->nr_cpus_allowed);
	digest = mixed(digest, task->cpus_ptr->bits[0]);
	if (last->digest == digest)
		return;
	description = bpf_ringbuf_reserve(&records, sizeof(*description), 0);
	if (!description) {
		__sync_fetch_and_add(&lost, 1);
		return;
	}
	last->digest = digest;
	last->task = task->pid;
	last->looks = 0;
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
	bpf_ringbuf_submit(description, BPF_RB_NO_WAKEUP);
}

/* Whether a task may have changed since it was last told of. */
static __always_inline bool may_have_changed(struct task_struct *task)
{
	struct told *last = &told[(u32)task->pid % PLACES];

	return last->task != task->pid || ++last->looks < SETTLED || !(last->looks % SELDOM);
}

SEC("tp_btf/task_rename")
int BPF_PROG(watch_rename, struct task_struct *task)
{
	told[(u32)task->pid % PLACES].task = 0;
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(record_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	struct stage *stage = stage_here();
	struct pt_regs *registers;
	struct entry *entry;
	u8 flags = 0;

	if (!stage)
		return 0;
	if (prev->pid && (may_have_changed(prev) || prev_state & STATE_DEAD))
		describe(prev);
	if (preempt)
		flags |= SWITCH_PREEMPTS;
	if (BPF_CORE_READ_BITFIELD(prev, in_iowait))
		flags |= SWITCH_WAITS_FOR_DISK;
	entry = begin_entry(stage, ENTRY_SWITCH, prev->pid, next->pid, flags);
	entry->state = prev_state;
	if (!preempt && prev->pid && !(prev->flags & FLAGS_WITHOUT_REGISTERS)) {
		registers = (struct pt_regs *)bpf_task_pt_regs(prev);
		if (registers && bpf_core_field_exists(registers->orig_ax)) {
			entry->call = registers->orig_ax;
			entry->first = registers->di;
			entry->second = registers->si;
		}
	}
	end_entry(stage, !next->pid);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(record_waking, struct task_struct *task)
{
	struct stage *stage = stage_here();

	if (stage) {
		begin_entry(stage, ENTRY_WAKING, task->pid, bpf_get_current_task_btf()->pid, context());
		end_entry(stage, false);
	}
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(record_birth, struct task_struct *task)
{
	struct stage *stage = stage_here();

	if (stage) {
		begin_entry(stage, ENTRY_BORN, task->pid, bpf_get_current_task_btf()->pid, 0);
		end_entry(stage, false);
	}
	describe(task);
	return 0;
}
