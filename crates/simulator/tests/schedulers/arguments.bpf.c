/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Passes something else than a function takes: an address that comes from where the kernel has
 * pointers, or a word that is not a lock. What is called is defined by the test.
 */
#include "fairground.bpf.h"

extern void *bpf_rbtree_first(u64 *root) __ksym;
extern void *bpf_list_front(u64 *head) __ksym;

struct value {
	u64 word;
	struct bpf_spin_lock lock;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct value);
} values SEC(".maps");

static u64 garbage = 12345;

void BPF_STRUCT_OPS(arguments_enqueue, struct task_struct *p, u64 enq_flags)
{
	void *nowhere = (void *)p->se.sum_exec_runtime;
	/* Inside a task, where a task could be. */
	void *inside = (void *)p->group_leader + (p->se.sum_exec_runtime & 8);
	u32 key = 0;
	u64 buffer;
	struct value *value = bpf_map_lookup_elem(&values, &key);

	if (p->se.sum_exec_runtime && value) {
		value->word = garbage;
		CALL;
	}
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

DEFINE_SCHEDULER(arguments, .enqueue = (void *)arguments_enqueue, .name = "arguments");
