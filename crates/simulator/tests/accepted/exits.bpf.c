/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Goes on its own accord, with a code, from the first tick. */
#include "one_callback.h"

void scx_bpf_exit_bstr(s64 exit_code, char *fmt, unsigned long long *data, u32 data__sz) __ksym;

void BPF_STRUCT_OPS(exits_tick, struct task_struct *p)
{
	unsigned long long arguments[] = { p->pid };
	static char text[] = "%d";

	scx_bpf_exit_bstr(5, text, arguments, sizeof(arguments));
}

SEC("syscall")
int leave(void *context)
{
	unsigned long long none[1] = {};
	static char text[] = "asked";

	scx_bpf_exit_bstr(0xdead, text, none, 0);
	return 0;
}

DEFINE_SCHEDULER(exits, .tick = (void *)exits_tick, .name = "exits");
