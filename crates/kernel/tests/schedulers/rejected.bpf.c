// SPDX-License-Identifier: GPL-2.0-or-later
/* A scheduler that the verifier must not accept: it reads an array beyond its end. */
#include "fairground.bpf.h"

u64 table[4];

void BPF_STRUCT_OPS(rejected_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, table[p->pid], enq_flags);
}

DEFINE_SCHEDULER(rejected,
		 .enqueue = (void *)rejected_enqueue,
		 .name = "rejected");
