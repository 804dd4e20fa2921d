/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct value *value = bpf_map_lookup_elem(&array, &zero);

	if (value)
		numbers[0] = scx_bpf_task_cpu((void *)value);		/* refused: not a struct task_struct of the kernel */
}

SCHEDULER;
