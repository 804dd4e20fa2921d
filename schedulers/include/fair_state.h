/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fair_state.h - what CFS keeps of a CPU and of a task, as members of their records; see fair.h */
#pragma once

#define FAIR_QUEUE_STATE								\
	s32 cpu;									\
	/* Number and sum of the weights of the runnable tasks, the running one included; changed atomically */		\
	u32 nr_running;									\
	u64 load_weight;								\
	/* A real-time task has the CPU and is in both */				\
	u32 real_time;									\
	/* Clock of the next look for starved tasks */					\
	u64 rescue_at;									\
	/* Smallest virtual runtime of the CPU, never goes back */			\
	u64 min_vruntime;								\
	/* The running task, if there is one */						\
	bool curr;									\
	/* The task that runs shall be put back and the leftmost be picked */		\
	bool need_resched;								\
	s32 curr_pid;									\
	s32 curr_prio;									\
	u32 curr_policy;								\
	u32 curr_weight;								\
	u64 curr_vruntime;								\
	/* Clock up to which curr_vruntime is right */					\
	u64 exec_start;									\
	/* Time it ran since it was picked: sum_exec_runtime - prev_sum_exec_runtime */	\
	u64 slice_exec;									\
	/* Clock at which the kernel's slice, as set, ends */				\
	u64 slice_end;									\
	/* Clock of a pick whose task has not run yet, or 0 */				\
	u64 picked_at;									\
	/*										\
	 * 3.0's buddies, by pid, 0 for none: the task that was woken and preempted, the one that it preempted, and	\
	 * the one that yielded								\
	 */										\
	s32 next;									\
	s32 last;									\
	s32 skip;

#define FAIR_TASK_STATE									\
	/* The virtual runtime of a task that does not run any more and is in no queue yet */				\
	u64 vruntime;									\
	bool put;									\
	/* CPU whose sums hold the task plus one, or 0 if it is not runnable; changed atomically */			\
	s32 on_rq;									\
	/* CPU to whose min_vruntime the virtual runtime relates plus one, or 0 for none yet */				\
	s32 vruntime_cpu;								\
	u32 weight;									\
	u32 old_weight;									\
	/* Forked and not yet placed */							\
	bool new_task;									\
	/* Taken off the queue only to change an attribute */				\
	bool changing;									\
	/* What it had run since it was picked, if it goes on after a change */		\
	u64 slice_exec;									\
	/* Clock since when it waits, and when it last ran */				\
	u64 wait_start;									\
	u64 last_ran;
