/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct locked *value = bpf_map_lookup_elem(&locks, &zero);

	if (!value)
		return;
	bpf_spin_lock(&value->lock);
	value->number = bpf_ktime_get_ns();		/* refused: bpf_ktime_get_ns() is called while a spin lock is held */
	bpf_spin_unlock(&value->lock);
}

SCHEDULER;
