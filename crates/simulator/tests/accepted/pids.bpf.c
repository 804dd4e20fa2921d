/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Queues pids in a map, finds the tasks again, and gives their references back on every way. */
#include "one_callback.h"

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 64);
	__type(value, s32);
} pids SEC(".maps");

void BPF_STRUCT_OPS(pids_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 pid = p->pid;

	if (bpf_map_push_elem(&pids, &pid, 0))
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

static void dispatch_one(struct task_struct *p, s32 cpu)
{
	if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, SCX_SLICE_DFL, 0);
	else
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, 0);
}

void BPF_STRUCT_OPS(pids_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *p;
	s32 pid, i;

	bpf_for(i, 0, 8) {
		if (bpf_map_pop_elem(&pids, &pid))
			break;
		p = bpf_task_from_pid(pid);
		if (!p)
			continue;
		if (p->flags & PF_EXITING) {
			bpf_task_release(p);
			continue;
		}
		dispatch_one(p, cpu);
		bpf_task_release(p);
		if (!scx_bpf_dispatch_nr_slots())
			return;
	}
}

DEFINE_SCHEDULER(pids, .enqueue = (void *)pids_enqueue, .dispatch = (void *)pids_dispatch,
		 .name = "pids");
