/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * in_interrupt.h - whether the scheduler was called from an interrupt handler
 *
 * Older schedulers treat a wake-up by a device or timer differently from one by another task. On
 * x86 the preemption counter, which tells the two apart, is the per-CPU variable __preempt_count;
 * bits 8 to 15 count soft interrupts (and sections with soft interrupts disabled). Four bits count
 * hardware interrupts, including non-maskable ones: from bit 16, or from bit 24 in kernels whose
 * counter also counts sections with interrupts disabled, which have a second variable for that.
 * Without such a counter the answer is false: every wake-up then counts as one by a task.
 */
#pragma once

#include "fairground.bpf.h"

#define SOFT_INTERRUPT_MASK 0x0000ff00
#define HARD_INTERRUPT_MASK 0x000f0000
#define HARD_INTERRUPT_MASK_ABOVE_DISABLED 0x0f000000

extern const int __preempt_count __ksym __weak;
extern const unsigned long local_interrupt_disable_state __ksym __weak;

static __always_inline bool preempt_count_has(int mask)
{
	const int *count;

	if (!bpf_ksym_exists(&__preempt_count))
		return false;
	count = bpf_this_cpu_ptr(&__preempt_count);
	return *count & mask;
}

/* The bits that count hardware interrupts, including the timer's */
static __always_inline int hard_interrupt_mask(void)
{
	if (bpf_ksym_exists(&local_interrupt_disable_state))
		return HARD_INTERRUPT_MASK_ABOVE_DISABLED;
	return HARD_INTERRUPT_MASK;
}

/* True in an interrupt handler, and in a task that has disabled soft interrupts. */
static __always_inline bool in_interrupt(void)
{
	return preempt_count_has(SOFT_INTERRUPT_MASK | hard_interrupt_mask());
}

/* True in the handler of a hardware interrupt. */
static __always_inline bool in_hard_interrupt(void)
{
	return preempt_count_has(hard_interrupt_mask());
}
