/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Uses the kernel's functions for strings, lists, trees, work and walks through tasks, and prints
 * the results.
 */
#include "fairground.bpf.h"

void *bpf_obj_new_impl(u64 local_type_id, void *meta) __ksym;
void bpf_obj_drop_impl(void *object, void *meta) __ksym;
int bpf_rbtree_add_impl(struct bpf_rb_root *root, struct bpf_rb_node *node,
			bool (less)(struct bpf_rb_node *a, const struct bpf_rb_node *b), void *meta,
			u64 off) __ksym;
struct bpf_rb_node *bpf_rbtree_root(struct bpf_rb_root *root) __ksym;
struct bpf_rb_node *bpf_rbtree_left(struct bpf_rb_root *root, struct bpf_rb_node *node) __ksym;
struct bpf_rb_node *bpf_rbtree_right(struct bpf_rb_root *root, struct bpf_rb_node *node) __ksym;
int bpf_list_push_back_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta,
			    u64 off) __ksym;
bool bpf_list_empty(struct bpf_list_head *head) __ksym;
struct bpf_list_node *bpf_list_front(struct bpf_list_head *head) __ksym;
bool bpf_list_is_first(struct bpf_list_head *head, struct bpf_list_node *node) __ksym;
struct bpf_list_node *bpf_list_del(struct bpf_list_head *head, struct bpf_list_node *node) __ksym;
int bpf_strstr(const char *whole, const char *part) __ksym;
int bpf_strncasecmp(const char *first, const char *second, size_t limit) __ksym;
int bpf_wq_init(struct bpf_wq *work, void *map, unsigned int flags) __ksym;
int bpf_wq_set_callback_impl(struct bpf_wq *work, int (callback)(void *map, int *key, void *value),
			     unsigned int flags, void *aux) __ksym;
int bpf_wq_set_callback(struct bpf_wq *work, int (callback)(void *map, int *key, void *value),
			unsigned int flags) __ksym;
int bpf_wq_start(struct bpf_wq *work, unsigned int flags) __ksym;
extern int CONFIG_HZ __kconfig;

#define __contains(name, node) __attribute__((btf_decl_tag("contains:" #name ":" #node)))
#define container_of(ptr, type, member) ((type *)((void *)(ptr) - offsetof(type, member)))
#define offsetof(type, member) __builtin_offsetof(type, member)

struct node {
	struct bpf_rb_node tree;
	u64 key;
};

struct link {
	struct bpf_list_node list;
	u64 key;
};

struct worker {
	struct bpf_wq work;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct worker);
} workers SEC(".maps");

#define own(name) SEC(".bss." #name) __hidden __attribute__((aligned(8)))

own(trees) struct bpf_spin_lock lock;
own(trees) struct bpf_rb_root root __contains(node, tree);
own(lists) struct bpf_spin_lock list_lock;
own(lists) struct bpf_list_head head __contains(link, list);

static bool less(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	return container_of(a, struct node, tree)->key < container_of(b, struct node, tree)->key;
}

static void add_to_tree(u64 key)
{
	struct node *node = bpf_obj_new_impl(bpf_core_type_id_local(struct node), NULL);

	if (!node)
		return;
	node->key = key;
	bpf_spin_lock(&lock);
	bpf_rbtree_add_impl(&root, &node->tree, less, NULL, 0);
	bpf_spin_unlock(&lock);
}

static void climb_tree(void)
{
	struct bpf_rb_node *top, *left, *right;
	u64 keys[3] = {};

	bpf_spin_lock(&lock);
	top = bpf_rbtree_root(&root);
	if (top) {
		keys[1] = container_of(top, struct node, tree)->key;
		left = bpf_rbtree_left(&root, top);
		right = bpf_rbtree_right(&root, top);
		if (left)
			keys[0] = container_of(left, struct node, tree)->key;
		if (right)
			keys[2] = container_of(right, struct node, tree)->key;
	}
	bpf_spin_unlock(&lock);
	bpf_printk("tree %llu %llu %llu", keys[0], keys[1], keys[2]);
}

static void use_list(void)
{
	struct link *link = bpf_obj_new_impl(bpf_core_type_id_local(struct link), NULL);
	struct bpf_list_node *front;
	bool empty, first = false;

	if (!link)
		return;
	bpf_spin_lock(&list_lock);
	empty = bpf_list_empty(&head);
	bpf_list_push_back_impl(&head, &link->list, NULL, 0);
	front = bpf_list_front(&head);
	if (front) {
		first = bpf_list_is_first(&head, front);
		front = bpf_list_del(&head, front);
	}
	bpf_spin_unlock(&list_lock);
	bpf_printk("list empty %d first %d taken %d", empty, first, front != NULL);
	if (front)
		bpf_obj_drop_impl(container_of(front, struct link, list), NULL);
}

static int work(void *map, int *key, void *value)
{
	bpf_printk("work");
	return 0;
}

static void use_work(void)
{
	u32 key = 0;
	struct worker *worker = bpf_map_lookup_elem(&workers, &key);

	if (!worker)
		return;
	bpf_wq_init(&worker->work, &workers, 0);
	bpf_wq_set_callback(&worker->work, work, 0);
	bpf_wq_start(&worker->work, 0);
}

static u32 count(struct task_struct *first, unsigned int flags)
{
	struct bpf_iter_task it;
	u32 found = 0;

	bpf_iter_task_new(&it, first, flags);
	while (bpf_iter_task_next(&it))
		found++;
	bpf_iter_task_destroy(&it);
	return found;
}

static const char haystack[] = "a list of words", needle[] = "of", other[] = "A LIST";

s32 BPF_STRUCT_OPS_SLEEPABLE(library_init)
{
	add_to_tree(3);
	add_to_tree(1);
	add_to_tree(2);
	climb_tree();
	use_list();
	use_work();
	bpf_printk("at %d, %d", bpf_strstr(haystack, needle), bpf_strncasecmp(haystack, other, 6));
	bpf_printk("%d ticks a second", CONFIG_HZ);
	return 0;
}

void BPF_STRUCT_OPS(library_running, struct task_struct *p)
{
	u32 processes, threads, own;

	bpf_rcu_read_lock();
	processes = count(NULL, 0);
	threads = count(NULL, 1);
	own = count(p, 2);
	bpf_rcu_read_unlock();
	bpf_printk("%u processes, %u threads, %u from here on", processes, threads, own);
}

DEFINE_SCHEDULER(library,
		 .init = (void *)library_init,
		 .running = (void *)library_running,
		 .name = "library");
