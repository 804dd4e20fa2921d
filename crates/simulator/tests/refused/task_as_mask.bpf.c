/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	numbers[0] = bpf_cpumask_first((void *)p);		/* refused: is a struct task_struct, and not a struct cpumask */
}

SCHEDULER;
