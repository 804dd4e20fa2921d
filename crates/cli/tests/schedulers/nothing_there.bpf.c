/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stores through a null pointer into an arena, which a kernel drops, and loads through it, which
 * gives 0 there.
 */
#include "fairground.bpf.h"

#define __arena __attribute__((address_space(1)))

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 16);
} arena SEC(".maps");

struct entry {
	u64 count;
	struct entry __arena *next;
	u32 flags;
};

/* NULL, which only this program knows */
struct entry __arena *first;

void BPF_STRUCT_OPS(nothing_there_running, struct task_struct *p)
{
	struct entry __arena *entry = first;

	asm volatile("" :: "r"(&arena));
	entry->count = p->pid;
	entry->flags = 7;
	__sync_fetch_and_add(&entry->count, 1);
	if (entry->count || entry->flags || entry->next)
		scx_bpf_error("there is something: %llu %u", entry->count, entry->flags);
}

DEFINE_SCHEDULER(nothing_there, .running = (void *)nothing_there_running, .name = "nothing_there");
