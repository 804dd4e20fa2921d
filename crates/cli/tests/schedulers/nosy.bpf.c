/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Jumps where no code is, or says at which addresses it finds things.
 */
#include "fairground.bpf.h"

const volatile bool jump = false;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, u64);
} values SEC(".maps");

void BPF_STRUCT_OPS(nosy_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 key = p->pid;
	u64 zero = 0;

	if (jump)
		bpf_loop(1, (void *)0x414141414141, NULL, 0);
	bpf_map_update_elem(&values, &key, &zero, 0);
	bpf_printk("\x1b[31m%llx %llx %llx", (u64)p, (u64)bpf_map_lookup_elem(&values, &key),
		   (u64)&values);
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

DEFINE_SCHEDULER(nosy, .enqueue = (void *)nosy_enqueue, .name = "nosy");
