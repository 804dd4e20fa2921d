// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A scheduler for the loader's tests: one queue, first come, first served. Its tunables have every
 * type there is, and with `die` it ends in a chosen way.
 */
#include "fairground.bpf.h"

#define QUEUE 1

enum manner {
	MANNER_NONE,
	MANNER_FAIL_IN_INIT,
	MANNER_FORGET_TASKS,
	MANNER_RAISE_ERROR,
	MANNER_EXIT,
	MANNER_ASK_FOR_RESTART,
};

enum {
	ENQUEUED,
	DISPATCHED,
	NR_STATISTICS,
};

DEFINE_STATISTICS(NR_STATISTICS);

/* Slice in nanoseconds. */
const volatile u64 slice_ns = 5000000;
const volatile s64 signed_64 = -5;
const volatile u32 unsigned_32 = 7;
const volatile s32 signed_32 = -7;
const volatile u16 unsigned_16 = 9;
const volatile s16 signed_16 = -9;
const volatile u8 unsigned_8 = 11;
const volatile s8 signed_8 = -11;
const volatile bool flag = true;
const volatile enum manner die = MANNER_NONE;
/* Tasks enqueued before it ends. */
const volatile u32 die_after = 1000;
const volatile u64 not_a_number[2] = { 1, 2 };

u64 enqueued;

void BPF_STRUCT_OPS(first_come_enqueue, struct task_struct *p, u64 enq_flags)
{
	count(ENQUEUED);
	/* The tunables must be in the object: the compiler drops variables that nobody reads. */
	if (flag && signed_64 + unsigned_32 + signed_32 + unsigned_16 + signed_16 + unsigned_8 +
	    signed_8 + (s64)not_a_number[0] == 123456)
		count(ENQUEUED);
	if (die != MANNER_NONE && __sync_fetch_and_add(&enqueued, 1) > die_after) {
		switch (die) {
		case MANNER_FORGET_TASKS:
			return;
		case MANNER_RAISE_ERROR:
			scx_bpf_error("the test wants it after %d tasks", die_after);
			break;
		case MANNER_EXIT:
			scx_bpf_exit(42, "enough");
			break;
		case MANNER_ASK_FOR_RESTART:
			scx_bpf_exit((s64)1 << 48, "once more");
			break;
		default:
			break;
		}
	}
	scx_bpf_dsq_insert(p, QUEUE, slice_ns, enq_flags);
}

void BPF_STRUCT_OPS(first_come_dispatch, s32 cpu, struct task_struct *prev)
{
	if (scx_bpf_dsq_move_to_local(QUEUE, 0))
		count(DISPATCHED);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(first_come_init)
{
	if (die == MANNER_FAIL_IN_INIT)
		return -ENOMEM;
	return scx_bpf_create_dsq(QUEUE, -1);
}

DEFINE_SCHEDULER(first_come,
		 .enqueue = (void *)first_come_enqueue,
		 .dispatch = (void *)first_come_dispatch,
		 .init = (void *)first_come_init,
		 .timeout_ms = 5000,
		 .name = "first_come");
