/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	numbers[0] = ctx[1];		/* refused: outside of the callback's arguments */
}

SCHEDULER;
