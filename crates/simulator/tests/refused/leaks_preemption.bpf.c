/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	bpf_preempt_disable();		/* refused: the section without preemption is not left */
	numbers[0]++;
}

SCHEDULER;
