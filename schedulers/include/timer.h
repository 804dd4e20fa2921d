/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * timer.h - a scheduler's periodic work
 *
 * sched_ext does not call ops.tick() on CPUs that are idle or run other classes, and lets a timer
 * move tasks between queues, but not ops.tick(). DEFINE_TIMER(idle_tick, idle_balance, tick_nsec)
 * defines init_idle_tick(), for ops.init(), and start_idle_tick(). When the timer fires it calls
 * idle_balance(), and it is restarted if that returns true.
 */
#pragma once

#define DEFINE_TIMER(name, function, delay)						\
	struct name {									\
		struct bpf_timer timer;							\
	};										\
											\
	DEFINE_ARRAY(ARRAY, name##_map, 1, struct name)					\
											\
	static int name##_fires(void *map, u32 *key, struct name *name)			\
	{										\
		if (function())								\
			bpf_timer_start(&name->timer, delay, 0);			\
		return 0;								\
	}										\
											\
	static __always_inline long start_##name(void)					\
	{										\
		u32 key = 0;								\
		struct name *name = bpf_map_lookup_elem(&name##_map, &key);		\
											\
		return name ? bpf_timer_start(&name->timer, delay, 0) : -ENOENT;	\
	}										\
											\
	static __always_inline long init_##name(void)					\
	{										\
		u32 key = 0;								\
		struct name *name = bpf_map_lookup_elem(&name##_map, &key);		\
		long error;								\
											\
		if (!name)								\
			return -ENOENT;							\
		error = bpf_timer_init(&name->timer, &name##_map, CLOCK_MONOTONIC);	\
		return error ?: bpf_timer_set_callback(&name->timer, name##_fires);	\
	}
