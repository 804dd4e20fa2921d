/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Thinks long about every task, so that a simulation of a day takes one of the machine's own
 * processor.
 */
#include "fairground.bpf.h"

const volatile u32 turns = 100000;
u64 thought;

void BPF_STRUCT_OPS(ponderous_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 hash = p->pid;
	u32 turn;

	bpf_for(turn, 0, turns)
		hash = hash * 31 + turn;
	thought = hash;
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

DEFINE_SCHEDULER(ponderous,
		 .enqueue	= (void *)ponderous_enqueue,
		 .name		= "ponderous");
