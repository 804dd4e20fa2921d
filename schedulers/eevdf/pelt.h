/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pelt.h - per-entity load tracking: averages over the recent past, as in Linux since 3.8
 *
 * Time is cut into periods of 2^20 ns, and an event n periods ago counts y^n, where y^32 = 1/2. So
 * an average loses half of its value in 32 periods, about 34 ms. If the averaged value stays the
 * same for some time, the average after that is
 *
 *	value' = target - (target - value) * y^(time / period)
 *
 * which is what these functions compute, at any time and in one step. Within a period the curve is
 * a straight line. Averages have PELT_SHIFT fraction bits. Pure functions.
 */
#pragma once

#include "fairground.bpf.h"

/* Fraction bits of an average */
#define PELT_SHIFT 10
/* Bits of a period in ns; periods that halve the past's weight; fraction bits of such a weight */
#define PELT_PERIOD_SHIFT 20
#define PELT_HALF_LIFE 32
#define PELT_FACTOR_SHIFT 24

/* y^n * 2^24 for n periods, y^32 = 1/2 */
static const u32 pelt_factors[PELT_HALF_LIFE] = {
	16777216, 16417715, 16065917, 15721658, 15384775, 15055111, 14732511, 14416824,
	14107901, 13805598, 13509772, 13220286, 12937002, 12659789, 12388516, 12123055,
	11863283, 11609078, 11360319, 11116891, 10878679, 10645571, 10417458, 10194234,
	9975792, 9762032, 9552851, 9348154, 9147842, 8951823, 8760003, 8572295,
};

/* The part of the past that is left after @time nanoseconds, out of 2^24. */
static __always_inline u64 pelt_factor(u64 time)
{
	u64 periods = time >> PELT_PERIOD_SHIFT, rest = time & ((1ULL << PELT_PERIOD_SHIFT) - 1);
	u64 factor;

	if (periods >= PELT_FACTOR_SHIFT * PELT_HALF_LIFE)
		return 0;

	factor = pelt_factors[periods % PELT_HALF_LIFE] >> (periods / PELT_HALF_LIFE);
	return factor - (factor * (pelt_factors[0] - pelt_factors[1]) >> PELT_FACTOR_SHIFT) * rest /
			(1ULL << PELT_PERIOD_SHIFT);
}

/*
 * The average @value (with fraction) after the time of @factor with its input at @target (without).
 * Both below 2^29.
 */
static __always_inline u64 pelt_average(u64 value, u64 target, u64 factor)
{
	target <<= PELT_SHIFT;
	if (value >= target)
		return target + ((value - target) * factor >> PELT_FACTOR_SHIFT);
	return target - ((target - value) * factor >> PELT_FACTOR_SHIFT);
}
