/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

/* As many bytes of stack as a kernel has, 192, 160 and 160, and none of them counts for what is called later. */
static __noinline u64 third(u64 from)
{
	volatile u64 kept[20];

	kept[from & 15] = from;
	return kept[0] + kept[19];
}

static __noinline u64 second(u64 from)
{
	volatile u64 kept[20];

	kept[from & 15] = from;
	return third(kept[0]) + kept[19];
}

RUNNING()
{
	volatile u64 kept[24];

	kept[p->pid & 15] = p->pid;
	numbers[0] = second(kept[0]) + second(kept[1]) + kept[23];
}

SCHEDULER;
