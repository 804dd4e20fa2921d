/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	bpf_rcu_read_lock();		/* refused: the critical section of RCU is not left */
	numbers[0]++;
}

SCHEDULER;
