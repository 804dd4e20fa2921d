// SPDX-License-Identifier: GPL-2.0-or-later
/* A BPF object without a scheduler. */
#include "fairground.bpf.h"

char _license[] SEC("license") = "GPL";

SEC("syscall")
int nothing(void *context)
{
	return 0;
}
