/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Indices that are bounded in all the ways that people bound them. */
#include "one_callback.h"

struct row {
	u32 cells[8];
	u8 tail;
};

struct row rows[16];
static const u32 table[5] = { 1, 2, 4, 8, 16 };
const volatile u32 count = 4;

static __noinline u32 level(u32 number)
{
	if (number < 2)
		return 0;
	if (number < 4)
		return 1;
	return number < 8 ? 2 : 3;
}

RUNNING()
{
	u64 on_stack[8] = {};
	u32 cpu = bpf_get_smp_processor_id();
	s32 wanted = p->pid - 1000;
	u64 time = bpf_ktime_get_ns();
	u32 random = bpf_get_prandom_u32();
	u32 key = random & 3;
	struct value *value;
	int i;

	if (cpu < 4)
		numbers[cpu]++;
	if (wanted >= 0 && wanted < 4)
		numbers[wanted]++;
	if (wanted > -1 && 3 >= wanted)
		numbers[wanted] += 2;
	numbers[time % 4]++;
	numbers[random & 3] += table[random % 5];
	numbers[level(random)]++;
	numbers[(u8)random >> 6]++;
	rows[random % 16].cells[time % 8]++;
	rows[(random >> 8) & 15].tail = random;
	on_stack[random & 7] = time;
	on_stack[7 - (random & 7)] += on_stack[time % 8];
	for (i = 0; i < 8; i++)
		on_stack[i] += i;
	bpf_for(i, 0, count) {
		if (i >= 4)
			break;
		numbers[i] += on_stack[i];
	}
	for (u32 at = 0; at < count && at < 4; at++)
		numbers[at]++;
	value = bpf_map_lookup_elem(&array, &key);
	if (value) {
		value->numbers[key]++;
		value->numbers[3 - key] += on_stack[0];
		*(value->numbers + (time & 3)) = 1;
	}
	key = random < 3 ? random : 3;
	numbers[key]++;
	if (random < 16) {
		struct row *row = &rows[random];

		for (i = 7; i >= 0; i--)
			row->cells[i] = i;
		if (row - rows != random)
			scx_bpf_error("another row");
	}
}

SCHEDULER;
