/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Says which macros of the command line it was built with. */
#include "fairground.bpf.h"

#ifndef NUMBER
#define NUMBER 1
#endif

s32 BPF_STRUCT_OPS_SLEEPABLE(named_init)
{
#ifdef NAMED
	bpf_printk("named, number %d", NUMBER);
#else
	bpf_printk("nameless, number %d", NUMBER);
#endif
	return 0;
}

DEFINE_SCHEDULER(named,
	.init = (void *)named_init,
	.name = "named");
