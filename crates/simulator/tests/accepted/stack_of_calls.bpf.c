/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "stack_of_calls.h"

/* All of a kernel's bytes of stack, 192 beside twice 160; none counts for what is called later. */
RUNNING()
{
	volatile u64 kept[24];

	kept[p->pid & 15] = p->pid;
	numbers[0] = second(kept[0]) + second(kept[1]) + kept[23];
}

SCHEDULER;
