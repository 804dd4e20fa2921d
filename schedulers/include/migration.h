/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * migration.h - whether a task may leave its CPU for a moment
 */
#ifndef FAIRGROUND_MIGRATION_H
#define FAIRGROUND_MIGRATION_H

/*
 * True if the task has disabled migration for itself. Whoever runs a BPF program cannot migrate meanwhile, so the current task, which
 * calls the scheduler when it is put back, always shows one level that is the program's own and not the task's.
 */
static __always_inline bool is_migration_disabled(const struct task_struct *p)
{
	u32 levels = p->migration_disabled;

	return levels == 1 ? p != bpf_get_current_task_btf() : levels;
}

#endif /* FAIRGROUND_MIGRATION_H */
