/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * clocks.h - the clocks that give CPUs their frequencies, as read-only data that the loader fills
 * in before the scheduler is loaded
 *
 * Where the kernel sets no frequencies, or the loader does not know them, there are no clocks. See
 * topology.h for how the arrays grow.
 */
#pragma once

#include "topology.h"

/*
 * A clock (a cpufreq policy, a performance domain): its CPUs in clock_cpus[], its frequencies in
 * clock_steps[]
 */
struct cpu_clock {
	u16 first_cpu;
	u16 nr_cpus;
	u16 first_step;
	u16 nr_steps;
};

/* A frequency, in ascending order, as in the kernel's energy model (kernel/power/energy_model.c) */
struct clock_step {
	/* Capacity of a CPU at it */
	u32 performance;
	/* Ten times its power in microwatts for each unit of capacity; 0 if that is unknown */
	u32 cost;
};

const volatile u32 topology_nr_clocks;
const volatile u32 topology_nr_clock_cpus;
const volatile u32 topology_nr_clock_steps;

const volatile struct cpu_clock cpu_clocks[1] SEC(".rodata.cpu_clocks");
const volatile u16 clock_cpus[1] SEC(".rodata.clock_cpus");
const volatile struct clock_step clock_steps[1] SEC(".rodata.clock_steps");

/* Clock @number, or NULL. */
static __always_inline const volatile struct cpu_clock *clock_at(u32 number)
{
	return TOPOLOGY_ELEMENT(cpu_clocks, number, topology_nr_clocks);
}

static __always_inline const volatile struct clock_step *clock_step_at(u32 number)
{
	return TOPOLOGY_ELEMENT(clock_steps, number, topology_nr_clock_steps);
}

/* The CPU at place @number of clock_cpus[], or -1. */
static __always_inline s32 clock_cpu_at(u32 number)
{
	const volatile u16 *cpu = TOPOLOGY_ELEMENT(clock_cpus, number, topology_nr_clock_cpus);

	return cpu ? *cpu : -1;
}
