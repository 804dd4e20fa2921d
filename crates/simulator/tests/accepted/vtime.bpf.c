/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Virtual time: signed comparisons of clocks that wrap, divisions by weights, a queue that is
 * ordered and looked into.
 */
#include "one_callback.h"

#define QUEUE 0

struct task_struct *scx_bpf_dsq_peek(u64 dsq_id) __ksym __weak;

static u64 now;

static bool is_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

s32 BPF_STRUCT_OPS(vtime_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	u64 vtime = p->scx.dsq_vtime;

	if (cpu < 0) {
		cpu = prev_cpu;
		scx_bpf_test_and_clear_cpu_idle(cpu);
	}
	if (is_before(vtime, now - SCX_SLICE_DFL))
		vtime = now - SCX_SLICE_DFL;
	scx_bpf_dsq_insert_vtime(p, QUEUE, SCX_SLICE_DFL, vtime, 0);
	return cpu;
}

void BPF_STRUCT_OPS(vtime_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert_vtime(p, QUEUE, SCX_SLICE_DFL, p->scx.dsq_vtime, enq_flags);
}

void BPF_STRUCT_OPS(vtime_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *first = scx_bpf_dsq_peek(QUEUE);

	if (first && is_before(now, first->scx.dsq_vtime))
		now = first->scx.dsq_vtime;
	scx_bpf_dsq_move_to_local(QUEUE, 0);
}

void BPF_STRUCT_OPS(vtime_stopping, struct task_struct *p, bool runnable)
{
	p->scx.dsq_vtime += (SCX_SLICE_DFL - p->scx.slice) * 100 / p->scx.weight;
}

void BPF_STRUCT_OPS(vtime_enable, struct task_struct *p)
{
	p->scx.dsq_vtime = now;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(vtime_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

DEFINE_SCHEDULER(vtime,
	.select_cpu = (void *)vtime_select_cpu,
	.enqueue = (void *)vtime_enqueue,
	.dispatch = (void *)vtime_dispatch,
	.stopping = (void *)vtime_stopping,
	.enable = (void *)vtime_enable,
	.init = (void *)vtime_init,
	.name = "vtime");
