/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	u64 *record = bpf_ringbuf_reserve(&records, 8, 0);

	*record = 1;		/* refused: the memory may be NULL */
	bpf_ringbuf_submit(record, 0);
}

SCHEDULER;
