/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * At each tick of CPU 0 it kicks CPU 1, and may wait for it.
 */
#include "fairground.bpf.h"

#ifndef WAIT
#define WAIT 0
#endif

void BPF_STRUCT_OPS(kick_waits_tick, struct task_struct *p)
{
	if (!bpf_get_smp_processor_id())
		scx_bpf_kick_cpu(1, SCX_KICK_PREEMPT | WAIT);
}

DEFINE_SCHEDULER(kick_waits,
		 .tick = (void *)kick_waits_tick,
		 .name = "kick_waits");
