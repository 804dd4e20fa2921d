/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct value *value = bpf_task_storage_get(&storage, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (value)
		((volatile u64 *)value->numbers)[5] = 1;		/* refused: outside of a value of map storage */
}

SCHEDULER;
