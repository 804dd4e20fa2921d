/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	/* In the array, but no constant. */
	u32 key = p->pid & 3;
	struct value *value = bpf_map_lookup_elem(&array, &key);

	value->numbers[0]++;		/* refused: a value of map array may be NULL */
}

SCHEDULER;
