/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct task_struct *other = bpf_task_from_pid(1);		/* refused: the reference that bpf_task_from_pid() returned */

	if (other)
		numbers[0] = other->pid;
}

SCHEDULER;
