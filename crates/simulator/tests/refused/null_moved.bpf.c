/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct value *value = bpf_map_lookup_elem(&array, &zero);
	u64 *number = (void *)value + 8;		/* refused: arithmetic on a pointer that may be NULL and is not tested */

	barrier_var(number);
	if (value)
		*number = 1;
}

SCHEDULER;
