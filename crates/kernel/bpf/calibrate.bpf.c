// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Schedulers for `fairground calibrate`, which leave scheduling to the kernel's defaults. BARE has
 * no callbacks at all, CALLBACKS has four in each turn of a task, WALK has a queue of tasks that
 * wait forever.
 */
#include "fairground.bpf.h"

#ifdef BARE
DEFINE_SCHEDULER(calibrate_bare, .name = "calibrate_bare");
#endif

#ifdef CALLBACKS
/* The callbacks' additional work. */
const volatile u8 instructions;
const volatile u8 calls;
const volatile u8 kicks;

struct task_data {
	u64 nothing;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_data);
} task_data SEC(".maps");

void BPF_STRUCT_OPS(calibrate_runnable, struct task_struct *p, u64 enq_flags)
{
	/* The waker is on this CPU, so it is not idle: the interrupt has nothing to do. */
	if (kicks)
		scx_bpf_kick_cpu(bpf_get_smp_processor_id(), SCX_KICK_IDLE);
}

void BPF_STRUCT_OPS(calibrate_stopping, struct task_struct *p, bool runnable) {}
void BPF_STRUCT_OPS(calibrate_quiescent, struct task_struct *p, u64 deq_flags) {}

void BPF_STRUCT_OPS(calibrate_running, struct task_struct *p)
{
	u32 i;

	/* 400 iterations of five instructions. */
	if (instructions)
		asm volatile("r1 = 0;"
			     "turn%=: r2 = r1;"
			     "r2 ^= 5;"
			     "r2 += 7;"
			     "r1 += 1;"
			     "if r1 < 400 goto turn%=;" ::: "r1", "r2");
	if (calls)
		for (i = 0; i < 30; i++) {
			scx_bpf_now();
			scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL);
			bpf_task_storage_get(&task_data, p, 0, 0);
		}
}

s32 BPF_STRUCT_OPS(calibrate_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return bpf_task_storage_get(&task_data, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -ENOMEM;
}

DEFINE_SCHEDULER(calibrate_callbacks,
	.runnable = (void *)calibrate_runnable,
	.running = (void *)calibrate_running,
	.stopping = (void *)calibrate_stopping,
	.quiescent = (void *)calibrate_quiescent,
	.init_task = (void *)calibrate_init_task,
	.name = "calibrate_callbacks");
#endif

#ifdef WALK
/* Whether `dispatch` visits the waiting tasks. */
const volatile u8 walks;

#define WAITING 0

void BPF_STRUCT_OPS(calibrate_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (p->policy == SCHED_IDLE)
		scx_bpf_dsq_insert(p, WAITING, SCX_SLICE_DFL, enq_flags);
	else
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(calibrate_dispatch, s32 cpu, struct task_struct *prev)
{
	struct bpf_iter_scx_dsq it;

	if (walks) {
		bpf_iter_scx_dsq_new(&it, WAITING, 0);
		while (bpf_iter_scx_dsq_next(&it))
			;
		bpf_iter_scx_dsq_destroy(&it);
	}
}

s32 BPF_STRUCT_OPS_SLEEPABLE(calibrate_init)
{
	return scx_bpf_create_dsq(WAITING, NUMA_NO_NODE);
}

DEFINE_SCHEDULER(calibrate_walk,
	.enqueue = (void *)calibrate_enqueue,
	.dispatch = (void *)calibrate_dispatch,
	.init = (void *)calibrate_init,
	.timeout_ms = 30000,
	.name = "calibrate_walk");
#endif
