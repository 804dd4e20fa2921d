/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Inserts tasks by a function that kernels had up to Linux 6.18 under another name, and has a flag
 * that they know no more.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

#ifdef WRAPPED
/* No kernel of today has this name */
static inline void scx_bpf_dispatch(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, dsq_id, slice, enq_flags);
}
#endif

SEC("struct_ops/former_enqueue")
int BPF_PROG(former_enqueue, struct task_struct *p, u64 enq_flags)
{
#ifdef FLAGS
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, 5000000, enq_flags);
#else
	scx_bpf_dispatch(p, SCX_DSQ_GLOBAL, 5000000, enq_flags);
#endif
	return 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops former = {
	.enqueue = (void *)former_enqueue,
#ifdef FLAGS
	.flags = SCX_OPS_HAS_CGROUP_WEIGHT,
#endif
	.name = "former",
};
