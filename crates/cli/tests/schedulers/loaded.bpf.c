/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A scheduler of one queue whose loader sets a constant, sizes and fills a map, runs programs, and
 * chooses among programs and callbacks.
 */
#include "fairground.bpf.h"

#define QUEUE 7

/* The part of a task that this wants, wherever the kernel has it. */
struct task_struct___part {
	int prio;
} __attribute__((preserve_access_index));

const volatile u64 slice_ns = 1;

struct domain {
	u64 cpus;
	s32 node;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct domain);
} domains SEC(".maps");

struct shelf {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct domain);
};

/* The loader puts one there that has been filled in part. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, u32);
	__array(values, struct shelf);
} shelves SEC(".maps");

struct pair {
	s32 cpu;
	s32 sibling;
	u64 token;
};

u64 siblings;

SEC("syscall")
int tell_sibling(struct pair *pair)
{
	siblings += pair->sibling;
	return 0;
}

SEC("syscall")
int look(struct pair *pair)
{
	u32 key = pair->cpu;
	struct domain *domain = bpf_map_lookup_elem(&domains, &key);
	u32 place = 1, inside = 7;
	void *shelf = bpf_map_lookup_elem(&shelves, &place);

	if (shelf) {
		struct domain *kept = bpf_map_lookup_elem(shelf, &inside);

		bpf_printk("shelf %d", kept ? kept->node : -1);
	}
	bpf_printk("slice %llu, siblings %llu, node %d", slice_ns, siblings,
		   domain ? domain->node : -1);
	return 0;
}

/* Not in .bss, whose contents a test compares between two runs on a kernel. */
u64 enqueued SEC(".data"), switches SEC(".data"), wakeups SEC(".data");

/* The loader switches this on. */
SEC("?tp_btf/sched_switch")
int count_switch(u64 *context)
{
	__sync_fetch_and_add(&switches, 1);
	return 0;
}

/* And this off. */
SEC("tp_btf/sched_wakeup")
int count_wakeup(u64 *context)
{
	__sync_fetch_and_add(&wakeups, 1);
	return 0;
}

/* And it leaves this callback out. */
void BPF_STRUCT_OPS(loaded_running, struct task_struct *p)
{
	scx_bpf_error("ops.running() was not left out");
}

void BPF_STRUCT_OPS(loaded_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_struct___part *part = (void *)p;

	if (part->prio < 100)
		scx_bpf_error("a task of priority %d", part->prio);
	if (wakeups)
		scx_bpf_error("count_wakeup() was not left out");
	if (__sync_fetch_and_add(&enqueued, 1) > 50 && !switches)
		scx_bpf_error("count_switch() was not switched on");
	scx_bpf_dsq_insert(p, QUEUE, slice_ns, enq_flags);
}

void BPF_STRUCT_OPS(loaded_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(loaded_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

DEFINE_SCHEDULER(loaded,
		 .enqueue	= (void *)loaded_enqueue,
		 .dispatch	= (void *)loaded_dispatch,
		 .running	= (void *)loaded_running,
		 .init		= (void *)loaded_init,
		 .name		= "loaded");
