/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

static u64 vtime_now;

/* A task waits at the CPU where it ran last, in the order of the CPU time that it has had for its weight. */
SEC("struct_ops/mended_enqueue")
void BPF_PROG(mended_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 vtime = p->scx.dsq_vtime;
	s32 cpu = scx_bpf_task_cpu(p);

	/* Who slept for long is not paid for it. */
	if ((s64)(vtime - (vtime_now - SCX_SLICE_DFL)) < 0)
		vtime = vtime_now - SCX_SLICE_DFL;
	scx_bpf_dsq_insert_vtime(p, cpu, SCX_SLICE_DFL, vtime, enq_flags);
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

SEC("struct_ops/mended_dispatch")
void BPF_PROG(mended_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 other, nr_cpus = scx_bpf_nr_cpu_ids();

	if (scx_bpf_dsq_move_to_local(cpu))
		return;
	bpf_for(other, 0, nr_cpus)
		if (scx_bpf_dsq_move_to_local(other))
			return;
}

SEC("struct_ops/mended_running")
void BPF_PROG(mended_running, struct task_struct *p)
{
	if ((s64)(p->scx.dsq_vtime - vtime_now) > 0)
		vtime_now = p->scx.dsq_vtime;
}

SEC("struct_ops/mended_stopping")
void BPF_PROG(mended_stopping, struct task_struct *p, bool runnable)
{
	u64 used = SCX_SLICE_DFL - p->scx.slice;

	scx_bpf_task_set_dsq_vtime(p, p->scx.dsq_vtime + used * 100 / p->scx.weight);
}

SEC("struct_ops/mended_enable")
void BPF_PROG(mended_enable, struct task_struct *p)
{
	scx_bpf_task_set_dsq_vtime(p, vtime_now);
}

SEC("struct_ops.s/mended_init")
s32 BPF_PROG(mended_init)
{
	u32 cpu, nr_cpus = scx_bpf_nr_cpu_ids();
	s32 err;

	bpf_for(cpu, 0, nr_cpus) {
		err = scx_bpf_create_dsq(cpu, -1);
		if (err)
			return err;
	}
	return 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops mended_ops = {
	.enqueue	= (void *)mended_enqueue,
	.dispatch	= (void *)mended_dispatch,
	.running	= (void *)mended_running,
	.stopping	= (void *)mended_stopping,
	.enable		= (void *)mended_enable,
	.init		= (void *)mended_init,
	.name		= "mended",
};
