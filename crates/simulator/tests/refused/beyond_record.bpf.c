/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	u64 *record = bpf_ringbuf_reserve(&records, 8, 0);

	if (!record)
		return;
	((volatile u64 *)record)[1] = 1;		/* refused: outside of the memory, which has 8 */
	bpf_ringbuf_submit(record, 0);
}

SCHEDULER;
