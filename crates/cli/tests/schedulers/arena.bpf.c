/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Allocates a page of an arena, and writes to the one behind it.
 */
#include "fairground.bpf.h"

#define __arena __attribute__((address_space(1)))

void __arena *bpf_arena_alloc_pages(void *map, void __arena *address, u32 pages, int node, u64 flags) __ksym;

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 16);
} arena SEC(".maps");

u64 __arena *page;

s32 BPF_STRUCT_OPS_SLEEPABLE(arena_init)
{
	page = bpf_arena_alloc_pages(&arena, NULL, 1, -1, 0);
	return page ? 0 : -ENOMEM;
}

void BPF_STRUCT_OPS(arena_running, struct task_struct *p)
{
	asm volatile("" :: "r"(&arena));
	page[511]++;
	page[512 + (p->pid & 7)] = p->pid;
}

DEFINE_SCHEDULER(arena, .init = (void *)arena_init, .running = (void *)arena_running,
		 .name = "arena");
