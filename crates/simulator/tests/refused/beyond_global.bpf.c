/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	*(volatile u64 *)((void *)after + 4096) = 1;		/* refused: outside of the global variables in .bss */
}

SCHEDULER;
