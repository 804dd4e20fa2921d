/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct value *value = bpf_map_lookup_elem(&array, &zero);

	if (value)
		bpf_probe_read_kernel(value, 64, p);		/* refused: argument 1 of bpf_probe_read_kernel() */
}

SCHEDULER;
