/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

#define SHARED	0

static u64 vtime_now;

/* The CPU time that the task on each CPU had when it was last charged. */
static u64 charged[1024];

static u64 *charged_of(const struct task_struct *p)
{
	return &charged[(u32)scx_bpf_task_cpu(p) % 1024];
}

/* Neither sleep nor a CPU of its own earns a task more than one slice. */
static u64 bounded(u64 vtime)
{
	u64 least = vtime_now - SCX_SLICE_DFL;

	return (s64)(vtime - least) < 0 ? least : vtime;
}

/* The virtual time of a running task. With a weight below 10 it would wait for too long. */
static u64 vtime_of(const struct task_struct *p)
{
	u64 used = p->se.sum_exec_runtime - *charged_of(p), weight = p->scx.weight;

	return bounded(p->scx.dsq_vtime + used * 100 / (weight < 10 ? 10 : weight));
}

/* A task begins to run, or goes on. */
static void begin(const struct task_struct *p)
{
	if ((s64)(p->scx.dsq_vtime - vtime_now) > 0)
		vtime_now = p->scx.dsq_vtime;
	*charged_of(p) = p->se.sum_exec_runtime;
}

/* The virtual time of the first task in a queue that this CPU may run, or the end of all time. */
static u64 first_in(u64 queue, s32 cpu)
{
	u64 vtime = ~0ULL;
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, queue, 0) {
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
			vtime = p->scx.dsq_vtime;
			break;
		}
	}
	return vtime;
}

/* It is put nowhere yet: a real-time task may take an idle CPU, and what lies there would wait. */
SEC("struct_ops/fair_select_cpu")
s32 BPF_PROG(fair_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle;

	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
}

/* A task waits in the order of the CPU time that it has had for its weight. */
SEC("struct_ops/fair_enqueue")
void BPF_PROG(fair_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 vtime = bounded(p->scx.dsq_vtime);
	s32 idle;

	scx_bpf_dsq_insert_vtime(p, SHARED, SCX_SLICE_DFL, vtime, enq_flags);
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

SEC("struct_ops/fair_dispatch")
void BPF_PROG(fair_dispatch, s32 cpu, struct task_struct *prev)
{
	/* A task whose slice has ended is not in the queue yet. If it is first, it goes on. */
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED) &&
	    vtime_of(prev) <= first_in(SHARED, cpu)) {
		scx_bpf_task_set_dsq_vtime(prev, vtime_of(prev));
		scx_bpf_task_set_slice(prev, SCX_SLICE_DFL);
		begin(prev);
		return;
	}
	scx_bpf_dsq_move_to_local(SHARED);
}

SEC("struct_ops/fair_running")
void BPF_PROG(fair_running, struct task_struct *p)
{
	begin(p);
}

SEC("struct_ops/fair_stopping")
void BPF_PROG(fair_stopping, struct task_struct *p, bool runnable)
{
	scx_bpf_task_set_dsq_vtime(p, vtime_of(p));
}

SEC("struct_ops/fair_enable")
void BPF_PROG(fair_enable, struct task_struct *p)
{
	scx_bpf_task_set_dsq_vtime(p, vtime_now);
}

/* A real-time task takes the CPU: other CPUs run what was to run there. */
SEC("struct_ops/fair_cpu_release")
void BPF_PROG(fair_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_dsq_reenq(SCX_DSQ_LOCAL, 0);
}

SEC("struct_ops.s/fair_init")
s32 BPF_PROG(fair_init)
{
	return scx_bpf_create_dsq(SHARED, -1);
}

SEC(".struct_ops.link")
struct sched_ext_ops fair_ops = {
	.select_cpu	= (void *)fair_select_cpu,
	.enqueue	= (void *)fair_enqueue,
	.dispatch	= (void *)fair_dispatch,
	.running	= (void *)fair_running,
	.stopping	= (void *)fair_stopping,
	.enable		= (void *)fair_enable,
	.cpu_release	= (void *)fair_cpu_release,
	.init		= (void *)fair_init,
	.name		= "fair",
};
