/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	u32 number;

	bpf_map_pop_elem(&queue, &number);		/* refused: argument 2 of bpf_map_pop_elem() */
	numbers[0] = number;
}

SCHEDULER;
