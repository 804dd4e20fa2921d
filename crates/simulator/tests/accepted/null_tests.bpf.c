/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pointers that may be NULL, tested in all the ways that people test them. */
#include "one_callback.h"

static struct value *look(u32 key)
{
	return bpf_map_lookup_elem(&array, &key);
}

static __noinline struct value *look_apart(u32 key)
{
	return bpf_map_lookup_elem(&hash, &key);
}

static u64 first_of(struct value *value)
{
	return value ? value->numbers[0] : 0;
}

RUNNING()
{
	struct value *a = look(0), *b = look(1), *c, *d;
	u32 zero = 0, one = 1;

	if (!a || !b)
		return;
	a->numbers[0] += b->numbers[1];
	if ((c = look(2)) && (d = look(3)) && c->numbers[0] <= d->numbers[0])
		c->numbers[0] = d->numbers[0] + 1;
	c = look_apart(0);
	if (c == NULL) {
		struct value fresh = {};

		bpf_map_update_elem(&hash, &zero, &fresh, BPF_NOEXIST);
		c = bpf_map_lookup_elem(&hash, &zero);
		if (!c)
			return;
	}
	c->numbers[1]++;
	numbers[0] = first_of(look(1)) + first_of(bpf_map_lookup_elem(&per_cpu, &one));
	d = p->pid & 1 ? look(0) : look(1);
	if (d)
		d->numbers[2]++;
	d = NULL;
	if (p->pid & 2)
		d = a;
	if (d)
		d->numbers[3]++;
}

void BPF_STRUCT_OPS(accepted_dispatch, s32 cpu, struct task_struct *prev)
{
	if (prev && prev->scx.flags & SCX_TASK_QUEUED)
		numbers[1] += prev->pid;
	if (!prev)
		return;
	numbers[2] = prev->se.sum_exec_runtime;
}

bool BPF_STRUCT_OPS(accepted_yield, struct task_struct *from, struct task_struct *to)
{
	return to != NULL && to->pid == from->pid;
}

DEFINE_SCHEDULER(accepted,
	.running = (void *)one_running,
	.dispatch = (void *)accepted_dispatch,
	.yield = (void *)accepted_yield,
	.name = "accepted");
