/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Makes at each choice the calls that the verifier replaces by instructions, and CALLS that it does
 * not. The kernel's defaults schedule.
 */
#include "fairground.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} array SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} percpu_array SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} hash SEC(".maps");

static volatile u64 seen;

static int nothing(u32 round, void *context)
{
	return 0;
}

void BPF_STRUCT_OPS(inlined_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 key = 0;
	int i;

	seen += bpf_map_lookup_elem(&array, &key) != NULL;
	seen += bpf_map_lookup_elem(&percpu_array, &key) != NULL;
	seen += bpf_get_smp_processor_id() + bpf_jiffies64();
	seen += bpf_get_current_task_btf()->pid;
	bpf_loop(2, nothing, NULL, 0);
	bpf_for(i, 0, 2)
		seen += i;
	for (i = 0; i < CALLS; i++)
		seen += bpf_map_lookup_elem(&hash, &key) != NULL;
}

DEFINE_SCHEDULER(inlined, .dispatch = (void *)inlined_dispatch, .name = "inlined");
