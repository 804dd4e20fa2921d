/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prints in which state tasks go to sleep and with which flags they are woken. The kernel's
 * defaults schedule.
 */
#include "fairground.bpf.h"

char _license[] SEC("license") = "GPL";

void BPF_STRUCT_OPS(waits_quiescent, struct task_struct *p, u64 deq_flags)
{
	const struct pt_regs *registers = (const struct pt_regs *)bpf_task_pt_regs(p);

	if (deq_flags & SCX_DEQ_SLEEP)
		bpf_printk("%s sleeps in state %d, for a disk %d, in call %d", p->comm, p->__state,
			   p->in_iowait, (int)registers->orig_ax);
}

s32 BPF_STRUCT_OPS(waits_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool idle = false;

	bpf_printk("%s woken with 0x%llx", p->comm, wake_flags);
	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);
}

void BPF_STRUCT_OPS(waits_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, 20000000, enq_flags);
}

SEC(".struct_ops.link")
struct sched_ext_ops waits_ops = {
	.select_cpu = (void *)waits_select_cpu,
	.enqueue = (void *)waits_enqueue,
	.quiescent = (void *)waits_quiescent,
	.name = "waits",
};
