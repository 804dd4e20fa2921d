/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Compares look-ups that are instructions with those that are calls, because their map comes from
 * memory, and iterations with what the kernel's functions do. A difference is an error of this
 * scheduler. The kernel's defaults schedule.
 */
#include "fairground.bpf.h"

#define INT_MIN (-2147483647 - 1)
#define INT_MAX 2147483647
#define MOST (8 * 1024 * 1024)
#define E2BIG 7
#define EINVAL 22

struct value {
	u8 bytes[12];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 5);
	__type(key, u32);
	__type(value, struct value);
} array SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 3);
	__type(key, u32);
	__type(value, struct value);
} percpu_array SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct value);
} hash SEC(".maps");

/* The map at an address that no instruction of the program has. */
static __always_inline void *hidden(void *map)
{
	void *volatile place = map;

	return place;
}

#define CHECK(condition, number)                                             \
	do {                                                                 \
		if (!(condition))                                            \
			scx_bpf_error("%s: %d", #condition, (int)(number)); \
	} while (0)

static __noinline int compare_look_ups(u32 key)
{
	CHECK(bpf_map_lookup_elem(&array, &key) == bpf_map_lookup_elem(hidden(&array), &key), key);
	CHECK(!bpf_map_lookup_elem(&array, &key) == (key >= 5), key);
	CHECK(bpf_map_lookup_elem(&percpu_array, &key) ==
		      bpf_map_lookup_elem(hidden(&percpu_array), &key),
	      key);
	CHECK(!bpf_map_lookup_elem(&percpu_array, &key) == (key >= 3), key);
	CHECK(!bpf_map_lookup_elem(&hash, &key), key);
	return 0;
}

static __noinline int compare_look_ups_of_cpu(u32 key, u32 cpu)
{
	void *own = bpf_map_lookup_elem(&percpu_array, &key);

	CHECK(bpf_map_lookup_percpu_elem(&percpu_array, &key, cpu) ==
	      bpf_map_lookup_percpu_elem(hidden(&percpu_array), &key, cpu), cpu);
	CHECK(!bpf_map_lookup_percpu_elem(&percpu_array, &key, cpu) == (key >= 3 || cpu >= CPUS),
	      cpu);
	if (own && cpu < CPUS)
		CHECK((bpf_map_lookup_percpu_elem(&percpu_array, &key, cpu) == own) ==
		      (cpu == bpf_get_smp_processor_id()), cpu);
	return 0;
}

/* How many numbers an iteration begun with `result` visits, at most 10; the first is `start`. */
static __noinline int compare_numbers(s32 start, s32 end, int result, int count)
{
	struct bpf_iter_num iterator;
	int visited = 0, *number, i;

	CHECK(bpf_iter_num_new(&iterator, start, end) == result, start);
	for (i = 0; i < 10; i++) {
		number = bpf_iter_num_next(&iterator);
		if (!number)
			break;
		CHECK(*number == start + visited, *number);
		visited++;
	}
	CHECK(visited == count, visited);
	bpf_iter_num_destroy(&iterator);
	return 0;
}

void BPF_STRUCT_OPS(replaced_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 i, key;

	CHECK(bpf_get_smp_processor_id() == cpu, cpu);
	for (i = 0; i < 8; i++) {
		key = i < 7 ? i : -1;
		compare_look_ups(key);
		compare_look_ups_of_cpu(key, 0);
		compare_look_ups_of_cpu(key, CPUS - 1);
		compare_look_ups_of_cpu(key, CPUS);
		compare_look_ups_of_cpu(key, -1);
	}
	compare_numbers(0, 0, 0, 0);
	compare_numbers(-3, 2, 0, 5);
	compare_numbers(5, 2, -EINVAL, 0);
	compare_numbers(0, MOST, 0, 10);
	compare_numbers(-1, MOST, -E2BIG, 0);
	compare_numbers(INT_MIN, INT_MAX, -E2BIG, 0);
	compare_numbers(INT_MAX, INT_MIN, -EINVAL, 0);
	compare_numbers(INT_MAX - 2, INT_MAX, 0, 2);
	compare_numbers(INT_MIN, INT_MIN + 1, 0, 1);
}

DEFINE_SCHEDULER(replaced, .dispatch = (void *)replaced_dispatch, .name = "replaced");
