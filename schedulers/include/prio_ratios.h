/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * prio_ratios.h - the nice values of BFS and of its descendants
 *
 * A nice value is a distance of the virtual deadline: a base for the strongest, and 10 percent more for each further one, in
 * whole numbers. There are 41, since FreeBSD has nice 20. ops.init() calls fill_prio_ratios(PRIO_RATIO_BASE); then
 * prio_ratio(task_nice(p)) is the distance of a task.
 */
#pragma once

#define NR_PRIO_RATIOS 41
/* Where prio_ratios[] has nice 0 */
#define PRIO_RATIO_NICE_0 20

static u32 prio_ratios[NR_PRIO_RATIOS];

/* Fills the table: @base for nice -20, then eleven tenths of the one before. */
static __always_inline void fill_prio_ratios(u32 base)
{
	u32 ratio = base;
	s32 index;

	bpf_for(index, 0, NR_PRIO_RATIOS) {
		if (index >= 0 && index < NR_PRIO_RATIOS)
			prio_ratios[index] = ratio;
		ratio = ratio * 11 / 10;
	}
}

/* The distance of a nice value, in fractions of the base. */
static __always_inline u32 prio_ratio(s32 nice)
{
	u32 index = nice + PRIO_RATIO_NICE_0;

	return prio_ratios[index < NR_PRIO_RATIOS ? index : NR_PRIO_RATIOS - 1];
}
