/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fairground.bpf.h"

const volatile u64 depth = 10;

static __attribute__((noinline)) u64 deep(u64 levels)
{
	volatile char pad[256];

	pad[levels & 255] = levels;
	return levels ? deep(levels - 1) + pad[levels & 255] : 0;
}

void BPF_STRUCT_OPS(recursive_enqueue, struct task_struct *p, u64 enq_flags)
{
	deep(depth);
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

DEFINE_SCHEDULER(recursive, .enqueue = (void *)recursive_enqueue, .name = "recursive");
