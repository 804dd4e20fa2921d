/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fails at the first tick, with tasks in a queue that is ordered by their numbers, and has
 * something to say in each part of the dump. With GATHER, CPU 0 takes all tasks at once when there
 * are that many; each comes from CPU 0 or 1, by the parity of its number.
 */
#include "fairground.bpf.h"

#define ORDERED 5

#ifndef DUMP_LENGTH
#define DUMP_LENGTH 0
#endif

s32 BPF_STRUCT_OPS_SLEEPABLE(dumps_init)
{
	return scx_bpf_create_dsq(ORDERED, -1);
}

void BPF_STRUCT_OPS(dumps_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert_vtime(p, ORDERED, SCX_SLICE_DFL, 10000 - p->pid, enq_flags);
}

#ifdef GATHER
s32 BPF_STRUCT_OPS(dumps_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return p->pid & 1;
}

void BPF_STRUCT_OPS(dumps_dispatch, s32 cpu, struct task_struct *prev)
{
	int i;

	if (cpu || scx_bpf_dsq_nr_queued(ORDERED) < GATHER)
		return;
	bpf_for(i, 0, GATHER)
		scx_bpf_dsq_move_to_local(ORDERED, 0);
}
#else
void BPF_STRUCT_OPS(dumps_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(ORDERED, 0);
}
#endif

void BPF_STRUCT_OPS(dumps_tick, struct task_struct *p)
{
	scx_bpf_error("enough");
}

void BPF_STRUCT_OPS(dumps_dump, struct scx_dump_ctx *dctx)
{
	scx_bpf_dump("all in all\n");
}

void BPF_STRUCT_OPS(dumps_dump_cpu, struct scx_dump_ctx *dctx, s32 cpu, bool idle)
{
	if (!idle)
		scx_bpf_dump("CPU %d is busy\n", cpu);
}

void BPF_STRUCT_OPS(dumps_dump_task, struct scx_dump_ctx *dctx, struct task_struct *p)
{
	scx_bpf_dump("it is %d\n", p->pid);
}

DEFINE_SCHEDULER(dumps,
		 .init		= (void *)dumps_init,
#ifdef GATHER
		 .select_cpu	= (void *)dumps_select_cpu,
#endif
		 .enqueue	= (void *)dumps_enqueue,
		 .dispatch	= (void *)dumps_dispatch,
		 .tick		= (void *)dumps_tick,
		 .dump		= (void *)dumps_dump,
		 .dump_cpu	= (void *)dumps_dump_cpu,
		 .dump_task	= (void *)dumps_dump_task,
		 .exit_dump_len	= DUMP_LENGTH,
		 .name		= "dumps");
