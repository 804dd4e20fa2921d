/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * real_time.h - real-time tasks, as a scheduler of ordinary tasks sees them
 *
 * In the kernels that schedulers here come from, real-time tasks stood in the same run queues as all others. They counted in a
 * CPU's length and load, so its waiting tasks were pulled away, and who had to make way for one was placed again. Under sched_ext the
 * kernel's own classes run them, above the scheduler. What it can know of them:
 *
 *   ops.cpu_release()          a real-time task takes the CPU from a task of the scheduler, which has just gone through ops.stopping() and,
 *                              if it has no slice left, ops.enqueue()
 *   higher_class_runs(cpu)     one runs there now. Nobody says when one takes an idle CPU, so a scheduler asks when it puts a task into
 *                              the queue of a CPU that runs none of its own, and its timer asks again for all such CPUs
 *   ops.dispatch(), running()  the CPU is the scheduler's again
 *
 * A run queue has a member `u32 real_time`, and a scheduler that counts tasks counts one more when real_time_came() says so: in
 * ops.cpu_release(), before scx_bpf_reenqueue_local(), which sends tasks that have been picked and have not run yet back to
 * ops.enqueue() with SCX_ENQ_REENQ, and if higher_class_runs() in ops.enqueue() and a timer. It counts one less when
 * real_time_left() says so, in ops.dispatch() and ops.running(). In ops.stopping() it does hand_back() with a runnable task.
 * runnable_load.h has that done.
 *
 * So one real-time task counts for each CPU, the one that runs, and only where a task could wait behind it.
 */
#pragma once

/* Does a real-time task, or the kernel's stopper, have the CPU? */
static __always_inline bool higher_class_runs(s32 cpu)
{
	struct task_struct *curr = scx_bpf_cpu_curr(cpu);

	return curr && curr->prio < MAX_RT_PRIO;
}

/* True if it is news that a real-time task has the CPU. */
static __always_inline bool real_time_came(u32 *real_time)
{
	return !*real_time && !__sync_lock_test_and_set(real_time, 1);
}

/* True if it is news that none has it. */
static __always_inline bool real_time_left(u32 *real_time)
{
	return *real_time && __sync_lock_test_and_set(real_time, 0);
}

/*
 * A task that still has slice when it has to stop waits at the head of the CPU's local queue, where no other CPU finds it. Without slice
 * the kernel hands it back to ops.enqueue().
 */
static __always_inline void hand_back(struct task_struct *p)
{
	scx_bpf_task_set_slice(p, 0);
}
