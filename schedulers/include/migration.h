/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * migration.h - whether a task may leave its CPU, and who is told that one waits
 */
#pragma once

#include "kfuncs.bpf.h"

/*
 * True if the task has disabled migration for itself. A task cannot migrate while it runs a BPF
 * program, so the current task, which calls the scheduler when it is put back, always shows one
 * level that is the program's and not its own.
 */
static __always_inline bool is_migration_disabled(const struct task_struct *p)
{
	u32 levels = p->migration_disabled;

	return levels == 1 ? p != bpf_get_current_task_btf() : levels;
}

/*
 * True if @cpu may run @p. A waiting task that has disabled migration can only continue where it
 * was; for a moment after it has lost its CPU its mask does not say so yet, and moving it then ends
 * the scheduler.
 */
static __always_inline bool can_run_on(const struct task_struct *p, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) &&
	       (!is_migration_disabled(p) || scx_bpf_task_cpu(p) == cpu);
}

/* True if @prev, which has run on @cpu until now, is still runnable and may stay there. */
static __always_inline bool can_go_on(const struct task_struct *prev, s32 cpu)
{
	return (prev->scx.flags & SCX_TASK_QUEUED) && bpf_cpumask_test_cpu(cpu, prev->cpus_ptr);
}

/* True if a task that waits, or has just been put back, may be moved to @cpu. */
static __always_inline bool task_allowed(const struct task_struct *p, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && !is_migration_disabled(p);
}

/* A task waits on a busy CPU: makes an idle CPU that may run it look for it, if there is one. */
static __always_inline bool wake_idle_cpu(const struct task_struct *p)
{
	s32 idle;

	if (p->nr_cpus_allowed == 1 || is_migration_disabled(p))
		return false;
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle < 0)
		return false;
	scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	return true;
}
