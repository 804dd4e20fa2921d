/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct locked *value = bpf_map_lookup_elem(&locks, &zero);

	if (!value)
		return;
	bpf_spin_lock(&value->lock);		/* refused: the spin lock is not left */
	value->number++;
}

SCHEDULER;
