/* SPDX-License-Identifier: GPL-2.0-or-later */
/* min_max.h - the smaller and the larger of two numbers */
#pragma once

static __always_inline u64 min(u64 a, u64 b)
{
	return a < b ? a : b;
}

static __always_inline u64 max(u64 a, u64 b)
{
	return a > b ? a : b;
}
