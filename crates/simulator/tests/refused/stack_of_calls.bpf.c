/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

/* 208, 160 and 160 bytes of stack: 16 more than a kernel has for them. */
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

RUNNING()		/* refused: take 528 bytes of stack together, and a kernel allows 512 */
{
	volatile u64 kept[26];

	kept[p->pid & 15] = p->pid;
	numbers[0] = second(kept[0]) + kept[25];
}

SCHEDULER;
