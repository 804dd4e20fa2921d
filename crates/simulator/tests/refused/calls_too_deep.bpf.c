/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

#define LEVEL(name, next) static __noinline u64 name(u64 from) { return next(from + numbers[from & 3]) * 3; }

static __noinline u64 seventeenth(u64 from)
{
	return numbers[from & 3];
}

LEVEL(sixteenth, seventeenth)
LEVEL(fifteenth, sixteenth)
LEVEL(fourteenth, fifteenth)
LEVEL(thirteenth, fourteenth)
LEVEL(twelfth, thirteenth)
LEVEL(eleventh, twelfth)
LEVEL(tenth, eleventh)
LEVEL(ninth, tenth)
LEVEL(eighth, ninth)
LEVEL(seventh, eighth)
LEVEL(sixth, seventh)
LEVEL(fifth, sixth)
LEVEL(fourth, fifth)
LEVEL(third, fourth)
LEVEL(second, third)

RUNNING()		/* refused: 17 functions deep are called, and the kernel allows 16 */
{
	numbers[0] = second(p->pid);
}

SCHEDULER;
