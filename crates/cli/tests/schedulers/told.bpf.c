/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prints what its loader has told it of the CPUs, each time that it is loaded. With RULED_OUT, a
 * kernel takes it only because that rules some code out.
 */
#include "fairground.bpf.h"
#include "topology.h"

u32 nr_online;
u32 nr_ids;
u32 cores[4];
u64 online;

s32 BPF_STRUCT_OPS_SLEEPABLE(told_init)
{
#ifdef RULED_OUT
	if (topology_nr_cpus > 100)
		*(volatile u32 *)(unsigned long)topology_nr_cpus = 1;
#endif
	bpf_printk("%u of %u CPUs, mask %llx", nr_online, nr_ids, online);
	bpf_printk("cores %u %u %u", cores[0], cores[2], cores[3]);
	bpf_printk("topology: %u of %u CPUs, first %d", topology_nr_online, topology_nr_cpus,
		   cpu_at(0));
	return 0;
}

DEFINE_SCHEDULER(told, .init = (void *)told_init, .name = "told");
