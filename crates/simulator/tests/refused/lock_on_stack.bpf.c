/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct bpf_spin_lock lock = {};

	bpf_spin_lock(&lock);		/* refused: argument 1 of bpf_spin_lock() is not in a map */
	bpf_spin_unlock(&lock);
}

SCHEDULER;
