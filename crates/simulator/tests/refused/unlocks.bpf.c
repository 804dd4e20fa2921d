/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct locked *value = bpf_map_lookup_elem(&locks, &zero);

	if (value)
		bpf_spin_unlock(&value->lock);		/* refused: leaves the spin lock, which the program is not in */
}

SCHEDULER;
