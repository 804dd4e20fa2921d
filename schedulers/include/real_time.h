/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * real_time.h - real-time tasks, as a scheduler of ordinary tasks sees them
 *
 * In the kernels that these schedulers come from, real-time tasks were in the same run queues as
 * all others. They counted in a CPU's length and load, so its waiting tasks were pulled away, and a
 * task that had to make way for one was placed again. Under sched_ext the kernel's own classes run
 * them, above the scheduler, which can know this about them:
 *
 *   ops.cpu_release()          a real-time task takes the CPU from a task of the scheduler, which
 *                              has just gone through ops.stopping() and, without slice left,
 *                              ops.enqueue()
 *   higher_class_runs(cpu)     one runs there now. No callback tells when one takes an idle CPU, so
 *                              a scheduler asks when it puts a task into the queue of a CPU that
 *                              runs none of its own, and its timer asks for all such CPUs
 *   ops.dispatch(), running()  the CPU is the scheduler's again
 *
 * A run queue has a member `u32 real_time`, and a scheduler that counts tasks counts one more when
 * real_time_came() says so: in ops.cpu_release(), before scx_bpf_reenqueue_local(), which sends
 * tasks that have been picked but have not run yet back to ops.enqueue() with SCX_ENQ_REENQ, and if
 * higher_class_runs() in ops.enqueue() and a timer. It counts one less when real_time_left() says
 * so, in ops.dispatch() and ops.running(). In ops.stopping() it calls hand_back() on a runnable
 * task. runnable_load.h does the counting.
 *
 * So at most one real-time task counts per CPU, the running one, and only where a task could wait
 * behind it.
 */
#pragma once

#include "kfuncs.bpf.h"
#include "kernel_constants.h"

/* Does a real-time task or the kernel's stopper have the CPU? */
static __always_inline bool higher_class_runs(s32 cpu)
{
	struct task_struct *curr = scx_bpf_cpu_curr(cpu);

	return curr && curr->prio < MAX_RT_PRIO;
}

/* Notes that a real-time task has the CPU; true if that is new. */
static __always_inline bool real_time_came(u32 *real_time)
{
	return !*real_time && !__sync_lock_test_and_set(real_time, 1);
}

/* Notes that none has it; true if that is new. */
static __always_inline bool real_time_left(u32 *real_time)
{
	return *real_time && __sync_lock_test_and_set(real_time, 0);
}

/*
 * A task that has slice left when it must stop waits at the head of the CPU's local queue, where no
 * other CPU finds it. Without slice, the kernel hands it back to ops.enqueue().
 */
static __always_inline void hand_back(struct task_struct *p)
{
	scx_bpf_task_set_slice(p, 0);
}
