/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls itself as a scheduler of scx, and refuses to begin unless its loader has told it just the
 * CPUs that there are, a bit for each.
 */
#include "fairground.bpf.h"

const volatile u64 slice_ns = 1000000;
const volatile u32 nr_possible_cpus = 1;
const volatile unsigned char all_cpus[128];

s32 BPF_STRUCT_OPS_SLEEPABLE(masked_init)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	u32 cpu, wrong = 0;

	bpf_for(cpu, 0, 1024) {
		bool told = all_cpus[cpu / 8 & 127] & 1 << cpu % 8;

		if (cpu < nr_possible_cpus)
			wrong += told != bpf_cpumask_test_cpu(cpu, online);
		else
			wrong += told;
	}
	scx_bpf_put_cpumask(online);
	if (wrong)
		scx_bpf_error("%u CPUs are told wrongly", wrong);
	return 0;
}

DEFINE_SCHEDULER(masked, .init = (void *)masked_init, .name = "mitosis");
