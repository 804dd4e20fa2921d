/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct value *value = bpf_map_lookup_elem(&array, &zero);

	if (value)
		bpf_probe_read_kernel(value, bpf_get_prandom_u32(), p);		/* refused: nothing bounds the size */
}

SCHEDULER;
