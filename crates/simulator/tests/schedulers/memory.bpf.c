/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Uses values of maps after they have left their map, in the same program, as RCU allows. The
 * kernel's defaults schedule.
 */
#include "fairground.bpf.h"

#ifndef TYPE
#define TYPE BPF_MAP_TYPE_HASH
#endif

/* Large enough that memory given back is given to the next request. */
struct value {
	u64 words[64];
};

struct {
	__uint(type, TYPE);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct value);
} values SEC(".maps");

static struct value fresh;

static struct value *add(u32 key, u64 number)
{
	fresh.words[0] = number;
	bpf_map_update_elem(&values, &key, &fresh, 0);
	return bpf_map_lookup_elem(&values, &key);
}

void BPF_STRUCT_OPS(memory_running, struct task_struct *p)
{
	u32 one = 1;
	struct value *old = add(1, 11);

	if (!old)
		return;
#ifdef DELETE
	bpf_map_delete_elem(&values, &one);
#endif
#ifdef REPLACE
	add(1, 12);
#endif
	/* Of a map that forgets these drive the first one out. */
	add(2, 22);
	add(3, 33);
	bpf_printk("%llu", old->words[0]);
	for (int i = 0; i < 64; i++)
		old->words[i] = ~0ULL;
	for (u32 key = 1; key < 4; key++) {
		struct value *value = bpf_map_lookup_elem(&values, &key);

		bpf_printk("%u: %llu", key, value ? value->words[0] : 0);
	}
}

DEFINE_SCHEDULER(memory, .running = (void *)memory_running, .name = "memory");
