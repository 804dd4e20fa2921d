/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	*(volatile u64 *)&array = 1;		/* refused: map array is written as if it were a value */
}

SCHEDULER;
