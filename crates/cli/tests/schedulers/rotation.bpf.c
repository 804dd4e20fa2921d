/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One queue for all CPUs, first come, first served, with a fixed slice: the smallest scheduler that
 * is fair among hogs.
 */
#include "fairground.bpf.h"

const volatile u64 slice_ns = 5000000;

#define QUEUE 7

void BPF_STRUCT_OPS(rotation_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, slice_ns, enq_flags);
}

void BPF_STRUCT_OPS(rotation_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE, 0);
}

/* With these two it stays loaded when a CPU comes or goes; it has nothing to do then. */
void BPF_STRUCT_OPS_SLEEPABLE(rotation_cpu_online, s32 cpu)
{
}

void BPF_STRUCT_OPS_SLEEPABLE(rotation_cpu_offline, s32 cpu)
{
}

s32 BPF_STRUCT_OPS_SLEEPABLE(rotation_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

DEFINE_SCHEDULER(rotation,
		 .enqueue	= (void *)rotation_enqueue,
		 .dispatch	= (void *)rotation_dispatch,
		 .cpu_online	= (void *)rotation_cpu_online,
		 .cpu_offline	= (void *)rotation_cpu_offline,
		 .init		= (void *)rotation_init,
		 .name		= "rotation");
