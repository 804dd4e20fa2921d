/* SPDX-License-Identifier: GPL-2.0-or-later */
/* CPUs that kick one another in a ring, and wait. */
#include "one_callback.h"

void BPF_STRUCT_OPS(waits_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = bpf_get_smp_processor_id();

	if (p->flags & PF_KTHREAD) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_INF, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
	scx_bpf_kick_cpu((cpu + 1) % scx_bpf_nr_cpu_ids(), SCX_KICK_WAIT);
}

DEFINE_SCHEDULER(waits, .enqueue = (void *)waits_enqueue, .timeout_ms = 1000, .name = "waits");
