/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Does not compile.
 */
#include "fairground.bpf.h"

void BPF_STRUCT_OPS(broken_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, nowhere, SCX_SLICE_DFL, enq_flags);
}

DEFINE_SCHEDULER(broken, .enqueue = (void *)broken_enqueue, .name = "broken");
