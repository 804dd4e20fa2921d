/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

int bpf_res_spin_lock(struct bpf_res_spin_lock *lock) __ksym;
void bpf_res_spin_unlock(struct bpf_res_spin_lock *lock) __ksym;

struct bpf_res_spin_lock lock SEC(".data.lock");

RUNNING()
{
	if (bpf_res_spin_lock(&lock))		/* refused: ends without releasing a spin lock */
		return;
	numbers[0]++;
}

SCHEDULER;
