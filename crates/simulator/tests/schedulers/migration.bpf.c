/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prints for each task that is put into the queue how often migration is disabled for it, and
 * whether it has done so itself.
 */
#include "fairground.bpf.h"

void BPF_STRUCT_OPS(migration_enqueue, struct task_struct *p, u64 enq_flags)
{
	bool current = p == bpf_get_current_task_btf();

	bpf_printk("%s: %d levels, own %d", current ? "current" : "other", p->migration_disabled,
		   is_migration_disabled(p));
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

DEFINE_SCHEDULER(migration,
		 .enqueue = (void *)migration_enqueue,
		 .flags = SCX_OPS_ENQ_LAST,
		 .name = "migration");
