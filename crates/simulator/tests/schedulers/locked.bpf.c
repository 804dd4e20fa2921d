/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Looks around for a while under one spin lock of all CPUs before it dispatches. */
#include "fairground.bpf.h"

struct shared {
	struct bpf_spin_lock lock;
	u64 looked;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct shared);
} shared SEC(".maps");

void BPF_STRUCT_OPS(locked_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, 0, 1000000, enq_flags);
}

void BPF_STRUCT_OPS(locked_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 key = 0, i;
	struct shared *s = bpf_map_lookup_elem(&shared, &key);

	if (!s)
		return;
	bpf_spin_lock(&s->lock);
	for (i = 0; i < 1000; i++)
		*(volatile u64 *)&s->looked += i;
	bpf_spin_unlock(&s->lock);
	scx_bpf_dsq_move_to_local(0, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(locked_init)
{
	return scx_bpf_create_dsq(0, NUMA_NO_NODE);
}

DEFINE_SCHEDULER(locked,
	.enqueue = (void *)locked_enqueue,
	.dispatch = (void *)locked_dispatch,
	.init = (void *)locked_init,
	.name = "locked");
