/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	scx_bpf_task_running(NULL);		/* refused: argument 1 of scx_bpf_task_running() may be NULL */
}

SCHEDULER;
