/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fixed_point.h - powers and logarithms of two without floating point
 *
 * Fractions are in units of 2^-32, logarithms in units of 2^-16. Pure functions.
 */
#pragma once

#include "fairground.bpf.h"

#define ONE (1ULL << 32)
#define LN_2 2977044472ULL

/*
 * Zero, but unknown to the verifier, which would follow a sum that starts from a known number
 * through every iteration of a loop.
 */
static volatile u64 unknown_zero;

/*
 * 2^(-time / half life): the part left after @time of something that halves in @half_life. Whole
 * half lives are shifts; the rest is the series of e^-x, whose terms beyond the eighth are below
 * 2^-24.
 */
__noinline u64 decay_over(u64 time, u64 half_life)
{
	u64 life = half_life ?: NSEC_PER_SEC;
	u64 halvings = time / life;
	u64 x, sum = ONE;

	if (halvings >= 32)
		return 0;
	x = (((time % life) << 26) / life << 6) * (LN_2 >> 1) >> 31;
	sum = ONE - (x * sum >> 32) / 8;
	sum = ONE - (x * sum >> 32) / 7;
	sum = ONE - (x * sum >> 32) / 6;
	sum = ONE - (x * sum >> 32) / 5;
	sum = ONE - (x * sum >> 32) / 4;
	sum = ONE - (x * sum >> 32) / 3;
	sum = ONE - (x * sum >> 32) / 2;
	sum = ONE - (x * sum >> 32);
	return sum >> halvings;
}

/* log2(@value), @value >= 1: the integer part by shifts, then one bit for each squaring. */
__noinline u64 log2_of(u64 value)
{
	u64 result = unknown_zero;
	int i;

	bpf_for(i, 0, 64) {
		if (value < ONE)
			break;
		value >>= 1;
		result += 1 << 16;
	}
	bpf_for(i, 0, 32) {
		if (value >= ONE >> 1 || !value)
			break;
		value <<= 1;
		result -= 1 << 16;
	}
	/* Now value / 2^31 is in [1, 2) */
	result += 31 << 16;
	bpf_for(i, 0, 16) {
		value = value * value >> 31;
		if (value >= ONE) {
			value >>= 1;
			result += 1 << (15 - i);
		}
	}
	return result;
}
