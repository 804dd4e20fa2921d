/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct task_struct *other = bpf_task_from_pid(1);

	if (!other)
		return;
	bpf_task_release(other);
	bpf_task_release(other);		/* refused: argument 1 of bpf_task_release() is a number */
}

SCHEDULER;
