/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One queue by virtual time, which passes more slowly for tasks of more weight.
 */
#include "fairground.bpf.h"

const volatile u64 slice_ns = 4000000;
static u64 vtime_now;

#define QUEUE 7

void BPF_STRUCT_OPS(even_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 vtime = p->scx.dsq_vtime;

	if (time_before(vtime, vtime_now - slice_ns))
		vtime = vtime_now - slice_ns;
	scx_bpf_dsq_insert_vtime(p, QUEUE, slice_ns, vtime, enq_flags);
}

void BPF_STRUCT_OPS(even_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE, 0);
}

void BPF_STRUCT_OPS(even_running, struct task_struct *p)
{
	if (time_before(vtime_now, p->scx.dsq_vtime))
		vtime_now = p->scx.dsq_vtime;
}

void BPF_STRUCT_OPS(even_stopping, struct task_struct *p, bool runnable)
{
	/* A task that goes on alone gets the kernel's longer slice. */
	u64 used = p->scx.slice < slice_ns ? slice_ns - p->scx.slice : slice_ns;

	scx_bpf_task_set_dsq_vtime(p, p->scx.dsq_vtime + used * 100 / p->scx.weight);
}

void BPF_STRUCT_OPS(even_enable, struct task_struct *p)
{
	scx_bpf_task_set_dsq_vtime(p, vtime_now);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(even_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

DEFINE_SCHEDULER(even,
		 .enqueue	= (void *)even_enqueue,
		 .dispatch	= (void *)even_dispatch,
		 .running	= (void *)even_running,
		 .stopping	= (void *)even_stopping,
		 .enable	= (void *)even_enable,
		 .init		= (void *)even_init,
		 .name		= "even");
