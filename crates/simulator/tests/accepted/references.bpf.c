/* SPDX-License-Identifier: GPL-2.0-or-later */
/* References that are given back, kept, or never were taken, on ways that part and meet. */
#include "one_callback.h"

RUNNING()
{
	struct task_struct *task = NULL, *other;
	struct cgroup *group;
	struct kept *place;
	u32 key = p->pid & 3;
	u64 *record;

	if (p->pid & 1)
		task = bpf_task_from_pid(p->pid);
	if (task) {
		numbers[0] = task->pid;
		bpf_task_release(task);
	}

	task = bpf_task_from_pid(p->tgid);
	if (!task)
		goto no_task;
	if (task->nr_cpus_allowed == 1)
		goto release;
	other = bpf_task_acquire(task);
	if (other) {
		numbers[1] = other->pid;
		bpf_task_release(other);
	}
release:
	bpf_task_release(task);
no_task:
	place = bpf_map_lookup_elem(&kept, &key);
	if (place) {
		task = bpf_task_from_pid(p->pid);
		if (task)
			task = bpf_kptr_xchg(&place->task, task);
		if (task)
			bpf_task_release(task);
		task = place->task;
		if (task)
			numbers[2] = task->pid;
	}

	group = bpf_cgroup_from_id(1);
	if (group) {
		numbers[3] = group->level;
		bpf_cgroup_release(group);
	}

	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record)
		return;
	*record = p->pid;
	if (p->pid & 1)
		bpf_ringbuf_discard(record, 0);
	else
		bpf_ringbuf_submit(record, 0);
}

SCHEDULER;
