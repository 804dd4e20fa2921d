/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * per_cpu.h - one record per CPU, for any number of CPUs
 *
 * DEFINE_PER_CPU(struct run_queue, run_queue) defines the map run_queue_map and three functions:
 * run_queue_of(cpu), this_run_queue(), and near_run_queue(cpu), which is cheaper for a CPU that is
 * mostly this one. They return NULL for a CPU that does not exist, so callers must check. Records
 * start zeroed. A record may have up to 32 KiB, but no bpf_spin_lock or bpf_timer, which the kernel
 * allows only in arrays.
 */
#pragma once

#include "kfuncs.bpf.h"

#define DEFINE_PER_CPU(record_type, name)							\
	DEFINE_ARRAY(PERCPU_ARRAY, name##_map, 1, record_type)					\
												\
	static __always_inline __maybe_unused record_type *name##_of(s32 cpu)			\
	{											\
		u32 key = 0;									\
												\
		return bpf_map_lookup_percpu_elem(&name##_map, &key, cpu);			\
	}											\
												\
	static __always_inline __maybe_unused record_type *this_##name(void)			\
	{											\
		u32 key = 0;									\
												\
		return bpf_map_lookup_elem(&name##_map, &key);					\
	}											\
												\
	static __always_inline __maybe_unused record_type *near_##name(s32 cpu)			\
	{											\
		return cpu == (s32)bpf_get_smp_processor_id() ? this_##name() : name##_of(cpu);	\
	}

/* Number of online CPUs. */
static __always_inline u32 count_online_cpus(void)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	u32 number = bpf_cpumask_weight(online);

	scx_bpf_put_cpumask(online);
	return number;
}
