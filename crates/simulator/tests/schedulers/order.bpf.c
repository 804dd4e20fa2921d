/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prints every callback with its arguments, so that a test sees which is called when. A FIFO
 * otherwise.
 */
#include "fairground.bpf.h"

#define SHARED 7

#define say(format, args...) bpf_printk(format, ##args)

s32 BPF_STRUCT_OPS(order_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	say("select_cpu %d prev %d flags 0x%llx", p->pid, prev_cpu, wake_flags);
	return prev_cpu;
}

void BPF_STRUCT_OPS(order_enqueue, struct task_struct *p, u64 enq_flags)
{
	say("enqueue %d 0x%llx", p->pid, enq_flags);
	scx_bpf_dsq_insert(p, SHARED, 5000000, enq_flags);
}

void BPF_STRUCT_OPS(order_dequeue, struct task_struct *p, u64 deq_flags)
{
	say("dequeue %d 0x%llx", p->pid, deq_flags);
}

void BPF_STRUCT_OPS(order_dispatch, s32 cpu, struct task_struct *prev)
{
	say("dispatch cpu %d prev %d", cpu, prev ? prev->pid : 0);
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

void BPF_STRUCT_OPS(order_tick, struct task_struct *p)
{
	say("tick %d", p->pid);
}

void BPF_STRUCT_OPS(order_runnable, struct task_struct *p, u64 enq_flags)
{
	say("runnable %d 0x%llx", p->pid, enq_flags);
}

void BPF_STRUCT_OPS(order_running, struct task_struct *p)
{
	say("running %d cpu %d", p->pid, scx_bpf_task_cpu(p));
}

void BPF_STRUCT_OPS(order_stopping, struct task_struct *p, bool runnable)
{
	say("stopping %d runnable %d", p->pid, runnable);
}

void BPF_STRUCT_OPS(order_quiescent, struct task_struct *p, u64 deq_flags)
{
	say("quiescent %d 0x%llx", p->pid, deq_flags);
}

bool BPF_STRUCT_OPS(order_yield, struct task_struct *from, struct task_struct *to)
{
	say("yield %d", from->pid);
	scx_bpf_task_set_slice(from, 0);
	return false;
}

void BPF_STRUCT_OPS(order_set_weight, struct task_struct *p, u32 weight)
{
	say("set_weight %d %u", p->pid, weight);
}

void BPF_STRUCT_OPS(order_set_cpumask, struct task_struct *p, const struct cpumask *cpumask)
{
	say("set_cpumask %d first %u", p->pid, bpf_cpumask_first(cpumask));
}

s32 BPF_STRUCT_OPS_SLEEPABLE(order_init_task, struct task_struct *p,
			     struct scx_init_task_args *args)
{
	say("init_task %d fork %d", p->pid, args->fork);
	return 0;
}

void BPF_STRUCT_OPS(order_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	say("exit_task %d cancelled %d", p->pid, args->cancelled);
}

void BPF_STRUCT_OPS(order_enable, struct task_struct *p)
{
	say("enable %d", p->pid);
}

void BPF_STRUCT_OPS(order_disable, struct task_struct *p)
{
	say("disable %d", p->pid);
}

void BPF_STRUCT_OPS(order_cpu_acquire, s32 cpu, struct scx_cpu_acquire_args *args)
{
	say("cpu_acquire %d", cpu);
}

void BPF_STRUCT_OPS(order_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	say("cpu_release %d reason %d", cpu, args->reason);
}

void BPF_STRUCT_OPS(order_update_idle, s32 cpu, bool idle)
{
	say("update_idle %d %d", cpu, idle);
}

#ifdef CPU_HOTPLUG
void BPF_STRUCT_OPS(order_cpu_online, s32 cpu)
{
	say("cpu_online %d", cpu);
}

void BPF_STRUCT_OPS(order_cpu_offline, s32 cpu)
{
	say("cpu_offline %d", cpu);
}
#endif

s32 BPF_STRUCT_OPS_SLEEPABLE(order_init)
{
	say("init");
	return scx_bpf_create_dsq(SHARED, -1);
}

DEFINE_SCHEDULER(order,
		 .select_cpu = (void *)order_select_cpu,
		 .enqueue = (void *)order_enqueue,
		 .dequeue = (void *)order_dequeue,
		 .dispatch = (void *)order_dispatch,
		 .tick = (void *)order_tick,
		 .runnable = (void *)order_runnable,
		 .running = (void *)order_running,
		 .stopping = (void *)order_stopping,
		 .quiescent = (void *)order_quiescent,
		 .yield = (void *)order_yield,
		 .set_weight = (void *)order_set_weight,
		 .set_cpumask = (void *)order_set_cpumask,
		 .init_task = (void *)order_init_task,
		 .exit_task = (void *)order_exit_task,
		 .enable = (void *)order_enable,
		 .disable = (void *)order_disable,
		 .cpu_acquire = (void *)order_cpu_acquire,
		 .cpu_release = (void *)order_cpu_release,
		 .update_idle = (void *)order_update_idle,
#ifdef CPU_HOTPLUG
		 .cpu_online = (void *)order_cpu_online,
		 .cpu_offline = (void *)order_cpu_offline,
#endif
		 .init = (void *)order_init,
		 .flags = SCX_OPS_KEEP_BUILTIN_IDLE,
		 .name = "order");
