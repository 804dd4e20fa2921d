/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Two functions that call one another, with 160 bytes of stack each. */
#include "one_callback.h"

static __noinline u64 third(u64 from)
{
	volatile u64 kept[20];

	kept[from & 15] = from;
	return kept[0] + kept[19];
}

static __noinline u64 second(u64 from)
{
	volatile u64 kept[20];

	kept[from & 15] = from;
	return third(kept[0]) + kept[19];
}
