/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fair_energy.h - energy-aware placement of the fair class of Linux 7.3
 *
 * On a machine whose CPUs differ in capacity and whose clocks all have an energy model, a task
 * wakes on the CPU where it costs least, as long as no CPU is overutilized: then load is balanced
 * instead. Names are those of kernel/sched/fair.c and include/linux/energy_model.h.
 */
#pragma once

#include "eevdf.h"
#include "fair_load.h"

/* sched_energy_present, and the root domain's overutilized; there is one root domain */
static bool energy_aware;
static bool rd_overutilized;

/*
 * Can it be? Not where threads share a core, and only if every CPU has an energy model
 * (sched_is_eas_possible(), build_perf_domains()).
 */
static __always_inline bool has_energy_model(void)
{
	const volatile struct clock_step *step;
	u32 i;

	if (!asym_active || smt_active || !topology_nr_clocks ||
	    topology_nr_clock_cpus != topology_nr_online)
		return false;
	bpf_for(i, 0, topology_nr_clock_steps) {
		step = clock_step_at(i);
		if (!step || !step->cost)
			return false;
	}
	return true;
}

/* Tasks wake where they cost least, and stay there. */
static __always_inline bool load_is_left_alone(void)
{
	return energy_aware && !rd_overutilized;
}

static __always_inline bool cpu_overutilized(const struct run_queue *cfs_rq, u64 now)
{
	return energy_aware && !fits_capacity(cpu_util_cfs(cfs_rq, now), cfs_rq->capacity);
}

static __always_inline void check_update_overutilized_status(const struct run_queue *cfs_rq,
							     u64 now)
{
	if (load_is_left_alone() && cpu_overutilized(cfs_rq, now))
		rd_overutilized = true;
}

/* @value with what a task adds to it, if it comes to the CPU, or without that, if it leaves it. */
static __always_inline u64 with_task(u64 value, u64 task, bool here, bool comes)
{
	if (comes)
		return here ? value : value + task;
	return here ? value - min(value, task) : value;
}

/* Utilization of a CPU when the waking task is on @dst_cpu, or nowhere if that is -1. */
static __always_inline u64 cpu_util(const struct run_queue *cfs_rq, const struct task_ctx *se,
				    s32 dst_cpu, bool boost, u64 now)
{
	bool here = se->pelt_cpu == cfs_rq->cpu + 1, comes = dst_cpu == cfs_rq->cpu;
	u64 util = with_task(cpu_util_avg(cfs_rq, now), se->util_avg >> PELT_SHIFT, here, comes);

	if (boost)
		util = max(util, with_task(cpu_runnable(cfs_rq, now), se->load_avg >> PELT_SHIFT,
					   here, comes));
	util = max(util, cfs_rq->util_est + (comes ? se->util_est >> PELT_SHIFT : 0));
	return min(util, cfs_rq->capacity);
}

/* Walk over the CPUs of clock @pd, a performance domain. */
#define for_each_rq_of_clock(cfs_rq, i, pd)						\
	bpf_for(i, (pd)->first_cpu, (pd)->first_cpu + (pd)->nr_cpus)			\
		if (!((cfs_rq) = run_queue_of(clock_cpu_at(i)))) {} else

/*
 * The CPUs of a domain: what they use without the task, and how much capacity they would have to
 * spare beside it where it fits.
 */
__noinline bool find_candidates(struct task_struct *p __arg_trusted,
				const struct task_ctx *se __arg_nonnull,
				struct energy_env *eenv __arg_nonnull, u32 number, s32 prev_cpu)
{
	const volatile struct cpu_clock *pd = clock_at(number);
	struct run_queue *cfs_rq;
	u32 i;

	eenv->pd_busy_time = 0;
	eenv->pd_cap = 0;
	eenv->prev_spare_cap = -1;
	eenv->max_spare_cap = -1;
	eenv->max_spare_cap_cpu = -1;
	if (!pd)
		return false;

	for_each_rq_of_clock(cfs_rq, i, pd) {
		u64 util = cpu_util(cfs_rq, se, cfs_rq->cpu, false, eenv->now);
		s64 spare = cfs_rq->capacity - util;

		eenv->pd_cap += cfs_rq->capacity;
		eenv->pd_busy_time += cpu_util(cfs_rq, se, -1, false, eenv->now);
		if (!bpf_cpumask_test_cpu(cfs_rq->cpu, p->cpus_ptr) ||
		    !fits_capacity(util, cfs_rq->capacity))
			continue;
		if (cfs_rq->cpu == prev_cpu) {
			eenv->prev_spare_cap = spare;
		} else if (spare > eenv->max_spare_cap) {
			eenv->max_spare_cap = spare;
			eenv->max_spare_cap_cpu = cfs_rq->cpu;
		}
	}
	return eenv->max_spare_cap >= 0 || eenv->prev_spare_cap >= 0;
}

/*
 * The highest utilization in the domain that the governor provides for, with the task on @dst_cpu.
 */
static __always_inline u64 eenv_pd_max_util(const struct energy_env *eenv,
					    const volatile struct cpu_clock *pd,
					    const struct task_ctx *se, s32 dst_cpu)
{
	struct run_queue *cfs_rq;
	u64 max_util = 0, util;
	u32 i;

	for_each_rq_of_clock(cfs_rq, i, pd) {
		util = cpu_util(cfs_rq, se, dst_cpu, true, eenv->now);
		util = cfs_rq->real_time ? cfs_rq->capacity :
					   min(util + util / 4, cfs_rq->capacity);
		max_util = max(max_util, util);
	}
	return max_util;
}

/*
 * Energy of the domain if the task is on @dst_cpu, or without it: cost at the lowest frequency that
 * suffices, times use.
 */
__noinline u64 compute_energy(const struct energy_env *eenv __arg_nonnull,
			      const struct task_ctx *se __arg_nonnull, u32 number, s32 dst_cpu)
{
	const volatile struct cpu_clock *pd = clock_at(number);
	const volatile struct clock_step *step;
	u64 busy_time = eenv->pd_busy_time, max_util, cost = 0;
	u32 i;

	if (!pd)
		return 0;
	max_util = eenv_pd_max_util(eenv, pd, se, dst_cpu);
	if (dst_cpu >= 0)
		busy_time = min(eenv->pd_cap, busy_time + eenv->task_busy_time);
	bpf_for(i, pd->first_step, pd->first_step + pd->nr_steps) {
		step = clock_step_at(i);
		if (!step)
			break;
		cost = step->cost;
		if (step->performance >= max_util)
			break;
	}
	return cost * busy_time;
}

/*
 * The CPU on which the waking task costs least: of each domain, its last CPU or the one with the
 * most capacity to spare may be that. Its last CPU, if no other is better.
 */
__noinline s32 find_energy_efficient_cpu(struct task_struct *p __arg_trusted,
					 const struct task_ctx *se __arg_nonnull,
					 struct energy_env *eenv __arg_nonnull, s32 prev_cpu)
{
	u64 prev_delta = ~0ULL, best_delta = ~0ULL, base_energy, energy;
	s32 best_energy_cpu = -1;
	u32 pd;

	eenv->now = scx_bpf_now();
	eenv->task_busy_time = task_util_est(se);
	if (!eenv->task_busy_time)
		return prev_cpu;

	bpf_for(pd, 0, topology_nr_clocks) {
		if (!find_candidates(p, se, eenv, pd, prev_cpu))
			continue;
		base_energy = compute_energy(eenv, se, pd, -1);
		if (eenv->prev_spare_cap >= 0) {
			energy = compute_energy(eenv, se, pd, prev_cpu);
			/* Utilization has changed meanwhile */
			if (energy < base_energy)
				return prev_cpu;
			prev_delta = energy - base_energy;
			best_delta = min(best_delta, prev_delta);
		}
		if (eenv->max_spare_cap <= eenv->prev_spare_cap)
			continue;
		energy = compute_energy(eenv, se, pd, eenv->max_spare_cap_cpu);
		if (energy < base_energy)
			return prev_cpu;
		if (best_energy_cpu >= 0 && energy - base_energy >= best_delta)
			continue;
		best_delta = energy - base_energy;
		best_energy_cpu = eenv->max_spare_cap_cpu;
	}
	return best_energy_cpu >= 0 && best_delta < prev_delta ? best_energy_cpu : prev_cpu;
}
