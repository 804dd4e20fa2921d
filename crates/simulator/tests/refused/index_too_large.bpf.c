/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct value *value = bpf_map_lookup_elem(&array, &zero);
	u32 index = p->pid;

	if (value && index < 2000)
		value->numbers[index] = 1;		/* refused: outside of the memory that bpf_map_lookup_elem() returned */
}

SCHEDULER;
