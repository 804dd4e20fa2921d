/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	bpf_task_release(p);		/* refused: releases a reference that the program does not hold */
}

SCHEDULER;
