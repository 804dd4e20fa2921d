/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fairground.bpf.h"

u64 cookie;

void BPF_STRUCT_OPS(tracing_helper_running, struct task_struct *p)
{
	if (p->scx.weight > 5000)
		cookie = bpf_get_attach_cookie((void *)ctx); /* refused: not for callbacks */
}

DEFINE_SCHEDULER(tracing_helper, .running = (void *)tracing_helper_running, .name = "tracing_helper");
