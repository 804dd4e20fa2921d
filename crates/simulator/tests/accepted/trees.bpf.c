/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Objects of the scheduler's own in a tree. */
#include "one_callback.h"

void *bpf_obj_new_impl(u64 local_type_id, void *meta) __ksym;
void bpf_obj_drop_impl(void *object, void *meta) __ksym;
int bpf_rbtree_add_impl(struct bpf_rb_root *root, struct bpf_rb_node *node,
			bool (less)(struct bpf_rb_node *a, const struct bpf_rb_node *b), void *meta,
			u64 off) __ksym;
struct bpf_rb_node *bpf_rbtree_remove(struct bpf_rb_root *root, struct bpf_rb_node *node) __ksym;
struct bpf_rb_node *bpf_rbtree_first(struct bpf_rb_root *root) __ksym;

#define __contains(name, node) __attribute__((btf_decl_tag("contains:" #name ":" #node)))
#define container_of(ptr, type, member) ((type *)((void *)(ptr) - offsetof(type, member)))
#define offsetof(type, member) __builtin_offsetof(type, member)

struct node {
	struct bpf_rb_node tree;
	u64 key;
};

#define own(name) SEC(".bss." #name) __hidden __attribute__((aligned(8)))

own(trees) struct bpf_spin_lock lock;
own(trees) struct bpf_rb_root root __contains(node, tree);

static bool less(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	return container_of(a, struct node, tree)->key < container_of(b, struct node, tree)->key;
}

RUNNING()
{
	struct node *node = bpf_obj_new_impl(bpf_core_type_id_local(struct node), NULL);
	struct bpf_rb_node *first;

	if (!node)
		return;
	node->key = p->pid;
	bpf_spin_lock(&lock);
	bpf_rbtree_add_impl(&root, &node->tree, less, NULL, 0);
	bpf_spin_unlock(&lock);

	bpf_spin_lock(&lock);
	first = bpf_rbtree_first(&root);
	if (!first) {
		bpf_spin_unlock(&lock);
		return;
	}
	first = bpf_rbtree_remove(&root, first);
	bpf_spin_unlock(&lock);
	if (!first)
		return;
	node = container_of(first, struct node, tree);
	numbers[0] = node->key;
	bpf_obj_drop_impl(node, NULL);
}

SCHEDULER;
