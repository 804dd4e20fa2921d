/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nice.h - nice values and the weights that CFS and its descendants give them
 */
#pragma once

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "kernel_constants.h"

/* Weight of nice 0 */
#define NICE_0_WEIGHT 1024

/* Weight by nice + 20: 1024 at nice 0, about a factor of 1.25 from step to step. */
static const u32 nice_to_weight[NICE_WIDTH] = {
	88761, 71755, 56483, 46273, 36291,
	29154, 23254, 18705, 14949, 11916,
	9548,  7620,  6100,  4904,  3906,
	3121,  2501,  1991,  1586,  1277,
	1024,  820,   655,   526,   423,
	335,   272,   215,   172,   137,
	110,   87,    70,    56,    45,
	36,    29,    23,    18,    15,
};

/* The nice value of a task, -20 to 19; real-time tasks have one for when they are ordinary. */
static __always_inline int task_nice(const struct task_struct *p)
{
	int nice = p->static_prio - DEFAULT_PRIO;

	if (nice < MIN_NICE)
		return MIN_NICE;
	if (nice > MAX_NICE)
		return MAX_NICE;
	return nice;
}

/* The same for schedulers older than SCHED_IDLE, which counts as the weakest nice value. */
static __always_inline s32 nice_of(const struct task_struct *p)
{
	return p->policy == SCHED_IDLE ? MAX_NICE : task_nice(p);
}

/* The static priority for them, 100 to 139 */
static __always_inline s32 static_prio_of(const struct task_struct *p)
{
	return DEFAULT_PRIO + nice_of(p);
}

/* Weight of an ordinary task of this nice value. */
static __always_inline u32 weight_of_nice(int nice)
{
	u32 index = nice - MIN_NICE;

	return nice_to_weight[index < NICE_WIDTH ? index : NICE_WIDTH - 1];
}
