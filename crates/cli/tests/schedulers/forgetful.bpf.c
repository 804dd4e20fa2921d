/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Forgets the third task that it is given: takes note of it and never dispatches it.
 */
#include "fairground.bpf.h"

static u32 seen;

void BPF_STRUCT_OPS(forgetful_enqueue, struct task_struct *p, u64 enq_flags)
{
	seen++;
	if (seen != 3)
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

DEFINE_SCHEDULER(forgetful,
		 .enqueue	= (void *)forgetful_enqueue,
		 .timeout_ms	= 2000,
		 .name		= "forgetful");
