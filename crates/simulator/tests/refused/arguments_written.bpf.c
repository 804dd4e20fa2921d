/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	ctx[0] = 0;		/* refused: the arguments of a callback cannot be written */
}

SCHEDULER;
