/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sets the speed of CPUs if LEVEL is defined, but to all for tasks whose names begin with an f if
 * FAST is, and asks for control groups if GROUPS is, for their quotas if QUOTAS is. With CORES it
 * has an order for core scheduling. The kernel's defaults schedule.
 */
#include "fairground.bpf.h"

void BPF_STRUCT_OPS(shortfalls_running, struct task_struct *p)
{
#ifdef LEVEL
	u32 level = LEVEL;

#ifdef FAST
	if (p->comm[0] == 'f')
		level = SCX_CPUPERF_ONE;
#endif
	scx_bpf_cpuperf_set(scx_bpf_task_cpu(p), level);
#endif
}

#ifdef GROUPS
s32 BPF_STRUCT_OPS_SLEEPABLE(shortfalls_cgroup_init, struct cgroup *cgrp,
			     struct scx_cgroup_init_args *args)
{
	return 0;
}
#endif

#ifdef QUOTAS
void BPF_STRUCT_OPS_SLEEPABLE(shortfalls_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us,
			      u64 quota_us, u64 burst_us)
{
}
#endif

#ifdef CORES
bool BPF_STRUCT_OPS(shortfalls_core_sched_before, struct task_struct *a, struct task_struct *b)
{
	return a->pid < b->pid;
}
#endif

DEFINE_SCHEDULER(shortfalls,
		 .running = (void *)shortfalls_running,
#ifdef GROUPS
		 .cgroup_init = (void *)shortfalls_cgroup_init,
#endif
#ifdef QUOTAS
		 .cgroup_set_bandwidth = (void *)shortfalls_cgroup_set_bandwidth,
#endif
#ifdef CORES
		 .core_sched_before = (void *)shortfalls_core_sched_before,
#endif
		 .name = "shortfalls");
