/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * idle_tick.h - the tick of idle CPUs, which get none from the kernel
 *
 * It wakes those whose balancing is due, so that they look for tasks, and notices tasks that wait
 * behind a real-time task that took an idle CPU. ops.init() starts it: init_idle_tick() ?:
 * start_idle_tick(). The scheduler's struct run_queue has exists besides what runnable_load.h
 * needs.
 */
#pragma once

#include "runnable_load.h"
#include "topology.h"
#include "cpus_and_ticks.h"

/* Can balancing find anything? */
static bool worth_balancing(void);
static bool balancing_is_due(const struct run_queue *rq, u64 now);

/* An idle CPU would look for tasks, and there are none to find. */
static void balance_in_vain(struct run_queue *rq, u64 now);

static bool idle_balance_tick(void)
{
	u64 now = scx_bpf_now();
	struct run_queue *rq;
	bool worth;
	s32 cpu;

	bpf_rcu_read_lock();
	for_each_rq(rq, cpu, nr_cpus)
		notice_real_time(rq, now);
	bpf_rcu_read_unlock();
	worth = worth_balancing();
	for_each_rq(rq, cpu, nr_cpus) {
		if (!rq->exists || rq->nr_running || !balancing_is_due(rq, now))
			continue;
		if (worth)
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		else
			balance_in_vain(rq, now);
	}
	return true;
}

DEFINE_TIMER(idle_tick, idle_balance_tick, tick_nsec)
