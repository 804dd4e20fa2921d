/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fair_frequency.h - what the frequencies of CPUs mean for the load averages of Linux 7.3, and
 * these for the frequencies
 *
 * Averages go by a clock that is as slow as the CPU computes, by capacity and frequency, and that
 * catches up when the CPU is idle. So they come to the same at each frequency
 * (kernel/sched/pelt.h). The fair class tells the governor when utilization has changed, and
 * schedutil finds the frequency from it (kernel/sched/cpufreq_schedutil.c): a full sched_ext
 * scheduler has to say instead what is utilized. Where there are no clocks, nothing of this
 * happens.
 */
#pragma once

#include "eevdf.h"

/* A first wake-up from a wait for a disk raises utilization to this, further ones double it */
#define IOWAIT_BOOST_MIN (SCHED_CAPACITY_SCALE / 8)

/* How often idle CPUs' averages are brought up to date (LOAD_AVG_PERIOD) */
#define BLOCKED_PERIOD (32 * NSEC_PER_MSEC)

/* From this utilization on, of 1024, a CPU counts as always running */
#define NO_IDLE_TIME_UTIL 1012

/* ---- The clock of the averages --------------------------------------------------------------- */

/* Averages serve balancing between CPUs, and the frequency. */
static __always_inline bool tracks_load(void)
{
	return nr_cpus != 1 || topology_nr_clocks;
}

/*
 * A CPU's clock for averages at @now. What is called where there are clocks is verified once and
 * has a stack of its own: that of its callers would become too large.
 */
static __always_inline u64 clock_by_frequency(const struct run_queue *cfs_rq, u64 now)
{
	u64 clock = now;

	if (!cfs_rq->idle && time_before(cfs_rq->clock_task, now))
		clock = cfs_rq->clock_pelt +
			((now - cfs_rq->clock_task) * cfs_rq->capacity / SCHED_CAPACITY_SCALE *
			 scx_bpf_cpuperf_cur(cfs_rq->cpu) / SCHED_CAPACITY_SCALE);
	else if (!cfs_rq->idle)
		clock = cfs_rq->clock_pelt;
	return clock - cfs_rq->lost_idle_time;
}

__noinline u64 scaled_clock(const struct run_queue *cfs_rq __arg_nonnull, u64 now)
{
	return clock_by_frequency(cfs_rq, now);
}

static __always_inline u64 rq_clock_pelt(const struct run_queue *cfs_rq, u64 now)
{
	return topology_nr_clocks ? scaled_clock(cfs_rq, now) : now;
}

__noinline u64 scaled_clock_of(s32 cpu, u64 now)
{
	const struct run_queue *cfs_rq = run_queue_of(cpu);

	return cfs_rq ? clock_by_frequency(cfs_rq, now) : now;
}

/* The same for the CPU of which @cpu is one more; without one, averages go by the time. */
static __always_inline u64 clock_pelt_of(s32 cpu, u64 now)
{
	return topology_nr_clocks && cpu ? scaled_clock_of(cpu - 1, now) : now;
}

/* Lets the CPU's clock come to @now at its present frequency. */
static __always_inline void update_rq_clock_pelt(struct run_queue *cfs_rq, u64 now)
{
	if (!topology_nr_clocks || !time_before(cfs_rq->clock_task, now))
		return;
	cfs_rq->clock_pelt = rq_clock_pelt(cfs_rq, now) + cfs_rq->lost_idle_time;
	cfs_rq->clock_task = now;
}

/*
 * The CPU becomes idle or busy. Being slow has shortened its idle time, unless it would have had
 * none at full speed either.
 */
static __always_inline void idle_changes_clock(struct run_queue *cfs_rq, bool idle, u64 now)
{
	update_rq_clock_pelt(cfs_rq, now);
	if (!topology_nr_clocks || !idle)
		return;
	if (cfs_rq->util_avg >= (NO_IDLE_TIME_UTIL << PELT_SHIFT))
		cfs_rq->lost_idle_time += now - cfs_rq->clock_pelt;
	cfs_rq->clock_pelt = now;
}

/* What a running task uses of its CPU, by the clock of the averages. */
static __always_inline u32 running_util(const struct run_queue *cfs_rq)
{
	return topology_nr_clocks ? SCHED_CAPACITY_SCALE : cfs_rq->capacity;
}

/* ---- schedutil ------------------------------------------------------------------------------- */

static __always_inline u64 cpu_util_cfs_boost(const struct run_queue *cfs_rq, u64 now);

/*
 * The utilization that waits for disks ask for: doubled by each wake-up, halved by each other
 * update, none after a tick without any.
 */
static __always_inline u64 sugov_iowait_boost(struct run_queue *cfs_rq, bool iowait, u64 now)
{
	u64 boost = now - cfs_rq->sugov_last_update > tick_nsec ? 0 : cfs_rq->iowait_boost;

	if (iowait)
		boost = clamp(2 * boost, IOWAIT_BOOST_MIN, SCHED_CAPACITY_SCALE);
	else
		boost = boost / 2 < IOWAIT_BOOST_MIN ? 0 : boost / 2;
	cfs_rq->iowait_boost = boost;
	cfs_rq->sugov_last_update = now;
	return boost * cfs_rq->capacity / SCHED_CAPACITY_SCALE;
}

__noinline int sugov_update(struct run_queue *cfs_rq __arg_nonnull, bool iowait, u64 now)
{
	cfs_rq->decayed = false;
	scx_bpf_cpuperf_set(cfs_rq->cpu, max(cpu_util_cfs_boost(cfs_rq, now),
					     sugov_iowait_boost(cfs_rq, iowait, now)));
	return 0;
}

/* Asks for the frequency that the utilization needs. The CPU's run queue is locked, or none is. */
static __always_inline void cpufreq_update_util(struct run_queue *cfs_rq, bool iowait, u64 now)
{
	if (topology_nr_clocks)
		sugov_update(cfs_rq, iowait, now);
}

/* Does so if averages have changed enough: by a period, or a task from or to another CPU. */
static __always_inline void cfs_rq_util_change(struct run_queue *cfs_rq, u64 now)
{
	if (cfs_rq->decayed)
		cpufreq_update_util(cfs_rq, false, now);
}
