/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Locks that may fail: a lock that the program holds is not given a second time. */
#include "one_callback.h"

int bpf_res_spin_lock(struct bpf_res_spin_lock *lock) __ksym;
void bpf_res_spin_unlock(struct bpf_res_spin_lock *lock) __ksym;

struct bpf_res_spin_lock first SEC(".data.first");
struct bpf_res_spin_lock second SEC(".data.second");

static int take(struct bpf_res_spin_lock *lock)
{
	return bpf_res_spin_lock(lock) ? -EBUSY : 0;
}

RUNNING()
{
	if (take(&first))
		return;
	if (take(&second)) {
		bpf_res_spin_unlock(&first);
		return;
	}
	numbers[p->pid & 3]++;
	if (!take(&first))
		scx_bpf_error("the same lock twice");
	bpf_res_spin_unlock(&second);
	bpf_res_spin_unlock(&first);
}

SCHEDULER;
