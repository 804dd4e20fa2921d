/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct task_struct *other = bpf_task_from_pid(1);

	numbers[0] = other->pid;		/* refused: the pointer to struct task_struct may be NULL */
	bpf_task_release(other);
}

SCHEDULER;
