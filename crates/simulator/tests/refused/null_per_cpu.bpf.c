/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct value *value = bpf_map_lookup_percpu_elem(&per_cpu, &zero, 1);

	value->numbers[3] = 1;		/* refused: a value of map per_cpu may be NULL */
}

SCHEDULER;
