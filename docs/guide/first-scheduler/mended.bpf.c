/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

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
SEC("struct_ops/mended_select_cpu")
s32 BPF_PROG(mended_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle;

	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
}

/* A task waits at the CPU where it ran last, in the order of the CPU time that it has had for its weight. */
SEC("struct_ops/mended_enqueue")
void BPF_PROG(mended_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 vtime = bounded(p->scx.dsq_vtime);
	s32 idle, cpu = scx_bpf_task_cpu(p);

	scx_bpf_dsq_insert_vtime(p, cpu, SCX_SLICE_DFL, vtime, enq_flags);
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

SEC("struct_ops/mended_dispatch")
void BPF_PROG(mended_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), other = bpf_get_prandom_u32() % nr_cpus;
	u64 first = first_in(cpu, cpu), there = first_in(other, cpu);
	bool runs = prev && (prev->scx.flags & SCX_TASK_QUEUED);

	/* A task whose slice has ended is in no queue yet. */
	if (runs && vtime_of(prev) < first)
		first = vtime_of(prev);
	/* Another queue, drawn by lot, may have a task that has had less by more than a slice. */
	if (there < first && there + SCX_SLICE_DFL < first && scx_bpf_dsq_move_to_local(other))
		return;
	if (runs && vtime_of(prev) == first) {
		scx_bpf_task_set_dsq_vtime(prev, vtime_of(prev));
		scx_bpf_task_set_slice(prev, SCX_SLICE_DFL);
		begin(prev);
		return;
	}
	if (scx_bpf_dsq_move_to_local(cpu))
		return;
	bpf_for(other, 0, nr_cpus)
		if (scx_bpf_dsq_move_to_local(other))
			return;
}

SEC("struct_ops/mended_running")
void BPF_PROG(mended_running, struct task_struct *p)
{
	begin(p);
}

SEC("struct_ops/mended_stopping")
void BPF_PROG(mended_stopping, struct task_struct *p, bool runnable)
{
	scx_bpf_task_set_dsq_vtime(p, vtime_of(p));
}

SEC("struct_ops/mended_enable")
void BPF_PROG(mended_enable, struct task_struct *p)
{
	scx_bpf_task_set_dsq_vtime(p, vtime_now);
}

/* A real-time task takes the CPU: other CPUs run what was to run there. */
SEC("struct_ops/mended_cpu_release")
void BPF_PROG(mended_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_dsq_reenq(SCX_DSQ_LOCAL, 0);
}

SEC("struct_ops.s/mended_init")
s32 BPF_PROG(mended_init)
{
	u32 cpu, nr_cpus = scx_bpf_nr_cpu_ids();
	s32 err;

	bpf_for(cpu, 0, nr_cpus) {
		err = scx_bpf_create_dsq(cpu, -1);
		if (err)
			return err;
	}
	return 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops mended_ops = {
	.select_cpu	= (void *)mended_select_cpu,
	.enqueue	= (void *)mended_enqueue,
	.dispatch	= (void *)mended_dispatch,
	.running	= (void *)mended_running,
	.stopping	= (void *)mended_stopping,
	.enable		= (void *)mended_enable,
	.cpu_release	= (void *)mended_cpu_release,
	.init		= (void *)mended_init,
	.name		= "mended",
};
