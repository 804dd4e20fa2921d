/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Walks through control groups, bits and the threads of a process, and prints the elements. */
#include "fairground.bpf.h"
#include <bpf/bpf_core_read.h>

/* Declarations that the narrow vmlinux.h has no need of. */
#define LIKE_THE_KERNEL __attribute__((preserve_access_index))
struct cgroup_subsys_state___walk {
	struct cgroup *cgroup;
	struct cgroup_subsys_state___walk *parent;
} LIKE_THE_KERNEL;
struct kernfs_node___walk {
	struct kernfs_node___walk *__parent;
	u64 id;
} LIKE_THE_KERNEL;
struct cgroup___walk {
	struct cgroup_subsys_state___walk self;
	struct kernfs_node___walk *kn;
	int level;
} LIKE_THE_KERNEL;
struct list_head___walk {
	struct list_head___walk *next;
} LIKE_THE_KERNEL;
struct signal_struct___walk {
	int nr_threads;
	struct list_head___walk thread_head;
} LIKE_THE_KERNEL;
struct kuid___walk {
	u32 val;
};
struct cred___walk {
	struct kuid___walk euid;
} LIKE_THE_KERNEL;
struct pid_namespace___walk {
	u32 level;
} LIKE_THE_KERNEL;
struct upid___walk {
	int nr;
	struct pid_namespace___walk *ns;
} LIKE_THE_KERNEL;
struct pid___walk {
	u32 level;
	struct upid___walk numbers[1];
} LIKE_THE_KERNEL;
struct task_struct___walk {
	int pid;
	struct task_struct___walk *group_leader;
	struct signal_struct___walk *signal;
	struct pid___walk *thread_pid;
	struct cred___walk *real_cred;
	int numa_preferred_nid;
} LIKE_THE_KERNEL;

extern bool CONFIG_PREEMPT_RCU __kconfig __weak;
int bpf_iter_css_new(struct bpf_iter_css *it, void *start, unsigned int flags) __ksym;
struct cgroup_subsys_state___walk *bpf_iter_css_next(struct bpf_iter_css *it) __ksym;
void bpf_iter_css_destroy(struct bpf_iter_css *it) __ksym;
int bpf_iter_bits_new(struct bpf_iter_bits *it, const u64 *bits, u32 nr_words) __ksym;
int *bpf_iter_bits_next(struct bpf_iter_bits *it) __ksym;
void bpf_iter_bits_destroy(struct bpf_iter_bits *it) __ksym;
struct cgroup *bpf_cgroup_from_id(u64 id) __ksym;

#define WALK_PRE 2
#define WALK_POST 3

u64 bits[3] = { 1ULL << 1, 1, 1ULL << 2 };
static u32 said;

static void walk_groups(unsigned int order, s32 levels[3])
{
	struct cgroup___walk *root = (void *)bpf_cgroup_from_id(1);
	struct cgroup_subsys_state___walk *pos;
	struct bpf_iter_css it;
	u32 i = 0;

	if (!root)
		return;
	bpf_iter_css_new(&it, &root->self, order);
	while ((pos = bpf_iter_css_next(&it)))
		if (i < 3)
			levels[i++] = ((struct cgroup___walk *)pos->cgroup)->level;
	bpf_iter_css_destroy(&it);
	bpf_cgroup_release((struct cgroup *)root);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(walks_init)
{
#ifndef AT_THE_END
	s32 pre[3] = {}, post[3] = {}, set[3] = {}, *bit;
	struct bpf_iter_bits it;
	u32 i = 0;

	walk_groups(WALK_PRE, pre);
	walk_groups(WALK_POST, post);
	bpf_iter_bits_new(&it, bits, 3);
	while ((bit = bpf_iter_bits_next(&it)))
		if (i < 3)
			set[i++] = *bit;
	bpf_iter_bits_destroy(&it);
	bpf_printk("pre %d %d %d", pre[0], pre[1], pre[2]);
	bpf_printk("post %d %d %d", post[0], post[1], post[2]);
	bpf_printk("bits %d %d %d", set[0], set[1], set[2]);
#endif
	return 0;
}

void BPF_STRUCT_OPS(walks_enqueue, struct task_struct *p, u64 enq_flags)
{
#ifndef AT_THE_END
	struct task_struct___walk *task = (void *)p, *leader = task->group_leader;
	struct list_head___walk *head = (void *)&leader->signal->thread_head, *node = head->next;
	struct pid___walk *pid = leader->thread_pid;
	struct kernfs_node___walk *kn = ((struct cgroup___walk *)p->cgroups->dfl_cgrp)->kn;
	u32 found = 0;

	if (!said)
		bpf_printk("folder %lu in %lu", kn->id, kn->__parent ? kn->__parent->id : 0);
	while (node != head && found < 100) {
		found++;
		node = node->next;
	}
	bpf_printk("%d threads, %d counted", found, leader->signal->nr_threads);
	if (!said++)
		bpf_printk("preferred node %d", task->numa_preferred_nid);
	if (said == 1)
		bpf_printk("preemptible RCU %d, root %d, namespace %d, number %d",
			   CONFIG_PREEMPT_RCU, task->real_cred->euid.val, pid->numbers[0].ns->level,
			   pid->numbers[0].nr == leader->pid);
#endif
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(walks_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
#ifdef AT_THE_END
	bpf_printk("task");
#endif
}

void BPF_STRUCT_OPS(walks_cgroup_exit, struct cgroup *cgrp)
{
#ifdef AT_THE_END
	bpf_printk("group");
#endif
}

DEFINE_SCHEDULER(walks,
	.init = (void *)walks_init,
	.enqueue = (void *)walks_enqueue,
	.exit_task = (void *)walks_exit_task,
	.cgroup_exit = (void *)walks_cgroup_exit,
	.name = "walks");
