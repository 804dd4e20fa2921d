/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A scheduler of one queue that has no callbacks for CPUs that come and go, so that a kernel
 * unloads it then. Its loader loads it again, and tells it each time, in three ways, how many CPUs
 * are online.
 */
#include "fairground.bpf.h"

const volatile u64 slice_ns = 1;
const volatile u32 online = 0;

/* The number of the load. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} loads SEC(".maps");

struct told {
	u32 online;
	u32 known;
};

u32 told_online;

SEC("syscall")
int tell(struct told *told)
{
	told_online += told->online;
	told->known = online;
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(returning_init)
{
	u32 key = 0, cpus = count_online_cpus();
	u32 *load = bpf_map_lookup_elem(&loads, &key);

	if (cpus != online || cpus != told_online || !load)
		return -EINVAL;
	bpf_printk("load %u, %u CPUs", *load, cpus);
	return 0;
}

void BPF_STRUCT_OPS(returning_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice_ns, enq_flags);
}

DEFINE_SCHEDULER(returning,
		 .enqueue	= (void *)returning_enqueue,
		 .init		= (void *)returning_init,
		 .name		= "returning");
