/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	p->static_prio = 100;		/* refused: this part of struct task_struct cannot be written */
}

SCHEDULER;
