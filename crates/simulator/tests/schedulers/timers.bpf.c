/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Timers in elements of a hash map, of which some go before their timers expire. The kernel's
 * defaults schedule.
 */
#include "fairground.bpf.h"

struct element {
	u64 number;
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, struct element);
} elements SEC(".maps");

static int expired(void *map, u32 *key, struct element *element)
{
	bpf_printk("%u: %llu", *key, element->number);
#ifdef AGAIN
	bpf_timer_start(&element->timer, 0, 0);
#else
	/* The timer that runs goes with its element, and cannot be started again. */
	bpf_map_delete_elem(map, key);
	bpf_printk("again: %d", bpf_timer_start(&element->timer, 1000, 0));
#endif
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(timers_init)
{
	for (u32 key = 1; key < 4; key++) {
		struct element fresh = { .number = 10 * key };
		struct element *element;

		bpf_map_update_elem(&elements, &key, &fresh, 0);
		element = bpf_map_lookup_elem(&elements, &key);
		if (!element)
			return -ENOENT;
		bpf_timer_init(&element->timer, &elements, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&element->timer, expired);
		bpf_timer_start(&element->timer, key * NSEC_PER_MSEC, 0);
	}
	u32 second = 2;
	bpf_map_delete_elem(&elements, &second);
	return 0;
}

DEFINE_SCHEDULER(timers, .init = (void *)timers_init, .name = "timers");
