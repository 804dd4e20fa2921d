/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	*(volatile u64 *)&constants[1] = 1;		/* refused: .rodata is constant and cannot be written */
}

SCHEDULER;
