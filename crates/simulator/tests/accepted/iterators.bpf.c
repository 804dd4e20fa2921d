/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Iterators in all forms: macros, by hand, left early, one inside another, one that cannot begin.
 */
#include "one_callback.h"

#define QUEUE 3

u64 seen;

void BPF_STRUCT_OPS(iterators_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(iterators_dequeue, struct task_struct *p, u64 deq_flags)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *queued;

	if (!bpf_iter_scx_dsq_new(&it, QUEUE, 0)) {
		while ((queued = bpf_iter_scx_dsq_next(&it)))
			seen += queued->pid;
	}
	bpf_iter_scx_dsq_destroy(&it);
}

void BPF_STRUCT_OPS(iterators_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *p;
	int i, j;

	bpf_for_each(scx_dsq, p, QUEUE, 0) {
		bpf_for(i, 0, 4) {
			bpf_for(j, i, 4) {
				if (j == 3)
					break;
				if (numbers[j] > numbers[i])
					continue;
				numbers[i]++;
			}
		}
		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (scx_bpf_dsq_move(DSQ_ITERATOR, p, SCX_DSQ_LOCAL_ON | cpu, 0))
			return;
	}
	bpf_repeat(4) {
		if (scx_bpf_dsq_move_to_local(QUEUE, 0))
			break;
	}
}

s32 BPF_STRUCT_OPS_SLEEPABLE(iterators_init)
{
	int i, error;

	bpf_for(i, 0, 4) {
		error = scx_bpf_create_dsq(QUEUE + i, -1);
		if (error)
			return error;
	}
	bpf_for(i, 1, 4)
		scx_bpf_destroy_dsq(QUEUE + i);
	return 0;
}

DEFINE_SCHEDULER(iterators,
	.enqueue = (void *)iterators_enqueue,
	.dequeue = (void *)iterators_dequeue,
	.dispatch = (void *)iterators_dispatch,
	.init = (void *)iterators_init,
	.name = "iterators");
