/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	unsigned long flags;

	bpf_local_irq_save(&flags);		/* refused: the section without interrupts is not left */
	numbers[0]++;
}

SCHEDULER;
