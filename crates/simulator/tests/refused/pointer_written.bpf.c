/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct kept *value = bpf_map_lookup_elem(&kept, &zero);

	if (value)
		*(void *volatile *)&value->task = p;		/* refused: a pointer that the kernel counts cannot be written */
}

SCHEDULER;
