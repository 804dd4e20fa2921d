/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One queue for all CPUs, ordered by virtual time: a small scheduler without a mistake, from which
 * tests make some with one.
 */
#include "fairground.bpf.h"

const volatile u64 slice_ns = 5000000;
static u64 vtime_now;

#define QUEUE 7

s32 BPF_STRUCT_OPS(sound_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;

	/* It is not put into the local queue: a real-time task may take an idle CPU at any time. */
	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
}

void BPF_STRUCT_OPS(sound_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 vtime = p->scx.dsq_vtime, slice = slice_ns;
	s32 cpu;

	/* Sleep earns one slice at most. */
	if (time_before(vtime, vtime_now - slice_ns))
		vtime = vtime_now - slice_ns;
	scx_bpf_dsq_insert_vtime(p, QUEUE, slice, vtime, enq_flags);
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* The CPU time since the slice began, by weight. */
static u64 cost(const struct task_struct *p)
{
	u64 used = slice_ns - p->scx.slice, weight = p->scx.weight;

	/* The lightest would wait longer for its turn than the watchdog allows. */
	if (weight < 5)
		weight = 5;
	return used * 100 / weight;
}

/*
 * Whether the task whose slice has ended, which is not in the queue yet, is before all there. It may
 * be no more than a slice behind, as those that wait: it would go on for as long as it catches up.
 */
static bool is_first(const struct task_struct *prev, s32 cpu)
{
	u64 vtime = prev->scx.dsq_vtime + cost(prev);
	u64 least = vtime_now - slice_ns;
	bool first = true;
	struct task_struct *p;

	if (time_before(vtime, least))
		vtime = least;

	bpf_for_each(scx_dsq, p, QUEUE, 0) {
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
			first = !time_before(p->scx.dsq_vtime, vtime);
			break;
		}
	}
	return first;
}

/* A task begins to run, or goes on. */
static void begin(struct task_struct *p)
{
	if (time_before(vtime_now, p->scx.dsq_vtime))
		vtime_now = p->scx.dsq_vtime;
}

void BPF_STRUCT_OPS(sound_dispatch, s32 cpu, struct task_struct *prev)
{
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED) && is_first(prev, cpu)) {
		prev->scx.dsq_vtime += cost(prev);
		prev->scx.slice = slice_ns;
		begin(prev);
		return;
	}
	scx_bpf_dsq_move_to_local(QUEUE, 0);
}

void BPF_STRUCT_OPS(sound_running, struct task_struct *p)
{
	begin(p);
}

void BPF_STRUCT_OPS(sound_stopping, struct task_struct *p, bool runnable)
{
	p->scx.dsq_vtime += cost(p);
}

void BPF_STRUCT_OPS(sound_enable, struct task_struct *p)
{
	p->scx.dsq_vtime = vtime_now;
}

/* A real-time task takes the CPU: others run the tasks that were to run there. */
void BPF_STRUCT_OPS(sound_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local();
}

/* With these two it stays loaded when a CPU comes or goes. */
void BPF_STRUCT_OPS_SLEEPABLE(sound_cpu_online, s32 cpu)
{
}

void BPF_STRUCT_OPS_SLEEPABLE(sound_cpu_offline, s32 cpu)
{
}

s32 BPF_STRUCT_OPS_SLEEPABLE(sound_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

DEFINE_SCHEDULER(sound,
	CALLBACKS_OF(sound, select_cpu, enqueue, dispatch, running, stopping, enable, cpu_release, cpu_online,
		     cpu_offline, init)
	.name = "sound");
