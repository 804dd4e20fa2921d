/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A map of prefixes, a Bloom filter, a stack, and a ring buffer with dynamic pointers. */
#include "one_callback.h"

struct prefix {
	u32 length;
	u8 bytes[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 2);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct prefix);
	__type(value, u64);
} prefixes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_BLOOM_FILTER);
	__uint(max_entries, 8);
	__type(value, u64);
} filter SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 2);
	__type(value, u64);
} stack SEC(".maps");

#define CHECK(condition)					\
	do {							\
		if (!(condition)) {				\
			scx_bpf_error("not so: " #condition);	\
			return;					\
		}						\
	} while (0)

static __noinline void find_prefixes(void)
{
	struct prefix wide = { 8, { 10 } }, narrow = { 16, { 10, 1 } }, other = { 8, { 11 } },
		      whole = { 32, { 10, 1, 2, 3 } };
	u64 one = 1, two = 2, *found;

	CHECK(!bpf_map_update_elem(&prefixes, &wide, &one, BPF_ANY));
	CHECK(!bpf_map_update_elem(&prefixes, &narrow, &two, BPF_ANY));
	CHECK(bpf_map_update_elem(&prefixes, &other, &two, BPF_ANY) == -28);
	found = bpf_map_lookup_elem(&prefixes, &whole);
	CHECK(found && *found == 2);
	whole.bytes[1] = 9;
	found = bpf_map_lookup_elem(&prefixes, &whole);
	CHECK(found && *found == 1);
	whole.bytes[0] = 9;
	CHECK(!bpf_map_lookup_elem(&prefixes, &whole));
	CHECK(!bpf_map_delete_elem(&prefixes, &narrow));
	CHECK(!bpf_map_delete_elem(&prefixes, &wide));
	CHECK(bpf_map_delete_elem(&prefixes, &wide) == -2);
}

static __noinline void push_and_look(void)
{
	u64 one = 1, two = 2, value = 0;

	CHECK(!bpf_map_push_elem(&filter, &one, BPF_ANY));
	CHECK(!bpf_map_peek_elem(&filter, &one));
	CHECK(bpf_map_peek_elem(&filter, &two) == -2);
	CHECK(!bpf_map_push_elem(&stack, &one, BPF_ANY));
	CHECK(!bpf_map_push_elem(&stack, &two, BPF_ANY));
	CHECK(bpf_map_push_elem(&stack, &two, BPF_ANY) == -7);
	CHECK(!bpf_map_pop_elem(&stack, &value) && value == 2);
	CHECK(!bpf_map_pop_elem(&stack, &value) && value == 1);
	CHECK(bpf_map_pop_elem(&stack, &value) == -2);
}

static __noinline void write_records(void)
{
	u64 number = 7, back = 0, *place;
	struct bpf_dynptr record, memory;

	if (bpf_ringbuf_reserve_dynptr(&records, 16, 0, &record)) {
		bpf_ringbuf_discard_dynptr(&record, 0);
		CHECK(false);
	}
	CHECK(!bpf_dynptr_write(&record, 8, &number, sizeof(number), 0));
	CHECK(!bpf_dynptr_read(&back, sizeof(back), &record, 8, 0) && back == 7);
	CHECK(bpf_dynptr_write(&record, 16, &number, sizeof(number), 0) == -7);
	place = bpf_dynptr_data(&record, 8, sizeof(u64));
	CHECK(place && *place == 7);
	bpf_ringbuf_submit_dynptr(&record, 0);
	if (!bpf_ringbuf_reserve_dynptr(&records, 1 << 20, 0, &record))
		scx_bpf_error("there is no such room");
	bpf_ringbuf_discard_dynptr(&record, 0);
	CHECK(!bpf_dynptr_from_mem(numbers, sizeof(numbers), 0, &memory));
	CHECK(!bpf_dynptr_write(&memory, 8, &number, sizeof(number), 0) && numbers[1] == 7);
}

RUNNING()
{
	find_prefixes();
	push_and_look();
	write_records();
}

SCHEDULER;
