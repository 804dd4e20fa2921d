/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct value *value = bpf_map_lookup_elem(&array, &zero);

	if (value)
		*(u64 *)value->numbers[0] = 1;		/* refused: a number is used as a pointer */
}

SCHEDULER;
