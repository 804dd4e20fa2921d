/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

void BPF_STRUCT_OPS(refused_dispatch, s32 cpu, struct task_struct *prev)
{
	numbers[0] = prev->pid;		/* refused: the pointer to struct task_struct may be NULL */
}

DEFINE_SCHEDULER(refused, .dispatch = (void *)refused_dispatch, .name = "refused");
