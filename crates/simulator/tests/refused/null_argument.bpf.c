/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	struct bpf_cpumask *mask = bpf_cpumask_create();

	bpf_cpumask_set_cpu(0, mask);		/* refused: argument 2 of bpf_cpumask_set_cpu() may be NULL */
	if (mask)
		bpf_cpumask_release(mask);
}

SCHEDULER;
