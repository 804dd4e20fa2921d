/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct value *value = bpf_task_storage_get(&storage, p, NULL, 0);

	value->numbers[0] = 1;		/* refused: a value of map storage may be NULL */
}

SCHEDULER;
