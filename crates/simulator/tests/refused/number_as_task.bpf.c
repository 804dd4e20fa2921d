/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct task_struct *current = (void *)bpf_get_current_task();

	numbers[0] = current->pid;		/* refused: a number is used as a pointer */
}

SCHEDULER;
