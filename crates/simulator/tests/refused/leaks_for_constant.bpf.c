/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A value that only the loader knows decides: seen when the program has run. */
#include "one_callback.h"

const volatile bool careful;

RUNNING()		/* refused: ends without releasing the reference that bpf_task_from_pid() returned */
{
	struct task_struct *task = bpf_task_from_pid(p->pid);

	if (!task)
		return;
	numbers[0] = task->pid;
	if (careful)
		bpf_task_release(task);
}

SCHEDULER;
