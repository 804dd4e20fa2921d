/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Follows tasks from enqueue to dequeue: what a queue of the scheduler's own gets leaves it once.
 */
#include "one_callback.h"

#define QUEUE 7

enum place { OUTSIDE, QUEUED, DISPATCHED };

struct of_task {
	enum place place;
	u64 sequence;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct of_task);
} places SEC(".maps");

u64 enqueued, dequeued;

static struct of_task *place_of(struct task_struct *p)
{
	return bpf_task_storage_get(&places, p, 0, 0);
}

void BPF_STRUCT_OPS(custody_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct of_task *task = place_of(p);

	if (!task)
		return;
	switch ((u32)p->pid % 3) {
	case 0:
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, enq_flags);
		task->place = DISPATCHED;
		break;
	case 1:
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		task->place = DISPATCHED;
		break;
	default:
		if (task->place == QUEUED)
			scx_bpf_error("%d (%s): enqueued twice, sequence %llu", p->pid, p->comm,
				      task->sequence);
		scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, enq_flags);
		__sync_fetch_and_add(&enqueued, 1);
		task->place = QUEUED;
		task->sequence++;
	}
}

void BPF_STRUCT_OPS(custody_dequeue, struct task_struct *p, u64 deq_flags)
{
	struct of_task *task = place_of(p);

	if (!task)
		return;
	__sync_fetch_and_add(&dequeued, 1);
	if ((u32)p->pid % 3 != 2)
		scx_bpf_error("%d (%s): never was the scheduler's", p->pid, p->comm);
	if (!(deq_flags & SCX_DEQ_SCHED_CHANGE) && task->place == DISPATCHED)
		scx_bpf_error("%d (%s): left twice", p->pid, p->comm);
	task->place = deq_flags & SCX_DEQ_SCHED_CHANGE ? OUTSIDE : DISPATCHED;
}

void BPF_STRUCT_OPS(custody_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE, 0);
}

s32 BPF_STRUCT_OPS(custody_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return bpf_task_storage_get(&places, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -ENOMEM;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(custody_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

DEFINE_SCHEDULER(custody,
	.enqueue = (void *)custody_enqueue,
	.dequeue = (void *)custody_dequeue,
	.dispatch = (void *)custody_dispatch,
	.init_task = (void *)custody_init_task,
	.init = (void *)custody_init,
	.flags = SCX_OPS_ENQ_LAST,
	.name = "custody");
