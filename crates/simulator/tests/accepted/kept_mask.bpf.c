/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A mask that a global variable owns, made in init and used with a test for NULL. */
#include "one_callback.h"

#define own(name) SEC(".bss." #name) __hidden __attribute__((aligned(8)))

own(masks) struct bpf_cpumask __kptr *preferred;

static const struct cpumask *plain(struct bpf_cpumask *mask)
{
	return (const struct cpumask *)mask;
}

s32 BPF_STRUCT_OPS(kept_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	const struct cpumask *allowed = plain(preferred);
	s32 cpu;

	if (!allowed) {
		scx_bpf_error("no mask");
		return -EINVAL;
	}
	cpu = scx_bpf_select_cpu_and(p, prev_cpu, wake_flags, allowed, 0);
	if (cpu >= 0) {
		if (scx_bpf_test_and_clear_cpu_idle(cpu))
			scx_bpf_error("CPU %d was not claimed", cpu);
		if (bpf_cpumask_subset(allowed, p->cpus_ptr) && !bpf_cpumask_test_cpu(cpu, allowed))
			scx_bpf_error("CPU %d is not preferred", cpu);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
		return cpu;
	}
	return prev_cpu;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(kept_init)
{
	struct bpf_cpumask *mask = bpf_cpumask_create();

	if (!mask)
		return -ENOMEM;
	mask = bpf_kptr_xchg(&preferred, mask);
	if (mask)
		bpf_cpumask_release(mask);

	bpf_rcu_read_lock();
	mask = preferred;
	if (mask) {
		const struct cpumask *online = scx_bpf_get_online_cpumask();

		bpf_cpumask_set_cpu(bpf_cpumask_first(online), mask);
		scx_bpf_put_cpumask(online);
	}
	bpf_rcu_read_unlock();
	return 0;
}

DEFINE_SCHEDULER(kept, .select_cpu = (void *)kept_select_cpu, .init = (void *)kept_init,
		 .name = "kept");
