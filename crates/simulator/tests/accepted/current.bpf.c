/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Helpers about the running task: all are in the root group, which has the id 1, and root's. */
#include "one_callback.h"

#define CHECK(condition)					\
	do {							\
		if (!(condition))				\
			scx_bpf_error("not so: " #condition);	\
	} while (0)

RUNNING()
{
	struct bpf_pidns_info info = {};
	char text[] = "-12 apples";
	unsigned long natural = 0;
	long number = 0;
	u64 word = 1;

	CHECK(bpf_get_current_cgroup_id() == 1);
	CHECK(bpf_get_current_ancestor_cgroup_id(0) == 1);
	CHECK(bpf_get_current_ancestor_cgroup_id(1) == 0);
	CHECK(bpf_get_current_uid_gid() == 0);
	CHECK(bpf_get_ns_current_pid_tgid(4, 0xeffffffc, &info, sizeof(info)) == 0);
	CHECK(info.pid == (u32)bpf_get_current_pid_tgid());
	CHECK(bpf_get_ns_current_pid_tgid(4, 1, &info, sizeof(info)) == -22 && info.pid == 0);
	CHECK(bpf_probe_read_user(&word, sizeof(word), (void *)0x1000) == -14 && word == 0);
	CHECK(bpf_strtol(text, sizeof(text), 10, &number) == 3 && number == -12);
	CHECK(bpf_strtoul(text, sizeof(text), 10, &natural) < 0);
	CHECK(bpf_ktime_get_tai_ns() == bpf_ktime_get_boot_ns());
}

SCHEDULER;
