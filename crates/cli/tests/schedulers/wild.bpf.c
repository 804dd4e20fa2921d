/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes through a pointer that points nowhere, and comes from where the kernel has pointers.
 */
#include "fairground.bpf.h"

void BPF_STRUCT_OPS(wild_enqueue, struct task_struct *p, u64 enq_flags)
{
	volatile u64 *nowhere = (volatile u64 *)p->se.sum_exec_runtime;

	nowhere[1] = 1;
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

DEFINE_SCHEDULER(wild, .enqueue = (void *)wild_enqueue, .name = "wild");
