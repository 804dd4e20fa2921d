/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

static __noinline struct value *find(void)
{
	return bpf_map_lookup_elem(&array, &zero);
}

RUNNING()
{
	find()->numbers[0] = 1;		/* refused: a value of map array may be NULL */
}

SCHEDULER;
