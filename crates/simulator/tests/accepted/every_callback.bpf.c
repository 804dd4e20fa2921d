/* SPDX-License-Identifier: GPL-2.0-or-later */
/* All callbacks there are, of the kind that may not sleep wherever the kernel lets them be. */
#include "one_callback.h"

#define QUEUE 0

s32 BPF_STRUCT_OPS(every_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags) { return prev_cpu; }

void BPF_STRUCT_OPS(every_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(every_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE, 0);
}

void BPF_STRUCT_OPS(every_dequeue, struct task_struct *p, u64 deq_flags) {}
void BPF_STRUCT_OPS(every_runnable, struct task_struct *p, u64 enq_flags) {}
void BPF_STRUCT_OPS(every_running, struct task_struct *p) {}
void BPF_STRUCT_OPS(every_stopping, struct task_struct *p, bool runnable) {}
void BPF_STRUCT_OPS(every_quiescent, struct task_struct *p, u64 deq_flags) {}
void BPF_STRUCT_OPS(every_tick, struct task_struct *p) {}
bool BPF_STRUCT_OPS(every_yield, struct task_struct *from, struct task_struct *to) { return false; }
bool BPF_STRUCT_OPS(every_core_sched_before, struct task_struct *a, struct task_struct *b) { return a->pid < b->pid; }
void BPF_STRUCT_OPS(every_set_weight, struct task_struct *p, u32 weight) {}
void BPF_STRUCT_OPS(every_set_cpumask, struct task_struct *p, const struct cpumask *cpumask) {}
void BPF_STRUCT_OPS(every_update_idle, s32 cpu, bool idle) {}
void BPF_STRUCT_OPS(every_cpu_acquire, s32 cpu, struct scx_cpu_acquire_args *args) {}
void BPF_STRUCT_OPS(every_cpu_release, s32 cpu, struct scx_cpu_release_args *args) {}
void BPF_STRUCT_OPS(every_cpu_online, s32 cpu) {}
void BPF_STRUCT_OPS(every_cpu_offline, s32 cpu) {}
s32 BPF_STRUCT_OPS(every_init_task, struct task_struct *p, struct scx_init_task_args *args) { return 0; }
void BPF_STRUCT_OPS(every_exit_task, struct task_struct *p, struct scx_exit_task_args *args) {}
void BPF_STRUCT_OPS(every_enable, struct task_struct *p) {}
void BPF_STRUCT_OPS(every_disable, struct task_struct *p) {}
s32 BPF_STRUCT_OPS(every_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args) { return 0; }
void BPF_STRUCT_OPS(every_cgroup_exit, struct cgroup *cgrp) {}
s32 BPF_STRUCT_OPS(every_cgroup_prep_move, struct task_struct *p, struct cgroup *from, struct cgroup *to) { return 0; }
void BPF_STRUCT_OPS(every_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to) {}
void BPF_STRUCT_OPS(every_cgroup_cancel_move, struct task_struct *p, struct cgroup *from, struct cgroup *to) {}
void BPF_STRUCT_OPS(every_cgroup_set_weight, struct cgroup *cgrp, u32 weight) {}
void BPF_STRUCT_OPS(every_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period, u64 quota, u64 burst) {}
void BPF_STRUCT_OPS(every_dump, struct scx_dump_ctx *dctx) {}
void BPF_STRUCT_OPS(every_dump_cpu, struct scx_dump_ctx *dctx, s32 cpu, bool idle) {}
void BPF_STRUCT_OPS(every_dump_task, struct scx_dump_ctx *dctx, struct task_struct *p) {}

s32 BPF_STRUCT_OPS_SLEEPABLE(every_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

DEFINE_SCHEDULER(every,
	.select_cpu = (void *)every_select_cpu,
	.enqueue = (void *)every_enqueue,
	.dequeue = (void *)every_dequeue,
	.dispatch = (void *)every_dispatch,
	.tick = (void *)every_tick,
	.runnable = (void *)every_runnable,
	.running = (void *)every_running,
	.stopping = (void *)every_stopping,
	.quiescent = (void *)every_quiescent,
	.yield = (void *)every_yield,
	.core_sched_before = (void *)every_core_sched_before,
	.set_weight = (void *)every_set_weight,
	.set_cpumask = (void *)every_set_cpumask,
	.update_idle = (void *)every_update_idle,
	.cpu_acquire = (void *)every_cpu_acquire,
	.cpu_release = (void *)every_cpu_release,
	.cpu_online = (void *)every_cpu_online,
	.cpu_offline = (void *)every_cpu_offline,
	.init_task = (void *)every_init_task,
	.exit_task = (void *)every_exit_task,
	.enable = (void *)every_enable,
	.disable = (void *)every_disable,
	.cgroup_init = (void *)every_cgroup_init,
	.cgroup_exit = (void *)every_cgroup_exit,
	.cgroup_prep_move = (void *)every_cgroup_prep_move,
	.cgroup_move = (void *)every_cgroup_move,
	.cgroup_cancel_move = (void *)every_cgroup_cancel_move,
	.cgroup_set_weight = (void *)every_cgroup_set_weight,
	.cgroup_set_bandwidth = (void *)every_cgroup_set_bandwidth,
	.dump = (void *)every_dump,
	.dump_cpu = (void *)every_dump_cpu,
	.dump_task = (void *)every_dump_task,
	.init = (void *)every_init,
	.name = "every");
