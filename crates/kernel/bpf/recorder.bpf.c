// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Records the scheduler's treatment of some tasks, in a ring buffer.
 *
 * Attaches to the scheduler's trace points, so it sees all scheduling classes alike. Tasks are
 * chosen one by one in the map `tracked`; their children are added when they are born.
 *
 * With WATCH_INTERRUPTS, interrupts are recognised by their trace points, for kernels whose symbol
 * table has no __preempt_count.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "recorder.h"

char _license[] SEC("license") = "GPL";

/* State bit of a task that has ended and is switched out for the last time, TASK_DEAD. */
#define STATE_DEAD 0x80
/* Flag of a kernel thread, PF_KTHREAD. */
#define FLAG_KERNEL_THREAD 0x00200000

/* Whether to record the turns of all other tasks. */
const volatile bool turns;

/* Records lost for lack of room. */
u64 lost;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 * 1024 * 1024);
} records SEC(".maps");

struct tracked_task {
	/* The thread that is about to wake it; 0 for an interrupt. */
	u32 waker;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, struct tracked_task);
} tracked SEC(".maps");

/* A task that is not tracked, from its wake-up to its next sleep. */
struct other_task {
	/* When it was woken. */
	u64 woken;
	/* When it got its CPU; 0 while it has none. */
	u64 since;
	/* CPU time before that. */
	u64 cpu_time;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, struct other_task);
} others SEC(".maps");

#ifdef WATCH_INTERRUPTS
/* Interrupt nesting depth of each CPU. */
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

/* Exits come first and are attached first: no interrupt is seen to begin but not to end. */
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
#include "interrupts.h"

static __always_inline bool in_interrupt(void)
{
	return served_interrupt() != SERVES_NOTHING;
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

/*
 * @time: when it happened, taken before anything else, so that the cost of recording is not part of
 * the recorded time
 */
static __always_inline struct record *reserve(u32 kind, u64 time)
{
	struct record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	if (!record) {
		__sync_fetch_and_add(&lost, 1);
		return NULL;
	}
	__builtin_memset(record, 0, sizeof(*record));
	record->time = time;
	record->kind = kind;
	record->cpu = bpf_get_smp_processor_id();
	return record;
}

/* The reader polls: waking it for each record would disturb the tasks that it watches. */
static __always_inline void submit(struct record *record)
{
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

static __always_inline void begin_turn(struct task_struct *task)
{
	struct other_task fresh = { .woken = bpf_ktime_get_ns() };
	u32 pid = task->pid;

	/* A task that is woken before it has fallen asleep continues its turn. */
	if (turns)
		bpf_map_update_elem(&others, &pid, &fresh, BPF_NOEXIST);
}

static __always_inline void continue_turn(struct task_struct *next)
{
	u32 pid = next->pid;
	struct other_task *other = turns ? bpf_map_lookup_elem(&others, &pid) : NULL;

	if (other)
		other->since = bpf_ktime_get_ns();
}

static __always_inline void pause_turn(struct task_struct *prev, bool sleeps)
{
	u32 pid = prev->pid;
	struct other_task *other = turns ? bpf_map_lookup_elem(&others, &pid) : NULL;
	struct record *record;

	if (!other || !other->since)
		return;
	other->cpu_time += bpf_ktime_get_ns() - other->since;
	other->since = 0;
	if (!sleeps)
		return;
	record = reserve(RECORD_TURN, other->woken);
	if (record) {
		describe(&record->task, prev);
		record->other = !!(prev->flags & FLAG_KERNEL_THREAD);
		record->cpu_time = other->cpu_time;
		submit(record);
	}
	bpf_map_delete_elem(&others, &pid);
}

/* A task of Linux 6.18 or later */
struct task_struct___of_6_18 {
	bool throttled;
} __attribute__((preserve_access_index));

/*
 * Has the fair class put the task aside until its groups have runtime again? Before 6.18, whole
 * queues left the tree.
 */
static __always_inline bool is_throttled(struct task_struct *task)
{
	struct task_struct___of_6_18 *newer = (void *)task;

	return bpf_core_field_exists(newer->throttled) && newer->throttled;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(record_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	u64 now = bpf_ktime_get_ns();
	bool leaves = find(prev), comes = find(next);
	struct record *record;
	u32 pid = prev->pid;

	if (!leaves)
		pause_turn(prev, !preempt && prev_state);
	if (!comes)
		continue_turn(next);
	if (!leaves && !comes)
		return 0;
	record = reserve(RECORD_SWITCH, now);
	if (record) {
		if (leaves) {
			describe(&record->task, prev);
			if (prev_state & STATE_DEAD)
				record->state = STATE_ENDED;
			else if (!preempt && prev_state)
				record->state = STATE_SLEEPS;
			else if (is_throttled(prev))
				record->state = STATE_THROTTLED;
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

static __always_inline int record_wake(struct task_struct *task, u32 waker, u64 now)
{
	struct record *record = reserve(RECORD_WAKE, now);

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
	u64 now = bpf_ktime_get_ns();
	struct tracked_task *found = find(task);

	if (found)
		return record_wake(task, found->waker, now);
	begin_turn(task);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(record_wakeup_new, struct task_struct *task)
{
	u64 now = bpf_ktime_get_ns();

	if (find(task))
		return record_wake(task, (u32)bpf_get_current_pid_tgid(), now);
	begin_turn(task);
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(record_migration, struct task_struct *task, int to)
{
	struct record *record;

	if (!find(task))
		return 0;
	record = reserve(RECORD_MIGRATION, bpf_ktime_get_ns());
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

	if (!find(parent))
		return 0;
	if (bpf_map_update_elem(&tracked, &pid, &fresh, BPF_ANY)) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	record = reserve(RECORD_FORK, bpf_ktime_get_ns());
	if (record) {
		describe(&record->task, child);
		record->other = parent->pid;
		submit(record);
	}
	return 0;
}
