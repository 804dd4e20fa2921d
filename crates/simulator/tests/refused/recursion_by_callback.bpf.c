/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

static long deeper(u32 index, void *context)
{
	bpf_loop(2, deeper, NULL, 0);		/* refused: these functions call each other: deeper */
	return 0;
}

RUNNING()
{
	bpf_loop(2, deeper, NULL, 0);
}

SCHEDULER;
