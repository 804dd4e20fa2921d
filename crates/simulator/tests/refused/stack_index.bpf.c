/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	volatile u64 words[4] = {};

	words[(u32)p->pid & 1023] = 1;		/* refused: outside of the stack */
}

SCHEDULER;
