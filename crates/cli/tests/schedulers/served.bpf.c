/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A scheduler that decides nothing: its loader takes the tasks out of one queue and puts them into
 * another, in the order in which they are to run. The loader itself runs whenever there is
 * something for it to do. Each counts in the arena the tasks that it has handed over, and looks at
 * the other's count. The first thread that the loader makes beside its own is refused.
 */
#include "fairground.bpf.h"

#define __arena __attribute__((address_space(1)))

/* The start of the loader's counter. */
#define FIRST 1000

void __arena *bpf_arena_alloc_pages(void *map, void __arena *address, u32 pages, int node,
				    u64 flags) __ksym;

const volatile u64 slice_ns = 1;
const volatile s32 loader_pid = 1;

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1024);
	__type(value, s32);
} queued SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1024);
	__type(value, s32);
} decided SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 16);
	__ulong(map_extra, 1ull << 44);
} arena SEC(".maps");

struct shelf {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, 16);
};

/* The loader puts one there that has been filled in part before it attaches the scheduler. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, u32);
	__array(values, struct shelf);
} shelves SEC(".maps");

struct counts {
	u64 queued;
	u64 decided;
};

struct counts __arena *counts SEC(".data.counts");

/* Nothing ever comes through it. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} rings SEC(".maps");

u64 is_needed, inserted, threads;

struct place {
	u64 address;
};

/* The loader sets these values before it attaches the scheduler. */
SEC("syscall")
int make_counts(struct place *place)
{
	counts = bpf_arena_alloc_pages(&arena, NULL, 1, -1, 0);
	place->address = (u64)counts;
	return counts ? 0 : -ENOMEM;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(served_init)
{
	u32 place = 1, inside = 7;
	void *shelf = bpf_map_lookup_elem(&shelves, &place);
	u64 *kept = shelf ? bpf_map_lookup_elem(shelf, &inside) : NULL;

	asm volatile("" :: "r"(&arena));
	if (!kept || kept[1] != 3)
		return -ENOENT;
	return counts && counts->queued == FIRST && counts->decided == FIRST ? 0 : -EINVAL;
}

s32 BPF_STRUCT_OPS(served_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	if (args->fork && p->tgid == loader_pid && !threads++)
		return -EINVAL;
	return 0;
}

void BPF_STRUCT_OPS(served_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 pid = p->pid;

	if (pid == loader_pid)
		return;
	if (bpf_map_push_elem(&queued, &pid, 0)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice_ns, enq_flags);
		return;
	}
	asm volatile("" :: "r"(&arena));
	counts->queued++;
	__sync_fetch_and_or(&is_needed, 1);
	scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_IDLE);
}

static void insert(s32 pid)
{
	struct task_struct *p = bpf_task_from_pid(pid);

	if (!p)
		return;
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice_ns, 0);
	bpf_task_release(p);
}

void BPF_STRUCT_OPS(served_dispatch, s32 cpu, struct task_struct *prev)
{
	s32 pid, i;

	if (__sync_fetch_and_and(&is_needed, 0))
		insert(loader_pid);
	bpf_for(i, 0, 16) {
		if (bpf_map_pop_elem(&decided, &pid))
			break;
		insert(pid);
		inserted++;
	}
	asm volatile("" :: "r"(&arena));
	/* The last one may not be counted yet. */
	if (FIRST + inserted > counts->decided + 1)
		scx_bpf_error("the loader has counted %llu, and %llu have come",
			      counts->decided - FIRST, inserted);
}

DEFINE_SCHEDULER(served,
		 .enqueue	= (void *)served_enqueue,
		 .dispatch	= (void *)served_dispatch,
		 .init_task	= (void *)served_init_task,
		 .init		= (void *)served_init,
		 .flags		= SCX_OPS_ENQ_LAST,
		 .name		= "served");
