/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * timer.h - what a scheduler does by the clock
 *
 * sched_ext gives no ticks to idle CPUs and to those that run other classes, and lets tasks be moved between queues from a timer but
 * not from ops.tick(). DEFINE_TIMER(idle_tick, idle_balance, tick_nsec) defines init_idle_tick(), for ops.init(), and
 * start_idle_tick(). When the time is up idle_balance() is called; as long as it returns true the timer goes on.
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
