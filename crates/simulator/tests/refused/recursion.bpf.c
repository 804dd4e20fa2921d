/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

static __noinline u64 deeper(u64 depth)		/* refused: these functions call each other: deeper */
{
	barrier();
	return depth ? deeper(depth / 2) + numbers[depth & 3] : 0;
}

RUNNING()
{
	numbers[0] = deeper(p->pid);
}

SCHEDULER;
