/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

u64 scx_bpf_of_the_future(void) __ksym __weak;
u64 scx_bpf_of_tomorrow(void) __ksym __weak;

RUNNING()
{
	if (bpf_ksym_exists(scx_bpf_of_tomorrow))
		numbers[0] = scx_bpf_of_tomorrow();
	if (zero)
		numbers[0] = scx_bpf_of_the_future();		/* refused: called scx_bpf_of_the_future(), which this kernel does not have, without a test */
}

SCHEDULER;
