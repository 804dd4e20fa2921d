/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	u64 number;

	asm volatile("%0 = r9" : "=r"(number));		/* refused: r9 is used before it is set */
	numbers[0] = number;
}

SCHEDULER;
