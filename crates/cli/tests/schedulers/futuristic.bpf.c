/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls two kernel functions that no kernel has.
 */
#include "fairground.bpf.h"

void scx_bpf_task_foresee(struct task_struct *p) __ksym;
void scx_bpf_task_forgive(struct task_struct *p) __ksym;

void BPF_STRUCT_OPS(futuristic_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_task_foresee(p);
	scx_bpf_task_forgive(p);
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

DEFINE_SCHEDULER(futuristic, .enqueue = (void *)futuristic_enqueue, .name = "futuristic");
