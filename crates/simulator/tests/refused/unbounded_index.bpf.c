/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct value *value = bpf_map_lookup_elem(&array, &zero);

	if (value)
		value->numbers[bpf_get_prandom_u32()] = 1;		/* refused: nothing bounds an offset into a value of map array */
}

SCHEDULER;
