/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * idle_task.h - the task of a CPU, seen from another one
 *
 * A CPU is idle here if its idle task is running: a CPU that has been kicked but has not responded
 * yet still counts, as it did for schedulers without a mask of idle CPUs.
 */
#pragma once

#include "fairground.bpf.h"

static __always_inline bool is_idle(const struct task_struct *p)
{
	return p->flags & PF_IDLE;
}

static __always_inline bool cpu_is_idle(s32 cpu)
{
	struct task_struct *p = scx_bpf_cpu_curr(cpu);

	return p && is_idle(p);
}

/* A task that sched_ext schedules; real-time tasks are out of its reach. */
static __always_inline bool is_ordinary(const struct task_struct *p)
{
	return !is_idle(p) && p->prio >= MAX_RT_PRIO;
}
