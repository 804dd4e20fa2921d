/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pending_signals.h - whether a signal has been sent to a task but not delivered yet
 *
 * Schedulers from before wait queues were used for everything treat a task woken by a signal
 * differently. In a kernel model without signals there are none.
 */
#pragma once

#include "fairground.bpf.h"

/* The parts of the kernel's structures that signals need; the name up to ___ is the kernel's. */
struct sigset___signals {
	unsigned long sig[1];
} __attribute__((preserve_access_index));

struct sigpending___signals {
	struct list_head list;
	struct sigset___signals signal;
} __attribute__((preserve_access_index));

struct signal_struct___signals {
	struct sigpending___signals shared_pending;
} __attribute__((preserve_access_index));

struct task_struct___signals {
	struct signal_struct___signals *signal;
	struct sigset___signals blocked;
	struct sigpending___signals pending;
} __attribute__((preserve_access_index));

/* True if one of the 64 signals is pending for the task or its process, and not blocked. */
static __always_inline bool signal_is_pending(struct task_struct *task)
{
	struct task_struct___signals *p = (void *)task;
	u64 pending;

	if (!bpf_core_field_exists(p->pending) || !bpf_core_field_exists(p->signal) ||
	    !bpf_core_field_exists(p->blocked))
		return false;
	pending = BPF_CORE_READ(p, pending.signal.sig[0]) |
		  BPF_CORE_READ(p, signal, shared_pending.signal.sig[0]);
	return pending & ~BPF_CORE_READ(p, blocked.sig[0]);
}
