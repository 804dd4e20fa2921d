/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Says whose run queue is locked in enqueue; with a macro it calls a kernel function wrongly. */
#include "fairground.bpf.h"

struct rq *scx_bpf_locked_rq(void) __ksym;

s32 BPF_STRUCT_OPS(places_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool idle;

#ifdef LOCKED_IN_SELECT
	scx_bpf_locked_rq();
#endif
#ifdef SELECT_FOR_OTHERS
	scx_bpf_select_cpu_dfl(bpf_get_current_task_btf(), 0, wake_flags, &idle);
#endif
	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);
}

void BPF_STRUCT_OPS(places_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct rq *rq = scx_bpf_locked_rq();

	if (!rq || rq->cpu != scx_bpf_task_cpu(p))
		scx_bpf_error("the wrong run queue");
	else if (rq->cpu == bpf_get_smp_processor_id())
		bpf_printk("its own");
	else
		bpf_printk("another CPU's");
#ifdef MOVE_IN_ENQUEUE
	scx_bpf_dsq_move_to_local(0, 0);
#endif
#ifdef SPEED_OF_OTHERS
	scx_bpf_cpuperf_set(!scx_bpf_task_cpu(p), 512);
#endif
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

static __noinline void put(struct task_struct *p)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, 0);
}

void BPF_STRUCT_OPS(places_running, struct task_struct *p)
{
#ifdef INSERT_IN_RUNNING
	put(p);
#endif
}

void BPF_STRUCT_OPS(places_tick, struct task_struct *p)
{
}

DEFINE_SCHEDULER(places,
	.select_cpu = (void *)places_select_cpu,
	.enqueue = (void *)places_enqueue,
	.running = (void *)places_running,
	.tick = (void *)places_tick,
	.name = "places");
