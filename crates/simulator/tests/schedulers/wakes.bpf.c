/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Says on which CPU a task that wakes up is taken in, lets it run on CPU 1, and may have wake-ups
 * handed over.
 */
#include "fairground.bpf.h"

#ifndef FLAGS
#define FLAGS 0
#endif

s32 BPF_STRUCT_OPS(wakes_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	u64 slice = p->scx.slice;

	/* no lock of a run queue is held here: it is only a request */
	scx_bpf_task_set_slice(p, 1234567);
	bpf_printk("select_cpu for %d on %d, slice %s", p->pid, bpf_get_smp_processor_id(),
		   p->scx.slice == slice ? "kept" : "changed");
	return bpf_cpumask_test_cpu(1, p->cpus_ptr) ? 1 : prev_cpu;
}

void BPF_STRUCT_OPS(wakes_enqueue, struct task_struct *p, u64 enq_flags)
{
	bpf_printk("enqueue %d on %d flags 0x%llx", p->pid, bpf_get_smp_processor_id(), enq_flags);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, 0, enq_flags);
}

void BPF_STRUCT_OPS(wakes_stopping, struct task_struct *p, bool runnable)
{
	bpf_printk("%d stops with slice %llu", p->pid, p->scx.slice);
}

DEFINE_SCHEDULER(wakes,
		 .select_cpu = (void *)wakes_select_cpu,
		 .enqueue = (void *)wakes_enqueue,
		 .stopping = (void *)wakes_stopping,
		 .flags = FLAGS,
		 .name = "wakes");
