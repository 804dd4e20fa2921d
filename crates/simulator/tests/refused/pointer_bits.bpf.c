/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct value *value = bpf_map_lookup_elem(&array, &zero);
	u64 bits = (u64)value;

	if (!value)
		return;
	barrier_var(bits);
	bits &= ~63ULL;		/* refused: arithmetic on the bits of a pointer */
	*(u64 *)bits = 1;
}

SCHEDULER;
