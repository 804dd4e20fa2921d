/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct value *value = bpf_map_lookup_elem(&array, &zero);
	int i;

	if (!value)
		return;
	bpf_for(i, 0, 5)
		((volatile u64 *)value->numbers)[i] = i;		/* refused: outside of the memory that bpf_map_lookup_elem() returned */
}

SCHEDULER;
