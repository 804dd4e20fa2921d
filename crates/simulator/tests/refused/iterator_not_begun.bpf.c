/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct bpf_iter_num it = {};

	bpf_iter_num_next(&it);		/* refused: uses an iterator that was not begun */
}

SCHEDULER;
