/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

RUNNING()
{
	bpf_rcu_read_unlock();		/* refused: leaves the critical section of RCU, which the program is not in */
}

SCHEDULER;
