/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct bpf_iter_num it;
	int *next;

	bpf_iter_num_new(&it, 0, 3);		/* refused: an iterator is not ended */
	next = bpf_iter_num_next(&it);
	if (next)
		numbers[0] = *next;
}

SCHEDULER;
