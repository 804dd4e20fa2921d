/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fair_state.h - the state of Linux's fair classes for a CPU and a task, as members of their
 * records
 *
 * FAIR_* is common to all of them; CFS_QUEUE_STATE and CFS_TASK_STATE add the further state of CFS
 * (fair.h).
 */
#pragma once

#include "starvation.h"
#include "virtual_runtime.h"

/* Whose CFS: the rules differ */
enum cfs_release {
	RELEASE_2_6_24,
	RELEASE_3_0,
};

#define FAIR_QUEUE_STATE									\
	s32 cpu;										\
	/* Number and total weight of the runnable tasks, with the running one; atomic */	\
	u32 nr_running;										\
	u64 load_weight;									\
	/* A real-time task has the CPU */							\
	u32 real_time;										\
	/* Clock of the next look for starved tasks */						\
	u64 rescue_at;										\
	/* The running task, if there is one */							\
	bool curr;										\
	/* The running task is to be put back and another one picked */				\
	bool need_resched;									\
	s32 curr_pid;										\
	u64 curr_weight;									\
	u64 curr_vruntime;									\
	/* Clock up to which curr_vruntime is right */						\
	u64 exec_start;										\
	/* Clock at which the kernel's slice, as set, ends */					\
	u64 slice_end;										\
	/* Clock of a pick whose task has not run yet, or 0 */					\
	u64 picked_at;

#define CFS_QUEUE_STATE										\
	FAIR_QUEUE_STATE									\
	/* Smallest virtual runtime of the CPU, never decreases */				\
	u64 min_vruntime;									\
	s32 curr_prio;										\
	u32 curr_policy;									\
	/* How long the task ran since its pick: sum_exec_runtime - prev_sum_exec_runtime */	\
	u64 slice_exec;										\
	/*											\
	 * 3.0's buddies, by pid, 0 for none: the task that was woken and preempted, the one	\
	 * that it preempted, and the one that yielded						\
	 */											\
	s32 next;										\
	s32 last;										\
	s32 skip;

#define FAIR_TASK_STATE										\
	/* In CFS, of a task that no longer runs and is not in a queue yet */			\
	u64 vruntime;										\
	/* One plus the CPU whose sums include the task, or 0 if not runnable; atomic */	\
	s32 on_rq;										\
	/* One plus the CPU whose virtual time vruntime relates to, or 0 for none yet */	\
	s32 vruntime_cpu;									\
	u32 weight;										\
	u32 old_weight;										\
	/* Forked and not yet placed */								\
	bool new_task;										\
	/* Taken off the queue only to change an attribute */					\
	bool changing;										\
	/* Clock since when it waits */								\
	u64 wait_start;

#define CFS_TASK_STATE									\
	FAIR_TASK_STATE									\
	/* It has been put: its virtual runtime is in vruntime */			\
	bool put;									\
	/* Time it had run since it was picked, if it goes on after a change */		\
	u64 slice_exec;									\
	/* Clock when it last ran */							\
	u64 last_ran;
