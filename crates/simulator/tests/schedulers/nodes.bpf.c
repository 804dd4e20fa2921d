/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Asks for any CPU of the second node, which it says, and lets tasks run anywhere. */
#include "fairground.bpf.h"

s32 scx_bpf_pick_any_cpu_node(const struct cpumask *cpus_allowed, int node, u64 flags) __ksym;
int scx_bpf_cpu_node(s32 cpu) __ksym;

void BPF_STRUCT_OPS(nodes_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_pick_any_cpu_node(p->cpus_ptr, 1, SCX_PICK_IDLE_IN_NODE);

	bpf_printk("node %d", scx_bpf_cpu_node(cpu));
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

DEFINE_SCHEDULER(nodes,
	.enqueue = (void *)nodes_enqueue,
	.flags = SCX_OPS_BUILTIN_IDLE_PER_NODE,
	.name = "nodes");
