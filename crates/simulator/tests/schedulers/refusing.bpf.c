/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Refuses every other fork of a task that is called child, or the first task, and says which
 * numbers it has seen.
 */
#include "fairground.bpf.h"

u32 forks;

s32 BPF_STRUCT_OPS(refusing_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	bpf_printk("init %d %d", p->pid, args->fork);
#ifdef REFUSE
	if (args->fork && !bpf_strncmp(p->comm, 5, "child") && !(forks++ & 1))
		return REFUSE;
#endif
#ifdef REFUSE_FIRST
	if (args->fork == REFUSE_FIRST)
		return -ENOMEM;
#endif
	return 0;
}

void BPF_STRUCT_OPS(refusing_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	bpf_printk("exit %d", p->pid);
}

DEFINE_SCHEDULER(refusing,
		 .init_task	= (void *)refusing_init_task,
		 .exit_task	= (void *)refusing_exit_task,
		 .name		= "refusing");
