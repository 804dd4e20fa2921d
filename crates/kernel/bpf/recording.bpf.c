// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Records the activities of all tasks of a machine, in memory that the reader maps: `fairground
 * record`.
 *
 * Tasks are not chosen here: tasks that wake the tasks of interest or take the CPU from them belong
 * to the recording. To make up for it, records are small, and only the scheduler's trace points
 * write them; the thing that a task waits for is read from the registers that it left at its system
 * call.
 *
 * With WATCH_INTERRUPTS, interrupts are recognised by their trace points, for kernels whose symbol
 * table has no __preempt_count.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "groups.h"
#include "recording.h"
#ifndef WATCH_INTERRUPTS
#include "interrupts.h"
#endif

char _license[] SEC("license") = "GPL";

/* State of a task that has ended (TASK_DEAD). */
#define STATE_DEAD 0x80
/* Flag of a task that is ending (PF_EXITING). */
#define FLAG_ENDING 0x4
/*
 * Flags of tasks: a kernel thread, and one that the kernel runs for a user's process (PF_KTHREAD,
 * PF_USER_WORKER, PF_IO_WORKER).
 */
#define FLAG_KERNEL_THREAD 0x00200000
#define FLAGS_WITHOUT_REGISTERS (FLAG_KERNEL_THREAD | 0x00004000 | 0x00000010)

/* Descriptions lost for lack of room. */
u64 lost;

/* Entries in each CPU's ring, a power of 2. The loader sets this and the sizes of the maps. */
const volatile u32 room;

/*
 * Each CPU writes its entries to its own ring, in memory that the reader maps: a ring buffer for
 * all CPUs takes a lock and two calls per entry. The programs that write entries do not interrupt
 * each other: all but one of these trace points run with interrupts disabled, and the other one,
 * for a task that wakes itself, does not nest.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct ring);
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct entry);
} entries SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 * 1024 * 1024);
} descriptions SEC(".maps");

/*
 * The last report about each task, at the place given by its number. Tasks that share a place are
 * described more often than they change, which does no harm.
 */
#define PLACES (1 << 16)
struct told {
	u64 digest;
	u32 task;
	/* Switches since it changed. */
	u32 looks;
};
struct told told[PLACES] SEC(".bss.told");

/* The last report about each control group, at a place given by its number. */
#define GROUP_PLACES (1 << 10)
u64 told_groups[GROUP_PLACES] SEC(".bss.groups");

/*
 * A task that has not changed for SETTLED switches is checked only at every SELDOM-th: checking
 * takes time, and its last description counts.
 */
#define SETTLED 64
#define SELDOM 16

static __always_inline struct ring *ring_of(u32 cpu)
{
	return bpf_map_lookup_elem(&rings, &cpu);
}

static __always_inline struct ring *ring_here(void)
{
	return ring_of(bpf_get_smp_processor_id());
}

static __always_inline void rise(u32 *depth)
{
	if (*depth)
		(*depth)--;
}

/* Exits come first and are attached first: no interrupt is seen to begin but not to end. */
SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(leave_timer)
{
	struct ring *ring = ring_here();

	if (ring)
		rise(&ring->timer);
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(enter_timer)
{
	struct ring *ring = ring_here();

	if (ring)
		ring->timer++;
	return 0;
}

#ifdef WATCH_INTERRUPTS
SEC("tp_btf/softirq_exit")
int BPF_PROG(leave_soft_interrupt)
{
	struct ring *ring = ring_here();

	if (ring)
		rise(&ring->soft);
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(leave_device)
{
	struct ring *ring = ring_here();

	if (ring)
		rise(&ring->device);
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(enter_soft_interrupt)
{
	struct ring *ring = ring_here();

	if (ring)
		ring->soft++;
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(enter_device)
{
	struct ring *ring = ring_here();

	if (ring)
		ring->device++;
	return 0;
}
#endif

static __always_inline enum waking_context context(struct ring *ring)
{
	if (ring->timer)
		return FROM_TIMER;
#ifdef WATCH_INTERRUPTS
	if (ring->device)
		return FROM_DEVICE;
	return ring->soft ? FROM_SOFT_INTERRUPT : FROM_TASK;
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

/* The next entry of this CPU, given its number and ring, without what depends on its kind. */
static __always_inline struct entry *begin_entry(u32 cpu, struct ring *ring, u8 kind, u32 task,
						 u32 other, u8 flags)
{
	u32 place = cpu * room + (ring->written & (room - 1));
	struct entry *entry;

	if (ring->written - ring->taken >= room) {
		ring->lost++;
		return NULL;
	}
	entry = bpf_map_lookup_elem(&entries, &place);
	if (!entry)
		return NULL;
	entry->time = bpf_ktime_get_ns();
	entry->task = task;
	entry->other = other;
	entry->cpu = cpu;
	entry->kind = kind;
	entry->flags = flags;
	entry->call = -1;
	entry->first = 0;
	entry->second = 0;
	entry->state = 0;
	return entry;
}

/* Shows the finished entry to the reader: on any machine an exchange comes after earlier writes. */
static __always_inline void end_entry(struct ring *ring)
{
	__sync_lock_test_and_set(&ring->written, ring->written + 1);
}

static __always_inline u64 mixed(u64 digest, u64 value)
{
	digest = (digest ^ value) * 0x9e3779b97f4a7c15ULL;
	return digest ^ digest >> 32;
}

static __always_inline u64 group_digest(struct task_group___recorded *group, u64 number)
{
	u64 digest = mixed(number, group->shares);

	if (bpf_core_field_exists(group->idle))
		digest = mixed(digest, group->idle);
	if (bpf_core_field_exists(group->cfs_bandwidth)) {
		digest = mixed(digest, group->cfs_bandwidth.quota);
		digest = mixed(digest, group->cfs_bandwidth.period);
	}
	if (bpf_core_field_exists(group->cfs_bandwidth.burst))
		digest = mixed(digest, group->cfs_bandwidth.burst);
	return digest;
}

static __always_inline void fill_group(struct group_description *to,
				       struct task_group___recorded *group, u64 number)
{
	struct cgroup *cgroup = group->css.cgroup;

	__builtin_memset(to, 0, sizeof(*to));
	to->time = bpf_ktime_get_ns();
	to->cpu = bpf_get_smp_processor_id();
	to->kind = ENTRY_GROUP;
	to->shares = group->shares >> SHARES_SHIFT;
	to->number = number;
	to->parent = group_number(group->parent);
	to->quota = ~0ULL;
	if (bpf_core_field_exists(group->idle) && group->idle)
		to->flags |= GROUP_IS_IDLE;
	if (bpf_core_field_exists(group->cfs_bandwidth)) {
		to->quota = group->cfs_bandwidth.quota;
		to->period = group->cfs_bandwidth.period;
	}
	if (bpf_core_field_exists(group->cfs_bandwidth.burst))
		to->burst = group->cfs_bandwidth.burst;
	if (cgroup)
		bpf_probe_read_kernel_str(to->name, sizeof(to->name), cgroup->kn->name);
	else
		to->flags |= GROUP_IS_SESSION;
}

/* Describes a control group and those above it, unless they have been described so already. */
static __always_inline void describe_groups(struct task_group___recorded *group)
{
	struct group_description *description;
	u64 number, digest, *last;
	int level;

	for (level = 0; level < GROUP_DEPTH && group && group->parent;
	     level++, group = group->parent) {
		number = group_number(group);
		digest = group_digest(group, number);
		last = &told_groups[mixed(0, number) % GROUP_PLACES];
		if (*last == digest)
			continue;
		description = bpf_ringbuf_reserve(&descriptions, sizeof(*description), 0);
		if (!description) {
			__sync_fetch_and_add(&lost, 1);
			return;
		}
		*last = digest;
		fill_group(description, group, number);
		bpf_ringbuf_submit(description, BPF_RB_NO_WAKEUP);
	}
}

/* Describes `task`, unless it has been described like this already. */
static __always_inline void describe(struct task_struct *task)
{
	struct told *last = &told[(u32)task->pid % PLACES];
	struct task_group___recorded *group = group_of(task);
	struct description *description;
	u64 digest, name[2], number = group_number(group);

	__builtin_memcpy(name, task->comm, sizeof(name));
	digest = mixed((u64)task->pid << 32 | task->tgid, name[0]);
	digest = mixed(digest, name[1]);
	digest = mixed(digest, (u64)task->static_prio << 32 | task->policy);
	digest = mixed(digest, (u64)task->rt_priority << 32 | task->nr_cpus_allowed);
	digest = mixed(digest, task->cpus_ptr->bits[0]);
	digest = mixed(digest, number);
	/* No trace point tells of a group's new settings. */
	if (last->digest != digest || !(last->looks % SELDOM))
		describe_groups(group);
	if (last->digest == digest)
		return;
	description = bpf_ringbuf_reserve(&descriptions, sizeof(*description), 0);
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
	if (task->flags & FLAG_ENDING)
		description->flags |= TASK_IS_ENDING;
	description->policy = task->policy;
	description->first_cpus_allowed = task->cpus_ptr->bits[0];
	description->static_prio = task->static_prio;
	description->nr_cpus_allowed = task->nr_cpus_allowed;
	description->process = task->tgid;
	description->rt_priority = task->rt_priority;
	__builtin_memcpy(description->comm, name, sizeof(name));
	description->group = number;
	/* The reader polls: waking it would disturb the tasks that it watches. */
	bpf_ringbuf_submit(description, BPF_RB_NO_WAKEUP);
}

/* Whether a task may have changed since it was last described. */
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
int BPF_PROG(record_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct ring *ring = ring_of(cpu);
	struct pt_regs *registers;
	struct entry *entry;
	u8 flags = 0;

	if (!ring)
		return 0;
	if (prev->pid && (may_have_changed(prev) || prev_state & STATE_DEAD))
		describe(prev);
	if (preempt)
		flags |= SWITCH_PREEMPTS;
	if (BPF_CORE_READ_BITFIELD(prev, in_iowait))
		flags |= SWITCH_WAITS_FOR_DISK;
	entry = begin_entry(cpu, ring, ENTRY_SWITCH, prev->pid, next->pid, flags);
	if (!entry)
		return 0;
	entry->state = prev_state;
	if (!preempt && prev->pid && !(prev->flags & FLAGS_WITHOUT_REGISTERS)) {
		registers = (struct pt_regs *)bpf_task_pt_regs(prev);
		if (registers && bpf_core_field_exists(registers->orig_ax)) {
			entry->call = registers->orig_ax;
			entry->first = registers->di;
			entry->second = registers->si;
		}
	}
	end_entry(ring);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(record_waking, struct task_struct *task)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct ring *ring = ring_of(cpu);

	if (ring && begin_entry(cpu, ring, ENTRY_WAKING, task->pid, bpf_get_current_task_btf()->pid,
				context(ring)))
		end_entry(ring);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(record_birth, struct task_struct *task)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct ring *ring = ring_of(cpu);

	if (ring &&
	    begin_entry(cpu, ring, ENTRY_BORN, task->pid, bpf_get_current_task_btf()->pid, 0))
		end_entry(ring);
	describe(task);
	return 0;
}
