/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Goes ROUNDS times through a loop whenever a task begins to run. The kernel's defaults schedule.
 */
#include "fairground.bpf.h"

static u64 total;

static int add(u32 round, u64 *sum)
{
	*sum += round;
	return 0;
}

void BPF_STRUCT_OPS(loop_running, struct task_struct *p)
{
	u64 sum = 0;

	bpf_loop(ROUNDS, add, &sum, 0);
	total += sum;
}

DEFINE_SCHEDULER(loop, .running = (void *)loop_running, .name = "loop");
