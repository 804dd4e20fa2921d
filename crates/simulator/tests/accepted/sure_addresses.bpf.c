/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An address in a section is not NULL: where a loop finds that it is, the mask need not be released,
 * in the first round or a later one.
 */
#include "one_callback.h"

static unsigned char bytes[64];

RUNNING()
{
	struct bpf_cpumask *mask = bpf_cpumask_create();
	u32 i;

	if (!mask)
		return;
	bpf_for(i, 0, 1) {
		unsigned char *byte = bytes;

		barrier_var(byte);
		if (!byte)
			return;
		byte[i]++;
	}
	bpf_cpumask_release(mask);
}

SCHEDULER;
