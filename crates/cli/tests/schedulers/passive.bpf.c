/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One queue for all CPUs, of which only those take from it that happen to go through the scheduler:
 * idle ones are told of nothing.
 */
#include "fairground.bpf.h"

#define QUEUE 7

s32 BPF_STRUCT_OPS(passive_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void BPF_STRUCT_OPS(passive_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(passive_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(passive_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

DEFINE_SCHEDULER(passive,
		 .select_cpu	= (void *)passive_select_cpu,
		 .enqueue	= (void *)passive_enqueue,
		 .dispatch	= (void *)passive_dispatch,
		 .init		= (void *)passive_init,
		 .name		= "passive");
