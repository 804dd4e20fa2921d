/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Locks that every way lets go, and atomic operations. */
#include "one_callback.h"

u64 word = 1, old;
u32 narrow;

static int change(struct locked *at, u64 by)
{
	bpf_spin_lock(&at->lock);
	if (at->number > 100) {
		at->number = 0;
		bpf_spin_unlock(&at->lock);
		return -1;
	}
	at->number += by;
	bpf_spin_unlock(&at->lock);
	return 0;
}

RUNNING()
{
	u32 first = 0, second = 1;
	struct locked *a = bpf_map_lookup_elem(&locks, &first);
	struct locked *b = bpf_map_lookup_elem(&locks, &second);
	u64 number;

	if (!a || !b)
		return;
	if (change(a, 3))
		change(b, 1);
	bpf_spin_lock(&b->lock);
	number = b->number;
	for (int i = 0; i < 4; i++)
		number += i;
	b->number = number;
	bpf_spin_unlock(&b->lock);
	__sync_fetch_and_add(&word, number);
	old = __sync_val_compare_and_swap(&word, number, 1);
	__sync_fetch_and_or(&narrow, 4);
	__sync_fetch_and_and(&narrow, ~1U);
	old += __sync_lock_test_and_set(&word, 7);
	__sync_fetch_and_add(&numbers[p->pid & 3], 1);
}

SCHEDULER;
