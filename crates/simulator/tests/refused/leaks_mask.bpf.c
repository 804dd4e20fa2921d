/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();		/* refused: the reference that scx_bpf_get_idle_cpumask() returned */

	numbers[0] = bpf_cpumask_weight(idle);
}

SCHEDULER;
