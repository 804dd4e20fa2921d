/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	numbers[(u64)p->pid] = 1;		/* refused: nothing bounds an offset into the global variables in .bss */
}

SCHEDULER;
