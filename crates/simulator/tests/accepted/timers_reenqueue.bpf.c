/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A timer that asks for a queue to be enqueued again, and starts itself. */
#include "one_callback.h"

#define QUEUE 0
#define INTERVAL 5000000

void scx_bpf_dsq_reenq(u64 dsq_id, u64 reenq_flags) __ksym;

static int again(void *map, int *key, struct bpf_timer *timer)
{
	scx_bpf_dsq_reenq(QUEUE, 0);
	bpf_timer_start(timer, INTERVAL, 0);
	return 0;
}

void BPF_STRUCT_OPS(accepted_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (enq_flags & SCX_ENQ_REENQ &&
	    (p->scx.flags & SCX_TASK_REENQ_REASON_MASK) != SCX_TASK_REENQ_KFUNC)
		scx_bpf_error("reenqueued for another reason");
	scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(accepted_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(accepted_init)
{
	u32 key = 0;
	struct timed *timed = bpf_map_lookup_elem(&timers, &key);
	s32 error = scx_bpf_create_dsq(QUEUE, -1);

	if (error)
		return error;
	if (!timed)
		return -ESRCH;
	bpf_timer_init(&timed->timer, &timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timed->timer, again);
	return bpf_timer_start(&timed->timer, INTERVAL, 0);
}

DEFINE_SCHEDULER(accepted,
	.enqueue = (void *)accepted_enqueue,
	.dispatch = (void *)accepted_dispatch,
	.init = (void *)accepted_init,
	.name = "accepted");
