/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	u64 *record = bpf_ringbuf_reserve(&records, 8, 0);		/* refused: the reference that bpf_ringbuf_reserve() returned */

	if (record)
		*record = 1;
}

SCHEDULER;
