/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tick_counter.h - a task's quantum in ticks, as Linux counted it up to 2.4
 *
 * A task has a counter: the ticks it may still run. Every timer interrupt takes one from the
 * counter of the task it finds running; no other task pays, however long it ran. Once all runnable
 * tasks have used up theirs an epoch begins: every task keeps half of its remaining ticks and gets
 * a new quantum. The ticks are those of virtual_ticks.h.
 */
#pragma once

#include "fairground.bpf.h"

struct tick_counter {
	/* Ticks left of the quantum */
	s32 left;
	/*
	 * Since the task was given its CPU: a tick has taken the last one, or came when none was
	 * left. An epoch does not change that
	 */
	bool used_up;
	bool overdrawn;
	bool running;
	/* Time up to which a running task has paid its ticks, nanoseconds */
	u64 paid_until;
};

/* The remaining ticks at @now, after paying the ticks until then. */
static __always_inline s32 ticks_left_at(const struct tick_counter *counter, u64 now)
{
	s64 left = counter->left;

	if (counter->running)
		left -= ticks_between(counter->paid_until, now);
	return left > 0 ? left : 0;
}

/* Pays the ticks since the last call. */
static __always_inline void pay_ticks(struct tick_counter *counter, u64 now)
{
	s64 ticks;

	if (!counter->running || !time_before(counter->paid_until, now))
		return;
	ticks = ticks_between(counter->paid_until, now);
	counter->paid_until = now;
	if (ticks && ticks >= counter->left)
		counter->used_up = true;
	if (ticks > counter->left)
		counter->overdrawn = true;
	counter->left = ticks < counter->left ? counter->left - ticks : 0;
}

/* The task is given a CPU, or starts its turn again. */
static __always_inline void start_paying_ticks(struct tick_counter *counter, u64 now)
{
	counter->running = true;
	counter->used_up = false;
	counter->overdrawn = false;
	counter->paid_until = now;
}

/* A new epoch: half of the remaining ticks, and a quantum. */
static __always_inline void refill_ticks(struct tick_counter *counter, s32 quantum, u64 now)
{
	pay_ticks(counter, now);
	counter->left = (counter->left >> 1) + quantum;
}

/* Lets @p run until the @ticks-th tick from now, or at least the next one. */
static __always_inline void run_for_ticks(struct task_struct *p, s32 ticks, u64 now)
{
	scx_bpf_task_set_slice(p, time_to_tick(now, ticks > 0 ? ticks : 1));
}
