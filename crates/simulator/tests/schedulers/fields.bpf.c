/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prints fields of tasks and groups that no mechanism of the kernel model changes. The kernel's
 * defaults schedule.
 */
#include "fairground.bpf.h"
#include <bpf/bpf_core_read.h>

struct uclamp_se___more {
	unsigned int value : 11;
	unsigned int bucket_id : 3;
	unsigned int active : 1;
	unsigned int user_defined : 1;
} __attribute__((preserve_access_index));

struct sched_statistics___more {
	u64 nr_wakeups;
	u64 nr_wakeups_sync;
} __attribute__((preserve_access_index));

struct task_struct___more;

struct mm_struct___more {
	struct task_struct___more *owner;
} __attribute__((preserve_access_index));

struct task_struct___more {
	int pid;
	int exit_signal;
	struct uclamp_se___more uclamp_req[2];
	struct sched_statistics___more stats;
	struct mm_struct___more *mm;
	void *numa_group;
	unsigned long *numa_faults;
	unsigned long total_numa_faults;
} __attribute__((preserve_access_index));

struct cgroup___more {
	struct kernfs_node *kn;
	int level;
	struct cgroup___more *ancestors[];
} __attribute__((preserve_access_index));

void BPF_STRUCT_OPS(fields_running, struct task_struct *p)
{
	struct task_struct___more *more = (void *)p;
	u64 least = BPF_CORE_READ_BITFIELD_PROBED(more, uclamp_req[0].value);
	u64 most = BPF_CORE_READ_BITFIELD_PROBED(more, uclamp_req[1].value);
	u64 bucket = BPF_CORE_READ_BITFIELD_PROBED(more, uclamp_req[1].bucket_id);

	bpf_printk("%s: clamps %llu %llu in %llu", p->comm, least, most, bucket);
	bpf_printk("%s: signal %d owner %d", p->comm, more->exit_signal,
		   BPF_CORE_READ(more, mm, owner, pid) - more->pid);
	bpf_printk("%s: numa %d wakeups %llu", p->comm,
		   !!more->numa_group + !!more->numa_faults + (int)more->total_numa_faults,
		   more->stats.nr_wakeups + more->stats.nr_wakeups_sync);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(fields_cgroup_init, struct cgroup *cgrp,
			     struct scx_cgroup_init_args *args)
{
	struct cgroup___more *more = (void *)cgrp;
	int i, level = BPF_CORE_READ(more, level);

	bpf_for(i, 0, level + 1)
		bpf_printk("level %d: ancestor %d is %llu", level, i,
			   BPF_CORE_READ(more, ancestors[i], kn, id));
	return 0;
}

DEFINE_SCHEDULER(fields,
		 .running	= (void *)fields_running,
		 .cgroup_init	= (void *)fields_cgroup_init,
		 .name		= "fields");
