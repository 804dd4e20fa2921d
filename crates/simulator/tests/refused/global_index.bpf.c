/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	u32 index = p->pid & 0xffff;

	before[index] = 1;		/* refused: outside of the global variables in .bss */
}

SCHEDULER;
