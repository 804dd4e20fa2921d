/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	u32 beyond = 4;
	struct value *value = bpf_map_lookup_elem(&array, &beyond);

	value->numbers[0]++;		/* refused: a value of map array may be NULL */
}

SCHEDULER;
