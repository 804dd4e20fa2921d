/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

#define SHARED	0

static u64 vtime_now;

/* A task waits in the order of the CPU time that it has had for its weight. */
SEC("struct_ops/fair_enqueue")
void BPF_PROG(fair_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 vtime = p->scx.dsq_vtime;

	/* Who slept for long is not paid for it. */
	if ((s64)(vtime - (vtime_now - SCX_SLICE_DFL)) < 0)
		vtime = vtime_now - SCX_SLICE_DFL;
	scx_bpf_dsq_insert_vtime(p, SHARED, SCX_SLICE_DFL, vtime, enq_flags);
}

SEC("struct_ops/fair_dispatch")
void BPF_PROG(fair_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED);
}

SEC("struct_ops/fair_running")
void BPF_PROG(fair_running, struct task_struct *p)
{
	if ((s64)(p->scx.dsq_vtime - vtime_now) > 0)
		vtime_now = p->scx.dsq_vtime;
}

SEC("struct_ops/fair_stopping")
void BPF_PROG(fair_stopping, struct task_struct *p, bool runnable)
{
	u64 used = SCX_SLICE_DFL - p->scx.slice;

	scx_bpf_task_set_dsq_vtime(p, p->scx.dsq_vtime + used * 100 / p->scx.weight);
}

SEC("struct_ops/fair_enable")
void BPF_PROG(fair_enable, struct task_struct *p)
{
	scx_bpf_task_set_dsq_vtime(p, vtime_now);
}

SEC("struct_ops.s/fair_init")
s32 BPF_PROG(fair_init)
{
	return scx_bpf_create_dsq(SHARED, -1);
}

SEC(".struct_ops.link")
struct sched_ext_ops fair_ops = {
	.enqueue	= (void *)fair_enqueue,
	.dispatch	= (void *)fair_dispatch,
	.running	= (void *)fair_running,
	.stopping	= (void *)fair_stopping,
	.enable		= (void *)fair_enable,
	.init		= (void *)fair_init,
	.name		= "fair",
};
