// SPDX-License-Identifier: GPL-2.0-or-later
/* An object with two schedulers, of which a loader cannot know by itself which is meant. */
#include "fairground.bpf.h"

char _license[] SEC("license") = "GPL";

SEC(".struct_ops.link")
struct sched_ext_ops one = { .name = "one" };

SEC(".struct_ops.link")
struct sched_ext_ops other = { .name = "the_other_one" };
