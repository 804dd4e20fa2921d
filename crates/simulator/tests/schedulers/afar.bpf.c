/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks that may use any CPU are queued from CPU 0, and only CPU 1 takes them. Says what it is told
 * of queues, CPUs in turn and slices meanwhile.
 */
#include "fairground.bpf.h"

void scx_bpf_dsq_reenq(u64 dsq_id, u64 reenq_flags) __ksym __weak;

s32 BPF_STRUCT_OPS(afar_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return 0;
}

void BPF_STRUCT_OPS(afar_enqueue, struct task_struct *p, u64 enq_flags)
{
	bool bound = p->nr_cpus_allowed == 1;
	s32 cpu = scx_bpf_task_cpu(p);

	if (enq_flags & SCX_ENQ_REENQ)
		bpf_printk("queued again on %d", cpu);
	bpf_printk("in turn: %d", scx_bpf_pick_any_cpu(p->cpus_ptr, 0));
	if (cpu != (s32)bpf_get_smp_processor_id())
		bpf_printk("local: %d, there: %d", scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL),
			   scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu));
	scx_bpf_dsq_insert(p, bound ? SCX_DSQ_LOCAL : 0, 5000000, enq_flags);
	bpf_printk("slice: %llu", p->scx.slice);
	if (!bound)
		scx_bpf_kick_cpu(1, SCX_KICK_IDLE);
}

void BPF_STRUCT_OPS(afar_dispatch, s32 cpu, struct task_struct *prev)
{
	if (cpu != 1)
		return;
	bpf_printk("CPU 1 dispatches");
	scx_bpf_dsq_move_to_local(0, 0);
}

void BPF_STRUCT_OPS(afar_tick, struct task_struct *p)
{
#ifdef REENQUEUE
	scx_bpf_dsq_reenq(SCX_DSQ_LOCAL_ON | 1, 0);
#endif
}

/* With this, and without the flag that keeps it, nothing knows of idle CPUs */
void BPF_STRUCT_OPS(afar_update_idle, s32 cpu, bool idle)
{
}

void BPF_STRUCT_OPS(afar_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	bpf_printk("released for %d", args->reason);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(afar_init)
{
	return scx_bpf_create_dsq(0, NUMA_NO_NODE);
}

DEFINE_SCHEDULER(afar,
	.select_cpu = (void *)afar_select_cpu,
	.enqueue = (void *)afar_enqueue,
	.dispatch = (void *)afar_dispatch,
	.tick = (void *)afar_tick,
	.update_idle = (void *)afar_update_idle,
	.cpu_release = (void *)afar_cpu_release,
	.init = (void *)afar_init,
#ifdef PARTIAL
	.flags = SCX_OPS_SWITCH_PARTIAL,
#endif
	.name = "afar");
