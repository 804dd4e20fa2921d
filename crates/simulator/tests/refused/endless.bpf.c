/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	for (;;)		/* refused: a loop does not end */
		numbers[1] += bpf_get_prandom_u32();
}

SCHEDULER;
