/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	u64 sum = 0;
	struct value value = {};

	bpf_map_update_elem(&array, &zero, (void *)&value + 16, 0);		/* refused: argument 3 of bpf_map_update_elem() */
}

SCHEDULER;
