/* SPDX-License-Identifier: GPL-2.0-or-later */
/* o1_state.h - what the O(1) scheduler keeps of a task and of a run queue, as members of their records; see o1_priority.h, o1_task.h */
#ifndef FAIRGROUND_O1_STATE_H
#define FAIRGROUND_O1_STATE_H

#define O1_TASK_STATE									\
	/* Nanoseconds of sleep credit, 0 to NS_MAX_SLEEP_AVG */			\
	u64 sleep_avg;									\
	/* Start of the current run, wait or sleep, and the last switch away from the task; nanoseconds */	\
	u64 timestamp;									\
	u64 last_ran;									\
	/* Tick up to which the current run is charged, and ticks left of the slice */	\
	u64 charged_until;								\
	u32 time_slice;									\
	s32 static_prio;								\
	s32 prio;									\
	s32 interactive_credit;								\
	/* enum sleep_type */								\
	u32 sleep_type;									\
	/* Still in the slice it got from its parent */					\
	bool first_time_slice;								\
	/* Goes to the front of its list: it ran without being requeued, and so keeps the place it had */	\
	bool at_head;									\
	/* A child has been put in front of the task */					\
	bool child_first;								\
	/* Sleeping, and the sleep cannot be interrupted */				\
	bool uninterruptible;								\
	bool running;									\
	/* Runs for one tick because it has waited for starvation_limit */		\
	bool rescued;

#define O1_QUEUE_STATE									\
	/* Jiffies when the first task entered the expired array since the last switch, 0 for none */		\
	u64 expired_timestamp;								\
	/* Best static priority in the expired array */					\
	s32 best_expired_prio;								\
	/* When to look for starving tasks next, nanoseconds */				\
	u64 rescue_at;

#endif /* FAIRGROUND_O1_STATE_H */
