/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Last in, first out, and a woken task preempts the one that runs on its CPU.
 */
#include "fairground.bpf.h"

void BPF_STRUCT_OPS(kicks_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, enq_flags | SCX_ENQ_HEAD);
	if (enq_flags & SCX_ENQ_WAKEUP)
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
}

DEFINE_SCHEDULER(kicks,
		 .enqueue = (void *)kicks_enqueue,
		 .name = "kicks");
