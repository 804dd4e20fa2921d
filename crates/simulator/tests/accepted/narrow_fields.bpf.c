/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fields of which Linux 7.3 has a byte and older kernels a number of four bytes. */
#include "one_callback.h"

struct task_struct___bytes {
	u8 on_cpu;
	u8 on_rq;
} __attribute__((preserve_access_index));

struct task_struct___numbers {
	int on_cpu;
	int on_rq;
} __attribute__((preserve_access_index));

RUNNING()
{
	struct task_struct___bytes *bytes = (void *)p;
	struct task_struct___numbers *numbers = (void *)p;

	if (bytes->on_rq != 1 || numbers->on_rq != 1)
		scx_bpf_error("on_rq is %d, %d", bytes->on_rq, numbers->on_rq);
	if (bytes->on_cpu != numbers->on_cpu)
		scx_bpf_error("on_cpu is %d, %d", bytes->on_cpu, numbers->on_cpu);
}

SCHEDULER;
