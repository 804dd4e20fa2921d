/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * virtual_runtime.h - arithmetic of virtual time, as in CFS
 *
 * The virtual time of a task is the time it ran, scaled by NICE_0_LOAD / weight, where NICE_0_LOAD
 * is the weight of nice 0 on the including file's scale. Values wrap around: compare them only with
 * time_before().
 */
#pragma once

#include "fairground.bpf.h"

#ifndef NICE_0_LOAD
#define NICE_0_LOAD NICE_0_WEIGHT
#endif

/* delta * NICE_0_LOAD / weight, rounded to nearest. */
static __always_inline u64 calc_delta_fair(u64 delta, u64 weight)
{
	if (weight == NICE_0_LOAD)
		return delta;
	return (delta * NICE_0_LOAD + weight / 2) / weight;
}

static __always_inline u64 max_vruntime(u64 a, u64 b)
{
	return time_before(a, b) ? b : a;
}

/* 1 + floor(log2(number of CPUs)): more CPUs, longer latencies. */
__noinline u32 scale_factor(u32 cpus)
{
	u32 i, factor = 1;

	bpf_for(i, 1, 16) {
		if (cpus >> i)
			factor++;
	}
	return factor;
}
