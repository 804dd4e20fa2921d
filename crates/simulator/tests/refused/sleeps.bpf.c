/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	scx_bpf_create_dsq(7, -1);		/* refused: scx_bpf_create_dsq() may sleep, and the program may not */
}

SCHEDULER;
