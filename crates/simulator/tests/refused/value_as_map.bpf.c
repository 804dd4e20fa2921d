/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct value *value = bpf_map_lookup_elem(&array, &zero);

	if (value)
		bpf_map_delete_elem(value, &zero);		/* refused: argument 1 of bpf_map_delete_elem() is not a map */
}

SCHEDULER;
