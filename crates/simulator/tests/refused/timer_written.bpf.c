/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct timed *value = bpf_map_lookup_elem(&timers, &zero);

	if (value)
		*(volatile u64 *)&value->timer = 1;		/* refused: struct bpf_timer cannot be written */
}

SCHEDULER;
