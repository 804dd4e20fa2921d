/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fair_state.h - what CFS keeps of a CPU, as members of the record of its run queue; see fair.h */
#pragma once

#define FAIR_QUEUE_STATE								\
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
	/*										\
	 * 3.0's buddies, by pid, 0 for none: the task that was woken and preempted, the one that it preempted, and	\
	 * the one that yielded								\
	 */										\
	s32 next;									\
	s32 last;									\
	s32 skip;
