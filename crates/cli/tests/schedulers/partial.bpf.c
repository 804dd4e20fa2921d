/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Has only the tasks that ask for sched_ext, and a program that waits for something else. */
#include "fairground.bpf.h"

SEC("raw_tp/sys_enter")
int on_system_call(void *context)
{
	return 0;
}

void BPF_STRUCT_OPS(partial_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

DEFINE_SCHEDULER(partial,
	.enqueue = (void *)partial_enqueue,
	.flags = SCX_OPS_SWITCH_PARTIAL,
	.name = "partial");
