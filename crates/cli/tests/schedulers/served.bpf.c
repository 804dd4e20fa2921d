/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A scheduler that decides nothing: its loader takes the tasks out of one queue and puts them into another, in the order in which they
 * are to run. The loader itself runs whenever there is something for it to do.
 */
#include "fairground.bpf.h"

const volatile u64 slice_ns = 1;
const volatile s32 loader_pid = 1;

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1024);
	__type(value, s32);
} queued SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1024);
	__type(value, s32);
} decided SEC(".maps");

u64 is_needed;

void BPF_STRUCT_OPS(served_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 pid = p->pid;

	if (pid == loader_pid)
		return;
	if (bpf_map_push_elem(&queued, &pid, 0)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice_ns, enq_flags);
		return;
	}
	__sync_fetch_and_or(&is_needed, 1);
	scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_IDLE);
}

static void insert(s32 pid)
{
	struct task_struct *p = bpf_task_from_pid(pid);

	if (!p)
		return;
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice_ns, 0);
	bpf_task_release(p);
}

void BPF_STRUCT_OPS(served_dispatch, s32 cpu, struct task_struct *prev)
{
	s32 pid, i;

	if (__sync_fetch_and_and(&is_needed, 0))
		insert(loader_pid);
	bpf_for(i, 0, 16) {
		if (bpf_map_pop_elem(&decided, &pid))
			break;
		insert(pid);
	}
}

DEFINE_SCHEDULER(served,
		 .enqueue	= (void *)served_enqueue,
		 .dispatch	= (void *)served_dispatch,
		 .flags		= SCX_OPS_ENQ_LAST,
		 .name		= "served");
