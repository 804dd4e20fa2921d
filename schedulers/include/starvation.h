/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * starvation.h - tasks that wait too long
 *
 * Old schedulers may let a task wait for ever: behind real-time tasks, behind better priorities, or
 * on a CPU that the others forget. The kernel's watchdog ends a scheduler for that after 30 s. So a
 * CPU occasionally looks, before its search, for tasks that have waited for starvation_limit: the
 * one that has waited longest goes first, for a tick. Times are in nanoseconds, the limit in
 * milliseconds.
 */
#pragma once

#include "fairground.bpf.h"

#ifndef STARVATION_LIMIT
#define STARVATION_LIMIT 15000
#endif

/* How long a task may wait, ms; 0: for ever */
const volatile u32 starvation_limit = STARVATION_LIMIT;

/*
 * How often a CPU looks. Each look rescues one task: 150 in the 15 s that are left until the
 * watchdog acts.
 */
#define STARVATION_CHECK_INTERVAL (100 * NSEC_PER_MSEC)

/* How long a task has waited beyond the limit; 0 if it has not. */
static __always_inline u64 starved_for(u64 waiting_since, u64 now)
{
	if (!starvation_limit)
		return 0;
	return elapsed(waiting_since + starvation_limit * NSEC_PER_MSEC, now);
}

/* Whether a CPU whose next look is due at @check_at should look now. */
static __always_inline bool starvation_check_is_due(u64 *check_at, u64 now)
{
	if (!starvation_limit || time_before(now, *check_at))
		return false;
	*check_at = now + STARVATION_CHECK_INTERVAL;
	return true;
}
