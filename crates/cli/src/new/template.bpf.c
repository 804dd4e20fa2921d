/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * NAME - one queue for all CPUs, ordered by the CPU time that tasks have had
 *
 * A task that has had less CPU time for its weight goes first, so all get their
 * share. A task that wakes up goes straight to a CPU that is idle, if any is.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

/* The queue that all CPUs take from; CPUs have one of their own besides. */
#define SHARED 0

/*
 * How long a task runs before another has its turn. What is const volatile is a
 * setting: --set NAME.slice_ns=5ms
 */
const volatile u64 slice_ns = 20000000;

/* The CPU time, divided by weight, of the task that ran last. It only grows. */
static u64 vtime_now;

static void set_vtime(struct task_struct *p, u64 vtime)
{
	if (bpf_ksym_exists(scx_bpf_task_set_dsq_vtime))
		scx_bpf_task_set_dsq_vtime(p, vtime);
	else
		p->scx.dsq_vtime = vtime;
}

/* A task wakes up: on which CPU should it run? */
SEC("struct_ops/NAME_select_cpu")
s32 BPF_PROG(NAME_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return cpu;
}

/* A task is ready to run and found no idle CPU: where does it wait? */
SEC("struct_ops/NAME_enqueue")
void BPF_PROG(NAME_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 vtime = p->scx.dsq_vtime;

	/* Sleep earns a task no more than one slice. */
	if ((s64)(vtime - (vtime_now - slice_ns)) < 0)
		vtime = vtime_now - slice_ns;
	scx_bpf_dsq_insert_vtime(p, SHARED, slice_ns, vtime, enq_flags);
}

/* A CPU has nothing left in its own queue: what does it run next? */
SEC("struct_ops/NAME_dispatch")
void BPF_PROG(NAME_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED);
}

/* A task begins to run. */
SEC("struct_ops/NAME_running")
void BPF_PROG(NAME_running, struct task_struct *p)
{
	if ((s64)(p->scx.dsq_vtime - vtime_now) > 0)
		vtime_now = p->scx.dsq_vtime;
}

/* A task ends to run: it has had this much CPU time; a normal weight is 100. */
SEC("struct_ops/NAME_stopping")
void BPF_PROG(NAME_stopping, struct task_struct *p, bool runnable)
{
	u64 used = slice_ns - p->scx.slice;

	set_vtime(p, p->scx.dsq_vtime + used * 100 / p->scx.weight);
}

/* A task comes under this scheduler: it begins where the others are. */
SEC("struct_ops/NAME_enable")
void BPF_PROG(NAME_enable, struct task_struct *p)
{
	set_vtime(p, vtime_now);
}

/* The scheduler is loaded. */
SEC("struct_ops.s/NAME_init")
s32 BPF_PROG(NAME_init)
{
	return scx_bpf_create_dsq(SHARED, -1);
}

SEC(".struct_ops.link")
struct sched_ext_ops NAME_ops = {
	.select_cpu	= (void *)NAME_select_cpu,
	.enqueue	= (void *)NAME_enqueue,
	.dispatch	= (void *)NAME_dispatch,
	.running	= (void *)NAME_running,
	.stopping	= (void *)NAME_stopping,
	.enable		= (void *)NAME_enable,
	.init		= (void *)NAME_init,
	.name		= "NAME",
};
