/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct value *value = bpf_map_lookup_elem(&array, &zero);

	if (value)
		((volatile u64 *)value->numbers)[-1] = 1;		/* refused: outside of a value of map array */
}

SCHEDULER;
