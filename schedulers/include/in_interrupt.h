/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * in_interrupt.h - whether the code that called the scheduler is an interrupt handler
 *
 * Older schedulers treat a wake-up by a device or a timer differently from one by another task. On x86 the kernel keeps
 * its preemption counter, which tells the two apart, in the per-CPU variable __preempt_count; bits 8 to 23 count soft
 * interrupts (sections with soft interrupts switched off included), interrupts and non-maskable interrupts. Where there
 * is no such variable the answer is false: every wake-up then counts as one by a task.
 */
#ifndef FAIRGROUND_IN_INTERRUPT_H
#define FAIRGROUND_IN_INTERRUPT_H

#define INTERRUPT_MASK 0x00ffff00
/* Hardware interrupts alone, the timer's among them */
#define HARD_INTERRUPT_MASK 0x000f0000

extern const int __preempt_count __ksym __weak;

static __always_inline bool preempt_count_has(int mask)
{
	const int *count;

	if (!bpf_ksym_exists(&__preempt_count))
		return false;
	count = bpf_this_cpu_ptr(&__preempt_count);
	return *count & mask;
}

/* True in an interrupt handler, and in a task that has switched soft interrupts off. */
static __always_inline __attribute__((unused)) bool in_interrupt(void)
{
	return preempt_count_has(INTERRUPT_MASK);
}

/* True in the handler of a hardware interrupt. */
static __always_inline __attribute__((unused)) bool in_hard_interrupt(void)
{
	return preempt_count_has(HARD_INTERRUPT_MASK);
}

#endif /* FAIRGROUND_IN_INTERRUPT_H */
