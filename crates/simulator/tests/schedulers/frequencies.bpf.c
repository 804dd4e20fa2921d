/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads the policy of each CPU's frequency from the kernel's variable. */
#include "fairground.bpf.h"

extern void *cpufreq_cpu_data __ksym;

s32 BPF_STRUCT_OPS_SLEEPABLE(frequencies_init)
{
	void **policies = &cpufreq_cpu_data;
	int cpu;

	bpf_for(cpu, 0, 64) {
		void *policy = policies;

		if (bpf_probe_read_kernel(&policy, sizeof(policy), policies + cpu) || policy)
			scx_bpf_error("CPU %d has a policy", cpu);
	}
	return 0;
}

DEFINE_SCHEDULER(frequencies,
	.init = (void *)frequencies_init,
	.name = "frequencies");
