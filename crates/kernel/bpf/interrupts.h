/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which interrupt this CPU is serving, according to the kernel's preempt count; included by the
 * programs that record.
 */
#ifndef FAIRGROUND_INTERRUPTS_H
#define FAIRGROUND_INTERRUPTS_H

/*
 * Bits of the preempt count: serving a soft interrupt, and hard interrupts with NMIs. The latter
 * are eight bits higher in kernels that also count sections with interrupts disabled.
 */
#define SOFT_INTERRUPT_SERVED 0x00000100
#define HARD_INTERRUPTS 0x000f0000
#define HARD_INTERRUPTS_ABOVE_DISABLED 0x0f000000

enum served_interrupt {
	SERVES_NOTHING = 0,
	SERVES_SOFT_INTERRUPT = 1,
	SERVES_HARD_INTERRUPT = 2,
};

/* The preempt count of this CPU; a variable of its own on x86. */
extern const int __preempt_count __ksym __weak;
/* Exists in kernels that count sections with interrupts disabled. */
extern const unsigned long local_interrupt_disable_state __ksym __weak;

static __always_inline enum served_interrupt served_interrupt(void)
{
	const int *count;
	int hard = HARD_INTERRUPTS;

	if (!bpf_ksym_exists(&__preempt_count))
		return SERVES_NOTHING;
	count = bpf_this_cpu_ptr(&__preempt_count);
	if (bpf_ksym_exists(&local_interrupt_disable_state))
		hard = HARD_INTERRUPTS_ABOVE_DISABLED;
	if (*count & hard)
		return SERVES_HARD_INTERRUPT;
	return *count & SOFT_INTERRUPT_SERVED ? SERVES_SOFT_INTERRUPT : SERVES_NOTHING;
}

#endif /* FAIRGROUND_INTERRUPTS_H */
