/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Elements of arrays that constant keys on the stack name are there: none is tested for NULL. */
#include "one_callback.h"

RUNNING()
{
	u32 first = 0, last = 1;
	struct value *value = bpf_map_lookup_elem(&array, &first);

	value->numbers[0]++;
	value = bpf_map_lookup_elem(&per_cpu, &first);
	value->numbers[1]++;
	value = bpf_map_lookup_elem(&array, &last);
	value->numbers[2]++;
}

SCHEDULER;
