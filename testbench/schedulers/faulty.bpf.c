// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * faulty - one global FIFO queue, with optional faults
 *
 * Without a fault it schedules well enough. Each fault is a tunable and only affects tasks whose
 * name begins with "victim", so that the rest of the machine stays usable until the kernel ejects
 * the scheduler.
 */
#include "fairground.bpf.h"

#define QUEUE 0

/* A victim is accepted but never run: the kernel's watchdog detects this. */
const volatile bool lose_victims = false;

/* A victim makes the scheduler report this as an error of its own; 0 for none. */
const volatile s64 report_error = 0;

/* The slice of every task, ns. */
const volatile u64 slice = 5 * 1000 * 1000;

enum { QUEUED, VICTIMS, NR_STATISTICS };

DEFINE_STATISTICS(NR_STATISTICS);

static bool is_victim(const struct task_struct *p)
{
	return p->comm[0] == 'v' && p->comm[1] == 'i' && p->comm[2] == 'c' && p->comm[3] == 't' &&
	       p->comm[4] == 'i' && p->comm[5] == 'm';
}

/* Makes every task go through faulty_enqueue(): by default one runs directly on an idle CPU. */
s32 BPF_STRUCT_OPS(faulty_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void BPF_STRUCT_OPS(faulty_enqueue, struct task_struct *p, u64 enq_flags)
{
	count(QUEUED);
	if (is_victim(p)) {
		count(VICTIMS);
		if (report_error)
			scx_bpf_error("a victim came, told to report %lld", report_error);
		if (lose_victims)
			return;
	}
	scx_bpf_dsq_insert(p, QUEUE, slice, enq_flags);
}

void BPF_STRUCT_OPS(faulty_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(faulty_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

DEFINE_SCHEDULER(faulty,
	.select_cpu = (void *)faulty_select_cpu,
	.enqueue = (void *)faulty_enqueue,
	.dispatch = (void *)faulty_dispatch,
	.init = (void *)faulty_init,
	.timeout_ms = 5000,
	.name = "faulty");
