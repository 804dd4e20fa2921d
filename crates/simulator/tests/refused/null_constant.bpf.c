/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "refused.h"

RUNNING()
{
	scx_bpf_task_running(NULL);		/* refused: argument 1 of scx_bpf_task_running() may be NULL */
}

SCHEDULER;
