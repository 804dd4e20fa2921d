/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct bpf_iter_num it;
	int *next;

	bpf_iter_num_new(&it, 0, 3);
	next = bpf_iter_num_next(&it);
	numbers[0] = *next;		/* refused: the memory may be NULL */
	bpf_iter_num_destroy(&it);
}

SCHEDULER;
