/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	scx_bpf_task_running((void *)bpf_get_current_task());		/* refused: argument 1 of scx_bpf_task_running() is a number */
}

SCHEDULER;
