/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * topology.h - the machine's topology, for schedulers that balance by it
 *
 * The kernel tells a sched_ext scheduler little about cores, caches and nodes. So the loader, which
 * knows the machine, fills in read-only variables by name before it loads the scheduler, in the
 * simulator and the kernel alike. Include this header only where topology is used.
 *
 *   topology_nr_cpus, _cores, _llcs, _nodes, _packages
 *                    how many; ids are dense, 0 to number - 1. CPU ids are the kernel's:
 *                    topology_nr_cpus is nr_cpu_ids, and one without a CPU that was online when the
 *                    scheduler was loaded has capacity 0.
 *   topology_nr_online
 *                    how many CPUs were online then
 *   topology_cgroup_mode
 *                    how a control group's weight grows with CPUs and tasks, as numbered in
 *                    control_groups.h: not topology, but the machine's
 *   cpu_topology[]   one record per CPU id, topology_nr_cpus of them
 *   node_distance[]  topology_nr_nodes rows of topology_nr_nodes distances, 10 is local (as in
 *                    ACPI's SLIT)
 *
 * Both arrays are compiled with one element, each in a section of its own; the loader extends the
 * section to the number of elements (bpf_map__set_value_size()), so a small machine costs little
 * and the only limit for a large one is 65,535 CPUs. If the loader fills in nothing,
 * topology_nr_cpus is 0 and all functions below return "unknown" (NULL or negative); a scheduler
 * then takes the machine to be flat.
 *
 * CPUs also have an order: the depth-first order of the topology tree (hwloc's logical index). In
 * that order the CPUs of a core, a last-level cache, a node or a package are adjacent, so they are
 * a span of positions, and the cost of scanning them with for_each_cpu_in_span() depends only on
 * their number. CPUs that are offline come last, in no group.
 */
#pragma once

#include "fairground.bpf.h"

/* CPUs that are adjacent in the order: positions first to first + count - 1. */
struct topology_span {
	u16 first;
	u16 count;
};

/* Where a CPU is. The loaders write this layout: 16-bit numbers without gaps. */
struct cpu_topology {
	u16 core;
	u16 llc;
	u16 node;
	u16 package;
	/* Capacity relative to the fastest CPU, which has 1024; 0 if the CPU does not exist */
	u16 capacity;
	/* This CPU's position in the order */
	u16 position;
	/* The CPU at the position that equals this record's index: the inverse of the order */
	u16 cpu_at_position;
	struct topology_span core_cpus;
	struct topology_span llc_cpus;
	struct topology_span node_cpus;
	struct topology_span package_cpus;
};

const volatile u32 topology_nr_cpus;
const volatile u32 topology_nr_online;
const volatile u32 topology_nr_cores;
const volatile u32 topology_nr_llcs;
const volatile u32 topology_nr_nodes;
const volatile u32 topology_nr_packages;
const volatile u32 topology_cgroup_mode = 2;

const volatile struct cpu_topology cpu_topology[1] SEC(".rodata.cpu_topology");
const volatile u16 node_distance[1] SEC(".rodata.node_distance");

/*
 * Address of element @index of an array of @elements elements that the loader has extended, or NULL
 * beyond its end. The check is against the offset of the last element, because the verifier does
 * not know that offsets are multiples of a size; it is in assembly, so that check and access use
 * the same register and the verifier can follow.
 */
#define TOPOLOGY_ELEMENT(array, index, elements)					\
	({										\
		u64 offset_ = (u64)(index) * sizeof((array)[0]);			\
		u64 number_ = (elements);							\
		u64 last_ = (number_ - 1) * sizeof((array)[0]);				\
		u64 address_ = (u64)(array);						\
											\
		asm volatile("if %[number] == 0 goto +3\n"				\
			     "if %[offset] > %[last] goto +2\n"				\
			     "%[offset] += %[address]\n"				\
			     "goto +1\n"						\
			     "%[offset] = 0\n"						\
			     : [offset] "+&r"(offset_)					\
			     : [number] "r"(number_), [last] "r"(last_),		\
			       [address] "r"(address_));				\
		(typeof(&(array)[0]))offset_;						\
	})

/* Where @cpu is, or NULL if the topology or the CPU is unknown. */
static __always_inline const volatile struct cpu_topology *topology_of(s32 cpu)
{
	return TOPOLOGY_ELEMENT(cpu_topology, (u32)cpu, topology_nr_cpus);
}

/* Was @cpu online when the scheduler was loaded? Without a known topology all were. */
static __always_inline bool cpu_exists(s32 cpu)
{
	const volatile struct cpu_topology *place = topology_of(cpu);

	return !place || place->capacity;
}

/* The CPU at a position of the order, or -1; without a known topology by CPU number. */
static __always_inline s32 cpu_at(s32 position)
{
	const volatile struct cpu_topology *place;

	if (!topology_nr_cpus)
		return position;
	place = topology_of(position);
	return place ? place->cpu_at_position : -1;
}

/*
 * Walk over the CPUs at positions @first to @first + @count - 1; over their records, in a scheduler
 * that names them run_queue; and over the records of the CPUs below @number, in order of CPU
 * number.
 */
#define for_each_cpu_in_span(cpu, position, first, count)				\
	bpf_for(position, first, (first) + (count))					\
		if (((cpu) = cpu_at(position)) < 0) {} else

#define for_each_rq_in_span(rq, position, first, count)					\
	bpf_for(position, first, (first) + (count))					\
		if (!((rq) = run_queue_of(cpu_at(position)))) {} else

#define for_each_rq(rq, cpu, number)							\
	bpf_for(cpu, 0, number)								\
		if (!((rq) = run_queue_of(cpu))) {} else

/* The first CPU of positions @first to @first + @count - 1 in @idle_mask that may run @p, or -1. */
static __always_inline s32 idle_cpu_in(u32 first, u32 count, const struct cpumask *idle_mask,
				       const struct task_struct *p)
{
	u32 position;
	s32 cpu;

	for_each_cpu_in_span(cpu, position, first, count)
		if (bpf_cpumask_test_cpu(cpu, idle_mask) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			return cpu;
	return -1;
}

/* Distance between two nodes, 10 from a node to itself, or -1 if unknown. */
static __always_inline s32 topology_distance(u32 from, u32 to)
{
	const volatile u16 *distance;
	u32 nodes = topology_nr_nodes;

	if (from >= nodes || to >= nodes)
		return -1;
	distance = TOPOLOGY_ELEMENT(node_distance, from * nodes + to, nodes * nodes);
	return distance ? *distance : -1;
}
