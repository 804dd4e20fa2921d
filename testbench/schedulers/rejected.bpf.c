// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * rejected - a scheduler that the kernel's verifier rejects
 */
#include "fairground.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} turns SEC(".maps");

void BPF_STRUCT_OPS(rejected_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 key = p->pid;
	u64 *turn = bpf_map_lookup_elem(&turns, &key);

	/* The fault: a look-up may find nothing. */
	*turn += 1;
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

DEFINE_SCHEDULER(rejected,
	.enqueue = (void *)rejected_enqueue,
	.name = "rejected");
