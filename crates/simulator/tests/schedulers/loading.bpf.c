/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tells in whose context and when it is loaded, and of times that go back between the begin and
 * the end of a turn. The kernel's defaults schedule.
 */
#include "fairground.bpf.h"

#define CPUS 8

static u64 since[CPUS];

s32 BPF_STRUCT_OPS_SLEEPABLE(loading_init)
{
	s32 pid = bpf_get_current_pid_tgid() >> 32;
	struct task_struct *p = bpf_task_from_pid(pid);

	bpf_printk("process %d, known %d", pid != 0, !!p);
	bpf_printk("up for hours: %d", bpf_ktime_get_ns() > 3600ULL * 1000000000);
	if (p)
		bpf_task_release(p);
	return 0;
}

void BPF_STRUCT_OPS(loading_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);

	if (cpu >= 0 && cpu < CPUS)
		since[cpu] = bpf_ktime_get_ns();
}

void BPF_STRUCT_OPS(loading_stopping, struct task_struct *p, bool runnable)
{
	s32 cpu = scx_bpf_task_cpu(p);

	if (cpu >= 0 && cpu < CPUS && bpf_ktime_get_ns() < since[cpu])
		bpf_printk("CPU %d goes back", cpu);
}

DEFINE_SCHEDULER(loading,
		 .init		= (void *)loading_init,
		 .running	= (void *)loading_running,
		 .stopping	= (void *)loading_stopping,
		 .timeout_ms	= 10000,
		 .name		= "loading");
