/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Needs names that no kernel has, in code that a variable switches off. */
#include "fairground.bpf.h"

const volatile bool reach = REACH;

void bpf_get_task_exe_file(void) __ksym;

struct task_struct___other {
	int no_such_field;
} __attribute__((preserve_access_index));

void BPF_STRUCT_OPS(missing_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (reach) {
		bpf_get_task_exe_file();
		if (((struct task_struct___other *)p)->no_such_field)
			return;
	}
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

DEFINE_SCHEDULER(missing, .enqueue = (void *)missing_enqueue, .name = "missing");
