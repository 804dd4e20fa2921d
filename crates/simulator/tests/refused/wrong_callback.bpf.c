/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	scx_bpf_dispatch_cancel();		/* refused: calling kernel function scx_bpf_dispatch_cancel is not allowed in ops.running() */
}

SCHEDULER;
