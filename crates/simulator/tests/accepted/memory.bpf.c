/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Structures on the stack and in maps, copied whole, compared, packed, with bit fields, as text. */
#include "one_callback.h"

struct packed {
	u8 kind;
	u32 number;
	u16 tail;
} __attribute__((packed));

struct record {
	u32 low : 5, high : 11, rest : 16;
	union {
		u64 whole;
		struct {
			u32 left, right;
		};
	};
	struct packed packed[3];
	char name[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8);
	__type(key, struct packed);
	__type(value, struct record);
} by_structure SEC(".maps");

static struct record global;

RUNNING()
{
	struct packed key = { .kind = 1, .number = p->pid, .tail = 2 };
	struct record record = {}, *found;

	record.low = p->pid;
	record.high = record.low + 3;
	record.right = p->prio;
	__builtin_memcpy(record.name, p->comm, sizeof(record.name));
	for (int i = 0; i < 3; i++)
		record.packed[i] = key;
	bpf_probe_read_kernel_str(record.name, sizeof(record.name), p->comm);
	if (bpf_map_update_elem(&by_structure, &key, &record, BPF_ANY))
		return;
	found = bpf_map_lookup_elem(&by_structure, &key);
	if (!found)
		return;
	global = *found;
	found->packed[(u32)p->pid % 3].number = global.packed[1].number + found->high;
	if (!bpf_strncmp(found->name, 2, "t-"))
		found->whole++;
	__builtin_memset(&global, 0, sizeof(global));
	bpf_map_delete_elem(&by_structure, &key);
}

SCHEDULER;
