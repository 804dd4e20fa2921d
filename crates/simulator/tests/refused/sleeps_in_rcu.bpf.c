/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "one_callback.h"

s32 BPF_STRUCT_OPS_SLEEPABLE(refused_init)
{
	s32 result;

	bpf_rcu_read_lock();
	result = scx_bpf_create_dsq(7, -1);		/* refused: scx_bpf_create_dsq() may sleep within the critical section of RCU */
	bpf_rcu_read_unlock();
	return result;
}

DEFINE_SCHEDULER(refused, .init = (void *)refused_init, .name = "refused");
