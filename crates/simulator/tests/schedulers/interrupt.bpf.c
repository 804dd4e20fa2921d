/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prints in what kind of interrupt it is called: 0 none, 1 hardware, 2 another. The kernel's
 * defaults schedule.
 */
#include "fairground.bpf.h"
#include "in_interrupt.h"

struct once {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct once);
} once SEC(".maps");

static __always_inline u32 interrupt(void)
{
	if (in_hard_interrupt())
		return 1;
	return in_interrupt() ? 2 : 0;
}

void BPF_STRUCT_OPS(interrupt_runnable, struct task_struct *p, u64 enq_flags)
{
	if (enq_flags & SCX_ENQ_WAKEUP)
		bpf_printk("%s woken in %d", p->comm, interrupt());
}

static int expired(void *map, u32 *key, struct once *value)
{
	bpf_printk("timer in %d", interrupt());
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(interrupt_init)
{
	u32 key = 0;
	struct once *value = bpf_map_lookup_elem(&once, &key);

	if (!value)
		return -ENOENT;
	bpf_timer_init(&value->timer, &once, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&value->timer, expired);
	return bpf_timer_start(&value->timer, NSEC_PER_MSEC, 0);
}

DEFINE_SCHEDULER(interrupt,
		 .runnable = (void *)interrupt_runnable,
		 .init = (void *)interrupt_init,
		 .name = "interrupt");
