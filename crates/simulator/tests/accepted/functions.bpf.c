/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions of the program's own: called back, called with pointers to the stack, with many
 * arguments, one below the other.
 */
#include "one_callback.h"

struct sum {
	u64 total;
	u32 rounds;
	u32 limit;
};

static long add(u32 number, struct sum *sum)
{
	if (number >= sum->limit)
		return 1;
	sum->total += number;
	sum->rounds++;
	return 0;
}

static long visit(struct bpf_map *map, const u32 *key, struct value *value, struct sum *sum)
{
	sum->total += *key + value->numbers[0];
	value->numbers[1]++;
	return 0;
}

__noinline int weigh(u64 a, u64 b, u64 c, u64 d)
{
	return a + b * 2 + c * 3 + d * 4;
}

static __noinline void fill(u64 *cells, u32 count)
{
	for (u32 i = 0; i < 4 && i < count; i++)
		cells[i] = i;
}

static __noinline u64 last(struct task_struct *p, const u64 *cells)
{
	return cells[3] + p->pid;
}

RUNNING()
{
	struct sum sum = { .limit = 6 };
	u64 cells[4];

	bpf_loop(10, add, &sum, 0);
	if (sum.rounds != 6 || sum.total != 15)
		scx_bpf_error("%u rounds, %llu", sum.rounds, sum.total);
	bpf_for_each_map_elem(&array, visit, &sum, 0);
	fill(cells, 4);
	numbers[0] = weigh(cells[0], cells[1], sum.total, last(p, cells));
	numbers[1] = BPF_CORE_READ(p, group_leader, pid);
	bpf_printk("%s[%d]: %llu %u %d", p->comm, p->pid, numbers[0], sum.rounds, p->prio);
}

SCHEDULER;
