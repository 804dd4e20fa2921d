/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prints how late its timer expires, when its loader's program runs, and when "woken" is taken in.
 * The kernel's defaults schedule.
 */
#include "fairground.bpf.h"

#ifndef FLAGS
#define FLAGS 0
#endif

struct periodic {
	u64 due;
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct periodic);
} periodic SEC(".maps");

static int expired(void *map, u32 *key, struct periodic *value)
{
	bpf_printk("timer late by %llu", bpf_ktime_get_ns() - value->due);
	value->due += NSEC_PER_MSEC;
	return bpf_timer_start(&value->timer, value->due, BPF_F_TIMER_ABS);
}

SEC("syscall")
int visit(void *ctx)
{
	bpf_printk("loader at %llu", bpf_ktime_get_ns());
	return 0;
}

void BPF_STRUCT_OPS(interrupts_runnable, struct task_struct *p, u64 enq_flags)
{
	if (!bpf_strncmp(p->comm, 5, "woken"))
		bpf_printk("taken in at %llu", bpf_ktime_get_ns());
}

s32 BPF_STRUCT_OPS_SLEEPABLE(interrupts_init)
{
	u32 key = 0;
	struct periodic *value = bpf_map_lookup_elem(&periodic, &key);

	if (!value)
		return -ENOENT;
	value->due = NSEC_PER_MSEC;
	bpf_timer_init(&value->timer, &periodic, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&value->timer, expired);
	return bpf_timer_start(&value->timer, value->due, BPF_F_TIMER_ABS);
}

DEFINE_SCHEDULER(interrupts,
		 .runnable = (void *)interrupts_runnable,
		 .init = (void *)interrupts_init,
		 .flags = FLAGS,
		 .name = "interrupts");
