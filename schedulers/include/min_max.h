/* SPDX-License-Identifier: GPL-2.0-or-later */
/* min_max.h - the smaller and the larger of two numbers */
#ifndef FAIRGROUND_MIN_MAX_H
#define FAIRGROUND_MIN_MAX_H

static __always_inline __attribute__((unused)) u64 min(u64 a, u64 b)
{
	return a < b ? a : b;
}

static __always_inline __attribute__((unused)) u64 max(u64 a, u64 b)
{
	return a > b ? a : b;
}

#endif /* FAIRGROUND_MIN_MAX_H */
