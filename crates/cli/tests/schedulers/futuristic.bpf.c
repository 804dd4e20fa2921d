/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Refers to two kernel functions that no kernel has, or none has any more, in code that is never reached.
 */
#include "fairground.bpf.h"

void scx_bpf_task_foresee(struct task_struct *p) __ksym;
void scx_bpf_dispatch(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym;

u64 reached;

void BPF_STRUCT_OPS(futuristic_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (reached) {
		scx_bpf_task_foresee(p);
		scx_bpf_dispatch(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
	}
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

DEFINE_SCHEDULER(futuristic, .enqueue = (void *)futuristic_enqueue, .name = "futuristic");
