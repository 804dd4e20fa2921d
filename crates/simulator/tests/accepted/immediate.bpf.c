/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Asks for a CPU at once, and is asked again where there is none. */
#include "one_callback.h"

#define QUEUE 0

u64 returned;

void BPF_STRUCT_OPS(immediate_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (enq_flags & SCX_ENQ_REENQ) {
		u32 reason = p->scx.flags & SCX_TASK_REENQ_REASON_MASK;

		if (reason != SCX_TASK_REENQ_IMMED)
			scx_bpf_error("reenqueued for %x", reason);
		__sync_fetch_and_add(&returned, 1);
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return;
	}
	if (p->pid & 1)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | 0, SCX_SLICE_DFL, enq_flags);
	else
		scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(immediate_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE, SCX_ENQ_IMMED);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(immediate_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

DEFINE_SCHEDULER(immediate,
	.enqueue = (void *)immediate_enqueue,
	.dispatch = (void *)immediate_dispatch,
	.init = (void *)immediate_init,
	.flags = SCX_OPS_ALWAYS_ENQ_IMMED,
	.name = "immediate");
