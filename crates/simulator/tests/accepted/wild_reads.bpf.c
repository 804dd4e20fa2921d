/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel says that there is nothing to read, and the buffer holds zeros. Loads yield 0. */
#include "one_callback.h"

void *bpf_rdonly_cast(const void *obj__ign, u32 btf_id__k) __ksym;
void scx_bpf_error_bstr(char *fmt, unsigned long long *data, u32 data__sz) __ksym;

static const u64 nowhere[] = {
	0, 8, 4096, 0xdeadbeef000, 0x7fffffffe000, 1ull << 47, 1ull << 63, ~4095ull, ~0ull,
};

RUNNING()
{
	unsigned long long arguments[2];
	static char text[] = "%llx: %lld";
	u64 word;
	char name[16];
	int i;

	bpf_for(i, 0, 9) {
		word = 1;
		arguments[0] = nowhere[i];
		arguments[1] = bpf_probe_read_kernel(&word, sizeof(word), (void *)nowhere[i]);
		if (arguments[1] != -14 || word)
			scx_bpf_error_bstr(text, arguments, sizeof(arguments));
		arguments[1] = bpf_probe_read_kernel_str(name, sizeof(name), (void *)nowhere[i]);
		if (arguments[1] != -14 || name[0])
			scx_bpf_error_bstr(text, arguments, sizeof(arguments));
		arguments[1] = bpf_core_cast((void *)nowhere[i], struct task_struct)->pid;
		if (nowhere[i])
			arguments[1] += *(u64 *)bpf_rdonly_cast((void *)nowhere[i], 0);
		if (arguments[1])
			scx_bpf_error_bstr(text, arguments, sizeof(arguments));
	}
	if (bpf_core_cast(p, struct task_struct)->pid != p->pid)
		scx_bpf_error_bstr(text, arguments, sizeof(arguments));
	if (bpf_probe_read_kernel(&word, sizeof(word), &p->pid) || (u32)word != p->pid)
		scx_bpf_error_bstr(text, arguments, sizeof(arguments));
	if (bpf_probe_read_kernel_str(name, sizeof(name), p->comm) != 4 || name[0] != 't')
		scx_bpf_error_bstr(text, arguments, sizeof(arguments));
}

SCHEDULER;
