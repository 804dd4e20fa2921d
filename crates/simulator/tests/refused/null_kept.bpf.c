/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct kept *value = bpf_map_lookup_elem(&kept, &zero);

	if (value)
		numbers[0] = value->task->pid;		/* refused: the pointer to struct task_struct may be NULL */
}

SCHEDULER;
