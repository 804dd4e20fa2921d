/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The control groups of the CPU controller, as the kernel's own scheduler sees them: without files,
 * and with the sessions of autogroup.
 */
#ifndef FAIRGROUND_GROUPS_H
#define FAIRGROUND_GROUPS_H

/* Depth of groups that is followed; systemd and containers nest less. */
#define GROUP_DEPTH 16
/* Numbers from here on belong to sessions, which autogroup counts by itself. */
#define SESSION_NUMBERS (1ULL << 63)
/* The kernel's scale of shares (scale_load()). */
#define SHARES_SHIFT 10

struct cfs_bandwidth {
	s64 period;
	u64 quota;
	u64 burst;
} __attribute__((preserve_access_index));

struct autogroup {
	unsigned long id;
} __attribute__((preserve_access_index));

struct task_group___recorded {
	struct cgroup_subsys_state css;
	int idle;
	unsigned long shares;
	struct autogroup *autogroup;
	struct task_group___recorded *parent;
	struct cfs_bandwidth cfs_bandwidth;
} __attribute__((preserve_access_index));

/* The group that `task` competes in; NULL for the root, and where the kernel has none. */
static __always_inline struct task_group___recorded *group_of(struct task_struct *task)
{
	struct task_group___recorded *group;

	if (!bpf_core_field_exists(task->sched_task_group))
		return NULL;
	group = (struct task_group___recorded *)task->sched_task_group;
	return group && group->parent ? group : NULL;
}

static __always_inline struct autogroup *session_of(struct task_group___recorded *group)
{
	return bpf_core_field_exists(group->autogroup) ? group->autogroup : NULL;
}

/* The number of a group, 0 for the root: that of its folder, or the session's. */
static __always_inline u64 group_number(struct task_group___recorded *group)
{
	struct cgroup *cgroup;
	struct autogroup *session;

	if (!group || !group->parent)
		return 0;
	cgroup = group->css.cgroup;
	if (cgroup)
		return cgroup->kn->id;
	session = session_of(group);
	return session ? SESSION_NUMBERS | session->id : 0;
}

#endif /* FAIRGROUND_GROUPS_H */
