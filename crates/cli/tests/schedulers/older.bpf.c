/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls itself as a scheduler of scx does, and has most of the variables that that one's loader
 * sets, some of them in another form; with one macro nothing of that, with another what a release
 * before had. It inserts a task where it was, which is not allowed if it is asked again at once
 * whenever the task cannot run there.
 */
#include "fairground.bpf.h"

#ifndef OTHER
const volatile u64 slice_ns = 1000000, slice_lag = 20000000, busy_threshold;
const volatile bool smt_enabled, primary_all;
const volatile u64 cpu_capacity = 1024;
#ifdef FORMER
const volatile u64 preferred_cpus[64];
const volatile bool preferred_idle_scan;
#endif
#else
const volatile u64 slice_ns = 1000000;
#endif

void BPF_STRUCT_OPS(older_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | scx_bpf_task_cpu(p), slice_ns, enq_flags);
}

DEFINE_SCHEDULER(older, .enqueue = (void *)older_enqueue, .name = "beerland");
