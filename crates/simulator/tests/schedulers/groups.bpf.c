/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prints the kernel's messages on control groups, and the settings that it can read meanwhile. The
 * kernel's defaults schedule.
 */
#include "fairground.bpf.h"
#include <bpf/bpf_core_read.h>

static u64 id_of(struct cgroup *cgrp)
{
	return BPF_CORE_READ(cgrp, kn, id);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(groups_init_task, struct task_struct *p,
			     struct scx_init_task_args *args)
{
	bpf_printk("task in %llu", id_of(args->cgroup));
	return 0;
}

void BPF_STRUCT_OPS(groups_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	bpf_printk("task leaves");
}

void BPF_STRUCT_OPS(groups_stopping, struct task_struct *p, bool runnable)
{
	struct task_group *tg = BPF_CORE_READ(p, sched_task_group);

	if (!runnable)
		bpf_printk("shares %llu idle %d scx %d", BPF_CORE_READ(tg, shares),
			   BPF_CORE_READ(tg, idle), BPF_CORE_READ(tg, scx.weight));
}

s32 BPF_STRUCT_OPS_SLEEPABLE(groups_cgroup_init, struct cgroup *cgrp,
			     struct scx_cgroup_init_args *args)
{
	bpf_printk("init %llu weight %u idle %d", id_of(cgrp), args->weight, args->sched_idle);
	bpf_printk("bandwidth %llu %llu %llu", args->bw_period_us, args->bw_quota_us,
		   args->bw_burst_us);
	return 0;
}

void BPF_STRUCT_OPS_SLEEPABLE(groups_cgroup_exit, struct cgroup *cgrp)
{
	bpf_printk("exit %llu", id_of(cgrp));
}

void BPF_STRUCT_OPS(groups_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	bpf_printk("weight of %llu is %u", id_of(cgrp), weight);
}

void BPF_STRUCT_OPS(groups_cgroup_set_idle, struct cgroup *cgrp, bool idle)
{
	bpf_printk("idle of %llu is %d", id_of(cgrp), idle);
}

void BPF_STRUCT_OPS_SLEEPABLE(groups_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us,
			      u64 quota_us, u64 burst_us)
{
	bpf_printk("bandwidth is %llu %llu %llu", period_us, quota_us, burst_us);
}

DEFINE_SCHEDULER(groups,
		 .init_task = (void *)groups_init_task,
		 .exit_task = (void *)groups_exit_task,
		 .stopping = (void *)groups_stopping,
		 .cgroup_init = (void *)groups_cgroup_init,
		 .cgroup_exit = (void *)groups_cgroup_exit,
		 .cgroup_set_weight = (void *)groups_cgroup_set_weight,
		 .cgroup_set_idle = (void *)groups_cgroup_set_idle,
		 .cgroup_set_bandwidth = (void *)groups_cgroup_set_bandwidth,
		 .name = "groups");
