/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * virtual_ticks.h - the timer tick of an older kernel
 *
 * Schedulers before CFS charge time by sampling: the task that runs when the timer fires pays one
 * whole tick. The running kernel's tick has another rate, so the tick of the era is virtual: its
 * boundaries are the multiples of 1/hz on the global clock (scx_bpf_now()). A task that ran from
 * @start to @end has been hit by the boundaries in (start, end], and a quantum of k ticks ends at
 * the k-th boundary from now. A boundary that finds a task of another class hits nobody, as when
 * update_process_times() charged the task that the timer had interrupted. Times are in nanoseconds.
 */
#pragma once

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "kernel_constants.h"

/* Ticks per second, a tunable of the scheduler */
extern const volatile u32 hz;

/* Length of a tick. */
static __always_inline u64 tick_length(void)
{
	u64 rate = hz;

	return rate ? NSEC_PER_SEC / rate : NSEC_PER_SEC;
}

/* Number of the tick in which @now lies: the jiffies of the era, counted from the clock's zero. */
static __always_inline u64 tick_at(u64 now)
{
	return now / tick_length();
}

/* Whole ticks in @ms milliseconds. */
static __always_inline u64 ms_to_ticks(u64 ms)
{
	return ms * hz / 1000;
}

/* Tick boundaries in (start, end]; 0 if @end is earlier, as the clocks of two CPUs may differ. */
static __always_inline u64 ticks_between(u64 start, u64 end)
{
	u64 length = tick_length(), first = start / length, last = end / length;

	return last > first ? last - first : 0;
}

/* Time from @now to the @ticks-th multiple of @length after it; 0 for no ticks. */
static __always_inline u64 time_to_multiple(u64 now, u64 ticks, u64 length)
{
	return ticks ? (now / length + ticks) * length - now : 0;
}

/* The same for tick boundaries. */
static __always_inline u64 time_to_tick(u64 now, u64 ticks)
{
	return time_to_multiple(now, ticks, tick_length());
}
