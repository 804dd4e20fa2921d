/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two schedulers in one object. Each says that it is the one, and calls functions that the other
 * does not need.
 */
#include "fairground.bpf.h"

s32 BPF_STRUCT_OPS_SLEEPABLE(first_init)
{
	bpf_printk("the first");
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(second_init)
{
	bpf_printk("the second");
	return scx_bpf_create_dsq(1, NUMA_NO_NODE);
}

char _license[] SEC("license") = "GPL";

SEC(".struct_ops.link")
struct sched_ext_ops first_ops = {
	.init = (void *)first_init,
	.name = "first",
};

SEC(".struct_ops.link")
struct sched_ext_ops second_ops = {
	.init = (void *)second_init,
	.name = "second",
};
