/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct locked *value = bpf_map_lookup_elem(&locks, &zero);

	if (value)
		*(volatile u32 *)&value->lock = 1;		/* refused: struct bpf_spin_lock cannot be written */
}

SCHEDULER;
