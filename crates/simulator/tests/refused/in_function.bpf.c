/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

static __noinline void put(struct value *value, u64 number)
{
	((volatile u64 *)value->numbers)[6] = number;		/* refused: outside of a value of map array */
}

RUNNING()
{
	struct value *value = bpf_map_lookup_elem(&array, &zero);

	if (value)
		put(value, 7);
}

SCHEDULER;
