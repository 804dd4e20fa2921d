/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * task_attributes.h - task attributes that the kernel's policies cannot express
 *
 * One layout for all schedulers. In the simulator the workload sets them; on a real kernel
 * `fairground task` does, through a pidfd. A scheduler reads those that its document describes and
 * ignores the others. Nice, SCHED_IDLE, SCHED_BATCH, SCHED_FIFO and SCHED_RR are not here: they
 * keep their kernel meaning.
 *
 * Include this header only in a scheduler that reads attributes: it defines the map.
 */
#pragma once

#include "fairground.bpf.h"

/* task_attributes.present: which members are set; an absent one has the scheduler's default. */
enum task_attribute {
	TASK_ATTRIBUTE_SHARES = 1 << 0,
	TASK_ATTRIBUTE_HARD_CAP = 1 << 1,
	TASK_ATTRIBUTE_SOFT_CAP = 1 << 2,
	TASK_ATTRIBUTE_ISOCHRONOUS = 1 << 3,
	TASK_ATTRIBUTE_BACKGROUND = 1 << 4,
	TASK_ATTRIBUTE_REALTIME = 1 << 5,
};

/* Kind of real-time task (BMQS): global ones may run on every CPU, local ones stay on theirs. */
enum realtime_kind {
	REALTIME_NONE = 0,
	REALTIME_LOCAL = 1,
	REALTIME_GLOBAL = 2,
};

struct task_attributes {
	/* Bits of enum task_attribute */
	u32 present;
	/* Shares (EBS) */
	u32 shares;
	/*
	 * Caps (EBS): the most a task gets, a part of one CPU; hard always, soft unless a CPU would
	 * idle
	 */
	u32 hard_cap_numerator;
	u32 hard_cap_denominator;
	u32 soft_cap_numerator;
	u32 soft_cap_denominator;
	/* Isochronous (BFS): 1 if the task asks for it */
	u32 isochronous;
	/* Background: 1 if the task should run only when nothing else would */
	u32 background;
	/* enum realtime_kind */
	u32 realtime_kind;
	/* Priority among real-time tasks, 1 to 99, larger is more urgent */
	u32 realtime_priority;
};

/* attributes_of() is NULL for a task without attributes. */
DEFINE_TASK_STORAGE(struct task_attributes, task_attributes, attributes)

static __always_inline bool asks_for_isochronous(const struct task_attributes *attributes)
{
	return attributes && (attributes->present & TASK_ATTRIBUTE_ISOCHRONOUS) &&
	       attributes->isochronous;
}

static __always_inline bool asks_for_realtime(const struct task_attributes *attributes)
{
	return attributes && (attributes->present & TASK_ATTRIBUTE_REALTIME) &&
	       attributes->realtime_kind != REALTIME_NONE;
}

/* Gives a child being forked its parent's attributes, unless it already has its own. */
static __always_inline void inherit_attributes(struct task_struct *child)
{
	const struct task_attributes *theirs = attributes_of(bpf_get_current_task_btf());
	struct task_attributes *ours;

	if (!theirs || attributes_of(child))
		return;
	ours = new_attributes(child);
	if (ours)
		*ours = *theirs;
}
