/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct kept *value = bpf_map_lookup_elem(&kept, &zero);
	struct task_struct *task;

	if (!value)
		return;
	task = value->task;
	if (task)
		bpf_task_release(task);		/* refused: releases a reference that the program does not hold */
}

SCHEDULER;
