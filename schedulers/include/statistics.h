/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * statistics.h - event counters of a scheduler
 *
 * A scheduler lists its counters in an enum in the order of the [[statistic]] tables of its
 * scheduler.toml, ends it with NR_STATISTICS and uses DEFINE_STATISTICS(NR_STATISTICS). Loaders add
 * up the per-CPU counters.
 */
#pragma once

/* Defines the map and count() for @number counters; once per scheduler. */
#define DEFINE_STATISTICS(number)							\
	DEFINE_ARRAY(PERCPU_ARRAY, statistics, number, u64)				\
											\
	/* Adds @amount to a counter of this CPU. */					\
	static __always_inline __maybe_unused void count_by(u32 statistic, u64 amount)	\
	{										\
		u64 *counter = bpf_map_lookup_elem(&statistics, &statistic);		\
											\
		if (counter)								\
			*counter += amount;						\
	}										\
											\
	/* Adds one to a counter of this CPU. */					\
	static __always_inline __maybe_unused void count(u32 statistic)			\
	{										\
		count_by(statistic, 1);							\
	}
