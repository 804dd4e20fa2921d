/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * NAME - one queue for all CPUs, ordered by the CPU time that tasks have had
 *
 * A task that has had less CPU time for its weight goes first, so all get their
 * share. A task that waits wakes up a CPU that is idle, if any is.
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

/* The CPU time that the task on each CPU had when it was last charged. */
static u64 charged[1024];

static u64 *charged_of(const struct task_struct *p)
{
	return &charged[(u32)scx_bpf_task_cpu(p) % 1024];
}

static void set_vtime(struct task_struct *p, u64 vtime)
{
	if (bpf_ksym_exists(scx_bpf_task_set_dsq_vtime))
		scx_bpf_task_set_dsq_vtime(p, vtime);
	else
		p->scx.dsq_vtime = vtime;
}

static void set_slice(struct task_struct *p, u64 slice)
{
	if (bpf_ksym_exists(scx_bpf_task_set_slice))
		scx_bpf_task_set_slice(p, slice);
	else
		p->scx.slice = slice;
}

/*
 * Neither sleep nor a CPU of its own earns a task more than one slice: one that was
 * far behind the others would go on for as long as it takes to catch up.
 */
static u64 bounded(u64 vtime)
{
	return (s64)(vtime - (vtime_now - slice_ns)) < 0 ? vtime_now - slice_ns : vtime;
}

/*
 * The virtual time of a running task; a normal weight is 100. With one below 10 a
 * task would wait for its turn for longer than the kernel allows.
 */
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

/* Whether no task that this CPU may run waits to be before this one. */
static bool is_first(const struct task_struct *prev, s32 cpu)
{
	bool first = true;
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, SHARED, 0) {
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
			first = (s64)(vtime_of(prev) - p->scx.dsq_vtime) <= 0;
			break;
		}
	}
	return first;
}

/*
 * A task wakes up: on which CPU should it run? It is not put into the queue of that
 * CPU yet, because a real-time task may come first, behind which it would wait.
 */
SEC("struct_ops/NAME_select_cpu")
s32 BPF_PROG(NAME_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle;

	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
}

/* A task is ready to run: where does it wait? */
SEC("struct_ops/NAME_enqueue")
void BPF_PROG(NAME_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu;

	scx_bpf_dsq_insert_vtime(p, SHARED, slice_ns, bounded(p->scx.dsq_vtime), enq_flags);
	/* A CPU that sleeps does not look here by itself. */
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* A CPU has nothing left in its own queue: what does it run next? */
SEC("struct_ops/NAME_dispatch")
void BPF_PROG(NAME_dispatch, s32 cpu, struct task_struct *prev)
{
	/* The task whose slice has ended is not in the queue yet. If it is first, it goes on. */
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED) && is_first(prev, cpu)) {
		set_vtime(prev, vtime_of(prev));
		set_slice(prev, slice_ns);
		begin(prev);
		return;
	}
	scx_bpf_dsq_move_to_local(SHARED);
}

SEC("struct_ops/NAME_running")
void BPF_PROG(NAME_running, struct task_struct *p)
{
	begin(p);
}

/* A task ends to run: what it has had counts. */
SEC("struct_ops/NAME_stopping")
void BPF_PROG(NAME_stopping, struct task_struct *p, bool runnable)
{
	set_vtime(p, vtime_of(p));
}

/* A task comes under this scheduler: it begins where the others are. */
SEC("struct_ops/NAME_enable")
void BPF_PROG(NAME_enable, struct task_struct *p)
{
	set_vtime(p, vtime_now);
}

/* A real-time task takes a CPU: others run what was to run there. */
SEC("struct_ops/NAME_cpu_release")
void BPF_PROG(NAME_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	if (bpf_ksym_exists(scx_bpf_dsq_reenq))
		scx_bpf_dsq_reenq(SCX_DSQ_LOCAL, 0);
	else
		scx_bpf_reenqueue_local();
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
	.cpu_release	= (void *)NAME_cpu_release,
	.init		= (void *)NAME_init,
	.name		= "NAME",
};
