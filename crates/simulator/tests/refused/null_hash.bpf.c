/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct value *value = bpf_map_lookup_elem(&hash, &zero);

	numbers[0] = value->numbers[1];		/* refused: a value of map hash may be NULL */
}

SCHEDULER;
