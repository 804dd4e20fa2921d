/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A value that only the loader knows decides: seen when the program has run. */
#include "one_callback.h"

const volatile bool careful;

RUNNING()		/* refused: ends without releasing a spin lock */
{
	u32 key = 0;
	struct locked *locked = bpf_map_lookup_elem(&locks, &key);

	if (!locked)
		return;
	bpf_spin_lock(&locked->lock);
	locked->number++;
	if (careful)
		bpf_spin_unlock(&locked->lock);
}

SCHEDULER;
