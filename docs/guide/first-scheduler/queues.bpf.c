/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

static u64 vtime_now;

/* A task waits at the CPU that woke it, in the order of the CPU time that it has had for its weight. */
SEC("struct_ops/queues_enqueue")
void BPF_PROG(queues_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 vtime = p->scx.dsq_vtime;

	/* A long sleep earns no credit. */
	if ((s64)(vtime - (vtime_now - SCX_SLICE_DFL)) < 0)
		vtime = vtime_now - SCX_SLICE_DFL;
	scx_bpf_dsq_insert_vtime(p, bpf_get_smp_processor_id(), SCX_SLICE_DFL, vtime, enq_flags);
}

SEC("struct_ops/queues_dispatch")
void BPF_PROG(queues_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(cpu);
}

SEC("struct_ops/queues_running")
void BPF_PROG(queues_running, struct task_struct *p)
{
	if ((s64)(p->scx.dsq_vtime - vtime_now) > 0)
		vtime_now = p->scx.dsq_vtime;
}

SEC("struct_ops/queues_stopping")
void BPF_PROG(queues_stopping, struct task_struct *p, bool runnable)
{
	u64 used = SCX_SLICE_DFL - p->scx.slice;

	scx_bpf_task_set_dsq_vtime(p, p->scx.dsq_vtime + used * 100 / p->scx.weight);
}

SEC("struct_ops/queues_enable")
void BPF_PROG(queues_enable, struct task_struct *p)
{
	scx_bpf_task_set_dsq_vtime(p, vtime_now);
}

SEC("struct_ops.s/queues_init")
s32 BPF_PROG(queues_init)
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
struct sched_ext_ops queues_ops = {
	.enqueue	= (void *)queues_enqueue,
	.dispatch	= (void *)queues_dispatch,
	.running	= (void *)queues_running,
	.stopping	= (void *)queues_stopping,
	.enable		= (void *)queues_enable,
	.init		= (void *)queues_init,
	.name		= "queues",
};
