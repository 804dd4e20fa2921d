/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	bpf_task_release(p);		/* refused: releases what the program has no reference to */
}

SCHEDULER;
