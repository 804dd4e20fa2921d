/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Keeps tasks in its own queue, with endless slices, and has that reenqueued in the first tick. */
#include "fairground.bpf.h"

void scx_bpf_dsq_reenq(u64 dsq_id, u64 reenq_flags) __ksym;

static u32 ticks;

void BPF_STRUCT_OPS(reenqueue_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (enq_flags & SCX_ENQ_REENQ)
		bpf_printk("reenqueued");
	scx_bpf_dsq_insert(p, 0, SCX_SLICE_INF, enq_flags);
}

void BPF_STRUCT_OPS(reenqueue_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(0, 0);
}

void BPF_STRUCT_OPS(reenqueue_tick, struct task_struct *p)
{
	if (ticks++)
		return;
	bpf_printk("tick");
#ifdef GLOBAL
	scx_bpf_dsq_reenq(SCX_DSQ_GLOBAL, 0);
#endif
	scx_bpf_dsq_reenq(0, 0);
}

s32 BPF_STRUCT_OPS(reenqueue_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
#ifdef DISALLOW
	p->scx.disallow = args->fork == DISALLOW;
#endif
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(reenqueue_init)
{
	return scx_bpf_create_dsq(0, NUMA_NO_NODE);
}

DEFINE_SCHEDULER(reenqueue,
	.enqueue = (void *)reenqueue_enqueue,
	.dispatch = (void *)reenqueue_dispatch,
	.tick = (void *)reenqueue_tick,
	.init_task = (void *)reenqueue_init_task,
	.init = (void *)reenqueue_init,
	.name = "reenqueue");
