/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cpu_use_8.h - CPU use in ULE of FreeBSD 8: a thread is charged each tick of hz that finds it
 * running
 */
#pragma once

#include "ule.h"

/*
 * sched_pctcpu_update(): cuts the window back to 10 s, if it has become long or nothing has been
 * counted for a while.
 */
static __noinline void sched_pctcpu_update_8(struct td_sched *ts, u64 t)
{
	u64 targ = sched_tick_targ(), total = ts->ltick - ts->ftick;

	if (!ts->ticks || (t < ts->ltick + hz / 10 && total < sched_tick_max()))
		return;
	if (t < ts->ltick + targ)
		ts->ticks = ts->ticks / (t - ts->ftick ?: 1) * targ;
	else
		ts->ticks = 0;
	ts->ltick = t;
	ts->ftick = t - targ;
}

/* sched_tick() for all ticks since the last one that counted */
static __always_inline void sched_tick_8(struct td_sched *ts, u64 t)
{
	u64 full = ts->ftick + sched_tick_max() + 1;

	if (ts->ltick < full && full <= t) {
		ts->ticks += (full - ts->ltick) << SCHED_TICK_SHIFT;
		ts->ltick = full;
		sched_pctcpu_update_8(ts, full);
	}
	if (t > ts->ltick) {
		ts->ticks += (t - ts->ltick) << SCHED_TICK_SHIFT;
		ts->ltick = t;
	}
}
